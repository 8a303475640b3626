//! `Occasions` knows where a unit may act, and what filters no longer know from there on.
//!
//! A filter knows for each slot that the line accessed last is the most recently used line of its set. An
//! injected access through the same port to any line of the slot ends this knowledge: the access may evict
//! the line or age it, under every replacement, and may leave it clean or absent. An access to a line of
//! another slot falls into another set. So the filter forgets the slots of the lines that the unit may touch,
//! and no other slots. A hashed index has one slot.
//!
//! A filter forgets what it knows of the cache. It does not forget when lines were referenced, because
//! injected accesses change no page's time of last reference.

use std::sync::Arc;

use binhop_base::{Kind, MappingId, Result};

use super::filter::{Filters, Shape};
use super::{Control, Prepare};
use crate::occasion::{Occasion, OccasionKind, Port, Subscription};

/// `Occasions` are the occasions for which a unit asks, as preparation sees them.
pub(super) struct Occasions {
    subscription: Arc<Subscription>,
    /// For each kind of occasion, the slots of each filter that are forgotten there.
    forgets: [[Box<[u32]>; 2]; OccasionKind::ALL.len()],
    /// The mapping that each port last referenced.
    last: [Option<MappingId>; 2],
}

impl Occasions {
    /// Makes the occasions for caches of these shapes, with pages of 2^`page_log2` bytes. If there are two
    /// shapes, the second cache serves data.
    pub(super) fn new(
        subscription: Arc<Subscription>,
        shapes: &[Shape; 2],
        split: bool,
        page_log2: u32,
    ) -> Self {
        let slots = |kind: OccasionKind, number: usize| -> Box<[u32]> {
            let Some(touched) = subscription.touched(kind) else { return Box::default() };
            let shape = &shapes[number];
            let in_page = 1u64 << (page_log2 - shape.line_log2);
            let ports: &[Port] = match (split, number) {
                (true, 0) => &[Port::Fetch],
                (true, _) => &[Port::Data],
                (false, 0) => &[Port::Fetch, Port::Data],
                (false, _) => &[],
            };
            let lines = ports.iter().flat_map(|&port| touched.of(port).numbers(shape.line_log2, in_page));
            let mut slots: Vec<u32> = lines.flat_map(|line| shape.slots_of(line, in_page)).collect();
            slots.sort_unstable();
            slots.dedup();
            slots.into()
        };
        let forgets = std::array::from_fn(|kind| {
            let kind = OccasionKind::ALL[kind];
            [slots(kind, 0), slots(kind, 1)]
        });
        Self { subscription, forgets, last: [None; 2] }
    }

    /// Returns whether a unit asks for a kind of occasion.
    pub(super) fn wants(&self, kind: OccasionKind) -> bool {
        self.subscription.touched(kind).is_some()
    }

    /// Notes that the address space or its maps have changed: the next reference of each port is to another
    /// page.
    pub(super) fn forget_pages(&mut self) {
        self.last = [None; 2];
    }

    /// Makes the filters forget the slots that the unit may disturb at an occasion of this kind.
    fn disturb(&self, kind: OccasionKind, filters: &mut Filters) {
        for (port, slots) in self.forgets[kind as usize].iter().enumerate() {
            filters.forget_slots(port, slots);
        }
    }
}

impl Prepare {
    /// Emits an occasion that may arise in some lane, if a unit asks for it.
    pub(super) fn occasion(&mut self, occasion: Occasion) {
        let Some(occasions) = self.occasions.as_ref().filter(|all| all.wants(occasion.kind())) else {
            return;
        };
        occasions.disturb(occasion.kind(), &mut self.filters);
        let occasion = occasion.renamed(|mapping| self.name_of(mapping));
        let touches_front = occasions.subscription.ends_sharing(occasion.kind());
        // A lane's clock is right at every occasion, because the next row counts its instructions from here.
        self.instructions_at_row = self.stream.instructions;
        self.control(Control::Occasion { occasion, instructions: self.stream.instructions, touches_front });
    }

    /// Takes in an access of a stream with occasions or translation.
    #[inline(never)]
    pub(super) fn access_with_occasions(&mut self, port: usize, line: u64, kind: Kind) -> Result<()> {
        let store = kind == Kind::Store;
        let now = self.clock;
        let (sure, _) = self.filters.drops_or_wakes(port, line, store, now);
        let mapping = if sure { self.filters.mapping_of(port, line) } else { self.reach(port, line, kind)? };
        let by = Port::of(kind);
        let page_no = line >> (self.page.log2() - self.line_log2[port]);
        let walks = self.translate(by, page_no, mapping, kind)?;
        let mut misses = false;
        if let Some(occasions) = &mut self.occasions {
            misses = occasions.wants(OccasionKind::Miss);
            if occasions.last[by as usize].replace(mapping) != Some(mapping) {
                self.occasion(Occasion::PageChange { port: by, mapping });
            }
        }
        let passes = !(sure && self.filters.drops(port, line, store, now));
        if passes {
            if misses && let Some(occasions) = &self.occasions {
                // The row that follows is the occasion. A lane finds out whether level 1 holds its line.
                occasions.disturb(OccasionKind::Miss, &mut self.filters);
            }
            self.push(port, line, mapping, kind);
        }
        if walks {
            self.after_walk(kind, passes);
        }
        Ok(())
    }
}
