//! The two-phase path simulates many accesses at once, with the same results as one by one.
//!
//! The levels behind a front must not reach back into it (no inclusive cache, no write buffer), and the front's
//! caches must be write-back and allocate. Then the effect of a miss on its cache is known at the miss: the line
//! comes in, and the victim leaves. The first loop does only that, with everything it needs in registers, and records
//! the misses. The second loop goes through the misses in order and does the rest: it counts, reads, and writes back.
//! If one access in fifty misses, the first loop takes nearly all the time.

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Translation};

use crate::{
    CacheCounters,
    cache::{
        Cache, Index,
        lines::{Array, EMPTY, InLines, OrderedArray, PackedArray, Sets, SetsVisitor, Word, put, touch},
        stage::Caches,
    },
    replacement::{Fifo, Lru, Policy},
    request::{Access, Below},
};

/// The number of rows that go through the first phase before the second phase runs. Their misses stay in the
/// processor's nearest cache.
const CHUNK: usize = 2048;

/// `Miss` is a miss that the first phase has recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    new: Word,
    /// The line that left; [`EMPTY`] if no line had to leave.
    victim: Word,
    kind: Kind,
    agent: Agent,
    is_after_walk: bool,
}

/// `LocateMapping` finds the set and the key of a line that is named by mapping.
trait LocateMapping: Copy + PartialEq {
    fn of(cache: &Cache) -> Self;
    /// Returns the set and the key.
    fn place<T: Translation>(self, at: LineAddr, translation: &T) -> (usize, u64);
}

/// `MappingByOffset` is for caches in which the offset within the page alone chooses the set.
#[derive(Clone, Copy, PartialEq)]
struct MappingByOffset {
    log2: u32,
    mask: u64,
    by_mapping: bool,
}

impl LocateMapping for MappingByOffset {
    fn of(cache: &Cache) -> Self {
        let (log2, mask) = cache.geometry();
        Self { log2, mask, by_mapping: cache.keyed_by_mapping }
    }

    #[inline(always)]
    fn place<T: Translation>(self, at: LineAddr, translation: &T) -> (usize, u64) {
        let id = if self.by_mapping { at.id } else { translation.page(MappingId(at.id)).0 };
        let line = u64::from(at.line);
        ((line & self.mask) as usize, u64::from(id) << self.log2 | line)
    }
}

/// `MappingByFrame` is for caches in which the frame chooses the set, and the page is the tag.
#[derive(Clone, Copy, PartialEq)]
struct MappingByFrame {
    log2: u32,
    mask: u64,
}

impl LocateMapping for MappingByFrame {
    fn of(cache: &Cache) -> Self {
        let (log2, mask) = cache.geometry();
        Self { log2, mask }
    }

    #[inline(always)]
    fn place<T: Translation>(self, at: LineAddr, translation: &T) -> (usize, u64) {
        let page = translation.page(MappingId(at.id));
        let (upper, line) = (translation.frame(PageId(page.0)).0, u64::from(at.line));
        (((upper << self.log2 | line) & self.mask) as usize, u64::from(page.0) << self.log2 | line)
    }
}

/// `MappingByVirtualPage` is for caches in which the virtual page chooses the set, and the mapping is the tag.
#[derive(Clone, Copy, PartialEq)]
struct MappingByVirtualPage {
    log2: u32,
    mask: u64,
}

impl LocateMapping for MappingByVirtualPage {
    fn of(cache: &Cache) -> Self {
        let (log2, mask) = cache.geometry();
        Self { log2, mask }
    }

    #[inline(always)]
    fn place<T: Translation>(self, at: LineAddr, translation: &T) -> (usize, u64) {
        let (upper, line) = (translation.virtual_page(MappingId(at.id)).0, u64::from(at.line));
        (((upper << self.log2 | line) & self.mask) as usize, u64::from(at.id) << self.log2 | line)
    }
}

