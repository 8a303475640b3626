//! `Chains` is the hash table of the forms `hashed` and `inverted`. It holds the translations behind each slot, in
//! their order.
//!
//! A slot has a number of b bits (b = log2 of the slots). The slot of a page is the exclusive or of all pieces of b
//! bits of the page's number and of a multiplicative hash of the address space, which also has b bits. So
//! neighbouring pages have neighbouring slots, whose entries share lines. The hash is ours.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

use binhop_base::{Asid, PageId, PageNo};

use super::pieces::Piece;

/// The number of slots for each frame. A search in a full memory then meets 1 + ½ × ½ = 1.25 entries on
/// average.
const SLOTS_PER_FRAME: u64 = 2;

/// Returns the logarithm of the number of slots: at least [`SLOTS_PER_FRAME`] for each frame.
pub(super) fn slots_log2(frames: u64) -> u32 {
    frames.saturating_mul(SLOTS_PER_FRAME).clamp(2, 1 << 31).next_power_of_two().trailing_zeros()
}

/// The end of a chain.
const END: u32 = u32::MAX;

/// `ChainLink` is a translation in its chain.
#[derive(Clone, Copy)]
pub(super) struct ChainLink {
    pub(super) asid: Asid,
    pub(super) page_no: PageNo,
    pub(super) page: PageId,
    /// The entry in the overflow area, if the translation has one there.
    pub(super) overflow: Option<Piece>,
    next: u32,
}

/// `Chains` holds all translations, each in the chain of its slot, the oldest first.
pub(super) struct Chains {
    slots_log2: u32,
    heads: Box<[u32]>,
    links: Vec<ChainLink>,
    unused: Vec<u32>,
    /// The link of each translation.
    of_page: BTreeMap<(Asid, PageNo), u32>,
}

impl Chains {
    pub(super) fn new(slots_log2: u32) -> Self {
        let heads = vec![END; 1 << slots_log2].into();
        Self { slots_log2, heads, links: Vec::new(), unused: Vec::new(), of_page: BTreeMap::new() }
    }

    /// Returns the slot of a page.
    pub(super) fn slot(&self, asid: Asid, page_no: PageNo) -> usize {
        let spread = u64::from(asid.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.slots_log2);
        let (mut folded, mut rest) = (spread, page_no.0);
        while rest > 0 {
            folded ^= rest;
            rest >>= self.slots_log2;
        }
        (folded & ((1 << self.slots_log2) - 1)) as usize
    }

    pub(super) fn len(&self) -> u64 {
        self.of_page.len() as u64
    }

    /// Returns the link of a page.
    pub(super) fn find(&self, asid: Asid, page_no: PageNo) -> Option<u32> {
        self.of_page.get(&(asid, page_no)).copied()
    }

    /// Returns the pages of an address space among `first..=last`, in order.
    pub(super) fn mapped(&self, asid: Asid, first: PageNo, last: PageNo) -> Vec<PageNo> {
        let range = (first <= last).then(|| self.of_page.range((asid, first)..=(asid, last)));
        range.into_iter().flatten().map(|(&(_, page_no), _)| page_no).collect()
    }

    pub(super) fn link(&self, link: u32) -> &ChainLink {
        &self.links[link as usize]
    }

    pub(super) fn link_mut(&mut self, link: u32) -> &mut ChainLink {
        &mut self.links[link as usize]
    }

    /// Returns the chain of a slot.
    pub(super) fn chain(&self, slot: usize) -> impl Iterator<Item = u32> {
        let next = |link: &u32| Some(self.links[*link as usize].next).filter(|next| *next != END);
        core::iter::successors(Some(self.heads[slot]).filter(|head| *head != END), next)
    }

    /// Appends a translation to the chain of its slot. Returns its link.
    pub(super) fn append(
        &mut self,
        asid: Asid,
        page_no: PageNo,
        page: PageId,
        overflow: Option<Piece>,
    ) -> u32 {
        let fresh = ChainLink { asid, page_no, page, overflow, next: END };
        let link = match self.unused.pop() {
            Some(link) => {
                self.links[link as usize] = fresh;
                link
            }
            None => {
                self.links.push(fresh);
                (self.links.len() - 1) as u32
            }
        };
        let slot = self.slot(asid, page_no);
        match self.chain(slot).last() {
            Some(last) => self.links[last as usize].next = link,
            None => self.heads[slot] = link,
        }
        self.of_page.insert((asid, page_no), link);
        link
    }

    /// Removes a link from its chain. Returns what the link held.
    pub(super) fn remove(&mut self, link: u32) -> ChainLink {
        let gone = self.links[link as usize];
        let slot = self.slot(gone.asid, gone.page_no);
        let before = self.chain(slot).find(|before| self.links[*before as usize].next == link);
        match before {
            Some(before) => self.links[before as usize].next = gone.next,
            None => self.heads[slot] = gone.next,
        }
        self.of_page.remove(&(gone.asid, gone.page_no));
        self.unused.push(link);
        gone
    }

    /// Returns every link, slot by slot, with its place in its chain.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u32)> {
        (0..self.heads.len()).flat_map(|slot| self.chain(slot).enumerate())
    }
}
