//! `OldProtection` knows which lines of a lane have an older protection than their pages.

use std::collections::BTreeMap;

use binhop_base::{LineAddr, MappingId};

use crate::softvm::Rights;

/// `OldProtection` holds the lines whose protection is older than the protection of their page. A line is named by its
/// side, its mapping, and its number in lines of the side's level 1.
#[derive(Clone, Default)]
pub(super) struct OldProtection {
    pub(super) lines: BTreeMap<(usize, MappingId, u32), Rights>,
    /// The lines of level 1, or of a longer line that covers them, that left a cache during an access.
    pub(super) left: Vec<(usize, LineAddr)>,
    /// True if a page was flushed since the last access, so that any line may have left.
    pub(super) flushed: bool,
}

impl OldProtection {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}
