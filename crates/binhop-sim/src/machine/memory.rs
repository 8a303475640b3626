//! `memory` declares the keys of the section `[memory]`: physical memory and its pages.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};

use super::keys::{At, keys};

/// `Memory` is the physical memory of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The bytes of a page, and of a frame.
    pub page: PowerOfTwo,
    /// The number of frames; `None` where physical = virtual.
    pub frames: Option<u64>,
}

keys! {
    /// The keys of `[memory]`.
    MemoryKeys of "memory" {
        size: Option<At<Bytes>> = "size", absent "must be given unless placement.policy is identity",
            "bytes of physical memory";
        page: At<Bytes> = "page", form "a size, a power of two", "bytes of a page, and of a frame";
    }
}

/// The minimum number of frames. One instruction can need so many pages at once, because the instruction and
/// its operand may both straddle pages.
const LEAST_FRAMES: u64 = 4;

pub(super) fn check_page(page: &At<Bytes>) -> Result<PowerOfTwo> {
    PowerOfTwo::check(page.value, "a page", &page.place)
}

/// Counts the frames of a memory from which a placement chooses.
pub(super) fn count_frames(size: Option<&At<Bytes>>, page: PowerOfTwo, place: &str) -> Result<u64> {
    let Some(At { value: size, place: at }) = size else {
        return Err(Problem::request(
            "missing",
            &format!("{place}: memory.size"),
            "a placement other than identity chooses among the frames of a memory of known size",
            "add size = \"128MiB\" to [memory]",
        ));
    };
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&size.to_string(), at, rule, remedy));
    if !size.0.is_multiple_of(page.bytes()) || size.0 == 0 {
        return wrong(
            &format!("memory is a whole number of pages ({}), at least one", Bytes(page.bytes())),
            "make it a multiple of memory.page",
        );
    }
    let frames = size.0 / page.bytes();
    if frames < LEAST_FRAMES {
        return wrong(
            &format!(
                "memory is too small: one instruction can touch {LEAST_FRAMES} pages (two of its own, two of its data)"
            ),
            &format!("take {} or more", Bytes(LEAST_FRAMES * page.bytes())),
        );
    }
    if frames > u64::from(u32::MAX) {
        return wrong("memory has fewer than 2^32 frames", "make it smaller, or its pages larger");
    }
    Ok(frames)
}
