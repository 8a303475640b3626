//! The chain is a fast path: it replays requests into the commonest backs, which are one cache before memory, or
//! several caches in a row.
//!
//! A front that many placements share is simulated once, so a study spends nearly all of its time here. The rules are
//! those of [`crate::cache::access`], written out for caches that are write-back, allocate, are not inclusive and
//! have no write buffer, and for the user's requests alone. Such a cache never depends on the caches behind it. So
//! each cache goes through all requests by itself, and records its requests to the next cache in order. Cycles follow
//! from the counts.

use binhop_base::{Agent, Kind, LineAddr, PageId, PerKind, Translation};

use crate::{
    CacheCounters, MemoryCounters, Origin,
    cache::{
        Cache, Index, fold, is_first,
        lines::{Line, Sets, SetsVisitor, Word},
        note_repeat,
    },
    request::{MEMORY, Request, is_data},
};

/// `LocatePage` finds the set of a line that is named by page.
trait LocatePage: Copy {
    const IS_HASHED: bool = false;

    fn set<T: Translation>(self, page: PageId, line: u32, translation: &T) -> usize;
}

#[derive(Clone, Copy)]
struct PageByFrame {
    log2: u32,
    mask: u64,
}

impl LocatePage for PageByFrame {
    #[inline(always)]
    fn set<T: Translation>(self, page: PageId, line: u32, translation: &T) -> usize {
        ((translation.frame(page).0 << self.log2 | u64::from(line)) & self.mask) as usize
    }
}

#[derive(Clone, Copy)]
struct PageByOffset {
    mask: u64,
}

impl LocatePage for PageByOffset {
    #[inline(always)]
    fn set<T: Translation>(self, _page: PageId, line: u32, _translation: &T) -> usize {
        (u64::from(line) & self.mask) as usize
    }
}

#[derive(Clone, Copy)]
struct PageByFold {
    log2: u32,
    sets_log2: u32,
    by_frame: bool,
}

impl LocatePage for PageByFold {
    const IS_HASHED: bool = true;

    #[inline(always)]
    fn set<T: Translation>(self, page: PageId, line: u32, translation: &T) -> usize {
        let upper = if self.by_frame { translation.frame(page).0 } else { 0 };
        fold(upper << self.log2 | u64::from(line), self.sets_log2)
    }
}

/// `NextLevel` takes the requests of a cache: memory counts them, and a [`RequestLog`] keeps them for the next cache.
trait NextLevel {
    /// True if the requests are counted and nothing else. Then they are counted together, after the loop. In the
    /// loop, each request would need a branch on whether a victim is dirty, and this branch cannot be predicted.
    const COUNTS: bool;

    /// The cache asks for one of its own lines, or writes it back.
    fn ask(&mut self, kind: Kind, at: LineAddr);
    /// The cache has asked for lines, or written lines back, in some order.
    fn ask_for(&mut self, requests: &PerKind<u64>);
    /// A request goes past the cache, because it is addressed to a level behind the cache.
    fn pass_on(&mut self, request: Request);
    /// Returns what [`NextLevel::ask`] keeps.
    fn request(&self, kind: Kind, at: LineAddr) -> Request;
    /// Keeps requests that [`NextLevel::request`] has returned, or that go past the cache.
    fn extend(&mut self, requests: &[Request]);
}

impl NextLevel for &mut MemoryCounters {
    const COUNTS: bool = true;

    fn ask(&mut self, _kind: Kind, _at: LineAddr) {
        unreachable!("memory counts requests together")
    }

    fn ask_for(&mut self, requests: &PerKind<u64>) {
        let MemoryCounters { accesses } = self;
        *accesses += *requests;
    }

    #[inline(always)]
    fn pass_on(&mut self, request: Request) {
        debug_assert_eq!(request.to, MEMORY);
        let MemoryCounters { accesses } = self;
        accesses[request.kind] += 1;
    }

