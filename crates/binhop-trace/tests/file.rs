//! These tests check that written events are read back, and that damaged trace files are refused.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use binhop_base::{Class, Domain, Problem, Rng, Stream};
use binhop_trace::event::{EventBatch, EventBuilder, Op};
use binhop_trace::source::{Meta, ProcessMeta, Source};
use binhop_trace::transform::{Joined, Selection, select};
use binhop_trace::{TraceReader, TraceWriter, Written};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use proptest::prelude::*;

/// `TestDirectory` is a directory that no other test uses. It is removed at the end.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("binhop-trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Event = (u8, u64, u32, u32, Option<u64>, Option<u64>);

fn events(rows: u64) -> Vec<Event> {
    let rng = Rng::new(5);
    let draw = |what: u64, row: u64, n: u64| rng.below(Stream::new(Domain::Test, what), row, n);
    (0..rows)
        .map(|row| {
            let op = draw(0, row, Op::ALL.len() as u64) as u8;
            let arg = |what| (op > 3 && draw(what, row, 2) == 0).then(|| draw(what, row, u64::MAX));
            (
                op,
                0x40_0000 + row * draw(1, row, 900),
                draw(2, row, 64) as u32,
                1 + draw(3, row, 9) as u32,
                arg(4),
                arg(5),
            )
        })
        .collect()
}

fn batch(events: &[Event]) -> EventBatch {
    let mut builder = EventBuilder::default();
    for &(op, addr, size, count, arg0, arg1) in events {
        builder.push_args(Op::from_code(op).unwrap(), addr, size, count, [arg0, arg1]);
    }
    builder.finish()
}

fn meta() -> Meta {
    let mut meta = Meta { page_size: Some(4096), command: Some("sort words".into()), ..Meta::default() };
    meta.processes.insert(1, ProcessMeta { pid: Some(4711), command: Some("sort".into()), parent: None });
    meta
}

fn write(path: &Path, events: &[Event], row_group: usize, chunk: usize) -> Written {
    write_on(1, path, events, row_group, chunk)
}

fn write_on(threads: usize, path: &Path, events: &[Event], row_group: usize, chunk: usize) -> Written {
    let mut writer = TraceWriter::with_row_groups(path, &meta(), threads, row_group).unwrap();
    for part in events.chunks(chunk) {
        writer.push(&batch(part)).unwrap();
    }
    writer.finish().unwrap()
}

fn read(path: &Path) -> Result<Vec<Event>, Box<Problem>> {
    let mut reader = TraceReader::open(path)?;
    let mut events = Vec::new();
    while let Some(b) = reader.next_batch()? {
        events.extend(
            (0..b.len()).map(|r| (b.op()[r], b.addr()[r], b.size()[r], b.count()[r], b.arg0(r), b.arg1(r))),
        );
    }
    Ok(events)
}

fn refused(path: &Path) -> Problem {
    let problem = *read(path).expect_err("it must be refused");
    assert_eq!(problem.class, Class::Request, "{problem}");
    assert!(problem.place.contains(path.to_str().unwrap()), "{problem}");
    problem
}

#[test]
fn written_events_are_read_with_their_metadata() {
    let directory = TestDirectory::new("round");
    let path = directory.file("t.parquet");
    let all = events(1000);
    let written = write(&path, &all, 300, 77);
    assert_eq!(read(&path).unwrap(), all);
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.meta(), &meta());
    let facts = reader.facts();
    assert_eq!((facts.rows, facts.row_groups, facts.bytes), (1000, 4, fs::metadata(&path).unwrap().len()));
    let checks = facts.checks.as_ref().unwrap();
    assert_eq!(checks.totals, written.totals);
    assert_eq!(checks.content_hash, format!("{:016x}", written.content_hash));
    let count = |op: u8| all.iter().filter(move |event| event.0 == op);
    let instructions: u64 = count(0).map(|event| u64::from(event.3)).sum();
    assert_eq!(written.totals.instructions, instructions);
    let data = (1..=3).map(|op| count(op).count() as u64).sum::<u64>();
    assert_eq!(written.totals.references, instructions + data);
    assert_eq!(written.totals.events[Op::Switch], count(4).count() as u64);
    assert_eq!(directory.names(), ["t.parquet"]);
}

