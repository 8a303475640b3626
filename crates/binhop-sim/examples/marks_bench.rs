//! `marks_bench` prints the nanoseconds that a mark costs each lane. It simulates the same prepared rows with
//! marks and without, in turn, and takes the fastest of nine runs of each. The cost of a mark includes that
//! rows are simulated in more pieces.
//!
//! `cargo run --release -p binhop-sim --example marks_bench [REFERENCES] [WORKLOAD]`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use binhop_base::Result;
use binhop_sim::machine::Machine;
use binhop_sim::{Prepared, RunOptions};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Meta, Op, Source};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 9;
const SEEDS: u64 = 32;
/// The number of instructions between two marks of an interval.
const INTERVAL: u64 = 100;
/// The number of instructions between two changes of the process.
const SWITCH: u64 = 500;

/// `Memory` is a trace held in memory.
struct Memory {
    batch: Option<EventBatch>,
    meta: Meta,
}

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Ok(self.batch.take())
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let references: u64 = args.next().map_or(1_000_000, |text| text.parse().unwrap());
    let workload = args.next().unwrap_or_else(|| "mult2.2".to_string());
    for name in ["kh90", "zen-4k"] {
        let machine = Machine::load(name, &[]).unwrap();
        let (plain, instructions, _) = events(&workload, references, None);
        let (switched, _, switches) = events(&workload, references, Some(SWITCH));
        let intervals = instructions / INTERVAL;
        let cases = [
            ("no marks", 0, prepared(&machine, &plain, None)),
            ("an interval of 100 instructions", intervals, prepared(&machine, &plain, Some(INTERVAL))),
            ("a process runs for 500 instructions", switches, prepared(&machine, &switched, None)),
            ("both", intervals + switches, prepared(&machine, &switched, Some(INTERVAL))),
        ];
        let mut fastest = [f64::INFINITY; 4];
        for _ in 0..RUNS {
            for (fastest, (_, _, (rows, options))) in fastest.iter_mut().zip(&cases) {
                let start = Instant::now();
                black_box(rows.simulate(options).unwrap());
                *fastest = fastest.min(start.elapsed().as_secs_f64());
            }
        }
        for (seconds, (what, marks, _)) in fastest.into_iter().zip(cases).skip(1) {
            let each = (seconds - fastest[0]) / (marks * SEEDS) as f64 * 1e9;
            let of = fastest[0];
            println!(
                "{name:<8} {what:<36} {marks:>8} marks {each:>9.1} ns each and lane ({seconds:.3} s, {of:.3} s without)"
            );
        }
    }
}

/// Returns a workload's events, the number of its instructions, and the number of changes between user and
/// kernel that are put between the events. A change decides which process is charged, and nothing else.
fn events(workload: &str, references: u64, each: Option<u64>) -> (EventBatch, u64, u64) {
    let mut source = binhop_workload::open(workload, 0).unwrap();
    let mut rows = EventBuilder::default();
    let (mut held, mut instructions, mut changes) = (0, 0, 0);
    while held < references {
        let batch = source.next_batch().unwrap().unwrap();
        for row in 0..batch.len() {
            let op = Op::from_code(batch.op()[row]).unwrap();
            let count = batch.count()[row];
            if !op.is_reference() && op != Op::Fetch {
                continue;
            }
            let ran = if op == Op::Fetch { u64::from(count) } else { 0 };
            if each.is_some_and(|each| ran > 0 && (instructions + ran) / each > instructions / each) {
                let now = if changes % 2 == 0 { Op::KernelEnter } else { Op::KernelLeave };
                rows.push(now, 0, 0, 0);
                changes += 1;
            }
            rows.push(op, batch.addr()[row], batch.size()[row], count);
            instructions += ran;
            held += if op == Op::Fetch { ran } else { 1 };
        }
    }
    (rows.finish(), instructions, changes)
}

/// Returns the rows of these events, and the options for which they were prepared.
fn prepared(machine: &Machine, events: &EventBatch, interval: Option<u64>) -> (Prepared, RunOptions) {
    let options = RunOptions { seeds: (0..SEEDS).collect(), interval, ..RunOptions::default() };
    let meta = Meta { page_size: Some(4096), ..Meta::default() };
    let mut source = Memory { batch: Some(events.clone()), meta };
    (Prepared::new(std::slice::from_ref(machine), &mut source, &options).unwrap(), options)
}
