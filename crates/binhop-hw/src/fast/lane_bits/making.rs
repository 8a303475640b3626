//! This part of [`LaneBits`] makes the accesses that waited, in level 1 and in each back.

use binhop_base::Kind;

use super::{
    BitsAccess, By, LaneBits, Mask, Served,
    after_marks::{MissesAfterMarks, Part},
    back_cache::BitsRequest,
    back_chain::AHEAD,
    bucket::BucketOf,
    front_cache::FrontAccess,
    front_requests::FrontRequest,
    port::{Port, send},
    waiting::{BLOCK, WaitingAccesses},
};
use crate::cache::lines::search::{Instructions, Search, SearchVisitor};

impl LaneBits {
    /// Makes the accesses that wait.
    pub fn access_waiting(&mut self) {
        self.place_pages();
        if self.waiting.len() == 0 {
            return;
        }
        self.access_waiting_with(fastest());
    }

    /// Passes a mark: from here on, demand misses are counted apart until [`LaneBits::forget_marks`]. Accesses that
    /// wait need not be made. At most [`MOST_MARKS`](super::MOST_MARKS) marks are passed before they are forgotten.
    pub fn pass_mark(&mut self) {
        self.waiting.pass_mark();
        self.each_after_marks(MissesAfterMarks::pass);
    }

    /// Forgets the marks that were passed. No access waits.
    pub fn forget_marks(&mut self) {
        self.waiting.forget_marks();
        self.each_after_marks(MissesAfterMarks::forget);
    }

    fn each_after_marks(&mut self, act: impl FnMut(&mut MissesAfterMarks)) {
        let fronts = self.fronts.iter_mut().map(|front| &mut front.after_marks);
        let levels = self.backs.iter_mut().flat_map(|back| &mut back.levels);
        fronts.chain(levels.map(|level| &mut level.cache.after_marks)).for_each(act);
    }

    fn access_waiting_with(&mut self, instructions: Instructions) {
        let nothing = WaitingAccesses::new(BucketOf::ONE, 0, [0; 2]);
        let mut waiting = std::mem::replace(&mut self.waiting, nothing);
        waiting.take_all(|part, accesses| self.make((part, accesses), instructions));
        self.waiting = waiting;
        self.ask_backs();
    }

    /// Makes accesses of a part of the stream in order.
    #[inline]
    fn make(&mut self, (part, accesses): (Part, &[BitsAccess]), instructions: Instructions) {
        if self.fronts.is_empty() {
            self.replay_all(part, accesses);
        } else {
            instructions.run(AccessesVisitor { bits: self, part, accesses });
        }
    }

    fn replay_all(&mut self, part: Part, requests: &[BitsAccess]) {
        let Self { all, frames, backs, served, .. } = self;
        for back in backs {
            let lines_of = back.levels[0].cache.lines_of;
            let key = |access: &BitsAccess| lines_of.key(access.page, access.line);
            for (number, access) in requests.iter().enumerate() {
                if let Some(later) = requests.get(number + AHEAD) {
                    back.levels[0].cache.prefetch(key(later));
                }
                let &BitsAccess { kind, by, is_part, .. } = access;
                let request = BitsRequest { key: key(access), kind, by, is_part, part };
                let at_memory = back.request_in_all(request, *all, frames);
                if by == By::UserAfterWalk {
                    let served = &mut served[kind as usize];
                    served.all += 1;
                    note_missed(served, *all, at_memory);
                }
            }
        }
    }

    /// Counts an access of level 1, and finds its slot.
    #[inline(always)]
    fn locate(&mut self, BitsAccess { page, line, kind, by, .. }: BitsAccess) -> FrontAccess {
        if by == By::UserAfterWalk {
            self.served[kind as usize].all += 1;
        }
        let port = u8::from(kind != Kind::Fetch);
        let Port { lines_of, front, .. } = self.ports[usize::from(port)];
        let key = lines_of.key(page, line);
        let slot = self.fronts[front].count_access(key, kind, by);
        FrontAccess { key, slot, port, front: front as u8, kind, by }
    }

    /// Makes an access in level 1. Its requests wait for the backs.
    #[inline(always)]
    fn access_line<S: Search>(&mut self, part: Part, access: FrontAccess) {
        let Self { all, frames, fronts, ports, requests, asked, written_back, .. } = self;
        let missed =
            fronts[usize::from(access.front)].access::<S>((part, access), *all, frames, written_back);
        if missed == 0 {
            return;
        }
        let FrontAccess { key, port, kind, by, .. } = access;
        let port = &ports[usize::from(port)];
        let line_log2 = port.lines_of.line_log2 as u8;
        let read = FrontRequest { key, line_log2, part, kind, by, lanes: missed };
        if !port.writes_first {
            asked.push(read);
        }
        for &(key, lanes) in &*written_back {
            asked.push(FrontRequest { key, line_log2, part, kind: Kind::Writeback, by, lanes });
        }
        if port.writes_first {
            asked.push(read);
        }
        if !requests.is_empty() {
            debug_assert_ne!(by, By::Agent, "a second agent needs every back in bits");
            send(requests, *port, (key, kind, missed), written_back);
        }
        written_back.clear();
        if self.asked.are_many() {
            self.ask_backs();
        }
    }

    /// Makes the requests of level 1 that wait, of each back. Level 1 counts them.
    fn ask_backs(&mut self) {
        let Self { all, frames, fronts, ports, backs, asked, served, .. } = self;
        // Only data makes lines dirty.
        let kinds: [&[Kind]; 2] = [&[Kind::Fetch], &[Kind::Load, Kind::Store, Kind::Writeback]];
        if !fronts.is_empty() {
            for (port, kinds) in ports.iter().zip(kinds) {
                fronts[port.front].count_requests(asked.counts(), kinds);
            }
        }
        for back in backs {
            back.requests(asked, *all, frames, |request, at_memory| {
                note_missed(&mut served[request.kind as usize], request.lanes, at_memory);
            });
        }
        asked.clear();
    }

    /// Makes an access that cannot wait, after the accesses that wait.
    #[cold]
    pub(super) fn access_now(&mut self, access: BitsAccess) {
        self.access_waiting();
        self.make((self.waiting.part(), &[access]), fastest());
        self.ask_backs();
    }
}

/// Returns the fastest instructions of this processor.
fn fastest() -> Instructions {
    Instructions::here().next().unwrap_or(Instructions::Portable)
}

/// `AccessesVisitor` makes accesses with the instructions that it is compiled for.
struct AccessesVisitor<'a> {
    bits: &'a mut LaneBits,
    part: Part,
    accesses: &'a [BitsAccess],
}

impl SearchVisitor for AccessesVisitor<'_> {
    #[inline(always)]
    fn visit<S: Search>(self) {
        let Self { bits, part, accesses } = self;
        // The slots of many accesses are found ahead. If a branch of an access was predicted wrongly, the next access
        // waits for its slot alone, and not for the slot's address, too.
        let mut located = [FrontAccess::NONE; BLOCK];
        // A function that takes a loop's body would not be compiled for these instructions.
        for accesses in accesses.chunks(BLOCK) {
            for (located, &access) in located.iter_mut().zip(accesses) {
                *located = bits.locate(access);
            }
            for &access in &located[..accesses.len()] {
                bits.access_line::<S>(part, access);
            }
        }
    }
}

/// Counts an access after a walk that missed level 1 in some lanes, and read memory in some of them.
#[inline]
fn note_missed(served: &mut Served, missed: Mask, at_memory: Mask) {
    served.behind.add(missed & !at_memory);
    served.memory.add(at_memory);
}
