//! These tests compare lanes that are simulated as one, because no cache depends on placement, with the same lanes
//! simulated each by itself.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Event, SMALL, behind_warm_up, event, machine, reference, run, short_and_long};
use binhop_sim::{Machine, Outcome, RunOptions, explain};
use binhop_trace::Op;
use proptest::prelude::*;

/// Sizes of memory. In the second, pages are evicted early.
const MEMORIES: [&str; 2] = ["4MiB", "96KiB"];

/// `Shape` is a drawn machine that has no set that depends on a frame.
#[derive(Clone, Debug)]
struct Shape {
    memory: usize,
    tag: &'static str,
    replacement: &'static str,
    write: &'static str,
    /// True if the caches have physical tags and an index within the page.
    physical: bool,
    inclusive: bool,
    buffer: bool,
    streams: bool,
    policy: &'static str,
}

prop_compose! {
    fn shape()(
        memory in 0..2usize,
        tag in prop::sample::select(vec!["asid", "global"]),
        replacement in prop::sample::select(vec!["lru", "fifo", "plru", "srrip"]),
        write in prop::sample::select(vec!["back", "through"]),
        physical in prop::bool::weighted(0.3),
        inclusive in prop::bool::weighted(0.3),
        buffer in prop::bool::weighted(0.3),
        streams in prop::bool::weighted(0.3),
        policy in prop::sample::select(vec!["random", "first", "bin-hopping", "buddy", "page-coloring"]),
    ) -> Shape {
        Shape { memory, tag, replacement, write, physical, inclusive, buffer, streams, policy }
    }
}

impl Shape {
    fn machine(&self) -> Option<Machine> {
        let by = match self.physical {
            true => String::new(),
            false => format!("index = \"virtual\"\ntag = \"{}\"\n", self.tag),
        };
        let (size, ways) = if self.physical { ("8KiB", 2) } else { ("16KiB", 4) };
        let buffer = if self.buffer { "[write-buffer.l1d]\nentries = 4\ndrain = 6\n" } else { "" };
        let streams =
            if self.streams { "[stream-buffers.l1i]\nbuffers = 1\n[stream-buffers.l2]\n" } else { "" };
        let pool = if ["random", "first"].contains(&self.policy) { ", pool = \"32KiB\"" } else { "" };
        let toml = format!(
            "memory = {{ size = \"{}\", page = \"4KiB\" }}\nplacement = {{ policy = \"{}\"{pool} }}\n\
             [cache.l1i]\nserves = \"fetch\"\nsize = \"2KiB\"\nline = \"32B\"\n{by}next = \"l2\"\n\
             [cache.l1d]\nserves = \"data\"\nsize = \"2KiB\"\nline = \"32B\"\nwrite = \"{}\"\n{by}\
             next = \"l2\"\n\
             [cache.l2]\nsize = \"{size}\"\nways = {ways}\nline = \"64B\"\nreplacement = \"{}\"\ninclusive = {}\n{by}\
             next = \"memory\"\n{buffer}{streams}[cost]\nl2 = 9\nmemory = 70\n",
            MEMORIES[self.memory], self.policy, self.write, self.replacement, self.inclusive
        );
        Machine::parse(&toml, "equal lanes", &[]).ok()
    }
}

fn plan(machine: &Machine, options: &RunOptions) -> String {
    explain(std::slice::from_ref(machine), &[String::new()], options, None).unwrap().join("\n")
}

const AS_ONE: &str = "no cache depends on placement, so one lane is simulated for up to 64";

fn assert_same(a: &Outcome, b: &Outcome, what: &str) {
    assert_eq!(a.results, b.results, "results: {what}");
    assert_eq!(a.series.whole().unwrap(), b.series.whole().unwrap(), "series: {what}");
    assert_eq!(a.processes.whole().unwrap(), b.processes.whole().unwrap(), "processes: {what}");
    assert_eq!(a.placements, b.placements, "placements: {what}");
    // A note says how often level 1 was simulated.
    let notes = |outcome: &Outcome| -> Vec<String> {
        outcome.notes.iter().filter(|note| !note.contains("simulated")).cloned().collect()
    };
    assert_eq!(notes(a), notes(b), "notes: {what}");
}

