//! `Transaction` carries out one access, with everything that follows from it.
//!
//! Counting rules
//!
//! *Access.* A request for one line, by the processor or by a cache above, is one access of its kind. It is a miss of
//! that kind if the line is not there. A reference that touches several lines is several accesses, which the caller
//! makes. A miss is compulsory if no access of any kind has asked this cache for that line of that page before.
//!
//! *Reading* (fetch, load, a store that allocates, fill). A miss brings the line in: exactly one fill, and exactly
//! one request to the level behind, of the same kind. So the level-2 access that follows from a level-1 store that
//! allocates is a `store` at level 2; it reads, and leaves no dirty line. Only the store of the processor itself
//! makes a line dirty, at the cache that it asks, if that cache is write-back.
//!
//! *A store, write-through.* The data is passed down as one `write`, whether the store hits or misses. A miss with
//! allocation first reads the line (kind `store`). *A store that misses without allocation* is passed down as one
//! `write`; nothing is filled.
//!
//! *Data from above* (`write`, a part of a line; `writeback`, a line of the cache that sends it). At a write-back
//! cache a hit makes the line dirty. A miss with allocation brings the line in, dirty: it is one fill and, unless the
//! data is the whole line, the rest is read from behind with kind `fill`. A miss without allocation is passed down
//! under its own kind. A write-through cache allocates if it is configured to, and then passes the data down under
//! its own kind, whether the data hit or missed. Stores of the processor count as part of a line.
//!
//! *Eviction.* A line that comes to a full set evicts a victim. A dirty victim is one `writeback` to the level
//! behind. With `before-fill` the victim is chosen and written back before the line is read. With `after-fill` the
//! victim is chosen and written back when the line has come, so that a way emptied meanwhile is used.
//!
//! *Inclusion.* When an inclusive cache evicts a line, the lines that this line covers are invalidated in all caches
//! above. If a covered line was dirty, the victim is written back though it was clean itself.
//!
//! *Flush and invalidation* (counted as `purged`). When a frame changes hands, the lines of its page leave every
//! level. Each dirty line, at each level, is one access of kind `system` to memory, past the levels between. Lines
//! whose bytes a device overwrites are stale, and leave in the same way; above an inclusive cache, all lines that a
//! stale line covers leave. A dirty line is discarded instead of written, if its data is stale from end to end.
//!
//! *Flush of whole caches* (counted as `purged`, too). All lines leave the caches that are named, and the caches above
//! a named inclusive cache. Each dirty line is one access of kind `system` to memory, past the levels between, as
//! where a frame changes hands. Stream buffers are emptied. Write buffers are left alone, because the level behind has
//! their data already. A flush takes no time.
//!
//! *Served by.* The first level that holds the line, on the way from the cache that is asked, serves an access.
//! Memory serves it if no cache holds the line. A store that is passed down as `write` is served by the first level
//! that holds the line or brings it in. A store that reads the line first is served by the level that the line comes
//! from.
//!
//! *Stream buffers.* A miss may take its line from a stream buffer of the cache instead of the level behind: see
//! `cache/stream_buffers.rs`. The cache itself serves such an access.
//!
//! *Agents.* A request carries the agent of the access that caused it. Everything that follows from the request
//! carries the same agent: the fill of the missing line, the write-back of the victim, the invalidations of an
//! inclusive cache. The agent whose store made a victim dirty does not matter. Each level counts what it does for
//! each agent apart.
//!
//! *Access from outside.* An agent may ask any cache, as the processor asks the first level. At a cache that does not
//! serve the processor, the access costs what an access from above costs there. The user asks only the caches that
//! serve it.
//!
//! *Cost.* A demand access that misses above costs what the level that serves it costs, or the sum over the levels it
//! passes. Reads that complete a partial write, and data passed down, cost only write-buffer stalls. If the processor
//! does not wait for an agent, the agent's data takes no entry of a write buffer: the entry would stall the
//! processor.

