//! A page's color, and how evenly pages use the colors.

use binhop_base::{Asid, PageNo};
use binhop_os::placement::fibonacci;

/// The virtual page and the address space of a page's first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTouch {
    /// The virtual page number.
    pub page_no: PageNo,
    /// The address space.
    pub asid: Asid,
}

impl FirstTouch {
    /// The page's color among `colors`: that of the policy colored-lists, if it places the page at this touch.
    #[inline]
    #[must_use]
    pub fn color(self, colors: u64, pid_hash: bool) -> u64 {
        let hash = if pid_hash { fibonacci(self.asid) } else { 0 };
        (self.page_no.0 ^ hash) % colors
    }
}

/// `Utilization` is the part of a memory that is allocated when its first color is full. The memory would just
/// hold all pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilization {
    /// Colors.
    pub colors: u64,
    /// Frames of each color: ⌊pages / colors⌋.
    pub frames: u64,
    /// Pages allocated, in order of first touch, until one color holds `frames` of them.
    pub allocated: u64,
}

impl Utilization {
    /// Effective memory utilization (LF91 §2): allocated / (colors · frames). At most 1.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.allocated as f64 / (self.colors * self.frames) as f64
    }
}

/// Allocates pages in order of first touch until one color is full (LF91 §4.1), with as many frames as there
/// are pages; `None` where that leaves a color without a frame.
#[must_use]
pub fn utilization(first_touches: &[FirstTouch], colors: u64, pid_hash: bool) -> Option<Utilization> {
    let frames = (first_touches.len() as u64).checked_div(colors).filter(|&frames| frames > 0)?;
    let mut held = vec![0; colors as usize];
    let full = first_touches.iter().position(|touch| {
        let color = &mut held[touch.color(colors, pid_hash) as usize];
        *color += 1;
        *color == frames
    });
    // colors · frames pages or more are spread over the colors: one of them gets its frames full.
    let last = full.expect("as many pages as frames fill a color");
    Some(Utilization { colors, frames, allocated: last as u64 + 1 })
}