/// Compares lanes simulated as one with lanes simulated each by itself.
fn compare(machine: &Machine, events: &[Event], seeds: u64) {
    let options = RunOptions {
        seeds: (0..seeds).collect(),
        warmup: 40,
        interval: Some(300),
        log: true,
        ..RunOptions::default()
    };
    let events = behind_warm_up(options.warmup, events);
    assert!(plan(machine, &options).contains(AS_ONE), "{}", plan(machine, &options));
    let as_one = run(machine, &events, 700, &options);
    let alone = RunOptions { share: false, ..options.clone() };
    assert!(!plan(machine, &alone).contains(AS_ONE));
    assert_same(&as_one, &run(machine, &events, 700, &alone), "as one, or each by itself");
    let threads = RunOptions { threads: 2, ..options.clone() };
    assert_same(&as_one, &run(machine, &events, 700, &threads), "one thread, or two");
    assert_same(&as_one, &run(machine, &events, 9, &options), "whatever the batches");
}

#[test]
fn lanes_that_may_differ_are_simulated_each_by_itself() {
    let options = |seeds: u64| RunOptions { seeds: (0..seeds).collect(), ..RunOptions::default() };
    let set = |name: &str, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_string()).collect();
        Machine::load(name, &settings).unwrap()
    };
    let softvm = set("softvm", &["translation=on"]);
    assert!(plan(&softvm, &options(2)).contains(AS_ONE));
    assert!(!plan(&softvm, &options(1)).contains(AS_ONE));
    assert!(plan(&set("jm97", &["translation=on"]), &options(2)).contains(AS_ONE));
    assert!(plan(&set("two-level", &[]), &options(2)).contains(AS_ONE));
    for (name, settings) in [
        ("kh90", &[][..]),
        ("two-level", &["cache.l2.ways=2", "cache.l2.replacement=random"]),
        ("jm97", &["translation=on", "translation.table=inverted"]),
        ("jm97", &["cache.l2d.index=physical", "cache.l2d.tag=physical"]),
    ] {
        assert!(!plan(&set(name, settings), &options(2)).contains(AS_ONE), "{name} {settings:?}");
    }
    let watched = RunOptions { watch: Some("l2d".to_string()), ..options(2) };
    assert!(!plan(&softvm, &watched).contains(AS_ONE));
}

#[test]
fn many_lanes_in_two_threads_are_each_lane_alone() {
    let shape = Shape {
        memory: 1,
        tag: "asid",
        replacement: "lru",
        write: "back",
        physical: false,
        inclusive: false,
        buffer: false,
        streams: false,
        policy: "random",
    };
    // Pages are evicted behind the first third of the references.
    let events: Vec<Event> = (0..3000u32)
        .map(|number| {
            let page = if number < 1000 { number % 7 } else { number * 13 % 37 };
            let op = if number % 3 == 0 { Op::Store } else { Op::Load };
            Event::Data { op, page: page as u8, offset: (number * 328 % 4088) as u16, size: 8 }
        })
        .collect();
    compare(&shape.machine().unwrap(), &events, 70);
    let identity = SMALL.iter().position(|(name, _)| *name == "physical = virtual").unwrap();
    compare(&machine(identity), &events, 70);
}

fn compare_drawn(shape: &Shape, events: &[Event], seeds: u64) {
    if let Some(machine) = shape.machine() {
        compare(&machine, events, seeds);
    }
}

short_and_long! { many_equal_lanes: 12, 200;
    fn lanes_as_one_or_each_by_itself(
        shape in shape(), seeds in 2..6u64, events in prop::collection::vec(event(), 1..1500)
    ) {
        compare_drawn(&shape, &events, seeds);
    }

    fn lanes_as_one_or_each_by_itself_under_references(
        shape in shape(), events in prop::collection::vec(reference(), 1..3000)
    ) {
        compare_drawn(&shape, &events, 3);
    }
}