use binhop_base::{Agent, Kind, LineAddr, MappingId, Translation};

use super::{Cache, Place, lines::Word, stream_buffers::BufferedStream};
use crate::{
    DirtyData, Invalidation, Level, MissedLine, Origin, RemovalCause, RemovedLine,
    request::{Below, MEMORY, PART, Request},
};

/// `Transaction` carries out an access in the caches of one stage (front or back). Its functions return the cycles
/// that the processor waits; `now` is the cycle at which they begin.
pub(crate) struct Transaction<'a, T, B> {
    /// The caches by index in the tree. The caches of the other stage are absent.
    pub(crate) caches: &'a mut [Option<Cache>],
    pub(crate) translation: &'a T,
    pub(crate) below: &'a mut B,
    /// The agent that makes the access.
    pub(crate) agent: Agent,
    /// True if the costs of the levels passed add up.
    pub(crate) add_costs: bool,
    /// The cycle of an access for which the processor does not wait. The processor goes on meanwhile, so everything
    /// that follows from such an access bears the same cycle. Then the requests that reach memory stay in order.
    pub(crate) made_at: u64,
}

/// Returns the cache `number`, which the stage must have.
#[inline(always)]
pub(crate) fn cache(caches: &mut [Option<Cache>], number: usize) -> &mut Cache {
    caches[number].as_mut().expect("the cache belongs to this stage")
}

