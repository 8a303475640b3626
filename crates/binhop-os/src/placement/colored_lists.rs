//! `colored-lists` divides memory by color. Each color has a free list and replacement of its own (LF91 §2).
//!
//! A frame's color is its number mod colors. A page's color is its virtual page number mod colors. With `pid-hash` the
//! page number is first combined with a hash of the address space's number by exclusive or, except in the kernel's
//! half, which belongs to no process. The touch at which a page is first placed decides, and the page keeps its color
//! as long as it lives, even if it returns at another address (LF91 §4.1: pages are always allocated to the same
//! color). A page gets a frame of its color. As long as the color has frames that were never used, the page gets one of
//! these in random order. Otherwise the page of the color that was referenced longest ago is evicted, even if other
//! colors have free frames.
//!
//! The frame of a page that died keeps its place in the order of its color. It is reused, without an
//! eviction, when its page is the page of the color that was referenced longest ago. Until then a live page
//! with an older last reference is evicted, although the dead page's frame is free. `paging` counts by the
//! same rule: the end of a process frees no frame. LF91 does not state a rule for this case. One color is
//! conventional global LRU.
//!
//! A color is a list with a pool of one frame, so each color is exact, and references cost nothing.

use alloc::{boxed::Box, vec::Vec};

use binhop_base::{FrameNo, PageId, Result, Rng};

use super::color::PageColors;
use super::settings::{COLORS, PID_HASH, TUNED_FOR};
use super::{AllocatorPolicy, Mechanism, Policy, Settings};
use crate::frame::{allocator::check_unwired, lru::LruList};
use crate::{Allocator, Draws, PageRequest, Placed, Recency};

pub(super) static POLICY: Policy = Policy {
    name: "colored-lists",
    rule: "The policy takes a frame of the page's color (virtual page number mod colors): a frame never used, or \
           else the least recently used frame of the color, whether its page lives or died. A page keeps the color of \
           its first placement.",
    source: "LF91 §2; the hash is binhop's",
    cost: "5 B for each frame, and 24 B more if it was used; 4 B for each page with several colors; O(1) while frames were never used, then O(log frames) for each reused one; no \
           draw but the order of frames never used.",
    parameters: &[COLORS, TUNED_FOR, PID_HASH],
    mechanism: Mechanism::Allocator(AllocatorPolicy {
        build,
        safe_frames,
        reuses_frames: false,
        largest_run_log2: None,
        reads_recency: true,
        is_random: |_| true,
        has_lists: true,
    }),
};

fn build(settings: &Settings, rng: Rng) -> Box<dyn Allocator> {
    let Settings { frames, colors, pid_hash, .. } = *settings;
    let rule = PageColors { number: colors, pid_hash };
    // If the frames do not divide evenly, each of the lower colors has one more frame.
    let of = |color| ((frames - color - 1) / colors + 1) as u32;
    let lists = (0..colors).map(|color| LruList::new(of(color), rng, color, 1, None)).collect();
    Box::new(ColoredLists { lists, rule, colors: Vec::new() })
}

/// Returns one less than the number of frames of the smallest color. The evicted page is the oldest page of its
/// color, so the pages of the color's other frames have been referenced since its last reference.
fn safe_frames(settings: &Settings) -> u64 {
    settings.frames / settings.colors - 1
}

struct ColoredLists {
    /// The list of each color. Frame f has number f / colors in list f mod colors.
    lists: Vec<LruList>,
    rule: PageColors,
    /// The color of each page that was placed, by the page's number. It is empty if there is one color.
    colors: Vec<u32>,
}

/// The color of a page that was never placed.
const NO_COLOR: u32 = u32::MAX;

impl ColoredLists {
    fn place_of(&self, frame: FrameNo) -> (usize, u32) {
        let colors = self.lists.len() as u64;
        ((frame.0 % colors) as usize, (frame.0 / colors) as u32)
    }

    /// Returns the color of a page, which the page's first request decides.
    fn color_of(&mut self, request: &PageRequest) -> u64 {
        if self.rule.number == 1 {
            return 0;
        }
        let page = request.page.index();
        if page >= self.colors.len() {
            self.colors.resize(page + 1, NO_COLOR);
        }
        if self.colors[page] == NO_COLOR {
            let asid = (!request.in_kernel).then_some(request.asid);
            // There are fewer colors than numbers of 32 bits, because every color has a frame.
            self.colors[page] = self.rule.of(request.page_no, asid) as u32;
        }
        self.colors[page].into()
    }
}

impl Allocator for ColoredLists {
    fn frames(&self) -> u64 {
        self.lists.iter().map(|list| list.len() as u64).sum()
    }

    fn needs_recency(&self) -> bool {
        self.lists.iter().any(LruList::needs_recency)
    }

    fn place(&mut self, request: &PageRequest, recency: &Recency, _: Draws) -> Result<Placed> {
        let (colors, color) = (self.lists.len() as u64, self.color_of(request));
        let list = &mut self.lists[color as usize];
        list.refresh(request, recency);
        check_unwired(list.unwired())?;
        let number = list.frame(0);
        let evicted = list.take(number, request);
        Ok(Placed { frame: FrameNo(u64::from(number) * colors + color), evicted })
    }

