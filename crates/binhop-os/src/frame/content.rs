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

/// The logarithm of the largest number of frames in a chunk.
const CHUNK_LOG2: u32 = 4;

/// `Contents` holds the content of each frame, chunk by chunk. A chunk takes memory when one of its frames is first
/// used: a large memory of which few frames are used would otherwise cost each lane more than its caches.
pub(crate) struct Contents {
    frames: usize,
    /// The logarithm of the number of frames in a chunk. A small memory is one chunk.
    chunk_log2: u32,
    /// For each chunk, its number among `chunks` plus 1; 0 for a chunk of which no frame was used.
    numbers: Vec<u32>,
    /// The contents of the chunks, one chunk after another.
    chunks: Vec<Content>,
}

impl Contents {
    /// Makes frames that were never used.
    pub(crate) fn new(frames: usize) -> Self {
        let chunk_log2 = frames.max(1).ilog2().min(CHUNK_LOG2);
        Self { frames, chunk_log2, numbers: vec![0; frames.div_ceil(1 << chunk_log2)], chunks: Vec::new() }
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
        match self.numbers[frame as usize >> self.chunk_log2] {
            0 => Content::default(),
            number => self.chunks[self.place(number, frame)],
        }
    }

    /// Returns the content of a frame, to be changed.
    ///
    /// # Panics
    /// There is no such frame.
    #[inline]
    pub(crate) fn of_mut(&mut self, frame: u32) -> &mut Content {
        let chunk = frame as usize >> self.chunk_log2;
        if self.numbers[chunk] == 0 {
            let (used, size) = (self.chunks.len(), 1 << self.chunk_log2);
            if used == self.chunks.capacity() {
                // The vector grows by a quarter, in whole chunks. The estimate of memory relies on this growth.
                let quarter = (used / 4).next_multiple_of(size).max(size);
                self.chunks.reserve_exact(quarter.min((self.numbers.len() << self.chunk_log2) - used));
            }
            self.chunks.resize(used + size, Content::default());
            self.numbers[chunk] = (used / size) as u32 + 1;
        }
        let place = self.place(self.numbers[chunk], frame);
        &mut self.chunks[place]
    }

    #[inline]
    fn place(&self, number: u32, frame: u32) -> usize {
        (number as usize - 1) << self.chunk_log2 | frame as usize & ((1 << self.chunk_log2) - 1)
    }

    /// Returns the contents of all frames that were ever used and of the other frames in their chunks, in no
    /// particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Content> {
        self.chunks.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Policy::lane_bytes` relies on these bounds.
    #[test]
    fn room_grows_by_a_quarter() {
        let (frames, stride) = (1 << 16, 40_503);
        let mut contents = Contents::new(frames as usize);
        for number in 0..frames {
            let frame = (number * stride) % frames;
            *contents.of_mut(frame) = Content::of(PageId(number));
            assert_eq!(contents.of(frame).page(), Some(PageId(number)));
            let pages = number as usize + 1;
            let most = (20 * pages + 32).min(frames as usize);
            assert!(contents.chunks.capacity() <= most, "{} for {pages} pages", contents.chunks.capacity());
        }
        assert_eq!(contents.chunks.len(), frames as usize);
    }
}
