//! `import_bench` measures how fast foreign traces become trace files: lines or records per second, from a
//! file in the page cache to a finished Parquet file, on one thread and on two.
//!
//! The foreign files hold a built-in workload in each format: din without sizes; drmemtrace as raw2trace
//! writes it, with a timestamp and a processor now and then; ChampSim's records with the data references that
//! follow an instruction. Besides the wall time (the best of five), the benchmark prints the processor time of the
//! whole process, if the system reports it. On a busy machine only the processor time means anything. On an idle
//! machine the two times of one thread are equal.
//!
//! `cargo run --release -p binhop-sim --example import_bench [REFERENCES] [WORKLOAD]`
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use binhop_trace::{EventBatch, Op, Source, copy, import};

/// The Python extension uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

/// The number of records between two timestamps: what a thread's buffer of drmemtrace holds.
const BUFFER: u64 = 5000;

/// `Foreign` is a foreign file that is being written, with the number of its lines or records.
struct Foreign {
    out: BufWriter<File>,
    records: u64,
    /// The ChampSim instruction to which data references are still added.
    open: Option<([u8; 64], [usize; 2])>,
}

/// `Instruction` writes an instruction (address, size) in a format; `Data` writes a data reference.
type Instruction = fn(&mut Foreign, u64, u32);
type Data = fn(&mut Foreign, Op, u64, u32);

impl Foreign {
    fn put(&mut self, bytes: &[u8]) {
        self.out.write_all(bytes).unwrap();
        self.records += 1;
    }

    fn record(&mut self, kind: u16, size: u32, addr: u64) {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&(size as u16).to_le_bytes());
        bytes[4..].copy_from_slice(&addr.to_le_bytes());
        self.put(&bytes);
        if self.records.is_multiple_of(BUFFER) {
            self.record(28, 2, self.records);
            self.record(28, 3, 1);
        }
    }

    fn champsim(&mut self) {
        if let Some((record, _)) = self.open.take() {
            self.put(&record);
        }
    }

    /// Adds a data reference to the open instruction. If the places of the instruction are used up, the
    /// instruction is written once more, and the reference is added there.
    fn operand(&mut self, load: bool, addr: u64) {
        let (first, places) = if load { (32, 4) } else { (16, 2) };
        let Some((record, used)) = &mut self.open else { return };
        let used = &mut used[usize::from(load)];
        if *used == places {
            let ip = u64::from_le_bytes(record[..8].try_into().unwrap());
            self.champsim();
            champsim_instruction(self, ip, 4);
            return self.operand(load, addr);
        }
        record[first + 8 * *used..][..8].copy_from_slice(&addr.to_le_bytes());
        *used += 1;
    }
}

fn champsim_instruction(foreign: &mut Foreign, addr: u64, _: u32) {
    foreign.champsim();
    let mut record = [0; 64];
    record[..8].copy_from_slice(&addr.to_le_bytes());
    foreign.open = Some((record, [0; 2]));
}

fn champsim_data(foreign: &mut Foreign, op: Op, addr: u64, _: u32) {
    if op != Op::Store {
        foreign.operand(true, addr);
    }
    if op != Op::Load {
        foreign.operand(false, addr);
    }
}

fn din_data(foreign: &mut Foreign, op: Op, addr: u64, _: u32) {
    if op != Op::Store {
        foreign.put(format!("0 {addr:x}\n").as_bytes());
    }
    if op != Op::Load {
        foreign.put(format!("1 {addr:x}\n").as_bytes());
    }
}

fn drmemtrace_data(foreign: &mut Foreign, op: Op, addr: u64, size: u32) {
    if op != Op::Store {
        foreign.record(0, size, addr);
    }
    if op != Op::Load {
        foreign.record(1, size, addr);
    }
}

/// For each format, its name, what is counted, and the functions that write it.
const FORMATS: [(&str, &str, Instruction, Data); 3] = [
    ("din", "lines", |foreign, addr, _| foreign.put(format!("2 {addr:x}\n").as_bytes()), din_data),
    ("drmemtrace", "records", |foreign, addr, size| foreign.record(10, size, addr), drmemtrace_data),
    ("champsim", "records", champsim_instruction, champsim_data),
];

/// Writes the events in a format. Returns the number of lines or records.
fn write(path: &Path, batches: &[EventBatch], format: (&str, &str, Instruction, Data)) -> u64 {
    let (name, _, instruction, data) = format;
    let mut foreign = Foreign { out: BufWriter::new(File::create(path).unwrap()), records: 0, open: None };
    if name == "drmemtrace" {
        for (kind, size, addr) in [(25, 0, 7), (22, 4, 1), (24, 4, 1), (28, 2, 1)] {
            foreign.record(kind, size, addr);
        }
    }
    for batch in batches {
        for row in 0..batch.len() {
            let (addr, size, count) = (batch.addr()[row], batch.size()[row], batch.count()[row]);
            match Op::from_code(batch.op()[row]) {
                Some(Op::Fetch) => {
                    let length = (size / count.max(1)).max(1);
                    (0..count).for_each(|n| instruction(&mut foreign, addr + u64::from(n * length), length));
                }
                Some(op) if op.is_reference() => data(&mut foreign, op, addr, size),
                _ => {}
            }
        }
    }
    foreign.champsim();
    if name == "drmemtrace" {
        for (kind, size, addr) in [(23, 4, 1), (26, 0, 0)] {
            foreign.record(kind, size, addr);
        }
    }
    foreign.out.flush().unwrap();
    foreign.records
}

/// Returns the seconds of processor time that this process has used.
fn on_processor() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..13)?.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    Some(ticks as f64 / 100.0)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let references: u64 = args.next().map_or(20_000_000, |text| text.parse().unwrap());
    let workload = args.next().unwrap_or_else(|| "mult2.2".to_string());
    let mut source = binhop_workload::open(&workload, 0).unwrap();
    let (mut batches, mut totals) = (Vec::new(), binhop_trace::Totals::default());
    while totals.references < references {
        let batch = source.next_batch().unwrap().unwrap();
        totals.add(&batch);
        batches.push(batch);
    }
    let directory: PathBuf = std::env::temp_dir().join(format!("binhop-import-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    println!(
        "{workload}, {:.1} M references; best of {RUNS}, Parquet writing included\n",
        totals.references as f64 / 1e6
    );
    for format in FORMATS {
        let (name, unit, ..) = format;
        let path = directory.join("trace");
        let records = write(&path, &batches, format) as f64 / 1e6;
        for threads in [0, 1, 2] {
            let (mut wall, mut busy) = (f64::MAX, f64::MAX);
            for _ in 0..RUNS {
                let (start, had) = (Instant::now(), on_processor());
                let mut importer = import::open(path.to_str().unwrap(), Some(name)).unwrap();
                if threads == 0 {
                    while importer.next_batch().unwrap().is_some() {}
                } else {
                    copy(importer.as_mut(), &directory.join("t.parquet"), threads, None, &mut |_| Ok(()))
                        .unwrap();
                }
                wall = wall.min(start.elapsed().as_secs_f64());
                busy = busy.min(on_processor().zip(had).map_or(f64::NAN, |(now, then)| now - then));
            }
            let what = match threads {
                0 => format!("{name}: decode only"),
                threads => format!("{name}: import, {threads} thread(s)"),
            };
            println!(
                "{what:<34} {:>8.1} M {unit}/s {:>8.1} M per processor second",
                records / wall,
                records / busy
            );
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
