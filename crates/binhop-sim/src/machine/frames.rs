//! `Machine::frames` makes the frames of one lane.

use binhop_base::{Problem, Result};
use binhop_os::placement::Mechanism;
use binhop_os::{Frames, PoolPolicy};

use super::Machine;

impl Machine {
    /// Makes the frames of one lane: this machine's memory, unused, under its placement and `seed`. A `custom`
    /// policy is not built in; it replaces the machine's own policy and picks from the machine's pool.
    ///
    /// Two machines with equal [`memory`](Self::memory) and [`placement`](Self::placement) make equal frames
    /// for equal seeds.
    ///
    /// # Errors
    /// A `custom` policy needs a pool, and the machine's own policy has none.
    pub fn frames(&self, seed: u64, custom: Option<Box<dyn PoolPolicy>>) -> Result<Frames> {
        let placement = self.placement();
        let Some(custom) = custom else { return placement.policy().frames(&placement.settings, seed) };
        if !matches!(placement.policy().mechanism, Mechanism::Pool(_)) {
            return Err(Problem::request(
                placement.policy,
                &format!("{}: placement.policy, in place of which {} places", self.name(), custom.name()),
                "a policy of one's own picks from the machine's pool, and this placement has none",
                "set placement.policy=random; its pool is placement.pool",
            ));
        }
        Frames::new(placement.settings.frames, placement.settings.pool, custom, seed)
    }
}
