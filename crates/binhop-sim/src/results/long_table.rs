//! `LongTable` is a table whose rows are made as they are read, because the counts of intervals and processes
//! may take more memory than there is.
//!
//! Rules
//! - A table is the rows of its parts, one below the other. A part is one machine under one workload, with
//!   its seeds in order.
//! - While it is read, a table of intervals takes the memory of a batch, and a table of processes the counts
//!   of all processes under one seed. Until it is dropped, each of the two tables takes a few KiB for each
//!   machine and seed.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use binhop_base::Result;

use super::meter::{OF_STREAM, Readings};
use super::metrics::{ratio, whole};
use super::spill::{Log, Records};
use super::switches::pieces;
use super::table_file::write_table;
use crate::prepare::Process;
use crate::progress::InterruptCheck;

/// The number of intervals, or of processes, whose rows make a batch.
const AT_ONCE: usize = 4096;

/// `LongTable` is a table that is read row by row, any number of times.
#[derive(Clone, Debug)]
pub struct LongTable {
    kind: LongTableKind,
    parts: Vec<Arc<MachineRows>>,
}

/// `LongTableKind` says which rows a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LongTableKind {
    Series,
    Processes,
    Pieces,
}

/// `MachineRows` holds the rows of one machine under one workload.
#[derive(Clone, Debug)]
pub(crate) struct MachineRows {
    pub(crate) workload: String,
    pub(crate) machine: String,
    pub(crate) caches: Vec<String>,
    /// For each cache, true if footprints tell of conflicts in it.
    pub(crate) divided: Vec<bool>,
    /// Every process, by its number.
    pub(crate) processes: Arc<[Process]>,
    pub(crate) seeds: Vec<(u64, Readings)>,
    /// For each seed, every interval after every switch, if they are kept.
    pub(crate) pieces: Vec<Option<Arc<Log>>>,
}

impl LongTable {
    pub(crate) fn series(part: Arc<MachineRows>) -> Self {
        Self { kind: LongTableKind::Series, parts: vec![part] }
    }

    pub(crate) fn processes(part: Arc<MachineRows>) -> Self {
        Self { kind: LongTableKind::Processes, parts: vec![part] }
    }

    pub(crate) fn pieces(part: Arc<MachineRows>) -> Self {
        Self { kind: LongTableKind::Pieces, parts: vec![part] }
    }

    /// Adds the following seeds of the same machine under the same workload.
    pub(crate) fn add_seeds(&mut self, more: &Self) {
        let ([mine], [more]) = (&mut *self.parts, &*more.parts) else {
            unreachable!("a run's table has one part")
        };
        let mine = Arc::make_mut(mine);
        mine.seeds.extend_from_slice(&more.seeds);
        mine.pieces.extend_from_slice(&more.pieces);
    }

    /// Adds the rows of another table of the same kind below these rows.
    ///
    /// # Panics
    /// One table holds intervals, and the other table holds processes.
    pub fn extend(&mut self, more: Self) {
        assert_eq!(self.kind, more.kind, "tables of one kind");
        self.parts.extend(more.parts);
    }