#[test]
fn a_trace_without_events_is_a_trace() {
    let directory = TestDirectory::new("none");
    let path = directory.file("t.parquet");
    write(&path, &[], 300, 77);
    assert_eq!(read(&path).unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn arbitrary_bytes_between_the_marks_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in any::<prop::sample::Index>()) {
        let directory = TestDirectory::new("bytes");
        let footer = (bytes.len() - cut.index(bytes.len() + 1)) as u32;
        let file = [b"PAR1", bytes.as_slice(), &footer.to_le_bytes(), b"PAR1"].concat();
        refused_bytes(&directory, &file);
    }

    /// A reader that rests between batches yields each row again that was not used, and no other row.
    #[test]
    fn a_reader_that_rests_yields_every_row_once(rows in 1u64..600, row_group in 1usize..400, used in prop::collection::vec(0usize..40, 1..50)) {
        let directory = TestDirectory::new("rests");
        let path = directory.file("t.parquet");
        let all = events(rows);
        write(&path, &all, row_group, 100);
        let mut reader = TraceReader::open(&path).unwrap();
        let (mut found, mut turn) = (Vec::new(), 0);
        while let Some(batch) = reader.next_batch().unwrap() {
            let mut upto = batch.len();
            // At least one row is used, so that the reading ends.
            let wanted = used[turn % used.len()].max(turn % 2);
            turn += 1;
            if wanted < batch.len() && reader.rest(batch.len() - wanted) {
                upto = wanted;
            }
            found.extend((0..upto).map(|r| {
                (batch.op()[r], batch.addr()[r], batch.size()[r], batch.count()[r], batch.arg0(r), batch.arg1(r))
            }));
        }
        prop_assert_eq!(found, all);
    }

    #[test]
    fn content_hash_and_bytes_do_not_depend_on_batches_and_threads(rows in 1u64..600, row_group in 1usize..400, chunks in [(1usize..300, 1usize..5), (1usize..300, 1usize..5)]) {
        let directory = TestDirectory::new("chunks");
        let all = events(rows);
        let [a, b] = chunks.map(|(chunk, threads)| {
            let path = directory.file(&format!("{chunk}.parquet"));
            (write_on(threads, &path, &all, row_group, chunk), fs::read(&path).unwrap())
        });
        prop_assert_eq!(&a, &b);
        let path = directory.file("one.parquet");
        let one = write(&path, &all, 1 << 20, 1 << 20);
        prop_assert_eq!(one.content_hash, a.0.content_hash);
        prop_assert_eq!(read(&path).unwrap(), all.clone());
        // The hash depends on every value.
        let mut other = all;
        let last = other.last_mut().unwrap();
        last.4 = if last.4 == Some(0) { None } else { Some(0) };
        prop_assert_ne!(write(&path, &other, row_group, 100).content_hash, one.content_hash);
    }
}

/// Flips one bit at a time: the file is refused, and the problem names the row group. `bits_of_byte` returns the bits
/// to flip in the byte at an offset.
fn flipped_bits_are_refused<Bits: Iterator<Item = usize>>(bits_of_byte: impl Fn(usize) -> Bits) {
    let directory = TestDirectory::new("flips");
    let path = directory.file("t.parquet");
    let all = events(150);
    write(&path, &all, 60, 50);
    let sound = fs::read(&path).unwrap();
    let ranges = row_group_ranges(&path);
    assert_eq!((ranges.len(), ranges[0].0, ranges[1].0, ranges[2].0), (3, 4, ranges[0].1, ranges[1].1));
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for (at, bit) in (0..sound.len()).flat_map(|at| bits_of_byte(at).map(move |bit| (at, bit))) {
        // The file is changed in place, because rewriting it each time takes minutes.
        file.write_all_at(&[sound[at] ^ 1 << bit], at as u64).unwrap();
        let problem = refused(&path);
        let text = problem.to_string();
        assert!(text.contains("damaged"), "byte {at}, bit {bit}: {text}");
        match ranges.iter().position(|&(start, end)| (start..end).contains(&(at as u64))) {
            Some(index) => {
                assert!(
                    problem.place.contains(&format!("row group {index} ")),
                    "byte {at}, bit {bit}: {text}"
                );
            }
            None => assert!(!text.contains("row group "), "byte {at}, bit {bit}: {text}"),
        }
        file.write_all_at(&sound[at..=at], at as u64).unwrap();
    }
    assert_eq!(read(&path).unwrap(), all);
}

