//! `bench` prints the references per second of each stage, on fixed inputs. Each figure is the median of five
//! runs. Ratios compare figures of one run of the program.
//!
//! `cargo run --release -p binhop-sim --example bench [REFERENCES] [WORKLOAD]`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use binhop_base::{Bytes, Domain, Result, Rng, Stream};
use binhop_sim::machine::Machine;
use binhop_sim::paging::{PagingOptions, paging};
use binhop_sim::{Prepared, RunOptions, simulate, simulate_all};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Meta, Op, Source, TraceReader};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

/// `Memory` is a trace held in memory.
struct Memory {
    batches: Arc<[EventBatch]>,
    meta: Meta,
    at: usize,
}

impl Memory {
    fn new(batches: &Arc<[EventBatch]>) -> Self {
        Self { batches: Arc::clone(batches), meta: Meta { page_size: Some(4096), ..Meta::default() }, at: 0 }
    }
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

/// Returns the median seconds of a few runs after a warm-up.
fn seconds(mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

struct Table {
    references: f64,
}

impl Table {
    fn line(&self, what: &str, seconds: f64) -> f64 {
        println!("{what:<62} {:>9.1} M/s {:>8.3} s", self.references / seconds / 1e6, seconds);
        seconds
    }
}

fn options(seeds: u64, threads: usize) -> RunOptions {
    RunOptions { seeds: (0..seeds).collect(), threads, ..RunOptions::default() }
}

fn run(machine: &Machine, source: Box<dyn Source>, options: &RunOptions) {
    black_box(simulate(machine, source, options, None, &mut |_| Ok(())).unwrap());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let references: u64 = args.next().map_or(50_000_000, |text| text.parse().unwrap());
    let workload = args.next().unwrap_or_else(|| "mult2.2".to_string());
    let (batches, held) = generate(&workload, references);
    let table = Table { references: held as f64 };
    println!(
        "{workload}, {:.1} M references in {} rows; medians of {RUNS}\n",
        held as f64 / 1e6,
        rows(&batches)
    );

    table.line("generate the workload", seconds(|| drop(black_box(generate(&workload, references)))));
    table.line(
        "scan the address column",
        seconds(|| {
            black_box(scan(&batches));
        }),
    );
    let file = std::env::temp_dir().join(format!("binhop-bench-{}.parquet", std::process::id()));
    binhop_trace::copy(&mut Memory::new(&batches), &file, 1, None, &mut |_| Ok(())).unwrap();
    let bytes = std::fs::metadata(&file).unwrap().len();
    println!("{:<62} {:>9.3} bytes/reference", "Parquet file", bytes as f64 / held as f64);
    table.line("decode: Parquet to batches, checksums included", seconds(|| decode(&file)));

    let kh90 = Machine::load("kh90", &[]).unwrap();
    table.line("prepare: batches to rows, for kh90", seconds(|| drop(black_box(prepared(&kh90, &batches)))));
    let rows = prepared(&kh90, &batches);
    println!("{:<62} {:>9.3} rows/reference", "prepared rows", rows.rows() as f64 / held as f64);
    table.line(
        "kh90 on prepared rows: place, level 1, level 2",
        seconds(|| drop(black_box(rows.simulate(&options(1, 1)).unwrap()))),
    );
    table.line(
        "kh90 from batches in memory, 1 placement",
        seconds(|| run(&kh90, Box::new(Memory::new(&batches)), &options(1, 1))),
    );
    for threads in [1, 2] {
        let what = format!("kh90 from Parquet, everything, 1 placement, {threads} thread(s)");
        let open = || Box::new(TraceReader::open(&file).unwrap());
        table.line(&what, seconds(|| run(&kh90, open(), &options(1, threads))));
    }
    let two_level = Machine::load("two-level", &[]).unwrap();
    table.line(
        "two-level from batches in memory (no placement)",
        seconds(|| run(&two_level, Box::new(Memory::new(&batches)), &options(1, 1))),
    );
    table.line("page faults of 7 memory sizes x 7 color counts, one pass", seconds(|| faults(&batches)));
    println!();
    many_lanes(&table, &batches, &kh90, "kh90");
    let within = Machine::parse(WITHIN_PAGE, "within-page", &[]).unwrap();
    many_lanes(&table, &batches, &within, "level 1 within the page");
    println!();
    whole_runs(&table, &workload, held, &within);
    println!();
    many_backs(&table, &batches, &workload, held);
    println!();
    drop(batches);
    large_memory();
    std::fs::remove_file(&file).unwrap();
}

/// Measures first touches of many pages, and references without a pattern.
fn large_memory() {
    // kh90 has pages of 16 KiB and 8192 frames: nearly every page that is touched there evicts another
    // page.
    for (name, kib) in [("kh90", 4), ("kh90", 16), ("zen-4k", 4)] {
        let touches = data((0..200_000).map(|page| (Op::Load, (page * kib) << 10)));
        let machine = Machine::load(name, &[]).unwrap();
        let what = format!("{name}: first touches of 200,000 pages of {kib} KiB");
        let seconds = seconds(|| run(&machine, Box::new(Memory::new(&touches)), &options(1, 1)));
        println!("{what:<62} {:>9.0} ns {seconds:>8.3} s", seconds / 200_000.0 * 1e9);
    }
    let rng = Rng::new(0);
    let draw = |number: u64, below: u64| rng.below(Stream::new(Domain::FrameOrder, 0), number, below);
    let far =
        data((0..3_000_000).map(|number| (Op::Load, draw(number, 262_144) * 4096 + draw(!number, 512) * 8)));
    let zen = Machine::load("zen-4k", &[]).unwrap();
    Table { references: 3e6 }.line(
        "zen-4k: loads, uniform over 262,144 pages",
        seconds(|| run(&zen, Box::new(Memory::new(&far)), &options(1, 1))),
    );
    let harsh = data((0..20_000_000).map(|number| {
        let op = if draw(!number, 3) == 0 { Op::Store } else { Op::Load };
        (op, draw(number, 8 << 20) * 8)
    }));
    let two_level = Machine::load("two-level", &[]).unwrap();
    Table { references: 20e6 }.line(
        "harsh: two-level, a third stores, uniform over 64 MiB",
        seconds(|| run(&two_level, Box::new(Memory::new(&harsh)), &options(1, 1))),
    );
}

/// Returns references of 8 bytes, in batches.
fn data(references: impl Iterator<Item = (Op, u64)>) -> Arc<[EventBatch]> {
    let mut builder = EventBuilder::default();
    let mut batches = Vec::new();
    for (number, (op, addr)) in (1..).zip(references) {
        builder.push(op, addr, 8, 1);
        if number % (1 << 16) == 0 {
            batches.push(builder.finish());
        }
    }
    batches.push(builder.finish());
    batches.into()
}

/// 32 KiB 8-way level 1 with 4 KiB pages: its sets do not depend on placement.
const WITHIN_PAGE: &str = r#"
memory = { size = "256MiB", page = "4KiB" }
[cache.l1i]
serves = "fetch"
size = "32KiB"
line = "64B"
ways = 8
next = "l2"
[cache.l1d]
serves = "data"
size = "32KiB"
line = "64B"
ways = 8
next = "l2"
[cache.l2]
size = "1MiB"
line = "64B"
next = "memory"
"#;

fn many_lanes(table: &Table, batches: &Arc<[EventBatch]>, machine: &Machine, name: &str) {
    let rows = prepared(machine, batches);
    let all = Prepared::new(
        std::slice::from_ref(machine),
        &mut Memory::new(batches),
        &RunOptions { share: false, ..RunOptions::default() },
    )
    .unwrap();
    let every = RunOptions { share: false, ..options(1, 1) };
    let one = table.line(
        &format!("{name}: 1 placement, prepared rows"),
        seconds(|| drop(black_box(rows.simulate(&options(1, 1)).unwrap()))),
    );
    let mut last = one;
    for lanes in [16, 64] {
        let what = format!("{name}: {lanes} placements, prepared rows");
        last = table.line(&what, seconds(|| drop(black_box(rows.simulate(&options(lanes, 1)).unwrap()))));
    }
    let uncollapsed = table.line(
        &format!("{name}: 1 placement, every access a row"),
        seconds(|| drop(black_box(all.simulate(&every).unwrap()))),
    );
    let ratio = |what: &str, single: f64| {
        println!(
            "{:<62} {:>9.1} x",
            format!("{name}: 64 placements against 64 runs over {what}"),
            64.0 * single / last
        );
    };
    ratio("prepared rows", one);
    ratio("every access", uncollapsed);
}

/// Returns the options of LF91's 49 pairs: seven memory sizes, each with seven color counts.
fn lf91() -> PagingOptions {
    PagingOptions {
        page: Bytes(4096),
        sizes: (20..27).map(|log2| Bytes(1 << log2)).collect(),
        colors: (0..7).map(|log2| 1 << log2).collect(),
        length: None,
        pid_hash: false,
        ahead: false,
    }
}

fn faults(batches: &Arc<[EventBatch]>) {
    black_box(paging(Box::new(Memory::new(batches)), &lf91(), &mut |_| Ok(())).unwrap());
}

/// Compares one run of 64 placements with 64 runs of one placement. Each run generates, prepares and
/// simulates, as a user's run does.
fn whole_runs(table: &Table, workload: &str, references: u64, machine: &Machine) {
    let runs = |seeds: u64| {
        let options = RunOptions { length: Some(references), ..options(seeds, 1) };
        seconds(|| run(machine, Box::new(binhop_workload::open(workload, 0).unwrap()), &options))
    };
    let one = table.line("level 1 within the page: a whole run of 1 placement", runs(1));
    let all = table.line("level 1 within the page: a whole run of 64 placements", runs(64));
    println!("{:<62} {:>9.1} x", "64 placements in one run against 64 runs", 64.0 * one / all);
}

/// Compares the nine level-2 caches of KH90 behind one front with one of these caches.
fn many_backs(table: &Table, batches: &Arc<[EventBatch]>, workload: &str, references: u64) {
    let level2 = |size: &str, ways: u32| {
        let settings = [format!("cache.l2.size={size}"), format!("cache.l2.ways={ways}")];
        Machine::load("kh90", &settings).unwrap()
    };
    let nine: Vec<Machine> =
        ["1MiB", "4MiB", "16MiB"].iter().flat_map(|size| [1, 2, 4].map(|ways| level2(size, ways))).collect();
    let mut times = Vec::new();
    for machines in [&nine[3..4], &nine[..]] {
        let what = format!("kh90, {} level-2 cache(s) behind one front", machines.len());
        let rows = Prepared::new(machines, &mut Memory::new(batches), &RunOptions::default()).unwrap();
        let on_rows = table.line(
            &format!("{what}, prepared rows"),
            seconds(|| drop(black_box(rows.simulate(&options(1, 1)).unwrap()))),
        );
        let options = RunOptions { length: Some(references), ..options(1, 1) };
        let whole = table.line(
            &format!("{what}, a whole run"),
            seconds(|| {
                let source = Box::new(binhop_workload::open(workload, 0).unwrap());
                black_box(simulate_all(machines, source, &options, None, &mut |_| Ok(())).unwrap());
            }),
        );
        times.push((on_rows, whole));
    }
    let ratio = |what: &str, ratio: f64| {
        println!("{:<62} {ratio:>9.2} x", format!("nine level-2 caches cost of one, {what}"));
    };
    ratio("prepared rows", times[1].0 / times[0].0);
    ratio("a whole run", times[1].1 / times[0].1);
}

fn prepared(machine: &Machine, batches: &Arc<[EventBatch]>) -> Prepared {
    Prepared::new(std::slice::from_ref(machine), &mut Memory::new(batches), &RunOptions::default()).unwrap()
}

fn rows(batches: &[EventBatch]) -> usize {
    batches.iter().map(EventBatch::len).sum()
}

fn generate(workload: &str, references: u64) -> (Arc<[EventBatch]>, u64) {
    let mut source = binhop_workload::open(workload, 0).unwrap();
    let (mut batches, mut held) = (Vec::new(), 0);
    while held < references {
        let batch = source.next_batch().unwrap().unwrap();
        for (&op, &count) in batch.op().iter().zip(batch.count()) {
            held += match Op::from_code(op) {
                Some(Op::Fetch) => u64::from(count),
                Some(op) => u64::from(op.is_reference()),
                None => 0,
            };
        }
        batches.push(batch);
    }
    (batches.into(), held)
}

fn scan(batches: &[EventBatch]) -> u64 {
    batches.iter().flat_map(EventBatch::addr).fold(0, |sum, &addr| sum ^ addr)
}

fn decode(file: &std::path::Path) {
    let mut reader = TraceReader::open(file).unwrap();
    while let Some(batch) = reader.next_batch().unwrap() {
        black_box(batch.len());
    }
}
