//! The types of this file keep numbers apart that look alike but have different meanings: addresses, pages,
//! frames, bins.
//!
//! The example turns the address of a reference into a page number and an offset:
//!
//! ```
//! use binhop_base::{Bytes, PageNo, PowerOfTwo, VirtAddr};
//!
//! let page = PowerOfTwo::new(Bytes(16 << 10)).unwrap();
//! let address = VirtAddr(0x0040_8ed4);
//! assert_eq!(address.page(page), PageNo(0x102)); // 0x408ed4 / 0x4000
//! assert_eq!(address.offset(page), 0x0ed4);
//! ```

use crate::PowerOfTwo;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the bare number, as an index.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// `VirtAddr` is a virtual byte address, as a program uses it.
    VirtAddr(u64)
}
number! {
    /// `Asid` is the number of an address space. The threads of one process share an address space.
    Asid(u32)
}
number! {
    /// `PageNo` is the number of a *virtual* page: address / page size. It has a meaning only within an
    /// [`Asid`].
    PageNo(u64)
}
number! {
    /// `FrameNo` is the number of a *physical* page frame: physical address / page size.
    FrameNo(u64)
}
number! {
    /// `PageId` is the number of a page that can be in memory. Pages are numbered densely from 0 in order of
    /// first touch. A page that several address spaces share is one `PageId`. A private copy, made by a first
    /// write, is another `PageId`.
    PageId(u32)
}
number! {
    /// `MappingId` is a dense number for the triple (address space, virtual page, [`PageId`]): one page as
    /// one address space sees it at one virtual page number. Many mappings may lead to one page. No mapping
    /// leads to two pages.
    MappingId(u32)
}
number! {
    /// `Bin` is the number of a bin: the cache sets that one frame maps to. The number of bins is
    /// `cache size / (ways × page size)`, and at least 1.
    Bin(u32)
}

impl VirtAddr {
    /// Returns the virtual page of the address.
    #[inline]
    #[must_use]
    pub const fn page(self, page: PowerOfTwo) -> PageNo {
        PageNo(self.0 >> page.log2())
    }

    /// Returns the number of bytes from the start of the page.
    #[inline]
    #[must_use]
    pub const fn offset(self, page: PowerOfTwo) -> u64 {
        self.0 & (page.bytes() - 1)
    }
}

impl FrameNo {
    /// Returns the bin of the frame in a cache of `bins` bins with a plain (not hashed) index.
    #[inline]
    #[must_use]
    pub const fn bin(self, bins: PowerOfTwo) -> Bin {
        Bin((self.0 & (bins.bytes() - 1)) as u32)
    }
}
