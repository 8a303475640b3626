//! Frames in a plain list, least recently used first: every reference moves its frame to the end.

use binhop_base::PageId;

/// A frame and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number.
    pub number: u64,
    /// The page in it.
    pub page: Option<PageId>,
}

/// All of memory.
pub struct Frames {
    /// Least recently used first, without the wired ones.
    pub list: Vec<Frame>,
    /// Frames that are not in the list.
    pub wired: Vec<Frame>,
    pool: usize,
}

impl Frames {
    /// Unused frames in this order, with a pool of `pool`.
    #[must_use]
    pub fn new(order: &[u64], pool: usize) -> Self {
        Self {
            list: order.iter().map(|&number| Frame { number, page: None }).collect(),
            wired: Vec::new(),
            pool,
        }
    }

    /// The frame of a page.
    #[must_use]
    pub fn frame_of(&self, page: PageId) -> Option<u64> {
        self.list.iter().chain(&self.wired).find(|frame| frame.page == Some(page)).map(|frame| frame.number)
    }

    /// A reference to a resident page.
    ///
    /// # Panics
    /// The page is not resident.
    pub fn touch(&mut self, page: PageId) {
        let at = self.list.iter().position(|frame| frame.page == Some(page)).expect("the page is resident");
        let frame = self.list.remove(at);
        self.list.push(frame);
    }

    /// The frames a placement may choose from, in order.
    #[must_use]
    pub fn pool(&self) -> &[Frame] {
        &self.list[..self.pool.min(self.list.len())]
    }

    /// Puts a page into the pool's frame at `rank`, which stays where it is until it is touched. What it held.
    pub fn place(&mut self, page: PageId, rank: usize) -> Option<PageId> {
        assert!(rank < self.pool);
        self.list[rank].page.replace(page)
    }

    /// Wires the pool's frame at `rank` for a page. The frame's number, and what it held.
    pub fn wire(&mut self, page: PageId, rank: usize) -> (u64, Option<PageId>) {
        assert!(rank < self.pool);
        let Frame { number, page: held } = self.list.remove(rank);
        self.wired.push(Frame { number, page: Some(page) });
        (number, held)
    }

    /// A wired page dies: its frame is free, and goes to the end of the list.
    pub fn unwire(&mut self, page: PageId) {
        if let Some(at) = self.wired.iter().position(|frame| frame.page == Some(page)) {
            let frame = self.wired.remove(at);
            self.list.push(Frame { page: None, ..frame });
        }
    }

    /// A page dies.
    pub fn release(&mut self, page: PageId) {
        for frame in &mut self.list {
            if frame.page == Some(page) {
                frame.page = None;
            }
        }
    }

    /// Frames that hold a page.
    #[must_use]
    pub fn mapped(&self) -> usize {
        self.list.iter().chain(&self.wired).filter(|frame| frame.page.is_some()).count()
    }
}
