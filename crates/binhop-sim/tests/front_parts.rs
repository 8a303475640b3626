//! These tests compare caches with lines of several sizes, and every scheme below them, with machines in which each
//! word of every copy has a version. The slow machine stops if a read returns stale data, or if a dirty part is lost.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ops::Range;

use crate::caches::for_schemes::{compare, design, event, reply};
use crate::common::{Fixed, short_and_long};
use binhop_hw::{FixedLatency, LineMemory, Replacement, SchemeKind, WritePolicy, check_scheme, make_scheme};
use binhop_oracle::dma::{DmaMachine, WORDS};
use binhop_oracle::dma_parts::{PartCache, PartFront, PartMachine, PartOp};
use binhop_sim::device_data::FrontEvent;
use binhop_sim::io_path::{NON_TEMPORAL, RUNNING_SPACE};
use binhop_sim::{Machine, RunOptions, front_stream};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const MEMORY: u64 = 100;

/// The bytes of the lines of the instruction cache, the data cache, the caches behind both, and the last level.
const LINES: [&[u64]; 9] = [
    &[64, 64, 64],
    &[64, 64, 64, 64],
    &[64, 64, 128],
    &[32, 16, 64],
    &[16, 32, 256],
    &[64, 64, 128, 128],
    &[32, 16, 64, 128],
    &[16, 64, 64, 64],
    &[16, 16, 32, 64, 128],
];

/// Stands before the keys of a cache's stream buffers.
const STREAMS: &str = "streams:";

/// Makes a machine of four frames whose caches have two sets: one way in level 1, two ways in the last level but one,
/// four ways in the last level. `keys` has further keys of each cache of the front, such as its write policy, and behind
/// [`STREAMS`] the keys of its stream buffers.
fn machine(lines: &[u64], tags: &str, keys: &[&str]) -> Machine {
    let last = lines.len() - 1;
    let mut toml = format!(
        "memory = {{ size = \"{}B\", page = \"{PAGE}B\" }}\n\
         placement = {{ policy = \"buddy\" }}\n\
         [io]\ndma-cache = \"{}B\"\ndma-cache-ways = 2\n",
        4 * PAGE,
        4 * lines[last],
    );
    for (number, line) in lines.iter().enumerate() {
        let (name, serves, ways) = match number {
            0 => ("l1i".to_owned(), "serves = \"fetch\"\n", 1),
            1 => ("l1d".to_owned(), "serves = \"data\"\n", 1),
            _ => (format!("l{number}"), "", if number == last { 4 } else { 2 }),
        };
        let next = if number == last { "memory".to_owned() } else { format!("l{}", number.max(1) + 1) };
        let more = if number == last { "" } else { keys[number] };
        let (key, streams) = more.split_once(STREAMS).map_or((more, ""), |(keys, streams)| (keys, streams));
        if !streams.is_empty() {
            toml += &format!("[stream-buffers.{name}]\n{streams}");
        }
        toml += &format!(
            "[cache.{name}]\n{serves}size = \"{}B\"\nline = \"{line}B\"\nways = {ways}\n{tags}{key}next = \"{next}\"\n",
            2 * ways * line,
        );
    }
    Machine::parse(&toml, "parts", &[]).unwrap_or_else(|problem| panic!("{toml}\n{problem}"))
}

/// Returns the front of a machine as the slow model describes it.
pub fn slow_front(front: &Machine, word: u64) -> PartFront {
    let config = front.tree().config();
    assert_eq!((config.fetch, config.data), (0, 1));
    let caches = crate::caches::for_oracle::configs(config).into_iter();
    PartFront {
        caches: caches
            .map(|cache| PartCache {
                line: cache.line / word,
                sets: cache.sets,
                ways: cache.ways,
                next: cache.next,
                writes_back: cache.write == "back",
                allocates: cache.allocate,
                is_inclusive: cache.inclusive,
                streams: cache.streams,
            })
            .collect(),
        page: PAGE / word,
        flushes_pages: front.has_virtual_tags(),
    }
}

