//! Units: what is injected between references, and what preparation forgets because of it.
//!
//! A synthetic unit draws accesses, invalidations and waits, other ones in each lane, at every kind of occasion. Random
//! machines run random streams with it: shared, collapsed, or neither, they must tell the unit the same and count the same as
//! the oracle, which takes one reference after another and knows nothing of filters and blocks.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, UInt64Type};
use binhop_base::{Agent, Bytes, Domain, Kind, MappingId, Result, Rng, Stream};
use binhop_hw::{CostRule, DirtyData, Next, Rules, TagBy, Tree};
use binhop_oracle::cache::{Config, Name};
use binhop_oracle::machine as oracle;
use binhop_oracle::placements::{Buddy, Colors, Memory, Pooled, Rule};
use binhop_sim::unit::{Asks, Disturbs, Injector, Lines, Occasion, OccasionKind, Port, Unit, Units};
use binhop_sim::{Machine, Outcome, Plan, simulate_all};
use binhop_trace::{EventBatch, Op};
use common::{Event, Fixed, SMALL, batch, event, reference, run};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const PAGE: u64 = 4096;
/// Pages that the synthetic unit owns.
const OWNED: u32 = 3;
/// The system call at which the unit looks into every cache.
const LOOK: u8 = 99;

/// One line in a way: whether it is named by mapping, the name, its first byte in the page, whether it is dirty.
type Way = Option<(bool, u32, u64, bool)>;

