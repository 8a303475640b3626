//! Demand paging: a process waits for the disk when it first touches a page that its image's file holds.
//!
//! Rules. These pages are the pages of the text and of the initialised data. A page of text stays in memory
//! from the first touch by any process that runs the image. Initialised data are private, so every process
//! reads its own copy. Pages that begin as zeros (other static data, heap, stack) come from memory without a
//! wait. A child shares its parent's pages until it executes an image of its own. Memory is never full. A
//! process waits before the run of instructions that touches the page or makes the reference to it. A second
//! process that touches a page of text while the page is read does not wait.
//!
//! Cost: two table look-ups per row.

use std::collections::{BTreeSet, VecDeque};

use binhop_trace::Op;

use crate::address_space::{DATA, Image, PAGE, TEXT};
use crate::rows::StepRows;

/// `TextInMemory` holds the pages of text that are in memory: text segment and page.
#[derive(Default)]
pub(crate) struct TextInMemory(BTreeSet<(u64, u64)>);

/// `FirstTouches` finds the first touches of a process to the pages of its image.
pub(crate) struct FirstTouches {
    segment: u64,
    /// The numbers of pages of text and of initialised data.
    text: u64,
    data: u64,
    /// Whether the process has touched each page: text, then data, then an entry for all other pages.
    touched: Box<[bool]>,
    /// The first touches in the rows of the current step that have not happened: row and page.
    ahead: VecDeque<(usize, u64)>,
}

impl FirstTouches {
    /// Begins a process of this image. The process executes the image from row `from` on.
    pub(crate) fn new(image: Image, rows: &StepRows, from: usize) -> Self {
        let (text, data) = (image.text.div_ceil(PAGE), image.initialised.div_ceil(PAGE));
        let mut touched = vec![false; (text + data + 1) as usize].into_boxed_slice();
        touched[(text + data) as usize] = true;
        let mut touches = Self { segment: image.segment, text, data, touched, ahead: VecDeque::new() };
        touches.find_from(rows, from);
        touches
    }

    /// Returns the place of an address in `touched`.
    #[inline(always)]
    fn place(&self, addr: u64) -> usize {
        let text = addr.wrapping_sub(TEXT) / PAGE;
        let data = addr.wrapping_sub(DATA) / PAGE;
        let place = if text < self.text { text } else { self.text + data.min(self.data) };
        place as usize
    }

    /// Finds the first touches in the rows of a step.
    pub(crate) fn find(&mut self, rows: &StepRows) {
        self.find_from(rows, 0);
    }

    fn find_from(&mut self, rows: &StepRows, from: usize) {
        let (ops, addrs, sizes) = (rows.op(), rows.addr(), rows.size());
        // The pages of the last instruction and of the last datum: most rows touch the same page again.
        let mut pages = [u64::MAX; 2];
        for row in from..rows.len() {
            if ops[row] > Op::Store as u8 {
                continue;
            }
            let (first, last) = (addrs[row], addrs[row] + u64::from(sizes[row]) - 1);
            let before = &mut pages[usize::from(ops[row] != Op::Fetch as u8)];
            if first / PAGE == *before && last / PAGE == *before {
                continue;
            }
            *before = last / PAGE;
            for place in [self.place(first), self.place(last)] {
                if !self.touched[place] {
                    self.touched[place] = true;
                    // The fetch before a data reference belongs to the same run of instructions.
                    let run = if ops[row] == Op::Fetch as u8 { row } else { row - 1 };
                    self.ahead.push_back((run, place as u64));
                }
            }
        }
    }

    /// Returns the row before which the process waits next.
    pub(crate) fn next(&mut self, memory: &TextInMemory) -> Option<usize> {
        while let Some(&(row, page)) = self.ahead.front() {
            if page >= self.text || !memory.0.contains(&(self.segment, page)) {
                return Some(row);
            }
            self.ahead.pop_front();
        }
        None
    }

    /// Reads the page for which the process waits.
    pub(crate) fn load(&mut self, memory: &mut TextInMemory) {
        let (_, page) = self.ahead.pop_front().expect("a process waits for a page that it touches");
        if page < self.text {
            memory.0.insert((self.segment, page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Image =
        Image { name: "test", segment: 3, text: 2 * PAGE, data: 3 * PAGE, initialised: 2 * PAGE };

    fn rows() -> StepRows {
        let mut rows = StepRows::new();
        rows.push(Op::Map, TEXT, 0, 16); // 0: not a touch
        rows.push(Op::Fetch, TEXT + PAGE - 8, 16, 4); // 1: both pages of text
        rows.push(Op::Load, DATA + 2 * PAGE, 4, 1); // 2: zero-filled
        rows.push(Op::Fetch, TEXT + 8, 8, 2); // 3
        rows.push(Op::Store, DATA + PAGE, 4, 1); // 4: the second page of data
        rows.push(Op::Fetch, TEXT, 4, 1); // 5
        rows.push(Op::Load, DATA + PAGE + 8, 4, 1); // 6: touched before
        rows
    }

    fn waits(memory: &mut TextInMemory, from: usize) -> Vec<usize> {
        let mut touches = FirstTouches::new(IMAGE, &rows(), from);
        let mut at = Vec::new();
        while let Some(row) = touches.next(memory) {
            at.push(row);
            touches.load(memory);
        }
        at
    }

    #[test]
    fn text_is_read_once_and_initialised_data_by_each_process() {
        let mut memory = TextInMemory::default();
        assert_eq!(waits(&mut memory, 0), [1, 1, 3]);
        assert_eq!(waits(&mut memory, 0), [3]);
    }

    #[test]
    fn rows_before_the_image_touch_the_parents_pages() {
        assert_eq!(waits(&mut TextInMemory::default(), 3), [3, 3]);
    }
}