/// One bit of every byte is flipped, and each place within a byte comes in turn.
#[test]
fn a_flipped_bit_of_every_byte_is_refused_and_its_row_group_is_named() {
    flipped_bits_are_refused(|at| std::iter::once(at % 8));
}

#[test]
#[ignore = "takes long: each bit of the file"]
fn every_flipped_bit_is_refused_and_its_row_group_is_named() {
    flipped_bits_are_refused(|_| 0..8);
}

fn row_group_ranges(path: &Path) -> Vec<(u64, u64)> {
    let file = fs::File::open(path).unwrap();
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let range = |columns: &[parquet::file::metadata::ColumnChunkMetaData]| {
        let (first, last) = (columns[0].byte_range(), columns.last().unwrap().byte_range());
        (first.0, last.0 + last.1)
    };
    metadata.row_groups().iter().map(|row_group| range(row_group.columns())).collect()
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let directory = TestDirectory::new("cut");
    let path = directory.file("t.parquet");
    write(&path, &events(150), 60, 50);
    let sound = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for length in (0..sound.len()).rev() {
        file.set_len(length as u64).unwrap();
        refused(&path);
    }
    assert_eq!(refused_bytes(&directory, &[]).rule, "the file is empty");
    assert!(refused_bytes(&directory, b"2 7fff0010\n0 1000\n").rule.contains("not a Parquet file"));
    assert!(refused_bytes(&directory, &sound[..sound.len() - 20]).rule.contains("cut short"));
}

fn refused_bytes(directory: &TestDirectory, bytes: &[u8]) -> Problem {
    let path = directory.file("bytes");
    fs::write(&path, bytes).unwrap();
    refused(&path)
}

#[test]
fn paths_that_are_no_file_are_refused() {
    let directory = TestDirectory::new("nofile");
    assert!(refused(&directory.file("missing.parquet")).value.contains("No such file"));
    assert_eq!(refused(&directory.0).value, "a directory");
    let link = directory.file("null");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    assert_eq!(refused(&link).value, "not a regular file");
    let problem = TraceWriter::create(&link, &meta(), 1).err().unwrap();
    assert_eq!((problem.class, problem.value.as_str()), (Class::Request, "not a regular file"));
    let problem = TraceWriter::create(&directory.file("no/such/t.parquet"), &meta(), 1).err().unwrap();
    assert!(problem.value.contains("No such file"), "{problem}");
}

/// A file as Polars or pyarrow might write it.
fn foreign(path: &Path, columns: Vec<(&str, ArrayRef)>, entries: &[(&str, &str)]) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    for (key, value) in entries {
        writer.append_key_value_metadata(KeyValue::new((*key).to_owned(), (*value).to_owned()));
    }
    writer.close().unwrap();
}

fn required() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("note", Arc::new(UInt8Array::from(vec![9, 9, 9])) as ArrayRef),
        ("count", Arc::new(UInt32Array::from(vec![2, 1, 1]))),
        ("op", Arc::new(UInt8Array::from(vec![0, 1, 2]))),
        ("addr", Arc::new(UInt64Array::from(vec![4096, 8, u64::MAX]))),
        ("size", Arc::new(UInt32Array::from(vec![7, 8, 1]))),
    ]
}

