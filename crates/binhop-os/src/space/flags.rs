//! `MapFlags` says what a mapping allows and how it behaves, as the events of a trace say it.

/// `MapFlags` holds the flags of a mapping. The bits are the bits of a trace's map and protect events. Bits
/// without a meaning are dropped.
///
/// ```
/// use binhop_os::MapFlags;
/// let stack = MapFlags::from(1 | 2 | 16);
/// assert!(stack.write() && stack.grows() && !stack.shared());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFlags(u8);

impl MapFlags {
    /// Returns whether the pages may be read.
    #[must_use]
    pub const fn read(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether the pages may be written. A write to a page without this flag is no error, because the
    /// trace says what happened.
    #[must_use]
    pub const fn write(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns whether the pages may be executed.
    #[must_use]
    pub const fn exec(self) -> bool {
        self.0 & 4 != 0
    }

    /// Returns whether every sharer sees a write. Otherwise the mapping is private, and the first write
    /// copies the page.
    #[must_use]
    pub const fn shared(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns whether the mapping grows downward when it is touched below its start.
    #[must_use]
    pub const fn grows(self) -> bool {
        self.0 & 16 != 0
    }
}

impl From<u32> for MapFlags {
    fn from(bits: u32) -> Self {
        Self((bits & 31) as u8)
    }
}
