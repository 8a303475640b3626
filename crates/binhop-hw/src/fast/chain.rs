//! The chain is a fast path: it replays requests into the commonest backs, which are one cache before memory, or
//! several caches in a row.
//!
//! A front that many placements share is simulated once, so a study spends nearly all of its time here. The rules are
//! those of [`crate::cache::access`], written out for caches that are write-back, allocate, are not inclusive and
//! have no write buffer. Such a cache never depends on the caches behind it. So each cache goes through all requests by
//! itself, and records its requests to the next cache in order. Cycles follow from the counts. The requests of a second
//! agent, and of the user's accesses after walks, change the caches as the user's requests do, and are counted apart.

mod counts;
mod exchange;

use binhop_base::{Agent, Kind, LineAddr, PageId, PerKind, Translation};

use crate::{
    AgentCounters, CacheCounters, Origin,
    cache::{
        Cache, Index, fold, is_first,
        lines::{Sets, SetsVisitor, Word},
        note_repeat,
    },
    request::{MEMORY, Request, is_data},
};
pub(crate) use counts::{AFTER_WALK, ALONE, OTHER, TWO_AGENTS};
use counts::{ClassCounts, class};

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
/// Requests are of some classes: see [`ClassCounts`].
trait NextLevel<const CLASSES: usize> {
    /// True if the requests are counted and nothing else. Then they are counted together, after the loop. In the
    /// loop, each request would need a branch on whether a victim is dirty, and this branch cannot be predicted.
    const COUNTS: bool;

    /// The cache asks for one of its own lines, or writes it back.
    fn ask(&mut self, class: usize, kind: Kind, at: LineAddr);
    /// The cache has asked for lines, or written lines back, in some order.
    fn ask_for(&mut self, class: usize, requests: &PerKind<u64>);
    /// A request goes past the cache, because it is addressed to a level behind the cache.
    fn pass_on(&mut self, request: Request);
    /// Returns what [`NextLevel::ask`] keeps.
    fn request(&self, class: usize, kind: Kind, at: LineAddr) -> Request;
    /// Keeps requests that [`NextLevel::request`] has returned, or that go past the cache.
    fn extend(&mut self, requests: &[Request]);
}

/// `MemoryAccesses` are the accesses to memory, by class.
pub(crate) type MemoryAccesses<const CLASSES: usize> = [PerKind<u64>; CLASSES];

impl<const CLASSES: usize> NextLevel<CLASSES> for &mut MemoryAccesses<CLASSES> {
    const COUNTS: bool = true;

    fn ask(&mut self, _class: usize, _kind: Kind, _at: LineAddr) {
        unreachable!("memory counts requests together")
    }

    fn ask_for(&mut self, class: usize, requests: &PerKind<u64>) {
        self[class] += *requests;
    }

    #[inline(always)]
    fn pass_on(&mut self, request: Request) {
        debug_assert_eq!(request.to, MEMORY);
        self[class::<CLASSES>(request.origin)][request.kind] += 1;
    }

    fn request(&self, _class: usize, _kind: Kind, _at: LineAddr) -> Request {
        unreachable!("memory counts requests together")
    }

    fn extend(&mut self, _requests: &[Request]) {
        unreachable!("memory counts requests together")
    }
}

/// `RequestLog` keeps the requests to the next cache of a chain.
struct RequestLog<'a, const CLASSES: usize> {
    log: &'a mut Vec<Request>,
    to: u8,
    /// The origin of the requests of each class.
    origins: [Origin; CLASSES],
    /// The logarithm of the number of lines of the asking cache in one line of the cache that is asked.
    shift: u32,
    data: u8,
}