/// What a unit sees, in order.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Told(&'static str, Vec<u64>),
    Cycles(u64),
    Contents(Vec<Vec<Way>>),
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// What a unit can do, in either model.
trait Hands {
    fn is_resident(&self, mapping: u32) -> bool;
    fn access(&mut self, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64;
    fn ask(&mut self, cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64;
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, discard: bool);
    fn wait(&mut self, cycles: u64);
    fn contents(&self) -> Vec<Vec<Way>>;
}

/// The drawn unit of one lane.
struct Synthetic {
    tree: Tree,
    asks: Asks,
    rng: Rng,
    draws: u64,
    /// Mappings it was told of.
    met: Vec<u32>,
    log: Log,
}

impl Synthetic {
    fn new(tree: &Tree, asks: &Asks, seed: u64, log: Log) -> Self {
        // Lanes differ in all that is drawn.
        let rng = Rng::new(seed + 1000);
        Self { tree: tree.clone(), asks: asks.clone(), rng, draws: 0, met: Vec::new(), log }
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

    fn act(&mut self, kind: OccasionKind, numbers: Vec<u64>, names: Option<u32>, hands: &mut impl Hands) {
        let Some(disturbs) = self.asks.disturbs(kind).cloned() else { return };
        if let Some(mapping) = names {
            assert!(hands.is_resident(mapping), "a page that an occasion names is resident");
            self.met.push(mapping);
        }
        let look = kind == OccasionKind::Syscall && numbers == [u64::from(LOOK)];
        self.log(Seen::Told(kind.name(), numbers));
        if self.draw(2) == 0 {
            for _ in 0..=self.draw(2) {
                self.inject(&disturbs, hands);
            }
        }
        if look || !disturbs.is_nothing() && self.draw(16) == 0 {
            self.log(Seen::Contents(hands.contents()));
        }
    }

    fn inject(&mut self, disturbs: &Disturbs, hands: &mut impl Hands) {
        let mapping = self.page(hands);
        let agent = self.one_of(&Agent::ALL[1..]);
        match self.draw(8) {
            0 => hands.wait(self.draw(30)),
            1 => self.ask(disturbs, agent, mapping, hands),
            2 => {
                // Bytes that both ports may lose.
                let Some(bytes) = common_bytes(&disturbs.fetch, &disturbs.data) else { return };
                let bytes = match self.draw(2) {
                    0 => bytes,
                    _ => {
                        let start = bytes.start + self.draw(bytes.end - bytes.start);
                        start..start + 1 + self.draw(bytes.end - start)
                    }
                };
                let discard = self.draw(2) == 0;
                hands.invalidate(agent, mapping, bytes, discard);
            }
            _ => {
                let kind = self.one_of(&[Kind::Fetch, Kind::Load, Kind::Store, Kind::Store]);
                let Some(offset) = self.offset(disturbs.of(Port::of(kind))) else { return };
                let cycles = hands.access(agent, kind, mapping, offset);
                self.log(Seen::Cycles(cycles));
            }
        }
    }

    /// A line of any cache, as far as the unit may touch it.
    fn ask(&mut self, disturbs: &Disturbs, agent: Agent, mapping: u32, hands: &mut impl Hands) {
        let config = self.tree.config().clone();
        let cache = self.draw(config.caches.len() as u64) as usize;
        let kind = self.one_of(&[Kind::Fetch, Kind::Load, Kind::Store]);
        let offset = match (cache == config.fetch, cache == config.data) {
            (true, true) => common_bytes(&disturbs.fetch, &disturbs.data).map(Lines::Bytes),
            (true, false) => Some(disturbs.fetch.clone()),
            (false, true) => Some(disturbs.data.clone()),
            (false, false) if self.tree.in_front(cache) && disturbs.is_nothing() => None,
            (false, false) => Some(Lines::All),
        };
        let Some(offset) = offset.and_then(|lines| self.offset(&lines)) else { return };
        let cycles = hands.ask(cache, agent, kind, mapping, offset);
        self.log(Seen::Cycles(cycles));
    }

    /// One of the unit's own pages, or one that it has met and that is in memory.
    fn page(&mut self, hands: &impl Hands) -> u32 {
        if self.draw(2) == 0 && !self.met.is_empty() {
            let met = self.met.clone();
            // Mostly one of the last: others have often left, or are of another space.
            let recent = if self.draw(2) == 0 { &met[met.len().saturating_sub(4)..] } else { &met };
            let mapping = self.one_of(recent);
            if hands.is_resident(mapping) {
                return mapping;
            }
        }
        self.draw(u64::from(OWNED)) as u32
    }

    /// A byte of the lines.
    fn offset(&mut self, lines: &Lines) -> Option<u64> {
        let bytes = bytes_of(lines)?;
        // Few lines, so that they collide.
        let far = self.draw(bytes.end - bytes.start);
        Some(bytes.start + if self.draw(2) == 0 { far % 160 } else { far })
    }
}

fn bytes_of(lines: &Lines) -> Option<std::ops::Range<u64>> {
    match lines {
        Lines::None => None,
        Lines::Bytes(bytes) => Some(bytes.clone()),
        Lines::All => Some(0..PAGE),
    }
}

fn common_bytes(a: &Lines, b: &Lines) -> Option<std::ops::Range<u64>> {
    let (a, b) = (bytes_of(a)?, bytes_of(b)?);
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

/// The fast model's hands.
struct Fast<'a, 'b>(&'a mut Injector<'b>, &'a Tree);

impl Hands for Fast<'_, '_> {
    fn is_resident(&self, mapping: u32) -> bool {
        self.0.is_resident(MappingId(mapping))
    }
    fn access(&mut self, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        self.0.access(agent, kind, MappingId(mapping), offset).unwrap().cycles
    }
    fn ask(&mut self, cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64) -> u64 {
        self.0.ask(cache, agent, kind, MappingId(mapping), offset).unwrap()
    }
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, discard: bool) {
        let data = if discard { DirtyData::Discard } else { DirtyData::WriteBack };
        self.0.invalidate(agent, MappingId(mapping), bytes, data).unwrap();
    }
    fn wait(&mut self, cycles: u64) {
        self.0.wait(cycles);
    }
    fn contents(&self) -> Vec<Vec<Way>> {
        let caches = self.1.config().caches.iter().enumerate();
        let of = |(number, cache): (usize, &binhop_hw::CacheConfig)| {
            let by_mapping = cache.tag == TagBy::Asid;
            let way = |line: binhop_hw::Resident| {
                (by_mapping, line.at.id, u64::from(line.at.line) << cache.line.log2(), line.dirty)
            };
            let ways = self.0.contents(number).unwrap().into_iter().flatten();
            ways.map(|line| line.map(way)).collect()
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
            Occasion::Device { device, writes, addr, bytes } => {
                (vec![device.into(), writes.into(), addr, bytes.into()], None)
            }
        };
        let tree = self.tree.clone();
        self.act(occasion.kind(), numbers, names.map(|mapping| mapping.0), &mut Fast(injector, &tree));
        Ok(())
    }
}

/// The oracle's hands.
struct Slow<'a>(&'a mut oracle::Lane, &'a Tree);

impl Hands for Slow<'_> {
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
    fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: std::ops::Range<u64>, discard: bool) {
        self.0.invalidate(agent, mapping, bytes, discard);
    }
    fn wait(&mut self, cycles: u64) {
        self.0.tree.now += cycles;
    }
    fn contents(&self) -> Vec<Vec<Way>> {
        let of = |cache: &binhop_oracle::cache::Cache| {
            let way = |(name, offset, dirty): (Name, u64, bool)| match name {
                Name::Mapping(id) => (true, id, offset, dirty),
                Name::Page(id) => (false, id, offset, dirty),
            };
            let ways = (0..cache.config.sets).flat_map(|set| cache.contents(set));
            ways.map(|line| line.map(way)).collect()
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
            oracle::Occasion::Device { device, writes, addr, bytes } => {
                (OccasionKind::Device, vec![device.into(), writes.into(), addr, bytes.into()], None)
            }
        };
        let tree = self.tree.clone();
        self.act(kind, numbers, names, &mut Slow(lane, &tree));
    }
}

/// The events of a batch, for the oracle.
fn events_of(batch: &EventBatch) -> Vec<oracle::Event> {
    use oracle::Event::{Data, Device, End, Fetch, Fork, Map, Switch, Syscall, Unmap};
    let mut events = Vec::new();
    let mut running = 0;
    for row in 0..batch.len() {
        let (addr, size) = (batch.addr()[row], batch.size()[row]);
        let (count, bytes) = (u64::from(batch.count()[row]), u64::from(size));
        let data = |load, store| Data { addr, size: bytes, load, store };
        events.push(match Op::from_code(batch.op()[row]).unwrap() {
            Op::Fetch => Fetch { addr, size: bytes, count },
            Op::Load => data(true, false),
            Op::Store => data(false, true),
            Op::Modify => data(true, true),
            Op::Switch => {
                running = addr as u32;
                Switch { asid: running }
            }
            Op::Syscall => Syscall { number: count as u32 },
            Op::DmaRead | Op::DmaWrite => {
                let writes = batch.op()[row] == Op::DmaWrite as u8;
                Device { device: count as u32, writes, addr, bytes: size }
            }
            Op::Map => {
                let shared = size & binhop_trace::event::map_flags::SHARED != 0;
                let segment = batch.arg0(row).map(|segment| (segment, batch.arg1(row).unwrap_or(0)));
                Map { start: addr, pages: count, shared, segment }
            }
            Op::Unmap => Unmap { start: addr, pages: count },
            Op::Fork => Fork { child: addr as u32, parent: batch.arg0(row).map_or(running, |p| p as u32) },
            Op::Exec | Op::Exit => End { asid: addr as u32 },
            _ => continue,
        });
    }
    events
}

fn oracle_machine(machine: &Machine) -> oracle::Machine {
    let config = machine.tree().config();
    let caches = config.caches.iter().map(|cache| Config {
        sets: cache.sets(),
        ways: cache.ways as usize,
        line: cache.line.bytes(),
        index: cache.index.name(),
        hashed: cache.hashed,
        tag: cache.tag.name(),
        write: cache.write.name(),
        allocate: cache.allocate,
        replacement: cache.replacement.name(),
        writeback_order: cache.writeback_order.name(),
        inclusive: cache.inclusive,
        write_buffer: cache.write_buffer.map(|b| (b.entries as usize, b.drain_cycles)),
        cost: cache.cost,
        next: match cache.next {
            Next::Cache(next) => Some(next),
            Next::Memory => None,
        },
    });
    oracle::Machine {
        caches: caches.collect(),
        serving: [config.fetch, config.data],
        page: PAGE,
        frames: machine.memory().frames,
        memory_cost: config.memory_cost,
        add_costs: config.cost_rule == CostRule::Add,
    }
}

fn oracle_memory(machine: &Machine, seed: u64) -> Option<Box<dyn Memory>> {
    let settings = &machine.placement().settings;
    let frames = machine.memory().frames?;
    let rule = match machine.placement().policy {
        "random" => Rule::Random,
        "first" => Rule::First,
        "page-coloring-equal" => Rule::Equal,
        "page-coloring-pid-hash" => Rule::PidHash,
        "bin-hopping" => Rule::BinHopping,
        "colored-lists" => {
            return Some(Box::new(Colors::new(frames, settings.colors, settings.pid_hash, seed)));
        }
        "buddy" => return Some(Box::new(Buddy::new(frames, settings.fragmentation.into(), seed))),
        other => panic!("the oracle places by no {other}"),
    };
    Some(Box::new(Pooled::new(rule, frames, settings.pool as usize, settings.bins.bytes(), true, seed)))
}

/// What units have seen, by machine and seed.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<BTreeMap<(String, u64), Log>>>);

impl Logs {
    /// Synthetic units that write into these logs.
    fn units(&self, asks: &Asks) -> Option<Units> {
        let (logs, asked) = (self.clone(), asks.clone());
        let make = move |machine: &Machine, seed| -> Box<dyn Unit> {
            let log = Log::default();
            logs.0.lock().unwrap().insert((machine.name().to_string(), seed), Arc::clone(&log));
            Box::new(Synthetic::new(machine.tree(), &asked, seed, log))
        };
        Some(Units::new(asks.clone(), Arc::new(make)))
    }

