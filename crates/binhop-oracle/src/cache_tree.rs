//! `CacheTree` is a tree of caches. Its code follows the rules of the specification sentence by sentence.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use binhop_base::{Agent, Kind, MappingId, PageId, PerKind, Rng, Translation};

use crate::cache::{Cache, Config, Name, WriteBuffer};

/// `Request` is what a level asks of the next level.
#[derive(Clone, Copy, Debug)]
struct Request {
    name: Name,
    /// The position of a byte of the line within the page.
    offset: u64,
    kind: Kind,
    /// The bytes of data that the request carries; `None` for the bytes of a store.
    data: Option<u64>,
}

/// The file in which most counts are taken, for the message of a test that finds a count that differs.
pub const COUNTED_IN: &str = file!();

/// `RemovalCause` is the reason why a line left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Another line needed the way.
    Evicted,
    /// An inclusive cache behind lost the line that holds this line.
    Invalidated,
    /// A flush or an invalidation removed the line.
    Flushed,
}

/// `RemovedLine` is a line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovedLine {
    /// The cache.
    pub cache: usize,
    /// The cache's address of the line.
    pub name: Name,
    /// The line's first byte within the page.
    pub offset: u64,
    /// True if the level behind lacked some of the line's data.
    pub dirty: bool,
    /// The reason why the line left.
    pub why: RemovalCause,
}

/// `MovedLine` is a line that came into a cache or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedLine {
    /// The cache, and the name and first byte of a line that came.
    Came(usize, Name, u64),
    /// A line that left.
    Left(RemovedLine),
}

/// `Waiting` is a write in a write buffer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The line's name and first byte.
    line: (Name, u64),
    /// The cycles that the write still needs to drain.
    needs: u64,
}

/// `Buffer` is a write buffer that is stepped cycle by cycle. Its first write drains, and the other writes wait.
#[derive(Clone, Debug, Default)]
struct Buffer {
    writes: VecDeque<Waiting>,
    clock: u64,
}

impl Buffer {
    fn step(&mut self) {
        self.clock += 1;
        if let Some(first) = self.writes.front_mut() {
            first.needs -= 1;
        }
        self.drop_drained();
    }

    fn drop_drained(&mut self) {
        while self.writes.front().is_some_and(|first| first.needs == 0) {
            self.writes.pop_front();
        }
    }

    /// Pushes a write of a line. Returns the cycles that the write waited for room; `None` if it joined another write.
    fn push(&mut self, now: u64, line: (Name, u64), config: WriteBuffer) -> Option<u64> {
        while self.clock < now {
            self.step();
        }
        if config.merge && self.writes.iter().skip(1).any(|write| write.line == line) {
            return None;
        }
        while self.writes.len() == config.entries {
            self.step();
        }
        self.writes.push_back(Waiting { line, needs: config.drain });
        self.drop_drained();
        Some(self.clock - now)
    }
}

/// `StreamBuffer` is a stream buffer: the lines that it holds, in order. It is empty when it has no page.
#[derive(Clone, Debug)]
struct StreamBuffer {
    page: Option<Name>,
    /// The first bytes of the lines within the page.
    lines: VecDeque<u64>,
}

