//! `Cache` is one cache: its lines and their places, its counts, and its settings. `access.rs` says what it does.

pub(crate) mod access;
pub(crate) mod cachegrind;
mod chunks;
pub(crate) mod lines;
pub(crate) mod prefetch;
pub(crate) mod stage;
mod stream_buffers;
mod write_buffer;

use std::ops::Range;

use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, PageId, PowerOfTwo, Rng, Translation};

use crate::{
    AgentCounters, CacheConfig, CacheCounters, IndexBy, Next, Tree, WritePolicy, WritebackOrder,
    request::MEMORY,
};
pub use lines::SparseBytes;
use lines::{EMPTY, Lines, SelectedLines, Storage, Word};
use stream_buffers::StreamBuffers;
use write_buffer::WriteBuffer;

/// A line that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The line. A cache with a virtual tag names the line by mapping, any other cache by page.
    pub at: LineAddr,
    /// True if the line holds data that the level behind does not have.
    pub dirty: bool,
}

/// The place of a line in one cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) set: usize,
    pub(crate) key: u64,
}

/// The source of the upper bits of the set index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// There are no upper bits: the offset within the page alone chooses the set.
    Offset,
    VirtualPage,
    Frame,
}

/// `KeyNames` translates the keys of a cache into lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyNames {
    page_lines_log2: u32,
}

