//! `Content` is the page that a frame holds, or held last; `Contents` holds the contents of all frames.

use alloc::{vec, vec::Vec};

use binhop_base::PageId;

use crate::table::Table;

/// `Content` is the page that a frame holds, or held last. For a frame that was never used, it says only that
/// the frame holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    /// The page to which the frame was given last. The last reference to this page is the last use of the
    /// frame.
    page: PageId,
    held: bool,
    wired: bool,
}

impl Content {
    pub(crate) fn of(page: PageId) -> Self {
        Self { page, held: true, wired: false }
    }

    /// Makes the content of a frame that is wired for a page.
    pub(crate) fn wired(page: PageId) -> Self {
        Self { wired: true, ..Self::of(page) }
    }

    /// Returns whether the frame is wired.
    pub(crate) fn is_wired(self) -> bool {
        self.wired
    }

    /// Returns the page in the frame.
    pub(crate) fn page(self) -> Option<PageId> {
        self.held.then_some(self.page)
    }

    /// Returns the page to which the frame was given last, dead or not.
    pub(crate) fn last(self) -> PageId {
        self.page
    }

    /// Turns a wired frame whose page has died into an ordinary free frame.
    pub(crate) fn unwire(&mut self) {
        assert!(self.wired, "only a wired page is unwired");
        (self.wired, self.held) = (false, false);
    }

    /// Frees the frame, whose page has died.
    pub(crate) fn release(&mut self) {
        assert!(!self.wired, "a wired page does not die");
        self.held = false;
    }
}

/// `Contents` holds the content of each frame.
///
/// Of a large memory a run often uses few frames, and a lane would pay more for a place for each frame than for its
/// caches. So only the frames that were used have a content, until a fifth of the frames were used. From then on
/// each frame has a content. The order of the contents shows in no result.
pub(crate) struct Contents {
    frames: usize,
    /// The place of each used frame in `contents`. The table is empty once each frame has a content.
    places: Table<u32>,
    /// The contents of the used frames in the order of their first use, or of all frames by number.
    contents: Vec<Content>,
    /// The frames of the last contents, whose places are not in the table yet. Many places enter the table together:
    /// then the host waits for many of its entries at once.
    waiting: Vec<u32>,
}

/// The most frames whose places wait.
const MOST_WAITING: usize = 32;

/// Places are in the table as long as fewer than one frame in so many was used.
const FRAMES_FOR_EACH_USED: usize = 5;

impl Contents {
    /// The bytes that the contents of a list of frames take at the start, beside their struct.
    pub(crate) const START: usize = Table::<u32>::FEWEST_BYTES;

    /// Makes frames that were never used.
    pub(crate) fn new(frames: usize) -> Self {
        Self { frames, places: Table::with_room(0), contents: Vec::new(), waiting: Vec::new() }
    }

    /// Returns the content of a frame.
    ///
    /// # Panics
    /// There is no such frame.
    #[inline]
    pub(crate) fn of(&self, frame: u32) -> Content {
        assert!((frame as usize) < self.frames, "frame {frame} of {}", self.frames);
        match self.place(frame) {
            Some(place) => self.contents[place],
            None => Content::default(),
        }
    }

    /// Returns the content of a frame, to be changed. The frame counts as used from now on.
    ///
    /// # Panics
    /// There is no such frame.
    #[inline]
    pub(crate) fn of_mut(&mut self, frame: u32) -> &mut Content {
        assert!((frame as usize) < self.frames, "frame {frame} of {}", self.frames);
        let place = self.place(frame).unwrap_or_else(|| self.use_first(frame));
        &mut self.contents[place]
    }

    /// Gives a content to a frame that was never used.
    pub(crate) fn add(&mut self, frame: u32, content: Content) {
        debug_assert!(
            self.contents.len() == self.frames || self.place(frame).is_none(),
            "frame {frame} was used"
        );
        let is_whole = self.contents.len() == self.frames;
        let place = if is_whole { frame as usize } else { self.use_first(frame) };
        self.contents[place] = content;
    }

    /// Returns the place of a frame's content, if the frame has one.
    #[inline]
    fn place(&self, frame: u32) -> Option<usize> {
        match self.contents.len() == self.frames {
            true => Some(frame as usize),
            false => match self.places.get(frame) {
                Some(place) => Some(place as usize),
                None => {
                    let waiting = self.waiting.iter().position(|&waiting| waiting == frame)?;
                    Some(self.contents.len() - self.waiting.len() + waiting)
                }
            },
        }
    }

    /// Enters the places that wait into the table.
    fn enter_waiting(&mut self) {
        let first = self.contents.len() - self.waiting.len();
        for (place, frame) in (first..).zip(self.waiting.drain(..)) {
            self.places.insert(frame, place as u32);
        }
    }

    /// Gives a content to a frame that had none. Returns its place.
    fn use_first(&mut self, frame: u32) -> usize {
        let used = self.contents.len();
        if used < self.frames / FRAMES_FOR_EACH_USED {
            self.contents.push(Content::default());
            self.waiting.push(frame);
            if self.waiting.len() == MOST_WAITING {
                self.enter_waiting();
            }
            return used;
        }
        self.enter_waiting();
        self.waiting = Vec::new();
        let mut all = vec![Content::default(); self.frames];
        for (frame, place) in self.places.iter() {
            all[frame as usize] = self.contents[place as usize];
        }
        (self.places, self.contents) = (Table::with_room(0), all);
        frame as usize
    }

    /// Returns the contents of all frames that were ever used and some empty contents, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Content> {
        self.contents.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn contents_are_those_of_a_list(
            frames in prop_oneof![1..40u32, 1..3000u32],
            changes in prop::collection::vec((any::<u32>(), any::<bool>()), 0..1500),
        ) {
            let mut contents = Contents::new(frames as usize);
            let mut model = vec![Content::default(); frames as usize];
            let pages = |contents: &[Content]| {
                let mut pages: Vec<_> = contents.iter().filter_map(|content| content.page()).collect();
                pages.sort();
                pages
            };
            for (number, (frame, wired)) in (0..).zip(changes) {
                let (frame, page) = (frame % frames, PageId(number));
                let content = if wired { Content::wired(page) } else { Content::of(page) };
                if model[frame as usize].page().is_none() && number % 2 == 0 {
                    contents.add(frame, content);
                } else {
                    *contents.of_mut(frame) = content;
                }
                model[frame as usize] = content;
            }
            for (frame, content) in (0..).zip(&model) {
                prop_assert_eq!(format!("{content:?}"), format!("{:?}", contents.of(frame)));
            }
            prop_assert_eq!(pages(&contents.iter().collect::<Vec<_>>()), pages(&model));
        }
    }

    /// `Policy::lane_bytes` relies on these bounds.
    #[test]
    fn contents_take_few_bytes_for_each_page() {
        let (frames, stride) = (1 << 16, 40_503);
        let mut contents = Contents::new(frames as usize);
        for number in 0..frames {
            *contents.of_mut((number * stride) % frames) = Content::of(PageId(number));
            let waiting = contents.waiting.capacity() * size_of::<u32>();
            let bytes =
                contents.places.bytes() + contents.contents.capacity() * size_of::<Content>() + waiting;
            let most = (44 * (number as usize + 1) + 12).min(8 * frames as usize) + Contents::START;
            assert!(bytes <= most, "{bytes} B for {} pages", number + 1);
        }
    }
}