/// `CacheTree` is a whole tree: every cache, and memory at the root.
#[derive(Clone, Debug)]
pub struct CacheTree {
    /// The caches.
    pub caches: Vec<Cache>,
    /// Accesses to memory by kind, of all agents.
    pub memory: PerKind<u64>,
    /// Every count of memory, by the name of the agent, the count and the kind.
    pub memory_counts: BTreeMap<(&'static str, &'static str, &'static str), u64>,
    /// The agent of the access in progress.
    pub agent: Agent,
    /// The processor's clock.
    pub now: u64,
    /// The lines that came and left since a test cleared this list, in order.
    pub moved: Vec<MovedLine>,
    /// The demand misses since a test cleared this list: the cache, the line's name and first byte, and the kind.
    pub missed: Vec<(usize, Name, u64, Kind)>,
    /// The write-backs to memory, and the reads of memory that write-backs caused, since a test cleared this list, in
    /// order: the line's name and first byte, and the kind. Flushes are not in it.
    pub written_back: Vec<(Name, u64, Kind)>,
    /// The level that serves the access in progress: a cache, or memory (`None`).
    served: Option<Option<usize>>,
    page: u64,
    memory_cost: u64,
    add_costs: bool,
    rng: Rng,
    buffers: Vec<Buffer>,
    /// The stream buffers of each cache, the most recently used first.
    streams: Vec<Vec<StreamBuffer>>,
    /// Every (cache, page, line) that was ever accessed.
    seen: BTreeSet<(usize, u32, u64)>,
}

impl CacheTree {
    /// Makes an empty tree, for pages of `page` bytes.
    #[must_use]
    pub fn new(caches: Vec<Config>, page: u64, memory_cost: u64, add_costs: bool, rng: Rng) -> Self {
        let buffers = vec![Buffer::default(); caches.len()];
        let empty = StreamBuffer { page: None, lines: VecDeque::new() };
        let of = |config: &Config| vec![empty.clone(); config.streams.map_or(0, |(buffers, _)| buffers)];
        let streams = caches.iter().map(of).collect();
        let caches = caches.into_iter().enumerate().map(|(i, config)| Cache::new(config, i)).collect();
        let (memory, seen) = (PerKind::default(), BTreeSet::new());
        let (memory_counts, agent) = (BTreeMap::new(), Agent::User);
        Self {
            caches,
            memory,
            memory_counts,
            agent,
            now: 0,
            moved: Vec::new(),
            missed: Vec::new(),
            written_back: Vec::new(),
            served: None,
            page,
            memory_cost,
            add_costs,
            rng,
            buffers,
            streams,
            seen,
        }
    }

    /// Fetches, loads or stores byte `offset` of a mapping for the processor. Returns the cycles that the processor
    /// waits, and the level that served the access: a cache, or memory (`None`).
    pub fn access(
        &mut self,
        cache: usize,
        kind: Kind,
        mapping: u32,
        offset: u64,
        os: &dyn Translation,
    ) -> (u64, Option<usize>) {
        self.ask(cache, kind, Name::Mapping(mapping), offset, false, os)
    }

    /// Asks a cache for the line with this byte on behalf of an agent, as the processor asks the first level. A hit
    /// costs the cache's cycles if `costs` is true. Returns the cycles, and the level that served the access.
    pub fn ask(
        &mut self,
        cache: usize,
        kind: Kind,
        name: Name,
        offset: u64,
        costs: bool,
        os: &dyn Translation,
    ) -> (u64, Option<usize>) {
        let begin = self.now;
        self.served = None;
        let asked = Request { name, offset, kind, data: None };
        let through = self.caches[cache].config.write == "through";
        let allocate = self.caches[cache].config.allocate;
        if self.agent != Agent::User {
            self.caches[cache].count_for(self.agent, "asked", Some(kind), 1);
        }
        let hit = self.look(cache, asked, kind == Kind::Store && !through, os);
        if hit {
            self.serve(Some(cache));
        }
        if costs && (hit || self.add_costs) {
            self.now += self.caches[cache].config.cost;
        }
        // A line from a stream buffer costs what a hit costs.
        let late_cost = if costs && !self.add_costs { self.caches[cache].config.cost } else { 0 };
        if kind == Kind::Store {
            if !hit && allocate && self.bring_in(cache, asked, true, !through, os) {
                self.now += late_cost;
            }
            if through || (!hit && !allocate) {
                self.pass_down(cache, Request { kind: Kind::Write, ..asked }, os);
            }
        } else if !hit && self.bring_in(cache, asked, true, false, os) {
            self.now += late_cost;
        }
        (self.now - begin, self.served.expect("every access is served"))
    }

