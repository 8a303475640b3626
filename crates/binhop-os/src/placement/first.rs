//! `first` takes the least recently used frame, as an operating system that ignores caches does. The pool's size
//! makes no difference. The policy keeps no state and draws nothing; the seed shows only in the order in which
//! unused frames are handed out.

use alloc::boxed::Box;

use binhop_base::{FrameNo, Result};

use super::{Mechanism, Policy};
use crate::{Draws, PageRequest, Pool, PoolPolicy};

pub(super) static POLICY: Policy = Policy {
    name: "first",
    rule: "The policy takes the least recently used frame of memory.",
    source: "binhop: the naive policy",
    cost: "No state; O(1) to decide, no draw.",
    parameters: &[],
    mechanism: Mechanism::Pool(|_| Box::new(First)),
};

struct First;

impl PoolPolicy for First {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, _: Draws) -> Result<FrameNo> {
        Ok(pool.frame(0))
    }
}
