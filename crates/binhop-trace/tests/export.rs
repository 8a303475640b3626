//! These tests check the bytes of exports, and the traces that are read back from exports.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use binhop_base::Result;
use binhop_trace::event::{EventBatch, EventBuilder, Op};
use binhop_trace::export::{EXPORTERS, Exported, MemoryAccess, MemoryWriter, Writes, export, exporter};
use binhop_trace::import;
use binhop_trace::source::{Meta, Source};
use proptest::prelude::*;

type Row = (Op, u64, u32, u32);

struct Memory(Meta, Vec<Row>);

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn meta(&self) -> &Meta {
        &self.0
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let mut batch = EventBuilder::default();
        self.1
            .drain(..self.1.len().min(50))
            .for_each(|(op, addr, size, count)| batch.push(op, addr, size, count));
        Ok((!batch.is_empty()).then(|| batch.finish()))
    }
}

/// `ExportPath` is a path that no other test uses. It is removed at the end.
struct ExportPath(PathBuf);

impl ExportPath {
    fn new(name: &str) -> Self {
        let number = std::thread::current().id();
        Self(std::env::temp_dir().join(format!("binhop-export-{}-{number:?}-{name}", std::process::id())))
    }
}

impl Drop for ExportPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn exported(rows: &[Row], to: &str, place: &ExportPath) -> Exported {
    let mut source = Memory(Meta::default(), rows.to_vec());
    export(&mut source, exporter(to).unwrap(), &place.0, &mut |_| Ok(())).unwrap()
}

fn bytes(rows: &[Row], to: &str) -> (Vec<u8>, Vec<String>) {
    let place = ExportPath::new(to);
    let exported = exported(rows, to, &place);
    let bytes = fs::read(&place.0).unwrap();
    assert_eq!(exported.bytes, bytes.len() as u64);
    (bytes, exported.notes)
}

fn text(rows: &[Row], to: &str) -> String {
    String::from_utf8(bytes(rows, to).0).unwrap()
}

const ROWS: &[Row] = &[
    (Op::Fetch, 0x1000, 10, 3),
    (Op::Load, 0x7ff0, 8, 1),
    (Op::Switch, 3, 1, 0),
    (Op::Fetch, 0x100a, 4, 1),
    (Op::Modify, 0x2000, 4, 1),
    (Op::Store, 0x2008, 1, 1),
];

#[test]
fn din_is_one_line_for_each_reference() {
    assert_eq!(text(ROWS, "din"), "2 1000\n2 1003\n2 1006\n0 7ff0\n2 100a\n0 2000\n1 2000\n1 2008\n");
    let notes = bytes(ROWS, "din").1;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[0], "1 run of several instructions is spread evenly over the bytes of the run");
}

#[test]
fn xdin_has_sizes() {
    let want = "i 1000 3\ni 1003 3\ni 1006 4\nr 7ff0 8\ni 100a 4\nr 2000 4\nw 2000 4\nw 2008 1\n";
    assert_eq!(text(ROWS, "xdin"), want);
}

/// The address, branch, taken, destination registers, stores and loads of an instruction.
type Instruction = (u64, [u8; 4], [u64; 2], [u64; 4]);

/// Reads ChampSim's records field by field.
fn instructions(bytes: &[u8]) -> Vec<Instruction> {
    assert!(bytes.len().is_multiple_of(64));
    let word = |record: &[u8], at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let record = |record: &[u8]| {
        assert_eq!(record[12..16], [0; 4], "no source registers");
        let loads = std::array::from_fn(|number| word(record, 32 + 8 * number));
        (word(record, 0), record[8..12].try_into().unwrap(), [word(record, 16), word(record, 24)], loads)
    };
    bytes.chunks(64).map(record).collect()
}

#[test]
fn champsim_gives_references_to_their_instruction_and_marks_jumps() {
    let none = [0; 4];
    let mut rows = ROWS.to_vec();
    rows.push((Op::Fetch, 0x5000, 2, 1));
    rows.extend((1..=6).map(|number| (Op::Load, number * 16, 8, 1)));
    let (file, notes) = bytes(&rows, "champsim");
    let want = [
        (0x1000, none, [0; 2], [0; 4]),
        (0x1003, none, [0; 2], [0; 4]),
        (0x1006, none, [0; 2], [0x7ff0, 0, 0, 0]),
        (0x100a, [1, 1, 26, 0], [0x2000, 0x2008], [0x2000, 0, 0, 0]),
        (0x5000, none, [0; 2], [16, 32, 48, 64]),
        (0x5000, none, [0; 2], [80, 96, 0, 0]),
    ];
    assert_eq!(instructions(&file), want);
    assert!(notes.iter().any(|note| note.starts_with("1 instruction is repeated")), "{notes:?}");
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0..4_usize, 1..200_u64, 1..9_u32, 1..6_u32).prop_map(|(op, place, size, count)| {
        let op = [Op::Fetch, Op::Load, Op::Store, Op::Fetch][op];
        if op == Op::Fetch {
            (op, 0x4000 + place * 8, count * size, count)
        } else {
            (op, 0x4000 + place * 8, size, 1)
        }
    });
    proptest::collection::vec(row, 1..150)
}