    /// Asks memory directly on behalf of an agent. Returns the cycles.
    pub fn ask_memory(&mut self, kind: Kind) -> u64 {
        self.count_memory("asked", kind);
        self.count_memory("accesses", kind);
        let cycles = if kind.is_demand() { self.memory_cost } else { 0 };
        self.now += cycles;
        cycles
    }

    fn count_memory(&mut self, name: &'static str, kind: Kind) {
        if name == "accesses" {
            self.memory[kind] += 1;
        }
        *self.memory_counts.entry((self.agent.name(), name, kind.name())).or_default() += 1;
    }

    /// Returns whether a cache has the line with byte `offset` of a mapping. Nothing changes.
    #[must_use]
    pub fn holds(&self, cache: usize, mapping: u32, offset: u64, os: &dyn Translation) -> bool {
        let asked = Request { name: Name::Mapping(mapping), offset, kind: Kind::Load, data: None };
        let (set, name, offset) = self.find(cache, asked, os);
        let mut ways = self.caches[cache].sets[set as usize].iter().flatten();
        ways.any(|line| line.name == name && line.offset == offset)
    }

    /// Notes the level that serves the access: the first level that has the line or takes the data.
    fn serve(&mut self, by: Option<usize>) {
        if self.served.is_none() {
            self.served = Some(by);
        }
    }

    /// Removes the lines of a page whose frame changes hands.
    pub fn flush_page(&mut self, page: u32, os: &dyn Translation) {
        self.invalidate(page, 0..self.page, false, os);
    }

    /// Invalidates every line that holds any of these bytes of a page. If an inclusive cache loses a line, the
    /// caches above it lose every part of this line, too. A dirty line is written to memory,
    /// unless `discard` is set and all bytes of the line are among these bytes.
    pub fn invalidate(&mut self, page: u32, bytes: Range<u64>, discard: bool, os: &dyn Translation) {
        for stream in self.streams.iter_mut().flatten() {
            if !bytes.is_empty() && stream.page.is_some_and(|name| page_of(name, os) == page) {
                (stream.page, stream.lines) = (None, VecDeque::new());
            }
        }
        for number in 0..self.caches.len() {
            let size = self.caches[number].config.line;
            // An inclusive cache behind must not lose a line while a part of that line stays here.
            let behind = (0..self.caches.len())
                .filter(|&behind| self.caches[behind].config.inclusive && self.is_above(number, behind));
            let wide = behind.map(|behind| self.caches[behind].config.line).fold(size, u64::max);
            let holds = |line: &crate::cache::Line| {
                let first = line.offset / wide * wide;
                page_of(line.name, os) == page && (first..first + wide).any(|byte| bytes.contains(&byte))
            };
            let removed = self.caches[number].take_out(&holds);
            for line in removed {
                let all = (line.offset..line.offset + size).all(|byte| bytes.contains(&byte));
                self.caches[number].count("purged", 1);
                self.leave(number, line.name, line.offset, line.dirty, RemovalCause::Flushed);
                if line.dirty {
                    self.caches[number].count("purged.dirty", 1);
                }
                if line.dirty && discard && all {
                    self.caches[number].count_for(self.agent, "discarded", None, 1);
                } else if line.dirty {
                    self.caches[number].count_for(self.agent, "sent", Some(Kind::System), 1);
                    self.count_memory("accesses", Kind::System);
                }
            }
        }
    }

    /// Makes every dirty line clean that holds any of these bytes of a page. The line's data goes to memory.
    pub fn clean(&mut self, page: u32, bytes: Range<u64>, os: &dyn Translation) {
        for number in 0..self.caches.len() {
            let size = self.caches[number].config.line;
            let holds = |line: &crate::cache::Line| {
                page_of(line.name, os) == page
                    && (line.offset..line.offset + size).any(|byte| bytes.contains(&byte))
            };
            for _ in 0..self.caches[number].clean(&holds) {
                self.caches[number].count_for(self.agent, "cleaned", None, 1);
                self.caches[number].count_for(self.agent, "sent", Some(Kind::System), 1);
                self.count_memory("accesses", Kind::System);
            }
        }
    }

