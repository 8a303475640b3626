//! Where an address lies: the live mappings of each address space, and their segments.

use std::collections::BTreeMap;

use super::Event;
use crate::event::{Meta, Op, map_flags};
use crate::inspect::{ASSUMED_PAGE, page_told};

/// A growing mapping takes in a reference this far below its start, as Linux lets a stack grow (8 MiB).
const GROWTH: u64 = 8 << 20;

/// A live mapping, from its start (the key) up to `end`.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    flags: u32,
    segment: Option<u64>,
    /// First byte in the segment.
    offset: Option<u64>,
}

/// The mappings of every address space, by asid.
#[derive(Clone, Debug)]
pub(super) struct Regions {
    page: u64,
    spaces: BTreeMap<u64, BTreeMap<u64, Mapping>>,
}

impl Regions {
    pub(super) fn new(meta: &Meta) -> Self {
        Self { page: page_told(meta).unwrap_or(ASSUMED_PAGE), spaces: BTreeMap::new() }
    }

    /// Takes note of an event that happens while `current` runs.
    pub(super) fn note(&mut self, event: &Event, current: u64) {
        let end = event.addr.saturating_add(u64::from(event.count) * self.page);
        match event.op {
            Op::Map => {
                let space = self.spaces.entry(current).or_default();
                cut(space, event.addr, end);
                let mapping = Mapping { end, flags: event.size, segment: event.arg0, offset: event.arg1 };
                space.insert(event.addr, mapping);
            }
            Op::Unmap => cut(self.spaces.entry(current).or_default(), event.addr, end),
            Op::Protect => {
                let space = self.spaces.entry(current).or_default();
                for mut part in overlapping(space, event.addr, end) {
                    let (start, stop) = (part.0.max(event.addr), part.1.end.min(end));
                    cut(space, start, stop);
                    part.1 = moved(part.1, start - part.0);
                    space.insert(start, Mapping { end: stop, flags: event.size, ..part.1 });
                }
            }
            Op::Fork => {
                let parent = event.arg0.and_then(|parent| self.spaces.get(&parent)).cloned();
                self.spaces.insert(event.addr, parent.unwrap_or_default());
            }
            Op::Exec | Op::Exit => drop(self.spaces.remove(&event.addr)),
            _ => {}
        }
    }

    /// The segment at an address, if it is mapped and the mapping names one.
    pub(super) fn segment_at(&self, asid: u64, addr: u64) -> Option<u64> {
        let space = self.spaces.get(&asid)?;
        if let Some((_, mapping)) = space.range(..=addr).next_back().filter(|(_, below)| below.end > addr) {
            return mapping.segment;
        }
        let (&start, above) = space.range(addr..).next()?;
        (above.flags & map_flags::GROWS != 0 && start - addr <= GROWTH).then_some(above.segment)?
    }

    /// Events that map in a new space what another has mapped.
    pub(super) fn remap(&self, asid: u64) -> Vec<Event> {
        let maps = self.spaces.get(&asid).into_iter().flatten();
        maps.map(|(&addr, mapping)| Event {
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

fn moved(mapping: Mapping, bytes: u64) -> Mapping {
    Mapping { offset: mapping.offset.map(|offset| offset.wrapping_add(bytes)), ..mapping }
}

fn overlapping(space: &BTreeMap<u64, Mapping>, start: u64, end: u64) -> Vec<(u64, Mapping)> {
    let below = space.range(..end).rev();
    below.take_while(|(_, mapping)| mapping.end > start).map(|(&from, &mapping)| (from, mapping)).collect()
}

/// Takes a range out.
fn cut(space: &mut BTreeMap<u64, Mapping>, start: u64, end: u64) {
    for (from, mapping) in overlapping(space, start, end) {
        space.remove(&from);
        if from < start {
            space.insert(from, Mapping { end: start, ..mapping });
        }
        if mapping.end > end {
            space.insert(end, moved(mapping, end - from));
        }
    }
}
