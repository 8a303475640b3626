//! These tests run series and processes that do not fit into the memory kept for them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::run;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, LargeStringArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use binhop_base::{Class, Problem};
use binhop_sim::{Machine, Outcome, RunOptions, write_table};
use binhop_trace::Op;
use binhop_trace::event::EventBuilder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const TOML: &str = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "random", pool = "1MiB" }
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "l2"
[cache.l2]
size = "16KiB"
line = "32B"
next = "memory"
"#;

/// Values by seed, interval or process, and metric; `None` where a value is undefined.
type Rows = BTreeMap<(u64, u64, String), Option<f64>>;

/// Returns the values of a table by seed, a further key and metric.
fn rows(table: &RecordBatch, key: &str) -> Rows {
    let column = |name: &str| table.column_by_name(name).unwrap();
    let seeds = column("seed").as_primitive::<UInt64Type>();
    let keys: Vec<u64> = match column(key).data_type() {
        DataType::UInt32 => {
            column(key).as_primitive::<UInt32Type>().values().iter().map(|&n| n.into()).collect()
        }
        _ => column(key).as_primitive::<UInt64Type>().values().to_vec(),
    };
    let (metrics, values) =
        (column("metric").as_string::<i32>(), column("value").as_primitive::<Float64Type>());
    let row = |row: usize| {
        (
            (seeds.value(row), keys[row], metrics.value(row).to_string()),
            values.is_valid(row).then(|| values.value(row)),
        )
    };
    let all: Rows = (0..table.num_rows()).map(row).collect();
    assert_eq!(all.len(), table.num_rows(), "each row once");
    all
}

