//! This part of a back checks the invariants that must hold after a run.

use binhop_base::{Kind, Result};
use binhop_hw::{CountedCaches, CountsOfLane, Front, LruStack, Next};

use super::{BackKind, BackModel};
use crate::results::account::broken;
use crate::results::tally::{Tally, add_hits};

impl BackModel {
    /// Adds the hits that preparation skipped to a front, so that the invariants hold.
    pub(crate) fn add_hits(&self, front: &mut Front) {
        let config = self.tree.config();
        add_hits(front, self.account.end().stream, config.fetch, config.data);
    }

    /// Adds the hits that preparation skipped to a front in bits, so that the invariants hold.
    pub(crate) fn add_hits_to_bits(&self, front: &mut CountsOfLane) {
        let (config, dropped) = (self.tree.config(), self.account.end().stream.dropped);
        let caches = [config.fetch, config.data, config.data];
        for (at, kind) in [Kind::Fetch, Kind::Load, Kind::Store].into_iter().enumerate() {
            front.add_hits(caches[at], kind, dropped[at]);
        }
    }

    /// Checks every invariant that must hold after a run. `front` is the front before this back, with all hits added.
    /// `bits` are the final counts of this back where it was simulated in bits.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(crate) fn check(
        &self,
        front: &impl CountedCaches,
        stacks: &[LruStack],
        bits: Option<&CountsOfLane>,
        seed: u64,
    ) -> Result<()> {
        match &self.kind_of_back {
            BackKind::Own { back, .. } => binhop_hw::check(&self.tree, front, &**back)?,
            BackKind::Stacked { stack, ways } => {
                binhop_hw::check(&self.tree, front, &stacks[*stack].member(*ways, &self.tree))?;
            }
            BackKind::Led(_) => unreachable!("the leading lane checks its own backs"),
            BackKind::Bits(_) => {
                binhop_hw::check(&self.tree, front, bits.expect("the bundle has told its final counts"))?;
            }
        }
        self.check_counts(seed)
    }

    /// Checks the invariants of what was counted, without the caches.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub(crate) fn check_counts(&self, seed: u64) -> Result<()> {
        self.check_stream(self.account.end(), seed)?;
        self.account.check(seed)
    }

    /// Checks that the caches that the processor accesses have seen what the stream held and what other
    /// caches sent them: no reference is lost, and none is counted twice.
    fn check_stream(&self, end: &Tally, seed: u64) -> Result<()> {
        let config = self.tree.config();
        for (kind, &accesses) in [Kind::Fetch, Kind::Load, Kind::Store].iter().zip(&end.stream.accesses) {
            let cache = if *kind == Kind::Fetch { config.fetch } else { config.data };
            let senders =
                (0..config.caches.len()).filter(|&above| config.caches[above].next == Next::Cache(cache));
            let accesses = accesses + senders.map(|above| end.caches[above].sent[*kind]).sum::<u64>();
            let counted = end.caches[cache].accesses[*kind];
            if counted != accesses {
                return Err(broken(
                    &format!("{counted} {} accesses", kind.name()),
                    &format!(
                        "the stream and the levels above made {accesses} at {}",
                        config.caches[cache].name
                    ),
                    seed,
                ));
            }
        }
        Ok(())
    }
}
