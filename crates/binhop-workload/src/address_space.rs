//! `AddressSpace` holds the segments of a process's address space, and makes the map rows that map them.
//!
//! Text is at 4 MiB, static data at 256 MiB with the heap behind it, and the stack below 2 GiB, as in a MIPS
//! Unix. The layout is the same in every process, so commonly used virtual addresses coincide; KH90 §4.2
//! finds that equal page coloring suffers from this. Segments start and end at multiples of 64 KiB, so that a
//! machine page of up to 64 KiB lies in one segment.

use binhop_trace::Op;
use binhop_trace::event::map_flags;

use crate::rows::StepRows;

/// First address of the text.
pub(crate) const TEXT: u64 = 0x0040_0000;
/// First address of the static data.
pub(crate) const DATA: u64 = 0x1000_0000;
/// The end of the stack's mapping.
pub(crate) const STACK_END: u64 = 0x7fff_0000;
const STACK_BYTES: u64 = 256 << 10;
/// First address of the stack's mapping.
pub(crate) const STACK_START: u64 = STACK_END - STACK_BYTES;
/// Page size of the map rows.
pub(crate) const PAGE: u64 = 4096;
const GRAIN: u64 = 64 << 10;

/// `Image` is a program as the linker left it. Processes that run the program share its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The command.
    pub(crate) name: &'static str,
    /// The number of the text segment.
    pub(crate) segment: u64,
    /// Bytes of text.
    pub(crate) text: u64,
    /// Bytes of static data.
    pub(crate) data: u64,
    /// The bytes at the start of the static data that the image's file holds. The rest begins as zeros.
    pub(crate) initialised: u64,
}

/// `AddressSpace` holds the segments of one process, and its break.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    image: Image,
    asid: u64,
    heap: u64,
    end: u64,
    mapped: u64,
}

fn grain(bytes: u64) -> u64 {
    bytes.div_ceil(GRAIN) * GRAIN
}

impl AddressSpace {
    pub(crate) fn new(image: Image, asid: u64) -> Self {
        let heap = DATA + grain(image.data);
        Self { image, asid, heap, end: heap, mapped: heap }
    }

    /// Returns the number of a private segment of an address space (0 data, 1 heap, 2 stack). Text segments
    /// have numbers below 1000.
    pub(crate) fn segment(asid: u64, kind: u64) -> u64 {
        1000 + 4 * asid + kind
    }

    /// Returns the first stack pointer: below the arguments and the environment.
    pub(crate) fn stack_top(&self) -> u64 {
        STACK_END - 0x480
    }

    pub(crate) fn map_image(&self, rows: &mut StepRows) {
        let image = self.image;
        let mut map = |start: u64, bytes: u64, flags: u32, segment: u64| {
            rows.push_args(Op::Map, start, flags, (bytes / PAGE) as u32, [Some(segment), Some(0)]);
        };
        map(TEXT, grain(image.text), map_flags::READ | map_flags::EXEC, image.segment);
        let write = map_flags::READ | map_flags::WRITE;
        if image.data > 0 {
            map(DATA, grain(image.data), write, Self::segment(self.asid, 0));
        }
        let stack = write | map_flags::GROWS;
        map(STACK_START, STACK_BYTES, stack, Self::segment(self.asid, 2));
    }

    /// Returns whether an allocation of `bytes` needs further pages.
    pub(crate) fn must_grow(&self, bytes: u64) -> bool {
        self.end + bytes > self.mapped
    }

    pub(crate) fn sbrk(&mut self, bytes: u64, rows: &mut StepRows) -> u64 {
        let start = self.end;
        self.end += bytes.div_ceil(8) * 8;
        if self.end > self.mapped {
            let more = grain(self.end - self.mapped);
            let flags = map_flags::READ | map_flags::WRITE;
            let args = [Some(Self::segment(self.asid, 1)), Some(self.mapped - self.heap)];
            rows.push_args(Op::Map, self.mapped, flags, (more / PAGE) as u32, args);
            self.mapped += more;
        }
        start
    }
}