    fn of(&self, machine: &Machine, seed: u64) -> Vec<Seen> {
        let logs = self.0.lock().unwrap();
        logs[&(machine.name().to_string(), seed)].lock().unwrap().clone()
    }
}

/// What one run told its units, and what it counted.
fn run_with(
    machine: &Machine,
    events: &EventBatch,
    step: usize,
    asks: &Asks,
    plan: &Plan,
) -> (Logs, Outcome) {
    let logs = Logs::default();
    let outcome = run(machine, events, step, &Plan { units: logs.units(asks), ..plan.clone() });
    (logs, outcome)
}

/// The counts of one seed, by name; those of 0 left out.
fn counts_of(outcome: &Outcome, seed: u64) -> BTreeMap<String, u64> {
    let table = &outcome.results;
    let column = |name: &str| table.column_by_name(name).unwrap();
    let (names, seeds) = (column("metric").as_string::<i32>(), column("seed").as_primitive::<UInt64Type>());
    let values = column("value").as_primitive::<Float64Type>();
    let ratios = ["mpi", "cpi"];
    (0..table.num_rows())
        .filter(|&row| seeds.value(row) == seed)
        .map(|row| (names.value(row).to_string(), row))
        .filter(|(name, _)| !ratios.contains(&name.rsplit('.').next().unwrap()))
        .map(|(name, row)| (name, values.value(row) as u64))
        .filter(|&(_, value)| value > 0)
        .collect()
}

/// The name of a count: the user's is left out.
fn named(mut name: String, agent: &str, kind: Option<&str>, what: &str) -> String {
    for part in [Some(agent).filter(|&agent| agent != "user"), kind, Some(what)].into_iter().flatten() {
        name = name + "." + part;
    }
    name
}

/// What the oracle counted, under the same names.
fn counts_of_oracle(machine: &Machine, lane: &oracle::Lane, stream: [u64; 2]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (config, cache) in machine.tree().config().caches.iter().zip(&lane.tree.caches) {
        for (&(agent, what, kind), &value) in &cache.counts {
            counts.insert(named(config.name.clone(), agent, kind, what), value);
        }
    }
    for (&(agent, what, kind), &value) in &lane.tree.memory_counts {
        counts.insert(named("memory".into(), agent, Some(kind), what), value);
    }
    counts.insert("cycles".into(), lane.tree.now);
    counts.insert("instructions".into(), stream[0]);
    counts.insert("references".into(), stream[1]);
    if machine.memory().frames.is_some() {
        counts.insert("os.faults".into(), lane.faults);
        counts.insert("os.evictions".into(), lane.evictions);
    }
    counts.retain(|_, value| *value > 0);
    counts
}

fn assert_same_logs(a: &[Seen], b: &[Seen], what: &str) {
    if let Some(at) = (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at)) {
        let from = at.saturating_sub(5);
        panic!("{what}: entry {at}: {:?} against {:?}; before: {:?}", a.get(at), b.get(at), &a[from..at]);
    }
}