impl<T: Translation, B: Below> Transaction<'_, T, B> {
    /// Finishes an access of the processor that missed, or whose store must be passed down. A line from a stream
    /// buffer costs `stream_cost`.
    #[inline(never)]
    pub(super) fn finish_access(
        &mut self,
        number: usize,
        kind: Kind,
        place: Place,
        hit: bool,
        stream_cost: u64,
        now: u64,
    ) -> u64 {
        let asked = cache(self.caches, number);
        let store = kind == Kind::Store;
        let (write_back, allocate) = (asked.write_back, asked.allocate || !store);
        let mut wait = 0;
        if hit {
            self.below.served(Level::Cache(number));
        } else {
            self.miss(number, kind, place.key);
            if allocate {
                let (waits, from_stream) = self.bring_in(number, place, Some(kind), store && write_back, now);
                wait += waits + if from_stream { stream_cost } else { 0 };
            }
        }
        if store && !(write_back && (hit || allocate)) {
            wait += self.send(number, place.key, Kind::Write, PART, now + wait);
        }
        wait
    }

    /// Completes a miss whose line has already come and whose victim has already left (see
    /// [`crate::fast::two_phase`]). The cache must be write-back and allocate, and no cache of the tree has a write
    /// buffer: then nothing that follows depends on the cycle.
    pub(crate) fn complete_miss(
        &mut self,
        number: usize,
        kind: Kind,
        new: Word,
        victim: Option<Word>,
    ) -> u64 {
        self.miss(number, kind, new.key());
        let asked = cache(self.caches, number);
        asked.counters.fills += 1;
        asked.counters.dirtied += u64::from(new.dirty());
        let (evict_first, data) = (asked.evict_first, asked.line_log2 as u8);
        let mut wait = 0;
        if let (true, Some(victim)) = (evict_first, victim) {
            wait += self.evict(number, victim, 0);
        }
        wait += self.send(number, new.key(), kind, data, 0);
        self.tell_filled(number, new.key());
        if let (false, Some(victim)) = (evict_first, victim) {
            wait += self.evict(number, victim, 0);
        }
        wait
    }

    /// Asks a cache for an agent other than the user, as the processor asks the first level. If `costs` is true, a hit
    /// costs what a hit at the level costs.
    pub(crate) fn ask(&mut self, number: usize, kind: Kind, at: LineAddr, costs: bool, now: u64) -> u64 {
        debug_assert!(matches!(kind, Kind::Fetch | Kind::Load | Kind::Store));
        self.made_at = now;
        let asked = cache(self.caches, number);
        let own = asked.of(self.agent);
        own.accesses[kind] += 1;
        own.asked[kind] += 1;
        let place = asked.place_of_request(at, self.translation);
        let store = kind == Kind::Store;
        let cost = if costs { asked.cost } else { 0 };
        let touched = asked.lines.touch(place.set, place.key, store && asked.write_back);
        asked.counters.dirtied += u64::from(touched == Some(true));
        let hit = touched.is_some();
        let (own, stream_cost) = if hit || self.add_costs { (cost, 0) } else { (0, cost) };
        if hit && (!store || asked.write_back) {
            return own;
        }
        own + self.finish_access(number, kind, place, hit, stream_cost, now + own)
    }

    /// Serves a cache above that asks for a line, or passes data down.
    pub(crate) fn serve(&mut self, request: Request, now: u64) -> u64 {
        let number = usize::from(request.to);
        let kind = request.kind;
        self.made_at = now;
        let asked = cache(self.caches, number);
        debug_assert_eq!(u32::from(request.origin.unit()), asked.line_log2);
        asked.count_access(self.agent, kind);
        let place = asked.place_of_request(request.at, self.translation);
        match kind {
            Kind::Write | Kind::Writeback => self.take_data(number, kind, place, request.data, now),
            Kind::Fetch | Kind::Load | Kind::Store | Kind::Fill => {
                let cost = if kind.is_demand() { asked.cost } else { 0 };
                if asked.lines.touch_hot(place.set, place.key, false).is_some() {
                    if kind.is_demand() {
                        self.below.served(Level::Cache(number));
                    }
                    return cost;
                }
                self.miss(number, kind, place.key);
                let (wait, from_stream) = self.bring_in(number, place, Some(kind), false, now);
                wait + if from_stream || self.add_costs { cost } else { 0 }
            }
            Kind::System => unreachable!("no cache is asked for {kind:?}"),
        }
    }

    /// Counts a miss, and tells the witness of a demand miss. A prefetch demands nothing.
    #[inline(always)]
    fn miss(&mut self, number: usize, kind: Kind, key: u64) {
        let asked = cache(self.caches, number);
        asked.count_miss(self.agent, kind, key, self.translation);
        if kind.is_demand() && self.agent != Agent::Prefetch {
            self.below.missed(MissedLine { cache: number, at: asked.line_of(key), kind });
        }
    }

    #[inline(always)]
    fn tell_filled(&mut self, number: usize, key: u64) {
        self.below.filled(number, cache(self.caches, number).line_of(key));
    }

    /// Takes data that a cache above passes down: a part of a line, or a line of the cache above.
    fn take_data(&mut self, number: usize, kind: Kind, place: Place, data: u8, now: u64) -> u64 {
        let asked = cache(self.caches, number);
        let (write_back, allocate, line_log2) = (asked.write_back, asked.allocate, asked.line_log2);
        let touched = asked.lines.touch_hot(place.set, place.key, write_back);
        if kind == Kind::Write && (touched.is_some() || allocate) {
            self.below.served(Level::Cache(number));
        }
        let mut wait = 0;
        if let Some(newly_dirty) = touched {
            asked.counters.dirtied += u64::from(newly_dirty);
        } else {
            self.miss(number, kind, place.key);
            if allocate {
                let rest = (u32::from(data) != line_log2).then_some(Kind::Fill);
                wait += self.bring_in(number, place, rest, write_back, now).0;
            }
        }
        if !(write_back && (touched.is_some() || allocate)) {
            wait += self.send(number, place.key, kind, data, now + wait);
        }
        wait
    }

    /// Brings a line in. Reads the line from behind as `read` (`None` if the data at hand is the whole line) and makes
    /// room for it, in the order of the cache's [`WritebackOrder`](crate::WritebackOrder). Returns the cycles, and
    /// whether the line came from a stream buffer.
    fn bring_in(
        &mut self,
        number: usize,
        place: Place,
        read: Option<Kind>,
        dirty: bool,
        now: u64,
    ) -> (u64, bool) {
        let (mut wait, mut from_stream) = (0, false);
        let asked = cache(self.caches, number);
        if asked.evict_first
            && let Some(victim) = asked.lines.evict(place.set)
        {
            wait += self.evict(number, victim, now);
        }
        if let Some(kind) = read {
            let asked = cache(self.caches, number);
            let data = asked.line_log2 as u8;
            if asked.streams.is_some() && kind.is_demand() {
                let read = self.read_ahead(number, place.key, kind, now + wait);
                (wait, from_stream) = (wait + read.0, read.1);
            } else {
                wait += self.send(number, place.key, kind, data, now + wait);
            }
        }
        let asked = cache(self.caches, number);
        asked.counters.fills += 1;
        asked.counters.dirtied += u64::from(dirty);
        // No write-back to the levels behind can empty a way of this set: an inclusive cache behind holds a superset of
        // the set. So the line may take its place before its victim is sent.
        let victim = asked.lines.put(place.set, Word::new(place.key, dirty));
        self.tell_filled(number, place.key);
        if let Some(victim) = victim {
            wait += self.evict(number, victim, now + wait);
        }
        (wait, from_stream)
    }

    /// Takes a line from a stream buffer, or reads it from behind, and prefetches. Returns the cycles, and whether the
    /// line came from a buffer.
    #[inline(never)]
    fn read_ahead(&mut self, number: usize, key: u64, kind: Kind, now: u64) -> (u64, bool) {
        let asked = cache(self.caches, number);
        let (at, data) = (asked.line_of(key), asked.line_log2 as u8);
        let taken = asked.streams.as_mut().and_then(|streams| streams.take(at));
        let from_stream = taken.is_some();
        let mut wait = 0;
        let lines = if let Some(lines) = taken {
            asked.counters.stream_hits += 1;
            self.below.served(Level::Cache(number));
            lines
        } else {
            wait = self.send(number, key, kind, data, now);
            let streams = cache(self.caches, number).streams.as_mut();
            let below = &mut *self.below;
            let dropped = |old: BufferedStream| below.dropped(number, old.id, old.lines);
            streams.expect("the cache has stream buffers").begin(at, dropped)
        };
        let ahead = if kind == Kind::Fetch { Kind::Fetch } else { Kind::Load };
        if self.agent.is_waited_for() {
            self.made_at = now + wait;
        }
        let agent = std::mem::replace(&mut self.agent, Agent::Prefetch);
        for line in lines {
            // The processor does not wait for a prefetch.
            let _cycles =
                self.send(number, key - u64::from(at.line) + u64::from(line), ahead, data, self.made_at);
        }
        self.agent = agent;
        (wait, from_stream)
    }

    /// Evicts a victim that has left its set.
    fn evict(&mut self, number: usize, victim: Word, now: u64) -> u64 {
        let asked = cache(self.caches, number);
        asked.counters.evictions += 1;
        let mut dirty = victim.dirty();
        if !asked.back_invalidated.is_empty() && self.invalidate_above(number, victim) && !dirty {
            cache(self.caches, number).counters.dirtied += 1;
            dirty = true;
        }
        let at = cache(self.caches, number).line_of(victim.key());
        self.below.removed(RemovedLine { cache: number, at, dirty, cause: RemovalCause::Evicted });
        if !dirty {
            return 0;
        }
        let asked = cache(self.caches, number);
        asked.counters.evictions_dirty += 1;
        let data = asked.line_log2 as u8;
        self.send(number, victim.key(), Kind::Writeback, data, now)
    }

    /// Invalidates what a line covers in all caches above. Returns whether any covered line was dirty.
    fn invalidate_above(&mut self, number: usize, victim: Word) -> bool {
        let mut dirty = false;
        let asked = cache(self.caches, number);
        let (at, line_log2, by_mapping) =
            (asked.line_of(victim.key()), asked.line_log2, asked.keyed_by_mapping);
        for index in 0..asked.back_invalidated.len() {
            let upper_number = cache(self.caches, number).back_invalidated[index];
            let below = &mut *self.below;
            let upper = cache(self.caches, upper_number);
            let (covered, name) = (line_log2 - upper.line_log2, upper.names());
            for line in at.line << covered..(at.line + 1) << covered {
                let at = LineAddr { id: at.id, line };
                let count = |counters: &mut crate::CacheCounters, word: Word| {
                    counters.invalidated += 1;
                    counters.invalidated_dirty += u64::from(word.dirty());
                    dirty |= word.dirty();
                    below.removed(RemovedLine {
                        cache: upper_number,
                        at: name.line_of(word.key()),
                        dirty: word.dirty(),
                        cause: RemovalCause::Invalidated,
                    });
                };
                if upper.keyed_by_mapping == by_mapping {
                    upper.remove(at, self.translation, count);
                } else {
                    upper.remove_by_page(at, self.translation, count);
                }
            }
        }
        dirty
    }

    /// Sends a request to the level behind. Data goes through the write buffer, if the cache has a write buffer.
    fn send(&mut self, number: usize, key: u64, kind: Kind, data: u8, now: u64) -> u64 {
        let sender = cache(self.caches, number);
        sender.count_sent(self.agent, kind);
        let mut stall = 0;
        if let Some(buffer) = &mut sender.buffer
            && matches!(kind, Kind::Write | Kind::Writeback)
            && self.agent.is_waited_for()
        {
            if let Some(waited) = buffer.push(now, key) {
                stall = waited;
                sender.counters.stalls += u64::from(stall > 0);
                sender.counters.stall_cycles += stall;
                self.below.stalled(stall);
            } else {
                sender.counters.merges += 1;
            }
        }
        let now = if self.agent.is_waited_for() { now } else { self.made_at };
        let at = sender.name_behind(key, self.translation);
        let origin = Origin::new(self.agent, sender.next_unit as u8);
        let request = Request { at, to: sender.next, kind, origin, data };
        let here = self.caches.get(usize::from(request.to)).is_some_and(Option::is_some);
        let wait =
            if here { self.serve(request, now + stall) } else { self.below.request(request, now + stall) };
        stall + wait
    }

    /// Removes the lines that hold any of these bytes of a page from every cache of this stage. All lines that a line
    /// of an inclusive cache covers leave with that line. If the data is to be cleaned ([`DirtyData::Clean`]), no line
    /// leaves: see [`Self::clean`].
    pub(crate) fn invalidate(&mut self, what: &Invalidation<'_>, now: u64) {
        let Invalidation { page, mappings, bytes, data } = what;
        if bytes.is_empty() {
            return;
        }
        if *data == DirtyData::Clean {
            return self.clean(what, now);
        }
        for number in 0..self.caches.len() {
            let Some(cache) = self.caches[number].as_mut() else { continue };
            let (names, below) = (cache.names(), &mut *self.below);
            let (line_log2, wide) = (cache.line_log2, cache.flushed_log2);
            let lines = bytes.start >> wide..bytes.end.div_ceil(1 << wide);
            let lines = (lines.start << (wide - line_log2)) as u32..(lines.end << (wide - line_log2)) as u32;
            if let Some(streams) = &mut cache.streams {
                let ids = mappings.iter().map(|mapping| mapping.0).filter(|_| cache.keyed_by_mapping);
                let page = Some(page.0).filter(|_| !cache.keyed_by_mapping);
                ids.chain(page).for_each(|id| {
                    streams.forget(id, |old| below.dropped(number, old.id, old.lines));
                });
            }
            let (mut written, mut discarded) = (Vec::new(), 0);
            let mut remove = |cache: &mut Cache, id: u32| {
                for line in cache.may_hold(id, lines.clone(), self.translation) {
                    let first = u64::from(line) << line_log2;
                    let stale = bytes.start <= first && first + (1 << line_log2) <= bytes.end;
                    cache.remove(LineAddr { id, line }, self.translation, |counters, word| {
                        counters.purged += 1;
                        counters.purged_dirty += u64::from(word.dirty());
                        if word.dirty() && stale && *data == DirtyData::Discard {
                            discarded += 1;
                        } else if word.dirty() {
                            written.push(LineAddr { id: page.0, line });
                        }
                        let (at, dirty) = (names.line_of(word.key()), word.dirty());
                        below.removed(RemovedLine { cache: number, at, dirty, cause: RemovalCause::Flushed });
                    });
                }
            };
            if cache.keyed_by_mapping {
                mappings.iter().for_each(|mapping| remove(cache, mapping.0));
            } else {
                remove(cache, page.0);
            }
            if discarded > 0 {
                cache.of(self.agent).discarded += discarded;
            }
            self.write_out(number, &written, now);
        }
    }

    /// Makes the dirty lines clean that hold any of these bytes of a page, in every cache of this stage.
    fn clean(&mut self, what: &Invalidation<'_>, now: u64) {
        let Invalidation { page, mappings, bytes, .. } = what;
        for number in 0..self.caches.len() {
            let Some(cache) = self.caches[number].as_mut() else { continue };
            let lines = bytes.start >> cache.line_log2..bytes.end.div_ceil(1 << cache.line_log2);
            let lines = lines.start as u32..lines.end as u32;
            let mut written = Vec::new();
            let mut clean = |cache: &mut Cache, id: u32| {
                for line in cache.may_hold(id, lines.clone(), self.translation) {
                    cache.clean(LineAddr { id, line }, self.translation, || {
                        written.push(LineAddr { id: page.0, line });
                    });
                }
            };
            if cache.keyed_by_mapping {
                mappings.iter().for_each(|mapping| clean(cache, mapping.0));
            } else {
                clean(cache, page.0);
            }
            if !written.is_empty() {
                cache.of(self.agent).cleaned += written.len() as u64;
            }
            self.write_out(number, &written, now);
        }
    }

    /// Removes all lines from a cache. If the cache is inclusive, all lines leave the caches above it first. A
    /// cache of the other stage is left alone.
    pub(crate) fn flush(&mut self, number: usize, now: u64) {
        let Some(flushed) = self.caches[number].as_ref() else { return };
        for upper in flushed.back_invalidated.clone() {
            self.flush_one(upper, now);
        }
        self.flush_one(number, now);
    }

    fn flush_one(&mut self, number: usize, now: u64) {
        let flushed = cache(self.caches, number);
        let (translation, below) = (self.translation, &mut *self.below);
        if let Some(streams) = &mut flushed.streams {
            streams.forget_all(|old| below.dropped(number, old.id, old.lines));
        }
        let (names, by_mapping) = (flushed.names(), flushed.keyed_by_mapping);
        let mut written = Vec::new();
        flushed.remove_all(|counters, word| {
            counters.purged += 1;
            counters.purged_dirty += u64::from(word.dirty());
            let (at, dirty) = (names.line_of(word.key()), word.dirty());
            if dirty {
                let id = if by_mapping { translation.page(MappingId(at.id)).0 } else { at.id };
                written.push(LineAddr { id, ..at });
            }
            below.removed(RemovedLine { cache: number, at, dirty, cause: RemovalCause::Flushed });
        });
        self.write_out(number, &written, now);
    }

    /// Writes dirty lines of a cache to memory on behalf of the system. The lines are named by page.
    fn write_out(&mut self, number: usize, lines: &[LineAddr], now: u64) {
        let sender = cache(self.caches, number);
        let unit = sender.line_log2 as u8;
        let origin = Origin::new(self.agent, unit);
        for &at in lines {
            cache(self.caches, number).count_sent(self.agent, Kind::System);
            let request = Request { at, to: MEMORY, kind: Kind::System, origin, data: unit };
            self.below.request(request, now);
        }
    }
}
