//! `PartMachine` is a machine with device data whose caches have lines of several sizes: a front of caches that hold
//! parts of lines, above a [`DmaMachine`]. Every word of every copy has a version, so that a stale read or a lost dirty
//! part is seen at once.
//!
//! # Rules
//! - The caches of the front replace the least recently used line. They read the missing line before they pass the
//!   victim down. A cache may write back or through, and may allocate the line of a write that misses or not.
//! - A cache that writes through passes each store down, and no line of it is dirty.
//! - If an inclusive cache evicts a line, all copies of its words leave the caches above. If one of them was dirty, the
//!   evicted line is dirty, too, and has the words of the highest copies.
//! - An address is the number of a word. A line of the last level has [`WORDS`] words, and a line of the front has
//!   fewer words or as many.
//! - A store makes a line of the data cache dirty, if the cache writes back. If this line is a part, the rest of its
//!   line stays clean. The front reads a whole line for a store if lines of the data cache are whole lines, and a cache
//!   on the way writes back, which the store makes dirty. If this is not the data cache, no cache on the way may have
//!   stream buffers: the lines that they read ahead could push the line out before the store reaches it.
//! - What a cache passes down updates each copy of these words on its way.
//! - Programs do not store into what they fetch: the instruction cache does not look at the data cache. Its stream
//!   buffers may read data ahead that nobody fetches, so no store updates them.
//! - A cache may have stream buffers, which hold copies of lines that were read ahead. A missing line comes from a
//!   buffer that has it at its head. Otherwise the cache reads the line from below, and the buffer used longest ago
//!   begins anew with the lines behind it, as far as the page goes.
//! - If the processor stores a part of a line past the front, the copies of the line leave the front before the store.
//!   The machine below hears of this behind the store.
//! - A line that a stream buffer holds is held by the front. A line that leaves a buffer is no whole line for the
//!   machine below: a buffer returns nothing.
//! - If bytes of a page become invalid, all buffers with lines of the page are emptied.
//! - If the frame of a page gets another page, the lines of the page leave every cache. Each dirty line of each cache of
//!   the front is written to memory by itself, past the machine below.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::dma::{DmaMachine, Reply, Tapped, WORDS};

const LINE: u64 = WORDS as u64;

/// `PartOp` is what the processor or a device wants to do.
#[derive(Clone, Debug)]
pub enum PartOp {
    /// The processor fetches a word.
    Fetch(u64),
    /// The processor loads a word.
    Load(u64),
    /// The processor stores a word.
    Store(u64),
    /// The processor stores words past the front.
    StorePast(Range<u64>),
    /// A device reads words.
    DeviceRead(Range<u64>),
    /// A device writes words.
    DeviceWrite(Range<u64>),
    /// The frame of a word gets another page.
    ChangeFrame(u64),
}

/// `PartCache` describes a cache of the front.
#[derive(Clone, Copy, Debug)]
pub struct PartCache {
    /// Words of a line.
    pub line: u64,
    /// Number of sets.
    pub sets: u64,
    /// Ways of each set.
    pub ways: usize,
    /// The cache behind, which has a higher number; `None` is below the front.
    pub next: Option<usize>,
    /// True if written data stays in the cache until its line is evicted.
    pub writes_back: bool,
    /// True if a write that misses allocates the line.
    pub allocates: bool,
    /// True if lines leave the caches above together with a line that the cache evicts.
    pub is_inclusive: bool,
    /// The number of stream buffers, and the lines that each holds.
    pub streams: Option<(usize, u64)>,
}

/// `PartFront` describes a front.
#[derive(Clone, Debug)]
pub struct PartFront {
    /// The caches: the instruction cache, the data cache, and the caches behind them.
    pub caches: Vec<PartCache>,
    /// Words of a page.
    pub page: u64,
    /// True if pages are flushed before a device reads or writes them.
    pub flushes_pages: bool,
}

/// `Part` is a line of a cache of the front.
#[derive(Clone, Debug)]
struct Part {
    cache: usize,
    first: u64,
    dirty: bool,
    used: u64,
    /// The version of each word.
    words: Vec<u64>,
}

