//! `Census` counts the references and the touched pages of each address space and of the kernel.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{ProcessReport, ReferenceCounts};
use crate::event::{Cause, EventBatch, Op};
use crate::source::Meta;

/// `SpaceCount` counts the references of one address space.
#[derive(Clone, Copy, Default)]
pub(super) struct SpaceCount {
    references: u64,
    instructions: u64,
    /// The number of distinct pages touched.
    pages: u64,
}

impl SpaceCount {
    pub(super) fn work(&self, page_size: u64) -> ReferenceCounts {
        let Self { references, instructions, pages } = *self;
        ReferenceCounts { references, instructions, pages, footprint_bytes: pages * page_size }
    }
}

/// `TouchedPages` holds the touched pages of all spaces. A space costs memory for its touched pages only.
struct TouchedPages {
    /// The position of the space, and the page.
    seen: HashSet<(usize, u64)>,
    /// A direct-mapped table of recently touched pages, which saves most look-ups in the set.
    lately: Box<[(usize, u64)]>,
}

/// The number of slots for recently touched pages: 16 KiB, which fit into a first-level cache.
pub(super) const LATELY: usize = 1024;

impl TouchedPages {
    fn new() -> Self {
        Self { seen: HashSet::new(), lately: vec![(NO_SPACE, 0); LATELY].into() }
    }

    /// Returns whether a space touches a page for the first time.
    #[inline]
    fn first_touch(&mut self, space: usize, page: u64) -> bool {
        // Spaces use the same page numbers, so the slot also depends on the space.
        let slot = &mut self.lately[(page as usize).wrapping_add(space.wrapping_mul(61)) % LATELY];
        if *slot == (space, page) {
            return false;
        }
        *slot = (space, page);
        self.seen.insert((space, page))
    }
}

/// The position of the kernel in [`Census::spaces`].
pub(super) const KERNEL: usize = 0;
/// A number that is no position in [`Census::spaces`].
const NO_SPACE: usize = usize::MAX;

/// `Census` holds the counts so far.
pub(super) struct Census {
    page_log2: u32,
    /// The position of each address space in `spaces`.
    index: BTreeMap<u64, usize>,
    /// The kernel, then the address spaces.
    pub(super) spaces: Vec<SpaceCount>,
    pages: TouchedPages,
    current: usize,
    /// The positions of the address spaces to which the processor switched.
    switched_to: BTreeSet<usize>,
    in_kernel: u32,
    pub(super) switches: BTreeMap<&'static str, u64>,
}

impl Census {
    pub(super) fn new(page_log2: u32) -> Self {
        let causes = Cause::ALL.iter().map(|cause| cause.name()).chain(["unknown"]);
        Self {
            page_log2,
            index: BTreeMap::from([(0, KERNEL + 1)]),
            spaces: vec![SpaceCount::default(); 2],
            pages: TouchedPages::new(),
            current: KERNEL + 1,
            switched_to: BTreeSet::new(),
            in_kernel: 0,
            switches: causes.map(|name| (name, 0)).collect(),
        }
    }

    pub(super) fn add(&mut self, batch: &EventBatch) {
        let (ops, addr, size, count) = (batch.op(), batch.addr(), batch.size(), batch.count());
        for row in 0..batch.len() {
            match Op::from_code(ops[row]) {
                Some(op) if op.is_reference() => {
                    let instructions = if op == Op::Fetch { u64::from(count[row]) } else { 0 };
                    let references = if op == Op::Fetch { instructions } else { 1 };
                    self.reference(addr[row], size[row], references, instructions);
                }
                Some(Op::Switch) => {
                    self.current = self.space(addr[row]);
                    self.switched_to.insert(self.current);
                    let cause = batch.arg0(row).and_then(Cause::from_code);
                    *self.switches.entry(cause.map_or("unknown", Cause::name)).or_default() += 1;
                }
                Some(Op::KernelEnter) => self.in_kernel += 1,
                Some(Op::KernelLeave) => self.in_kernel = self.in_kernel.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn reference(&mut self, addr: u64, size: u32, references: u64, instructions: u64) {
        let position = if self.in_kernel > 0 { KERNEL } else { self.current };
        let space = &mut self.spaces[position];
        space.references += references;
        space.instructions += instructions;
        let last = addr.saturating_add(u64::from(size).saturating_sub(1));
        for page in addr >> self.page_log2..=last >> self.page_log2 {
            space.pages += u64::from(self.pages.first_touch(position, page));
        }
    }

    fn space(&mut self, asid: u64) -> usize {
        let next = self.spaces.len();
        let index = *self.index.entry(asid).or_insert(next);
        if index == next {
            self.spaces.push(SpaceCount::default());
        }
        index
    }

    /// Returns the number of address spaces to which the processor switched and which made no reference of their own.
    pub(super) fn idle(&self) -> usize {
        self.switched_to.iter().filter(|&&index| self.spaces[index].references == 0).count()
    }

    pub(super) fn processes(&self, meta: &Meta, page_size: u64) -> Vec<ProcessReport> {
        let described = meta.processes.keys().map(|&asid| u64::from(asid));
        let active =
            self.index.iter().filter(|&(_, &index)| self.spaces[index].references > 0).map(|(&asid, _)| asid);
        let asids: BTreeSet<u64> = described.chain(active).collect();
        let describe = |asid: u64| {
            let known = u32::try_from(asid)
                .ok()
                .and_then(|asid| meta.processes.get(&asid))
                .cloned()
                .unwrap_or_default();
            let work =
                self.index.get(&asid).map(|&index| self.spaces[index].work(page_size)).unwrap_or_default();
            ProcessReport { asid, pid: known.pid, command: known.command, work }
        };
        asids.into_iter().map(describe).collect()
    }
}
