//! `World` is the obvious model: the state of all address spaces, page by page.

use std::collections::BTreeMap;

use binhop_trace::event::{Event, Op};

use super::PAGE;

/// The flags, the segment and the offset of a page.
pub(crate) type Mapped = (u32, Option<u64>, Option<u64>);

/// `World` is the state of all address spaces, page by page.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) current: u64,
    pub(crate) kernel: u32,
    pub(crate) pages: BTreeMap<(u64, u64), Mapped>,
}

/// An event that changes no state, and the state it finds: the asid that runs, the depth in the kernel, and
/// the mapping of its first page.
pub(crate) type Found = (Event, u64, u32, Option<Mapped>);

impl World {
    pub(crate) fn step(&mut self, event: &Event) {
        let first = event.addr / PAGE;
        let pages = first..first + u64::from(event.count);
        match event.op {
            Op::Switch => self.current = event.addr,
            Op::KernelEnter => self.kernel += 1,
            Op::KernelLeave => self.kernel = self.kernel.saturating_sub(1),
            Op::Map => {
                for page in pages {
                    let offset = event.arg1.map(|offset| offset + (page - first) * PAGE);
                    self.pages.insert((self.current, page), (event.size, event.arg0, offset));
                }
            }
            Op::Unmap => pages.for_each(|page| {
                self.pages.remove(&(self.current, page));
            }),
            Op::Protect => {
                for page in pages {
                    if let Some(mapped) = self.pages.get_mut(&(self.current, page)) {
                        mapped.0 = event.size;
                    }
                }
            }
            Op::Fork | Op::Exec | Op::Exit => {
                self.pages.retain(|&(asid, _), _| asid != event.addr);
                if let (Op::Fork, Some(parent)) = (event.op, event.arg0) {
                    let copied: Vec<_> = self.pages.range((parent, 0)..(parent + 1, 0)).collect();
                    let copied: Vec<_> = copied
                        .into_iter()
                        .map(|(&(_, page), &mapped)| ((event.addr, page), mapped))
                        .collect();
                    self.pages.extend(copied);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn found(&self, event: &Event) -> Found {
        let mapped = self.pages.get(&(self.current, event.addr / PAGE)).copied();
        (*event, self.current, self.kernel, mapped)
    }
}

/// Returns every event that changes no state, with the state before it and its position: the position of the
/// last reference up to it.
pub(crate) fn replay(events: &[Event]) -> Vec<(u64, Found)> {
    let (mut world, mut references) = (World::default(), 0_u64);
    let mut found = Vec::new();
    for event in events {
        world.step(event);
        references += event.references();
        if !event.is_state() {
            found.push((references.saturating_sub(1), world.found(event)));
        }
    }
    found
}

pub(crate) fn worlds(events: &[Event]) -> Vec<Found> {
    replay(events).into_iter().map(|(_, found)| found).collect()
}
