//! This benchmark measures the speed and the size of the trace file on a synthetic program: loops over arrays, a
//! call stack, a heap.
//!
//! It prints bytes per row, and rows and references per second of writing, reading, and reading ahead. Each
//! figure is the median of 5, on one thread unless the line says otherwise. `BINHOP_BENCH_TRACE=cc1.parquet`
//! names another trace; its extension tells a foreign format.
//!
//! Run: `cargo bench -p binhop-trace --bench trace_file`.

use std::path::Path;
use std::time::Instant;

use binhop_base::{Domain, Rng, Stream};
use binhop_trace::event::{EventBatch, EventBuilder, Op};
use binhop_trace::source::{Meta, Source};
use binhop_trace::{Ahead, TraceReader, TraceWriter, import, inspect, lint};

const ROWS: usize = 8 << 20;

fn main() {
    let directory = std::env::temp_dir().join(format!("binhop-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let path = directory.join("trace.parquet");
    let batches = match std::env::var("BINHOP_BENCH_TRACE") {
        Ok(given) if given.ends_with(".parquet") => {
            drain(&mut TraceReader::open(Path::new(&given)).expect("a trace"))
        }
        Ok(given) => drain(&mut *import::open(&given, None).expect("a foreign trace")),
        Err(_) => synthetic(ROWS),
    };
    let write = |threads| {
        let mut writer = TraceWriter::create(&path, &Meta::default(), threads).expect("created");
        for batch in &batches {
            writer.push(batch).expect("pushed");
        }
        writer.finish().expect("finished")
    };
    let written = write(1);
    let (rows, references) = (written.totals.rows() as f64, written.totals.references as f64);
    println!("{rows} rows, {references} references, {:.3} bytes/row", written.bytes as f64 / rows);
    let report = |what: &str, seconds: f64| {
        println!(
            "{what:<16} {:>7.1} M rows/s {:>7.1} M references/s",
            rows / seconds / 1e6,
            references / seconds / 1e6
        );
    };
    report("write", median(|| assert_eq!(write(1), written)));
    report("write, 2 threads", median(|| assert_eq!(write(2), written)));
    let open = || TraceReader::open(&path).expect("opened");
    report("read", median(|| assert_eq!(scan(&mut open()), rows as usize)));
    report("read ahead", median(|| assert_eq!(scan(&mut Ahead::new(Box::new(open()))), rows as usize)));
    report(
        "inspect",
        median(|| drop(inspect::inspect(&mut open(), None, &mut |_| Ok(())).expect("inspected"))),
    );
    report("lint", median(|| drop(lint::lint(&mut open(), None, &mut |_| Ok(())).expect("linted"))));
    std::fs::remove_dir_all(&directory).expect("removed");
}

fn median(mut run: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[2]
}

fn drain(source: &mut dyn Source) -> Vec<EventBatch> {
    std::iter::from_fn(|| source.next_batch().expect("a sound trace")).collect()
}

fn scan(source: &mut dyn Source) -> usize {
    std::iter::from_fn(|| source.next_batch().expect("a sound trace")).map(|batch| batch.len()).sum()
}

/// Calls of functions with loops in them; each iteration walks arrays, spills to the stack, follows heap
/// pointers.
fn synthetic(rows: usize) -> Vec<EventBatch> {
    let (rng, stream, mut draws) = (Rng::new(1), Stream::new(Domain::Test, 0), 0u64);
    let mut draw = |n: u64| {
        draws += 1;
        rng.below(stream, draws, n)
    };
    let mut batches = Vec::new();
    let mut batch = EventBuilder::with_capacity(1 << 16);
    let mut done = 0;
    let mut array = 0x7f00_0000_0000u64;
    while done < rows {
        let function = 0x40_0000 + draw(400) * draw(400) * 0x140;
        let stack = 0x7fff_ffff_0000 - draw(64) * 0xd0;
        let iterations = 1 + draw(12) * draw(12);
        let body: Vec<(u64, u64)> = (0..1 + draw(10)).map(|_| (draw(8), draw(6))).collect();
        for _ in 0..iterations {
            let mut pc = function;
            for &(length, what) in &body {
                let instructions = 1 + length as u32;
                let bytes = instructions * 4 - (length as u32 & 3);
                batch.push(Op::Fetch, pc, bytes, instructions);
                pc += u64::from(bytes);
                match what {
                    0 | 1 => {
                        array += 8;
                        batch.push(Op::Load, array, 8, 1);
                    }
                    2 => batch.push(Op::Store, stack - length * 8, 8, 1),
                    3 => batch.push(Op::Load, stack + length * 8, 8, 1),
                    4 => batch.push(Op::Load, 0x5555_0000_0000 + (draw(1 << 10) * draw(1 << 10) * 16), 4, 1),
                    _ => batch.push(Op::Store, 0x5555_0000_0000 + draw(1 << 14) * 48, 1 << draw(4), 1),
                }
            }
        }
        if batch.len() >= 1 << 16 {
            done += batch.len();
            batches.push(batch.finish());
        }
    }
    batches
}