fn compare(machine: &Machine, asks: &Asks, events: &[Event], step: usize) {
    let events = batch(&[events, &[Event::Syscall(LOOK)]].concat());
    let seeds = vec![3, 4];
    let shared = Plan { seeds: seeds.clone(), ..Plan::default() };
    let last = machine.tree().config().caches[machine.last_level()].name.clone();
    let (logs, outcome) = run_with(machine, &events, step, asks, &shared);
    for (what, plan) in [
        ("neither shared nor collapsed", Plan { share: false, ..shared.clone() }),
        ("collapsed, not shared", Plan { watch: Some(last), ..shared.clone() }),
    ] {
        let (other, plain) = run_with(machine, &events, 1000, asks, &plan);
        for &seed in &seeds {
            let what = format!("seed {seed}, shared and collapsed, or {what}");
            assert_same_logs(&logs.of(machine, seed), &other.of(machine, seed), &what);
        }
        assert!(outcome.results == plain.results, "results, {what}: {:?}", {
            let (a, b) = (counts_of(&outcome, 3), counts_of(&plain, 3));
            a.iter()
                .filter(|&(name, value)| b.get(name) != Some(value))
                .map(|(n, v)| (n.clone(), *v))
                .collect::<Vec<_>>()
        });
        assert!(outcome.series == plain.series && outcome.processes == plain.processes, "{what}");
    }
    let slow = oracle_machine(machine);
    let config = machine.tree().config();
    let lines = slow.serving.map(|cache| config.caches[cache].line.bytes());
    let listed = events_of(&events);
    let steps = oracle::Steps::new(&listed, PAGE, lines, OWNED, slow.frames.is_none());
    let executed =
        |event: &oracle::Event| if let oracle::Event::Fetch { count, .. } = event { *count } else { 0 };
    let instructions: u64 = listed.iter().map(executed).sum();
    let data = listed.iter().filter(|event| matches!(event, oracle::Event::Data { .. })).count() as u64;
    for &seed in &seeds {
        let log = Log::default();
        let mut unit = Synthetic::new(machine.tree(), asks, seed, Arc::clone(&log));
        let mut lane = oracle::Lane::new(&slow, &steps, OWNED, oracle_memory(machine, seed), seed);
        lane.run(&steps, &mut unit);
        assert_same_logs(
            &logs.of(machine, seed),
            &log.lock().unwrap(),
            &format!("seed {seed}, against the oracle"),
        );
        let expected = counts_of_oracle(machine, &lane, [instructions, instructions + data]);
        let counted = counts_of(&outcome, seed);
        let differing: Vec<_> = expected
            .keys()
            .chain(counted.keys())
            .filter(|&name| expected.get(name) != counted.get(name))
            .map(|name| (name, counted.get(name), expected.get(name)))
            .collect();
        assert!(differing.is_empty(), "seed {seed}: (metric, counted, oracle): {differing:?}");
    }
}

