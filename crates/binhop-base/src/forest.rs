//! `Forest` holds ordered maps that share their common entries. A copy of a map costs O(1), and a change
//! copies one path of its tree.
//!
//! All maps lie in one [`Forest`], and a map is the number of its root. Nodes and entries count their
//! holders. Releasing a map frees the entries that no other map holds, and [`Forest::take_released`] reports
//! them. The trees are treaps whose priorities are hashes of the keys: a change costs O(log n) expected,
//! whatever the order of the keys.

use alloc::vec::Vec;

/// `Root` is a map: the root of its tree. Every [`Root`] but [`Root::EMPTY`] holds a node and must be
/// released to its forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root(u32);

impl Root {
    /// The empty map.
    pub const EMPTY: Self = Self(NIL);
}

impl Default for Root {
    fn default() -> Self {
        Self::EMPTY
    }
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: u32,
    left: u32,
    right: u32,
    /// The number of nodes and roots that lead to this node; 0 if the node is free.
    refs: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    key: u64,
    value: T,
    /// The number of nodes that hold the entry; 0 if the entry is free.
    refs: u32,
}

/// `Forest` holds many ordered maps from `u64` to `T`.
#[derive(Debug)]
pub struct Forest<T> {
    nodes: Vec<Node>,
    entries: Vec<Entry<T>>,
    free_nodes: Vec<u32>,
    free_entries: Vec<u32>,
    /// Entries that no map holds any more and that [`Forest::take_released`] has not reported.
    released: Vec<(u64, T)>,
    /// The number of nodes that changes have visited.
    steps: u64,
}

