//! Occasions are the moments of a stream at which a unit may act.

use binhop_base::{Asid, Kind, MappingId};

use crate::events::Switch;

mod subscription;

pub use subscription::{Lines, Subscription, TouchedLines};

macro_rules! occasions {
    ($($name:ident = $text:literal, $meaning:literal;)*) => {
        /// `OccasionKind` is a kind of occasion.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum OccasionKind { $(#[doc = $meaning] $name,)* }

        impl OccasionKind {
            /// Every kind, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the kind's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns a sentence that says when an occasion of this kind arises.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

occasions! {
    Switch = "switch", "Another thread runs from here on; its address space is already the one that runs.";
    Syscall = "syscall", "The running process calls the system.";
    FirstTouch = "first-touch", "A page is referenced for the first time ever; it has just been placed.";
    Return = "return", "A page that had left the memory of this lane is referenced again; it has just been placed.";
    PageChange = "page-change", "The processor references, as an instruction or as data, another page than it did last time, or the first one since the address space or its maps changed.";
    Miss = "miss", "The processor references a line that level 1 does not hold; level 1 is asked for it next.";
    Device = "device", "A device reads or writes bytes of a page; a page that it has just needed has just been placed.";
}

/// `Port` is the port of the processor through which a reference is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Port {
    /// The port of instruction fetches.
    Fetch,
    /// The port of loads and stores.
    Data,
}

impl Port {
    /// Returns the port that serves a kind of access.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        if matches!(kind, Kind::Fetch) { Self::Fetch } else { Self::Data }
    }
}

/// `Occasion` is an occasion that has arisen. If it names a page, the page is resident in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// [`OccasionKind::Switch`].
    Switch {
        /// The address space that runs from here on.
        asid: Asid,
        /// The switch, as the trace tells it.
        switch: Switch,
    },
    /// [`OccasionKind::Syscall`].
    Syscall {
        /// The call's number.
        number: u32,
    },
    /// [`OccasionKind::FirstTouch`].
    FirstTouch {
        /// The mapping that leads to the page.
        mapping: MappingId,
    },
    /// [`OccasionKind::Return`].
    Return {
        /// The mapping that leads to the page.
        mapping: MappingId,
    },
    /// [`OccasionKind::PageChange`].
    PageChange {
        /// The port that changes its page.
        port: Port,
        /// The mapping that leads to the page that the port references now.
        mapping: MappingId,
    },
    /// [`OccasionKind::Miss`].
    Miss {
        /// Fetch, load or store.
        kind: Kind,
        /// The mapping that leads to the page.
        mapping: MappingId,
        /// The first byte of the line within the page.
        offset: u64,
    },
    /// [`OccasionKind::Device`].
    Device {
        /// The device's number.
        device: u32,
        /// True if the device writes memory; false if it reads memory.
        writes: bool,
        /// The number of the request.
        request: u64,
        /// The mapping that leads to the page.
        mapping: MappingId,
        /// The first byte within the page.
        offset: u64,
        /// The number of bytes within the page.
        bytes: u64,
        /// The bytes of the whole request, if this is its first page.
        total: Option<u64>,
    },
}

impl Occasion {
    /// Returns the same occasion, with the mapping by which caches know its page.
    pub(crate) fn renamed(mut self, name_of: impl Fn(MappingId) -> MappingId) -> Self {
        match &mut self {
            Self::Switch { .. } | Self::Syscall { .. } => {}
            Self::FirstTouch { mapping }
            | Self::Return { mapping }
            | Self::PageChange { mapping, .. }
            | Self::Miss { mapping, .. }
            | Self::Device { mapping, .. } => *mapping = name_of(*mapping),
        }
        self
    }

    /// Returns the occasion's kind.
    #[must_use]
    pub const fn kind(&self) -> OccasionKind {
        match self {
            Self::Switch { .. } => OccasionKind::Switch,
            Self::Syscall { .. } => OccasionKind::Syscall,
            Self::FirstTouch { .. } => OccasionKind::FirstTouch,
            Self::Return { .. } => OccasionKind::Return,
            Self::PageChange { .. } => OccasionKind::PageChange,
            Self::Miss { .. } => OccasionKind::Miss,
            Self::Device { .. } => OccasionKind::Device,
        }
    }
}