/// Choices from which [`build`] makes a cache that fits where it stands.
#[derive(Clone, Debug)]
struct Raw {
    size: usize,
    wider: u32,
    ways: usize,
    /// Virtual, hashed, through, not allocating, evicting first, inclusive.
    flags: [bool; 6],
    tag: usize,
    replacement: usize,
    buffer: Option<(u32, u32)>,
    cost: u32,
}

fn raw() -> impl Strategy<Value = Raw> {
    let often_not = || prop::bool::weighted(0.25);
    let flags = [any::<bool>().boxed(), often_not().boxed(), often_not().boxed(), often_not().boxed()];
    let [virtually, hashed, through, spare] = flags;
    let flags = (virtually, hashed, through, spare, any::<bool>(), prop::bool::weighted(0.15));
    let buffer = prop::option::weighted(0.7, (1u32..4, 0u32..12));
    (0usize..6, 0u32..3, 0usize..4, flags, 0usize..3, 0usize..5, buffer, 1u32..20).prop_map(
        |(size, wider, ways, (a, b, c, d, e, f), tag, replacement, buffer, cost)| Raw {
            size,
            wider,
            ways,
            flags: [a, b, c, d, e, f],
            tag,
            replacement,
            buffer,
            cost,
        },
    )
}

/// The shapes of trees: names, what each serves, and what each asks.
const SHAPES: &[&[(&str, &str, &str)]] = &[
    &[("l1", "all", "memory")],
    &[("l1", "all", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "memory"), ("l1d", "data", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "l3"), ("l3", "", "memory")],
    &[("l1i", "fetch", "l1d"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l1i"), ("l2", "", "memory")],
];

const MEMORIES: &[(Option<u64>, &str)] = &[
    (None, "policy = \"identity\""),
    (Some(512), "policy = \"random\", pool = \"256KiB\""),
    (Some(512), "policy = \"page-coloring-equal\", pool = \"512KiB\", bins = 8"),
    (Some(13), "policy = \"random\", pool = \"16KiB\""),
    (Some(11), "policy = \"first\", pool = \"4KiB\""),
    (Some(16), "policy = \"page-coloring-pid-hash\", pool = \"16KiB\", bins = 4"),
    (Some(30), "policy = \"random\", pool = \"32KiB\""),
    (Some(24), "policy = \"random\", pool = \"8KiB\""),
    (Some(20), "policy = \"first\", pool = \"8KiB\""),
    (Some(28), "policy = \"page-coloring-equal\", pool = \"16KiB\", bins = 4"),
    (Some(26), "policy = \"page-coloring-pid-hash\", pool = \"20KiB\", bins = 8"),
    (Some(32), "policy = \"bin-hopping\", pool = \"24KiB\", bins = 4"),
    (Some(12), "policy = \"random\", pool = \"40KiB\""),
    (Some(48), "policy = \"colored-lists\", colors = 4"),
    (Some(24), "policy = \"buddy\""),
    (Some(40), "policy = \"buddy\", fragmentation = 30"),
];

/// A machine of one of the shapes, as its user would write it.
fn build(shape: usize, raws: &[Raw], memory: usize, add: bool) -> String {
    use std::fmt::Write;
    let (frames, placement) = MEMORIES[memory];
    let size = frames.map_or_else(String::new, |frames| format!("size = \"{}\", ", Bytes(frames * PAGE)));
    let mut text = format!("memory = {{ {size}page = \"4KiB\" }}\nplacement = {{ {placement} }}\n");
    let mut costs = format!("[cost]\nmode = \"{}\"\nmemory = 100\n", if add { "add" } else { "total" });
    let mut buffers = String::new();
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    // Whether all that ask a cache know mappings.
    let mut knows: BTreeMap<&str, bool> = BTreeMap::new();
    for ((name, serves, next), raw) in SHAPES[shape].iter().zip(raws) {
        let [virtually, hashed, through, spare, first, inclusive] = raw.flags;
        let first_level = !serves.is_empty();
        let knows_mapping = knows.get(name).copied().unwrap_or(true);
        let tags: &[&str] =
            if knows_mapping { &["physical", "asid", "global"] } else { &["physical", "physical", "global"] };
        let tag = tags[raw.tag];
        let index = match tag {
            "global" => "virtual",
            _ if virtually && knows_mapping => "virtual",
            _ => "physical",
        };
        let ways = [1, 1, 2, 4][raw.ways];
        let line = (lines.get(name).copied().unwrap_or(16) << raw.wider).min(128);
        let bytes = [256u64, 512, 1024, 2048, 4096, 8192][raw.size] << if first_level { 0 } else { 2 };
        let bytes = bytes.max(u64::from(ways * line));
        let replacement = ["lru", "fifo", "random", "plru", "srrip"][raw.replacement];
        let serves = if first_level { format!("serves = \"{serves}\"\n") } else { String::new() };
        let write = if through { "through" } else { "back" };
        let order = if first { "before-fill" } else { "after-fill" };
        let allocate = !spare;
        writeln!(
            text,
            "[cache.{name}]\n{serves}size = \"{bytes}B\"\nline = \"{line}B\"\nways = {ways}\nindex = \"{index}\"\n\
             hash = {hashed}\ntag = \"{tag}\"\nwrite = \"{write}\"\nallocate = {allocate}\n\
             replacement = \"{replacement}\"\nwriteback-order = \"{order}\"\ninclusive = {inclusive}\nnext = \"{next}\""
        )
        .unwrap();
        if let (true, Some((entries, drain))) = (through, raw.buffer) {
            writeln!(buffers, "[write-buffer.{name}]\nentries = {entries}\ndrain = {drain}").unwrap();
        }
        if !first_level {
            writeln!(costs, "{name} = {}", raw.cost).unwrap();
        }
        let wide = lines.entry(next).or_insert(16);
        *wide = line.max(*wide);
        *knows.entry(next).or_insert(true) &= tag == "asid";
    }
    text + &buffers + &costs
}

fn machine() -> impl Strategy<Value = Machine> {
    (0..SHAPES.len(), prop::collection::vec(raw(), 4), 0..MEMORIES.len(), any::<bool>())
        .prop_filter_map("the machine is sound", |(shape, raws, memory, add)| {
            Machine::parse(&build(shape, &raws, memory, add), "drawn", &[]).ok()
        })
}

fn lines() -> impl Strategy<Value = Lines> {
    prop_oneof![
        1 => Just(Lines::None),
        2 => Just(Lines::All),
        2 => (0u64..8, 1u64..300).prop_map(|(start, bytes)| Lines::Bytes(start * 61..start * 61 + bytes)),
    ]
}

fn disturbs() -> impl Strategy<Value = Disturbs> {
    prop_oneof![
        1 => Just(Disturbs::NOTHING),
        1 => Just(Disturbs::EVERYTHING),
        2 => (lines(), lines()).prop_map(|(fetch, data)| Disturbs { fetch, data }),
        1 => lines().prop_map(|lines| Disturbs { fetch: lines.clone(), data: lines }),
    ]
}

/// Some kinds of occasions; system calls always, so that the caches can be looked at in the end.
fn asks() -> impl Strategy<Value = Asks> {
    let each = prop::option::weighted(0.5, disturbs());
    prop::collection::vec(each, OccasionKind::ALL.len()).prop_map(|chosen| {
        let mut asks = Asks::new(OWNED, Agent::ALL);
        for (&kind, disturbs) in OccasionKind::ALL.iter().zip(chosen) {
            match (kind, disturbs) {
                // Otherwise a front is seldom collapsed, let alone shared.
                (OccasionKind::Syscall, disturbs) => {
                    let disturbs = disturbs.filter(|disturbs| !disturbs.is_nothing());
                    asks = asks.at(kind, disturbs.unwrap_or(Disturbs::EVERYTHING));
                }
                (OccasionKind::Device, None) => asks = asks.at(kind, Disturbs::NOTHING),
                (_, Some(disturbs)) => asks = asks.at(kind, disturbs),
                (_, None) => {}
            }
        }
        asks
    })
}

/// References, everything that may happen between them, and requests of devices.
fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        24 => event(),
        12 => near(),
        2 => (0u8..4).prop_map(Event::Syscall),
        1 => (any::<bool>(), 0u8..40).prop_map(|(writes, page)| Event::Device { writes, page }),
        1 => Just(Event::Thread),
    ]
}