/// Returns the operation, address and size of every reference, with each instruction apart.
fn references(rows: impl IntoIterator<Item = Row>) -> Vec<(Op, u64, u32)> {
    let spread = |(op, addr, size, count): Row| {
        let count = if op == Op::Fetch { count } else { 1 };
        (0..count).map(move |number| (op, addr + u64::from(number * size / count), size / count))
    };
    rows.into_iter().flat_map(spread).collect()
}

fn imported(place: &ExportPath, format: &str) -> Vec<Row> {
    let mut importer = import::open(place.0.to_str().unwrap(), Some(format)).unwrap();
    let mut rows = Vec::new();
    while let Some(batch) = importer.next_batch().unwrap() {
        rows.extend((0..batch.len()).map(|row| {
            let op = Op::from_code(batch.op()[row]).unwrap();
            (op, batch.addr()[row], batch.size()[row], batch.count()[row])
        }));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Fetches may join into longer runs. The instructions of a run have one size, so that their places
    /// survive.
    #[test]
    fn xdin_is_read_back(rows in rows(), packing in prop::sample::select(&["", ".gz", ".xz", ".zst"][..])) {
        let place = ExportPath::new(&format!("t.xdin{packing}"));
        exported(&rows, "xdin", &place);
        let read = imported(&place, "xdin");
        let covered = |rows: Vec<Row>| -> Vec<(Op, u64)> {
            let bytes = |(op, addr, size, _): Row| (0..u64::from(size)).map(move |byte| (op, addr + byte));
            rows.into_iter().flat_map(bytes).collect()
        };
        prop_assert_eq!(covered(read.clone()), covered(rows.clone()));
        let count = |rows: &[Row]| rows.iter().map(|row| u64::from(row.3)).sum::<u64>();
        prop_assert_eq!(count(&read), count(&rows));
    }

    #[test]
    fn din_is_read_back_by_words(rows in rows()) {
        let place = ExportPath::new("t.din");
        exported(&rows, "din", &place);
        let words = |references: Vec<(Op, u64, u32)>| -> Vec<(Op, u64)> {
            let mut words: Vec<_> = references.into_iter().map(|(op, addr, _)| (op, addr / 4)).collect();
            // A word that is fetched twice in sequence occurs once in a run.
            words.dedup_by(|a, b| a == b && a.0 == Op::Fetch);
            words
        };
        let read: Vec<(Op, u64, u32)> = imported(&place, "din")
            .into_iter()
            .flat_map(|(op, addr, size, _)| (0..size / 4).map(move |word| (op, addr + u64::from(word) * 4, 4)))
            .collect();
        prop_assert_eq!(words(read), words(references(rows)));
    }

    #[test]
    fn champsim_holds_every_reference_in_order(rows in rows()) {
        let (file, _) = bytes(&rows, "champsim");
        let mut read = Vec::new();
        let mut last = None;
        for (ip, _, stores, loads) in instructions(&file) {
            let places = |addrs: &[u64]| addrs.iter().copied().filter(|&addr| addr != 0).collect::<Vec<_>>();
            read.push((ip, places(&stores), places(&loads)));
            last = Some(ip);
        }
        prop_assert!(last.is_some());
        // An instruction is repeated only if its record has no room.
        let mut want: Vec<(u64, Vec<u64>, Vec<u64>)> = Vec::new();
        for (op, addr, _) in references(rows) {
            if op == Op::Fetch {
                want.push((addr, vec![], vec![]));
                continue;
            }
            if want.is_empty() {
                want.push((0, vec![], vec![]));
            }
            let full = |open: &(u64, Vec<u64>, Vec<u64>)| match op {
                Op::Store => open.1.len() == 2,
                _ => open.2.len() == 4,
            };
            let open = want.last().unwrap().clone();
            if full(&open) {
                want.push((open.0, vec![], vec![]));
            }
            let open = want.last_mut().unwrap();
            if op == Op::Store { open.1.push(addr) } else { open.2.push(addr) }
        }
        prop_assert_eq!(read, want);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn champsim_is_read_back(rows in rows()) {
        let place = ExportPath::new("t.champsim");
        exported(&rows, "champsim", &place);
        let read = imported(&place, "champsim");
        // The number of instructions is the same, and they lie in the same words. The data references touch
        // the same words, and the loads of an instruction precede its stores.
        let instructions = |rows: &[Row]| -> u64 {
            rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| u64::from(row.3)).sum()
        };
        let records = fs::metadata(&place.0).unwrap().len() / 64;
        prop_assert_eq!(instructions(&read), records);
        let data = |rows: Vec<(Op, u64, u32)>| -> Vec<Vec<(bool, u64)>> {
            let mut by_instruction = vec![Vec::new()];
            for (op, addr, _) in rows {
                match op {
                    Op::Fetch => by_instruction.push(Vec::new()),
                    // An address that an instruction loads and stores is read back as a modify.
                    Op::Modify => by_instruction.last_mut().unwrap().extend([(false, addr & !3), (true, addr & !3)]),
                    _ => by_instruction.last_mut().unwrap().push((op == Op::Store, addr & !3)),
                }
            }
            by_instruction.retain(|data| !data.is_empty());
            by_instruction.iter_mut().for_each(|data| data.sort_unstable());
            by_instruction
        };
        let few = |data: &[Vec<(bool, u64)>]| {
            let fits = |one: &Vec<(bool, u64)>| {
                let stores = one.iter().filter(|&&(store, _)| store).count();
                stores <= 2 && one.len() - stores <= 4
            };
            data.iter().all(fits)
        };
        let want = data(references(rows));
        if few(&want) {
            prop_assert_eq!(data(references(read)), want);
        }
    }
}

#[test]
fn every_access_of_memory_is_a_line() {
    let accesses = [
        MemoryAccess { addr: 0x1_2340, write: false, cycle: 1001, of_memory: true },
        MemoryAccess { addr: 0, write: true, cycle: 1001, of_memory: true },
        MemoryAccess { addr: 0x40, write: false, cycle: 1002, of_memory: false },
        MemoryAccess { addr: 0x80, write: true, cycle: 1003, of_memory: false },
    ];
    let written = |name: &str| {
        let place = ExportPath::new(name);
        let mut writer = MemoryWriter::create(exporter(name).unwrap(), &place.0).unwrap();
        accesses.iter().for_each(|access| writer.put(std::slice::from_ref(access)).unwrap());
        let bytes = writer.finish().unwrap();
        let text = fs::read_to_string(&place.0).unwrap();
        assert_eq!(bytes, text.len() as u64);
        text
    };
    assert_eq!(written("ramulator2"), "LD 0x12340\nST 0x0\nLD 0x40\nST 0x80\n");
    assert_eq!(written("dramsim3"), "0x12340 READ 1001\n0x0 WRITE 1001\n0x40 read 1002\n0x80 write 1003\n");
}

#[test]
fn every_exporter_names_its_losses_and_shows_a_line() {
    for entry in EXPORTERS {
        assert!(!entry.what.is_empty() && !entry.lost.is_empty());
        assert_eq!(exporter(entry.name).unwrap().name, entry.name);
        if let Writes::Physical(line) = entry.writes {
            let mut out = Vec::new();
            line(&MemoryAccess { addr: 0x1_2340, write: false, cycle: 1001, of_memory: false }, &mut out);
            assert_eq!(String::from_utf8(out).unwrap().trim_end(), entry.example);
        }
    }
    assert!(exporter("dinn").err().unwrap().remedy.starts_with("take one of din, xdin, champsim"));
}

/// The test that walks the list does not know what the bytes of a format mean, so each format needs a test of its own
/// here.
#[test]
fn every_exporter_has_tests_of_its_own() {
    let tests = include_str!("export.rs");
    let line = tests.lines().position(|line| line == "fn every_exporter_has_tests_of_its_own() {").unwrap();
    for name in EXPORTERS.iter().map(|exporter| exporter.name) {
        let place = format!("{}:{}", file!(), line);
        assert!(
            tests.contains(&format!("{name:?}")),
            "{place}: add a test of the bytes of {name}, and a test that reads them back"
        );
    }
}

#[test]
fn an_export_is_packed_by_its_name() {
    let place = ExportPath::new("t.din.gz");
    exported(ROWS, "din", &place);
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(fs::File::open(&place.0).unwrap()).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, text(ROWS, "din"));
}