impl<const CLASSES: usize> NextLevel<CLASSES> for RequestLog<'_, CLASSES> {
    const COUNTS: bool = false;

    fn ask_for(&mut self, _class: usize, _requests: &PerKind<u64>) {
        unreachable!("a log keeps the order of requests")
    }

    #[inline(always)]
    fn ask(&mut self, class: usize, kind: Kind, at: LineAddr) {
        self.log.push(self.request(class, kind, at));
    }

    #[inline(always)]
    fn pass_on(&mut self, request: Request) {
        self.log.push(request);
    }

    #[inline(always)]
    fn request(&self, class: usize, kind: Kind, at: LineAddr) -> Request {
        let at = LineAddr { line: at.line >> self.shift, ..at };
        Request { at, to: self.to, kind, origin: self.origins[class], data: self.data }
    }

    #[inline(always)]
    fn extend(&mut self, requests: &[Request]) {
        self.log.extend_from_slice(requests);
    }
}

/// Replays requests into the last cache of a chain, before memory. `other` is the agent beside the user, if there is
/// one.
pub(crate) fn replay_last<T: Translation, const CLASSES: usize>(
    cache: &mut Cache,
    number: u8,
    memory: &mut MemoryAccesses<CLASSES>,
    (requests, other): (&[Request], Option<Agent>),
    translation: &T,
) {
    debug_assert_eq!(cache.next, MEMORY);
    replay(cache, number, memory, (requests, other), translation);
}

/// Replays requests into a cache of a chain that asks another cache. `log` gets the requests to the cache behind, and
/// the requests that pass this cache, in order. `other` is the agent beside the user, if there is one.
pub(crate) fn replay_on<T: Translation, const CLASSES: usize>(
    cache: &mut Cache,
    number: u8,
    log: &mut Vec<Request>,
    (requests, other): (&[Request], Option<Agent>),
    translation: &T,
) {
    let of_user = Origin::new(Agent::User, cache.next_unit as u8);
    let of_other = other.map_or(of_user, |other| Origin::new(other, cache.next_unit as u8));
    let origins = std::array::from_fn(|class| match class {
        OTHER => of_other,
        AFTER_WALK => of_user.after_walk(),
        _ => of_user,
    });
    let next_level = RequestLog::<CLASSES> {
        log,
        to: cache.next,
        origins,
        shift: cache.next_unit - cache.line_log2,
        data: cache.line_log2 as u8,
    };
    replay(cache, number, next_level, (requests, other), translation);
}