/// References to few lines, which filters drop unless they forget them.
fn near() -> impl Strategy<Value = Event> {
    let op = prop_oneof![Just(Op::Load), Just(Op::Store), Just(Op::Modify)];
    prop_oneof![
        (0u8..2, 0u16..4, 1u8..4).prop_map(|(page, line, count)| Event::Fetch {
            page,
            offset: line * 16,
            count
        }),
        (op, 0u8..2, 0u16..4).prop_map(|(op, page, line)| Event::Data {
            op,
            page,
            offset: line * 16,
            size: 4
        }),
    ]
}

/// References to few lines of many pages.
fn far() -> impl Strategy<Value = Event> {
    (0u8..30, 0u16..4).prop_map(|(page, line)| Event::Data { op: Op::Load, page, offset: line * 16, size: 4 })
}

/// Occasions of all kinds between references that hit.
fn occasion() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => near(),
        4 => far(),
        1 => Just(Event::Thread),
        1 => (0u8..4).prop_map(Event::Syscall),
        1 => (any::<bool>(), 0u8..40).prop_map(|(writes, page)| Event::Device { writes, page }),
    ]
}

/// Machines whose seeds share a front, many with one direct-mapped level 2.
fn sharing() -> impl Strategy<Value = Machine> {
    let memory = 0..MEMORIES.len();
    (prop::collection::vec(raw(), 4), any::<bool>(), memory, any::<bool>(), any::<bool>()).prop_map(
        |(mut raws, split, memory, add, direct)| {
            for raw in &mut raws[..2 + usize::from(split)] {
                raw.size = raw.size.min(4);
                raw.buffer = None;
                raw.flags[5] = false;
                raw.flags[1] &= raw.size < 2;
                raw.tag = 0;
                raw.replacement = [0, 1, 0, 3, 4][raw.replacement];
            }
            if direct {
                let last = &mut raws[1 + usize::from(split)];
                (last.size, last.ways, last.flags) =
                    (2, 0, [false, false, false, false, last.flags[4], false]);
            }
            let text = build(if split { 3 } else { 1 }, &raws, memory, add);
            Machine::parse(&text, "sharing", &[]).unwrap_or_else(|problem| panic!("{text}\n{problem}"))
        },
    )
}

