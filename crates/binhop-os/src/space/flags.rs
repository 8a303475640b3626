//! Flags of a mapping: what it allows and how it behaves, as the events of a trace say it.

/// The flags of a mapping. The bits are those of a trace's map and protect events; bits without a
/// meaning are dropped.
///
/// ```
/// use binhop_os::MapFlags;
/// let stack = MapFlags::from(1 | 2 | 16);
/// assert!(stack.write() && stack.grows() && !stack.shared());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFlags(u8);

impl MapFlags {
    /// The pages may be read.
    #[must_use]
    pub const fn read(self) -> bool {
        self.0 & 1 != 0
    }

    /// The pages may be written. A write to a page without this flag is no error: the trace is what happened.
    #[must_use]
    pub const fn write(self) -> bool {
        self.0 & 2 != 0
    }

    /// The pages may be executed.
    #[must_use]
    pub const fn exec(self) -> bool {
        self.0 & 4 != 0
    }

    /// Every sharer sees a write. Otherwise the mapping is private: copied on the first write.
    #[must_use]
    pub const fn shared(self) -> bool {
        self.0 & 8 != 0
    }

    /// The mapping grows downward when it is touched below its start.
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