fn replay<T: Translation, N: NextLevel<CLASSES>, const CLASSES: usize>(
    cache: &mut Cache,
    number: u8,
    mut next_level: N,
    (requests, other): (&[Request], Option<Agent>),
    translation: &T,
) {
    let (log2, mask) = cache.geometry();
    let by_frame = cache.index() == Index::Frame;
    let plain_index = cache.plain_index();
    let sets_log2 = cache.sets_log2();
    let (line_log2, evict_first) = (cache.line_log2 as u8, cache.evict_first);
    let Cache { lines, counters, by_agent, touched, repeats, .. } = cache;
    macro_rules! replay_with {
        ($locate:expr) => {
            lines.visit(Replay {
                locate: $locate,
                number,
                log2,
                line_log2,
                evict_first,
                counters,
                counts: [ClassCounts::default(); CLASSES],
                by_agent,
                touched,
                repeats,
                repeats_of_other: other.is_some_and(Agent::counts_in_mpi),
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
struct Replay<'a, L, N, T, const CLASSES: usize> {
    locate: L,
    /// The cache, by its index in the tree.
    number: u8,
    /// Logarithm of the lines in a page.
    log2: u32,
    line_log2: u8,
    evict_first: bool,
    counters: &'a mut CacheCounters,
    /// The counts that belong to some agent, by class.
    counts: [ClassCounts; CLASSES],
    by_agent: &'a mut [AgentCounters],
    touched: &'a mut Vec<u64>,
    repeats: &'a mut Option<Vec<u64>>,
    /// True if repeated misses of the other agent are counted.
    repeats_of_other: bool,
    next_level: &'a mut N,
    requests: &'a [Request],
    translation: &'a T,
}

impl<L: LocatePage, N: NextLevel<CLASSES>, T: Translation, const CLASSES: usize> SetsVisitor
    for Replay<'_, L, N, T, CLASSES>
{
    const IS_HASHED: bool = L::IS_HASHED;

    // The code belongs to its caller, which may be compiled for some processors alone.
    #[inline(always)]
    fn visit<S: Sets>(mut self, sets: &mut S) {
        // A watched cache looks at each miss by itself.
        let may_exchange = S::EXCHANGES && self.repeats.is_none();
        let mut exchanges = true;
        for requests in self.requests.chunks(CHUNK) {
            let before = self.counters.fills;
            if may_exchange && exchanges {
                self.exchange(sets, requests);
            } else {
                self.touch_or_put(sets, requests);
            }
            let missed = (self.counters.fills - before) as usize;
            exchanges = missed.min(requests.len() - missed) > requests.len() / REQUESTS_PER_RARE;
        }
        for (class, counts) in self.counts.iter().enumerate() {
            self.counters.evictions_dirty += counts.written_back;
            match (class, &mut *self.by_agent) {
                (OTHER, [counters]) => counts.add_to_agent(counters),
                (OTHER, _) => unreachable!("a chain with a second agent has one"),
                _ => counts.add_to_user(self.counters),
            }
            if N::COUNTS {
                self.next_level.ask_for(class, &counts.sent());
            }
        }
    }
}

/// Hits or misses are rare if fewer than one request in this many hits, or misses. Then the processor predicts a branch
/// between them mostly, and the branch costs less than it saves. The requests of the last chunk predict the requests of
/// the next chunk. The choice changes no count.
const REQUESTS_PER_RARE: usize = 16;

/// The number of requests that are replayed in one way, before the way is chosen anew.
const CHUNK: usize = 256;

impl<L: LocatePage, N: NextLevel<CLASSES>, T: Translation, const CLASSES: usize>
    Replay<'_, L, N, T, CLASSES>
{
    /// Replays requests with a branch on whether a request finds its line, which saves work where it can be predicted.
    #[inline(always)]
    fn touch_or_put<S: Sets>(&mut self, sets: &mut S, requests: &[Request]) {
        let Self { locate, number, log2, line_log2, evict_first, translation, repeats_of_other, .. } = *self;
        let Self { counters, counts, touched, repeats, next_level, .. } = self;
        let CacheCounters {
            // These are counted by class, and the caller adds them up.
            accesses: _,
            misses: _,
            compulsory: _,
            sent: _,
            evictions_dirty: _,
            fills,
            evictions,
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
        for &request in requests {
            if request.to != number {
                next_level.pass_on(request);
                continue;
            }
            let (kind, at, class) = (request.kind, request.at, class::<CLASSES>(request.origin));
            let set = locate.set(PageId(at.id), at.line, translation);
            let key = u64::from(at.id) << log2 | u64::from(at.line);
            let is_data = is_data(kind);
            let own = &mut counts[class];
            own.accesses[kind] += 1;
            if sets.touch(set, key, u64::from(is_data), dirtied) {
                continue;
            }
            own.misses[kind] += 1;
            let first = is_first(touched, key);
            own.compulsory[kind] += u64::from(first);
            if !first && kind.is_demand() && (class != OTHER || repeats_of_other) {
                note_repeat(repeats, u64::from(at.id));
            }
            let reads_rest = is_data & (request.data != line_log2);
            own.in_part += u64::from(reads_rest);
            *fills += 1;
            *dirtied += u64::from(is_data);
            let victim = sets.put(set, Word::new(key, is_data));
            *evictions += u64::from(victim.is_some());
            let dirty = victim.is_some_and(Word::dirty);
            own.written_back += u64::from(dirty);
            if N::COUNTS {
                continue;
            }
            let victim = victim.filter(|_| dirty).map(|victim| {
                let key = victim.key();
                LineAddr { id: (key >> log2) as u32, line: (key & line_mask) as u32 }
            });
            if let (Some(victim), true) = (victim, evict_first) {
                next_level.ask(class, Kind::Writeback, victim);
            }
            if !is_data {
                next_level.ask(class, kind, at);
            } else if reads_rest {
                next_level.ask(class, Kind::Fill, at);
            }
            if let (Some(victim), false) = (victim, evict_first) {
                next_level.ask(class, Kind::Writeback, victim);
            }
        }
    }
}