    /// Returns the columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        if self.kind == LongTableKind::Pieces {
            return pieces::schema();
        }
        let keys: &[(&str, DataType)] = match self.kind {
            LongTableKind::Pieces => unreachable!("pieces have columns of their own"),
            LongTableKind::Series => &[
                ("seed", DataType::UInt64),
                ("interval", DataType::UInt64),
                ("instructions", DataType::UInt64),
            ],
            LongTableKind::Processes => {
                &[("seed", DataType::UInt64), ("asid", DataType::UInt32), ("kernel", DataType::Boolean)]
            }
        };
        let field = |name: &str, kind: &DataType| Field::new(name, kind.clone(), name == "value");
        let first = ["workload", "machine"].map(|name| field(name, &DataType::Utf8));
        let keys = keys.iter().map(|(name, kind)| field(name, kind));
        let last = ["metric", "unit"].map(|name| field(name, &DataType::Utf8));
        let value = field("value", &DataType::Float64);
        let fields: Vec<Field> = first.into_iter().chain(keys).chain(last).chain([value]).collect();
        Arc::new(Schema::new(fields))
    }

    /// Returns the maximum number of rows. A table of intervals has exactly this number of rows.
    #[must_use]
    pub fn rows_at_most(&self) -> u64 {
        let of = |part: &Arc<MachineRows>| match self.kind {
            LongTableKind::Pieces => part.pieces.iter().flatten().map(|log| log.records()).sum(),
            LongTableKind::Series => {
                let intervals: u64 = part.seeds.iter().map(|(_, readings)| readings.intervals()).sum();
                intervals * 2 * part.caches.len() as u64
            }
            LongTableKind::Processes => {
                (part.seeds.len() * part.processes.len() * (4 + 4 * part.caches.len())) as u64
            }
        };
        self.parts.iter().map(of).sum()
    }

    /// Reads the rows in batches of some thousands.
    #[must_use]
    pub fn batches(&self) -> Batches {
        Batches {
            schema: self.schema(),
            table: self.clone(),
            part: 0,
            seed: 0,
            reading: Reading::Nothing,
            constant: None,
        }
    }

    /// Reads the whole table into memory.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn whole(&self) -> Result<RecordBatch> {
        let batches = self.batches().collect::<Result<Vec<_>>>()?;
        Ok(concat_batches(&self.schema(), &batches).expect("batches of one table have one schema"))
    }

    /// Writes the table to a Parquet file: see [`write_table`].
    ///
    /// # Errors
    /// The file cannot be written, the temporary file cannot be read, or `check_interrupt` returns an error.
    pub fn write_parquet(&self, path: &Path, check_interrupt: InterruptCheck<'_>) -> Result<()> {
        write_table(&self.schema(), &mut self.batches(), path, check_interrupt)
    }
}

/// `Batches` makes the batches of a table, beginning with its first row.
#[derive(Debug)]
pub struct Batches {
    schema: SchemaRef,
    table: LongTable,
    /// The part and the seed that are read next.
    part: usize,
    seed: usize,
    reading: Reading,
    /// The columns of a series that are the same in every full batch of a part: workload, machine, metric,
    /// unit.
    constant: Option<(usize, [ArrayRef; 4])>,
}

/// `Reading` is the state of reading one seed.
#[derive(Debug)]
enum Reading {
    Nothing,
    Series { records: Records, number: u64 },
    Processes { shares: ProcessCounts, next: usize },
    Pieces { records: Records },
}

impl Batches {
    /// Returns the columns of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Begins with the next seed of this part. If this part has no more seeds, begins with the first seed of the next
    /// part. Returns `false` at the end of the table.
    fn advance(&mut self) -> Result<bool> {
        while let Some(part) = self.table.parts.get(self.part) {
            let Some((_, readings)) = part.seeds.get(self.seed) else {
                (self.part, self.seed, self.constant) = (self.part + 1, 0, None);
                continue;
            };
            self.seed += 1;
            self.reading = match self.table.kind {
                LongTableKind::Series => match readings.each_interval() {
                    Some(records) => Reading::Series { records, number: 0 },
                    None => continue,
                },
                LongTableKind::Processes => {
                    Reading::Processes { shares: ProcessCounts::of(part, readings)?, next: 0 }
                }
                LongTableKind::Pieces => match &part.pieces[self.seed - 1] {
                    Some(log) => Reading::Pieces { records: Records::new(log) },
                    None => continue,
                },
            };
            return Ok(true);
        }
        Ok(false)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let part = self.table.parts.get(self.part).map(Arc::clone);
            let columns = match (&mut self.reading, part) {
                (Reading::Series { records, number }, Some(part)) => {
                    let seed = part.seeds[self.seed - 1].0;
                    let constant = &mut self.constant;
                    series_batch(&part, seed, records, number, constant)?
                }
                (Reading::Processes { shares, next }, Some(part)) => {
                    let seed = part.seeds[self.seed - 1].0;
                    processes_batch(&part, seed, shares, next)
                }
                (Reading::Pieces { records }, Some(part)) => {
                    let seed = part.seeds[self.seed - 1].0;
                    pieces::batch([&part.workload, &part.machine], seed, records, AT_ONCE)?
                }
                _ => None,
            };
            if let Some(columns) = columns {
                let batch = RecordBatch::try_new(self.schema(), columns);
                return Ok(Some(batch.expect("columns of one table agree in length and type")));
            }
            self.reading = Reading::Nothing;
            if !self.advance()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.next_batch().transpose()
    }
}

