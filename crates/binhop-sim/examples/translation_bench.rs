//! `translation_bench` prints what TLBs, page walks, and software at cache misses cost on a recorded trace, beside the
//! same machine without them.
//! Each figure is the least processor time of five runs; the runs of the machines alternate.
//!
//! `cargo run --release -p binhop-sim --example translation_bench TRACE [REFERENCES] [PLACEMENTS [MACHINE]]`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use binhop_base::Result;
use binhop_sim::machine::Machine;
use binhop_sim::{RunOptions, simulate};
use binhop_trace::{EventBatch, Meta, Source, TraceReader};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

/// Returns the seconds that the calling thread has run. A run with one thread stays on it.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// `Memory` is a trace held in memory.
struct Memory {
    batches: Arc<[EventBatch]>,
    meta: Meta,
    at: usize,
}

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        self.at += 1;
        Ok(self.batches.get(self.at - 1).cloned())
    }
}

const SIXTY_FOUR: &[&str] = &["tlb.tlb.serves=all", "tlb.tlb.entries=64"];
const TWO_LEVELS: &[&str] = &[
    "tlb.itlb.serves=fetch",
    "tlb.itlb.entries=64",
    "tlb.itlb.next=stlb",
    "tlb.dtlb.serves=data",
    "tlb.dtlb.entries=96",
    "tlb.dtlb.next=stlb",
    "tlb.stlb.entries=2048",
    "tlb.stlb.ways=8",
    "translation.second-level=7",
    "walk-cache.0.entries=4",
    "walk-cache.1.entries=16",
    "walk-cache.2.entries=64",
];

fn machine(name: &str, settings: &[&str]) -> Machine {
    let memory = ["memory.size=4GiB", "placement.pool=1GiB"];
    let on = ["translation=on", "translation.table=radix", "translation.reserve=64MiB"];
    let on = if settings.is_empty() { &[][..] } else { &on[..] };
    let all: Vec<String> = memory.iter().chain(on).chain(settings).map(ToString::to_string).collect();
    // The machine's own TLBs are removed, because the settings name other TLBs.
    let described = Machine::load(name, &[]).unwrap().resolved();
    let own = ["[tlb", "[translation", "[walk-cache"];
    let sections =
        described.split_inclusive("\n\n").filter(|section| !own.iter().any(|own| section.starts_with(own)));
    Machine::parse(&sections.collect::<String>(), name, &all).unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>().unwrap());
    let most = number(2).unwrap_or(100_000_000);
    let mut reader = TraceReader::open(arguments[1].as_ref()).unwrap();
    let meta = reader.meta().clone();
    let (mut batches, mut references) = (Vec::new(), 0);
    while let Some(batch) = reader.next_batch().unwrap() {
        let rows = batch.op().iter().zip(batch.count());
        references +=
            rows.map(|(&op, &count)| if op == 0 { u64::from(count) } else { u64::from(op < 4) }).sum::<u64>();
        batches.push(batch);
        if references >= most {
            break;
        }
    }
    let batches: Arc<[EventBatch]> = batches.into();
    println!("{references} references");
    let placements: Vec<u64> = number(3).map_or_else(|| vec![1, 32], |placements| vec![placements]);
    let softvm = |settings: &[&str]| {
        let all: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Machine::load("softvm", &all).unwrap()
    };
    let only = arguments.get(4);
    for name in ["zen-4k", "kh90", "softvm"].into_iter().filter(|name| only.is_none_or(|only| only == name)) {
        let machines = match name {
            "softvm" => vec![
                ("no translation", softvm(&[])),
                ("write-backs kept", softvm(&["translation=on", "translation.write-backs=kept"])),
                ("write-backs by table", softvm(&["translation=on"])),
            ],
            _ => vec![
                ("no TLB", machine(name, &[])),
                ("64 entries", machine(name, SIXTY_FOUR)),
                ("two levels, walk caches", machine(name, TWO_LEVELS)),
            ],
        };
        for &seeds in &placements {
            let options = RunOptions { seeds: (0..seeds).collect(), ..RunOptions::default() };
            let mut times = vec![Vec::new(); machines.len()];
            for run in 0..=RUNS {
                for ((_, machine), times) in machines.iter().zip(&mut times) {
                    let source =
                        Box::new(Memory { batches: Arc::clone(&batches), meta: meta.clone(), at: 0 });
                    let start = processor_time();
                    black_box(simulate(machine, source, &options, None, &mut |_| Ok(())).unwrap());
                    if run > 0 {
                        times.push(processor_time() - start);
                    }
                }
            }
            let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
            let plain = least(&times[0]);
            for ((what, _), times) in machines.iter().zip(&times) {
                let time = least(times);
                println!(
                    "{name:<8} {seeds:>2} placements, {what:<24} {:>8.1} M references/s {time:>8.3} s {:>+6.1}%",
                    references as f64 / time / 1e6,
                    100.0 * (time / plain - 1.0)
                );
            }
        }
    }
}