#[test]
fn a_packing_that_is_not_written_is_refused() {
    for ending in ["bz2", "lz4", "zip", "sz", "BZ2", "7z"] {
        let place = ExportPath::new(&format!("t.din.{ending}"));
        let mut source = Memory(Meta::default(), ROWS.to_vec());
        let problem = export(&mut source, exporter("din").unwrap(), &place.0, &mut |_| Ok(())).err().unwrap();
        assert_eq!((&*problem.value, &*problem.place), (&*place.0.display().to_string(), "-o"));
        assert!(problem.rule.contains("ends in .gz, .xz, .zst"), "{problem}");
        assert!(!place.0.exists());
        let memory = MemoryWriter::create(exporter("ramulator2").unwrap(), &place.0).err().unwrap();
        assert_eq!(memory.rule, problem.rule);
    }
    let place = ExportPath::new("t.din.GZ");
    exported(ROWS, "din", &place);
    assert_eq!(fs::read(&place.0).unwrap()[..2], [0x1f, 0x8b], "an ending in capitals is the same ending");
}

#[test]
fn champsim_reports_the_instructions_that_it_made_up() {
    let early: Vec<Row> = (1..=5).map(|number| (Op::Load, number * 16, 8, 1)).collect();
    let rows =
        [&early[..], &[(Op::Store, 0x90, 8, 1), (Op::Fetch, 0x1000, 4, 1), (Op::Load, 0x80, 8, 1)]].concat();
    let (file, notes) = bytes(&rows, "champsim");
    let none = [0; 4];
    let want = [
        (0, none, [0; 2], [16, 32, 48, 64]),
        (0, [1, 1, 26, 0], [0x90, 0], [80, 0, 0, 0]),
        (0x1000, none, [0; 2], [0x80, 0, 0, 0]),
    ];
    assert_eq!(instructions(&file), want);
    assert_eq!(notes, ["2 instructions are added at address 0, for 6 references before the first fetch"]);
}