fn trace(ops: &[PartOp], word: u64) -> EventBatch {
    let mut rows = EventBuilder::default();
    for op in ops {
        let mut transfer = |op, words: &Range<u64>, device| {
            let bytes = (words.end - words.start) * word;
            rows.push_args(op, words.start * word, bytes as u32, device, [Some(0), Some(RUNNING_SPACE)]);
        };
        match op {
            PartOp::StorePast(words) => transfer(Op::DmaWrite, words, NON_TEMPORAL),
            PartOp::DeviceRead(words) => transfer(Op::DmaRead, words, 9),
            PartOp::DeviceWrite(words) => transfer(Op::DmaWrite, words, 9),
            PartOp::Fetch(at) => rows.push(Op::Fetch, at * word, word as u32, 1),
            PartOp::Load(at) => rows.push(Op::Load, at * word, word as u32, 1),
            PartOp::Store(at) => rows.push(Op::Store, at * word, word as u32, 1),
            // The page dies, and its frame is the only frame for the page that is loaded next.
            PartOp::ChangeFrame(at) => rows.push(Op::Unmap, at * word / PAGE * PAGE, 0, 1),
        }
    }
    rows.finish()
}

/// Runs one front, and every scheme below it that is for its tags, beside the slow machine.
fn check(machine: &Machine, drawn: &[PartOp], choices: (bool, bool, u64)) {
    let (random, through, seed) = choices;
    let word = machine.longest_line().bytes() / WORDS as u64;
    // Six lines of the first page and six of the second page.
    let base = PAGE / word - 6 * WORDS as u64;
    let moved = |words: &Range<u64>| words.start + base..words.end + base;
    // The first loads give page n frame n, and no other page has a frame.
    let first = [0, 1, 2, 3].map(|page| PartOp::Load(page * PAGE / word));
    let drawn = drawn.iter().flat_map(|op| match op {
        PartOp::Fetch(at) => vec![PartOp::Fetch(at + base)],
        PartOp::Load(at) => vec![PartOp::Load(at + base)],
        PartOp::Store(at) => vec![PartOp::Store(at + base)],
        PartOp::StorePast(words) => vec![PartOp::StorePast(moved(words))],
        PartOp::DeviceRead(words) => vec![PartOp::DeviceRead(moved(words))],
        PartOp::DeviceWrite(words) => vec![PartOp::DeviceWrite(moved(words))],
        PartOp::ChangeFrame(at) => vec![PartOp::ChangeFrame(at + base), PartOp::Load(at + base)],
    });
    let ops: Vec<PartOp> = first.into_iter().chain(drawn).collect();
    let front = machine.front().unwrap();
    let mut events = Vec::new();
    let mut take = |_, some: &[FrontEvent]| {
        events.extend(some.iter().filter_map(|event| match *event {
            FrontEvent::Line(event) => Some(event),
            FrontEvent::Request(_) => None,
        }));
        Ok(())
    };
    let source = Box::new(Fixed::new(trace(&ops, word), 7));
    let options = RunOptions { seeds: vec![3], ..RunOptions::default() };
    front_stream(&front, source, &options, &mut take, &mut |_| Ok(())).unwrap();
    let virtually = machine.has_virtual_tags();
    for &kind in SchemeKind::ALL.iter().filter(|kind| kind.is_for_virtual_tags() == virtually) {
        let mut config = machine.scheme(kind).unwrap();
        config.last_level.replacement = if random { Replacement::Random } else { Replacement::Lru };
        config.write = if through { WritePolicy::Through } else { WritePolicy::Back };
        config.seed = seed;
        let mut scheme = make_scheme(&config).unwrap();
        let mut memory = FixedLatency { cycles: MEMORY };
        let below = DmaMachine::new(design(&config, MEMORY, None), false);
        let mut slow = PartMachine::new(slow_front(&front, word), below);
        let mut found = events.iter();
        for op in &ops {
            for (tapped, expected) in slow.step(op) {
                let of_front = found.next().copied();
                assert_eq!(of_front, Some(event(tapped)), "{}: {op:?}", kind.name());
                let answer = scheme.event(event(tapped), &mut memory);
                assert_eq!(reply(answer), expected, "{}: {op:?}: {tapped:?}", kind.name());
                if let (Some(class), Some(answer)) = (event(tapped).class(), answer) {
                    memory.pass(class, answer.cycles);
                }
            }
            slow.check_nothing_is_lost();
            compare(&*scheme, &slow.below);
            check_scheme(&config, &*scheme).unwrap();
        }
        assert_eq!(found.next(), None);
    }
}