/// Kinds at which the unit touches nothing of level 1, so that it stays shared until a last look.
fn behind() -> impl Strategy<Value = Asks> {
    prop::collection::vec(any::<bool>(), OccasionKind::ALL.len()).prop_map(|chosen| {
        let kinds = OccasionKind::ALL
            .iter()
            .zip(chosen)
            .filter(|&(&kind, chosen)| chosen && kind != OccasionKind::Miss);
        let asks =
            kinds.fold(Asks::new(OWNED, Agent::ALL), |asks, (&kind, _)| asks.at(kind, Disturbs::NOTHING));
        let lines = Disturbs { fetch: Lines::None, data: Lines::Bytes(0..1) };
        asks.at(OccasionKind::Device, Disturbs::NOTHING).at(OccasionKind::Syscall, lines)
    })
}

fn cases(of: u32) -> ProptestConfig {
    ProptestConfig { cases: of, max_global_rejects: 100_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(350))]

    #[test]
    fn every_event_on_every_machine(machine in machine(), asks in asks(), step in 1usize..60, events in prop::collection::vec(any_event(), 1..100)) {
        compare(&machine, &asks, &events, step);
    }

    #[test]
    fn runs_of_references(machine in machine(), asks in asks(), step in 1usize..60, events in prop::collection::vec(prop_oneof![reference(), near()], 1..140)) {
        compare(&machine, &asks, &events, step);
    }

    #[test]
    fn occasions_between_hits(machine in machine(), asks in asks(), step in 1usize..60, events in prop::collection::vec(occasion(), 1..120)) {
        compare(&machine, &asks, &events, step);
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn units_behind_a_shared_front(machine in sharing(), asks in behind(), step in 1usize..60, events in prop::collection::vec(prop_oneof![reference(), far(), Just(Event::Thread)], 1..140)) {
        compare(&machine, &asks, &events, step);
    }

    #[test]
    fn machines_together_or_alone(number in 0..SMALL.len(), asks in asks(), events in prop::collection::vec(any_event(), 1..100)) {
        together_or_alone(number, &asks, &events);
    }
}

