//! Every scheme for device data is compared with the oracle: the place and the cycles of every reference, all counts,
//! and the contents of the caches after each operation. The oracle's copies carry versions, so that no read gets stale
//! data and nothing dirty is lost.

use std::collections::BTreeMap;

use binhop_base::{Bytes, PowerOfTwo};
use binhop_hw::{
    DmaCacheConfig, FixedLatency, LastLevelConfig, Replacement, Scheme, SchemeConfig, SchemeKind, ServedBy,
    TapAnswer, TapClass, TapEvent, WritePolicy, check_scheme, make_scheme,
};
use binhop_oracle::dma::{DmaDesign, DmaMachine, Op, Tapped};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

const LINE: u64 = 64;
const MEMORY: u64 = 200;
const LINES: u64 = 48;

#[derive(Clone, Copy, Debug)]
enum Step {
    Do(Op),
    /// The mask of PBDC's ways for I/O data changes.
    Mask(u64),
}

fn config_of(kind: SchemeKind) -> impl Strategy<Value = SchemeConfig> {
    let last = (0..3u32, 2..6u32, any::<bool>());
    let dma = (0..3u32, 1..5u32);
    (last, dma, any::<bool>(), prop::sample::select(vec![0, 1, 4]), any::<u64>(), 1..4u64).prop_map(
        move |((sets, ways, random), (io_sets, io_ways), through, prefetch_degree, mask, seed)| {
            let size = |sets: u32, ways: u32| Bytes((LINE << sets) * u64::from(ways));
            SchemeConfig {
                kind,
                line: PowerOfTwo::from_log2(6),
                page: PowerOfTwo::from_log2(9),
                last_level: LastLevelConfig {
                    size: size(sets, ways),
                    ways,
                    replacement: if random { Replacement::Random } else { Replacement::Lru },
                    cycles: 20,
                },
                write: if through { WritePolicy::Through } else { WritePolicy::Back },
                dma_cache: DmaCacheConfig { size: size(io_sets, io_ways), ways: io_ways, cycles: 7 },
                prefetch_degree,
                io_ways: proper(mask, ways),
                ddio_ways: (mask % u64::from(ways)) as u32 + 1,
                seed,
            }
        },
    )
}

/// A mask that names some, and not all, of the ways.
fn proper(mask: u64, ways: u32) -> u64 {
    mask % ((1 << ways) - 2) + 1
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let line = prop_oneof![0..LINES, 0..12u64];
    let step = (0..100u32, line, any::<bool>(), any::<u64>()).prop_map(|(what, line, whole, mask)| {
        Step::Do(match what {
            0..=21 => Op::Load(line),
            22..=38 => Op::Store(line),
            39..=43 => Op::StoreThrough(line),
            44..=65 => Op::Evict(line),
            66..=79 => Op::DeviceRead(line),
            80..=98 => Op::DeviceWrite(line, whole || line % 2 == 0),
            _ => return Step::Mask(mask),
        })
    });
    prop::collection::vec(step, 1..400)
}

fn design_of(config: &SchemeConfig) -> DmaDesign {
    use SchemeKind::{Ddc, Pbdc};
    let sets = |size: Bytes, ways: u32| size.0 / LINE / u64::from(ways);
    let last = config.last_level;
    let io_of_last = if config.kind == Pbdc { config.io_ways.count_ones() } else { 0 };
    let (io_sets, io_ways, io_cycles) = match config.kind {
        Ddc => {
            let DmaCacheConfig { size, ways, cycles } = config.dma_cache;
            (sets(size, ways), ways, [cycles, cycles])
        }
        _ => (sets(last.size, last.ways), io_of_last, [2 * last.cycles, last.cycles]),
    };
    DmaDesign {
        scheme: config.kind.name(),
        through: config.write == WritePolicy::Through && config.kind.has_write_policy(),
        sets: sets(last.size, last.ways),
        ways: (last.ways - io_of_last) as usize,
        random: last.replacement == Replacement::Random,
        io_sets,
        io_ways: io_ways as usize,
        degree: u64::from(config.prefetch_degree),
        page: config.page.bytes() / LINE,
        ddio_ways: config.ddio_ways as usize,
        cycles: last.cycles,
        io_cycles,
        memory: MEMORY,
        seed: config.seed,
    }
}