impl Part {
    fn range(&self) -> Range<u64> {
        self.first..self.first + self.words.len() as u64
    }

    fn is_whole(&self) -> bool {
        self.words.len() == WORDS
    }

    fn line(&self) -> u64 {
        self.first / LINE
    }
}

/// `Wanted` is the reason for which a cache reads a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Load,
    Store,
    /// A part was passed down that is shorter than the line.
    Fill,
}

/// `Treatment` says what happens to the copies of words that a device reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Clean,
    WriteBack,
    Discard,
}

/// `PartMachine` holds the lines of the front's caches, and the machine below.
#[derive(Clone, Debug)]
pub struct PartMachine {
    front: PartFront,
    /// The machine below the front.
    pub below: DmaMachine,
    parts: Vec<Part>,
    /// The stream buffers of each cache, the buffer used last first. The first line of a buffer is its head.
    streams: Vec<Vec<VecDeque<Part>>>,
    time: u64,
    /// The lines that the front holds when the reference under way has ended.
    held_at_end: BTreeSet<u64>,
    /// The lines that the reference under way has removed from caches and stream buffers. The flag is true for a line
    /// of a buffer.
    removed: Vec<(Part, bool)>,
    /// The lines that the reference under way has written back as a whole.
    told: Vec<u64>,
    seen: Vec<(Tapped, Reply)>,
}

