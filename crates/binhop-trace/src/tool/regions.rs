//! Where an address lies: the live mappings of each address space, and their segments.

use std::collections::BTreeMap;

use binhop_base::forest::Root;

use super::Event;
use crate::event::{Meta, Op, map_flags};
use crate::inspect::{ASSUMED_PAGE, page_told};
use crate::mappings::{GROWTH, Mapping, Mappings};

/// The mappings of every address space, by asid.
#[derive(Debug)]
pub(super) struct Regions {
    page: u64,
    mappings: Mappings,
    spaces: BTreeMap<u64, Root>,
}

impl Regions {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            page: page_told(meta).unwrap_or(ASSUMED_PAGE),
            mappings: Mappings::default(),
            spaces: BTreeMap::new(),
        }
    }

    /// Takes note of an event that happens while `current` runs.
    pub(super) fn note(&mut self, event: &Event, current: u64) {
        let end = event.addr.saturating_add(u64::from(event.count) * self.page);
        match event.op {
            Op::Map => {
                let mapping = Mapping { end, flags: event.size, segment: event.arg0, offset: event.arg1 };
                let space = self.spaces.entry(current).or_default();
                *space = self.mappings.map(*space, event.addr, mapping);
            }
            Op::Unmap => {
                let space = self.spaces.entry(current).or_default();
                *space = self.mappings.unmap(*space, event.addr, end);
            }
            Op::Protect => self.protect(current, event.addr, end, event.size),
            Op::Fork => {
                let parent = event.arg0.and_then(|parent| self.spaces.get(&parent)).copied();
                let born = self.mappings.share(parent.unwrap_or_default());
                let before = self.spaces.insert(event.addr, born);
                self.mappings.release(before.unwrap_or_default());
            }
            Op::Exec | Op::Exit => {
                let ended = self.spaces.remove(&event.addr);
                self.mappings.release(ended.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// A mapping that continues its neighbour after the change merges with it, so repeated protections leave
    /// no pieces.
    fn protect(&mut self, current: u64, start: u64, end: u64, flags: u32) {
        let space = self.spaces.entry(current).or_default();
        let below = start.checked_sub(1).and_then(|below| self.mappings.at(*space, below));
        let below = below.map(|(from, below)| (from, Mapping { end: below.end.min(start), ..below }));
        let within = self.mappings.overlapping(*space, start, end).into_iter().map(|(from, mapping)| {
            let (start, end) = (from.max(start), mapping.end.min(end));
            (start, Mapping { end, flags, ..mapping.without(start - from) })
        });
        let within: Vec<(u64, Mapping)> = within.collect();
        let above = self.mappings.at(*space, end).map(|(from, above)| {
            let start = from.max(end);
            (start, above.without(start - from))
        });
        let most = u64::from(u32::MAX) * self.page;
        let mut joined: Vec<(u64, Mapping)> = Vec::new();
        for (start, mapping) in below.into_iter().chain(within).chain(above) {
            match joined.last_mut() {
                Some((from, before))
                    if before.continued_by(*from, start, &mapping) && mapping.end - *from <= most =>
                {
                    before.end = mapping.end;
                }
                _ => joined.push((start, mapping)),
            }
        }
        for (start, mapping) in joined {
            *space = self.mappings.map(*space, start, mapping);
        }
    }

    /// The segment at an address, if it is mapped and the mapping names one.
    pub(super) fn segment_at(&self, asid: u64, addr: u64) -> Option<u64> {
        let space = *self.spaces.get(&asid)?;
        if let Some((_, mapping)) = self.mappings.at(space, addr) {
            return mapping.segment;
        }
        let (start, above) = self.mappings.next(space, addr)?;
        (above.flags & map_flags::GROWS != 0 && start - addr <= GROWTH).then_some(above.segment)?
    }

    /// Events that map in a new space what another has mapped.
    pub(super) fn remap(&self, asid: u64) -> Vec<Event> {
        let space = self.spaces.get(&asid).copied().unwrap_or_default();
        let maps = self.mappings.all(space);
        maps.map(|(addr, mapping)| Event {
            op: Op::Map,
            addr,
            size: mapping.flags,
            count: ((mapping.end - addr) / self.page) as u32,
            arg0: mapping.segment,
            arg1: mapping.offset,
        })
        .collect()
    }
}