/// Returns the priority of a key, which orders nodes from the root down: a mix of the key's bits
/// (SplitMix64's).
#[inline]
#[must_use]
pub fn priority(key: u64) -> u64 {
    let mut mixed = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl<T: Copy> Default for Forest<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Forest<T> {
    /// Makes a forest without maps.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            entries: Vec::new(),
            free_nodes: Vec::new(),
            free_entries: Vec::new(),
            released: Vec::new(),
            steps: 0,
        }
    }

    /// Returns the number of nodes that changes have visited so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn key(&self, node: u32) -> u64 {
        self.entries[self.nodes[node as usize].entry as usize].key
    }

    fn pair(&self, node: u32) -> (u64, T) {
        let entry = &self.entries[self.nodes[node as usize].entry as usize];
        (entry.key, entry.value)
    }

    /// Returns the entry with the largest key up to `key`.
    #[must_use]
    pub fn at_or_below(&self, map: Root, key: u64) -> Option<(u64, T)> {
        let (mut node, mut best) = (map.0, NIL);
        while node != NIL {
            if self.key(node) <= key {
                best = node;
                node = self.nodes[node as usize].right;
            } else {
                node = self.nodes[node as usize].left;
            }
        }
        (best != NIL).then(|| self.pair(best))
    }

    /// Returns the entry with the smallest key from `key` on.
    #[must_use]
    pub fn at_or_above(&self, map: Root, key: u64) -> Option<(u64, T)> {
        let (mut node, mut best) = (map.0, NIL);
        while node != NIL {
            if self.key(node) >= key {
                best = node;
                node = self.nodes[node as usize].left;
            } else {
                node = self.nodes[node as usize].right;
            }
        }
        (best != NIL).then(|| self.pair(best))
    }

    /// Returns the entries with keys from `first` to `last`, in order.
    pub fn range(&self, map: Root, first: u64, last: u64) -> impl Iterator<Item = (u64, T)> {
        let mut path = Vec::new();
        self.descend(map.0, first, &mut path);
        core::iter::from_fn(move || {
            let node = path.pop()?;
            let pair = self.pair(node);
            self.descend(self.nodes[node as usize].right, first, &mut path);
            (pair.0 <= last).then_some(pair)
        })
    }

    /// Walks down to the smallest key from `first` on. Pushes each node on the way whose key is at least `first`.
    fn descend(&self, mut node: u32, first: u64, path: &mut Vec<u32>) {
        while node != NIL {
            if self.key(node) >= first {
                path.push(node);
                node = self.nodes[node as usize].left;
            } else {
                node = self.nodes[node as usize].right;
            }
        }
    }

    /// Returns a copy of a map, which shares all its nodes.
    pub fn share(&mut self, map: Root) -> Root {
        if map.0 != NIL {
            self.nodes[map.0 as usize].refs += 1;
        }
        map
    }

    /// Releases a map.
    pub fn release(&mut self, map: Root) {
        self.release_node(map.0);
    }

    /// Inserts an entry. The map must not hold its key.
    pub fn insert(&mut self, map: Root, key: u64, value: T) -> Root {
        let entry = Entry { key, value, refs: 1 };
        let entry = place(&mut self.entries, &mut self.free_entries, entry);
        let node = Node { entry, left: NIL, right: NIL, refs: 1 };
        let fresh = place(&mut self.nodes, &mut self.free_nodes, node);
        Root(self.insert_node(map.0, fresh))
    }

    /// Removes the entry of a key, if there is one.
    pub fn remove(&mut self, map: Root, key: u64) -> Root {
        if self.at_or_below(map, key).is_some_and(|(found, _)| found == key) {
            Root(self.remove_node(map.0, key))
        } else {
            map
        }
    }

    /// Removes all entries with keys from `first` to `last`. Shared nodes are not visited.
    pub fn remove_range(&mut self, map: Root, first: u64, last: u64) -> Root {
        if self.at_or_above(map, first).is_none_or(|(key, _)| key > last) {
            return map;
        }
        let (below, rest) = self.split(map.0, first);
        let (inside, above) = match last.checked_add(1) {
            Some(next) => self.split(rest, next),
            None => (rest, NIL),
        };
        self.release_node(inside);
        Root(self.merge(below, above))
    }

    /// Returns the entries that have lost their last map since the previous call.
    pub fn take_released(&mut self) -> Vec<(u64, T)> {
        core::mem::take(&mut self.released)
    }

    /// Drops the entries that [`Forest::take_released`] would return.
    pub fn forget_released(&mut self) {
        self.released.clear();
    }

    /// Returns a node that may be changed: the node itself if it has one holder, or a copy.
    fn own(&mut self, node: u32) -> u32 {
        self.steps += 1;
        let mut copy = self.nodes[node as usize];
        if copy.refs == 1 {
            return node;
        }
        self.nodes[node as usize].refs -= 1;
        self.entries[copy.entry as usize].refs += 1;
        for child in [copy.left, copy.right] {
            if child != NIL {
                self.nodes[child as usize].refs += 1;
            }
        }
        copy.refs = 1;
        place(&mut self.nodes, &mut self.free_nodes, copy)
    }

    /// Splits a tree into the keys below `key` and the keys from `key` on.
    fn split(&mut self, node: u32, key: u64) -> (u32, u32) {
        if node == NIL {
            return (NIL, NIL);
        }
        let node = self.own(node);
        if self.key(node) < key {
            let (below, above) = self.split(self.nodes[node as usize].right, key);
            self.nodes[node as usize].right = below;
            (node, above)
        } else {
            let (below, above) = self.split(self.nodes[node as usize].left, key);
            self.nodes[node as usize].left = above;
            (below, node)
        }
    }

    /// Merges two trees. Every key of the first tree lies below every key of the second tree.
    fn merge(&mut self, low: u32, high: u32) -> u32 {
        if low == NIL || high == NIL {
            return if low == NIL { high } else { low };
        }
        if priority(self.key(low)) > priority(self.key(high)) {
            let low = self.own(low);
            let right = self.merge(self.nodes[low as usize].right, high);
            self.nodes[low as usize].right = right;
            low
        } else {
            let high = self.own(high);
            let left = self.merge(low, self.nodes[high as usize].left);
            self.nodes[high as usize].left = left;
            high
        }
    }

    fn insert_node(&mut self, node: u32, fresh: u32) -> u32 {
        if node == NIL {
            return fresh;
        }
        let key = self.key(fresh);
        debug_assert_ne!(self.key(node), key, "a key is put in once");
        if priority(key) > priority(self.key(node)) {
            let (below, above) = self.split(node, key);
            self.nodes[fresh as usize].left = below;
            self.nodes[fresh as usize].right = above;
            return fresh;
        }
        let node = self.own(node);
        if key < self.key(node) {
            let left = self.insert_node(self.nodes[node as usize].left, fresh);
            self.nodes[node as usize].left = left;
        } else {
            let right = self.insert_node(self.nodes[node as usize].right, fresh);
            self.nodes[node as usize].right = right;
        }
        node
    }

    fn remove_node(&mut self, node: u32, key: u64) -> u32 {
        let node = self.own(node);
        let Node { entry, left, right, .. } = self.nodes[node as usize];
        match key.cmp(&self.key(node)) {
            core::cmp::Ordering::Less => {
                let left = self.remove_node(left, key);
                self.nodes[node as usize].left = left;
                node
            }
            core::cmp::Ordering::Greater => {
                let right = self.remove_node(right, key);
                self.nodes[node as usize].right = right;
                node
            }
            core::cmp::Ordering::Equal => {
                self.free(node, entry);
                self.merge(left, right)
            }
        }
    }

    fn release_node(&mut self, node: u32) {
        if node == NIL {
            return;
        }
        self.steps += 1;
        let Node { entry, left, right, refs } = self.nodes[node as usize];
        if refs > 1 {
            self.nodes[node as usize].refs -= 1;
            return;
        }
        self.free(node, entry);
        self.release_node(left);
        self.release_node(right);
    }

    /// Frees a node without holders, and its entry if no other node holds the entry.
    fn free(&mut self, node: u32, entry: u32) {
        self.nodes[node as usize].refs = 0;
        self.free_nodes.push(node);
        let held = &mut self.entries[entry as usize];
        held.refs -= 1;
        if held.refs == 0 {
            self.released.push((held.key, held.value));
            self.free_entries.push(entry);
        }
    }
}

