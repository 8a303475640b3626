//! `TlbPage` names a virtual page, and `PageKey` is the same name as an entry stores it.

/// The space of pages that every address space maps at the same address, such as the kernel's.
pub const GLOBAL_SPACE: u32 = u32::MAX;

/// `TlbPage` is one virtual page as a TLB names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlbPage {
    /// The number of the address space; [`GLOBAL_SPACE`] for pages of every space.
    pub space: u32,
    /// The virtual address, shifted right by `size_log2`.
    pub number: u64,
    /// The logarithm to base two of the page's bytes.
    pub size_log2: u32,
}

/// `PageKey` is a page in two words, so that a comparison is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageKey {
    number: u64,
    /// The space and, in the lowest 8 bits, the size.
    tag: u64,
}

impl PageKey {
    /// The key of an empty slot, which no page has.
    pub(super) const EMPTY: Self = Self { number: u64::MAX, tag: u64::MAX };

    #[inline(always)]
    pub(super) const fn new(page: TlbPage) -> Self {
        Self { number: page.number, tag: (page.space as u64) << 8 | page.size_log2 as u64 }
    }

    #[inline]
    pub(super) const fn page(self) -> TlbPage {
        TlbPage { space: self.space() as u32, number: self.number, size_log2: self.size_log2() }
    }

    #[inline(always)]
    pub(super) const fn number(self) -> u64 {
        self.number
    }

    #[inline(always)]
    pub(super) const fn space(self) -> u64 {
        self.tag >> 8
    }

    #[inline(always)]
    pub(super) const fn size_log2(self) -> u32 {
        self.tag as u32 & 0xff
    }

    /// Returns well-mixed bits. Pages that follow each other differ in their highest bits.
    #[inline(always)]
    pub(super) const fn hash(self) -> u64 {
        (self.number ^ self.tag.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}