    fn request(&self, _kind: Kind, _at: LineAddr) -> Request {
        unreachable!("memory counts requests together")
    }

    fn extend(&mut self, _requests: &[Request]) {
        unreachable!("memory counts requests together")
    }
}

/// `RequestLog` keeps the requests to the next cache of a chain.
struct RequestLog<'a> {
    log: &'a mut Vec<Request>,
    to: u8,
    origin: Origin,
    /// The logarithm of the number of lines of the asking cache in one line of the cache that is asked.
    shift: u32,
    data: u8,
}

impl NextLevel for RequestLog<'_> {
    const COUNTS: bool = false;

    fn ask_for(&mut self, _requests: &PerKind<u64>) {
        unreachable!("a log keeps the order of requests")
    }

    #[inline(always)]
    fn ask(&mut self, kind: Kind, at: LineAddr) {
        self.log.push(self.request(kind, at));
    }

    #[inline(always)]
    fn pass_on(&mut self, request: Request) {
        self.log.push(request);
    }

    #[inline(always)]
    fn request(&self, kind: Kind, at: LineAddr) -> Request {
        let at = LineAddr { line: at.line >> self.shift, ..at };
        Request { at, to: self.to, kind, origin: self.origin, data: self.data }
    }

    #[inline(always)]
    fn extend(&mut self, requests: &[Request]) {
        self.log.extend_from_slice(requests);
    }
}

/// Replays requests into the last cache of a chain, before memory.
pub(crate) fn replay_last<T: Translation>(
    cache: &mut Cache,
    number: u8,
    memory: &mut MemoryCounters,
    requests: &[Request],
    translation: &T,
) {
    debug_assert_eq!(cache.next, MEMORY);
    replay(cache, number, memory, requests, translation);
}

/// Replays requests into a cache of a chain that asks another cache. `log` gets the requests to the cache behind, and
/// the requests that pass this cache, in order.
pub(crate) fn replay_on<T: Translation>(
    cache: &mut Cache,
    number: u8,
    log: &mut Vec<Request>,
    requests: &[Request],
    translation: &T,
) {
    let next_level = RequestLog {
        log,
        to: cache.next,
        origin: Origin::new(Agent::User, cache.next_unit as u8),
        shift: cache.next_unit - cache.line_log2,
        data: cache.line_log2 as u8,
    };
    replay(cache, number, next_level, requests, translation);
}

fn replay<T: Translation, N: NextLevel>(
    cache: &mut Cache,
    number: u8,
    mut next_level: N,
    requests: &[Request],
    translation: &T,
) {
    let (log2, mask) = cache.geometry();
    let by_frame = cache.index() == Index::Frame;
    let plain_index = cache.plain_index();
    let sets_log2 = cache.sets_log2();
    let (line_log2, evict_first) = (cache.line_log2 as u8, cache.evict_first);
    let Cache { lines, counters, touched, repeats, .. } = cache;
    macro_rules! replay_with {
        ($locate:expr) => {
            lines.visit(Replay {
                locate: $locate,
                number,
                log2,
                line_log2,
                evict_first,
                counters,
                touched,
                repeats,
                next_level: &mut next_level,
                requests,
                translation,
            })
        };
    }
    match plain_index {
        Some(Index::Offset) => replay_with!(PageByOffset { mask }),
        Some(_) => replay_with!(PageByFrame { log2, mask }),
        None => replay_with!(PageByFold { log2, sets_log2, by_frame }),
    }
}

/// `Replay` is the loop over requests. It holds all that the loop needs besides the lines.
struct Replay<'a, L, N, T> {
    locate: L,
    /// The cache, by its index in the tree.
    number: u8,
    /// Logarithm of the lines in a page.
    log2: u32,
    line_log2: u8,
    evict_first: bool,
    counters: &'a mut CacheCounters,
    touched: &'a mut Vec<u64>,
    repeats: &'a mut Option<Vec<u64>>,
    next_level: &'a mut N,
    requests: &'a [Request],
    translation: &'a T,
}

