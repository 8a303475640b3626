//! `DmaMachine` is a machine with device data, as slow and plain as possible: a front that holds lines, caches that are
//! lists of ways, and memory. Every word of every copy carries a version, so that a stale read or a lost write is seen
//! at once. The front of this file holds whole lines; `dma_parts` puts another front above the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use binhop_base::{Domain, Rng, Stream};

/// The words of a line, however long the line is.
pub const WORDS: usize = 16;

/// `Words` is a version for each word of a line.
pub type Words = [u64; WORDS];

/// `DmaDesign` describes a machine.
#[derive(Clone, Debug)]
pub struct DmaDesign {
    /// The name of the scheme.
    pub scheme: &'static str,
    /// True if device data that enter a cache are also written to memory.
    pub through: bool,
    /// Sets of the last-level cache; 0 under `flush`, where the front is all caches.
    pub sets: u64,
    /// Ways of the last-level cache for the processor's data.
    pub ways: usize,
    /// True if the last-level cache replaces at random, false if it replaces the least recently used line.
    pub random: bool,
    /// Sets of the DMA cache.
    pub io_sets: u64,
    /// Ways of the DMA cache; 0 without a DMA cache.
    pub io_ways: usize,
    /// The lines prefetched behind each line that a device reads.
    pub degree: u64,
    /// Lines of a page.
    pub page: u64,
    /// The ways that writes of devices may fill, under `ddio`.
    pub ddio_ways: usize,
    /// Cycles of an access to the last-level cache.
    pub cycles: u64,
    /// Cycles of an access to the DMA cache: by the processor, and by a device.
    pub io_cycles: [u64; 2],
    /// Cycles of a demand read of memory.
    pub memory: u64,
    /// The number of writes and prefetches that may be under way at once. `None`: memory has room for all of them.
    pub posted: Option<usize>,
    /// The seed.
    pub seed: u64,
}

/// `Op` is what the processor or a device wants to do.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// The processor loads from a line.
    Load(u64),
    /// Another cache of the front reads a line, or another part of it. Nothing happens if the front holds the line
    /// dirty.
    Reload(u64),
    /// The processor stores into a line.
    Store(u64),
    /// The processor stores into a line, and a write-through front passes the store down.
    StoreThrough(u64),
    /// The processor stores a whole line past the front, which gives up its copy.
    StorePast(u64),
    /// The front evicts a line, if it holds it.
    Evict(u64),
    /// The front evicts the last part of a line that it holds clean.
    EvictPart(u64),
    /// A device reads a line.
    DeviceRead(u64),
    /// A device writes a line, or a part of it.
    DeviceWrite(u64, bool),
    /// The frame of a line gets another page.
    ChangeFrame(u64),
}

