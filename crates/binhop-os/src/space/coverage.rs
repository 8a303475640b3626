//! Coverage: the live pages of a segment that some address space still leads to.
//!
//! The maps of all spaces cover the pages of a segment with runs; a page dies when no run covers it. Runs and live pages
//! lie in one tree by number of page: a run is +1 at its first page and −1 behind its last, so what covers a page is the
//! sum of all that lies up to it. A node knows the sum of its subtree and the least cover of a live page in it.
//! To cover, to uncover and to find a page that is covered no more cost O(log n) expected, however long the runs.

use alloc::vec::Vec;

use binhop_base::PageId;
use binhop_base::forest::priority;

/// The coverage of one segment: the root of its tree.
#[derive(Clone, Copy)]
pub(super) struct Cover(u32);

impl Cover {
    pub(super) const NONE: Self = Self(NIL);
}

const NIL: u32 = u32::MAX;
/// The cover of no page: more than any.
const NO_PAGE: i32 = i32::MAX / 2;

#[derive(Clone, Copy)]
struct Node {
    key: u64,
    left: u32,
    right: u32,
    /// Runs that begin here, less those that ended just before.
    delta: i32,
    /// The live page of this number, or `NIL`.
    page: u32,
    sum: i32,
    least: i32,
}

/// The coverages of all segments.
#[derive(Default)]
pub(super) struct Coverage {
    nodes: Vec<Node>,
    free: Vec<u32>,
    steps: u64,
}

impl Coverage {
    /// Nodes gone through so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// One more run covers `first..=last`.
    pub(super) fn cover(&mut self, cover: &mut Cover, first: u64, last: u64) {
        self.add(cover, first, last, 1);
    }

    /// One run less covers `first..=last`. Pages that nothing covers now are taken by [`take_dead`](Self::take_dead).
    pub(super) fn uncover(&mut self, cover: &mut Cover, first: u64, last: u64) {
        self.add(cover, first, last, -1);
    }

    fn add(&mut self, cover: &mut Cover, first: u64, last: u64, change: i32) {
        cover.0 = self.change(cover.0, first, &mut |node| node.delta += change);
        if let Some(behind) = last.checked_add(1) {
            cover.0 = self.change(cover.0, behind, &mut |node| node.delta -= change);
        }
    }

    /// The live page of this number.
    pub(super) fn page(&self, cover: Cover, index: u64) -> Option<PageId> {
        let mut node = cover.0;
        while node != NIL {
            let at = &self.nodes[node as usize];
            match index.cmp(&at.key) {
                core::cmp::Ordering::Less => node = at.left,
                core::cmp::Ordering::Greater => node = at.right,
                core::cmp::Ordering::Equal => return (at.page != NIL).then_some(PageId(at.page)),
            }
        }
        None
    }

    /// A page comes to life. A run covers it.
    pub(super) fn add_page(&mut self, cover: &mut Cover, index: u64, page: PageId) {
        cover.0 = self.change(cover.0, index, &mut |node| node.page = page.0);
    }

    /// The live pages that no run covers: they are no longer there afterwards.
    pub(super) fn take_dead(&mut self, cover: &mut Cover, dead: &mut Vec<PageId>) {
        while cover.0 != NIL && self.nodes[cover.0 as usize].least <= 0 {
            let node = self.uncovered(cover.0);
            let Node { key, page, .. } = self.nodes[node as usize];
            dead.push(PageId(page));
            cover.0 = self.change(cover.0, key, &mut |node| node.page = NIL);
        }
    }

    /// The first live page that nothing covers; there is one.
    fn uncovered(&mut self, mut node: u32) -> u32 {
        let mut before = 0;
        loop {
            self.steps += 1;
            let Node { left, right, delta, page, .. } = self.nodes[node as usize];
            if before + self.least(left) <= 0 {
                node = left;
                continue;
            }
            before += self.sum(left) + delta;
            if page != NIL && before <= 0 {
                return node;
            }
            node = right;
        }
    }

    fn sum(&self, node: u32) -> i32 {
        if node == NIL { 0 } else { self.nodes[node as usize].sum }
    }

    fn least(&self, node: u32) -> i32 {
        if node == NIL { NO_PAGE } else { self.nodes[node as usize].least }
    }

    /// Works out what a node knows of its subtree.
    fn pull(&mut self, node: u32) {
        let Node { left, right, delta, page, .. } = self.nodes[node as usize];
        let here = self.sum(left) + delta;
        let own = if page == NIL { NO_PAGE } else { here };
        let least = self.least(left).min(own).min(here.saturating_add(self.least(right)));
        let at = &mut self.nodes[node as usize];
        at.least = least.min(NO_PAGE);
        at.sum = here;
        if right != NIL {
            self.nodes[node as usize].sum += self.nodes[right as usize].sum;
        }
    }

