//! `SwitchTables` are the tables of switches of one machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use binhop_base::Result;
use binhop_hw::TreeConfig;
use binhop_os::Spaces;
use binhop_trace::Meta;

use super::counts::{CauseOfSegment, Layout};
use super::curves::Point;
use super::readings::{POINT_RECORD, SegmentKey, SwitchReadings};
use crate::results::segments::SegmentNames;
use crate::results::spill::Records;

/// `SwitchTables` are the tables of switches of one machine, with the seeds one below the other.
#[derive(Clone, Debug)]
pub struct SwitchTables {
    /// One row for each seed, life, cause and system call, with a column for each count (`cycles.shared`,
    /// `l2.misses.replaced`, …).
    pub costs: RecordBatch,
    /// One row for each seed, interval after a switch, and kind of segment: all segments, those of each cause, those
    /// of each life.
    pub curves: RecordBatch,
    /// One row for each seed, page of code and cause: the cycles waited while the page ran, in the first instructions
    /// after a switch.
    pub pages: RecordBatch,
    /// The command of each address space, as far as the trace tells it.
    pub commands: BTreeMap<u32, String>,
}

/// `SwitchSource` holds what the tables of one machine are made from.
pub(crate) struct SwitchSource<'a> {
    pub(crate) workload: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) config: &'a TreeConfig,
    pub(crate) seeds: Vec<(u64, &'a SwitchReadings)>,
    pub(crate) spaces: &'a Spaces,
    pub(crate) meta: &'a Meta,
}

/// Makes the tables of one machine.
///
/// # Errors
/// A log cannot be read.
pub(crate) fn tables(of: &SwitchSource<'_>) -> Result<SwitchTables> {
    Ok(SwitchTables { costs: costs(of)?, curves: curves(of)?, pages: pages(of), commands: commands(of.meta) })
}

fn commands(meta: &Meta) -> BTreeMap<u32, String> {
    meta.processes.iter().filter_map(|(&asid, process)| Some((asid, process.command.clone()?))).collect()
}

/// Makes a table of columns, below the names of workload and machine.
fn table(of: &SwitchSource<'_>, columns: Vec<(&str, ArrayRef, bool)>) -> RecordBatch {
    let rows = columns[0].1.len();
    let repeat =
        |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))) };
    let mut all = vec![("workload", repeat(of.workload), false), ("machine", repeat(of.machine), false)];
    all.extend(columns);
    let field = |(name, array, nullable): &(&str, ArrayRef, bool)| {
        Field::new(*name, array.data_type().clone(), *nullable)
    };
    let schema = Schema::new(all.iter().map(field).collect::<Vec<_>>());
    let arrays = all.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of one table agree in length and type")
}

fn costs(of: &SwitchSource<'_>) -> Result<RecordBatch> {
    let layout = Layout::new(of.config.caches.len());
    let names = layout.names(of.config);
    let (mut seed, mut asid, mut life) = (UInt64Builder::new(), UInt32Builder::new(), UInt32Builder::new());
    let (mut cause, mut syscall) = (StringBuilder::new(), UInt64Builder::new());
    let mut counts: Vec<UInt64Builder> = names.iter().map(|_| UInt64Builder::new()).collect();
    for &(number, readings) in &of.seeds {
        let mut rows: Vec<(SegmentKey, Vec<u64>)> = Vec::new();
        readings.each_cost(|key, counts| rows.push((key, counts.to_vec())))?;
        rows.sort_by_key(|(key, _)| *key);
        for (key, values) in rows {
            seed.append_value(number);
            asid.append_value(key.asid.0);
            life.append_value(key.life);
            cause.append_value(key.cause.name());
            syscall.append_option(key.syscall);
            counts.iter_mut().zip(values).for_each(|(column, value)| column.append_value(value));
        }
    }
    let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("seed", Arc::new(seed.finish()), false),
        ("asid", Arc::new(asid.finish()), false),
        ("life", Arc::new(life.finish()), false),
        ("cause", Arc::new(cause.finish()), false),
        ("syscall", Arc::new(syscall.finish()), true),
    ];
    for (name, column) in names.iter().zip(&mut counts) {
        if let Some(name) = name {
            columns.push((name, Arc::new(column.finish()), false));
        }
    }
    Ok(table(of, columns))
}

/// `CurveColumns` are the columns of the table of curves while rows are added.
#[derive(Default)]
struct CurveColumns {
    seed: UInt64Builder,
    asid: UInt32Builder,
    life: UInt32Builder,
    cause: StringBuilder,
    interval: UInt32Builder,
    number: UInt32Builder,
    counts: [UInt64Builder; 5],
    squares: [Float64Builder; 3],
    most: [UInt64Builder; 2],
}