fn event_of((what, line, flag): Tapped) -> TapEvent {
    match what {
        "read" => TapEvent::Read { line, store: flag },
        "write back" => TapEvent::WriteBack { line },
        "cleaned" => TapEvent::Cleaned { line },
        "partial store" => TapEvent::PartialStore { line },
        "clean eviction" => TapEvent::CleanEviction { line },
        "upgrade" => TapEvent::Upgrade { line },
        "device read" => TapEvent::DeviceRead { line, request: 0 },
        "device write" => TapEvent::DeviceWrite { line, whole: flag, request: 0 },
        other => unreachable!("{other}"),
    }
}

/// Every count that is not 0, under the oracle's names.
fn counts_of(scheme: &dyn Scheme) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut count = |name: &str, value: u64| {
        if value > 0 {
            all.insert(name.to_owned(), value);
        }
    };
    let counters = scheme.counters();
    for &class in TapClass::ALL {
        let of = &counters[class];
        for (name, value) in [
            ("references", of.references),
            ("last level hits", of.hits_last_level),
            ("dma cache hits", of.hits_dma_cache),
            ("memory reads", of.memory_reads),
            ("memory writes", of.memory_writes),
            ("cycles", of.cycles),
        ] {
            count(&format!("{} {name}", class.name()), value);
        }
    }
    let (data, fates) = (counters.device_data, counters.fates);
    for (name, value) in [
        ("io accesses", data.io_accesses),
        ("io hits", data.io_hits),
        ("replaced dirty", data.writes_replacing_dirty),
        ("prefetches", data.prefetches),
        ("prefetches used", data.prefetches_used),
        ("cpu lines evicted", data.cpu_lines_evicted),
        ("device lines evicted", data.device_lines_evicted),
        ("written", fates.written),
        ("read from dma cache", fates.read_from_dma_cache),
        ("read from last level", fates.read_from_last_level),
        ("read from memory after eviction", fates.read_after_eviction),
        ("read from memory", fates.read_from_memory),
        ("overwritten by device", fates.overwritten_by_device),
        ("overwritten by cpu", fates.overwritten_by_cpu),
        ("evicted unread", fates.evicted_unread),
    ] {
        count(name, value);
    }
    for (cache, name) in [(ServedBy::LastLevel, "last"), (ServedBy::DmaCache, "io")] {
        if let Some(lines) = scheme.line_counters(cache) {
            count(&format!("{name} fills"), lines.fills);
            count(&format!("{name} evictions"), lines.evictions);
            count(&format!("{name} invalidated"), lines.invalidated);
            count(&format!("{name} flushed"), lines.flushed);
        }
    }
    all
}

type Row = (bool, usize, usize, u64, char, bool, bool);

fn contents_of(scheme: &dyn Scheme) -> Vec<Row> {
    let letter = |state| format!("{state:?}").chars().next().unwrap();
    let mut rows: Vec<Row> = scheme
        .contents()
        .iter()
        .map(|held| {
            let io = held.cache == ServedBy::DmaCache;
            (io, held.set, held.way, held.line, letter(held.state), held.of_device, held.prefetched)
        })
        .collect();
    rows.sort_unstable();
    rows
}

fn contents_of_oracle(machine: &DmaMachine) -> Vec<Row> {
    let mut rows = Vec::new();
    for (io, cache) in [(false, &machine.last), (true, &machine.io)] {
        for (set, ways) in cache.iter().enumerate() {
            for (way, held) in ways.iter().enumerate() {
                if let Some(h) = held {
                    rows.push((io, set, way, h.line, h.state, h.of_device, h.prefetched));
                }
            }
        }
    }
    rows
}

/// Names, for the ways of a new mask, the place of each way in the old mask.
fn kept(ways: u32, before: u64, after: u64) -> Vec<Option<usize>> {
    let in_mask = |mask: u64| (0..ways).filter(move |way| mask & 1 << way != 0);
    in_mask(after).map(|way| in_mask(before).position(|old| old == way)).collect()
}