/// `Tapped` is an event below the front: the name of the event, the line, and a flag that says `store` or `whole`
/// where the event has such a flag.
pub type Tapped = (&'static str, u64, bool);

/// `Reply` is the place that served a reference, and its cycles; `None` for an event that is no reference.
pub type Reply = Option<(&'static str, u64)>;

/// `Held` is a copy of a line in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The number of the line.
    pub line: u64,
    /// The letter of the state: M, O, E or S.
    pub state: char,
    /// True if the line holds device data.
    pub of_device: bool,
    /// True if the line was prefetched and not used since.
    pub prefetched: bool,
    words: Words,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct FrontCopy {
    words: Words,
    dirty: bool,
}

/// `Ways` are the ways of the last-level cache or of the DMA cache, set by set.
type Ways = Vec<Vec<Option<Held>>>;

/// `DmaMachine` holds the copies of all lines, the versions of their data, and the counts.
#[derive(Clone, Debug)]
pub struct DmaMachine {
    design: DmaDesign,
    /// True if the front reports that a store made a clean copy dirty.
    reports_upgrades: bool,
    front: BTreeMap<u64, FrontCopy>,
    /// The lines that the front holds, wholly or in part. The flag is true if the line is tagged as I/O data.
    held: BTreeMap<u64, bool>,
    /// The last-level cache.
    pub last: Ways,
    /// The DMA cache.
    pub io: Ways,
    memory: BTreeMap<u64, Words>,
    newest: BTreeMap<u64, Words>,
    /// Lines that a device produced and the processor has not updated.
    produced: BTreeSet<u64>,
    /// Lines that a device wrote and the processor has not read. The flag is true if the line has left the caches.
    unread: BTreeMap<u64, bool>,
    victims: BTreeMap<u64, u64>,
    time: u64,
    /// Every count, by its name.
    pub counts: BTreeMap<String, u64>,
    /// The class of the present reference.
    class: &'static str,
    waited: u64,
    /// The cycles of all references before this one.
    before: u64,
    /// Every posted request that there ever was: the line, and the cycle at which it is done.
    posted: Vec<(u64, u64)>,
    /// The cycles that the present reference spends in caches. They pass at the end of the reference.
    in_caches: u64,
}

/// All words of a line.
const ALL: Range<usize> = 0..WORDS;
/// The words that a write of a part of a line writes, where the front holds whole lines.
const FIRST: Range<usize> = 0..1;

fn dirty(state: char) -> bool {
    state == 'M' || state == 'O'
}

impl DmaMachine {
    /// Makes a machine with empty caches.
    #[must_use]
    pub fn new(design: DmaDesign, reports_upgrades: bool) -> Self {
        Self {
            last: vec![vec![None; design.ways]; design.sets as usize],
            io: vec![vec![None; design.io_ways]; design.io_sets as usize],
            design,
            reports_upgrades,
            front: BTreeMap::new(),
            held: BTreeMap::new(),
            memory: BTreeMap::new(),
            newest: BTreeMap::new(),
            produced: BTreeSet::new(),
            unread: BTreeMap::new(),
            victims: BTreeMap::new(),
            time: 0,
            counts: BTreeMap::new(),
            class: "cpu-read",
            waited: 0,
            before: 0,
            posted: Vec::new(),
            in_caches: 0,
        }
    }

    fn count(&mut self, name: &str) {
        *self.counts.entry(name.into()).or_default() += 1;
    }

    /// Returns the newest version of every word of a line.
    pub(crate) fn newest(&self, line: u64) -> Words {
        self.newest.get(&line).copied().unwrap_or_default()
    }

    /// Makes the next version of some words of a line out of the versions that the writer has.
    fn write(&mut self, line: u64, base: Words, written: Range<usize>) -> Words {
        assert_eq!(base, self.newest(line), "line {line} is written on top of stale data");
        self.write_newest(line, written)
    }

    /// Makes the next version of some words of a line, whose other words are the newest.
    pub(crate) fn write_newest(&mut self, line: u64, written: Range<usize>) -> Words {
        let mut words = self.newest(line);
        words[written].iter_mut().for_each(|version| *version += 1);
        self.newest.insert(line, words);
        words
    }

    fn check_fresh(&self, line: u64, words: Words, who: &str) {
        assert_eq!(words, self.newest(line), "{who} reads stale data of line {line}");
    }

    /// Does what the processor or a device wants. Returns the events below the front with their replies.
    pub fn step(&mut self, op: Op) -> Vec<(Tapped, Reply)> {
        let mut seen = Vec::new();
        match op {
            Op::Load(line) => {
                if !self.front.contains_key(&line) {
                    seen.push((("read", line, false), self.read_into_front(line, false)));
                }
                self.check_fresh(line, self.front[&line].words, "the processor");
            }
            Op::Reload(line) => {
                if !self.front.get(&line).is_some_and(|copy| copy.dirty) {
                    seen.push((("read", line, false), self.read_into_front(line, false)));
                }
            }
            Op::Store(line) => match self.front.get(&line).copied() {
                None => {
                    seen.push((("read", line, true), self.read_into_front(line, true)));
                    self.store_in_front(line);
                }
                Some(copy) => {
                    self.store_in_front(line);
                    if self.reports_upgrades && !copy.dirty {
                        self.upgrade(line);
                        seen.push((("upgrade", line, false), None));
                    }
                }
            },
            Op::StoreThrough(line) => {
                if !self.front.get(&line).is_some_and(|copy| copy.dirty) {
                    let words = self.write_newest(line, FIRST);
                    if let Some(copy) = self.front.get_mut(&line) {
                        copy.words = words;
                    }
                    seen.push((("partial store", line, false), self.partial_store(line, FIRST, &words)));
                }
            }
            Op::StorePast(line) => {
                let words = self.write_newest(line, ALL);
                self.front.remove(&line);
                seen.push((("write back", line, false), self.cpu_write(line, true, words)));
            }
            Op::Evict(line) => match self.front.get(&line).copied() {
                Some(copy) if copy.dirty => {
                    self.front.remove(&line);
                    seen.push((("write back", line, false), self.cpu_write(line, true, copy.words)));
                }
                Some(copy) => {
                    self.front.remove(&line);
                    self.clean_eviction(line, Some(copy.words));
                    seen.push((("clean eviction", line, true), None));
                }
                None => {}
            },
            Op::EvictPart(line) => {
                if self.front.get(&line).is_some_and(|copy| !copy.dirty) {
                    self.front.remove(&line);
                    self.clean_eviction(line, None);
                    seen.push((("clean eviction", line, false), None));
                }
            }
            Op::DeviceRead(line) => {
                self.flush_page(line, &mut seen);
                if let Some(copy) = self.front.get_mut(&line).filter(|copy| copy.dirty) {
                    copy.dirty = false;
                    let words = copy.words;
                    seen.push((("cleaned", line, false), self.cpu_write(line, false, words)));
                }
                seen.push((("device read", line, false), self.device_read(line)));
            }
            Op::DeviceWrite(line, whole) => {
                self.flush_page(line, &mut seen);
                let copy = self.front.remove(&line);
                if let Some(copy) = copy.filter(|copy| copy.dirty && !whole) {
                    seen.push((("write back", line, false), self.cpu_write(line, true, copy.words)));
                }
                let written = if whole { ALL } else { FIRST };
                seen.push((("device write", line, whole), self.device_write(line, written)));
            }
            Op::ChangeFrame(line) => {
                let first = line / self.design.page * self.design.page;
                let lines = first..first + self.design.page;
                let mut written = Vec::new();
                for line in lines.clone() {
                    written.extend(self.front.remove(&line).filter(|copy| copy.dirty).map(|_| line));
                    self.flushed(line);
                    seen.push((("flushed", line, false), None));
                }
                for line in written {
                    self.system_write(line);
                    seen.push((("system write", line, false), None));
                }
                lines.for_each(|line| self.take_other_data(line));
            }
        }
        seen
    }

    /// The frame of a line changes hands: every copy leaves the caches below the front, and dirty data go to memory. A
    /// line that a device wrote and nobody has read is never read.
    pub(crate) fn flushed(&mut self, line: u64) {
        self.class = "cpu-write";
        self.held.remove(&line);
        for (io, name) in [(false, "last"), (true, "io")] {
            let Some(held) = self.lose(io, line, "purged") else { continue };
            self.departs(held);
            if dirty(held.state) {
                self.count(&format!("{name} purged dirty"));
                self.count("system writes");
                self.write_memory(line, held.words);
                self.pass();
            }
        }
        self.produced.remove(&line);
        if self.unread.remove(&line).is_some() {
            self.count("purged unread");
        }
    }

    /// The operating system writes dirty data of the front to memory, after [`Self::flushed`].
    pub(crate) fn system_write(&mut self, line: u64) {
        self.class = "cpu-write";
        self.count("system writes");
        self.write_memory(line, self.newest(line));
        self.pass();
    }

    /// The frame of a line has another page from now on, so every older copy of the line is stale.
    pub(crate) fn take_other_data(&mut self, line: u64) {
        let words = self.write_newest(line, ALL);
        self.memory.insert(line, words);
    }

    /// Under `flush`, the lines of a page leave the front before a device reads or writes one of them.
    fn flush_page(&mut self, line: u64, seen: &mut Vec<(Tapped, Reply)>) {
        if self.design.scheme != "flush" {
            return;
        }
        let first = line / self.design.page * self.design.page;
        for line in first..first + self.design.page {
            seen.extend(self.step(Op::Evict(line)));
        }
    }

    fn store_in_front(&mut self, line: u64) {
        let words = self.write(line, self.front[&line].words, FIRST);
        self.front.insert(line, FrontCopy { words, dirty: true });
    }

    fn read_into_front(&mut self, line: u64, store: bool) -> Reply {
        let (reply, words) = self.cpu_read(line, store);
        self.check_fresh(line, words, "the front");
        self.front.insert(line, FrontCopy { words, dirty: false });
        reply
    }

    /// Notes that the front's copy of a line is not tagged.
    fn drop_tag(&mut self, line: u64) {
        if let Some(tagged) = self.held.get_mut(&line) {
            *tagged = false;
        }
    }

    fn upgrade(&mut self, line: u64) {
        self.produced.remove(&line);
        self.drop_tag(line);
        self.lose(true, line, "invalidated");
    }

    /// Returns the time of memory.
    fn now(&self) -> u64 {
        self.before + self.waited
    }

    /// Makes a posted request, and waits for room.
    fn post(&mut self, line: u64) {
        let Some(places) = self.design.posted else { return };
        let under_way = |machine: &Self| -> Vec<u64> {
            machine.posted.iter().map(|&(_, done)| done).filter(|&done| done > machine.now()).collect()
        };
        while under_way(self).len() >= places {
            let first = under_way(self).into_iter().min().expect("the queue has a place");
            self.waited += first - self.now();
        }
        self.posted.push((line, self.now() + self.design.memory));
    }

    /// Waits for the posted requests of a line.
    fn wait_for(&mut self, line: u64) {
        while let Some(&(_, done)) = self.posted.iter().find(|&&(of, done)| of == line && done > self.now()) {
            self.waited += done - self.now();
        }
    }

    /// Counts the cycles of a reference, which waited for memory and for caches, and lets this time pass.
    fn pass(&mut self) -> u64 {
        let cycles = self.waited + self.in_caches;
        *self.counts.entry(format!("{} cycles", self.class)).or_default() += cycles;
        self.before += cycles;
        (self.waited, self.in_caches) = (0, 0);
        cycles
    }

    fn begin(&mut self, class: &'static str) {
        self.class = class;
        self.count(&format!("{class} references"));
    }

    fn end(&mut self, served: &'static str, hit: bool) -> Reply {
        if hit {
            self.count(&format!("{} {served} hits", self.class));
        }
        Some((served, self.pass()))
    }

    fn in_memory(&self, line: u64) -> Words {
        self.memory.get(&line).copied().unwrap_or_default()
    }

    fn read_memory(&mut self, line: u64) -> Words {
        self.wait_for(line);
        self.waited += self.design.memory;
        self.count(&format!("{} memory reads", self.class));
        self.in_memory(line)
    }

    fn prefetch(&mut self, line: u64) -> Words {
        self.post(line);
        self.count(&format!("{} memory reads", self.class));
        self.count("prefetches");
        self.in_memory(line)
    }

    fn write_memory(&mut self, line: u64, words: Words) {
        self.post(line);
        self.count(&format!("{} memory writes", self.class));
        let before = self.memory.insert(line, words).unwrap_or_default();
        let goes_back = before.iter().zip(&words).any(|(before, version)| before > version);
        assert!(!goes_back, "memory goes back to an older version of line {line}");
    }

    fn cache(&mut self, io: bool) -> &mut Ways {
        if io { &mut self.io } else { &mut self.last }
    }

    fn set_of(&self, io: bool, line: u64) -> usize {
        (line % if io { self.design.io_sets } else { self.design.sets }) as usize
    }

    fn find(&mut self, io: bool, line: u64) -> Option<&mut Held> {
        if (if io { self.design.io_sets } else { self.design.sets }) == 0 {
            return None;
        }
        let set = self.set_of(io, line);
        self.cache(io)[set].iter_mut().flatten().find(|held| held.line == line)
    }

    /// Takes a copy out of a cache; nothing is written.
    fn lose(&mut self, io: bool, line: u64, why: &str) -> Option<Held> {
        let held = *self.find(io, line)?;
        let set = self.set_of(io, line);
        for way in &mut self.cache(io)[set] {
            if way.is_some_and(|held| held.line == line) {
                *way = None;
            }
        }
        self.count(&format!("{} {why}", if io { "io" } else { "last" }));
        Some(held)
    }

    /// Uses a line, and returns its words.
    fn touch(&mut self, io: bool, line: u64, reads: bool) -> Words {
        self.time += 1;
        let time = self.time;
        let held = self.find(io, line).expect("the line is here");
        held.used = time;
        let first = std::mem::take(&mut held.prefetched);
        let words = held.words;
        if first {
            self.wait_for(line);
        }
        if first && reads {
            self.count("prefetches used");
        }
        words
    }

    /// Counts a line of device data that leaves the caches before the processor has read it.
    fn departs(&mut self, held: Held) {
        if held.of_device && self.unread.get(&held.line) == Some(&false) {
            self.unread.insert(held.line, true);
            self.count("evicted unread");
        }
    }

    fn fill(&mut self, io: bool, line: u64, words: Words, state: char, device: bool, prefetched: bool) {
        let set = self.set_of(io, line);
        let ddio = self.design.scheme == "ddio" && device;
        let among = match (io, ddio) {
            (true, _) => self.design.io_ways,
            (false, true) => self.design.ddio_ways,
            (false, false) => self.design.ways,
        };
        let ways = self.cache(io)[set][..among].to_vec();
        let way = if let Some(empty) = ways.iter().position(Option::is_none) {
            empty
        } else if io {
            let clean = (0..among).filter(|&way| !dirty(ways[way].expect("the line is here").state));
            let least = |ways_of: &mut dyn Iterator<Item = usize>| {
                ways_of.min_by_key(|&way| ways[way].expect("the line is here").used)
            };
            least(&mut clean.into_iter()).or_else(|| least(&mut (0..among))).expect("the line is here")
        } else if self.design.random {
            let number = self.victims.entry(set as u64).or_default();
            let stream = Stream::new(Domain::Victim, set as u64);
            let way = Rng::new(self.design.seed).below(stream, *number, among as u64) as usize;
            *number += 1;
            way
        } else {
            (0..among).min_by_key(|&way| ways[way].expect("the line is here").used).expect("a set has a way")
        };
        if let Some(victim) = ways[way] {
            self.count(if io { "io evictions" } else { "last evictions" });
            if victim.of_device != device {
                self.count(if device { "cpu lines evicted" } else { "device lines evicted" });
            }
            self.departs(victim);
            if dirty(victim.state) {
                if self.class == "dma-write" {
                    self.count("replaced dirty");
                }
                self.write_memory(victim.line, victim.words);
                if io {
                    self.drop_tag(victim.line);
                }
            }
        }
        self.time += 1;
        let used = self.time;
        self.count(if io { "io fills" } else { "last fills" });
        self.cache(io)[set][way] = Some(Held { line, state, of_device: device, prefetched, words, used });
    }

    /// The front reads a line, and holds it from then on. Returns what it reads.
    pub(crate) fn cpu_read(&mut self, line: u64, store: bool) -> (Reply, Words) {
        self.begin("cpu-read");
        let (served, words) = if self.find(false, line).is_some() {
            self.in_caches += self.design.cycles;
            ("last level", self.touch(false, line, true))
        } else if let Some(held) = self.find(true, line).copied() {
            self.in_caches += self.design.io_cycles[0];
            let words = self.touch(true, line, true);
            if store {
                self.lose(true, line, "invalidated");
            } else {
                self.find(true, line).expect("the line is here").state =
                    if dirty(held.state) { 'O' } else { 'S' };
            }
            ("dma cache", words)
        } else if self.design.scheme == "flush" {
            ("memory", self.read_memory(line))
        } else {
            self.in_caches += self.design.cycles;
            let words = self.read_memory(line);
            self.fill(false, line, words, 'E', false, false);
            ("memory", words)
        };
        if self.produced.contains(&line) {
            self.count("io accesses");
            if served != "memory" {
                self.count("io hits");
            }
        }
        if let Some(evicted) = self.unread.remove(&line) {
            let after = if served == "memory" && evicted { " after eviction" } else { "" };
            self.count(&format!("read from {served}{after}"));
        }
        if store {
            self.produced.remove(&line);
        }
        let tagged = served == "dma cache" && !store;
        self.held.insert(line, tagged);
        (self.end(served, served != "memory"), words)
    }

    fn updated(&mut self, line: u64) {
        self.produced.remove(&line);
        if self.unread.remove(&line).is_some() {
            self.count("overwritten by cpu");
        }
    }

    fn put_into_last(&mut self, line: u64, words: Words) -> bool {
        self.in_caches += self.design.cycles;
        if self.find(false, line).is_some() {
            self.touch(false, line, false);
            let held = self.find(false, line).expect("the line is here");
            (held.state, held.words, held.of_device) = ('M', words, false);
            return true;
        }
        self.fill(false, line, words, 'M', false, false);
        false
    }

    /// The front passes a whole line down. If `leaves`, it does not hold the line any more.
    pub(crate) fn cpu_write(&mut self, line: u64, leaves: bool, words: Words) -> Reply {
        self.begin("cpu-write");
        self.updated(line);
        self.lose(true, line, "invalidated");
        self.drop_tag(line);
        if leaves {
            self.held.remove(&line);
        }
        if self.design.scheme == "flush" {
            self.write_memory(line, words);
            return self.end("memory", false);
        }
        let hit = self.put_into_last(line, words);
        self.end("last level", hit)
    }

    /// The front passes some words of a line down.
    pub(crate) fn partial_store(&mut self, line: u64, stored: Range<usize>, words: &Words) -> Reply {
        self.begin("cpu-write");
        self.updated(line);
        let mut base = if self.design.scheme == "flush" {
            self.in_memory(line)
        } else if let Some(held) = self.lose(true, line, "invalidated") {
            held.words
        } else if let Some(held) = self.find(false, line) {
            held.words
        } else {
            self.read_memory(line)
        };
        base[stored.clone()].copy_from_slice(&words[stored]);
        if self.design.scheme == "flush" {
            self.write_memory(line, base);
            return self.end("memory", false);
        }
        self.drop_tag(line);
        let hit = self.put_into_last(line, base);
        self.end("last level", hit)
    }

    /// The last clean copy of a line leaves the front. `whole` has its words, if a whole line leaves and not a part. If
    /// the line is tagged, it comes back to the DMA cache. A part is not enough for a line of the DMA cache.
    pub(crate) fn clean_eviction(&mut self, line: u64, whole: Option<Words>) {
        let is_tagged = self.held.remove(&line) == Some(true);
        let Some(words) = whole.filter(|_| is_tagged) else { return };
        self.class = "cpu-write";
        if let Some(held) = self.find(true, line) {
            assert_eq!(held.words, words);
        } else {
            self.fill(true, line, words, 'S', true, false);
            self.pass();
        }
    }

    /// A device reads a line, of which the front holds no dirty part.
    pub(crate) fn device_read(&mut self, line: u64) -> Reply {
        self.begin("dma-read");
        self.count("io accesses");
        let (served, words) = match self.design.scheme {
            "flush" => ("memory", self.read_memory(line)),
            "off" | "snooping-cache" | "prefetch-hint" => {
                if let Some(held) = self.find(false, line).copied() {
                    if dirty(held.state) {
                        self.write_memory(line, held.words);
                    }
                    if self.design.scheme == "off" {
                        self.lose(false, line, "flushed");
                        self.departs_from_count(held);
                    } else if held.state == 'M' {
                        self.find(false, line).expect("the line is here").state = 'E';
                    }
                }
                ("memory", self.read_memory(line))
            }
            "shared-cache" | "ddio" => {
                self.in_caches += self.design.cycles;
                if self.find(false, line).is_some() {
                    ("last level", self.touch(false, line, true))
                } else {
                    let words = self.read_memory(line);
                    if self.design.scheme == "shared-cache" {
                        self.fill(false, line, words, 'E', true, false);
                    }
                    ("memory", words)
                }
            }
            _ => self.device_read_separated(line),
        };
        self.check_fresh(line, words, "a device");
        if served != "memory" {
            self.count("io hits");
        }
        self.end(served, served != "memory")
    }

    /// Checks that `off` keeps no device data in the caches, so that no such data leave unread.
    fn departs_from_count(&self, held: Held) {
        assert!(!held.of_device);
    }

    fn device_read_separated(&mut self, line: u64) -> (&'static str, Words) {
        let found = if let Some(held) = self.find(false, line).copied() {
            self.in_caches += self.design.cycles;
            let words = self.touch(false, line, true);
            self.find(false, line).expect("the line is here").state =
                if dirty(held.state) { 'O' } else { 'S' };
            ("last level", words)
        } else {
            self.in_caches += self.design.io_cycles[1];
            if self.find(true, line).is_some() {
                ("dma cache", self.touch(true, line, true))
            } else {
                let words = self.read_memory(line);
                let state = if self.held.contains_key(&line) { 'S' } else { 'E' };
                self.fill(true, line, words, state, true, false);
                ("memory", words)
            }
        };
        for next in line + 1..=line + self.design.degree {
            let elsewhere = self.held.contains_key(&next)
                || self.find(false, next).is_some()
                || self.find(true, next).is_some();
            if next / self.design.page == line / self.design.page && !elsewhere {
                let words = self.prefetch(next);
                self.fill(true, next, words, 'E', true, true);
            }
        }
        found
    }

    /// A device writes some words of a line. The front holds no copy from then on.
    pub(crate) fn device_write(&mut self, line: u64, written: Range<usize>) -> Reply {
        let whole = written == ALL;
        self.held.remove(&line);
        self.begin("dma-write");
        for name in ["io accesses", "written"] {
            self.count(name);
        }
        self.produced.insert(line);
        if self.unread.insert(line, false).is_some() {
            self.count("overwritten by device");
        }
        let (served, hit) = match self.design.scheme {
            "flush" => {
                let words = self.new_device_version(line, written, self.in_memory(line));
                self.write_memory(line, words);
                ("memory", false)
            }
            "off" | "snooping-cache" | "prefetch-hint" => {
                let held = self.lose(false, line, "invalidated");
                if let Some(held) = held.filter(|held| dirty(held.state) && !whole) {
                    self.write_memory(line, held.words);
                }
                let words = self.new_device_version(line, written, self.in_memory(line));
                self.write_memory(line, words);
                if self.design.scheme == "prefetch-hint" {
                    self.prefetch(line);
                    self.fill(false, line, words, 'E', true, true);
                }
                ("memory", false)
            }
            "shared-cache" | "ddio" => {
                self.in_caches += self.design.cycles;
                ("last level", self.device_write_into(false, line, written, None))
            }
            _ => {
                self.in_caches += self.design.io_cycles[1];
                let base = self.lose(false, line, "invalidated").map(|held| held.words);
                ("dma cache", self.device_write_into(true, line, written, base))
            }
        };
        if hit {
            self.count("io hits");
        }
        self.end(served, hit)
    }

    /// Makes the next version of some words of a line. `base` has the other words.
    fn new_device_version(&mut self, line: u64, written: Range<usize>, mut base: Words) -> Words {
        base[written.clone()].copy_from_slice(&self.newest(line)[written.clone()]);
        self.write(line, base, written)
    }

    /// A device writes into a cache. `other` is the version that another cache supplied.
    fn device_write_into(
        &mut self,
        io: bool,
        line: u64,
        written: Range<usize>,
        other: Option<Words>,
    ) -> bool {
        let through = self.design.through;
        let state = if through { 'E' } else { 'M' };
        let held = self.find(io, line).copied();
        let base = match held.map(|held| held.words).or(other) {
            Some(words) => words,
            None if written == ALL => Words::default(),
            None => self.read_memory(line),
        };
        let words = self.new_device_version(line, written, base);
        if let Some(held) = held {
            if through && dirty(held.state) {
                // A dirty line of the processor leaves, and enters as device data.
                self.lose(io, line, "invalidated");
                self.fill(io, line, words, state, true, false);
            } else {
                self.touch(io, line, false);
                let held = self.find(io, line).expect("the line is here");
                (held.state, held.words, held.of_device) = (state, words, true);
            }
        }
        if through {
            self.write_memory(line, words);
        }
        if held.is_none() {
            self.fill(io, line, words, state, true, false);
        }
        held.is_some()
    }

    /// Checks that the newest version of every line is where it must be: no clean copy differs from memory or its
    /// owner, and the newest version is in the front, in the owner, or else in memory.
    ///
    /// # Panics
    /// Data were lost.
    pub fn check_nothing_is_lost(&mut self) {
        for (line, newest) in self.newest.clone() {
            if let Some(copy) = self.front.get(&line).copied() {
                assert_eq!(copy.words, newest, "the front's copy of line {line} is stale");
                if copy.dirty {
                    continue;
                }
            }
            self.check_below(line, ALL);
        }
    }

    /// Returns the lines that the front holds, wholly or in part.
    pub(crate) fn held_lines(&self) -> BTreeSet<u64> {
        self.held.keys().copied().collect()
    }

    /// Returns every line that was written.
    pub(crate) fn lines(&self) -> Vec<u64> {
        self.newest.keys().copied().collect()
    }

    /// Checks that the newest version of some words of a line is below the front.
    pub(crate) fn check_below(&mut self, line: u64, words: Range<usize>) {
        let newest = &self.newest(line)[words.clone()];
        let copies = [self.find(false, line).copied(), self.find(true, line).copied()];
        assert!(copies[0].is_none() || copies[1].is_none(), "line {line} is in both caches");
        let copy = copies.into_iter().flatten().next();
        if let Some(copy) = copy {
            assert_eq!(&copy.words[words.clone()], newest, "a cache's copy of line {line} is stale");
        }
        if !copy.is_some_and(|copy| dirty(copy.state)) {
            assert_eq!(&self.in_memory(line)[words], newest, "line {line} is lost");
        }
    }

    /// Gives the last-level cache other ways. `moves` has a list for the processor's ways and a list for the I/O
    /// ways. Each list names, for each new way, the old way that it continues, if any. The lines of the old ways
    /// that no new way continues are flushed. Returns the number of dirty lines written.
    pub fn regroup(&mut self, moves: [Vec<Option<usize>>; 2]) -> u64 {
        let mut written = 0;
        for (io, kept) in [(false, &moves[0]), (true, &moves[1])] {
            self.class = if io { "dma-write" } else { "cpu-write" };
            let old = self.cache(io).clone();
            for held in old.iter().flat_map(|set| {
                let leaves = |&(way, _): &(usize, &Option<Held>)| !kept.contains(&Some(way));
                set.iter().enumerate().filter(leaves).filter_map(|(_, held)| *held)
            }) {
                self.lose(io, held.line, "flushed");
                if io {
                    self.departs(held);
                }
                if dirty(held.state) {
                    self.write_memory(held.line, held.words);
                    self.pass();
                    written += 1;
                    if io {
                        self.drop_tag(held.line);
                    }
                }
            }
            let new = old.iter().map(|set| kept.iter().map(|from| from.and_then(|from| set[from])).collect());
            *self.cache(io) = new.collect();
        }
        (self.design.ways, self.design.io_ways) = (moves[0].len(), moves[1].len());
        written
    }
}
