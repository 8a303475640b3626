//! `Synthetic` is a unit that draws its actions, which differ from lane to lane. It acts on the fast model
//! and on the oracle.

use std::sync::{Arc, Mutex};

use binhop_base::{Agent, Domain, Kind, MappingId, Result, Rng, Stream};
use binhop_hw::{DirtyData, Tree};
use binhop_oracle::cache::Name;
use binhop_oracle::machine as oracle;
use binhop_sim::occasion::{Lines, Occasion, OccasionKind, Port, Subscription, TouchedLines};
use binhop_sim::unit::{Injector, Unit};

use crate::caches::for_oracle;

pub const PAGE: u64 = 4096;
/// The number of pages that the synthetic unit owns.
pub const OWNED: u32 = 3;
/// The system call at which the unit reads the contents of every cache.
pub const LOOK: u8 = 99;

/// The line in a way: its name, its first byte in the page, and whether it is dirty.
pub type Way = Option<(Name, u64, bool)>;

/// `Seen` is one thing that a unit sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    MachineInLane(&'static str, Vec<u64>),
    Cycles(u64),
    Contents(Vec<Vec<Way>>),
}

pub type Log = Arc<Mutex<Vec<Seen>>>;

/// `Actions` are the actions of a unit, in either model.
pub trait Actions {
    fn is_resident(&self, mapping: u32) -> bool;
    fn access(&mut self, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64;
    fn ask(&mut self, cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64;
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, data: DirtyData);
    fn wait(&mut self, cycles: u64);
    fn contents(&self) -> Vec<Vec<Way>>;
}

/// `Synthetic` is the drawn unit of one lane.
pub struct Synthetic {
    tree: Tree,
    subscription: Subscription,
    rng: Rng,
    draws: u64,
    /// The mappings of which occasions told the unit.
    met: Vec<u32>,
    log: Log,
}

impl Synthetic {
    pub fn new(tree: &Tree, subscription: &Subscription, seed: u64, log: Log) -> Self {
        // Every draw differs from lane to lane.
        let rng = Rng::new(seed + 1000);
        Self { tree: tree.clone(), subscription: subscription.clone(), rng, draws: 0, met: Vec::new(), log }
    }

    fn draw(&mut self, n: u64) -> u64 {
        self.draws += 1;
        self.rng.below(Stream::new(Domain::Test, 0), self.draws, n)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.draw(choices.len() as u64) as usize]
    }

    fn log(&self, seen: Seen) {
        self.log.lock().unwrap().push(seen);
    }

    fn act(&mut self, kind: OccasionKind, numbers: Vec<u64>, names: Option<u32>, actions: &mut impl Actions) {
        let Some(touched) = self.subscription.touched(kind).cloned() else { return };
        if let Some(mapping) = names {
            assert!(actions.is_resident(mapping), "a page that an occasion names is resident");
            self.met.push(mapping);
        }
        let look = kind == OccasionKind::Syscall && numbers == [u64::from(LOOK)];
        self.log(Seen::MachineInLane(kind.name(), numbers));
        if self.draw(2) == 0 {
            for _ in 0..=self.draw(2) {
                self.inject(&touched, actions);
            }
        }
        if look || !touched.is_nothing() && self.draw(16) == 0 {
            self.log(Seen::Contents(actions.contents()));
        }
    }