#[test]
fn a_file_of_another_program_needs_only_the_required_columns() {
    let directory = TestDirectory::new("foreign");
    let path = directory.file("t.parquet");
    foreign(&path, required(), &[]);
    let expected: Vec<Event> =
        vec![(0, 4096, 7, 2, None, None), (1, 8, 8, 1, None, None), (2, u64::MAX, 1, 1, None, None)];
    assert_eq!(read(&path).unwrap(), expected);
    assert_eq!(TraceReader::open(&path).unwrap().facts().checks, None);
    // Another program rewrote binhop's file and kept its entries. The checksums do not fit and are not
    // compared.
    let entries = [
        ("binhop.schema", "1"),
        ("binhop.meta", r#"{"page_size":4096}"#),
        ("binhop.checksum", "0123456789abcdef"),
    ];
    foreign(&path, required(), &entries);
    assert_eq!(read(&path).unwrap(), expected);
    assert_eq!(TraceReader::open(&path).unwrap().meta().page_size, Some(4096));
    foreign(&path, required(), &[("binhop.schema", "2")]);
    let problem = refused(&path);
    assert_eq!(
        (problem.value.as_str(), problem.rule.as_str()),
        ("2", "this binhop reads version 1 of the event schema")
    );
}

/// Only the first batch is unsound. The reader, a joined trace and a part repeat its error, and return no
/// later batch.
#[test]
fn no_batch_follows_an_error() {
    let directory = TestDirectory::new("follows");
    let path = directory.file("t.parquet");
    let loads = |first_op: u8, first_size: u32| -> Vec<(&'static str, ArrayRef)> {
        let (mut op, mut size) = (vec![1; 40_000], vec![4; 40_000]);
        (op[0], size[0]) = (first_op, first_size);
        vec![
            ("op", Arc::new(UInt8Array::from(op))),
            ("addr", Arc::new(UInt64Array::from(vec![8; 40_000]))),
            ("size", Arc::new(UInt32Array::from(size))),
            ("count", Arc::new(UInt32Array::from(vec![1; 40_000]))),
        ]
    };
    let twice = |mut source: Box<dyn Source>| {
        let problems = [source.next_batch(), source.next_batch()].map(|batch| batch.unwrap_err().to_string());
        assert_eq!(problems[0], problems[1]);
        problems[0].clone()
    };
    foreign(&path, loads(99, 4), &[]);
    let open = || -> Box<dyn Source> { Box::new(TraceReader::open(&path).unwrap()) };
    assert!(twice(open()).contains("99: no operation has this code"));
    // The reader accepts a reference that is too large.
    foreign(&path, loads(1, 1 << 20), &[]);
    assert!(twice(Box::new(Joined::new(vec![open()]).unwrap())).contains("row 0: load with size 1048576"));
    let part = select(open(), &Selection::default()).unwrap();
    assert!(twice(part).contains("row 0: load with size 1048576"));
}

/// `polars.parquet`: Polars 2.1's `write_parquet`. `pyarrow-rewritten.parquet`: rows 5 to 7 of a trace of
/// binhop, read and written by pyarrow 26, which kept binhop's entries. The entries describe the whole trace,
/// so they must not be used.
#[test]
fn files_of_polars_and_pyarrow_are_read() {
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign").join(name);
    assert_eq!(
        read(&file("polars.parquet")).unwrap(),
        [(0, 4096, 4, 1, None, None), (1, 8, 8, 1, None, None)]
    );
    let rewritten = file("pyarrow-rewritten.parquet");
    let expected: [Event; 3] = [
        (1, 139_637_976_727_568, 8, 1, None, None),
        (0, 6_796_255, 26, 7, None, None),
        (1, 140_737_488_280_272, 8, 1, None, None),
    ];
    assert_eq!(read(&rewritten).unwrap(), expected);
    let facts = TraceReader::open(&rewritten).unwrap().facts().clone();
    assert!(facts.checks.is_none() && facts.created_by.unwrap().starts_with("parquet-cpp-arrow"));
}

#[test]
fn columns_that_do_not_fit_are_refused_by_name() {
    let directory = TestDirectory::new("columns");
    let path = directory.file("t.parquet");
    let with = |name: &'static str, array: ArrayRef| {
        let mut columns = required();
        columns.iter_mut().filter(|column| column.0 == name).for_each(|column| column.1 = Arc::clone(&array));
        foreign(&path, columns, &[]);
        refused(&path)
    };
    let problem = with("size", Arc::new(UInt64Array::from(vec![7, 8, 1])));
    assert_eq!((problem.value.as_str(), problem.rule.as_str()), ("UInt64", "the column size must be UInt32"));
    let problem = with("addr", Arc::new(UInt64Array::from(vec![Some(1), None, Some(3)])));
    assert!(problem.place.ends_with("row group 0: from row 0: column addr, row 1"), "{problem}");
    let problem = with("op", Arc::new(UInt8Array::from(vec![0, Op::ALL.len() as u8, 2])));
    assert_eq!(
        (problem.value.as_str(), problem.rule.as_str()),
        (&*Op::ALL.len().to_string(), "no operation has this code")
    );
    assert!(problem.place.ends_with("row group 0: row 1"), "{problem}");
    foreign(&path, required().into_iter().filter(|column| column.0 != "count").collect(), &[]);
    assert_eq!(refused(&path).rule, "the column count is missing");
}

