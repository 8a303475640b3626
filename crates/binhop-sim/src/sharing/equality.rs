//! This part of the sharing plan finds the machines whose caches are equal in the lanes of all seeds, until a page may
//! be evicted.
//!
//! A lane differs from the lane of another seed in the frames of its pages and in its random draws. A frame reaches the
//! caches only as part of a set's index, because lines are named by page or by mapping. It reaches translation only
//! where entries belong to frames, or where a run of frames decides whether a huge page is whole. An evicted page loses
//! its lines in its lane alone, and the frame of a dead page may be taken in its lane alone.

use crate::machine::Machine;
use crate::occasion::Subscription;

/// Returns whether the lanes of several seeds have equal caches, and equal counts of accesses, until a page may be
/// evicted. Units act in each lane for itself.
pub(super) fn lanes_are_equal(
    machine: &Machine,
    seeds: usize,
    share: bool,
    subscription: Option<&Subscription>,
) -> bool {
    let tree = machine.tree();
    let is_identity = machine.memory().frames.is_none();
    let frames_decide_walks =
        machine.translation().is_some_and(|translation| translation.depends_on_frames())
            || machine.softvm().is_some_and(|config| config.huge_log2.is_some());
    share
        && seeds > 1
        && subscription.is_none()
        && !tree.depends_on_seed()
        && (is_identity || !tree.depends_on_placement())
        && !frames_decide_walks
}
