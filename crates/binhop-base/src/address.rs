//! Numbers that look alike and mean different things, each in a type of its own.
//!
//! A reference goes from left to right through them:
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
            /// The bare number, as an index.
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
    /// A virtual byte address, as a program uses it.
    VirtAddr(u64)
}
number! {
    /// An address space. The threads of one process share one.
    Asid(u32)
}
number! {
    /// The number of a *virtual* page: address / page size. Means something only within an [`Asid`].
    PageNo(u64)
}
number! {
    /// The number of a *physical* page frame: physical address / page size.
    FrameNo(u64)
}
number! {
    /// A page that can be in memory, numbered densely from 0 in order of first touch. A page shared by
    /// several address spaces is one `PageId`; a private copy made on a first write is another.
    PageId(u32)
}
number! {
    /// One page as one address space sees it at one virtual page number: a dense number for the triple
    /// (address space, virtual page, [`PageId`]). Many mappings may lead to one page; none to two.
    MappingId(u32)
}
number! {
    /// The cache sets that one frame maps to. `bins = cache size / (ways × page size)`, at least 1.
    Bin(u32)
}

impl VirtAddr {
    /// The virtual page this address lies in.
    #[inline]
    #[must_use]
    pub const fn page(self, page: PowerOfTwo) -> PageNo {
        PageNo(self.0 >> page.log2())
    }

    /// Bytes from the start of the page.
    #[inline]
    #[must_use]
    pub const fn offset(self, page: PowerOfTwo) -> u64 {
        self.0 & (page.bytes() - 1)
    }
}

impl FrameNo {
    /// The bin this frame maps to in a cache of `bins` bins with a plain (not hashed) index.
    #[inline]
    #[must_use]
    pub const fn bin(self, bins: PowerOfTwo) -> Bin {
        Bin((self.0 & (bins.bytes() - 1)) as u32)
    }
}
