//! `identity`: physical = virtual. Memory has no size, nothing is ever evicted, address spaces alias, and
//! maps make no difference: what trace-driven simulators without an operating system do.

use super::{Mechanism, Policy};

pub(super) static POLICY: Policy = Policy {
    name: "identity",
    rule: "Physical = virtual: the frame has the page's number, in every address space; memory has no size.",
    source: "binhop: what simulators without an operating system do",
    cost: "No state; no draw.",
    parameters: &[],
    mechanism: Mechanism::Identity,
};