/// No checksum protects these files. The reader must return events or an error.
#[test]
fn damaged_files_of_other_programs_never_panic() {
    let directory = TestDirectory::new("fuzz");
    let path = directory.file("t.parquet");
    foreign(&path, required(), &[]);
    let sound = fs::read(&path).unwrap();
    let rng = Rng::new(11);
    std::panic::set_hook(Box::new(|_| {})); // the decoder's own panics are caught; their noise is not wanted here
    let (mut read_anyway, mut refusals) = (0, 0);
    for trial in 0..4000u64 {
        let mut bytes = sound.clone();
        let draw = |what: u64, n: u64| rng.below(Stream::new(Domain::Test, what), trial, n);
        for change in 0..1 + draw(0, 3) {
            // The damage is a byte, or enough set bits for a huge length.
            let at = draw(1 + 3 * change, bytes.len() as u64) as usize;
            let end = bytes.len().min(at + 1 + draw(2 + 3 * change, 2) as usize * 4);
            let byte = if end == at + 1 { draw(3 + 3 * change, 256) as u8 } else { 0xff };
            bytes[at..end].fill(byte);
        }
        fs::write(&path, &bytes).unwrap();
        match read(&path) {
            Ok(_) => read_anyway += 1,
            Err(problem) => {
                assert_eq!(problem.class, Class::Request);
                refusals += 1;
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(read_anyway > 100 && refusals > 100, "{read_anyway} read, {refusals} refused");
}

#[test]
fn a_dropped_writer_leaves_the_old_file() {
    let directory = TestDirectory::new("drop");
    let path = directory.file("t.parquet");
    fs::write(&path, "before").unwrap();
    let mut writer = TraceWriter::with_row_groups(&path, &meta(), 2, 10).unwrap();
    writer.push(&batch(&events(100))).unwrap();
    assert_eq!(directory.names().len(), 2);
    drop(writer);
    assert_eq!(
        (directory.names(), fs::read_to_string(&path).unwrap()),
        (vec!["t.parquet".to_owned()], "before".to_owned())
    );
}

#[test]
fn the_writer_refuses_an_unknown_operation() {
    let directory = TestDirectory::new("op");
    let mut writer = TraceWriter::create(&directory.file("t.parquet"), &meta(), 1).unwrap();
    writer.push(&batch(&events(10))).unwrap();
    let columns = RecordBatch::try_from_iter(vec![
        ("op", Arc::new(UInt8Array::from(vec![1, 99])) as ArrayRef),
        ("addr", Arc::new(UInt64Array::from(vec![1, 1]))),
        ("size", Arc::new(UInt32Array::from(vec![1, 1]))),
        ("count", Arc::new(UInt32Array::from(vec![1, 1]))),
    ]);
    let problem = writer.push(&EventBatch::from_record_batch(&columns.unwrap(), "x").unwrap()).unwrap_err();
    assert_eq!(problem.value, "99");
    assert!(problem.place.ends_with("t.parquet: row 11"), "{problem}");
}

/// The columns have one value, few values, more than 256 values, or more than 65,536 values. No row, few
/// rows, every other row, or all rows have arguments.
#[test]
fn every_encoding_of_a_column_is_read_back() {
    let directory = TestDirectory::new("encodings");
    let path = directory.file("t.parquet");
    let arg = |row: u32, every: u32| row.is_multiple_of(every).then_some(u64::from(row) << 20);
    for (different, every) in [(1, 200_000), (3, 1000), (256, 7), (257, 2), (65_535, 1), (65_536, 3)] {
        let values = (0..70_000u32).map(|row| (row, row % different * 65_521));
        let all: Vec<Event> = values
            .map(|(row, value)| (15, u64::from(row), value, !value, arg(row, every), arg(row + 1, every)))
            .collect();
        for row_group in [70_000, 69_999, 33_000] {
            let written = write_on(2, &path, &all, row_group, 4000);
            assert!(read(&path).unwrap() == all, "{different} values, an argument every {every} rows");
            let present = all.iter().filter(|event| event.4.is_some()).count() as u64;
            let arguments: u64 =
                row_groups_said(&path).iter().map(|said| said["arg0"].as_u64().unwrap()).sum();
            assert_eq!(arguments, present);
            assert_eq!(written.totals.rows(), 70_000);
        }
    }
}

/// Returns the footer's checks of each row group.
fn row_groups_said(path: &Path) -> Vec<serde_json::Value> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let entries = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let entry = entries.iter().find(|entry| entry.key == "binhop.row-groups").unwrap();
    serde_json::from_str(entry.value.as_deref().unwrap()).unwrap()
}
