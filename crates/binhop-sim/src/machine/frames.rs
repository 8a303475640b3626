//! From a machine's description to the frames of one lane.

use binhop_base::{Problem, Result};
use binhop_os::Frames;
use binhop_os::placement::{Manner, Placement};

use super::Machine;

impl Machine {
    /// The frames of one lane: this machine's memory, none of it used, under its placement and `seed`.
    /// `custom` is a policy that is not built in; it picks from the machine's pool in place of the one that the
    /// machine names.
    ///
    /// Two machines whose [`memory`](Self::memory) and [`placement`](Self::placement) are equal give equal
    /// frames for equal seeds.
    ///
    /// # Errors
    /// The machine's own policy has no pool to pick from, and `custom` needs one.
    pub fn frames(&self, seed: u64, custom: Option<Box<dyn Placement>>) -> Result<Frames> {
        let placement = self.placement();
        let Some(custom) = custom else { return placement.policy().frames(&placement.settings, seed) };
        if !matches!(placement.policy().manner, Manner::Pool(_)) {
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
