//! `device_data_bench` prints how fast schemes serve the references of `file-copy` below level 2 of the machine `tb10`,
//! under one placement. Before memory of fixed latency it measures each scheme alone, and the five schemes of TB10
//! together. Before memory with a controller it first measures the controller alone, which gets the requests of a
//! scheme, and then scheme, protocol and controller together. The references are held in memory, so a figure contains
//! neither the front nor the workload; 16 M references of the workload are its default length. Each figure is the
//! processor time of the best of three passes. A second figure is the time that 40 M references or requests take at the
//! same speed.
//!
//! `cargo run --release -p binhop-sim --example device_data_bench [REFERENCES [WORD]]`: only figures whose name has the
//! word.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use binhop_hw::{
    Dram, DramConfig, DramMemory, DramRequest, LineMemory, Scheme, SchemeConfig, SchemeKind, TapEvent,
    make_scheme,
};
use binhop_sim::device_data::FrontEvent;
use binhop_sim::io_path::IoEvents;
use binhop_sim::{Machine, RunOptions, front_stream};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PASSES: usize = 3;
/// The number of events in a block. Every scheme handles a block before the next block. A front passes on about as many
/// events at once.
const BLOCK: usize = 1 << 18;
const MEMORIES: [&str; 3] = ["ddr2-666", "ddr4-2400", "ddr5-4800"];

/// The schemes of TB10.
const OF_TB10: [SchemeKind; 5] = [
    SchemeKind::SnoopingCache,
    SchemeKind::SharedCache,
    SchemeKind::PrefetchHint,
    SchemeKind::Ddc,
    SchemeKind::Pbdc,
];

fn main() {
    let length = std::env::args().nth(1).map_or(16_000_000, |text| text.parse().unwrap());
    let (events, references) = stored(length);
    for &kind in SchemeKind::ALL.iter().filter(|kind| !kind.is_for_virtual_tags()) {
        print(&format!("{} and a fixed latency", kind.name()), references, "references", || {
            fixed(&[kind], &events);
        });
    }
    print("the five of TB10 and a fixed latency", references, "references", || fixed(&OF_TB10, &events));
    for name in MEMORIES {
        let machine = machine(name);
        for kind in [SchemeKind::SnoopingCache, SchemeKind::Ddc, SchemeKind::Ddio] {
            let what = format!("controller alone, {name}, requests of {}", kind.name());
            if !is_wanted(&what) {
                continue;
            }
            let requests = requests(&machine, kind, &events);
            let config = machine.dram().unwrap().config;
            print(&what, requests.len(), "requests", || serve(config, &requests));
            let at_once: Vec<_> =
                requests.iter().map(|request| DramRequest { arrival: 0, ..*request }).collect();
            print(&format!("{what}, all at once"), requests.len(), "requests", || serve(config, &at_once));
        }
        for &kind in SchemeKind::ALL.iter().filter(|kind| !kind.is_for_virtual_tags()) {
            print(&format!("{} and {name}", kind.name()), references, "references", || {
                black_box(run(&machine, kind, &events, false).1);
            });
        }
    }
}

/// Returns whether the figure's name has the word that was asked for.
fn is_wanted(what: &str) -> bool {
    std::env::args().nth(2).is_none_or(|word| what.contains(&word))
}

fn print(what: &str, count: usize, unit: &str, mut pass: impl FnMut()) {
    if !is_wanted(what) {
        return;
    }
    let best = (0..PASSES)
        .map(|_| {
            let start = now();
            pass();
            now() - start
        })
        .fold(f64::INFINITY, f64::min);
    let speed = count as f64 / best / 1e6;
    println!(
        "{what:<66} {count:>9} {unit:<10} {speed:>6.2} M/s {best:>7.3} s; 40 M: {:>6.2} s",
        40.0 / speed
    );
}

/// Returns the seconds that this thread has run. If the system does not report it, this returns the wall time.
fn now() -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = ran.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| Instant::now().duration_since(*BEGUN).as_secs_f64(), |time| time / 1e9)
}

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Makes schemes handle all events before memory of fixed latency, block by block.
fn fixed(kinds: &[SchemeKind], events: &[TapEvent]) {
    let machine = Machine::load("tb10", &[]).unwrap();
    let mut memory = machine.memory_of_schemes();
    let made = |&kind| make_scheme(&SchemeConfig { seed: 0, ..machine.scheme(kind).unwrap() }).unwrap();
    let mut schemes: Vec<Box<dyn Scheme>> = kinds.iter().map(made).collect();
    for block in events.chunks(BLOCK) {
        for scheme in &mut schemes {
            for &event in block {
                black_box(scheme.event(event, &mut memory));
            }
        }
    }
}

fn machine(memory: &str) -> Machine {
    Machine::load("tb10", &[format!("dram.preset={memory}")]).unwrap()
}

/// Returns the events below level 2 during the first `length` references of the workload, and the number of references
/// among these events.
fn stored(length: u64) -> (Vec<TapEvent>, usize) {
    let (mut events, mut references) = (Vec::new(), 0);
    let mut take = |_: usize, front: &[FrontEvent]| {
        for event in front {
            if let FrontEvent::Line(event) = *event {
                events.push(event);
                references += usize::from(event.class().is_some());
            }
        }
        Ok(())
    };
    let machine = machine(MEMORIES[0]);
    let source = Box::new(binhop_workload::open("file-copy", 0).unwrap());
    let source = Box::new(IoEvents::new(source, *machine.io()).unwrap());
    let front = machine.front().unwrap();
    let options = RunOptions { seeds: vec![0], length: Some(length), ..RunOptions::default() };
    front_stream(&front, source, &options, &mut take, &mut |_| Ok(())).unwrap();
    (events, references)
}

/// Makes a scheme and its memory handle all events.
fn run(machine: &Machine, kind: SchemeKind, events: &[TapEvent], keeps: bool) -> (DramMemory, u64) {
    let setup = machine.scheme_setup(kind, kind.name()).unwrap();
    let mut scheme = make_scheme(&SchemeConfig { seed: 0, ..setup.config }).unwrap();
    let dram = setup.dram.unwrap();
    let mut memory = DramMemory::new(dram.config, dram.ratio).unwrap();
    if keeps {
        memory.keep_requests();
    }
    for &event in events {
        let answer = scheme.event(event, &mut memory);
        if let (Some(class), Some(answer)) = (event.class(), answer) {
            memory.pass(class, answer.cycles);
        }
    }
    let cycles = memory.finish();
    (memory, cycles)
}

fn requests(machine: &Machine, kind: SchemeKind, events: &[TapEvent]) -> Vec<DramRequest> {
    let mut requests = Vec::new();
    run(machine, kind, events, true).0.take_requests(&mut requests);
    requests
}

fn serve(config: DramConfig, requests: &[DramRequest]) {
    let mut dram = Dram::new(config).unwrap();
    for request in requests {
        dram.push(request, &mut ());
    }
    dram.finish(&mut ());
    black_box(dram.counters());
}
