//! Schemes for device data agree with machines in which every copy of a line has a version: in answers, counts and
//! contents. The slow machine stops if a reference sees old data, or if data are lost.

use std::num::NonZeroU32;

use binhop_base::{Bytes, PowerOfTwo};
use binhop_hw::{
    DmaCacheConfig, FixedLatency, HeldLine, LastLevelConfig, LineMemory, LineState, LineUse, PostedMemory,
    Replacement, Scheme, SchemeConfig, SchemeKind, ServedBy, TapAnswer, TapClass, TapEvent, WritePolicy,
    check_scheme, make_scheme,
};
use binhop_oracle::dma::{DmaDesign, DmaMachine, Held, Op, Reply, Tapped};
use proptest::prelude::*;

/// The counts of device data, as the slow model names them.
const NAMES: [&str; 7] = [
    "io accesses",
    "io hits",
    "replaced dirty",
    "prefetches",
    "prefetches used",
    "cpu lines evicted",
    "device lines evicted",
];
/// The fates of lines that devices wrote, as the slow model names them.
const FATES: [&str; 8] = [
    "written",
    "read from dma cache",
    "read from last level",
    "read from memory after eviction",
    "read from memory",
    "overwritten by device",
    "overwritten by cpu",
    "evicted unread",
];
const MEMORY: u64 = 100;
const LINE: u64 = 64;

#[derive(Clone, Copy, Debug)]
enum Act {
    Do(Op),
    /// Gives other ways to I/O data, under `pbdc`.
    Ways(u64),
}