    fn inject(&mut self, touched: &TouchedLines, actions: &mut impl Actions) {
        let mapping = self.page(actions);
        let agent = self.one_of(&Agent::ALL[1..]);
        match self.draw(8) {
            0 => actions.wait(self.draw(30)),
            1 => self.ask(touched, agent, mapping, actions),
            2 => {
                // The unit invalidates bytes that it may touch behind both ports.
                let Some(bytes) = common_bytes(&touched.fetch, &touched.data) else { return };
                let bytes = match self.draw(2) {
                    0 => bytes,
                    _ => {
                        let start = bytes.start + self.draw(bytes.end - bytes.start);
                        start..start + 1 + self.draw(bytes.end - start)
                    }
                };
                let all = [DirtyData::WriteBack, DirtyData::Discard, DirtyData::Clean];
                let data = all[self.draw(3) as usize];
                actions.invalidate(agent, mapping, bytes, data);
            }
            _ => {
                let kind = self.one_of(&[Kind::Fetch, Kind::Load, Kind::Store, Kind::Store]);
                let Some(offset) = self.offset(touched.of(Port::of(kind))) else { return };
                let cycles = actions.access(agent, kind, mapping, offset);
                self.log(Seen::Cycles(cycles));
            }
        }
    }

    /// Accesses a line of any cache, if the unit may touch it.
    fn ask(&mut self, touched: &TouchedLines, agent: Agent, mapping: u32, actions: &mut impl Actions) {
        let config = self.tree.config().clone();
        let cache = self.draw(config.caches.len() as u64) as usize;
        let kind = self.one_of(&[Kind::Fetch, Kind::Load, Kind::Store]);
        let offset = match (cache == config.fetch, cache == config.data) {
            (true, true) => common_bytes(&touched.fetch, &touched.data).map(Lines::Bytes),
            (true, false) => Some(touched.fetch.clone()),
            (false, true) => Some(touched.data.clone()),
            (false, false) if self.tree.in_front(cache) && touched.is_nothing() => None,
            (false, false) => Some(Lines::All),
        };
        let Some(offset) = offset.and_then(|lines| self.offset(&lines)) else { return };
        let cycles = actions.ask(cache, agent, kind, mapping, offset);
        self.log(Seen::Cycles(cycles));
    }

    /// Draws a page: one of the unit's own, or a resident page of which an occasion told the unit.
    fn page(&mut self, actions: &impl Actions) -> u32 {
        if self.draw(2) == 0 && !self.met.is_empty() {
            let met = self.met.clone();
            // The last pages are drawn more often: earlier pages have often been evicted, or belong to another
            // address space.
            let recent = if self.draw(2) == 0 { &met[met.len().saturating_sub(4)..] } else { &met };
            let mapping = self.one_of(recent);
            if actions.is_resident(mapping) {
                return mapping;
            }
        }
        self.draw(u64::from(OWNED)) as u32
    }

    /// Draws a byte of the lines.
    fn offset(&mut self, lines: &Lines) -> Option<u64> {
        let bytes = bytes_of(lines)?;
        // Half of the draws fall on few lines, so that accesses conflict.
        let far = self.draw(bytes.end - bytes.start);
        Some(bytes.start + if self.draw(2) == 0 { far % 160 } else { far })
    }
}

pub fn bytes_of(lines: &Lines) -> Option<std::ops::Range<u64>> {
    match lines {
        Lines::None => None,
        Lines::Bytes(bytes) => Some(bytes.clone()),
        Lines::All => Some(0..PAGE),
    }
}

