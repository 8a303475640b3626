//! `Frames` is a plain list of frames, least recently used first. Every reference moves its frame to the end.

use binhop_base::PageId;

/// `Frame` is a frame and the page that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of the frame.
    pub number: u64,
    /// The page in the frame.
    pub page: Option<PageId>,
}

/// `Frames` is all of memory.
pub struct Frames {
    /// The frames that are not wired, least recently used first.
    pub list: Vec<Frame>,
    /// The wired frames.
    pub wired: Vec<Frame>,
    pool: usize,
}

impl Frames {
    /// Makes unused frames in this order, with a pool of `pool` frames.
    #[must_use]
    pub fn new(order: &[u64], pool: usize) -> Self {
        Self {
            list: order.iter().map(|&number| Frame { number, page: None }).collect(),
            wired: Vec::new(),
            pool,
        }
    }

    /// Returns the frame of a page.
    #[must_use]
    pub fn frame_of(&self, page: PageId) -> Option<u64> {
        self.list.iter().chain(&self.wired).find(|frame| frame.page == Some(page)).map(|frame| frame.number)
    }

    /// Notes a reference to a resident page.
    ///
    /// # Panics
    /// The page is not resident.
    pub fn touch(&mut self, page: PageId) {
        let at = self.list.iter().position(|frame| frame.page == Some(page)).expect("the page is resident");
        let frame = self.list.remove(at);
        self.list.push(frame);
    }

    /// Returns the frames from which a placement may choose, in order.
    #[must_use]
    pub fn pool(&self) -> &[Frame] {
        &self.list[..self.pool.min(self.list.len())]
    }

    /// Puts a page into the pool's frame at `rank`. The frame keeps its place until it is touched. Returns
    /// the page that the frame held.
    pub fn place(&mut self, page: PageId, rank: usize) -> Option<PageId> {
        assert!(rank < self.pool);
        self.list[rank].page.replace(page)
    }

    /// Wires the pool's frame at `rank` for a page. Returns the frame's number, and the page that it held.
    pub fn wire(&mut self, page: PageId, rank: usize) -> (u64, Option<PageId>) {
        assert!(rank < self.pool);
        let Frame { number, page: held } = self.list.remove(rank);
        self.wired.push(Frame { number, page: Some(page) });
        (number, held)
    }

    /// Frees the frame of a wired page that dies. The frame goes to the end of the list.
    pub fn unwire(&mut self, page: PageId) {
        if let Some(at) = self.wired.iter().position(|frame| frame.page == Some(page)) {
            let frame = self.wired.remove(at);
            self.list.push(Frame { page: None, ..frame });
        }
    }

    /// Frees the frame of a page that dies.
    pub fn release(&mut self, page: PageId) {
        for frame in &mut self.list {
            if frame.page == Some(page) {
                frame.page = None;
            }
        }
    }

    /// Returns the number of frames that hold a page.
    #[must_use]
    pub fn mapped(&self) -> usize {
        self.list.iter().chain(&self.wired).filter(|frame| frame.page.is_some()).count()
    }
}
