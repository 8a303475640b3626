//! `identity` uses the virtual address as the physical address. Memory has no size, nothing is ever evicted,
//! address spaces alias, and maps make no difference. Trace-driven simulators without an operating system do
//! the same.

use super::{Mechanism, Policy};

pub(super) static POLICY: Policy = Policy {
    name: "identity",
    rule: "The frame has the page's number, in every address space (physical = virtual); memory has no size.",
    source: "binhop: what simulators without an operating system do",
    cost: "No state; no draw.",
    parameters: &[],
    mechanism: Mechanism::Identity,
};
