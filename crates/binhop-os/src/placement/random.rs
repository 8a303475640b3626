//! `random` takes any frame of the pool, uniformly (KH90 §3.2). It keeps no state, and draws once per
//! placement.

use alloc::boxed::Box;

use binhop_base::{FrameNo, Result};

use super::{Mechanism, Policy, settings::POOL};
use crate::{Draws, PageRequest, Pool, PoolPolicy};

pub(super) static POLICY: Policy = Policy {
    name: "random",
    rule: "The policy takes any frame of the pool, uniformly.",
    source: "KH90 §3.2",
    cost: "No state; O(1) to decide, one draw.",
    parameters: &[POOL],
    mechanism: Mechanism::Pool(|_| Box::new(Random)),
};

struct Random;

impl PoolPolicy for Random {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn rank(&self, draws: Draws, len: usize) -> Option<usize> {
        Some(draws.below(0, len as u64) as usize)
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        Ok(pool.frame(draws.below(0, pool.len() as u64) as usize))
    }
}
