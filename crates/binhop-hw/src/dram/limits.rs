//! `Limits` has the first cycle at which bank groups and ranks take each kind of command, because of commands to other
//! banks.
//!
//! Commands come in the order of their cycles, and each keeps all limits. So a limit never decreases, and the later of
//! two limits holds. A command keeps the limit of its group and the limit of its rank, so a transfer changes the
//! limits of its own group and of each rank, not of all groups.

use super::{DramOrganisation, DramTiming};

/// `LimitSlot` is the number of a limit in the table of [`Limits`].
type LimitSlot = u16;

/// The most bank groups, and the most ranks, of a channel.
const MOST: LimitSlot = 64;
const GROUP_TRANSFERS: LimitSlot = 0;
const RANK_TRANSFERS: LimitSlot = MOST;
const GROUP_ACTIVATES: LimitSlot = 2 * MOST;
const RANK_ACTIVATES: LimitSlot = 3 * MOST;
/// This limit stays 0.
const NONE: LimitSlot = 4 * MOST;
/// A power of two, so that a slot needs no check of bounds.
const SLOTS: usize = 8 * MOST as usize;

/// `LimitPair` names the two limits of a command: the limit of the bank group and the limit of the rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitPair {
    group: LimitSlot,
    rank: LimitSlot,
}

impl LimitPair {
    /// The limits of a precharge, which groups and ranks do not limit.
    pub(super) const NONE: Self = Self { group: NONE, rank: NONE };

    /// Returns the limits of a transfer.
    #[inline]
    pub(super) const fn transfer(rank: u8, group: u8) -> Self {
        Self { group: GROUP_TRANSFERS + group as LimitSlot, rank: RANK_TRANSFERS + rank as LimitSlot }
    }

    /// Returns the bank group of the limits of a transfer.
    #[inline]
    pub(super) const fn group(self) -> u8 {
        (self.group - GROUP_TRANSFERS) as u8
    }

    /// Returns the limits of an activate.
    #[inline]
    pub(super) const fn activate(rank: u8, group: u8) -> Self {
        Self { group: GROUP_ACTIVATES + group as LimitSlot, rank: RANK_ACTIVATES + rank as LimitSlot }
    }
}

/// `Distances` are the distances from a transfer to a read and to a write. The distances of a group are not less than
/// the distances of its rank ([`DramTiming::check`]).
#[derive(Clone, Copy, Debug)]
struct Distances {
    same_group: [u64; 2],
    same_rank: [u64; 2],
    other_rank: [u64; 2],
}

/// `Window` has the first cycle for each of the next four activates of a rank, because of the last four.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    cycles: [u64; 4],
    oldest: usize,
}

/// `Limits` has the limits of a channel.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// For each slot, the first cycle for the queue of reads and for the queue of writes.
    cycles: Box<[[u64; 2]; SLOTS]>,
    /// For each direction, the distances from its transfers.
    distances: [Distances; 2],
    windows: Vec<Window>,
    /// Log2 of the bank groups of a rank.
    group_bits: u32,
    rrd: [u64; 2],
    faw: u64,
}

impl Limits {
    pub(super) fn new(organisation: &DramOrganisation, timing: &DramTiming) -> Self {
        let DramTiming { cl, cwl, burst, turn, ccd_s, ccd_l, ccd_l_write, .. } = *timing;
        let read = Distances {
            same_group: [ccd_l, (cl + burst + turn).saturating_sub(cwl)],
            same_rank: [ccd_s, (cl + burst + turn).saturating_sub(cwl)],
            other_rank: [burst + turn, (cl + burst + turn).saturating_sub(cwl)],
        };
        let write = Distances {
            same_group: [cwl + burst + timing.wtr_l, ccd_l_write],
            same_rank: [cwl + burst + timing.wtr_s, ccd_s],
            other_rank: [(cwl + burst + turn).saturating_sub(cl), burst + turn],
        };
        Self {
            cycles: Box::new([[0; 2]; SLOTS]),
            distances: [read, write],
            windows: vec![Window::default(); organisation.ranks as usize],
            group_bits: organisation.bank_groups.trailing_zeros(),
            rrd: [timing.rrd_s, timing.rrd_l],
            faw: timing.faw,
        }
    }

    /// Returns the first cycle that a pair of limits allows, for a queue.
    #[inline]
    pub(super) fn of(&self, queue: usize, pair: LimitPair) -> u64 {
        let of = |slot: LimitSlot| self.cycles[slot as usize % SLOTS][queue & 1];
        of(pair.group).max(of(pair.rank))
    }

    /// Returns the first cycle of a transfer of a group, for a queue.
    #[inline]
    pub(super) fn of_group(&self, queue: usize, group: u32) -> u64 {
        self.of(queue, LimitPair::transfer((group >> self.group_bits) as u8, group as u8))
    }

    #[inline]
    fn raise(&mut self, slot: LimitSlot, cycles: [u64; 2]) {
        let limit = &mut self.cycles[slot as usize % SLOTS];
        *limit = [limit[0].max(cycles[0]), limit[1].max(cycles[1])];
    }

    /// Notes a read (0) or a write (1) of a group.
    #[inline]
    pub(super) fn note_transfer(&mut self, direction: usize, rank: u8, group: u8, cycle: u64) {
        let from = self.distances[direction & 1];
        let after = |distances: [u64; 2]| distances.map(|distance| cycle + distance);
        self.raise(GROUP_TRANSFERS + LimitSlot::from(group), after(from.same_group));
        for other in 0..self.windows.len() as LimitSlot {
            let distances = if other == LimitSlot::from(rank) { from.same_rank } else { from.other_rank };
            self.raise(RANK_TRANSFERS + other, after(distances));
        }
    }

    /// Notes an activate of a group.
    #[inline]
    pub(super) fn note_activate(&mut self, rank: u8, group: u8, cycle: u64) {
        let window = &mut self.windows[rank as usize];
        window.cycles[window.oldest % 4] = cycle + self.faw;
        window.oldest = (window.oldest + 1) % 4;
        let least = window.cycles[window.oldest].max(cycle + self.rrd[0]);
        let pair = LimitPair::activate(rank, group);
        self.raise(pair.rank, [least; 2]);
        self.raise(pair.group, [cycle + self.rrd[1]; 2]);
    }
}