/// Runs the first phase: rows go through one cache, or through two caches of one shape (instructions first).
/// Records the misses, and returns how often a hit made a line dirty.
#[inline(never)]
fn probe<L: LocateMapping, P: Policy, const W: usize, const CACHES: usize, A: Access, T: Translation>(
    mut arrays: [(&mut [u64], &mut P); CACHES],
    locate: L,
    rows: &[A],
    translation: &T,
    misses: &mut Vec<Miss>,
) -> u64 {
    let mut newly_dirty = 0;
    for &row in rows {
        let kind = row.kind();
        let (words, policy) = &mut arrays[if CACHES == 1 { 0 } else { usize::from(kind != Kind::Fetch) }];
        let (set, key) = locate.place(row.at(), translation);
        let ways = &mut words[set * W..][..W];
        let store = kind == Kind::Store;
        if !touch(ways, *policy, set, key, u64::from(store), &mut newly_dirty) {
            let new = Word::new(key, store);
            let victim = put(ways, *policy, set, new).unwrap_or(Word(EMPTY));
            misses.push(Miss { new, victim, kind, agent: row.agent(), is_after_walk: row.is_after_walk() });
        }
    }
    newly_dirty
}

/// Runs [`probe`] if all caches store their lines as `Array<P, W>`.
fn probe_if<L: LocateMapping, P: Policy, const W: usize, A: Access, T: Translation>(
    caches: &mut [&mut Cache],
    rows: &[A],
    translation: &T,
    misses: &mut Vec<Miss>,
) -> Option<u64>
where
    Array<P, W>: InLines,
{
    let locate = L::of(caches[0]);
    match caches {
        [one] => {
            let parts = Array::<P, W>::of(&mut one.lines)?.parts();
            Some(probe::<L, P, W, 1, A, T>([parts], locate, rows, translation, misses))
        }
        [fetch, data] if L::of(data) == locate => {
            let fetch = Array::<P, W>::of(&mut fetch.lines)?.parts();
            let data = Array::<P, W>::of(&mut data.lines)?.parts();
            Some(probe::<L, P, W, 2, A, T>([fetch, data], locate, rows, translation, misses))
        }
        _ => None,
    }
}

/// Runs [`probe`] if all caches store their lines in one of the commonest types of array.
fn probe_by<L: LocateMapping, A: Access, T: Translation>(
    caches: &mut [&mut Cache],
    rows: &[A],
    translation: &T,
    misses: &mut Vec<Miss>,
) -> Option<u64> {
    probe_if::<L, Fifo, 1, A, T>(caches, rows, translation, misses)
        .or_else(|| probe_if::<L, Lru, 2, A, T>(caches, rows, translation, misses))
        .or_else(|| probe_if::<L, Lru, 4, A, T>(caches, rows, translation, misses))
        .or_else(|| probe_if::<L, Lru, 8, A, T>(caches, rows, translation, misses))
}

/// The ways of a cache of instructions beside which a cache of data may have more ways, up to the most ways of packed
/// sets. Both replace the least recently used line.
pub(super) const FETCH_WAYS: usize = 8;

/// The cache of instructions of [`ProbeBoth`].
type FetchArray = Array<Lru, FETCH_WAYS>;

/// `ProbeBoth` runs the first phase of two caches of different shape, where the offset within the page chooses the
/// set. It visits the sets of the data.
struct ProbeBoth<'a, A, T> {
    fetch: &'a mut FetchArray,
    /// For fetches, and for data.
    locate: [MappingByOffset; 2],
    rows: &'a [A],
    translation: &'a T,
    misses: &'a mut Vec<Miss>,
    newly_dirty: &'a mut u64,
}

impl<A: Access, T: Translation> SetsVisitor for ProbeBoth<'_, A, T> {
    #[inline(always)]
    fn visit<S: Sets>(self, sets: &mut S) {
        let Self { fetch, locate, rows, translation, misses, newly_dirty } = self;
        let mut dirtied = 0;
        for &row in rows {
            let kind = row.kind();
            let store = kind == Kind::Store;
            let victim;
            let new;
            if kind == Kind::Fetch {
                let (set, key) = locate[0].place(row.at(), translation);
                if fetch.touch(set, key, 0, &mut dirtied) {
                    continue;
                }
                new = Word::new(key, false);
                victim = fetch.put(set, new);
            } else {
                let (set, key) = locate[1].place(row.at(), translation);
                if sets.touch(set, key, u64::from(store), &mut dirtied) {
                    continue;
                }
                new = Word::new(key, store);
                victim = sets.put(set, new);
            }
            let victim = victim.unwrap_or(Word(EMPTY));
            misses.push(Miss { new, victim, kind, agent: row.agent(), is_after_walk: row.is_after_walk() });
        }
        *newly_dirty = dirtied;
    }
}

