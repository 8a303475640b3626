//! `FirstTouch` decides the color of a page. `Utilization` states how evenly pages use the colors.

use binhop_base::{Asid, PageNo};
use binhop_os::placement::PageColors;

/// `FirstTouch` is the virtual page and the address space by which a page was touched first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTouch {
    /// The virtual page number.
    pub page_no: PageNo,
    /// The address space.
    pub asid: Asid,
}

impl FirstTouch {
    /// Returns the page's color among `colors`. The policy colored-lists gives the page the same color if it
    /// places the page at this touch.
    #[inline]
    #[must_use]
    pub fn color(self, colors: u64, pid_hash: bool) -> u64 {
        PageColors { number: colors, pid_hash }.of(self.page_no, Some(self.asid))
    }
}

/// `Utilization` is the part of a memory that is allocated when its first color is full. The memory has as many
/// frames as there are pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilization {
    /// The number of colors.
    pub colors: u64,
    /// The frames of each color: ⌊pages / colors⌋.
    pub frames: u64,
    /// The pages allocated, in order of first touch, until one color holds `frames` of them.
    pub allocated: u64,
}

impl Utilization {
    /// Returns the effective memory utilization (LF91 §2): allocated / (colors · frames). It is at most 1.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.allocated as f64 / (self.colors * self.frames) as f64
    }
}

/// Allocates pages in order of first touch until one color is full (LF91 §4.1). There are as many frames as
/// pages. Returns `None` if a color would have no frame.
#[must_use]
pub fn utilization(first_touches: &[FirstTouch], colors: u64, pid_hash: bool) -> Option<Utilization> {
    let frames = (first_touches.len() as u64).checked_div(colors).filter(|&frames| frames > 0)?;
    let mut held = vec![0; colors as usize];
    let full = first_touches.iter().position(|touch| {
        let color = &mut held[touch.color(colors, pid_hash) as usize];
        *color += 1;
        *color == frames
    });
    // At least colors · frames pages are spread over the colors, so that the frames of one color become full.
    let last = full.expect("as many pages as frames fill a color");
    Some(Utilization { colors, frames, allocated: last as u64 + 1 })
}