pub fn common_bytes(a: &Lines, b: &Lines) -> Option<std::ops::Range<u64>> {
    let (a, b) = (bytes_of(a)?, bytes_of(b)?);
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

/// `Fast` lets the unit act on the fast model.
pub struct Fast<'a, 'b>(&'a mut Injector<'b>, &'a Tree);

impl Actions for Fast<'_, '_> {
    fn is_resident(&self, mapping: u32) -> bool {
        self.0.is_resident(MappingId(mapping))
    }
    fn access(&mut self, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        self.0.access(agent, kind, MappingId(mapping), offset).unwrap().cycles
    }
    fn ask(&mut self, cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        self.0.ask(cache, agent, kind, MappingId(mapping), offset).unwrap()
    }
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, data: DirtyData) {
        self.0.invalidate(agent, MappingId(mapping), bytes, data).unwrap();
    }
    fn wait(&mut self, cycles: u64) {
        self.0.wait(cycles);
    }
    fn contents(&self) -> Vec<Vec<Way>> {
        let caches = self.1.config().caches.iter().enumerate();
        let of = |(number, cache): (usize, &binhop_hw::CacheConfig)| {
            let ways = self.0.contents(number).unwrap().into_iter().flatten();
            ways.map(|way| way.map(|line| for_oracle::line(cache, line))).collect()
        };
        caches.map(of).collect()
    }
}

impl Unit for Synthetic {
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        let (numbers, names) = match *occasion {
            Occasion::Switch { asid, .. } => (vec![u64::from(asid.0)], None),
            Occasion::Syscall { number } => (vec![u64::from(number)], None),
            Occasion::FirstTouch { mapping } | Occasion::Return { mapping } => (vec![], Some(mapping)),
            Occasion::PageChange { port, mapping } => (vec![u64::from(port == Port::Fetch)], Some(mapping)),
            Occasion::Miss { kind, mapping, offset } => (vec![kind as u64, offset], Some(mapping)),
            Occasion::Device { device, writes, request, mapping, offset, bytes, total } => {
                let total = total.unwrap_or(u64::MAX);
                (vec![device.into(), writes.into(), request, offset, bytes, total], Some(mapping))
            }
        };
        let tree = self.tree.clone();
        self.act(occasion.kind(), numbers, names.map(|mapping| mapping.0), &mut Fast(injector, &tree));
        Ok(())
    }
}

/// `Slow` lets the unit act on the oracle.
pub struct Slow<'a>(&'a mut oracle::Lane, &'a Tree);

impl Actions for Slow<'_> {
    fn is_resident(&self, mapping: u32) -> bool {
        self.0.is_resident(mapping)
    }
    fn access(&mut self, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        self.0.ask((self.0.serving(kind), true), agent, kind, mapping, offset)
    }
    fn ask(&mut self, cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        let by_mapping = self.1.takes_mapping(cache);
        self.0.ask((cache, by_mapping), agent, kind, mapping, offset)
    }
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, data: DirtyData) {
        match data {
            DirtyData::Clean => self.0.clean(agent, mapping, bytes),
            _ => self.0.invalidate(agent, mapping, bytes, data == DirtyData::Discard),
        }
    }
    fn wait(&mut self, cycles: u64) {
        self.0.tree.now += cycles;
    }
    fn contents(&self) -> Vec<Vec<Way>> {
        let of = |cache: &binhop_oracle::cache::Cache| {
            (0..cache.config.sets).flat_map(|set| cache.contents(set)).collect()
        };
        self.0.tree.caches.iter().map(of).collect()
    }
}

impl oracle::Unit for Synthetic {
    fn act(&mut self, occasion: oracle::Occasion, lane: &mut oracle::Lane) {
        let (kind, numbers, names) = match occasion {
            oracle::Occasion::Switch { asid } => (OccasionKind::Switch, vec![u64::from(asid)], None),
            oracle::Occasion::Syscall { number } => (OccasionKind::Syscall, vec![u64::from(number)], None),
            oracle::Occasion::FirstTouch { mapping } => (OccasionKind::FirstTouch, vec![], Some(mapping)),
            oracle::Occasion::Return { mapping } => (OccasionKind::Return, vec![], Some(mapping)),
            oracle::Occasion::PageChange { fetch, mapping } => {
                (OccasionKind::PageChange, vec![u64::from(fetch)], Some(mapping))
            }
            oracle::Occasion::Miss { kind, mapping, offset } => {
                (OccasionKind::Miss, vec![kind as u64, offset], Some(mapping))
            }
            oracle::Occasion::Device { device, writes, request, mapping, offset, bytes, total } => {
                let total = total.unwrap_or(u64::MAX);
                let numbers = vec![device.into(), writes.into(), request, offset, bytes, total];
                (OccasionKind::Device, numbers, Some(mapping))
            }
        };
        let tree = self.tree.clone();
        self.act(kind, numbers, names, &mut Slow(lane, &tree));
    }
}