fn result(outcome: &Outcome, seed: u64, metric: &str) -> f64 {
    let table = &outcome.results;
    let column = |name: &str| table.column_by_name(name).unwrap();
    let (seeds, metrics) = (column("seed").as_primitive::<UInt64Type>(), column("metric").as_string::<i32>());
    let row = (0..table.num_rows()).find(|&row| seeds.value(row) == seed && metrics.value(row) == metric);
    column("value").as_primitive::<Float64Type>().value(row.unwrap())
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn read(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

#[test]
fn ten_thousand_intervals_add_up() {
    let machine = Machine::parse(TOML, "small", &[]).unwrap();
    let mut events = EventBuilder::default();
    for row in 0..10_000u64 {
        events.push(Op::Fetch, row * 32 * 7 % 65_536, 32, 8);
        events.push(Op::Load, row * 48 % 131_072, 8, 1);
    }
    // Two lanes share nothing, and write to one file in turn.
    let options = RunOptions { seeds: vec![3, 8], interval: Some(8), threads: 2, ..RunOptions::default() };
    let outcome = run(&machine, &events.finish(), 5000, &options);
    let table = outcome.series.whole().unwrap();
    assert_eq!(table.num_rows() as u64, outcome.series.rows_at_most());
    assert_eq!(table.num_rows(), 2 * 10_000 * 4);
    assert!(
        table
            .column_by_name("instructions")
            .unwrap()
            .as_primitive::<UInt64Type>()
            .values()
            .iter()
            .all(|&n| n == 8)
    );
    let all = rows(&table, "interval");
    for seed in [3, 8] {
        for cache in ["l1", "l2"] {
            let of = |metric: &str| {
                let metric = format!("{cache}.{metric}");
                (0..10_000)
                    .map(|interval| all[&(seed, interval, metric.clone())].unwrap())
                    .collect::<Vec<_>>()
            };
            let kinds =
                ["fetch", "load"].map(|kind| result(&outcome, seed, &format!("{cache}.{kind}.misses")));
            assert_eq!(of("misses").iter().sum::<f64>(), kinds.iter().sum::<f64>(), "{cache}, seed {seed}");
            assert!(of("misses").iter().zip(of("mpi")).all(|(misses, mpi)| misses / 8.0 == mpi));
        }
    }
    assert_ne!(result(&outcome, 3, "l2.load.misses"), result(&outcome, 8, "l2.load.misses"));
    let path = file("series.parquet");
    outcome.series.write_parquet(&path, &|| Ok(())).unwrap();
    assert!(rows(&read(&path), "interval") == all);
}

#[test]
fn six_thousand_processes_that_return_are_charged_what_they_did() {
    let machine = Machine::parse(TOML, "small", &[]).unwrap();
    let processes = 6000u64;
    let mut events = EventBuilder::default();
    // Each process runs three times, and no table holds so many processes. All share a page. Some exit in
    // between and return.
    events.push_args(Op::Map, 5 << 12, 3 | 8, 1, [Some(1), Some(0)]);
    events.push(Op::Load, 5 << 12, 8, 1);
    for turn in 0..3u64 {
        for asid in 1..=processes {
            events.push(Op::Switch, asid, 0, 0);
            if turn == 0 || asid % 3 == 0 {
                events.push_args(Op::Map, 5 << 12, 3 | 8, 1, [Some(1), Some(0)]);
            }
            events.push(Op::Fetch, 5 << 12, 32, (asid % 7) as u32 + turn as u32 + 1);
            for load in 0..asid % 5 {
                events.push(Op::Load, (5 << 12) + load * 1024 + turn * 64, 8, 1);
            }
            if asid % 3 == 0 {
                events.push(Op::Exit, asid, 0, 0);
            }
        }
    }
    let outcome =
        run(&machine, &events.finish(), 5000, &RunOptions { seeds: vec![0, 1], ..RunOptions::default() });
    let all = rows(&outcome.processes.whole().unwrap(), "asid");
    for seed in [0, 1] {
        for asid in 1..=processes {
            let of = |metric: &str| all[&(seed, asid, metric.to_string())].unwrap();
            let instructions = (0..3).map(|turn| asid % 7 + turn + 1).sum::<u64>();
            assert_eq!(of("instructions"), instructions as f64, "asid {asid}");
            assert_eq!(of("references"), (instructions + 3 * (asid % 5)) as f64, "asid {asid}");
            assert_eq!((of("os.pages"), of("os.pages.shared")), (1.0, 1.0), "asid {asid}");
        }
        let sum = |metric: &str| {
            (0..=processes).map(|asid| all[&(seed, asid, metric.to_string())].unwrap()).sum::<f64>()
        };
        let kinds = ["fetch", "load"].map(|kind| result(&outcome, seed, &format!("l1.{kind}.misses")));
        assert_eq!(sum("l1.misses"), kinds.iter().sum::<f64>());
        assert_eq!(sum("instructions"), result(&outcome, seed, "instructions"));
    }
    let path = file("processes.parquet");
    outcome.processes.write_parquet(&path, &|| Ok(())).unwrap();
    assert!(rows(&read(&path), "asid") == all);
}

#[test]
fn the_bytes_of_a_file_depend_on_its_rows_alone() {
    let names: Vec<String> = (0..50_000).map(|row| format!("name {}", row % 97)).collect();
    let numbers: Vec<u64> = (0..50_000).map(|row| row * row % 1009).collect();
    let write = |kind: DataType, nullable: bool, sizes: &[usize], name: &str| {
        let fields = [("name", kind.clone()), ("number", DataType::UInt64)];
        let schema = Schema::new(fields.map(|(name, kind)| Field::new(name, kind, nullable)).to_vec());
        let text: arrow_array::ArrayRef = match kind {
            DataType::LargeUtf8 => std::sync::Arc::new(LargeStringArray::from_iter_values(&names)),
            _ => std::sync::Arc::new(StringArray::from_iter_values(&names)),
        };
        let numbers = std::sync::Arc::new(arrow_array::UInt64Array::from(numbers.clone()));
        let whole = RecordBatch::try_new(std::sync::Arc::new(schema.clone()), vec![text, numbers]).unwrap();
        let (mut at, mut sizes) = (0, sizes.iter().cycle());
        let mut batches = std::iter::from_fn(|| {
            let size = (*sizes.next().unwrap()).min(whole.num_rows() - at);
            at += size;
            (size > 0).then(|| Ok(whole.slice(at - size, size)))
        });
        let path = file(name);
        write_table(&schema, &mut batches, &path, &|| Ok(())).unwrap();
        std::fs::read(path).unwrap()
    };
    let one = write(DataType::Utf8, false, &[50_000], "one.parquet");
    assert!(one == write(DataType::LargeUtf8, true, &[50_000], "large.parquet"));
    assert!(one == write(DataType::Utf8, false, &[1, 700, 33_333], "pieces.parquet"));
}

/// Writes a table of `batches` batches of `rows` rows, and stops at check number `stop`. Returns how many
/// batches were asked for.
fn asked_before_the_stop(batches: u64, rows: u64, stop: u64) -> u64 {
    let schema = Schema::new(vec![Field::new("number", DataType::UInt64, false)]);
    let (asked, questions) = (Cell::new(0), Cell::new(0));
    let mut stream = (0..batches).map(|_| {
        asked.set(asked.get() + 1);
        let numbers = std::sync::Arc::new(arrow_array::UInt64Array::from_iter_values(0..rows));
        Ok(RecordBatch::try_new(std::sync::Arc::new(schema.clone()), vec![numbers]).unwrap())
    });
    let check_interrupt = || {
        questions.set(questions.get() + 1);
        if questions.get() < stop { Ok(()) } else { Err(Problem::interrupted()) }
    };
    let stopped = write_table(&schema, &mut stream, &file("stopped.parquet"), &check_interrupt).unwrap_err();
    assert_eq!(stopped.class, Class::Interrupted);
    assert_eq!(questions.get(), stop, "nothing is asked after the stop");
    asked.get()
}

#[test]
fn a_stopped_write_ends_before_the_next_batch_and_within_a_large_one() {
    assert_eq!(asked_before_the_stop(100, 10, 1), 0);
    // Each batch has two checks: before it is asked for, and before its rows are written.
    assert_eq!(asked_before_the_stop(100, 10, 21), 10);
    // A batch of a million rows is 61 pieces. The writer stops at the fortieth check.
    assert_eq!(asked_before_the_stop(2, 1_000_000, 41), 1);
}