    /// Draws a color, and takes the next color with a frame that is not wired. The frame is a frame never
    /// used, or else the least recently used frame of the color.
    fn wire(&mut self, page: PageId, recency: &Recency, draws: Draws) -> Result<Placed> {
        let colors = self.lists.len() as u64;
        let drawn = draws.below(0, colors);
        let color = (0..colors).map(|further| (drawn + further) % colors);
        let color = color.into_iter().find(|&color| self.lists[color as usize].unwired() > 0);
        check_unwired(usize::from(color.is_some()))?;
        let color = color.unwrap_or_default();
        let list = &mut self.lists[color as usize];
        list.renew(recency);
        let number = list.frame(0);
        let evicted = list.wire(number, page);
        Ok(Placed { frame: FrameNo(u64::from(number) * colors + color), evicted })
    }

    fn unwire(&mut self, frame: FrameNo) {
        let (color, number) = self.place_of(frame);
        self.lists[color].unwire(number);
    }

    fn wired(&self) -> u64 {
        self.lists.iter().map(LruList::wired).sum()
    }

    fn release(&mut self, frame: FrameNo) {
        let (color, number) = self.place_of(frame);
        self.lists[color].release(number);
    }

    fn page_in(&self, frame: FrameNo) -> Option<PageId> {
        let (color, number) = self.place_of(frame);
        self.lists[color].content(number).page()
    }

    fn held(&self) -> u64 {
        self.lists.iter().map(LruList::held).sum()
    }

    fn is_consistent(&self) -> bool {
        self.lists.iter().all(LruList::is_consistent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frames;
    use crate::placement::bench::page;

    fn frames(frames: u64, colors: u64, pid_hash: bool) -> Frames {
        let settings = Settings { colors, pid_hash, ..Settings::new(frames, 1) };
        POLICY.frames(&settings, 5).unwrap()
    }

    /// Six frames have three colors. Two pages of a color fit; a third page evicts the older page, although
    /// other colors have free frames.
    #[test]
    fn a_color_replaces_its_own_pages() {
        let mut frames = frames(6, 3, false);
        let mut recency = Recency::new();
        let mut touch = |number: u32, page_no: u64, time: u64| {
            recency.note(PageId(number), time);
            if let Some(frame) = frames.frame_of(PageId(number)) {
                return (frame.0 % 3, None);
            }
            let placed = frames.place(&page(number).at(page_no), &recency).unwrap();
            (placed.frame.0 % 3, placed.evicted)
        };
        let table = [
            // page, virtual page, color, evicted
            (0, 7, 1, None),
            (1, 4, 1, None),
            (2, 9, 0, None),
            (0, 7, 1, None),
            (3, 1, 1, Some(1)),
            (4, 2, 2, None),
            (1, 4, 1, Some(0)),
        ];
        for (time, (number, page_no, color, evicted)) in (1..).zip(table) {
            assert_eq!(touch(number, page_no, time), (color, evicted.map(PageId)), "line {time}");
        }
        frames.check().unwrap();
        assert_eq!((frames.mapped(), frames.free()), (4, Some(2)));
    }

    /// Two frames have one color. The older live page is evicted, although the frame of the page that died is
    /// free.
    #[test]
    fn the_frame_of_a_page_that_died_keeps_its_place_in_the_order() {
        let mut frames = frames(2, 1, false);
        let mut recency = Recency::new();
        let mut place = |frames: &mut Frames, number: u32| {
            recency.note(PageId(number), u64::from(number) + 1);
            frames.place(&page(number), &recency).unwrap()
        };
        place(&mut frames, 0);
        let dead = place(&mut frames, 1).frame;
        assert_eq!(frames.release(PageId(1)), Some(dead));
        assert_eq!((frames.mapped(), frames.free()), (1, Some(1)));
        assert_eq!(place(&mut frames, 2).evicted, Some(PageId(0)), "page 0 is older than the dead page 1");
        assert_eq!(place(&mut frames, 3), Placed { frame: dead, evicted: None });
        frames.check().unwrap();
    }

    /// Page 0 is first placed at virtual page 0. It returns at virtual page 1, into a frame of color 0.
    #[test]
    fn a_page_keeps_its_color_when_it_returns_at_another_address() {
        let mut frames = frames(2, 2, false);
        let mut recency = Recency::new();
        let mut place = |frames: &mut Frames, number: u32, page_no: u64, time: u64| {
            recency.note(PageId(number), time);
            let placed = frames.place(&page(number).at(page_no), &recency).unwrap();
            (placed.frame.0, placed.evicted)
        };
        assert_eq!(place(&mut frames, 0, 0, 1), (0, None));
        assert_eq!(place(&mut frames, 1, 2, 2), (0, Some(PageId(0))));
        assert_eq!(place(&mut frames, 0, 1, 3), (0, Some(PageId(1))));
    }

    #[test]
    fn colors_may_be_uneven_and_the_hash_separates_address_spaces() {
        let mut frames = frames(16 * 3 + 5, 16, true);
        assert_eq!(frames.frames(), Some(53));
        let mut color =
            |number, asid| frames.place(&page(number).at(5).by(asid), &Recency::new()).unwrap().frame.0 % 16;
        // The hashes of 0 to 3 end in 0, 9, 2 and C.
        assert_eq!([color(0, 0), color(1, 1), color(2, 2), color(3, 3)], [5, 5 ^ 9, 5 ^ 2, 5 ^ 0xC]);
        let in_kernel = PageRequest { in_kernel: true, ..page(4).at(5).by(1) };
        assert_eq!(frames.place(&in_kernel, &Recency::new()).unwrap().frame.0 % 16, 5);
        assert_eq!(safe_frames(&Settings { colors: 16, ..Settings::new(53, 1) }), 2);
    }
}
