//! This part of the sharing plan finds the machines whose caches are equal in the lanes of all seeds, until a page may
//! be evicted.
//!
//! A lane differs from the lane of another seed in the frames of its pages and in its random draws. A frame reaches the
//! caches only as part of a set's index, because lines are named by page or by mapping. It reaches translation only
//! where entries belong to frames, or where a run of frames decides whether a huge page is whole. An evicted page loses
//! its lines in its lane alone, and the frame of a dead page may be taken in its lane alone.

use crate::machine::Machine;
use crate::occasion::Subscription;

/// Returns the reason why lanes of several seeds may differ before a page is evicted; `None` if all of them have equal
/// caches, and equal counts of accesses.
pub(super) fn why_lanes_differ(
    machine: &Machine,
    seeds: usize,
    share: bool,
    subscription: Option<&Subscription>,
) -> Option<&'static str> {
    let tree = machine.tree();
    let is_identity = machine.memory().frames.is_none();
    if !share {
        Some("sharing is switched off")
    } else if seeds == 1 {
        Some("there is one seed")
    } else if subscription.is_some() {
        Some("units act in each lane for itself")
    } else if tree.depends_on_seed() {
        Some("a cache draws random victims")
    } else if tree.depends_on_placement() && !is_identity {
        Some("a frame chooses the set of a line")
    } else if machine.translation().is_some_and(|translation| translation.depends_on_frames())
        || machine.softvm().is_some_and(|config| config.huge_log2.is_some())
    {
        Some("each placement's frames decide which entries a walk reads")
    } else {
        None
    }
}
