//! `Cache` is one cache, as the textbook draws it: sets of ways. A way is empty, or holds a line with the times of its
//! arrival and of its last use. Nothing is packed, and nothing is stored that can be looked up.

use std::collections::BTreeMap;

use binhop_base::{Agent, Domain, Kind, Rng, Stream};

/// `Config` describes a cache. Choices have the names that they have in a machine file.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of sets.
    pub sets: u64,
    /// Ways of each set.
    pub ways: usize,
    /// Bytes of a line.
    pub line: u64,
    /// `virtual` or `physical`.
    pub index: &'static str,
    /// True if upper bits are folded into the index.
    pub hashed: bool,
    /// `physical`, `asid` or `global`.
    pub tag: &'static str,
    /// `back` or `through`.
    pub write: &'static str,
    /// True if writes that miss allocate.
    pub allocate: bool,
    /// The name of a replacement that `victim` has a rule for.
    pub replacement: &'static str,
    /// `before-fill` or `after-fill`.
    pub writeback_order: &'static str,
    /// True if a line that the cache evicts leaves the caches above it, too.
    pub inclusive: bool,
    /// The write buffer.
    pub write_buffer: Option<WriteBuffer>,
    /// The number of stream buffers, and the lines that each holds.
    pub streams: Option<(usize, u64)>,
    /// Cycles of a demand access that this cache serves.
    pub cost: u64,
    /// The cache behind; `None` is memory.
    pub next: Option<usize>,
}

/// `WriteBuffer` describes a write buffer.
#[derive(Clone, Copy, Debug)]
pub struct WriteBuffer {
    /// The writes that it holds.
    pub entries: usize,
    /// The cycles in which a write drains.
    pub drain: u64,
    /// True if a write joins a write to the same line whose drain has not begun.
    pub merge: bool,
    /// False if the processor never waits for room.
    pub stalls: bool,
}

/// `Name` names a line by its mapping, which leads to one page, or by its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A mapping.
    Mapping(u32),
    /// A page.
    Page(u32),
}

/// `Line` is a line in a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name by which the cache recognises the line, together with `offset`.
    pub name: Name,
    /// First byte within the page.
    pub offset: u64,
    /// True if the level behind lacks some of the line's data.
    pub dirty: bool,
    /// The time at which the line arrived.
    pub arrived: u64,
    /// The time of the last access to the line.
    pub used: u64,
    /// The line's re-reference prediction value, for SRRIP.
    pub predicted: u32,
}

/// `Cache` holds the lines and the counts of a cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The description of the cache.
    pub config: Config,
    /// The place of the cache in the tree.
    pub number: usize,
    /// For each set, its ways.
    pub sets: Vec<Vec<Option<Line>>>,
    /// Every count, by the name of the agent, the count and the kind. A count that belongs to no agent stands
    /// under the user.
    pub counts: BTreeMap<(&'static str, &'static str, Option<&'static str>), u64>,
    /// Bits of the PLRU trees: (set, first way, number of ways) of the node → whether it points to the upper half.
    points_up: BTreeMap<(u64, usize, usize), bool>,
    victims: BTreeMap<u64, u64>,
    time: u64,
}

impl Cache {
    /// Makes an empty cache.
    #[must_use]
    pub fn new(config: Config, number: usize) -> Self {
        let sets = vec![vec![None; config.ways]; config.sets as usize];
        Self {
            config,
            number,
            sets,
            counts: BTreeMap::new(),
            points_up: BTreeMap::new(),
            victims: BTreeMap::new(),
            time: 0,
        }
    }

    /// Adds to a count that belongs to no agent.
    pub fn count(&mut self, name: &'static str, amount: u64) {
        self.count_for(Agent::User, name, None, amount);
    }

    /// Adds to a count of an agent.
    pub fn count_for(&mut self, agent: Agent, name: &'static str, kind: Option<Kind>, amount: u64) {
        *self.counts.entry((agent.name(), name, kind.map(Kind::name))).or_default() += amount;
    }

    /// Returns the set of an address.
    #[must_use]
    pub fn set_of(&self, address: u128) -> u64 {
        let sets = u128::from(self.config.sets);
        let line = address / u128::from(self.config.line);
        if !self.config.hashed {
            return (line % sets) as u64;
        }
        // The set is the exclusive or of the digits of the line number, written in base `sets`.
        let (mut set, mut rest) = (0, line);
        while sets > 1 && rest > 0 {
            set ^= rest % sets;
            rest /= sets;
        }
        set as u64
    }

    fn way_of(&self, set: u64, name: Name, offset: u64) -> Option<usize> {
        let holds = |line: &Option<Line>| line.is_some_and(|l| l.name == name && l.offset == offset);
        self.sets[set as usize].iter().position(holds)
    }

