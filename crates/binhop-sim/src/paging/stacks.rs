//! `Stacks` holds the LRU stacks of one color count. Each color has one stack, which is cut into groups at
//! the memory sizes.
//!
//! Let k₀ < k₁ < … be the frames of a color at the memory sizes asked for. Group 0 holds the k₀ most recent
//! pages, group 1 the next k₁ − k₀, and so on; a page beyond the largest size is in no list. A touch of a
//! page in group g is a fault at the g smallest sizes. The touch moves the page to group 0, and each group
//! before g, now too large by one page, passes its oldest page on to the next group. Only touches of group 0
//! cause no fault at any size. They are frequent, so group 0 is not kept in order (see [`Recent`]); the other
//! groups are linked lists, newest page first.

use super::recent::{Page, Recent};

/// The number that stands for no page.
const NONE: u32 = u32::MAX;

/// `Node` is the place of a page in a list.
#[derive(Clone, Copy)]
struct Node {
    newer: u32,
    older: u32,
    color: u32,
    group: u32,
}

/// `List` is a group behind group 0.
#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

pub(super) struct Stacks {
    /// The maximum number of pages in each group.
    room: Vec<u32>,
    recent: Vec<Recent>,
    /// The groups 1, 2, … of the first color, then of the next color, and so on.
    lists: Vec<List>,
    nodes: Vec<Node>,
    /// The touches that found their page in each group, without group 0. The last entry counts pages in no group.
    found: Vec<u64>,
}

impl Stacks {
    /// Makes empty stacks for `colors` colors. `frames` are the frames of one color at each memory size,
    /// ascending and without repetition.
    pub(super) fn new(colors: u64, frames: &[u32]) -> Self {
        let before = std::iter::once(0).chain(frames.iter().copied());
        let room: Vec<u32> = frames.iter().zip(before).map(|(&to, from)| to - from).collect();
        let empty = List { newest: NONE, oldest: NONE, len: 0 };
        Self {
            recent: (0..colors).map(|_| Recent::default()).collect(),
            lists: vec![empty; colors as usize * (room.len() - 1)],
            nodes: Vec::new(),
            found: vec![0; room.len() + 1],
            room,
        }
    }

    /// Admits a page that no stack has seen. The page gets the next number.
    pub(super) fn admit(&mut self, color: u64) {
        let group = self.room.len() as u32;
        self.nodes.push(Node { newer: NONE, older: NONE, color: color as u32, group });
    }

    /// Touches a page that is not in group 0, at the latest time. Returns the page that had to leave group 0.
    pub(super) fn touch(&mut self, page: u32, pages: &[Page]) -> Option<u32> {
        let Node { color, group, .. } = self.nodes[page as usize];
        self.found[group as usize] += 1;
        if (group as usize) < self.room.len() {
            self.unlink(page);
        }
        self.nodes[page as usize].group = 0;
        let recent = &mut self.recent[color as usize];
        recent.join(page);
        if recent.len() <= self.room[0] as usize {
            return None;
        }
        let left = recent.take_oldest(pages);
        let mut moving = left;
        for to in 1..self.room.len() as u32 {
            self.link(moving, to);
            let list = self.list(color, to);
            if self.lists[list].len <= self.room[to as usize] {
                return Some(left);
            }
            moving = self.lists[list].oldest;
            self.unlink(moving);
        }
        self.nodes[moving as usize].group = self.room.len() as u32;
        Some(left)
    }

    /// Returns the faults at each memory size, in order of the sizes.
    pub(super) fn faults(&self) -> Vec<u64> {
        (1..self.found.len()).map(|group| self.found[group..].iter().sum()).collect()
    }

    fn list(&self, color: u32, group: u32) -> usize {
        color as usize * (self.room.len() - 1) + group as usize - 1
    }

    /// Puts a page at the newest end of a list.
    fn link(&mut self, page: u32, group: u32) {
        let list = self.list(self.nodes[page as usize].color, group);
        let list = &mut self.lists[list];
        let older = std::mem::replace(&mut list.newest, page);
        list.len += 1;
        if older == NONE {
            list.oldest = page;
        } else {
            self.nodes[older as usize].newer = page;
        }
        let node = &mut self.nodes[page as usize];
        (node.newer, node.older, node.group) = (NONE, older, group);
    }

    /// Takes a page out of its list.
    fn unlink(&mut self, page: u32) {
        let Node { newer, older, color, group } = self.nodes[page as usize];
        let list = self.list(color, group);
        let list = &mut self.lists[list];
        list.len -= 1;
        match newer {
            NONE => list.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        let list = self.list(color, group);
        match older {
            NONE => self.lists[list].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}
