//! Schemes for device data agree with machines in which every copy of a line has a version: in answers, counts and
//! contents. The slow machine stops if a reference sees old data, or if data are lost.

use std::num::NonZeroU32;

use crate::common::for_schemes::{compare, design, event, reply};
use binhop_base::{Bytes, PowerOfTwo};
use binhop_hw::{
    DmaCacheConfig, FixedLatency, LastLevelConfig, LineMemory, LineUse, PostedMemory, Replacement, Scheme,
    SchemeConfig, SchemeKind, TapClass, WritePolicy, check_scheme, make_scheme,
};
use binhop_oracle::dma::{DmaMachine, Op};
use proptest::prelude::*;

const MEMORY: u64 = 100;

#[derive(Clone, Copy, Debug)]
enum Act {
    Do(Op),
    /// Gives other ways to I/O data, under `pbdc`.
    Ways(u64),
}

/// The lines of a case.
const LINES: u64 = 24;

/// Lines have 32 bytes, the fewest that are accepted, or 64.
const LINE_LOG2: [u32; 2] = [5, 6];

/// Returns where the lines of a case may begin: at the start of memory, or, where physical = virtual, in the kernel's
/// half or so that the last line is the last line of 64 bits.
fn first_lines(line: u64) -> [u64; 3] {
    [0, 0xffff_8000_0000_0000 / line, u64::MAX / line + 1 - LINES]
}

fn act(first: u64) -> impl Strategy<Value = Act> {
    let line = first..first + LINES;
    prop_oneof![
        8 => line.clone().prop_map(|line| Act::Do(Op::Load(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::Reload(line))),
        4 => line.clone().prop_map(|line| Act::Do(Op::Store(line))),
        1 => line.clone().prop_map(|line| Act::Do(Op::StoreThrough(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::StorePast(line))),
        6 => line.clone().prop_map(|line| Act::Do(Op::Evict(line))),
        2 => line.clone().prop_map(|line| Act::Do(Op::EvictPart(line))),
        1 => line.clone().prop_map(|line| Act::Do(Op::ChangeFrame(line))),
        5 => line.clone().prop_map(|line| Act::Do(Op::DeviceRead(line))),
        6 => (line, prop::bool::weighted(0.8)).prop_map(|(line, whole)| Act::Do(Op::DeviceWrite(line, whole))),
        1 => (1..15u64).prop_map(Act::Ways),
    ]
}

fn config(line_log2: u32) -> impl Strategy<Value = SchemeConfig> {
    let sizes = (0..3u32, 1..4u32, 0..3u32, 1..4u32);
    let choices = (any::<bool>(), any::<bool>(), 0..5u32, 1..15u64, 1..4u32, any::<u64>());
    (prop::sample::select(SchemeKind::ALL), sizes, choices).prop_map(
        move |(kind, (sets, ways, io_sets, io_ways), (random, through, degree, mask, ddio, seed))| {
            let ways = match kind {
                SchemeKind::Pbdc => 4,
                SchemeKind::Ddio => ways + 1,
                _ => ways,
            };
            let bytes = |sets: u32, ways: u32| Bytes(u64::from(ways) << (sets + line_log2));
            SchemeConfig {
                kind,
                line: PowerOfTwo::from_log2(line_log2),
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

/// Returns machines with what happens in them.
fn machines_and_acts() -> impl Strategy<Value = (SchemeConfig, Vec<Act>)> {
    prop::sample::select(&LINE_LOG2[..]).prop_flat_map(|line_log2| {
        let first = prop::sample::select(first_lines(1 << line_log2).to_vec());
        (config(line_log2), first.prop_flat_map(|first| prop::collection::vec(act(first), 1..120)))
    })
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
    let mut slow = DmaMachine::new(design(config, MEMORY, posted), reports_upgrades);
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
        (config, acts) in machines_and_acts(),
        posted in prop::option::of((1..5u32).prop_map(|places| NonZeroU32::new(places).unwrap())),
        reports_upgrades in any::<bool>(),
    ) {
        run(&config, posted, reports_upgrades, &acts);
    }
}