/// Runs [`ProbeBoth`] if there is a loop for these caches.
fn probe_both<A: Access, T: Translation>(
    caches: &mut [&mut Cache],
    rows: &[A],
    translation: &T,
    misses: &mut Vec<Miss>,
) -> Option<u64> {
    let [fetch, data] = caches else { return None };
    let locate = [&**fetch, &**data].map(MappingByOffset::of);
    let fetch = FetchArray::of(&mut fetch.lines)?;
    let mut dirtied = 0;
    let visitor = ProbeBoth { fetch, locate, rows, translation, misses, newly_dirty: &mut dirtied };
    if let Some(sets) = OrderedArray::of(&mut data.lines) {
        sets.visit(visitor);
    } else {
        visitor.visit(PackedArray::<Lru>::of(&mut data.lines)?);
    }
    Some(dirtied)
}

/// Runs the first phase if there is a loop for these caches.
fn first_phase<A: Access, T: Translation>(
    caches: &mut [&mut Cache],
    rows: &[A],
    translation: &T,
    misses: &mut Vec<Miss>,
) -> Option<u64> {
    if caches.iter().all(|cache| cache.plain_index() == Some(Index::Offset))
        && let Some(newly_dirty) = probe_both(caches, rows, translation, misses)
    {
        return Some(newly_dirty);
    }
    let index = caches[0].plain_index()?;
    let by_mapping = caches[0].keyed_by_mapping;
    if caches.iter().any(|c| c.plain_index() != Some(index) || c.keyed_by_mapping != by_mapping) {
        return None;
    }
    match (index, by_mapping) {
        (Index::Offset, _) => probe_by::<MappingByOffset, A, T>(caches, rows, translation, misses),
        (Index::Frame, false) => probe_by::<MappingByFrame, A, T>(caches, rows, translation, misses),
        (Index::VirtualPage, true) => {
            probe_by::<MappingByVirtualPage, A, T>(caches, rows, translation, misses)
        }
        _ => None,
    }
}

/// Makes every access of `rows` in order, one by one, and returns the cycles waited. `fetch` and `data` are the
/// caches that the processor asks.
pub(crate) fn access_each<A: Access, T: Translation, B: Below>(
    stage: &mut Caches,
    [fetch, data]: [usize; 2],
    rows: &[A],
    translation: &T,
    below: &mut B,
) -> u64 {
    let mut wait = 0;
    for &row in rows {
        let number = if row.kind() == Kind::Fetch { fetch } else { data };
        if row.agent() != Agent::User {
            let mut transaction = stage.transaction(row.agent(), translation, below);
            wait += transaction.ask(number, row.kind(), row.at(), false, 0);
            continue;
        }
        stage.get_mut(number).counters.accesses[row.kind()] += 1;
        if !row.is_after_walk() {
            wait += stage.access(number, row.kind(), row.at(), 0, translation, below);
            continue;
        }
        below.begin_after_walk();
        let before = stage.get_mut(number).counters.misses[row.kind()];
        wait += stage.access(number, row.kind(), row.at(), 0, translation, below);
        below.end_after_walk(row.kind(), stage.get_mut(number).counters.misses[row.kind()] > before, 1);
    }
    wait
}