impl<L: LocatePage, N: NextLevel, T: Translation> SetsVisitor for Replay<'_, L, N, T> {
    const IS_HASHED: bool = L::IS_HASHED;

    // The code belongs to its caller, which may be compiled for some processors alone.
    #[inline(always)]
    fn visit<S: Sets>(mut self, sets: &mut S) {
        let (misses_before, dirty_before) = (self.counters.misses, self.counters.evictions_dirty);
        let mut in_part = 0;
        // A watched cache looks at each miss by itself.
        let may_exchange = S::EXCHANGES && self.repeats.is_none();
        let mut exchanges = true;
        for requests in self.requests.chunks(CHUNK) {
            let before = self.counters.misses.total();
            in_part += if may_exchange && exchanges {
                self.exchange(sets, requests)
            } else {
                self.touch_or_put(sets, requests)
            };
            let missed = (self.counters.misses.total() - before) as usize;
            exchanges = missed.min(requests.len() - missed) > requests.len() / REQUESTS_PER_RARE;
        }
        // A miss of data reads only what the data lacks of its line.
        let misses = self.counters.misses;
        let mut asked = PerKind(std::array::from_fn(|kind| misses.0[kind] - misses_before.0[kind]));
        (asked[Kind::Write], asked[Kind::Writeback]) = (0, self.counters.evictions_dirty - dirty_before);
        asked[Kind::Fill] += in_part;
        self.counters.sent += asked;
        if N::COUNTS {
            self.next_level.ask_for(&asked);
        }
    }
}

/// Hits or misses are rare if fewer than one request in this many hits, or misses. Then the processor predicts a branch
/// between them mostly, and the branch costs less than it saves. The requests of the last chunk predict the requests of
/// the next chunk. The choice changes no count.
const REQUESTS_PER_RARE: usize = 16;

/// The number of bits that count the accesses of one kind. One word has such bits for every kind, side by side.
const FIELD: u32 = u64::BITS / Kind::ALL.len() as u32;
/// The number of requests that are replayed in one way, before the way is chosen anew. No field of a word overflows.
const CHUNK: usize = 256;
const _: () = assert!(CHUNK < 1 << FIELD);

/// Adds counts that stand side by side in a word.
fn add_fields(to: &mut PerKind<u64>, fields: u64) {
    for &kind in Kind::ALL {
        to[kind] += fields >> (FIELD * kind as u32) & ((1 << FIELD) - 1);
    }
}