fn repeated(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

/// Makes the rows of the next intervals of a seed: for each cache its misses, and its misses per instruction.
fn series_batch(
    part: &MachineRows,
    seed: u64,
    records: &mut Records,
    number: &mut u64,
    constant: &mut Option<(usize, [ArrayRef; 4])>,
) -> Result<Option<Vec<ArrayRef>>> {
    let width = 2 * part.caches.len();
    let mut record = vec![0; 1 + part.caches.len()];
    let (mut intervals, mut instructions) = (Vec::new(), Vec::new());
    let mut values = Float64Builder::with_capacity(AT_ONCE * width);
    while intervals.len() < AT_ONCE * width && records.next(&mut record)? {
        for &misses in &record[1..] {
            values.append_value(whole(misses));
            values.append_option(ratio(misses, record[0]));
        }
        intervals.extend(std::iter::repeat_n(*number, width));
        instructions.extend(std::iter::repeat_n(record[0], width));
        *number += 1;
    }
    let rows = intervals.len();
    if rows == 0 {
        return Ok(None);
    }
    let (_, all) = constant.get_or_insert_with(|| (AT_ONCE * width, constant_columns(part, AT_ONCE)));
    let [workload, machine, metric, unit] = all.each_ref().map(|column| column.slice(0, rows));
    Ok(Some(vec![
        workload,
        machine,
        Arc::new(UInt64Array::from(vec![seed; rows])),
        Arc::new(UInt64Array::from(intervals)),
        Arc::new(UInt64Array::from(instructions)),
        metric,
        unit,
        Arc::new(values.finish()),
    ]))
}

fn constant_columns(part: &MachineRows, intervals: usize) -> [ArrayRef; 4] {
    let rows = 2 * intervals * part.caches.len();
    let names: Vec<String> =
        part.caches.iter().flat_map(|cache| [format!("{cache}.misses"), format!("{cache}.mpi")]).collect();
    let metric = StringArray::from_iter_values(names.iter().cycle().take(rows));
    let units = ["misses", "misses/instruction"];
    let unit = StringArray::from_iter_values(units.iter().cycle().take(rows));
    [repeated(&part.workload, rows), repeated(&part.machine, rows), Arc::new(metric), Arc::new(unit)]
}

/// `ProcessCounts` are the counts of each process under one seed, and the pages that each address space had
/// in memory.
#[derive(Debug)]
struct ProcessCounts {
    /// The number of values kept for each process.
    width: usize,
    counts: Vec<u64>,
    /// The number of values kept for each address space. The values are its pages plus one (0 if nothing is
    /// known), its shared pages, and two values for each divided cache.
    of_space: usize,
    footprints: Vec<u64>,
    /// The address space of each process, in ascending order.
    asids: Vec<u32>,
}

impl ProcessCounts {
    fn of(part: &MachineRows, readings: &Readings) -> Result<Self> {
        let (caches, divided) = (part.caches.len(), part.divided.iter().filter(|&&divided| divided).count());
        let (width, of_space) = (OF_STREAM + caches, 2 + 2 * divided);
        let mut counts = vec![0; part.processes.len() * width];
        readings.each_share(caches, |process, share| {
            let mine = &mut counts[process as usize * width..][..width];
            mine.iter_mut().zip(share).for_each(|(mine, more)| *mine += more);
        })?;
        let mut asids: Vec<u32> =
            part.processes.iter().filter(|process| !process.kernel).map(|process| process.asid.0).collect();
        asids.sort_unstable();
        let mut footprints = vec![0; asids.len() * of_space];
        readings.each_footprint(divided, |asid, numbers| {
            // The table reports the last life that had pages.
            if let Ok(place) = asids.binary_search(&asid.0) {
                let mine = &mut footprints[place * of_space..][..of_space];
                mine.copy_from_slice(numbers);
                mine[0] += 1;
            }
        })?;
        Ok(Self { width, counts, of_space, footprints, asids })
    }

    fn footprint(&self, process: Process) -> Option<&[u64]> {
        let place = self.asids.binary_search(&process.asid.0).ok().filter(|_| !process.kernel)?;
        let mine = &self.footprints[place * self.of_space..][..self.of_space];
        (mine[0] > 0).then_some(mine)
    }
}

/// Makes the rows of the next processes of a seed that have made references.
fn processes_batch(
    part: &MachineRows,
    seed: u64,
    shares: &ProcessCounts,
    next: &mut usize,
) -> Option<Vec<ArrayRef>> {
    let names = ProcessMetrics::of(part);
    let (mut seeds, mut asids, mut kernel) =
        (UInt64Builder::new(), UInt32Builder::new(), BooleanBuilder::new());
    let (mut metrics, mut units, mut values) =
        (StringBuilder::new(), StringBuilder::new(), Float64Builder::new());
    let mut processes = 0;
    while processes < AT_ONCE && *next < part.processes.len() {
        let (process, counts) =
            (part.processes[*next], &shares.counts[*next * shares.width..][..shares.width]);
        *next += 1;
        let (instructions, references) = (counts[0], counts[1]);
        if references == 0 {
            continue;
        }
        processes += 1;
        let mut push = |metric: &str, unit: &str, value: Option<f64>| {
            seeds.append_value(seed);
            asids.append_value(process.asid.0);
            kernel.append_value(process.kernel);
            metrics.append_value(metric);
            units.append_value(unit);
            values.append_option(value);
        };
        push("instructions", "instructions", Some(whole(instructions)));
        push("references", "references", Some(whole(references)));
        for ([name, rate], &misses) in names.misses.iter().zip(&counts[OF_STREAM..]) {
            push(name, "misses", Some(whole(misses)));
            push(rate, "misses/instruction", ratio(misses, instructions));
        }
        if let Some(footprint) = shares.footprint(process) {
            push("os.pages", "pages", Some(whole(footprint[0] - 1)));
            push("os.pages.shared", "pages", Some(whole(footprint[1])));
            for ([name, minimum], conflicts) in names.conflicts.iter().zip(footprint[2..].chunks_exact(2)) {
                push(name, "pages", Some(whole(conflicts[0])));
                push(minimum, "pages", Some(whole(conflicts[1])));
            }
        }
    }
    (processes > 0).then(|| {
        let metrics = metrics.finish();
        let rows = arrow_array::Array::len(&metrics);
        vec![
            repeated(&part.workload, rows),
            repeated(&part.machine, rows),
            Arc::new(seeds.finish()) as ArrayRef,
            Arc::new(asids.finish()),
            Arc::new(kernel.finish()),
            Arc::new(metrics),
            Arc::new(units.finish()),
            Arc::new(values.finish()),
        ]
    })
}

/// `ProcessMetrics` holds the names of a process's metrics, by cache.
struct ProcessMetrics {
    misses: Vec<[String; 2]>,
    conflicts: Vec<[String; 2]>,
}

impl ProcessMetrics {
    fn of(part: &MachineRows) -> Self {
        let divided = part.caches.iter().zip(&part.divided).filter(|&(_, &divided)| divided);
        Self {
            misses: part
                .caches
                .iter()
                .map(|cache| ["misses", "mpi"].map(|of| format!("{cache}.{of}")))
                .collect(),
            conflicts: divided
                .map(|(cache, _)| ["conflicts", "conflicts.minimum"].map(|of| format!("{cache}.{of}")))
                .collect(),
        }
    }
}