impl KeyNames {
    /// The line that a key names.
    #[inline]
    pub(crate) fn line_of(self, key: u64) -> LineAddr {
        let line = key & ((1 << self.page_lines_log2) - 1);
        LineAddr { id: (key >> self.page_lines_log2) as u32, line: line as u32 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub(crate) lines: Lines,
    pub(crate) counters: CacheCounters,
    index: Index,
    /// The two commonest indices have flags of their own. Two flags are two predicted branches, where a match on
    /// `index` is a jump through a table.
    index_is_offset: bool,
    index_is_frame: bool,
    hashed: bool,
    /// True if keys hold a mapping. Otherwise keys hold a page.
    pub(crate) keyed_by_mapping: bool,
    /// True if the caches above name lines by mapping. Otherwise they name lines by page.
    pub(crate) takes_mapping: bool,
    /// True if the level behind wants a page where this cache knows a mapping.
    sends_page_of_mapping: bool,
    pub(crate) write_back: bool,
    pub(crate) allocate: bool,
    pub(crate) evict_first: bool,
    pub(crate) line_log2: u32,
    /// Logarithm of the bytes in which flushes and invalidations remove lines: the widest line of this cache and of the
    /// inclusive caches behind it. An inclusive cache must not lose a line while this cache holds a part of it.
    pub(crate) flushed_log2: u32,
    page_lines_log2: u32,
    sets_log2: u32,
    set_mask: u64,
    ways: usize,
    pub(crate) next: u8,
    /// Logarithm of the bytes of the lines in which requests to the level behind are counted.
    pub(crate) next_unit: u32,
    pub(crate) cost: u64,
    pub(crate) buffer: Option<WriteBuffer>,
    pub(crate) streams: Option<StreamBuffers>,
    /// The caches that lose every line that this cache evicts: all caches above an inclusive cache, otherwise none.
    pub(crate) back_invalidated: Box<[usize]>,
    /// The agents that may be counted here, and the counts of each agent but the user.
    agents: Agents,
    pub(crate) by_agent: Box<[AgentCounters]>,
    /// False if compulsory misses stay 0, and `touched` stays empty.
    pub(crate) counts_compulsory: bool,
    /// One bit for each line of each page that was ever accessed here.
    pub(crate) touched: Vec<u64>,
    /// The demand misses beyond the first of each line, by page, if the cache is watched.
    pub(crate) repeats: Option<Vec<u64>>,
}

impl Cache {
    /// Returns what chooses the set of a cache, besides the offset within the page.
    pub(crate) fn index_of(tree: &Tree, number: usize) -> Index {
        let config = &tree.config().caches[number];
        match config.index {
            _ if tree.index_is_inside_page(config) => Index::Offset,
            IndexBy::Physical => Index::Frame,
            IndexBy::Virtual => Index::VirtualPage,
        }
    }

    pub(crate) fn new(tree: &Tree, number: usize, rng: Rng, storage: Storage) -> Self {
        let config: &CacheConfig = &tree.config().caches[number];
        let keyed_by_mapping = config.keyed_by_mapping();
        let (next, next_unit, next_takes_mapping) = match config.next {
            Next::Memory => (MEMORY, config.line.log2(), false),
            Next::Cache(next) => {
                (next as u8, tree.config().caches[next].line.log2(), tree.takes_mapping(next))
            }
        };
        let index = Self::index_of(tree, number);
        let lines_in_page = tree.config().page.bytes() / config.line.bytes();
        Self {
            lines: Lines::new(config, number, rng, storage, tree.config().page),
            counters: CacheCounters::default(),
            index,
            index_is_offset: index == Index::Offset,
            index_is_frame: index == Index::Frame,
            hashed: config.hashed,
            keyed_by_mapping,
            takes_mapping: tree.takes_mapping(number),
            sends_page_of_mapping: keyed_by_mapping && !next_takes_mapping,
            write_back: config.write == WritePolicy::Back,
            allocate: config.allocate,
            evict_first: config.writeback_order == WritebackOrder::BeforeFill,
            line_log2: config.line.log2(),
            flushed_log2: tree.inclusive_behind(number).fold(config.line, PowerOfTwo::max).log2(),
            page_lines_log2: tree.config().page.log2() - config.line.log2(),
            sets_log2: config.sets().ilog2(),
            set_mask: config.sets() - 1,
            ways: config.ways as usize,
            next,
            next_unit,
            cost: config.cost,
            streams: config.streams.map(|streams| StreamBuffers::new(streams, lines_in_page as u32)),
            buffer: config.write_buffer.filter(|buffer| buffer.stalls).map(WriteBuffer::new),
            back_invalidated: if config.inclusive { tree.above(number).into() } else { Box::default() },
            agents: tree.config().agents,
            by_agent: tree.config().agents.others().map(|_| AgentCounters::default()).collect(),
            counts_compulsory: storage == Storage::Dense,
            touched: Vec::new(),
            repeats: None,
        }
    }

    /// Returns the place of a line that the processor asks for.
    #[inline(always)]
    pub(crate) fn place_of_mapping<T: Translation>(&self, at: LineAddr, translation: &T) -> Place {
        let id = if self.keyed_by_mapping { at.id } else { translation.page(MappingId(at.id)).0 };
        let upper = if self.index_is_offset {
            0
        } else if self.index_is_frame {
            translation.frame(self.page_of_key(id, translation)).0
        } else {
            translation.virtual_page(MappingId(at.id)).0
        };
        Place { set: self.set(upper, at.line), key: self.key(id, at.line) }
    }

    /// Returns whether the cache holds a line that the processor asks for. Nothing changes.
    pub(crate) fn holds<T: Translation>(&self, at: LineAddr, translation: &T) -> bool {
        let Place { set, key } = self.place_of_mapping(at, translation);
        self.lines.holds(set, key)
    }

    /// Returns whether the cache holds a line that a cache above asks for. Nothing changes.
    #[inline]
    pub(crate) fn holds_requested<T: Translation>(&self, at: LineAddr, translation: &T) -> bool {
        let Place { set, key } = self.place_of_request(at, translation);
        self.lines.holds(set, key)
    }

    /// Returns whether the cache holds a line, named as keys name it. Nothing changes.
    pub(crate) fn holds_line<T: Translation>(&self, at: LineAddr, translation: &T) -> bool {
        self.line_state(at, translation).is_some()
    }

    /// Returns whether a line is dirty, named as keys name it; `None` if the cache does not hold it. Nothing changes.
    pub(crate) fn line_state<T: Translation>(&self, at: LineAddr, translation: &T) -> Option<bool> {
        let key = self.key(at.id, at.line);
        if self.page_hides_set() {
            return self.sets_of_offset(at.line).find_map(|set| self.lines.state(set, key));
        }
        self.lines.state(self.set(self.upper_of_key(at.id, translation), at.line), key)
    }

    /// Returns every line with this number within its page, named as keys name it, and whether it is dirty. Nothing
    /// changes.
    pub(crate) fn lines_with_number(&self, line: u32) -> impl Iterator<Item = (LineAddr, bool)> + '_ {
        let words = self.sets_of_offset(line).flat_map(|set| self.lines.ways(set).into_owned());
        let held = words.map(Word).filter(|word| word.0 != EMPTY);
        let named = held.map(|word| (self.line_of(word.key()), word.dirty()));
        named.filter(move |(at, _)| at.line == line)
    }

    /// Returns whether the page in a key does not tell which virtual page chose the set.
    fn page_hides_set(&self) -> bool {
        self.index == Index::VirtualPage && !self.keyed_by_mapping
    }

    /// Returns the place of a line that a cache above asks for.
    #[inline(always)]
    pub(crate) fn place_of_request<T: Translation>(&self, at: LineAddr, translation: &T) -> Place {
        if self.takes_mapping {
            return self.place_of_mapping(at, translation);
        }
        let upper = self.upper_of_key(at.id, translation);
        Place { set: self.set(upper, at.line), key: self.key(at.id, at.line) }
    }

    /// Returns the number that, together with the offset, chooses the set of a line. The line is named as keys name it.
    #[inline(always)]
    fn upper_of_key<T: Translation>(&self, id: u32, translation: &T) -> u64 {
        if self.index_is_offset {
            0
        } else if self.index_is_frame {
            translation.frame(self.page_of_key(id, translation)).0
        } else {
            translation.virtual_page(MappingId(id)).0
        }
    }

    #[inline(always)]
    fn key(&self, id: u32, line: u32) -> u64 {
        u64::from(id) << self.page_lines_log2 | u64::from(line)
    }

    /// Returns the line that a key names.
    #[inline]
    pub(crate) fn line_of(&self, key: u64) -> LineAddr {
        self.names().line_of(key)
    }

    /// Returns the names of the cache's keys as a value that does not borrow the cache.
    #[inline]
    pub(crate) fn names(&self) -> KeyNames {
        KeyNames { page_lines_log2: self.page_lines_log2 }
    }

    #[inline(always)]
    fn page_of_key<T: Translation>(&self, id: u32, translation: &T) -> PageId {
        if self.keyed_by_mapping { translation.page(MappingId(id)) } else { PageId(id) }
    }

    /// Returns the set of line `line` of the page that `upper` numbers. The low bits of the line's number are
    /// the index. A hashed index is the exclusive or of all pieces of the line's number that are as wide as
    /// the index.
    #[inline(always)]
    pub(crate) fn set(&self, upper: u64, line: u32) -> usize {
        let block = upper << self.page_lines_log2 | u64::from(line);
        if !self.hashed || self.sets_log2 == 0 {
            return (block & self.set_mask) as usize;
        }
        fold(block, self.sets_log2)
    }

    /// Returns the sets that may hold a line of the page, by whatever virtual page the line was reached.
    fn sets_of_offset(&self, line: u32) -> impl Iterator<Item = usize> + use<> {
        let sets = 1usize << self.sets_log2;
        let (first, step) = if self.hashed {
            (0, 1)
        } else {
            (line as usize & (sets - 1), 1usize.checked_shl(self.page_lines_log2).unwrap_or(usize::MAX))
        };
        (first..sets).step_by(step)
    }

    /// Returns the counts of an agent other than the user.
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses.
    #[inline]
    pub(crate) fn of(&mut self, agent: Agent) -> &mut AgentCounters {
        let place = self.agents.place(agent).expect("the tree lists every agent that makes accesses");
        &mut self.by_agent[place]
    }

    /// Counts an access.
    #[inline]
    pub(crate) fn count_access(&mut self, agent: Agent, kind: Kind) {
        if agent == Agent::User {
            self.counters.accesses[kind] += 1;
        } else {
            self.of(agent).accesses[kind] += 1;
        }
    }

    /// Counts a request to the level behind.
    #[inline]
    pub(crate) fn count_sent(&mut self, agent: Agent, kind: Kind) {
        if agent == Agent::User {
            self.counters.sent[kind] += 1;
        } else {
            self.of(agent).sent[kind] += 1;
        }
    }

    /// Counts a miss.
    #[inline]
    pub(crate) fn count_miss<T: Translation>(&mut self, agent: Agent, kind: Kind, key: u64, translation: &T) {
        let mut bit = key;
        if self.keyed_by_mapping && self.counts_compulsory {
            let at = self.line_of(key);
            bit = self.key(translation.page(MappingId(at.id)).0, at.line);
        }
        let first = self.counts_compulsory && is_first(&mut self.touched, bit);
        if agent == Agent::User {
            self.counters.misses[kind] += 1;
            self.counters.compulsory[kind] += u64::from(first);
        } else {
            let own = self.of(agent);
            own.misses[kind] += 1;
            own.compulsory[kind] += u64::from(first);
        }
        if !first && kind.is_demand() && agent.counts_in_mpi() {
            note_repeat(&mut self.repeats, bit >> self.page_lines_log2);
        }
    }

    /// Returns the name under which the level behind knows a line of this cache.
    #[inline]
    pub(crate) fn name_behind<T: Translation>(&self, key: u64, translation: &T) -> LineAddr {
        let at = self.line_of(key);
        let id = if self.sends_page_of_mapping { translation.page(MappingId(at.id)).0 } else { at.id };
        LineAddr { id, line: at.line >> (self.next_unit - self.line_log2) }
    }

    /// Returns, in order, the lines in `lines` that the cache may hold of a mapping or page, named as keys name it.
    ///
    /// The lines of a page may lie in adjacent sets. Then the words of these sets tell which lines are there.
    /// Reading the words costs a fraction of a search for each line.
    pub(crate) fn may_hold<T: Translation>(&self, id: u32, lines: Range<u32>, translation: &T) -> Vec<u32> {
        let set_is_known = !self.page_hides_set();
        let sets = 1 << self.sets_log2;
        let (in_page, asked) = (1u64 << self.page_lines_log2, u64::from(lines.end - lines.start));
        let searched = if self.hashed || !set_is_known || asked == 0 {
            return lines.collect();
        } else if in_page <= sets {
            let first = self.set(self.upper_of_key(id, translation), lines.start);
            first..first + asked as usize
        } else if asked >= sets {
            0..sets as usize
        } else {
            return lines.collect();
        };
        let mut held = Vec::new();
        self.lines.each_resident(searched, |word| {
            let (of, line) = (word.key() >> self.page_lines_log2, (word.key() & (in_page - 1)) as u32);
            if of == u64::from(id) && lines.contains(&line) {
                held.push(line);
            }
        });
        held.sort_unstable();
        held
    }

    /// Removes a line of a mapping or page, named as keys name it. Calls `removed` with what was removed.
    pub(crate) fn remove<T: Translation>(
        &mut self,
        at: LineAddr,
        translation: &T,
        mut removed: impl FnMut(&mut CacheCounters, Word),
    ) {
        let key = self.key(at.id, at.line);
        if self.page_hides_set() {
            for set in self.sets_of_offset(at.line) {
                self.lines
                    .remove(set, SelectedLines::Key(key), &mut |word| removed(&mut self.counters, word));
            }
            return;
        }
        let set = self.set(self.upper_of_key(at.id, translation), at.line);
        self.lines.remove(set, SelectedLines::Key(key), &mut |word| removed(&mut self.counters, word));
    }

    /// Makes a line of a mapping or page clean, named as keys name it. Calls `cleaned` if the line was dirty.
    pub(crate) fn clean<T: Translation>(&mut self, at: LineAddr, translation: &T, mut cleaned: impl FnMut()) {
        let key = self.key(at.id, at.line);
        if self.page_hides_set() {
            for set in self.sets_of_offset(at.line) {
                self.lines.clean(set, SelectedLines::Key(key), &mut |_| cleaned());
            }
            return;
        }
        let set = self.set(self.upper_of_key(at.id, translation), at.line);
        self.lines.clean(set, SelectedLines::Key(key), &mut |_| cleaned());
    }

    /// Removes line `line` of a page from a cache that knows mappings only. The copy of each mapping leaves.
    pub(crate) fn remove_by_page<T: Translation>(
        &mut self,
        at: LineAddr,
        translation: &T,
        mut removed: impl FnMut(&mut CacheCounters, Word),
    ) {
        let shift = self.page_lines_log2;
        let offset = (1u64 << shift) - 1;
        for set in self.sets_of_offset(at.line) {
            let selected = |key: u64| {
                key & offset == u64::from(at.line)
                    && translation.page(MappingId((key >> shift) as u32)) == PageId(at.id)
            };
            self.lines.remove(set, SelectedLines::Keys(&selected), &mut |word| {
                removed(&mut self.counters, word);
            });
        }
    }

    /// Removes all lines. Calls `removed` with each line that was removed.
    pub(crate) fn remove_all(&mut self, mut removed: impl FnMut(&mut CacheCounters, Word)) {
        let of = &self.counters;
        if of.fills == of.evictions + of.invalidated + of.purged {
            return; // The cache is empty. The private caches of a process that has been away for long are empty, too.
        }
        for set in 0..1 << self.sets_log2 {
            self.lines.remove(set, SelectedLines::All, &mut |word| removed(&mut self.counters, word));
        }
    }

    /// Returns the source of the upper bits of the set index.
    pub(crate) fn index(&self) -> Index {
        self.index
    }

    /// Returns the logarithm of the number of sets.
    pub(crate) fn sets_log2(&self) -> u32 {
        self.sets_log2
    }

    /// Returns the source of the upper bits of the set index, if the index is not hashed.
    pub(crate) fn plain_index(&self) -> Option<Index> {
        (!self.hashed || self.sets_log2 == 0).then_some(self.index)
    }

    /// Returns the logarithm of the lines in a page, and the mask of the set index.
    pub(crate) fn geometry(&self) -> (u32, u64) {
        (self.page_lines_log2, self.set_mask)
    }

    /// Returns the lines of every set in the order of its ways. LRU orders them by last access and FIFO by arrival, the
    /// latest first.
    pub(crate) fn contents(&self) -> Vec<Vec<Option<Resident>>> {
        let resident = |&word: &u64| {
            let word = Word(word);
            (word.0 != EMPTY).then(|| Resident { at: self.line_of(word.key()), dirty: word.dirty() })
        };
        let set = |set: usize| {
            let ways = self.lines.in_order(set);
            (0..self.ways).map(|way| ways.get(way).and_then(resident)).collect()
        };
        (0..1usize << self.sets_log2).map(set).collect()
    }

    /// Returns how many lines are resident, and how many of them are dirty.
    pub(crate) fn resident(&self) -> (u64, u64) {
        let (mut all, mut dirty) = (0, 0);
        self.lines.each_resident(0..1 << self.sets_log2, |word| {
            all += 1;
            dirty += u64::from(word.dirty());
        });
        (all, dirty)
    }
}

/// Counts a demand miss on a line that was in the cache before, if the cache is watched.
#[inline(always)]
pub(crate) fn note_repeat(repeats: &mut Option<Vec<u64>>, page: u64) {
    if let Some(repeats) = repeats {
        let page = page as usize;
        if page >= repeats.len() {
            repeats.resize((page + 1).next_power_of_two(), 0);
        }
        repeats[page] += 1;
    }
}

/// Returns a hashed index: all bits above the index are folded into it by exclusive or, in pieces as wide as the index.
#[inline(always)]
pub(crate) fn fold(block: u64, sets_log2: u32) -> usize {
    let (mut folded, mut rest) = (0, block);
    while rest != 0 {
        folded ^= rest;
        rest >>= sets_log2;
    }
    (folded & ((1 << sets_log2) - 1)) as usize
}

/// Returns whether a line is accessed for the first time ever, and notes the access.
#[inline(always)]
pub(crate) fn is_first(touched: &mut Vec<u64>, line: u64) -> bool {
    let (word, mask) = ((line / 64) as usize, 1 << (line % 64));
    if word >= touched.len() {
        grow(touched, word);
    }
    let first = touched[word] & mask == 0;
    touched[word] |= mask;
    first
}

/// Makes room for a word. A call costs the loops around it fewer registers than the code.
#[cold]
#[inline(never)]
fn grow(touched: &mut Vec<u64>, word: usize) {
    touched.resize(word + 1, 0);
}
