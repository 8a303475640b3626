//! These tests read files of other programs that are finely cut, forged, or changed while they are read. The tests
//! count work and memory.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

mod counting;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use binhop_base::{Domain, Problem, Rng, Stream};
use binhop_trace::source::Source;
use binhop_trace::{Ahead, TraceReader};
use counting::{cost, held, turn};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

/// Returns the most bytes that were held at once, beyond those held before.
fn peak(work: impl FnOnce()) -> usize {
    cost(work).peak
}

/// `ParquetPath` is a path that no other test uses. It is removed at the end.
struct ParquetPath(PathBuf);

impl ParquetPath {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("binhop-foreign-{}-{name}.parquet", std::process::id())))
    }
}

impl Drop for ParquetPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn rows(from: u64, rows: u64) -> RecordBatch {
    let draw = |what: u64, row: u64, n: u64| Rng::new(3).below(Stream::new(Domain::Test, what), row, n);
    let numbers = from..from + rows;
    let ops: UInt8Array = numbers.clone().map(|row| Some(draw(0, row, 4) as u8)).collect();
    let addresses: UInt64Array = numbers.clone().map(|row| Some(0x40_0000 + 8 * draw(1, row, 999))).collect();
    let sizes: UInt32Array = numbers.clone().map(|row| Some(1 << draw(2, row, 4))).collect();
    let counts: UInt32Array = numbers.map(|_| Some(1)).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("op", Arc::new(ops)),
        ("addr", Arc::new(addresses)),
        ("size", Arc::new(sizes)),
        ("count", Arc::new(counts)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn write(path: &Path, total: u64, row_group: usize, properties: WriterProperties) {
    let mut writer =
        ArrowWriter::try_new(fs::File::create(path).unwrap(), rows(0, 1).schema(), Some(properties)).unwrap();
    for from in (0..total).step_by(row_group) {
        writer.write(&rows(from, (total - from).min(row_group as u64))).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

fn plain() -> WriterProperties {
    WriterProperties::builder().set_dictionary_enabled(false).build()
}

/// Reads a source until it ends or fails. Returns the number of rows, the number of batches, and the error.
fn read(source: &mut dyn Source) -> (u64, u64, Option<Box<Problem>>) {
    let (mut rows, mut batches) = (0, 0);
    loop {
        match source.next_batch() {
            Ok(Some(batch)) => (rows, batches) = (rows + batch.len() as u64, batches + 1),
            Ok(None) => return (rows, batches, None),
            Err(problem) => return (rows, batches, Some(problem)),
        }
    }
}

/// Returns what a file of so many row groups of one row takes: the bytes held once it is open, and the most
/// bytes beyond them while it is read, on this thread and ahead.
fn cut(groups: u64) -> [usize; 3] {
    let place = ParquetPath::new(&format!("cut-{groups}"));
    write(&place.0, groups, 1, plain());
    let before = held();
    let mut reader = TraceReader::open(&place.0).unwrap();
    let open = held() - before;
    let here = peak(|| assert_eq!(read(&mut reader).0, groups));
    let reader = TraceReader::open(&place.0).unwrap();
    let ahead = peak(|| assert_eq!(read(&mut Ahead::new(Box::new(reader))).0, groups));
    [open, here, ahead]
}

/// A row group costs the memory of its metadata, which the decoder makes of the whole footer when a file is
/// opened: 432 B for each column, and 64 B. Statistics add nothing, because the statistics of a number lie
/// within the 432 B. Reading a row group costs nothing that stays, and what is read ahead is bounded in
/// bytes.
fn memory_stays_small_in_files_of(few_groups: u64, many_groups: u64, opened_groups: u64) {
    let _turn = turn();
    let (few, many) = (cut(few_groups), cut(many_groups));
    println!("{few:?} for {few_groups} row groups, {many:?} for {many_groups}");
    assert_eq!((many[0] - few[0]) / (many_groups - few_groups) as usize, 1792, "{few:?}, then {many:?}");
    assert!(many[1] < few[1] + 1000, "{few:?}, then {many:?}");
    assert!(many[2] < 48 << 20, "{few:?}, then {many:?}");
    // The peak includes the opening of the file, which decodes its footer.
    let place = ParquetPath::new("cut-and-open");
    write(&place.0, opened_groups, 1, plain());
    let whole = peak(|| {
        let reader = TraceReader::open(&place.0).unwrap();
        assert_eq!(read(&mut Ahead::new(Box::new(reader))).0, opened_groups);
    });
    assert!(whole < opened_groups as usize * 10_000, "{whole}");
}

#[test]
fn memory_stays_small_however_a_file_is_cut() {
    memory_stays_small_in_files_of(2_500, 10_000, 5_000);
}

#[test]
#[ignore = "takes long: files of 40,000 row groups"]
fn memory_stays_small_in_files_of_many_row_groups() {
    memory_stays_small_in_files_of(5_000, 40_000, 20_000);
}

/// A file that is changed in place is refused. A file that is replaced by name is read to its end.
#[test]
fn a_file_is_one_file_from_front_to_end() {
    let place = ParquetPath::new("changed");
    write(&place.0, 9000, 1000, plain());
    let start = || {
        let mut reader = TraceReader::open(&place.0).unwrap();
        let first = reader.next_batch().unwrap().unwrap().len() as u64;
        assert_eq!(first, 1000);
        reader
    };
    let file = || fs::OpenOptions::new().write(true).open(&place.0).unwrap();
    let changed = |reader: &mut TraceReader| {
        let (_, _, problem) = read(reader);
        let problem = problem.expect("it was changed");
        assert_eq!(problem.rule, "the file was changed while it was read");
        assert_eq!(problem.place, place.0.display().to_string());
        problem.value.clone()
    };
    let bytes = fs::metadata(&place.0).unwrap().len();

    // Another file takes the name, and the opened file stays.
    let mut reader = start();
    let other = ParquetPath::new("other");
    write(&other.0, 100, 100, plain());
    let whole = fs::read(&place.0).unwrap();
    fs::rename(&other.0, &place.0).unwrap();
    assert_eq!(read(&mut reader).0, 8000);
    fs::write(&place.0, &whole).unwrap();

    // The file is overwritten.
    let mut reader = start();
    std::thread::sleep(std::time::Duration::from_millis(20));
    file().write_all_at(b"x", bytes / 2).unwrap();
    assert_eq!(changed(&mut reader), format!("{bytes} bytes, other than before"));
    fs::write(&place.0, &whole).unwrap();

    // The file is cut.
    let mut reader = start();
    file().set_len(bytes / 3).unwrap();
    assert_eq!(changed(&mut reader), format!("{} bytes, {bytes} when it was opened", bytes / 3));
    fs::write(&place.0, &whole).unwrap();

    // The file grows.
    let mut reader = start();
    file().write_all_at(&[0; 10], bytes).unwrap();
    assert_eq!(changed(&mut reader), format!("{} bytes, {bytes} when it was opened", bytes + 10));
}

/// Returns a number in Thrift's form, as in a page's header.
fn zigzag(number: i64) -> Vec<u8> {
    let mut left = (number << 1 ^ number >> 63) as u64;
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// A header that promises more than the file holds costs nothing, because it is refused before a page is
/// unpacked.
#[test]
fn forged_pages_are_refused_before_they_cost_anything() {
    let _turn = turn();
    let place = ParquetPath::new("forged");
    // The header of the dictionary page holds the number of values, 4, after the field's mark. A number of
    // 2^31 - 1 takes 5 bytes.
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    write(&place.0, 20_000, 20_000, properties);
    let sound = fs::read(&place.0).unwrap();
    // PageHeader: type 2 (dictionary), sizes of 16 bytes, then {num_values 4, encoding}.
    let header = [&[0x15, 4, 0x15][..], &zigzag(16), &[0x15], &zigzag(16)].concat();
    let at = sound.windows(header.len()).position(|bytes| bytes == header).unwrap();
    let values = at + sound[at..].windows(3).position(|bytes| bytes == [0x4c, 0x15, 8]).unwrap() + 2;
    // The number grows to 5 bytes and overwrites the bytes after it. The structure's end comes from another
    // page's bytes.
    let mut forged = sound.clone();
    forged[values..values + 5].copy_from_slice(&zigzag(i64::from(i32::MAX)));
    forged[values + 5..values + 9].copy_from_slice(&[0x15, 0, 0, 0]);
    fs::write(&place.0, &forged).unwrap();
    let mut seen = None;
    let bytes = peak(|| seen = Some(read(&mut TraceReader::open(&place.0).unwrap())));
    let (rows, batches, problem) = seen.unwrap();
    let problem = problem.unwrap();
    assert!(bytes < 2 << 20, "{bytes} bytes");
    assert_eq!((rows, batches), (0, 0), "{problem}");
    assert!(problem.place.contains("row group 0: column op"), "{problem}");
}

/// A small file with a few changed bytes is read or refused, and never costs more than the sound file does.
#[test]
fn damage_costs_no_more_than_a_sound_file() {
    let _turn = turn();
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    let kinds = [
        WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build(),
        WriterProperties::builder().set_compression(zstd).build(),
        WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::SNAPPY)
            .build(),
    ];
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {})); // the decoder's panics become problems
    let (mut sound_read, mut refused) = (0, 0);
    for (kind, properties) in kinds.into_iter().enumerate() {
        let place = ParquetPath::new(&format!("damage-{kind}"));
        write(&place.0, 6000, 2000, properties);
        let sound = fs::read(&place.0).unwrap();
        let footer =
            sound.len() - 8 - u32::from_le_bytes(sound[sound.len() - 8..][..4].try_into().unwrap()) as usize;
        let budget = peak(|| drop(read(&mut TraceReader::open(&place.0).unwrap())));
        for case in 0..400 {
            let draw = |what: u64, n: usize| {
                Rng::new(case).below(Stream::new(Domain::Test, what + 100 * kind as u64), 0, n as u64)
                    as usize
            };
            let mut bytes = sound.clone();
            let (first, end) = [(4, footer), (footer, sound.len() - 8), (4, 120)][draw(0, 3)];
            let at = first + draw(1, end - first);
            for (number, byte) in
                bytes[at..].iter_mut().take(1 + draw(2, 9).min(sound.len() - 9 - at)).enumerate()
            {
                *byte = [0xff, 0x7f, draw(3 + number as u64, 256) as u8][draw(20 + number as u64, 3)];
            }
            fs::write(&place.0, &bytes).unwrap();
            let mut counted = (0, 0);
            let held = peak(|| match TraceReader::open(&place.0) {
                Ok(mut reader) => {
                    let (rows, batches, problem) = read(&mut reader);
                    counted = (rows, batches);
                    match problem {
                        None => sound_read += 1,
                        Some(_) => refused += 1,
                    }
                }
                Err(_) => refused += 1,
            });
            assert!(counted.0 <= 6000 && counted.1 <= 3, "kind {kind}, case {case}: {counted:?}");
            assert!(
                held < budget + (8 << 20),
                "kind {kind}, case {case}: {held} bytes, {budget} for a sound file"
            );
        }
    }
    std::panic::set_hook(hook);
    println!("{sound_read} read, {refused} refused");
    assert!(refused > 200 && sound_read > 50, "{sound_read} read, {refused} refused");
}