/// The properties above, in the long form.
#[test]
#[ignore = "takes minutes: 60,000 cases"]
fn a_great_many_cases() {
    let run = |cases, strategy: BoxedStrategy<(Machine, Asks, Vec<Event>)>| {
        let config = ProptestConfig { cases, ..self::cases(cases) };
        let mut runner = TestRunner::new(config);
        let tested = runner.run(&(strategy, 1usize..60), |((machine, asks, events), step)| {
            compare(&machine, &asks, &events, step);
            Ok(())
        });
        tested.unwrap_or_else(|problem| panic!("{problem}"));
    };
    let events = prop_oneof![
        prop::collection::vec(any_event(), 1..200),
        prop::collection::vec(prop_oneof![reference(), near()], 1..300),
        prop::collection::vec(occasion(), 1..300),
    ];
    run(50_000, (machine(), asks(), events).boxed());
    let events = prop::collection::vec(prop_oneof![reference(), far(), Just(Event::Thread)], 1..300);
    run(10_000, (sharing(), behind(), events).boxed());
}

/// Machines of one placement that differ behind level 1, and one that has nothing to do with them.
fn together_or_alone(number: usize, asks: &Asks, events: &[Event]) {
    let base = common::machine(number);
    let whole = |machine: &Machine| machine.tree().config().rules == Rules::Cachegrind;
    let changed = ["cache.l2.ways=4", "cache.l2.ways=8", "cache.l2.line=128B", "cache.l2.replacement=random"];
    let change = |change: &&str| {
        let settings = [(*change).to_string(), format!("name={change:?}")];
        Machine::parse(&base.resolved(), change, &settings).ok()
    };
    let mut machines: Vec<Machine> = changed.iter().filter_map(change).collect();
    machines.extend([base.clone(), common::machine((number + 1) % SMALL.len())]);
    machines.retain(|machine| !whole(machine));
    let events = batch(events);
    let logs = Logs::default();
    let plan = Plan { seeds: vec![3, 4], units: logs.units(asks), ..Plan::default() };
    let source = Box::new(Fixed::new(events.clone(), 1000));
    let outcomes = simulate_all(&machines, source, &plan, None, &mut |_| Ok(())).unwrap();
    for (machine, outcome) in machines.iter().zip(&outcomes) {
        let (alone, single) = run_with(machine, &events, 1000, asks, &Plan { units: None, ..plan.clone() });
        for seed in [3, 4] {
            let what = format!("{}, seed {seed}, alone or with others", machine.name());
            assert_same_logs(&alone.of(machine, seed), &logs.of(machine, seed), &what);
        }
        assert!(single.results == outcome.results && single.notes == outcome.notes, "{}", machine.name());
    }
}