fn name(served: ServedBy) -> &'static str {
    match served {
        ServedBy::Memory => "memory",
        ServedBy::LastLevel => "last level",
        ServedBy::DmaCache => "dma cache",
    }
}

/// Runs the steps through a scheme and the oracle, compares them, and returns the counts.
fn run(config: SchemeConfig, upgrades: bool, steps: &[Step]) -> BTreeMap<String, u64> {
    let mut memory = FixedLatency { cycles: MEMORY };
    let mut scheme = make_scheme(&config).unwrap();
    let mut machine = DmaMachine::new(design_of(&config), upgrades);
    let ways = config.last_level.ways;
    let mut mask = config.io_ways;
    for &step in steps {
        match step {
            Step::Do(op) => {
                for (tapped, reply) in machine.step(op) {
                    let answer = scheme.event(event_of(tapped), &mut memory);
                    let answer = answer.map(|TapAnswer { served, cycles }| (name(served), cycles));
                    assert_eq!(answer, reply, "{tapped:?}");
                }
            }
            Step::Mask(draw) if config.kind == SchemeKind::Pbdc => {
                let new = proper(draw, ways);
                let moves = [kept(ways, !mask, !new), kept(ways, mask, new)];
                assert_eq!(scheme.set_io_ways(new, &mut memory).unwrap(), machine.regroup(moves));
                mask = new;
            }
            Step::Mask(draw) => {
                let problem = scheme.set_io_ways(draw, &mut memory).unwrap_err();
                assert_eq!(problem.place, "io-ways");
            }
        }
        assert_eq!(contents_of(&*scheme), contents_of_oracle(&machine), "{step:?}");
        machine.check_nothing_is_lost();
        check_scheme(&config, &*scheme).unwrap();
    }
    let counts = counts_of(&*scheme);
    machine.counts.retain(|_, value| *value > 0);
    assert_eq!(counts, machine.counts);
    counts
}

macro_rules! schemes {
    ($($test:ident: $kind:ident;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(400))]
            $(
                #[test]
                fn $test(config in config_of(SchemeKind::$kind), upgrades: bool, steps in steps()) {
                    run(config, upgrades, &steps);
                }
            )*
        }

        const TESTED: &[SchemeKind] = &[$(SchemeKind::$kind),*];
    };
}

schemes! {
    off_equals_the_oracle: Off;
    snooping_cache_equals_the_oracle: SnoopingCache;
    shared_cache_equals_the_oracle: SharedCache;
    prefetch_hint_equals_the_oracle: PrefetchHint;
    ddc_equals_the_oracle: Ddc;
    pbdc_equals_the_oracle: Pbdc;
    ddio_equals_the_oracle: Ddio;
}

#[test]
fn every_scheme_is_compared_with_the_oracle() {
    assert_eq!(TESTED, SchemeKind::ALL);
}

#[test]
fn the_random_steps_reach_every_count() {
    let mut runner = TestRunner::deterministic();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..40 {
        for &kind in SchemeKind::ALL {
            let draw = (config_of(kind), any::<bool>(), steps());
            let (config, upgrades, steps) = draw.new_tree(&mut runner).expect("nothing is refused").current();
            for (name, value) in run(config, upgrades, &steps) {
                *sums.entry(name).or_default() += value;
            }
        }
    }
    let of_class =
        ["references", "last level hits", "dma cache hits", "memory reads", "memory writes", "cycles"];
    for &class in TapClass::ALL {
        for count in of_class {
            let name = format!("{} {count}", class.name());
            // What the processor passes down always goes to the last level.
            assert!(sums.contains_key(&name) || name == "cpu-write dma cache hits", "{name}");
        }
    }
    for name in [
        "io accesses",
        "io hits",
        "replaced dirty",
        "prefetches",
        "prefetches used",
        "cpu lines evicted",
        "device lines evicted",
        "written",
        "read from dma cache",
        "read from last level",
        "read from memory after eviction",
        "read from memory",
        "overwritten by device",
        "overwritten by cpu",
        "evicted unread",
        "last fills",
        "last evictions",
        "last invalidated",
        "last flushed",
        "io fills",
        "io evictions",
        "io invalidated",
        "io flushed",
    ] {
        assert!(sums.contains_key(name), "{name}");
    }
}