#[test]
fn champsim_counts_a_modify_once() {
    let rows = [(Op::Modify, 0x90, 8, 1), (Op::Modify, 0, 8, 1), (Op::Fetch, 0x1000, 4, 1)];
    let (file, notes) = bytes(&rows, "champsim");
    let none = [0; 4];
    let want = [(0, [1, 1, 26, 0], [0x90, 0], [0x90, 0, 0, 0]), (0x1000, none, [0; 2], [0; 4])];
    assert_eq!(instructions(&file), want);
    let said = [
        "2 modifies are each written as a load and a store",
        "1 instruction is added at address 0, for 1 reference before the first fetch",
        "1 reference to address 0 is left out: a ChampSim trace writes address 0 for no reference",
    ];
    assert_eq!(notes, said);
}

/// Read back, a modify is one reference again, because its load and its store are in one instruction.
#[test]
fn champsim_keeps_a_modify_in_one_instruction() {
    let mut rows = vec![(Op::Fetch, 0x1000, 4, 1), (Op::Store, 0x10, 4, 1), (Op::Store, 0x20, 4, 1)];
    rows.push((Op::Modify, 0x90, 4, 1));
    rows.extend([0x30, 0x40, 0x50].map(|addr| (Op::Load, addr, 4, 1)));
    rows.push((Op::Modify, 0x60, 4, 1));
    let place = ExportPath::new("modify.champsim");
    exported(&rows, "champsim", &place);
    let data: Vec<Row> = imported(&place, "champsim").into_iter().filter(|row| row.0 != Op::Fetch).collect();
    let count = |op: Op| data.iter().filter(|row| row.0 == op).count();
    assert_eq!((count(Op::Load), count(Op::Store), count(Op::Modify)), (3, 2, 2), "{data:?}");
    let first = fs::read(&place.0).unwrap();
    assert_eq!(instructions(&first)[0].3, [0; 4], "the modify found no room for its store");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let rows: Vec<Row> = (0..1000).map(|row| (Op::Load, row, 1, 1)).collect();
    let mut source = Memory(Meta::default(), rows);
    let full = std::path::Path::new("/dev/full");
    let problem = export(&mut source, exporter("din").unwrap(), full, &mut |_| Ok(())).err().unwrap();
    assert_eq!(problem.value, "not a regular file");
    let nowhere = std::path::Path::new("/no/such/t.din");
    let problem =
        export(&mut Memory(Meta::default(), vec![]), exporter("din").unwrap(), nowhere, &mut |_| Ok(()));
    assert!(problem.err().unwrap().rule.starts_with("an export cannot be written there"));
}