/// Draws words of twelve lines. Every fourth line has instructions, and the other lines have data.
fn op() -> impl Strategy<Value = PartOp> {
    const LINE: u64 = WORDS as u64;
    let data = || (0u64..3, 0u64..3, 0..LINE).prop_map(|(of, line, word)| (4 * of + line) * LINE + word);
    let code = (0u64..3, 0..LINE).prop_map(|(of, word)| (4 * of + 3) * LINE + word);
    // Many transfers begin or end where a line or a part does.
    let edge = || prop_oneof![0..12 * LINE, (0..24u64).prop_map(|half| half * LINE / 2)];
    let words = || (edge(), prop_oneof![1..4 * LINE, (1..5u64).prop_map(|half| half * LINE / 2)]);
    let words = move || words().prop_map(|(first, count)| first..(first + count).min(12 * LINE));
    prop_oneof![
        2 => code.prop_map(PartOp::Fetch),
        8 => data().prop_map(PartOp::Load),
        8 => data().prop_map(PartOp::Store),
        1 => words().prop_map(PartOp::StorePast),
        3 => words().prop_map(PartOp::DeviceRead),
        3 => words().prop_map(PartOp::DeviceWrite),
        1 => data().prop_map(PartOp::ChangeFrame),
    ]
}

short_and_long! { many_parts: 15, 1000;
    fn versions_of_parts_are_the_newest_under_every_scheme(
        lines in prop::sample::select(&LINES[..]),
        ops in prop::collection::vec(op(), 1..150),
        choices in (any::<bool>(), any::<bool>(), any::<u64>()),
        keys in prop::collection::vec(prop::sample::select(&WRITES[..]), 4),
        inclusive in prop::option::weighted(0.3, 2..4usize),
        streams in prop::collection::vec(prop::option::weighted(0.4, (1..4u32, 1..5u32)), 4),
    ) {
        // The instruction cache is never written.
        let mut keys: Vec<String> = [""].into_iter().chain(keys).map(str::to_owned).collect();
        if let Some(cache) = inclusive {
            keys[cache] += "inclusive = true\n";
        }
        for (cache, streams) in streams.iter().enumerate() {
            // No cache above an inclusive cache has stream buffers.
            if let Some((buffers, depth)) = streams.filter(|_| inclusive.is_none_or(|inclusive| cache >= inclusive)) {
                keys[cache] += &format!("{STREAMS}buffers = {buffers}\ndepth = {depth}\n");
            }
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        check(&machine(lines, "", &keys), &ops, choices);
        check(&machine(lines, "index = \"virtual\"\ntag = \"asid\"\n", &keys), &ops, choices);
    }
}

/// The write policies of a cache: write-back with allocation, which is usual, and others.
const WRITES: [&str; 6] =
    ["", "", "", "allocate = false\n", "write = \"through\"\n", "write = \"through\"\nallocate = false\n"];

/// The data cache writes through, and has a stream buffer. A store reads a line that is dirty in the DMA cache. The
/// lines that the buffer reads ahead push this line out of level 2 before the store comes there. The rest of the line
/// must not be lost.
#[test]
fn a_store_behind_stream_buffers_loses_nothing_of_a_devices_line() {
    let keys = format!("write = \"through\"\n{STREAMS}buffers = 1\ndepth = 4\n");
    let front = machine(&[64, 64, 64, 64], "", &["", &keys, ""]);
    let line = WORDS as u64;
    let ops = [
        PartOp::DeviceWrite(0..line + 8),
        PartOp::Store(line),
        PartOp::Load(5 * line),
        PartOp::Load(line + 1),
    ];
    check(&front, &ops, (false, false, 0));
}

/// The data cache writes through, and no other cache lies before the last level. A device's line is dirty in the DMA
/// cache. A store reads the line and is passed down: the rest of the line must not be lost.
#[test]
fn a_store_through_the_front_loses_nothing_of_a_devices_line() {
    let front = machine(&[64, 64, 64], "", &["", "write = \"through\"\n"]);
    let line = WORDS as u64;
    let ops = [PartOp::DeviceWrite(0..line), PartOp::Store(0), PartOp::Load(2 * line), PartOp::Load(1)];
    check(&front, &ops, (false, false, 1));
}
