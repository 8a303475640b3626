//! tree builds trees and searches them for the largest element, in compiled Scheme. It represents Tree (KH90
//! §4.1.1: "searches a large tree data structure (64 megabytes)"; LF91 Table 1: "building trees and searching
//! for the largest element").
//!
//! It builds a random binary tree of boxed numbers recursively, so that a subtree is contiguous. It searches
//! the newest tree again and again by a full recursive walk, and sometimes an older tree of the forest. Then
//! it builds the next tree. The forest keeps the last few trees. When the next tree might not fit, the heap
//! is collected (Cheney: breadth first, into the other semispace).
//!
//! Sizes: the two semispaces have 32 MB each. A tree has 48,000 nodes; a node with its number takes 32 bytes,
//! which makes 1.5 MB. LF91's Table 3 shows the same for the original: from 2 MB on there are almost no
//! faults, so the data that Tree walks repeatedly are between 1 and 2 MB. The program never ends: it
//! always builds another tree.

use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::heap::{Heap, HeapCode};
use crate::program::{Program, Status};

/// The program as a workload of its own.
pub(crate) const IMAGE: Image =
    Image { name: "tree", segment: 2, text: 128 << 10, data: 64 << 10, initialised: 16 << 10 };

const MAKE: u64 = TEXT + 0x2000;
const SEARCH: u64 = TEXT + 0x3100;
const COMPARE: u64 = TEXT + 0x4a00;
const CODE: HeapCode = HeapCode { allocate: TEXT + 0x8000, collect: TEXT + 0x9000 };
/// The forest: a Scheme vector of roots.
const ROOTS: u64 = DATA + 0x1800;

/// `TreeShape` says how large the trees and the heap are, and which trees are walked.
#[derive(Clone, Copy)]
pub(crate) struct TreeShape {
    /// Bytes of a semispace.
    pub(crate) half: u64,
    /// Nodes of a tree.
    pub(crate) nodes: u32,
    /// Trees kept.
    pub(crate) forest: usize,
    /// Walks of the newest tree before the next is built.
    pub(crate) walks: u32,
    /// One in `older` walks goes through a tree drawn from the whole forest.
    pub(crate) older: u64,
}

const SHAPE: TreeShape = TreeShape { half: 32 << 20, nodes: 48_000, forest: 6, walks: 16, older: 7 };

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Tree::new(draws, cpu, SHAPE))
}

enum TreePhase {
    Build,
    Walk,
    Collect,
}

/// `TreeFrame` is an open call: of `make` (nodes left to make, then subtrees) or of `search` (the node).
#[derive(Clone, Copy, Default)]
struct TreeFrame {
    node: u32,
    count: u32,
    stage: u8,
    key: u32,
    left: u32,
    best: f64,
}

/// `Tree` is the running program.
pub(crate) struct Tree {
    draws: DataRng,
    shape: TreeShape,
    heap: Heap,
    phase: TreePhase,
    forest: Vec<u32>,
    frames: Vec<TreeFrame>,
    /// The results of the last call.
    tree: u32,
    largest: f64,
    walks: u32,
}

impl Tree {
    pub(crate) fn new(draws: DataRng, cpu: &mut Cpu, shape: TreeShape) -> Self {
        let heap = Heap::new(cpu, shape.half, CODE);
        let mut tree = Self {
            draws,
            shape,
            heap,
            phase: TreePhase::Build,
            forest: Vec::new(),
            frames: Vec::new(),
            tree: 0,
            largest: f64::NEG_INFINITY,
            walks: 0,
        };
        tree.begin_build();
        tree
    }

    fn begin_build(&mut self) {
        self.phase = TreePhase::Build;
        self.frames.push(TreeFrame { count: self.shape.nodes, ..TreeFrame::default() });
    }

    /// Runs one stage of (make n): the key and the left subtree, the right subtree, the node.
    fn build(&mut self, cpu: &mut Cpu) {
        let top = self.frames.len() - 1;
        let frame = self.frames[top];
        match frame.stage {
            0 => {
                cpu.call(MAKE, 4, 2);
                cpu.run(6);
                if frame.count == 0 {
                    self.back(cpu, 0);
                    return;
                }
                cpu.run(16);
                let value = self.draws.unit();
                self.frames[top].key = self.heap.float(cpu, value);
                let rest = frame.count - 1;
                // The split is between a third and two thirds.
                let left = rest / 3 + self.draws.below(u64::from(rest / 3) + 1) as u32;
                self.frames[top].count = rest - left;
                self.frames[top].stage = 1;
                self.frames.push(TreeFrame { count: left, ..TreeFrame::default() });
            }
            1 => {
                cpu.jump(MAKE + 0x80);
                cpu.run(5);
                cpu.store_local(0);
                self.frames[top].left = self.tree;
                self.frames[top].stage = 2;
                self.frames.push(TreeFrame { count: frame.count, ..TreeFrame::default() });
            }
            _ => {
                cpu.jump(MAKE + 0xa0);
                cpu.run(3);
                cpu.load_local(0);
                let node = self.heap.node(cpu, frame.key, frame.left, self.tree);
                self.back(cpu, node);
            }
        }
    }

    fn back(&mut self, cpu: &mut Cpu, tree: u32) {
        cpu.ret(4, 2);
        self.tree = tree;
        self.frames.pop();
    }

