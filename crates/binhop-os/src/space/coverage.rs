//! `Coverage` holds the live pages of segments, and how many runs of address spaces' maps cover each page.
//!
//! The maps of all address spaces cover the pages of a segment with runs. A page dies when no run covers it.
//! Runs and live pages lie in one tree, by number of page. A run is +1 at its first page and −1 behind its
//! last page, so the number of runs over a page is the sum of all entries up to the page. A node knows the
//! sum of its subtree, and the least cover of a live page in the subtree. To cover, to uncover and to find an
//! uncovered page cost O(log n) expected each, whatever the length of the runs.

use alloc::vec::Vec;

use binhop_base::PageId;
use binhop_base::forest::priority;

/// `Cover` is the coverage of one segment: the root of its tree.
#[derive(Clone, Copy)]
pub(super) struct Cover(u32);

impl Cover {
    pub(super) const NONE: Self = Self(NIL);
}

const NIL: u32 = u32::MAX;
/// The least cover of a subtree without live pages. It is larger than any cover.
const NO_PAGE: i32 = i32::MAX / 2;

#[derive(Clone, Copy)]
struct Node {
    key: u64,
    left: u32,
    right: u32,
    /// The number of runs that begin here, less the number of runs that end just before.
    delta: i32,
    /// The live page with this number, or `NIL`.
    page: u32,
    sum: i32,
    least: i32,
}

/// `Coverage` holds the trees of all segments.
#[derive(Default)]
pub(super) struct Coverage {
    nodes: Vec<Node>,
    free: Vec<u32>,
    steps: u64,
}

impl Coverage {
    /// Returns the number of nodes visited so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds a run over `first..=last`.
    pub(super) fn cover(&mut self, cover: &mut Cover, first: u64, last: u64) {
        self.add(cover, first, last, 1);
    }

    /// Removes a run over `first..=last`. [`take_dead`](Self::take_dead) takes the pages that no run covers
    /// now.
    pub(super) fn uncover(&mut self, cover: &mut Cover, first: u64, last: u64) {
        self.add(cover, first, last, -1);
    }

    fn add(&mut self, cover: &mut Cover, first: u64, last: u64, change: i32) {
        cover.0 = self.change(cover.0, first, &mut |node| node.delta += change);
        if let Some(behind) = last.checked_add(1) {
            cover.0 = self.change(cover.0, behind, &mut |node| node.delta -= change);
        }
    }

    /// Returns the live page with a number.
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

    /// Adds a new live page. A run must cover the page.
    pub(super) fn add_page(&mut self, cover: &mut Cover, index: u64, page: PageId) {
        cover.0 = self.change(cover.0, index, &mut |node| node.page = page.0);
    }

    /// Takes out the live pages that no run covers.
    pub(super) fn take_dead(&mut self, cover: &mut Cover, dead: &mut Vec<PageId>) {
        while cover.0 != NIL && self.nodes[cover.0 as usize].least <= 0 {
            let node = self.uncovered(cover.0);
            let Node { key, page, .. } = self.nodes[node as usize];
            dead.push(PageId(page));
            cover.0 = self.change(cover.0, key, &mut |node| node.page = NIL);
        }
    }

    /// Finds the node of the first live page that no run covers. There must be such a page.
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

    /// Computes what a node knows about its subtree.
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

    /// Changes the node of a key. Makes the node if it is missing, and removes it if it is empty afterwards.
    /// Returns the new root.
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
    fn pages_die_when_no_run_covers_them() {
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
