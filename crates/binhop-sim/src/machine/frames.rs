//! From a machine's description to the frames of one lane.

use binhop_base::Result;
use binhop_os::Frames;
use binhop_os::placement::{Placement, Policy, policy};

use super::Machine;

impl Machine {
    /// The frames of one lane: this machine's memory, none of it used, under its placement and `seed`.
    /// `custom` is a policy that is not built in; it takes the place of the one the machine names.
    ///
    /// Two machines whose [`memory`](Self::memory) and [`placement`](Self::placement) are equal give equal
    /// frames for equal seeds.
    ///
    /// # Errors
    /// None that a checked machine has not met already, unless `custom` asks for what memory cannot give.
    pub fn frames(&self, seed: u64, custom: Option<Box<dyn Placement>>) -> Result<Frames> {
        let Some(frames) = self.memory().frames else { return Ok(Frames::identity()) };
        let placement = self.placement();
        let built_in = || {
            policy(placement.policy)
                .and_then(Policy::build)
                .expect("a checked machine names a policy that chooses from a pool")
        };
        Frames::new(frames, placement.pool, custom.unwrap_or_else(built_in), seed)
    }
}
