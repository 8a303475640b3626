//! `Content` is the page that a frame holds, or held last; `Contents` holds the contents of all frames.

use alloc::{vec, vec::Vec};

use binhop_base::PageId;

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
/// caches. So contents are in a hash table until between 3/16 and 3/8 of the frames were used. From then on they are in a
/// list of all frames. The order of the contents shows in no result.
pub(crate) struct Contents {
    frames: usize,
    /// The contents of frames that were used, and empty entries. The table uses open addressing with linear probing, and
    /// is at most three quarters full.
    table: Vec<ContentEntry>,
    /// The number of frames in the table.
    used: usize,
    /// The content of each frame, once `table` would take too much memory. The table is empty then.
    all: Vec<Content>,
}

/// `ContentEntry` is an entry of the table of contents.
#[derive(Clone, Copy, Debug, Default)]
struct ContentEntry {
    /// The frame plus one; 0 in an empty entry.
    frame: u32,
    content: Content,
}

/// The number of entries of the smallest table. A memory of fewer than twice as many frames is a list.
const FEWEST: usize = 4;

impl Contents {
    /// Makes frames that were never used.
    pub(crate) fn new(frames: usize) -> Self {
        Self { frames, table: Vec::new(), used: 0, all: Vec::new() }
    }

    /// Returns the content of a frame, if the frame exists.
    #[inline]
    pub(crate) fn get(&self, frame: u64) -> Option<Content> {
        (frame < self.frames as u64).then(|| self.of(frame as u32))
    }

    /// Returns the content of a frame.
    ///
    /// # Panics
    /// There is no such frame.
    #[inline]
    pub(crate) fn of(&self, frame: u32) -> Content {
        assert!((frame as usize) < self.frames, "frame {frame} of {}", self.frames);
        if let Some(&content) = self.all.get(frame as usize) {
            return content;
        }
        if self.table.is_empty() {
            return Content::default();
        }
        // An empty entry has an empty content.
        self.table[self.place(frame)].content
    }

    /// Returns the content of a frame, to be changed. The frame counts as used from now on.
    ///
    /// # Panics
    /// There is no such frame.
    #[inline]
    pub(crate) fn of_mut(&mut self, frame: u32) -> &mut Content {
        assert!((frame as usize) < self.frames, "frame {frame} of {}", self.frames);
        if self.all.is_empty() && (self.used + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        if !self.all.is_empty() {
            return &mut self.all[frame as usize];
        }
        let place = self.place(frame);
        let entry = &mut self.table[place];
        self.used += usize::from(entry.frame == 0);
        entry.frame = frame + 1;
        &mut entry.content
    }

    /// Returns the place of a frame in the table, or the place of the empty entry that the frame would take.
    #[inline]
    fn place(&self, frame: u32) -> usize {
        let mask = self.table.len() - 1;
        // Fibonacci hashing: neighbouring frames spread over the upper bits.
        let mixed = u64::from(frame).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut place = (mixed >> 32) as usize & mask;
        loop {
            let held = self.table[place].frame;
            if held == frame + 1 || held == 0 {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Doubles the table, or makes a list of all frames.
    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(FEWEST);
        let old = core::mem::take(&mut self.table);
        let old = old.into_iter().filter(|entry| entry.frame > 0);
        if size > self.frames / 2 {
            self.all = vec![Content::default(); self.frames];
            old.for_each(|entry| self.all[entry.frame as usize - 1] = entry.content);
            return;
        }
        self.table = vec![ContentEntry::default(); size];
        for entry in old {
            let place = self.place(entry.frame - 1);
            self.table[place] = entry;
        }
    }

    /// Returns the contents of all frames that were ever used and some empty contents, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Content> {
        self.table.iter().map(|entry| entry.content).chain(self.all.iter().copied())
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
                *contents.of_mut(frame) = content;
                model[frame as usize] = content;
            }
            for (frame, content) in (0..).zip(&model) {
                prop_assert_eq!(format!("{content:?}"), format!("{:?}", contents.of(frame)));
                prop_assert!(contents.get(frame.into()).is_some());
            }
            prop_assert!(contents.get(frames.into()).is_none());
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
            let table = contents.table.capacity() * size_of::<ContentEntry>();
            let bytes = table + contents.all.capacity() * size_of::<Content>();
            let most = (44 * (number as usize + 1) + 12).min(8 * frames as usize);
            assert!(bytes <= most, "{bytes} B for {} pages", number + 1);
        }
    }
}
