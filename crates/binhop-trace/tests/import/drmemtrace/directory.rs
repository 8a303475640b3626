//! These tests import directories: their files, the order of the files, and directories without a trace.

use std::fs;
use std::path::Path;

use super::super::{Imported, Row, drain};
use super::write::{File, directory, m};
use super::{oracle, row};
use binhop_base::Result;
use binhop_trace::Op;
use binhop_trace::import;

fn import(path: &Path) -> Result<Imported> {
    drain(import::open(&path.display().to_string(), None)?)
}

fn refused(path: &Path) -> String {
    import(path).err().expect("it is refused").to_string()
}

/// Returns two threads that run in turn: 7 at times 10 and 30, 8 at times 20 and 30.
fn two_threads() -> [File; 2] {
    let seven = File::of(7, 7)
        .time(10)
        .cpu(1)
        .instr(0x1000, 4)
        .mark(m::SYSCALL, 35)
        .time(30)
        .cpu(1)
        .instr(0x1004, 4)
        .end(7);
    let eight = File::of(8, 7).time(20).cpu(2).instr(0x2000, 4).time(30).cpu(3).instr(0x2004, 4).end(8);
    [seven, eight]
}

fn in_turns() -> Vec<Row> {
    vec![
        row(Op::Fetch, 0x1000, 4, 1),
        row(Op::Syscall, 0, 0, 35),
        (Op::Switch, 0, 8, 2, Some(0), Some(35)),
        row(Op::Fetch, 0x2000, 4, 1),
        (Op::Switch, 0, 7, 1, Some(2), None),
        row(Op::Fetch, 0x1004, 4, 1),
        (Op::Switch, 0, 8, 3, Some(3), None),
        row(Op::Fetch, 0x2004, 4, 1),
    ]
}

#[test]
fn threads_run_in_order_of_time() {
    let [seven, eight] = two_threads();
    let path = directory("turns").join("drmemtrace.my.app.7.0001.dir");
    fs::create_dir_all(path.join("trace")).unwrap();
    fs::create_dir_all(path.join("aux")).unwrap();
    fs::create_dir_all(path.join("raw")).unwrap();
    fs::write(path.join("aux/v2p.textproto"), "").unwrap();
    fs::write(path.join("trace/cpu_schedule.bin.zip"), "x").unwrap();
    fs::write(path.join("trace/drmemtrace.app.7.trace"), seven.bytes()).unwrap();
    let zipped =
        super::super::zip::archive(&[("chunk.0000", &eight.bytes())], super::super::zip::Way::Deflated);
    fs::write(path.join("trace/drmemtrace.app.8.trace.zip"), zipped).unwrap();
    for named in [path.clone(), path.join("trace")] {
        let it = import(&named).unwrap();
        assert_eq!(it.rows, in_turns());
        let process = &it.meta.processes[&0];
        assert_eq!((process.pid, process.command.as_deref()), (Some(7), Some("my.app")));
        assert!(it.notes.contains(&"1 file is skipped, because it holds no part of the trace".to_string()));
        assert!(it.notes.last().unwrap().contains("v2p.textproto says where pages lay"), "{:?}", it.notes);
    }
}

#[test]
fn a_directory_of_several_processes_is_read() {
    let path = directory("processes");
    for (file, number) in two_threads().into_iter().zip([7, 8]) {
        let inner = path.join(format!("drmemtrace.p{number}.{number}.1.dir/trace"));
        fs::create_dir_all(&inner).unwrap();
        let mut file = file;
        for record in &mut file.0 {
            if record.0 == 24 {
                record.2 = number;
            }
        }
        fs::write(inner.join("t.trace"), file.bytes()).unwrap();
    }
    let it = import(&path).unwrap();
    assert_eq!(
        it.rows[2..],
        [
            (Op::Switch, 1, 8, 2, Some(0), Some(35)),
            row(Op::Fetch, 0x2000, 4, 1),
            (Op::Switch, 0, 7, 1, Some(2), None),
            row(Op::Fetch, 0x1004, 4, 1),
            row(Op::Exit, 0, 0, 0),
            (Op::Switch, 1, 8, 3, Some(3), None),
            row(Op::Fetch, 0x2004, 4, 1),
            row(Op::Exit, 1, 0, 0),
        ]
    );
    assert_eq!(it.meta.processes[&1].command.as_deref(), Some("p8"));
}

#[test]
fn more_files_than_may_stay_open_are_read() {
    let path = directory("many");
    let mut files = Vec::new();
    for number in 0..150_u64 {
        let file = File::of(100 + number, 7)
            .time(1000 - number)
            .instr(number << 12, 4)
            .time(2000 + number)
            .instr(number << 12, 8)
            .end(100 + number);
        fs::write(path.join(format!("t{number:03}.trace")), file.bytes()).unwrap();
        files.push(file);
    }
    let it = import(&path).unwrap();
    let addresses: Vec<u64> =
        it.rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| row.1 >> 12).collect();
    assert_eq!(addresses, (0..150).rev().chain(0..150).collect::<Vec<_>>());
    assert_eq!(oracle::joined(&it.rows), oracle::read(&files));
}

#[test]
fn files_without_times_follow_one_another() {
    let path = directory("old");
    for number in [1_u64, 2] {
        let file = File::default()
            .record(25, 0, 1)
            .thread(number, 9)
            .instr(number << 12, 4)
            .thread(number, 9)
            .instr(5, 1)
            .end(number);
        fs::write(path.join(format!("drmemtrace.t.{number}.memtrace")), file.bytes()).unwrap();
    }
    assert_eq!(
        import(&path).unwrap().rows,
        [
            row(Op::Fetch, 1 << 12, 4, 1),
            row(Op::Fetch, 5, 1, 1),
            (Op::Switch, 0, 2, 0, Some(3), None),
            row(Op::Fetch, 2 << 12, 4, 1),
            row(Op::Fetch, 5, 1, 1),
        ]
    );
}

#[test]
fn a_directory_without_a_trace_is_refused() {
    let path = directory("nothing");
    assert!(refused(&path).contains("no trace file: a drmemtrace directory"));
    fs::write(path.join("notes.txt"), "").unwrap();
    assert!(refused(&path).contains("no trace file: a drmemtrace directory"));
    fs::create_dir_all(path.join("trace")).unwrap();
    assert!(refused(&path).contains("no trace file: a drmemtrace directory"));
    fs::create_dir_all(path.join("raw")).unwrap();
    fs::write(path.join("raw/drmemtrace.app.7.raw.lz4"), "").unwrap();
    for named in [path.clone(), path.join("raw")] {
        let problem = refused(&named);
        assert!(
            problem.contains("drraw2trace -indir DIR") && problem.contains("only the program's binaries"),
            "{problem}"
        );
    }
}

#[test]
fn a_directory_with_a_broken_file_is_refused_by_its_name() {
    let path = directory("broken");
    let [seven, eight] = two_threads();
    fs::write(path.join("a.trace"), seven.bytes()).unwrap();
    fs::write(path.join("b.trace"), &eight.bytes()[..60]).unwrap();
    let problem = refused(&path);
    assert!(problem.contains("b.trace: record 5") && problem.contains("is cut short"), "{problem}");
    fs::write(path.join("b.trace"), "").unwrap();
    assert!(refused(&path).contains("b.trace: 0 bytes"));
    fs::write(path.join("b.trace"), "no trace at all").unwrap();
    assert!(refused(&path).contains("b.trace: type 28526"));
}