    /// Removes all lines of these caches. If a cache is inclusive, the caches above it lose all lines, too.
    pub fn flush_caches(&mut self, caches: &[usize]) {
        for number in 0..self.caches.len() {
            let above =
                |behind: &usize| self.caches[*behind].config.inclusive && self.is_above(number, *behind);
            if !caches.contains(&number) && !caches.iter().any(above) {
                continue;
            }
            for stream in &mut self.streams[number] {
                (stream.page, stream.lines) = (None, VecDeque::new());
            }
            for line in self.caches[number].take_out(&|_| true) {
                self.caches[number].count("purged", 1);
                self.leave(number, line.name, line.offset, line.dirty, RemovalCause::Flushed);
                if line.dirty {
                    self.caches[number].count("purged.dirty", 1);
                    self.caches[number].count_for(self.agent, "sent", Some(Kind::System), 1);
                    self.count_memory("accesses", Kind::System);
                }
            }
        }
    }

    /// Returns the lines that came since a test cleared the list: the cache, the line's name and first byte.
    #[must_use]
    pub fn came(&self) -> Vec<(usize, Name, u64)> {
        let came = |moved: &MovedLine| match *moved {
            MovedLine::Came(cache, name, offset) => Some((cache, name, offset)),
            MovedLine::Left(_) => None,
        };
        self.moved.iter().filter_map(came).collect()
    }

    /// Returns the lines that left since a test cleared the list.
    #[must_use]
    pub fn left(&self) -> Vec<RemovedLine> {
        let left = |moved: &MovedLine| match *moved {
            MovedLine::Left(line) => Some(line),
            MovedLine::Came(..) => None,
        };
        self.moved.iter().filter_map(left).collect()
    }

    fn leave(&mut self, cache: usize, name: Name, offset: u64, dirty: bool, why: RemovalCause) {
        self.moved.push(MovedLine::Left(RemovedLine { cache, name, offset, dirty, why }));
    }

    /// Asks a cache for a line. Counts the access, its miss, and the compulsory miss.
    fn look(&mut self, cache: usize, asked: Request, makes_dirty: bool, os: &dyn Translation) -> bool {
        let (set, name, offset) = self.find(cache, asked, os);
        let first = self.seen.insert((cache, page_of(name, os), offset));
        let agent = self.agent;
        let here = &mut self.caches[cache];
        here.count_for(agent, "accesses", Some(asked.kind), 1);
        let hit = here.access(set, name, offset, makes_dirty);
        if !hit {
            here.count_for(agent, "misses", Some(asked.kind), 1);
            here.count_for(agent, "compulsory", Some(asked.kind), u64::from(first));
            if asked.kind.is_demand() && agent != Agent::Prefetch {
                self.missed.push((cache, name, offset, asked.kind));
            }
        }
        hit
    }

    /// Returns the set, the name and the first byte of the line that is asked for.
    fn find(&self, cache: usize, asked: Request, os: &dyn Translation) -> (u64, Name, u64) {
        let here = &self.caches[cache];
        let (name, offset) = self.line_of(cache, asked, os);
        let page = PageId(page_of(asked.name, os));
        let upper = match (here.config.index, asked.name) {
            ("physical", _) => os.frame(page).0,
            ("virtual", Name::Mapping(mapping)) => os.virtual_page(MappingId(mapping)).0,
            (index, name) => panic!("{index} index, asked for {name:?}"),
        };
        (here.set_of(u128::from(upper) * u128::from(self.page) + u128::from(offset)), name, offset)
    }

