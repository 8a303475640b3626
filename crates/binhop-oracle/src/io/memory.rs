//! This part of the slow path keeps the pages of memory in a list, in order of their last reference.

use super::{IoEvent, IoPlace, MemoryPlace, Server, UserPlace};

impl Server {
    /// References pages of memory by the program.
    pub fn refer(&mut self, pages: &[MemoryPlace]) {
        self.mapped.extend(pages);
        self.make_room(pages);
    }

    /// Lets a page of memory die.
    pub fn lose_page(&mut self, page: MemoryPlace) {
        let mapped = self.mapped.remove(&page);
        let reuses = self.sizes.memory.is_some_and(|room| room.reuses);
        if reuses && !mapped {
            self.memory.retain(|held| held.1 != Some(page));
        } else if let Some(held) = self.memory.iter_mut().find(|held| held.1 == Some(page)) {
            held.1 = None;
        }
    }

    pub(super) fn page_at(&mut self, at: IoPlace) -> Option<MemoryPlace> {
        let size = self.sizes.page;
        Some(match at {
            IoPlace::User(byte) => {
                let number = byte / size;
                let colors = self.sizes.memory.map_or(1, |room| room.colors);
                let own = MemoryPlace::Own(number, number % colors);
                let page = match self.named.get(&number) {
                    None => own,
                    Some(&UserPlace::Own(page)) => page,
                    Some(&UserPlace::Mapped { file, page, .. }) => MemoryPlace::File(file, page),
                };
                self.mapped.insert(page);
                page
            }
            IoPlace::File(file, byte) => MemoryPlace::File(file, byte / size),
            IoPlace::Packet(buffer, byte) => {
                MemoryPlace::Packets((u64::from(buffer) * self.sizes.buffer + byte) / size)
            }
            IoPlace::Pipe(page, _) => MemoryPlace::Pipes(page.into()),
            IoPlace::Descriptor(..) => return None,
        })
    }

    /// Emits an event once the user's pages of it have faulted, and memory has room for its pages.
    pub(super) fn put(&mut self, event: IoEvent) {
        let places = match event {
            IoEvent::Copy(from, to, _) => vec![(from, false), (to, true)],
            IoEvent::Zero(at, _) => vec![(at, true)],
            IoEvent::Device { at, writes, .. } => vec![(at, writes)],
            _ => vec![],
        };
        self.fault_user(&places);
        let pages: Vec<MemoryPlace> = places.into_iter().filter_map(|(at, _)| self.page_at(at)).collect();
        self.make_room(&pages);
        self.events.push(event);
    }

    /// Takes the events from number `made` on off the list, and emits each of them again when memory has room for
    /// its pages.
    pub(super) fn admit(&mut self, made: usize) {
        for event in self.events.split_off(made) {
            self.put(event);
        }
    }

    /// Makes pages the youngest pages of memory. Old pages are reclaimed until all of these pages have room in their
    /// colors. The first of them whose color has no room says which color loses a page.
    pub(super) fn make_room(&mut self, pages: &[MemoryPlace]) {
        let Some(room) = self.sizes.memory else { return };
        loop {
            let mut missing: Vec<MemoryPlace> = Vec::new();
            for &page in pages {
                match self.memory.iter().position(|held| held.1 == Some(page)) {
                    Some(at) => {
                        let held = self.memory.remove(at);
                        self.memory.push(held);
                    }
                    None if missing.contains(&page) => {}
                    None => missing.push(page),
                }
            }
            if missing.is_empty() {
                return;
            }
            let colors: Vec<u64> = missing.iter().map(|page| page.color(room.colors)).collect();
            let full = colors.iter().copied().find(|color| {
                let held = self.memory.iter().filter(|held| held.0 == *color).count();
                held + colors.iter().filter(|other| *other == color).count() > room.pages
            });
            match full {
                Some(color) => self.reclaim(color),
                None => {
                    for &page in pages {
                        self.memory.retain(|held| held.1 != Some(page));
                        self.memory.push((page.color(room.colors), Some(page)));
                    }
                    return;
                }
            }
        }
    }

    /// Reclaims the oldest page of a color. A page of the cache that the disk reads or writes before becomes young,
    /// and stays.
    fn reclaim(&mut self, color: u64) {
        let first = |server: &Self| server.memory.iter().position(|held| held.0 == color);
        let at = first(self).expect("a color without room holds a page");
        let oldest = self.memory[at].1;
        let Some(MemoryPlace::File(file, page)) = oldest else {
            self.memory.remove(at);
            return;
        };
        if self.position(file, page).is_none() {
            self.memory.remove(at);
            return;
        }
        self.wait_for(file, page);
        if self.is_dirty(file, page) {
            self.flush_around(file, page);
        }
        self.wait_for_write(|of, written| (of, written) == (file, page));
        if first(self).is_some_and(|at| self.memory[at].1 == oldest) {
            self.drop_page(file, page);
        }
    }
}