/// Puts a value into a free slot, or at the end. Returns the number of the slot.
fn place<T>(all: &mut Vec<T>, free: &mut Vec<u32>, new: T) -> u32 {
    if let Some(number) = free.pop() {
        all[number as usize] = new;
        return number;
    }
    all.push(new);
    (all.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Random changes to maps that are copied from each other give the same maps as changes to maps that
    /// share nothing.
    #[test]
    fn maps_that_share_are_as_maps_that_do_not() {
        const MAPS: usize = 6;
        let mut forest = Forest::new();
        let mut roots = [Root::EMPTY; MAPS];
        let mut models: [BTreeMap<u64, u32>; MAPS] = Default::default();
        let mut state = 1;
        let mut draw = |n: u64| {
            state = priority(state);
            state % n
        };
        let mut inserted = 0;
        for step in 0..20_000u32 {
            let (map, key) = (draw(MAPS as u64) as usize, draw(64));
            match draw(8) {
                0..=3 => {
                    if models[map].insert(key, step).is_none() {
                        roots[map] = forest.insert(roots[map], key, step);
                    } else {
                        roots[map] = forest.remove(roots[map], key);
                        roots[map] = forest.insert(roots[map], key, step);
                    }
                    inserted += 1;
                }
                4 | 5 => {
                    models[map].remove(&key);
                    roots[map] = forest.remove(roots[map], key);
                }
                6 => {
                    let last = key + draw(20);
                    models[map].retain(|&at, _| at < key || at > last);
                    roots[map] = forest.remove_range(roots[map], key, last);
                }
                _ => {
                    let from = draw(MAPS as u64) as usize;
                    let copy = forest.share(roots[from]);
                    forest.release(roots[map]);
                    roots[map] = copy;
                    models[map] = models[from].clone();
                }
            }
            let model = &models[map];
            assert!(forest.range(roots[map], 0, u64::MAX).eq(model.iter().map(|(&k, &v)| (k, v))));
            let pair = |(&k, &v): (&u64, &u32)| (k, v);
            assert_eq!(forest.at_or_below(roots[map], key), model.range(..=key).next_back().map(pair));
            assert_eq!(forest.at_or_above(roots[map], key), model.range(key..).next().map(pair));
        }
        roots.iter().for_each(|&root| forest.release(root));
        assert_eq!(forest.take_released().len(), inserted, "each entry goes once, with its last map");
        assert_eq!(forest.free_nodes.len(), forest.nodes.len());
        assert_eq!(forest.free_entries.len(), forest.entries.len());
    }

    #[test]
    fn a_copy_costs_nothing_and_a_change_of_it_a_path() {
        let mut forest = Forest::new();
        let mut map = Root::EMPTY;
        for key in 0..10_000 {
            map = forest.insert(map, key, ());
        }
        let (nodes, steps) = (forest.nodes.len(), forest.steps());
        let copies: Vec<Root> = (0..1000).map(|_| forest.share(map)).collect();
        assert_eq!((forest.nodes.len(), forest.steps()), (nodes, steps));
        for copy in copies {
            forest.remove(copy, 5000);
        }
        assert!(forest.nodes.len() - nodes < 1000 * 100, "{} nodes", forest.nodes.len() - nodes);
        assert_eq!(forest.take_released(), []);
    }
}