impl CurveColumns {
    fn push(
        &mut self,
        seed: u64,
        life: Option<(u32, u32)>,
        cause: Option<&str>,
        at: (u64, usize),
        point: &Point,
    ) {
        self.seed.append_value(seed);
        self.asid.append_option(life.map(|(asid, _)| asid));
        self.life.append_option(life.map(|(_, life)| life));
        self.cause.append_option(cause);
        self.interval.append_value(at.0 as u32);
        self.number.append_value(at.1 as u32);
        let Point { segments, complete, instructions, cycles, most, squares } = point;
        let counts = [*segments, *complete, *instructions, cycles[0], cycles[1]];
        self.counts.iter_mut().zip(counts).for_each(|(column, count)| column.append_value(count));
        self.squares.iter_mut().zip(squares).for_each(|(column, &sum)| column.append_value(sum));
        let known = |most: u64| (*complete > 0).then_some(most);
        self.most.iter_mut().zip(most).for_each(|(column, &most)| column.append_option(known(most)));
    }

    fn finish(self, of: &SwitchSource<'_>) -> RecordBatch {
        let Self { mut seed, mut asid, mut life, mut cause, mut interval, mut number, counts, squares, most } =
            self;
        let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("seed", Arc::new(seed.finish()), false),
            ("asid", Arc::new(asid.finish()), true),
            ("life", Arc::new(life.finish()), true),
            ("cause", Arc::new(cause.finish()), true),
            ("interval", Arc::new(interval.finish()), false),
            ("number", Arc::new(number.finish()), false),
        ];
        let names = ["segments", "complete", "instructions", "cycles_shared", "cycles_private"];
        for (name, mut column) in names.into_iter().zip(counts) {
            columns.push((name, Arc::new(column.finish()), false));
        }
        for (name, mut column) in
            ["squares_shared", "squares_private", "squares_excess"].into_iter().zip(squares)
        {
            columns.push((name, Arc::new(column.finish()), false));
        }
        for (name, mut column) in ["max_shared", "max_private"].into_iter().zip(most) {
            columns.push((name, Arc::new(column.finish()), true));
        }
        table(of, columns)
    }
}

fn curves(of: &SwitchSource<'_>) -> Result<RecordBatch> {
    let mut columns = CurveColumns::default();
    for &(seed, readings) in &of.seeds {
        for (length, number, point) in readings.all.points() {
            columns.push(seed, None, None, (length, number), point);
        }
        for ((_, name), curve) in CauseOfSegment::ALL.into_iter().zip(&readings.by_cause) {
            for (length, number, point) in curve.points() {
                columns.push(seed, None, Some(name), (length, number), point);
            }
        }
        let mut points = Vec::new();
        let (mut records, mut record) = (Records::new(&readings.points), [0; POINT_RECORD]);
        while records.next(&mut record)? {
            points.push(record);
        }
        // A life may have been logged before another life with a smaller number.
        points.sort_by(|one, other| one[..4].cmp(&other[..4]));
        for record in points {
            let life = (record[0] as u32, record[1] as u32);
            columns.push(
                seed,
                Some(life),
                None,
                (record[2], record[3] as usize),
                &Point::of_record(&record[4..]),
            );
        }
    }
    Ok(columns.finish(of))
}

fn pages(of: &SwitchSource<'_>) -> RecordBatch {
    let names = SegmentNames::new(of.meta);
    let (mut seed, mut segment, mut asid) =
        (UInt64Builder::new(), StringBuilder::new(), UInt32Builder::new());
    let (mut page, mut cause) = (UInt64Builder::new(), StringBuilder::new());
    let mut counts: [UInt64Builder; 3] = Default::default();
    let page_log2 = of.config.page.log2();
    for &(number, readings) in &of.seeds {
        for code in &readings.pages {
            let name = names.of(of.spaces, code.page);
            let first = of.spaces.mappings_of(code.page).last();
            let space = first.and_then(|mapping| of.spaces.asid_of(mapping));
            let run = CauseOfSegment::ALL.into_iter().zip(&code.counts).filter(|(_, counts)| counts[0] > 0);
            for ((_, of_cause), values) in run {
                seed.append_value(number);
                segment.append_value(&name);
                asid.append_option(space.map(|asid| asid.0));
                page.append_value(of.spaces.global_page(code.page).0 << page_log2);
                cause.append_value(of_cause);
                counts.iter_mut().zip(values).for_each(|(column, &value)| column.append_value(value));
            }
        }
    }
    let [mut fetches, mut shared, mut private] = counts;
    table(
        of,
        vec![
            ("seed", Arc::new(seed.finish()), false),
            ("segment", Arc::new(segment.finish()), false),
            ("asid", Arc::new(asid.finish()), true),
            ("page", Arc::new(page.finish()), false),
            ("cause", Arc::new(cause.finish()), false),
            ("fetches", Arc::new(fetches.finish()), false),
            ("cycles_shared", Arc::new(shared.finish()), false),
            ("cycles_private", Arc::new(private.finish()), false),
        ],
    )
}
