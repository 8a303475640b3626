//! `Holders` knows for each page the lives whose computers may hold its lines.

use std::collections::BTreeMap;

use binhop_base::PageId;

/// `Holders` knows for each page the lives whose computers may hold its lines. A place in the list of lives that
/// another life has taken over stays: nothing is wrong about asking a computer in vain.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// For each page its holder plus one, 0 for none, or [`MANY`].
    first: Vec<u32>,
    many: BTreeMap<PageId, Vec<u32>>,
}

/// Several lives hold lines of a page.
const MANY: u32 = u32::MAX;

impl Holders {
    pub(super) fn add(&mut self, page: PageId, life: usize) {
        if self.first.len() <= page.index() {
            self.first.resize(page.index() + 1, 0);
        }
        let (first, life) = (&mut self.first[page.index()], life as u32);
        if *first == 0 {
            *first = life + 1;
        } else if *first == MANY {
            let all = self.many.get_mut(&page).expect("pages with several holders are in the map");
            if !all.contains(&life) {
                all.push(life);
            }
        } else if *first != life + 1 {
            self.many.insert(page, vec![*first - 1, life]);
            *first = MANY;
        }
    }

    /// Returns the number of holders, to go through with [`Holders::holder`].
    pub(super) fn count(&self, page: PageId) -> usize {
        match self.first.get(page.index()) {
            None | Some(0) => 0,
            Some(&MANY) => self.many[&page].len(),
            Some(_) => 1,
        }
    }

    pub(super) fn holder(&self, page: PageId, number: usize) -> usize {
        match self.first[page.index()] {
            MANY => self.many[&page][number] as usize,
            only => only as usize - 1,
        }
    }

    pub(super) fn clear(&mut self, page: PageId) {
        if let Some(first) = self.first.get_mut(page.index()) {
            *first = 0;
            self.many.remove(&page);
        }
    }
}