    /// Returns the name and the first byte of the line that is asked for.
    fn line_of(&self, cache: usize, asked: Request, os: &dyn Translation) -> (Name, u64) {
        let Config { line, tag, .. } = self.caches[cache].config;
        let name = if tag == "physical" { Name::Page(page_of(asked.name, os)) } else { asked.name };
        (name, asked.offset / line * line)
    }

    /// Brings a line in. Returns whether the line came from a stream buffer.
    fn bring_in(
        &mut self,
        cache: usize,
        asked: Request,
        read: bool,
        dirty: bool,
        os: &dyn Translation,
    ) -> bool {
        let mut from_stream = false;
        let (set, name, offset) = self.find(cache, asked, os);
        let before = self.caches[cache].config.writeback_order == "before-fill";
        if before {
            self.make_room(cache, set, os);
        }
        if read && asked.kind.is_demand() && self.caches[cache].config.streams.is_some() {
            from_stream = self.read_ahead(cache, name, offset, asked.kind, os);
        } else if read {
            let data = Some(self.caches[cache].config.line);
            self.pass_down(cache, Request { name, offset, kind: asked.kind, data }, os);
        }
        if !before {
            self.make_room(cache, set, os);
        }
        self.caches[cache].put(set, name, offset, dirty);
        self.moved.push(MovedLine::Came(cache, name, offset));
        from_stream
    }

    /// Takes a line from the stream buffer that has the line at its head. If no buffer has it there, reads the line
    /// from behind, and begins a new stream in the least recently used buffer. Returns whether the line came from a
    /// buffer.
    fn read_ahead(
        &mut self,
        cache: usize,
        name: Name,
        offset: u64,
        kind: Kind,
        os: &dyn Translation,
    ) -> bool {
        let (_, depth) = self.caches[cache].config.streams.expect("the cache has stream buffers");
        let line = self.caches[cache].config.line;
        let ahead = if kind == Kind::Fetch { Kind::Fetch } else { Kind::Load };
        let at_head =
            |stream: &StreamBuffer| stream.page == Some(name) && stream.lines.front() == Some(&offset);
        let found = self.streams[cache].iter().position(at_head);
        let (used, next) = match found {
            Some(used) => {
                self.serve(Some(cache));
                self.caches[cache].count("stream.hits", 1);
                self.streams[cache][used].lines.pop_front();
                (used, depth..depth + 1)
            }
            None => {
                self.pass_down(cache, Request { name, offset, kind, data: Some(line) }, os);
                let oldest = self.streams[cache].len() - 1;
                self.streams[cache][oldest] = StreamBuffer { page: Some(name), lines: VecDeque::new() };
                (oldest, 1..depth + 1)
            }
        };
        let used = self.streams[cache].remove(used);
        self.streams[cache].insert(0, used);
        for number in next {
            let offset = offset + number * line;
            if offset < self.page {
                self.streams[cache][0].lines.push_back(offset);
                self.prefetch(cache, Request { name, offset, kind: ahead, data: Some(line) }, os);
            }
        }
        found.is_some()
    }

    /// Sends a request for a stream buffer. Nobody waits for it.
    fn prefetch(&mut self, cache: usize, asked: Request, os: &dyn Translation) {
        let (agent, now) = (self.agent, self.now);
        self.agent = Agent::Prefetch;
        self.pass_down(cache, asked, os);
        (self.agent, self.now) = (agent, now);
    }

