//! This part of the sharing plan divides the backs of lanes among threads that would have no lanes otherwise.
//!
//! A study may simulate many caches under few placements. Its lanes then stand in fewer bundles than there are threads.
//! Each part of the backs has lanes of its own, which repeat the placement and level 1. In bits, level 1 costs little
//! beside several backs.

use super::{FrontGroup, LaneCells, SharingPlan};
use crate::machine::Machine;

/// The fewest lanes of a bundle when lanes are divided among threads. Bundles of fewer lanes would repeat the work that
/// lanes have in common, which is done once for each bundle.
pub(crate) const FEWEST_LANES: usize = 16;

impl SharingPlan {
    /// Divides the backs of lanes among threads: see [`SharingPlan::threads_of_lane`].
    pub(crate) fn among_threads(mut self, machines: &[Machine], seeds: usize, threads: usize) -> Self {
        let parts = self.threads_of_lane(seeds, threads);
        let groups = self.preparations.iter_mut().flat_map(|stream| &mut stream.groups);
        groups.for_each(|group| group.divide_backs(machines, parts));
        self
    }

    /// Returns the number of threads among which the backs of a lane are divided, if every back is simulated in bits.
    /// It is more than one where threads outnumber the bundles of the lanes of `seeds` seeds.
    pub(crate) fn threads_of_lane(&self, seeds: usize, threads: usize) -> usize {
        let groups = self.preparations.iter().flat_map(|stream| &stream.groups);
        let at_once = groups.map(|group| group.parts_at_once(seeds)).sum::<usize>();
        (threads / at_once.max(1)).max(1)
    }
}

impl FrontGroup {
    /// Returns the number of threads that can simulate lanes of the group at once, if no backs are divided.
    fn parts_at_once(&self, seeds: usize) -> usize {
        let lanes = self.lanes.len() * seeds;
        if self.has_bundles() { lanes.div_ceil(FEWEST_LANES) } else { lanes }
    }

    /// Returns the largest number of parts into which the backs of a lane are divided, if there are `threads` threads
    /// for them.
    pub(crate) fn parts_of_backs(&self, threads: usize) -> usize {
        let most = self.lanes.iter().map(|cells| cells.machines.len()).max().unwrap_or(1);
        if self.all_in_bits { threads.min(most) } else { 1 }
    }

    /// Divides the backs of each lane into at most `parts` parts. Lanes of several placements that have equal backs
    /// stay neighbours, because only neighbours stand in one bundle.
    fn divide_backs(&mut self, machines: &[Machine], parts: usize) {
        let parts = self.parts_of_backs(parts);
        if parts == 1 {
            return;
        }
        let of_lane = |cells: &LaneCells, part: usize| {
            let step = parts.min(cells.machines.len());
            let own: Vec<usize> = cells.machines.iter().copied().skip(part).step_by(step).collect();
            (part < step).then(|| LaneCells {
                bundled: cells.bundled,
                are_equal: cells.are_equal,
                ..LaneCells::of(machines, own, false)
            })
        };
        let of_part = |part: usize| self.lanes.iter().filter_map(move |cells| of_lane(cells, part));
        self.lanes = (0..parts).flat_map(of_part).collect();
    }
}
