//! Translations of the fast schemes' configurations, answers and lines for the oracle. The tests of other crates also
//! use this file.

use std::num::NonZeroU32;

use binhop_base::Bytes;
use binhop_hw::{
    HeldLine, LineState, Replacement, Scheme, SchemeConfig, SchemeKind, ServedBy, TapAnswer, TapClass,
    TapEvent, WritePolicy,
};
use binhop_oracle::dma::{DmaDesign, DmaMachine, Held, Reply, Tapped};

/// The counts of device data, as the slow model names them.
const NAMES: [&str; 8] = [
    "io accesses",
    "io hits",
    "replaced dirty",
    "prefetches",
    "prefetches used",
    "cpu lines evicted",
    "system writes",
    "device lines evicted",
];
/// The fates of lines that devices wrote, as the slow model names them.
const FATES: [&str; 9] = [
    "written",
    "read from dma cache",
    "read from last level",
    "read from memory after eviction",
    "read from memory",
    "overwritten by device",
    "overwritten by cpu",
    "evicted unread",
    "purged unread",
];

/// Returns the machine that the slow model simulates.
pub fn design(config: &SchemeConfig, memory: u64, posted: Option<NonZeroU32>) -> DmaDesign {
    let line = config.line.bytes();
    let sets = |size: Bytes, ways: u32| size.0 / line / u64::from(ways);
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
        page: config.page.bytes() / line,
        ddio_ways: config.ddio_ways as usize,
        cycles: last.cycles,
        io_cycles: [0; 2],
        memory,
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
            (design.io_sets, design.ways) = (design.sets, design.ways - design.io_ways);
            // The processor looks into its own ways first.
            design.io_cycles = [2 * last.cycles, last.cycles];
        }
        SchemeKind::Flush => design.sets = 0,
        _ => {}
    }
    design
}

/// Returns an event of the slow model as the fast model names it. The number of its request is 0.
pub fn event((what, line, flag): Tapped) -> TapEvent {
    match what {
        "read" => TapEvent::Read { line, store: flag },
        "write back" => TapEvent::WriteBack { line },
        "clean eviction" => TapEvent::CleanEviction { line, whole: flag },
        "cleaned" => TapEvent::Cleaned { line },
        "upgrade" => TapEvent::Upgrade { line },
        "partial store" => TapEvent::PartialStore { line },
        "flushed" => TapEvent::Flushed { line },
        "system write" => TapEvent::SystemWrite { line },
        "device read" => TapEvent::DeviceRead { line, request: 0 },
        "device write" => TapEvent::DeviceWrite { line, whole: flag, request: 0 },
        other => panic!("no event is called {other}"),
    }
}

/// Returns an answer of the fast model as the slow model gives it.
pub fn reply(answer: Option<TapAnswer>) -> Reply {
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
pub fn compare(scheme: &dyn Scheme, slow: &DmaMachine) {
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
        data.system_writes,
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
        fates.purged_unread,
    ];
    assert_eq!(found, FATES.map(counts), "{FATES:?}");
    for (cache, name) in [(ServedBy::LastLevel, "last"), (ServedBy::DmaCache, "io")] {
        if let Some(of) = scheme.line_counters(cache) {
            let expected = ["fills", "evictions", "invalidated", "flushed", "purged", "purged dirty"];
            let expected = expected.map(|what| counts(&format!("{name} {what}")));
            let found = [of.fills, of.evictions, of.invalidated, of.flushed, of.purged, of.purged_dirty];
            assert_eq!(found, expected, "{name}");
        }
    }
    let mut contents = scheme.contents();
    let mut expected = lines(ServedBy::LastLevel, &slow.last);
    expected.extend(lines(ServedBy::DmaCache, &slow.io));
    contents.sort_unstable();
    expected.sort_unstable();
    assert_eq!(contents, expected);
}