fn act(lines: u64) -> impl Strategy<Value = Act> {
    let line = 0..lines;
    prop_oneof![
        8 => line.clone().prop_map(|line| Act::Do(Op::Load(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::Reload(line))),
        4 => line.clone().prop_map(|line| Act::Do(Op::Store(line))),
        1 => line.clone().prop_map(|line| Act::Do(Op::StoreThrough(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::StorePast(line))),
        6 => line.clone().prop_map(|line| Act::Do(Op::Evict(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::EvictPart(line))),
        5 => line.clone().prop_map(|line| Act::Do(Op::DeviceRead(line))),
        6 => (line, prop::bool::weighted(0.8)).prop_map(|(line, whole)| Act::Do(Op::DeviceWrite(line, whole))),
        1 => (1..15u64).prop_map(Act::Ways),
    ]
}

fn config() -> impl Strategy<Value = SchemeConfig> {
    let sizes = (0..3u32, 1..4u32, 0..3u32, 1..4u32);
    let choices = (any::<bool>(), any::<bool>(), 0..5u32, 1..15u64, 1..4u32, any::<u64>());
    (prop::sample::select(SchemeKind::ALL), sizes, choices).prop_map(
        |(kind, (sets, ways, io_sets, io_ways), (random, through, degree, mask, ddio, seed))| {
            let ways = match kind {
                SchemeKind::Pbdc => 4,
                SchemeKind::Ddio => ways + 1,
                _ => ways,
            };
            let bytes = |sets: u32, ways: u32| Bytes((u64::from(ways) << sets) * LINE);
            SchemeConfig {
                kind,
                line: PowerOfTwo::from_log2(6),
                page: PowerOfTwo::from_log2(9),
                last_level: LastLevelConfig {
                    size: bytes(sets, ways),
                    ways,
                    replacement: if random { Replacement::Random } else { Replacement::Lru },
                    cycles: 20,
                },
                write: if through { WritePolicy::Through } else { WritePolicy::Back },
                dma_cache: DmaCacheConfig { size: bytes(io_sets, io_ways), ways: io_ways, cycles: 7 },
                prefetch_degree: degree,
                io_ways: mask,
                ddio_ways: ddio.min((ways - 1).max(1)),
                seed,
            }
        },
    )
}

/// Returns the machine that the slow model simulates.
fn design(config: &SchemeConfig, posted: Option<NonZeroU32>) -> DmaDesign {
    let sets = |size: Bytes, ways: u32| size.0 / LINE / u64::from(ways);
    let last = config.last_level;
    let mut design = DmaDesign {
        scheme: config.kind.name(),
        // DDIO always writes back.
        through: config.write == WritePolicy::Through && config.kind != SchemeKind::Ddio,
        sets: sets(last.size, last.ways),
        ways: last.ways as usize,
        random: last.replacement == Replacement::Random,
        io_sets: 0,
        io_ways: 0,
        degree: config.prefetch_degree.into(),
        page: config.page.bytes() / LINE,
        ddio_ways: config.ddio_ways as usize,
        cycles: last.cycles,
        io_cycles: [0; 2],
        memory: MEMORY,
        posted: posted.map(|places| places.get() as usize),
        seed: config.seed,
    };
    match config.kind {
        SchemeKind::Ddc => {
            let cache = config.dma_cache;
            (design.io_sets, design.io_ways) = (sets(cache.size, cache.ways), cache.ways as usize);
            design.io_cycles = [cache.cycles; 2];
        }
        SchemeKind::Pbdc => {
            design.io_ways = config.io_ways.count_ones() as usize;
            (design.io_sets, design.ways) = (design.sets, 4 - design.io_ways);
            // The processor looks into its own ways first.
            design.io_cycles = [2 * last.cycles, last.cycles];
        }
        SchemeKind::Flush => design.sets = 0,
        _ => {}
    }
    design
}

fn event((what, line, flag): Tapped) -> TapEvent {
    match what {
        "read" => TapEvent::Read { line, store: flag },
        "write back" => TapEvent::WriteBack { line },
        "clean eviction" => TapEvent::CleanEviction { line, whole: flag },
        "cleaned" => TapEvent::Cleaned { line },
        "upgrade" => TapEvent::Upgrade { line },
        "partial store" => TapEvent::PartialStore { line },
        "device read" => TapEvent::DeviceRead { line, request: 0 },
        "device write" => TapEvent::DeviceWrite { line, whole: flag, request: 0 },
        other => panic!("no event is called {other}"),
    }
}

fn reply(answer: Option<TapAnswer>) -> Reply {
    let name = |served| match served {
        ServedBy::Memory => "memory",
        ServedBy::LastLevel => "last level",
        ServedBy::DmaCache => "dma cache",
    };
    answer.map(|answer| (name(answer.served), answer.cycles))
}

/// Returns every line of a slow cache as the fast model names it.
fn lines(cache: ServedBy, ways: &[Vec<Option<Held>>]) -> Vec<HeldLine> {
    let state = |letter| match letter {
        'M' => LineState::Modified,
        'O' => LineState::Owned,
        'E' => LineState::Exclusive,
        'S' => LineState::Shared,
        other => panic!("no state is called {other}"),
    };
    let mut all = Vec::new();
    for (set, held) in ways.iter().enumerate() {
        for (way, held) in held.iter().enumerate() {
            let Some(Held { line, state: letter, of_device, prefetched, .. }) = *held else { continue };
            all.push(HeldLine { cache, set, way, line, state: state(letter), of_device, prefetched });
        }
    }
    all
}

/// Compares what both have counted and hold.
fn compare(scheme: &dyn Scheme, slow: &DmaMachine) {
    let counts = |name: &str| slow.counts.get(name).copied().unwrap_or(0);
    let fast = scheme.counters();
    for &class in TapClass::ALL {
        let (of, name) = (&fast[class], class.name());
        let expected =
            ["references", "last level hits", "dma cache hits", "memory reads", "memory writes", "cycles"]
                .map(|what| counts(&format!("{name} {what}")));
        let found = [
            of.references,
            of.hits_last_level,
            of.hits_dma_cache,
            of.memory_reads,
            of.memory_writes,
            of.cycles,
        ];
        assert_eq!(found, expected, "{name}");
    }
    let data = fast.device_data;
    let expected = NAMES.map(counts);
    let found = [
        data.io_accesses,
        data.io_hits,
        data.writes_replacing_dirty,
        data.prefetches,
        data.prefetches_used,
        data.cpu_lines_evicted,
        data.device_lines_evicted,
    ];
    assert_eq!(found, expected, "{NAMES:?}");
    let fates = fast.fates;
    let found = [
        fates.written,
        fates.read_from_dma_cache,
        fates.read_from_last_level,
        fates.read_after_eviction,
        fates.read_from_memory,
        fates.overwritten_by_device,
        fates.overwritten_by_cpu,
        fates.evicted_unread,
    ];
    assert_eq!(found, FATES.map(counts), "{FATES:?}");
    for (cache, name) in [(ServedBy::LastLevel, "last"), (ServedBy::DmaCache, "io")] {
        if let Some(of) = scheme.line_counters(cache) {
            let expected = ["fills", "evictions", "invalidated", "flushed"];
            let expected = expected.map(|what| counts(&format!("{name} {what}")));
            assert_eq!([of.fills, of.evictions, of.invalidated, of.flushed], expected, "{name}");
        }
    }
    let mut contents = scheme.contents();
    let mut expected = lines(ServedBy::LastLevel, &slow.last);
    expected.extend(lines(ServedBy::DmaCache, &slow.io));
    contents.sort_unstable();
    expected.sort_unstable();
    assert_eq!(contents, expected);
}

/// Gives other ways to I/O data. Returns the dirty lines that each model wrote.
fn regroup(
    scheme: &mut dyn Scheme,
    memory: &mut dyn LineMemory,
    slow: &mut DmaMachine,
    (before, after): (u64, u64),
) -> (u64, u64) {
    let kept = |before: u64, after: u64| -> Vec<Option<usize>> {
        let rank = |way: u32| (before & ((1 << way) - 1)).count_ones() as usize;
        (0..4)
            .filter(|way| after >> way & 1 == 1)
            .map(|way| (before >> way & 1 == 1).then(|| rank(way)))
            .collect()
    };
    let written = scheme.set_io_ways(after, memory).unwrap();
    (written, slow.regroup([kept(15 & !before, 15 & !after), kept(before, after)]))
}

fn run(config: &SchemeConfig, posted: Option<NonZeroU32>, reports_upgrades: bool, acts: &[Act]) {
    let mut scheme = make_scheme(config).unwrap();
    let mut slow = DmaMachine::new(design(config, posted), reports_upgrades);
    let fixed = FixedLatency { cycles: MEMORY };
    let mut memory: Box<dyn LineMemory> = match posted {
        Some(places) => Box::new(PostedMemory::new(fixed, places)),
        None => Box::new(fixed),
    };
    let mut mask = config.io_ways;
    for &act in acts {
        match act {
            Act::Do(op) => {
                for (tapped, expected) in slow.step(op) {
                    let event = event(tapped);
                    let answer = scheme.event(event, &mut *memory);
                    assert_eq!(reply(answer), expected, "{tapped:?}");
                    if let (Some(class), Some(answer)) = (event.class(), answer) {
                        memory.pass(class, answer.cycles);
                    }
                }
            }
            Act::Ways(other) if config.kind == SchemeKind::Pbdc => {
                let (written, expected) = regroup(&mut *scheme, &mut *memory, &mut slow, (mask, other));
                assert_eq!(written, expected);
                mask = other;
            }
            Act::Ways(_) => {}
        }
        compare(&*scheme, &slow);
        check_scheme(config, &*scheme).unwrap();
        slow.check_nothing_is_lost();
    }
}

/// Memory has 100 cycles and two places. Each line has what a reference waits, and the clock at its end.
#[test]
fn a_queue_of_two_posted_requests_by_hand() {
    use LineUse::{Demand, PostedWrite, Prefetch};
    let mut memory =
        PostedMemory::new(FixedLatency { cycles: MEMORY }, NonZeroU32::new(2).expect("not zero"));
    let mut reference = |line, line_use, in_caches, waits, ends| {
        let waited = memory.access(line, TapClass::CpuWrite, line_use);
        memory.pass(TapClass::CpuWrite, waited + in_caches);
        assert_eq!((waited, memory.clock()), (waits, ends));
    };
    reference(1, PostedWrite, 20, 0, 20); // done at 100
    reference(2, Prefetch, 20, 0, 40); // done at 120
    reference(3, PostedWrite, 20, 60, 120); // waits until 100 for the place of line 1; done at 200
    reference(4, PostedWrite, 10, 0, 130); // line 2 left at 120; done at 220
    reference(9, Demand, 0, 100, 230); // lines 3 and 4 are done
    reference(5, PostedWrite, 0, 0, 230); // done at 330
    reference(5, Demand, 20, 200, 450); // waits for the write of its line, and then reads
    reference(6, Prefetch, 30, 0, 480); // done at 550
    assert_eq!(memory.await_prefetch(7), 0);
    assert_eq!(memory.await_prefetch(6), 70);
    memory.pass(TapClass::CpuRead, 90);
    assert_eq!((memory.clock(), memory.await_prefetch(6)), (570, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn answers_counts_and_contents_are_those_of_versions(
        config in config(),
        posted in prop::option::of((1..5u32).prop_map(|places| NonZeroU32::new(places).unwrap())),
        reports_upgrades in any::<bool>(),
        acts in prop::collection::vec(act(24), 1..120),
    ) {
        run(&config, posted, reports_upgrades, &acts);
    }
}