    /// Looks for a line and uses it. Returns whether the line was there.
    pub fn access(&mut self, set: u64, name: Name, offset: u64, makes_dirty: bool) -> bool {
        let Some(way) = self.way_of(set, name, offset) else { return false };
        self.time += 1;
        let time = self.time;
        let line = self.sets[set as usize][way].as_mut().expect("it was found");
        line.used = time;
        line.predicted = 0;
        let newly_dirty = makes_dirty && !line.dirty;
        line.dirty |= makes_dirty;
        if newly_dirty {
            self.count("dirtied", 1);
        }
        self.point_away(set, way);
        true
    }

    /// Puts a line in the lowest empty way.
    pub fn put(&mut self, set: u64, name: Name, offset: u64, dirty: bool) {
        self.time += 1;
        let line = Line { name, offset, dirty, arrived: self.time, used: self.time, predicted: 2 };
        let way = self.sets[set as usize].iter().position(Option::is_none).expect("room was made");
        self.sets[set as usize][way] = Some(line);
        self.count("fills", 1);
        if dirty {
            self.count("dirtied", 1);
        }
        self.point_away(set, way);
    }

    /// Removes the victim if the set is full. Returns the victim.
    pub fn make_room(&mut self, set: u64, rng: Rng) -> Option<Line> {
        if self.sets[set as usize].iter().any(Option::is_none) {
            return None;
        }
        let way = self.victim(set, rng);
        self.count("evictions", 1);
        self.sets[set as usize][way].take()
    }

    fn victim(&mut self, set: u64, rng: Rng) -> usize {
        let ways = self.config.ways;
        let full = |cache: &Self| -> Vec<Line> {
            cache.sets[set as usize].iter().map(|line| line.expect("the set is full")).collect()
        };
        match self.config.replacement {
            "lru" => (0..ways).min_by_key(|&way| full(self)[way].used).expect("a way"),
            "fifo" => (0..ways).min_by_key(|&way| full(self)[way].arrived).expect("a way"),
            "random" if ways == 1 => 0,
            "random" => {
                let nth = self.victims.entry(set).or_default();
                let stream = Stream::new(Domain::Victim, ((self.number as u64) << 48) + set);
                let way = rng.below(stream, *nth, ways as u64);
                *nth += 1;
                way as usize
            }
            "plru" => {
                let (mut first, mut size) = (0, ways);
                while size > 1 {
                    let up = self.points_up.get(&(set, first, size)).copied().unwrap_or(false);
                    size /= 2;
                    first += if up { size } else { 0 };
                }
                first
            }
            "srrip" => loop {
                if let Some(way) = full(self).iter().position(|line| line.predicted == 3) {
                    return way;
                }
                for line in self.sets[set as usize].iter_mut().flatten() {
                    line.predicted += 1;
                }
            },
            other => panic!("the oracle has no rule for the replacement `{other}`: write it here"),
        }
    }

    /// Turns every node above a way to the half without that way.
    fn point_away(&mut self, set: u64, way: usize) {
        let (mut first, mut size) = (0, self.config.ways);
        while size > 1 && self.config.replacement == "plru" {
            let is_upper = way >= first + size / 2;
            self.points_up.insert((set, first, size), !is_upper);
            size /= 2;
            first += if is_upper { size } else { 0 };
        }
    }

    /// Removes every line for which `leaves` holds, and returns these lines.
    pub fn take_out(&mut self, leaves: &dyn Fn(&Line) -> bool) -> Vec<Line> {
        let mut out = Vec::new();
        for set in &mut self.sets {
            for way in set {
                if way.as_ref().is_some_and(leaves) {
                    out.extend(way.take());
                }
            }
        }
        out
    }

    /// Makes the dirty lines clean that `becomes_clean` selects. Returns their number.
    pub fn clean(&mut self, becomes_clean: &dyn Fn(&Line) -> bool) -> usize {
        let ways = self.sets.iter_mut().flatten().flatten();
        ways.filter(|line| line.dirty && becomes_clean(line)).map(|line| line.dirty = false).count()
    }

    /// Returns the lines of a set as (name, offset, dirty). LRU and FIFO order them latest first, other policies way
    /// by way.
    #[must_use]
    pub fn contents(&self, set: u64) -> Vec<Option<(Name, u64, bool)>> {
        let mut ways = self.sets[set as usize].clone();
        match self.config.replacement {
            "lru" => ways.sort_by_key(|way| way.map_or(u64::MAX, |line| u64::MAX - 1 - line.used)),
            "fifo" => ways.sort_by_key(|way| way.map_or(u64::MAX, |line| u64::MAX - 1 - line.arrived)),
            _ => {}
        }
        ways.iter().map(|way| way.map(|line| (line.name, line.offset, line.dirty))).collect()
    }
}
