//! `Lane` is the memory of one placement behind the path. Each color has a list of frames by last use, and a placement
//! may take any of the oldest frames of the page's color. `Lane` checks that no placement takes the frame of a page
//! that the page cache holds, and that no page has two frames.

use std::collections::{BTreeMap, BTreeSet};

use binhop_oracle::io::{IoEvent, IoPlace, MemoryPlace, UserPlace};
use binhop_os::io::IoConfig;

use super::Call;

/// A page in a frame: a page that counts, the kernel's text, or a page of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Page(MemoryPlace),
    Text,
    Ring(u8, u64),
}

pub(super) struct Lane {
    page: u64,
    buffer: u64,
    pool: usize,
    reuses: bool,
    /// The frames of each color, least recently used first. A frame without a page is free.
    frames: Vec<Vec<Option<Held>>>,
    /// The pages of files that the page cache holds, as far as their data has come.
    cached: BTreeSet<MemoryPlace>,
    /// The pages of files that processes have in mappings. They stay in their frames when they leave the page cache.
    mapped: BTreeSet<MemoryPlace>,
    /// The memory behind the user's pages that have names.
    pub(super) named: BTreeMap<u64, UserPlace>,
    draws: usize,
}

impl Lane {
    /// Makes unused frames. Each color has the frames for which the page cache competes, frames for rings and text, and
    /// a pool of three.
    pub(super) fn new(config: &IoConfig) -> Self {
        let ring = (u64::from(config.ring) * IoConfig::DESCRIPTOR).div_ceil(config.page);
        let reuses = config.memory.is_some_and(|room| room.reuses_frames);
        let pool = if reuses { 1 } else { 3 };
        let frames = config.memory.map_or(0, |room| (room.pages + 3 * ring + 1) as usize + pool);
        Self {
            page: config.page,
            buffer: config.buffer,
            pool,
            reuses,
            frames: vec![vec![None; frames]; config.memory.map_or(0, |room| room.colors.number) as usize],
            cached: BTreeSet::new(),
            mapped: BTreeSet::new(),
            named: BTreeMap::new(),
            draws: 0,
        }
    }

    /// Follows the steps of a call, and then the program's own reference.
    pub(super) fn follow(&mut self, events: &[IoEvent], call: Call) {
        if self.frames.is_empty() {
            return;
        }
        for &event in events {
            match event {
                IoEvent::Copy(from, to, _) => {
                    self.refer(Held::Text);
                    self.access(from, false);
                    self.access(to, true);
                    self.hold(to);
                }
                IoEvent::Zero(at, _) => {
                    self.refer(Held::Text);
                    self.access(at, true);
                    self.hold(at);
                }
                IoEvent::Device { at, writes, .. } => {
                    self.access(at, writes);
                    self.hold(at);
                }
                IoEvent::Driver(_, ring, slot) => {
                    self.refer(Held::Text);
                    self.access(IoPlace::Descriptor(ring, slot), true);
                }
                IoEvent::Interrupt(_) => self.refer(Held::Text),
                IoEvent::Drop(file, page) => self.leave(MemoryPlace::File(file, page)),
            }
        }
        match call {
            Call::Refer(number) => self.refer(Held::Page(self.own(number))),
            Call::Lose(number) => self.die(Held::Page(self.own(number))),
            Call::Fault(file, page, _) => drop(self.mapped.insert(MemoryPlace::File(file, page))),
            _ => {}
        }
        let mut pages: Vec<Held> = self.frames.iter().flatten().copied().flatten().collect();
        while let Some(page) = pages.pop() {
            assert!(!pages.contains(&page), "{page:?} is in two frames");
        }
    }

    fn access(&mut self, at: IoPlace, stores: bool) {
        let page = match at {
            IoPlace::User(byte) => self.of_user(byte / self.page, stores),
            IoPlace::File(file, byte) => MemoryPlace::File(file, byte / self.page),
            IoPlace::Packet(buffer, byte) => {
                MemoryPlace::Packets((u64::from(buffer) * self.buffer + byte) / self.page)
            }
            IoPlace::Pipe(page, _) => MemoryPlace::Pipes(page.into()),
            IoPlace::Descriptor(ring, slot) => {
                return self.refer(Held::Ring(ring, u64::from(slot) * IoConfig::DESCRIPTOR / self.page));
            }
        };
        self.refer(Held::Page(page));
    }

    /// Returns the page behind a page of the user. A store through a private mapping gives the process another page.
    fn of_user(&mut self, number: u64, stores: bool) -> MemoryPlace {
        match self.named.get(&number) {
            None => self.own(number),
            Some(&UserPlace::Own(page)) => page,
            Some(&UserPlace::Mapped { file, page, copy, .. }) => {
                self.mapped.insert(MemoryPlace::File(file, page));
                match copy {
                    Some(copy) if stores => {
                        self.named.insert(number, UserPlace::Own(copy));
                        copy
                    }
                    _ => MemoryPlace::File(file, page),
                }
            }
        }
    }

    fn hold(&mut self, at: IoPlace) {
        if let IoPlace::File(file, byte) = at {
            self.cached.insert(MemoryPlace::File(file, byte / self.page));
        }
    }

    fn own(&self, number: u64) -> MemoryPlace {
        MemoryPlace::Own(number, number % self.frames.len() as u64)
    }

    fn color(&self, page: Held) -> usize {
        let number = match page {
            Held::Page(MemoryPlace::Own(_, number))
            | Held::Page(MemoryPlace::File(_, number))
            | Held::Page(MemoryPlace::Packets(number))
            | Held::Page(MemoryPlace::Pipes(number))
            | Held::Ring(_, number) => number,
            Held::Text => 0,
        };
        (number % self.frames.len() as u64) as usize
    }

    /// References a page, which takes one of the oldest frames of its color if it has none.
    fn refer(&mut self, page: Held) {
        let color = self.color(page);
        let frames = &mut self.frames[color];
        let known = frames.iter().position(|&held| held == Some(page));
        let frame = known.unwrap_or_else(|| {
            self.draws += 1;
            let free = frames.iter().position(Option::is_none);
            let frame = free.filter(|_| self.reuses).unwrap_or(self.draws % self.pool);
            if let Some(Held::Page(taken)) = frames[frame] {
                assert!(!self.cached.contains(&taken), "a placement takes the frame of {taken:?}");
            }
            frame
        });
        frames.remove(frame);
        frames.push(Some(page));
    }

    /// A page leaves the page cache. It dies unless a process has it in a mapping.
    fn leave(&mut self, page: MemoryPlace) {
        self.cached.remove(&page);
        if !self.mapped.contains(&page) {
            self.die(Held::Page(page));
        }
    }

    fn die(&mut self, page: Held) {
        self.frames.iter_mut().flatten().filter(|held| **held == Some(page)).for_each(|held| *held = None);
    }
}