    /// Runs one stage of (largest tree): the node and its left subtree, its right subtree, the result.
    #[inline(always)]
    fn walk(&mut self, cpu: &mut Cpu) {
        let top = self.frames.len() - 1;
        let frame = self.frames[top];
        match frame.stage {
            0 => {
                cpu.call(SEARCH, 3, 2);
                cpu.run(5);
                if frame.node == 0 {
                    cpu.run(3);
                    cpu.ret(3, 2);
                    self.largest = f64::NEG_INFINITY;
                    self.frames.pop();
                    return;
                }
                self.heap.check(cpu, frame.node);
                let key = self.heap.field(cpu, frame.node, 0);
                cpu.run(2);
                self.heap.check(cpu, key);
                self.frames[top].best = self.heap.value(cpu, key);
                let left = self.heap.field(cpu, frame.node, 1);
                cpu.run(4);
                self.frames[top].stage = 1;
                self.frames.push(TreeFrame { node: left, ..TreeFrame::default() });
            }
            1 => {
                self.compare(cpu, top);
                let right = self.heap.field(cpu, frame.node, 2);
                self.frames[top].stage = 2;
                self.frames.push(TreeFrame { node: right, ..TreeFrame::default() });
            }
            _ => {
                self.compare(cpu, top);
                cpu.ret(3, 2);
                self.largest = self.frames[top].best;
                self.frames.pop();
            }
        }
    }

    /// Compares two numbers generically and keeps the larger.
    #[inline(always)]
    fn compare(&mut self, cpu: &mut Cpu, top: usize) {
        cpu.jump(SEARCH + 0x90);
        cpu.run(7);
        if self.largest == f64::NEG_INFINITY {
            return;
        }
        cpu.call(COMPARE, 1, 0);
        cpu.run(12);
        cpu.load(ROOTS - 0x400, 4);
        cpu.run(9);
        cpu.ret(1, 0);
        self.frames[top].best = self.frames[top].best.max(self.largest);
    }

    fn begin_walk(&mut self, cpu: &mut Cpu) {
        self.phase = TreePhase::Walk;
        let newest = self.forest.len() - 1;
        let which = if self.draws.below(self.shape.older) == 0 {
            self.draws.below(newest as u64 + 1) as usize
        } else {
            newest
        };
        cpu.jump(TEXT + 0x1000);
        cpu.run(12);
        cpu.load(ROOTS + 4 * which as u64, 4);
        self.frames.push(TreeFrame { node: self.forest[which], ..TreeFrame::default() });
    }

    /// Starts the next walk, tree or collection when no call is open.
    fn next(&mut self, cpu: &mut Cpu) {
        if matches!(self.phase, TreePhase::Build) {
            if self.forest.len() == self.shape.forest {
                self.forest.remove(0);
            }
            self.forest.push(self.tree);
            cpu.store(ROOTS + 4 * (self.forest.len() as u64 - 1), 4);
            self.walks = 0;
        } else if matches!(self.phase, TreePhase::Walk) {
            self.walks += 1;
        }
        if self.walks < self.shape.walks {
            self.begin_walk(cpu);
        } else if self.heap.room() < 32 * (u64::from(self.shape.nodes) + 1) {
            self.phase = TreePhase::Collect;
            self.heap.begin_collection(cpu, &mut self.forest, ROOTS);
        } else {
            self.begin_build();
        }
    }
}

impl Program for Tree {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        for _ in 0..400 {
            match self.phase {
                TreePhase::Collect => {
                    if self.heap.collect(cpu, 4) {
                        self.begin_build();
                    }
                }
                _ if self.frames.is_empty() => self.next(cpu),
                TreePhase::Build => self.build(cpu),
                TreePhase::Walk => self.walk(cpu),
            }
        }
        Status::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    fn keys(heap: &Heap, node: u32, into: &mut Vec<f64>) {
        if node != 0 {
            let (key, left, right) = heap.peek(node);
            into.push(key);
            keys(heap, left, into);
            keys(heap, right, into);
        }
    }

    fn sorted(heap: &Heap, root: u32) -> Vec<f64> {
        let mut all = Vec::new();
        keys(heap, root, &mut all);
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn searches_find_the_largest_and_collections_keep_every_tree() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let shape = TreeShape { half: 64 << 10, nodes: 300, forest: 3, walks: 2, older: 2 };
        let mut tree = Tree::new(DataRng::new(9, 0), &mut cpu, shape);
        let (mut collections, mut searches) = (0, 0);
        let mut before: Vec<Vec<f64>> = Vec::new();
        for _ in 0..3_000_000 {
            let was_collecting = matches!(tree.phase, TreePhase::Collect);
            let root = tree.frames.first().map(|f| f.node);
            match tree.phase {
                TreePhase::Collect => {
                    if tree.heap.collect(&mut cpu, 1) {
                        tree.begin_build();
                    }
                }
                _ if tree.frames.is_empty() => {
                    before = tree.forest.iter().map(|&root| sorted(&tree.heap, root)).collect();
                    tree.next(&mut cpu);
                }
                TreePhase::Build => tree.build(&mut cpu),
                TreePhase::Walk => tree.walk(&mut cpu),
            }
            cpu.finish_step();
            cpu.rows.clear();
            if was_collecting && !matches!(tree.phase, TreePhase::Collect) {
                let after: Vec<_> = tree.forest.iter().map(|&root| sorted(&tree.heap, root)).collect();
                assert_eq!(before, after);
                assert_eq!(after.last().unwrap().len(), 300);
                collections += 1;
            }
            if matches!(tree.phase, TreePhase::Walk) && tree.frames.is_empty() && !was_collecting {
                assert_eq!(sorted(&tree.heap, root.unwrap()).last(), Some(&tree.largest));
                searches += 1;
            }
            if collections == 3 {
                break;
            }
        }
        assert!(collections == 3 && searches > 20, "{collections} collections, {searches} searches");
        assert!(cpu.depth() < 30);
    }
}
