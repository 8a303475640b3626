//! `device_data_bench` prints how fast memory with a controller serves the references of `file-copy` below level 2 of the
//! machine `tb10`, under one placement: first the controller alone, which gets the requests of a scheme, then scheme,
//! protocol and controller together. The references are held in memory, so a figure contains neither the front nor the
//! workload; 16 M references of the workload are its default length. Each figure is that of the best of three passes.
//!
//! `cargo run --release -p binhop-sim --example device_data_bench [REFERENCES]`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use binhop_hw::{
    Dram, DramConfig, DramMemory, DramRequest, LineMemory, SchemeConfig, SchemeKind, TapEvent, make_scheme,
};
use binhop_sim::device_data::FrontEvent;
use binhop_sim::io_path::IoEvents;
use binhop_sim::{Machine, RunOptions, front_stream};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PASSES: usize = 3;
const MEMORIES: [&str; 2] = ["ddr2-666", "ddr4-2400"];

fn main() {
    let length = std::env::args().nth(1).map_or(16_000_000, |text| text.parse().unwrap());
    let (events, references) = stored(length);
    for name in MEMORIES {
        let machine = machine(name);
        for kind in [SchemeKind::SnoopingCache, SchemeKind::Ddc] {
            let requests = requests(&machine, kind, &events);
            let config = machine.dram().unwrap().config;
            let what = format!("controller alone, {name}, requests of {}", kind.name());
            print(&what, requests.len(), "requests", || serve(config, &requests));
            let at_once: Vec<_> =
                requests.iter().map(|request| DramRequest { arrival: 0, ..*request }).collect();
            print(&format!("{what}, all at once"), requests.len(), "requests", || serve(config, &at_once));
        }
        for &kind in SchemeKind::ALL {
            print(&format!("{} and {name}", kind.name()), references, "references", || {
                black_box(run(&machine, kind, &events, false).1);
            });
        }
    }
}

fn print(what: &str, count: usize, unit: &str, mut pass: impl FnMut()) {
    let best = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            pass();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{what:<70} {count:>9} {unit:<10} {:>6.2} M/s {best:>8.3} s", count as f64 / best / 1e6);
}

fn machine(memory: &str) -> Machine {
    Machine::load("tb10", &[format!("dram.preset={memory}")]).unwrap()
}

/// Returns the events below level 2 during the first `length` references of the workload, and the number of references among
/// these events.
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

/// Lets a scheme and its memory handle all events.
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
