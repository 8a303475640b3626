//! Memory with colored free lists, one size and one color count: every color a plain list of pages.

use binhop_base::PageId;

/// The pages in memory, by color, least recently used first.
pub struct ColoredMemory {
    lists: Vec<Vec<PageId>>,
    frames: usize,
    /// Touches that did not find their page.
    pub faults: u64,
}

impl ColoredMemory {
    /// Empty memory of `colors` colors with `frames` frames each.
    #[must_use]
    pub fn new(colors: usize, frames: usize) -> Self {
        Self { lists: vec![Vec::new(); colors], frames, faults: 0 }
    }

    /// A touch of a page of this color: it becomes the color's most recent; if it was not there, and the color
    /// is full, the least recent leaves.
    pub fn touch(&mut self, page: PageId, color: usize) {
        let list = &mut self.lists[color];
        match list.iter().position(|&held| held == page) {
            Some(at) => drop(list.remove(at)),
            None => {
                self.faults += 1;
                if list.len() == self.frames {
                    list.remove(0);
                }
            }
        }
        list.push(page);
    }
}

/// Puts pages, by their colors in this order, into lists of `frames` each until one is full. How many were put.
///
/// # Panics
/// No list gets full.
#[must_use]
pub fn allocated_until_full(page_colors: &[usize], colors: usize, frames: usize) -> usize {
    (1..=page_colors.len())
        .find(|&n| {
            (0..colors).any(|color| page_colors[..n].iter().filter(|&&c| c == color).count() == frames)
        })
        .expect("a list gets full")
}