impl<L: LocatePage, N: NextLevel, T: Translation> Replay<'_, L, N, T> {
    /// Replays requests without a branch on whether a request finds its line. Returns the misses of data that is
    /// smaller than the line.
    #[inline(always)]
    fn exchange<S: Sets>(&mut self, sets: &mut S, requests: &[Request]) -> u64 {
        let Self { locate, number, log2, line_log2, evict_first, translation, .. } = *self;
        let Self { counters, touched, next_level, .. } = self;
        // An unused place of the log holds any request.
        let mut log = [Request {
            at: LineAddr { id: 0, line: 0 },
            to: 0,
            kind: Kind::Load,
            origin: Origin::new(Agent::User, 0),
            data: 0,
        }; 2 * CHUNK];
        let mut logged = 0;
        let (mut accessed, mut missed, mut dirtied, mut evicted, mut evicted_dirty, mut in_part) =
            (0u64, 0u64, 0, 0, 0, 0);
        for &request in requests {
            if request.to != number {
                if N::COUNTS {
                    next_level.pass_on(request);
                } else {
                    log[logged] = request;
                    logged += 1;
                }
                continue;
            }
            let (kind, at) = (request.kind, request.at);
            let set = locate.set(PageId(at.id), at.line, translation);
            let is_data = is_data(kind);
            let line = Line { at, page_lines_log2: log2 };
            let exchange = sets.exchange(set, line, u64::from(is_data));
            let field = FIELD * kind as u32;
            accessed += 1 << field;
            missed += exchange.missed << field;
            dirtied += exchange.dirtied;
            evicted += exchange.evicted;
            evicted_dirty += exchange.evicted_dirty;
            // A line that is there was accessed before.
            if is_first(touched, line.key()) {
                counters.compulsory[kind] += 1;
            }
            let reads_rest = is_data & (request.data != line_log2);
            in_part += exchange.missed & u64::from(reads_rest);
            if N::COUNTS {
                continue;
            }
            let reads = exchange.missed as usize & usize::from(!is_data | reads_rest);
            let read = next_level.request(if is_data { Kind::Fill } else { kind }, at);
            let write = next_level.request(Kind::Writeback, exchange.victim);
            let dirty = exchange.evicted_dirty as usize;
            let place = &mut log[logged..logged + 2];
            if evict_first {
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
        add_fields(&mut counters.accesses, accessed);
        add_fields(&mut counters.misses, missed);
        counters.dirtied += dirtied;
        counters.evictions += evicted;
        counters.evictions_dirty += evicted_dirty;
        let mut fills = PerKind::default();
        add_fields(&mut fills, missed);
        counters.fills += fills.total();
        in_part
    }

    /// Replays requests with a branch on whether a request finds its line, which saves work where it can be predicted.
    /// Returns the misses of data that is smaller than the line.
    #[inline(always)]
    fn touch_or_put<S: Sets>(&mut self, sets: &mut S, requests: &[Request]) -> u64 {
        let Self { locate, number, log2, line_log2, evict_first, translation, .. } = *self;
        let Self { counters, touched, repeats, next_level, .. } = self;
        let CacheCounters {
            accesses,
            misses,
            compulsory,
            // The caller counts what was sent.
            sent: _,
            fills,
            evictions,
            evictions_dirty,
            dirtied,
            // No cache of a chain is inclusive or has a write buffer; a flush takes the general path.
            invalidated: _,
            invalidated_dirty: _,
            purged: _,
            purged_dirty: _,
            stream_hits: _,
            merges: _,
            stalls: _,
            stall_cycles: _,
        } = &mut **counters;
        let line_mask = (1u64 << log2) - 1;
        let mut in_part = 0;
        for &request in requests {
            if request.to != number {
                next_level.pass_on(request);
                continue;
            }
            let (kind, at) = (request.kind, request.at);
            let set = locate.set(PageId(at.id), at.line, translation);
            let key = u64::from(at.id) << log2 | u64::from(at.line);
            let is_data = is_data(kind);
            accesses[kind] += 1;
            if sets.touch(set, key, u64::from(is_data), dirtied) {
                continue;
            }
            misses[kind] += 1;
            let first = is_first(touched, key);
            compulsory[kind] += u64::from(first);
            if !first && kind.is_demand() {
                note_repeat(repeats, u64::from(at.id));
            }
            let reads_rest = is_data & (request.data != line_log2);
            in_part += u64::from(reads_rest);
            *fills += 1;
            *dirtied += u64::from(is_data);
            let victim = sets.put(set, Word::new(key, is_data));
            *evictions += u64::from(victim.is_some());
            let dirty = victim.is_some_and(Word::dirty);
            *evictions_dirty += u64::from(dirty);
            if N::COUNTS {
                continue;
            }
            let victim = victim.filter(|_| dirty).map(|victim| {
                let key = victim.key();
                LineAddr { id: (key >> log2) as u32, line: (key & line_mask) as u32 }
            });
            if let (Some(victim), true) = (victim, evict_first) {
                next_level.ask(Kind::Writeback, victim);
            }
            if !is_data {
                next_level.ask(kind, at);
            } else if reads_rest {
                next_level.ask(Kind::Fill, at);
            }
            if let (Some(victim), false) = (victim, evict_first) {
                next_level.ask(Kind::Writeback, victim);
            }
        }
        in_part
    }
}