    /// Changes the node of a key, which is made if it must be, and goes if it says nothing. The new root.
    fn change(&mut self, node: u32, key: u64, change: &mut dyn FnMut(&mut Node)) -> u32 {
        self.steps += 1;
        if node == NIL {
            let mut new = Node { key, left: NIL, right: NIL, delta: 0, page: NIL, sum: 0, least: NO_PAGE };
            change(&mut new);
            return if new.delta == 0 && new.page == NIL { NIL } else { self.put(new) };
        }
        let Node { key: at, left, right, .. } = self.nodes[node as usize];
        let mut root = node;
        if key == at {
            change(&mut self.nodes[node as usize]);
            let Node { delta, page, .. } = self.nodes[node as usize];
            if delta == 0 && page == NIL {
                self.free.push(node);
                return self.merge(left, right);
            }
        } else if key < at {
            let child = self.change(left, key, change);
            self.nodes[node as usize].left = child;
            if child != NIL && priority(self.nodes[child as usize].key) > priority(at) {
                self.nodes[node as usize].left = self.nodes[child as usize].right;
                self.nodes[child as usize].right = node;
                self.pull(node);
                root = child;
            }
        } else {
            let child = self.change(right, key, change);
            self.nodes[node as usize].right = child;
            if child != NIL && priority(self.nodes[child as usize].key) > priority(at) {
                self.nodes[node as usize].right = self.nodes[child as usize].left;
                self.nodes[child as usize].left = node;
                self.pull(node);
                root = child;
            }
        }
        self.pull(root);
        root
    }

    fn merge(&mut self, low: u32, high: u32) -> u32 {
        if low == NIL || high == NIL {
            return if low == NIL { high } else { low };
        }
        self.steps += 1;
        let root = if priority(self.nodes[low as usize].key) > priority(self.nodes[high as usize].key) {
            let right = self.merge(self.nodes[low as usize].right, high);
            self.nodes[low as usize].right = right;
            low
        } else {
            let left = self.merge(low, self.nodes[high as usize].left);
            self.nodes[high as usize].left = left;
            high
        };
        self.pull(root);
        root
    }

    fn put(&mut self, node: Node) -> u32 {
        let number = match self.free.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.pull(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    #[test]
    fn pages_die_when_the_last_run_over_them_goes() {
        let mut coverage = Coverage::default();
        let mut covers = [Cover::NONE; 2];
        let mut runs: [Vec<(u64, u64)>; 2] = Default::default();
        let mut live: [BTreeMap<u64, PageId>; 2] = Default::default();
        let mut state = 7;
        let mut draw = |n: u64| {
            state = priority(state);
            state % n
        };
        let mut next = 0;
        for _ in 0..20_000 {
            let of = draw(2) as usize;
            let (cover, runs, live) = (&mut covers[of], &mut runs[of], &mut live[of]);
            let index = u64::MAX - draw(40);
            match draw(3) {
                0 => {
                    let first = index.saturating_sub(draw(12));
                    runs.push((first, index));
                    coverage.cover(cover, first, index);
                }
                1 if !runs.is_empty() => {
                    let (first, last) = runs.swap_remove(draw(runs.len() as u64) as usize);
                    coverage.uncover(cover, first, last);
                }
                _ => {
                    let covered = runs.iter().any(|&(first, last)| (first..=last).contains(&index));
                    if covered && !live.contains_key(&index) {
                        live.insert(index, PageId(next));
                        coverage.add_page(cover, index, PageId(next));
                        next += 1;
                    }
                }
            }
            let mut dead = Vec::new();
            coverage.take_dead(cover, &mut dead);
            let mut expected = Vec::new();
            live.retain(|&index, &mut page| {
                let covered = runs.iter().any(|&(first, last)| (first..=last).contains(&index));
                if !covered {
                    expected.push(page);
                }
                covered
            });
            assert_eq!(dead, expected);
            assert_eq!(coverage.page(*cover, index), live.get(&index).copied());
        }
        for (cover, runs) in covers.iter_mut().zip(runs) {
            runs.iter().for_each(|&(first, last)| coverage.uncover(cover, first, last));
            coverage.take_dead(cover, &mut Vec::new());
        }
        assert_eq!(coverage.free.len(), coverage.nodes.len());
    }
}