    fn make_room(&mut self, cache: usize, set: u64, os: &dyn Translation) {
        let Some(victim) = self.caches[cache].make_room(set, self.rng) else { return };
        let bytes = self.caches[cache].config.line;
        let mut dirty = victim.dirty;
        if self.caches[cache].config.inclusive {
            let above = (0..self.caches.len()).filter(|&upper| self.is_above(upper, cache));
            for upper in above.collect::<Vec<_>>() {
                let covered = |line: &crate::cache::Line| {
                    let same = match victim.name {
                        Name::Mapping(_) => line.name == victim.name,
                        Name::Page(page) => page_of(line.name, os) == page,
                    };
                    same && (victim.offset..victim.offset + bytes).contains(&line.offset)
                };
                for line in self.caches[upper].take_out(&covered) {
                    self.leave(upper, line.name, line.offset, line.dirty, RemovalCause::Invalidated);
                    self.caches[upper].count("invalidated", 1);
                    self.caches[upper].count("invalidated.dirty", u64::from(line.dirty));
                    dirty |= line.dirty;
                }
            }
        }
        self.leave(cache, victim.name, victim.offset, dirty, RemovalCause::Evicted);
        if dirty {
            if !victim.dirty {
                self.caches[cache].count("dirtied", 1);
            }
            self.caches[cache].count("evictions.dirty", 1);
            let kind = Kind::Writeback;
            let asked = Request { name: victim.name, offset: victim.offset, kind, data: Some(bytes) };
            self.pass_down(cache, asked, os);
        }
    }

    fn is_above(&self, upper: usize, cache: usize) -> bool {
        match self.caches[upper].config.next {
            Some(next) => next == cache || self.is_above(next, cache),
            None => false,
        }
    }

    /// Sends a request to the level behind.
    fn pass_down(&mut self, cache: usize, asked: Request, os: &dyn Translation) {
        self.caches[cache].count_for(self.agent, "sent", Some(asked.kind), 1);
        let is_data = matches!(asked.kind, Kind::Write | Kind::Writeback);
        let stalls = is_data && self.agent.is_waited_for();
        let buffer = self.caches[cache].config.write_buffer.filter(|buffer| stalls && buffer.stalls);
        if let Some(buffer) = buffer {
            let line = self.line_of(cache, asked, os);
            let stall = self.buffers[cache].push(self.now, line, buffer);
            self.caches[cache].count("write-buffer.merges", u64::from(stall.is_none()));
            let stall = stall.unwrap_or(0);
            self.now += stall;
            self.caches[cache].count("write-buffer.stalls", u64::from(stall > 0));
            self.caches[cache].count("write-buffer.stall-cycles", stall);
        }
        match self.caches[cache].config.next {
            None => {
                self.count_memory("accesses", asked.kind);
                if matches!(asked.kind, Kind::Writeback | Kind::Fill) {
                    self.written_back.push((asked.name, asked.offset, asked.kind));
                }
                if asked.kind.is_demand() || asked.kind == Kind::Write {
                    self.serve(None);
                }
                if asked.kind.is_demand() {
                    self.now += self.memory_cost;
                }
            }
            Some(next) if is_data => self.take_data(next, asked, os),
            Some(next) => self.read(next, asked, os),
        }
    }

    fn read(&mut self, cache: usize, asked: Request, os: &dyn Translation) {
        let hit = self.look(cache, asked, false, os);
        if hit && asked.kind.is_demand() {
            self.serve(Some(cache));
        }
        let from_stream = !hit && self.bring_in(cache, asked, true, false, os);
        if asked.kind.is_demand() && (hit || from_stream || self.add_costs) {
            self.now += self.caches[cache].config.cost;
        }
    }

    fn take_data(&mut self, cache: usize, asked: Request, os: &dyn Translation) {
        let back = self.caches[cache].config.write == "back";
        let allocate = self.caches[cache].config.allocate;
        let hit = self.look(cache, asked, back, os);
        if asked.kind == Kind::Write && (hit || allocate) {
            self.serve(Some(cache));
        }
        if !hit && allocate {
            let whole = asked.data == Some(self.caches[cache].config.line);
            self.bring_in(cache, Request { kind: Kind::Fill, ..asked }, !whole, back, os);
        }
        if !back || (!hit && !allocate) {
            self.pass_down(cache, asked, os);
        }
    }
}

fn page_of(name: Name, os: &dyn Translation) -> u32 {
    match name {
        Name::Mapping(mapping) => os.page(MappingId(mapping)).0,
        Name::Page(page) => page,
    }
}
