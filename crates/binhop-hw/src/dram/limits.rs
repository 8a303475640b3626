//! `Limits` has the first cycle at which bank groups and ranks take each kind of command, because of commands to other banks.
//!
//! Commands come in the order of their cycles, and each keeps all limits. So a limit never decreases, and the later of two
//! limits is the one that holds.

use super::{DramOrganisation, DramTiming};

/// `LimitSlot` is the number of a limit: below [`ACTIVATES`] of the transfers of a group, from there on of its activates.
pub(super) type LimitSlot = u8;

/// The most bank groups of a channel, over all its ranks.
const ACTIVATES: LimitSlot = 64;

/// The limit of a precharge, which groups and ranks do not limit.
pub(super) const NO_LIMIT: LimitSlot = 2 * ACTIVATES;

const SLOTS: usize = 256;

/// `Distances` are the distances from a transfer to a read and to a write.
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
    /// For each direction and group, the distances from its transfer to transfers of each group.
    distances: Vec<[u64; 2]>,
    windows: Vec<Window>,
    groups: usize,
    groups_of_rank: usize,
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
        let (groups, groups_of_rank) =
            (organisation.ranks * organisation.bank_groups, organisation.bank_groups);
        let mut distances = Vec::new();
        for of in [read, write] {
            for group in 0..groups {
                distances.extend((0..groups).map(|other| match other {
                    _ if other == group => of.same_group,
                    _ if other / groups_of_rank == group / groups_of_rank => of.same_rank,
                    _ => of.other_rank,
                }));
            }
        }
        Self {
            cycles: Box::new([[0; 2]; SLOTS]),
            distances,
            windows: vec![Window::default(); organisation.ranks as usize],
            groups: groups as usize,
            groups_of_rank: groups_of_rank as usize,
            rrd: [timing.rrd_s, timing.rrd_l],
            faw: timing.faw,
        }
    }

    /// Returns the slot of a transfer of a group.
    #[inline]
    pub(super) const fn transfer(group: u8) -> LimitSlot {
        group
    }

    /// Returns the slot of an activate of a group.
    #[inline]
    pub(super) const fn activate(group: u8) -> LimitSlot {
        group + ACTIVATES
    }

    /// Returns the limit of a slot, for a queue.
    #[inline]
    pub(super) fn of(&self, queue: usize, slot: LimitSlot) -> u64 {
        self.cycles[slot as usize][queue & 1]
    }

    /// Returns the limits of transfers of each group, for the queue of reads and for the queue of writes.
    #[inline]
    pub(super) fn transfers(&self) -> &[[u64; 2]] {
        &self.cycles[..self.groups]
    }

    /// Notes a read (0) or a write (1) of a group.
    #[inline]
    pub(super) fn note_transfer(&mut self, direction: usize, group: u8, cycle: u64) {
        let first = (direction * self.groups + group as usize) * self.groups;
        let distances = &self.distances[first..first + self.groups];
        for (cycles, distances) in self.cycles.iter_mut().zip(distances) {
            cycles[0] = cycles[0].max(cycle + distances[0]);
            cycles[1] = cycles[1].max(cycle + distances[1]);
        }
    }

    /// Notes an activate of a group.
    #[inline]
    pub(super) fn note_activate(&mut self, rank: usize, group: u8, cycle: u64) {
        let window = &mut self.windows[rank];
        window.cycles[window.oldest] = cycle + self.faw;
        window.oldest = (window.oldest + 1) % 4;
        let least = window.cycles[window.oldest];
        let first = rank * self.groups_of_rank;
        for other in first..first + self.groups_of_rank {
            let limit = least.max(cycle + self.rrd[usize::from(other == group as usize)]);
            let cycles = &mut self.cycles[Self::activate(other as u8) as usize];
            *cycles = [cycles[0].max(limit); 2];
        }
    }
}
