//! `ColoredMemory` is a memory with colored free lists, of one size and one number of colors. Every color is
//! a plain list of pages.

use binhop_base::PageId;

/// `ColoredMemory` holds the pages in memory by color, least recently used first.
pub struct ColoredMemory {
    lists: Vec<Vec<PageId>>,
    frames: usize,
    /// The number of touches that did not find their page.
    pub faults: u64,
}

impl ColoredMemory {
    /// Makes an empty memory of `colors` colors with `frames` frames each.
    #[must_use]
    pub fn new(colors: usize, frames: usize) -> Self {
        Self { lists: vec![Vec::new(); colors], frames, faults: 0 }
    }

    /// Touches a page of a color, which becomes the color's most recently used page. If the page is not in
    /// memory and the color is full, the least recently used page of the color leaves.
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

/// Puts pages, given by their colors, into lists of `frames` frames each until a list is full. Returns the
/// number of pages in the lists.
///
/// # Panics
/// No list becomes full.
#[must_use]
pub fn allocated_until_full(page_colors: &[usize], colors: usize, frames: usize) -> usize {
    (1..=page_colors.len())
        .find(|&n| {
            (0..colors).any(|color| page_colors[..n].iter().filter(|&&c| c == color).count() == frames)
        })
        .expect("a list becomes full")
}
