//! `Regions` finds the segment of an address from the live mappings of each address space.

use std::collections::BTreeMap;

use binhop_base::forest::Root;

use crate::event::{Event, Op, map_flags};
use crate::mappings::{GROWTH, Mapping, Mappings};
use crate::source::{ASSUMED_PAGE, Meta};

/// `Regions` holds the mappings of every address space, by asid.
#[derive(Debug)]
pub(super) struct Regions {
    page: u64,
    /// The mappings of each space. The flags are in `flags`.
    mappings: Mappings,
    /// The flags, apart from the mappings. A protect event replaces a few entries here, however many mappings
    /// its range holds. An address without a mapping may have flags.
    flags: Mappings,
    spaces: BTreeMap<u64, SpaceRoots>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpaceRoots {
    mappings: Root,
    flags: Root,
}

impl Regions {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            page: meta.known_page_size().unwrap_or(ASSUMED_PAGE),
            mappings: Mappings::default(),
            flags: Mappings::default(),
            spaces: BTreeMap::new(),
        }
    }

    /// Applies an event that happens while `current` runs.
    pub(super) fn note(&mut self, event: &Event, current: u64) {
        let end = event.addr.saturating_add(u64::from(event.count) * self.page);
        match event.op {
            Op::Map => {
                let mapping = Mapping { end, flags: 0, segment: event.arg0, offset: event.arg1 };
                let space = self.spaces.entry(current).or_default();
                space.mappings = self.mappings.map(space.mappings, event.addr, mapping);
                self.set_flags(current, event.addr, end, event.size);
            }
            Op::Unmap => {
                let space = self.spaces.entry(current).or_default();
                space.mappings = self.mappings.unmap(space.mappings, event.addr, end);
                space.flags = self.flags.unmap(space.flags, event.addr, end);
            }
            Op::Protect => self.set_flags(current, event.addr, end, event.size),
            Op::Fork => {
                let parent = event.arg0.and_then(|parent| self.spaces.get(&parent)).copied();
                let parent = parent.unwrap_or_default();
                let (mappings, flags) =
                    (self.mappings.share(parent.mappings), self.flags.share(parent.flags));
                let before = self.spaces.insert(event.addr, SpaceRoots { mappings, flags });
                self.release(before.unwrap_or_default());
            }
            Op::Exec | Op::Exit => {
                let ended = self.spaces.remove(&event.addr);
                self.release(ended.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn release(&mut self, space: SpaceRoots) {
        self.mappings.release(space.mappings);
        self.flags.release(space.flags);
    }

    /// Gives a range these flags. The range merges with neighbours of the same flags, so that repeated
    /// protect events leave no pieces.
    fn set_flags(&mut self, current: u64, start: u64, end: u64, flags: u32) {
        if start >= end {
            return;
        }
        let space = self.spaces.entry(current).or_default();
        let alike = |&(_, piece): &(u64, Mapping)| piece.flags == flags;
        let below = start.checked_sub(1).and_then(|below| self.flags.at(space.flags, below)).filter(alike);
        let above = self.flags.at(space.flags, end).filter(alike);
        let start = below.map_or(start, |(from, _)| from);
        let end = above.map_or(end, |(_, piece)| piece.end);
        space.flags = self.flags.map(space.flags, start, Mapping { end, flags, segment: None, offset: None });
    }

    /// Returns the segment at an address, if the address is mapped and its mapping names a segment.
    pub(super) fn segment_at(&self, asid: u64, addr: u64) -> Option<u64> {
        let space = *self.spaces.get(&asid)?;
        if let Some((_, mapping)) = self.mappings.at(space.mappings, addr) {
            return mapping.segment;
        }
        let (start, above) = self.mappings.next(space.mappings, addr)?;
        let (_, piece) = self.flags.at(space.flags, start)?;
        (piece.flags & map_flags::GROWS != 0 && start - addr <= GROWTH).then_some(above.segment)?
    }

    /// Returns map events that make the mappings of an address space anew.
    pub(super) fn remap(&self, asid: u64) -> Vec<Event> {
        let space = self.spaces.get(&asid).copied().unwrap_or_default();
        let mut events = Vec::new();
        for (start, mapping) in self.mappings.all(space.mappings) {
            let mut at = start;
            while at < mapping.end {
                let (_, piece) = self.flags.at(space.flags, at).expect("each mapped address has flags");
                let end = piece.end.min(mapping.end);
                events.push(Event {
                    op: Op::Map,
                    addr: at,
                    size: piece.flags,
                    count: ((end - at) / self.page) as u32,
                    arg0: mapping.segment,
                    arg1: mapping.without(at - start).offset,
                });
                at = end;
            }
        }
        events
    }
}
