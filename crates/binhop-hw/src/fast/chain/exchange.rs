//! This file replays requests without a branch on whether a request finds its line, some requests at a time.
//!
//! 1. A loop finds the sets of the requests and reads them ahead.
//! 2. A loop exchanges the lines of the sets, and collects the requests that miss.
//! 3. A loop over the requests that miss counts them, and asks the next level.

use binhop_base::{Agent, Kind, LineAddr, PageId, Translation};

use super::{LocatePage, NextLevel, Replay, class};
use crate::{
    Origin,
    cache::{
        is_first,
        lines::{Line, Sets},
    },
    request::{MEMORY, Request, is_data},
};

/// The number of requests that take one step together. All of their sets fit into the processor's first cache.
const AT_ONCE: usize = 64;

/// A request whose value does not matter.
const ANY: Request = Request {
    at: LineAddr { id: 0, line: 0 },
    to: MEMORY,
    kind: Kind::Load,
    origin: Origin::new(Agent::User, 0),
    data: 0,
};

/// `Missed` is the requests that missed, among the requests that take one step together.
struct Missed {
    /// Their places among the requests.
    places: [u8; AT_ONCE],
    /// The lines that they evicted.
    victims: [EvictedLine; AT_ONCE],
    number: usize,
}

/// `EvictedLine` is the line that a request has evicted.
#[derive(Clone, Copy)]
struct EvictedLine {
    at: LineAddr,
    /// 1 if the line was dirty, and 0 if it was clean or there was no line.
    dirty: u32,
}

impl<L: LocatePage, N: NextLevel<CLASSES>, T: Translation, const CLASSES: usize>
    Replay<'_, L, N, T, CLASSES>
{
    /// Replays requests.
    #[inline(always)]
    pub(super) fn exchange<S: Sets>(&mut self, sets: &mut S, requests: &[Request]) {
        let no_victim = EvictedLine { at: ANY.at, dirty: 0 };
        let mut missed = Missed { places: [0; AT_ONCE], victims: [no_victim; AT_ONCE], number: 0 };
        let mut located = [0; AT_ONCE];
        let mut log = [ANY; 2 * AT_ONCE];
        let mut requests = requests;
        while !requests.is_empty() {
            let (own, others) = requests.split_at(self.locate(sets, requests, &mut located));
            self.exchange_lines(sets, own, &located, &mut missed);
            self.ask_for_missed(own, &missed, &mut log);
            let passed = others.iter().take_while(|request| request.to != self.number).count();
            for &request in &others[..passed] {
                self.next_level.pass_on(request);
            }
            requests = &others[passed..];
        }
    }

    /// Finds the sets of the first requests that ask this cache, and reads them ahead, so that the processor waits for
    /// the memory of many sets at once. Returns the number of these requests, which may be 0.
    #[inline(always)]
    fn locate<S: Sets>(&self, sets: &S, requests: &[Request], located: &mut [usize; AT_ONCE]) -> usize {
        let Self { locate, number, translation, .. } = *self;
        let mut own = 0;
        for (located, request) in located.iter_mut().zip(requests) {
            if request.to != number {
                break;
            }
            *located = locate.set(PageId(request.at.id), request.at.line, translation);
            sets.read_ahead(*located);
            own += 1;
        }
        own
    }

    /// Looks for the lines of requests in their sets, and puts missing lines there.
    #[inline(always)]
    fn exchange_lines<S: Sets>(
        &mut self,
        sets: &mut S,
        requests: &[Request],
        located: &[usize; AT_ONCE],
        missed: &mut Missed,
    ) {
        let Self { log2, counts, counters, .. } = self;
        let (mut number, mut dirtied, mut evicted, mut written_back) = (0u32, 0, 0, [0; CLASSES]);
        for (place, (&request, &set)) in requests.iter().zip(located).enumerate() {
            let class = class::<CLASSES>(request.origin);
            let line = Line { at: request.at, page_lines_log2: *log2 };
            let exchange = sets.exchange(set, line, u64::from(is_data(request.kind)));
            counts[class].accesses[request.kind] += 1;
            dirtied += exchange.dirtied;
            evicted += exchange.evicted;
            written_back[class] += exchange.evicted_dirty;
            missed.places[number as usize % AT_ONCE] = place as u8;
            if !N::COUNTS {
                let victim = EvictedLine { at: exchange.victim, dirty: exchange.evicted_dirty as u32 };
                missed.victims[number as usize % AT_ONCE] = victim;
            }
            number += exchange.missed as u32;
        }
        missed.number = number as usize;
        counters.fills += u64::from(number);
        counters.dirtied += dirtied;
        counters.evictions += evicted;
        for (counts, written_back) in counts.iter_mut().zip(written_back) {
            counts.written_back += written_back;
        }
    }

    /// Counts the requests that missed, and makes the requests to the next level.
    #[inline(always)]
    fn ask_for_missed(&mut self, requests: &[Request], missed: &Missed, log: &mut [Request; 2 * AT_ONCE]) {
        let Self { log2, line_log2, evict_first, counts, touched, next_level, .. } = self;
        let mut logged = 0;
        for (&place, &victim) in missed.places[..missed.number].iter().zip(&missed.victims) {
            let request = requests[usize::from(place)];
            let (kind, at, class) = (request.kind, request.at, class::<CLASSES>(request.origin));
            let own = &mut counts[class];
            own.misses[kind] += 1;
            // A line that is there was accessed before.
            own.compulsory[kind] += u64::from(is_first(touched, Line { at, page_lines_log2: *log2 }.key()));
            let is_data = is_data(kind);
            let reads_rest = is_data & (request.data != *line_log2);
            own.in_part += u64::from(reads_rest);
            if N::COUNTS {
                continue;
            }
            let reads = usize::from(!is_data | reads_rest);
            let read = next_level.request(class, if is_data { Kind::Fill } else { kind }, at);
            let write = next_level.request(class, Kind::Writeback, victim.at);
            let dirty = victim.dirty as usize;
            let place = &mut log[logged..logged + 2];
            if *evict_first {
                place[0] = write;
                place[dirty] = read;
            } else {
                place[0] = read;
                place[reads] = write;
            }
            logged += reads + dirty;
        }
        if !N::COUNTS {
            next_level.extend(&log[..logged]);
        }
    }
}