fn within_line(words: &Range<u64>) -> Range<usize> {
    let first = words.start / LINE * LINE;
    (words.start - first) as usize..(words.end - first) as usize
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

impl PartMachine {
    /// Makes a machine with an empty front.
    #[must_use]
    pub fn new(front: PartFront, below: DmaMachine) -> Self {
        let buffers = |cache: &PartCache| vec![VecDeque::new(); cache.streams.map_or(0, |(count, _)| count)];
        Self {
            streams: front.caches.iter().map(buffers).collect(),
            front,
            below,
            parts: Vec::new(),
            time: 0,
            held_at_end: BTreeSet::new(),
            removed: Vec::new(),
            told: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Does what the processor or a device wants. Returns the events below the front with their replies.
    ///
    /// # Panics
    /// A read returned stale data.
    pub fn step(&mut self, op: &PartOp) -> Vec<(Tapped, Reply)> {
        match *op {
            PartOp::Fetch(word) => self.reference(0, word, Wanted::Load),
            PartOp::Load(word) => self.reference(1, word, Wanted::Load),
            PartOp::Store(word) => self.reference(1, word, Wanted::Store),
            PartOp::StorePast(ref words) => self.transfer(words, true, true),
            PartOp::DeviceRead(ref words) => self.transfer(words, false, false),
            PartOp::DeviceWrite(ref words) => self.transfer(words, true, false),
            PartOp::ChangeFrame(word) => self.change_frame(word),
        }
        std::mem::take(&mut self.seen)
    }

    fn find(&mut self, cache: usize, word: u64) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.cache == cache && part.range().contains(&word))
    }

    /// Returns the lines in stream buffers.
    fn buffered(&self) -> impl Iterator<Item = &Part> {
        self.streams.iter().flatten().flatten()
    }

    /// Returns every line that the front holds.
    fn held(&self) -> BTreeSet<u64> {
        self.parts.iter().chain(self.buffered()).map(Part::line).collect()
    }

    /// Returns the version of a word in the highest cache that has the word.
    fn top(&self, word: u64) -> Option<u64> {
        let holders = self.parts.iter().filter(|part| part.range().contains(&word));
        holders.min_by_key(|part| part.cache).map(|part| part.words[(word - part.first) as usize])
    }

    /// Gives the stream buffers of a cache the versions of words that pass by.
    fn update_buffers(&mut self, cache: usize, range: &Range<u64>, words: &[u64]) {
        for part in self.streams[cache].iter_mut().flatten() {
            for word in part.range().filter(|word| range.contains(word)) {
                part.words[(word - part.first) as usize] = words[(word - range.start) as usize];
            }
        }
    }

    fn newest(&self, word: u64) -> u64 {
        self.below.newest(word / LINE)[(word % LINE) as usize]
    }

    fn reference(&mut self, cache: usize, word: u64, wanted: Wanted) {
        // A line is written back if it has left at the end. A copy of the machine finds that out.
        let mut ahead = self.clone();
        ahead.held_at_end.clear();
        ahead.access(cache, word, wanted);
        self.held_at_end = ahead.held();
        self.access(cache, word, wanted);
        for (part, of_buffer) in std::mem::take(&mut self.removed) {
            let (line, whole) = (part.line(), part.is_whole() && !of_buffer);
            if (!part.dirty || !whole) && !self.told.contains(&line) && !self.held().contains(&line) {
                self.told.push(line);
                let words = whole.then(|| part.words.try_into().expect("the line is whole"));
                self.below.clean_eviction(line, words);
                self.seen.push((("clean eviction", line, whole), None));
            }
        }
        self.told.clear();
    }

    /// Does what the processor asks the first level to do with a word.
    fn access(&mut self, cache: usize, word: u64, wanted: Wanted) {
        let PartCache { writes_back, allocates, next, .. } = self.front.caches[cache];
        if wanted == Wanted::Load || allocates || self.find(cache, word).is_some() {
            self.look_up(cache, word, wanted);
        }
        if wanted == Wanted::Load {
            let part = self.find(cache, word).expect("the line is here");
            let version = part.words[(word - part.first) as usize];
            assert_eq!(version, self.newest(word), "the processor reads stale data of word {word}");
            return;
        }
        let place = (word % LINE) as usize;
        let version = self.below.write_newest(word / LINE, place..place + 1)[place];
        let mut holds = false;
        if let Some(part) = self.find(cache, word) {
            part.words[(word - part.first) as usize] = version;
            part.dirty = writes_back;
            holds = true;
        }
        if !(writes_back && holds) {
            self.update_buffers(cache, &(word..word + 1), &[version]);
            self.pass_down(next, word..word + 1, &[version], true);
        }
    }

    /// Looks for a word in a cache, and brings its line in if it is missing. Returns true if it was there.
    fn look_up(&mut self, cache: usize, word: u64, wanted: Wanted) -> bool {
        self.time += 1;
        let time = self.time;
        if let Some(part) = self.find(cache, word) {
            part.used = time;
            return true;
        }
        self.bring_in(cache, word, wanted, true);
        false
    }

    fn bring_in(&mut self, cache: usize, word: u64, wanted: Wanted, reads: bool) {
        let PartCache { line, sets, ways, next, is_inclusive, streams, .. } = self.front.caches[cache];
        let first = word / line * line;
        let words = match streams {
            _ if !reads => vec![0; line as usize],
            Some((_, depth)) if wanted != Wanted::Fill => self.read_ahead(cache, first, depth, wanted),
            _ => self.read_behind(cache, first, wanted),
        };
        let set_of = |first: u64| first / line % sets;
        let in_set = |part: &&Part| part.cache == cache && set_of(part.first) == set_of(first);
        if self.parts.iter().filter(in_set).count() == ways {
            let used = self.parts.iter().filter(in_set).map(|part| part.used).min();
            let victim = self.parts.iter().position(|part| part.cache == cache && Some(part.used) == used);
            let mut victim = self.parts.remove(victim.expect("the set is full"));
            if is_inclusive {
                self.remove_above(&mut victim);
            }
            self.removed.push((victim.clone(), false));
            if victim.dirty {
                self.update_buffers(cache, &victim.range(), &victim.words);
                self.pass_down(next, victim.range(), &victim.words, false);
            }
        }
        self.time += 1;
        self.parts.push(Part { cache, first, dirty: false, used: self.time, words });
    }

    /// Reads a line of a cache from behind the cache.
    fn read_behind(&mut self, cache: usize, first: u64, wanted: Wanted) -> Vec<u64> {
        let PartCache { line, next, .. } = self.front.caches[cache];
        if let Some(next) = next {
            self.look_up(next, first, wanted);
            let from = self.find(next, first).expect("the line is here");
            let skipped = (first - from.first) as usize;
            return from.words[skipped..skipped + line as usize].to_vec();
        }
        let store = wanted == Wanted::Store && self.stores_lines();
        let (reply, words) = self.below.cpu_read(first / LINE, store);
        self.seen.push((("read", first / LINE, store), reply));
        words[within_line(&(first..first + line))].to_vec()
    }

    /// Takes a missing line from a stream buffer, or reads it from behind the cache, and reads further lines ahead.
    fn read_ahead(&mut self, cache: usize, first: u64, depth: u64, wanted: Wanted) -> Vec<u64> {
        let line = self.front.caches[cache].line;
        let is_at_head = |buffer: &VecDeque<Part>| buffer.front().is_some_and(|head| head.first == first);
        let (words, ahead) = if let Some(used) = self.streams[cache].iter().position(is_at_head) {
            let mut buffer = self.streams[cache].remove(used);
            let head = buffer.pop_front().expect("the buffer has a head");
            self.streams[cache].insert(0, buffer);
            (head.words, depth..depth + 1)
        } else {
            let words = self.read_behind(cache, first, wanted);
            let oldest = self.streams[cache].pop().expect("the cache has buffers");
            self.removed.extend(oldest.into_iter().map(|part| (part, true)));
            self.streams[cache].insert(0, VecDeque::new());
            (words, 1..depth + 1)
        };
        let page_end = (first / self.front.page + 1) * self.front.page;
        for first in ahead.map(|number| first + number * line).filter(|&first| first < page_end) {
            let words = self.read_behind(cache, first, Wanted::Load);
            self.streams[cache][0].push_back(Part { cache, first, dirty: false, used: 0, words });
        }
        words
    }

    fn has_parts(&self) -> bool {
        self.front.caches.iter().any(|cache| cache.line != LINE)
    }

    /// Returns whether the front's copy of a whole line becomes dirty, if the line is read for a store.
    fn stores_lines(&self) -> bool {
        let caches = &self.front.caches;
        let behind = |cache: &usize| caches[*cache].next;
        let mut way = std::iter::successors(Some(1), behind);
        let reads_ahead = way.clone().any(|cache| caches[cache].streams.is_some());
        let is_kept = caches[1].writes_back || (!reads_ahead && way.any(|cache| caches[cache].writes_back));
        caches[1].line == LINE && is_kept
    }

    /// Removes the copies of an evicted line's words from all caches above, and takes over what is dirty there.
    fn remove_above(&mut self, victim: &mut Part) {
        let above: Vec<usize> = (0..victim.cache)
            .filter(|&cache| {
                let behind = |cache: &usize| self.front.caches[*cache].next;
                std::iter::successors(Some(cache), behind).any(|cache| cache == victim.cache)
            })
            .collect();
        // A lower copy is older, so the highest copy is taken over last.
        let range = victim.range();
        for cache in above.into_iter().rev() {
            let is_covered = |part: &mut Part| part.cache == cache && overlap(&part.range(), &range);
            for part in self.parts.extract_if(.., is_covered) {
                if part.dirty {
                    let skipped = (part.first - victim.first) as usize;
                    victim.words[skipped..skipped + part.words.len()].copy_from_slice(&part.words);
                    victim.dirty = true;
                }
                self.removed.push((part, false));
            }
        }
    }

    /// A cache passes words down to the level behind it: a store, or a dirty line.
    fn pass_down(&mut self, next: Option<usize>, range: Range<u64>, words: &[u64], is_store: bool) {
        if let Some(number) = next {
            let PartCache { line, next, writes_back, allocates, .. } = self.front.caches[number];
            self.time += 1;
            let time = self.time;
            if self.find(number, range.start).is_none() && allocates {
                self.bring_in(number, range.start, Wanted::Fill, line as usize != words.len());
            }
            let mut holds = false;
            if let Some(part) = self.find(number, range.start) {
                let skipped = (range.start - part.first) as usize;
                part.words[skipped..skipped + words.len()].copy_from_slice(words);
                (part.dirty, part.used) = (writes_back, time.max(part.used));
                holds = true;
            }
            if !(writes_back && holds) {
                self.update_buffers(number, &range, words);
                self.pass_down(next, range, words, is_store);
            }
            return;
        }
        let line = range.start / LINE;
        let leaves = !self.held_at_end.contains(&line);
        if words.len() == WORDS && leaves && !is_store {
            self.told.push(line);
        }
        self.pass_below(range, words, leaves);
    }

    /// The front passes a line, or a part of it, to the machine below.
    fn pass_below(&mut self, range: Range<u64>, passed: &[u64], leaves: bool) {
        let (line, within) = (range.start / LINE, within_line(&range));
        let mut words = [0; WORDS];
        words[within.clone()].copy_from_slice(passed);
        let (what, reply) = if within != (0..WORDS) {
            ("partial store", self.below.partial_store(line, within, &words))
        } else if leaves {
            ("write back", self.below.cpu_write(line, true, words))
        } else {
            ("cleaned", self.below.cpu_write(line, false, words))
        };
        self.seen.push(((what, line, false), reply));
    }

    /// A device reads or writes words, or the processor stores words past the front, page by page.
    fn transfer(&mut self, words: &Range<u64>, writes: bool, by_processor: bool) {
        let page = self.front.page;
        for number in words.start / page..=(words.end - 1) / page {
            let (first, end) = (number * page, (number + 1) * page);
            self.transfer_in_page(&(words.start.max(first)..words.end.min(end)), writes, by_processor);
        }
    }

    fn transfer_in_page(&mut self, words: &Range<u64>, writes: bool, by_processor: bool) {
        let flushes = self.front.flushes_pages;
        let page = words.start / self.front.page * self.front.page;
        let lines = words.start / LINE..(words.end - 1) / LINE + 1;
        let before = self.clone();
        let dropped = if writes || flushes { self.empty_buffers(page) } else { Vec::new() };
        let mut passed = Vec::new();
        if flushes && !by_processor {
            self.treat(&(page..page + self.front.page), Treatment::WriteBack, &mut passed);
        } else {
            // The rest of the first line and of the last line is cleaned or written back, too.
            let (rest, own) = if writes {
                (Treatment::WriteBack, Treatment::Discard)
            } else {
                (Treatment::Clean, Treatment::Clean)
            };
            if self.has_parts() {
                self.treat(&(lines.start * LINE..words.start), rest, &mut passed);
                self.treat(&(words.end..lines.end * LINE), rest, &mut passed);
            }
            self.treat(words, own, &mut passed);
        }
        // Several caches may hold the same bytes dirty. They go down once, with the longest line, and are the newest.
        for (at, range) in passed.iter().enumerate() {
            let is_covered = passed.iter().any(|other| other != range && covers(other, range));
            if is_covered || passed[..at].contains(range) {
                continue;
            }
            let versions: Vec<u64> =
                range.clone().map(|word| before.top(word).expect("a cache has the word")).collect();
            for part in self.parts.iter_mut().filter(|part| overlap(&part.range(), range)) {
                for word in part.range().filter(|word| range.contains(word)) {
                    part.words[(word - part.first) as usize] = versions[(word - range.start) as usize];
                }
            }
            for cache in 1..self.front.caches.len() {
                self.update_buffers(cache, range, &versions);
            }
            self.pass_below(range.clone(), &versions, writes || flushes);
        }
        for line in lines.clone() {
            let first = line * LINE;
            let range = words.start.max(first)..words.end.min(first + LINE);
            let (within, whole) = (within_line(&range), range.end - range.start == LINE);
            if by_processor {
                let written = self.below.write_newest(line, within.clone());
                self.pass_below(range, &written[within], true);
                if !whole {
                    self.tell_clean(line);
                }
            } else if writes {
                let reply = self.below.device_write(line, within);
                self.seen.push((("device write", line, whole), reply));
            } else {
                let reply = self.below.device_read(line);
                self.seen.push((("device read", line, false), reply));
            }
        }
        // The other lines of the page have left the buffers, too.
        let mut told = BTreeSet::new();
        for line in dropped.iter().map(Part::line).filter(|line| !lines.contains(line)) {
            let leaves = !self.held().contains(&line) && told.insert(line);
            if leaves && (by_processor || !flushes) {
                self.tell_clean(line);
            }
        }
    }

    /// The frame of a word gets another page: every line of the old page leaves every cache. Each dirty line of each
    /// cache is written to memory by itself.
    fn change_frame(&mut self, word: u64) {
        let first = word / self.front.page * self.front.page;
        let page = first..first + self.front.page;
        self.empty_buffers(first);
        let mut parts: Vec<Part> = self.parts.extract_if(.., |part| page.contains(&part.first)).collect();
        parts.sort_by_key(|part| (part.cache, part.first));
        let lines = first / LINE..page.end / LINE;
        for line in lines.clone() {
            self.below.flushed(line);
            self.seen.push((("flushed", line, false), None));
        }
        for part in parts.iter().filter(|part| part.dirty) {
            self.below.system_write(part.line());
            self.seen.push((("system write", part.line(), false), None));
        }
        lines.for_each(|line| self.below.take_other_data(line));
    }

    fn tell_clean(&mut self, line: u64) {
        self.below.clean_eviction(line, None);
        self.seen.push((("clean eviction", line, false), None));
    }

    /// Empties the stream buffers that hold lines of a page. Returns these lines.
    fn empty_buffers(&mut self, page: u64) -> Vec<Part> {
        let is_of_page = |part: &Part| (page..page + self.front.page).contains(&part.first);
        let buffers = self.streams.iter_mut().flatten();
        buffers.filter(|buffer| buffer.iter().any(is_of_page)).flat_map(std::mem::take).collect()
    }

    /// Cleans or removes every line of the front that has any of these words. Adds what is passed down.
    fn treat(&mut self, words: &Range<u64>, treatment: Treatment, passed: &mut Vec<Range<u64>>) {
        if words.is_empty() {
            return;
        }
        // With a line of an inclusive cache, all parts that it covers leave the caches above.
        let reached: Vec<Range<u64>> = (0..self.front.caches.len())
            .map(|cache| {
                let behind = |cache: &usize| self.front.caches[*cache].next;
                let inclusive = std::iter::successors(behind(&cache), behind)
                    .filter(|&cache| self.front.caches[cache].is_inclusive && treatment != Treatment::Clean);
                let line = inclusive.map(|cache| self.front.caches[cache].line).max().unwrap_or(1);
                words.start / line * line..words.end.next_multiple_of(line)
            })
            .collect();
        let is_reached = |part: &Part| overlap(&part.range(), &reached[part.cache]);
        self.parts.sort_by_key(|part| (part.cache, part.first));
        for part in self.parts.iter_mut().filter(|part| is_reached(part)) {
            let is_stale = treatment == Treatment::Discard && covers(words, &part.range());
            if part.dirty && !is_stale {
                passed.push(part.range());
            }
            part.dirty = false;
        }
        if treatment != Treatment::Clean {
            self.parts.retain(|part| !is_reached(part));
        }
    }

    /// Checks that the highest copy of every word is the newest, and that a word that no cache of the front holds dirty
    /// is the newest below. A copy in a buffer must be the newest, too, unless a copy above it is dirty. The machine
    /// below must know which lines the front holds, unless pages are flushed.
    ///
    /// # Panics
    /// Data were lost.
    pub fn check_nothing_is_lost(&mut self) {
        for line in self.below.lines() {
            for place in 0..WORDS {
                let word = line * LINE + place as u64;
                if let Some(version) = self.top(word) {
                    assert_eq!(version, self.newest(word), "the front's copy of word {word} is stale");
                }
                let holders = self.parts.iter().filter(|part| part.range().contains(&word));
                let dirty = holders.filter(|part| part.dirty).map(|part| part.cache).min();
                for part in self.buffered().filter(|part| part.range().contains(&word) && part.cache > 0) {
                    let version = part.words[(word - part.first) as usize];
                    let is_covered = dirty.is_some_and(|dirty| dirty <= part.cache);
                    assert!(
                        is_covered || version == self.newest(word),
                        "a buffer's copy of word {word} is stale"
                    );
                }
                if dirty.is_none() {
                    self.below.check_below(line, place..place + 1);
                }
            }
        }
        if !self.front.flushes_pages {
            let (held, known) = (self.held(), self.below.held_lines());
            assert_eq!(known, held, "the machine below knows which lines the front holds");
        }
    }
}