/// Counts the accesses of agents other than the user. Returns the numbers of the user's fetches, loads and stores that
/// come after walks, and the numbers of fetches and loads of other agents.
#[inline(never)]
fn count_marked<A: Access>(
    stage: &mut Caches,
    [fetch, data]: [usize; 2],
    rows: &[A],
) -> ([u64; 3], [u64; 2]) {
    let (mut after_walks, mut by_agent) = ([0; 3], [[0; 2]; Agent::ALL.len()]);
    for row in rows.iter().filter(|row| row.is_marked()) {
        let (kind, agent) = (row.kind(), row.agent());
        if agent == Agent::User {
            after_walks[kind as usize] += 1;
        } else {
            debug_assert_ne!(kind, Kind::Store, "only the user makes stores");
            by_agent[agent as usize][usize::from(kind != Kind::Fetch)] += 1;
        }
    }
    let mut others = [0; 2];
    for (&agent, counts) in Agent::ALL.iter().zip(by_agent) {
        for (side, (number, kind)) in [(fetch, Kind::Fetch), (data, Kind::Load)].into_iter().enumerate() {
            if counts[side] > 0 {
                let own = stage.get_mut(number).of(agent);
                own.accesses[kind] += counts[side];
                own.asked[kind] += counts[side];
                others[side] += counts[side];
            }
        }
    }
    (after_walks, others)
}

/// Makes every access of `rows` in order, in two phases. The tree must allow [`FastPath::TwoPhase`](crate::FastPath).
/// `misses` is empty room for the misses between the two phases: calls may be short, and nothing is allocated in them.
pub(crate) fn access_all<A: Access, T: Translation, B: Below>(
    stage: &mut Caches,
    misses: &mut Vec<Miss>,
    [fetch, data]: [usize; 2],
    rows: &[A],
    translation: &T,
    below: &mut B,
) -> u64 {
    let mut wait = 0;
    for rows in rows.chunks(CHUNK) {
        let mut caches = stage.caches.iter_mut().flatten();
        let newly_dirty = match (caches.next(), caches.next()) {
            (Some(one), None) => first_phase(&mut [one], rows, translation, misses),
            (Some(one), Some(other)) => {
                let mut pair = if fetch > data { [other, one] } else { [one, other] };
                first_phase(&mut pair, rows, translation, misses)
            }
            (None, _) => unreachable!("a front has a cache"),
        };
        let newly_dirty =
            newly_dirty.expect("the list of fast paths names only caches that have a loop here");
        let (mut fetches, mut stores, mut is_marked) = (0, 0, false);
        for row in rows {
            fetches += u64::from(row.kind() == Kind::Fetch);
            stores += u64::from(row.kind() == Kind::Store);
            is_marked |= row.is_marked();
        }
        let mut loads = rows.len() as u64 - fetches - stores;
        let mut after_walks = [0; 3];
        if is_marked {
            let others;
            (after_walks, others) = count_marked(stage, [fetch, data], rows);
            fetches -= others[0];
            loads -= others[1];
        }
        stage.get_mut(fetch).counters.accesses[Kind::Fetch] += fetches;
        let CacheCounters {
            accesses,
            dirtied,
            // The second phase counts what a miss changes: see `Transaction::complete_miss`.
            misses: _,
            compulsory: _,
            sent: _,
            fills: _,
            evictions: _,
            evictions_dirty: _,
            // No cache of the front is inclusive or has a write buffer; a flush takes the general path.
            invalidated: _,
            invalidated_dirty: _,
            purged: _,
            purged_dirty: _,
            stream_hits: _,
            merges: _,
            stalls: _,
            stall_cycles: _,
        } = &mut stage.get_mut(data).counters;
        accesses[Kind::Load] += loads;
        accesses[Kind::Store] += stores;
        *dirtied += newly_dirty;
        let mut transaction = stage.transaction(Agent::User, translation, below);
        for miss in misses.drain(..) {
            let number = if miss.kind == Kind::Fetch { fetch } else { data };
            let victim = (miss.victim.0 != EMPTY).then_some(miss.victim);
            transaction.agent = miss.agent;
            if miss.is_after_walk {
                transaction.below.begin_after_walk();
            }
            wait += transaction.complete_miss(number, miss.kind, miss.new, victim);
            if miss.is_after_walk {
                after_walks[miss.kind as usize] -= 1;
                transaction.below.end_after_walk(miss.kind, true, 1);
            }
        }
        if is_marked {
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                below.end_after_walk(kind, false, after_walks[kind as usize]);
            }
        }
    }
    wait
}
