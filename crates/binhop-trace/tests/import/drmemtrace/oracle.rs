//! The slow reader of drmemtrace: it holds everything in memory, and sorts the pieces by time.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;

use super::super::{Row, drain};
use super::write::{File, directory, m};
use binhop_trace::{Op, import};

/// Returns the rows with adjacent fetches joined.
pub(super) fn joined(rows: &[Row]) -> Vec<Row> {
    let mut joined: Vec<Row> = Vec::new();
    for row in rows {
        match joined.last_mut() {
            Some(last)
                if last.0 == Op::Fetch && row.0 == Op::Fetch && last.1 + u64::from(last.2) == row.1 =>
            {
                last.2 += row.2;
                last.3 += row.3;
            }
            _ => joined.push(*row),
        }
    }
    joined
}

/// `Piece` is a piece of a file between two timestamps.
type Piece = (u64, usize, Vec<(u16, u16, u64)>);

fn pieces(files: &[File]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        // Records before the first timestamp have the time of that timestamp.
        let times: Vec<u64> = file
            .0
            .iter()
            .filter(|record| record.0 == 28 && record.1 == m::TIMESTAMP)
            .map(|record| record.2)
            .collect();
        let mut time = times.first().copied().unwrap_or(0);
        pieces.push((time, number, Vec::new()));
        for record in &file.0 {
            if record.0 == 28 && record.1 == m::TIMESTAMP {
                time = time.max(record.2);
                pieces.push((time, number, Vec::new()));
            } else {
                pieces.last_mut().unwrap().2.push(*record);
            }
        }
    }
    pieces.sort_by_key(|piece| (piece.0, piece.1));
    pieces
}

#[derive(Clone, Copy, Default)]
struct State {
    tid: u64,
    asid: u32,
    cpu: u32,
    kernel: Option<u32>,
}

/// Returns the rows of files, each of which holds one thread of one process.
pub(super) fn read(files: &[File]) -> Vec<Row> {
    let (mut rows, mut states, mut asids): (Vec<Row>, Vec<State>, BTreeMap<u64, u32>) = Default::default();
    states.resize(files.len(), State::default());
    let (mut running, mut why, mut kernel): (Option<u64>, (u64, Option<u64>), Option<u32>) =
        (None, (2, None), None);
    for (_, number, records) in pieces(files) {
        for (kind, size, addr) in records {
            let state = &mut states[number];
            let asked = matches!(kind, 0 | 1 | 10) || kind == 28 && size == m::SYSCALL;
            if asked {
                let switches = running != Some(state.tid);
                if switches {
                    if kernel.take().is_some() {
                        rows.push((Op::KernelLeave, 0, 0, 0, None, None));
                    }
                    if running.is_some() {
                        rows.push((
                            Op::Switch,
                            state.asid.into(),
                            state.tid as u32,
                            state.cpu,
                            Some(why.0),
                            why.1,
                        ));
                    }
                    running = Some(state.tid);
                }
                // References of the kernel belong to the call.
                if switches || state.kernel.is_none() || why.0 == 3 {
                    why = (2, None);
                }
                if kernel.is_some() != state.kernel.is_some() {
                    rows.push(match state.kernel {
                        Some(cause) => (Op::KernelEnter, 0, 0, cause, None, None),
                        None => (Op::KernelLeave, 0, 0, 0, None, None),
                    });
                }
                kernel = state.kernel;
            }
            let mut push = |op, addr, size, count| rows.push((op, addr, size, count, None, None));
            match (kind, size) {
                (10, _) => push(Op::Fetch, addr, size.into(), 1),
                (0, _) => push(Op::Load, addr, size.into(), 1),
                (1, _) => push(Op::Store, addr, size.into(), 1),
                (22, _) => state.tid = addr,
                (24, _) => {
                    let next = asids.len() as u32;
                    state.asid = *asids.entry(addr).or_insert(next);
                }
                (23, _) if running == Some(addr) => why = (3, None),
                (28, m::CPU_ID) => state.cpu = addr as u32,
                (28, m::SYSCALL) => {
                    push(Op::Syscall, 0, 0, addr as u32);
                    why = (0, Some(addr));
                }
                (28, m::SYSCALL_TRACE_START) => state.kernel = Some(0),
                (28, m::SYSCALL_TRACE_END) => state.kernel = None,
                _ => {}
            }
        }
    }
    if kernel.is_some() {
        rows.push((Op::KernelLeave, 0, 0, 0, None, None));
    }
    joined(&rows)
}

/// `Step` is the next action of a thread.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fetch(u64, u16),
    Data(bool, u64, u16),
    Time(u64),
    Cpu(u64),
    Syscall(u64),
    Kernel(bool),
    Encoding,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40_u64, 1..9_u16).prop_map(|(at, size)| Step::Fetch(0x1000 + at, size)),
        4 => (any::<bool>(), 0..1000_u64, 1..65_u16).prop_map(|(read, at, size)| Step::Data(read, at, size)),
        2 => (0..12_u64).prop_map(Step::Time),
        1 => (0..9_u64).prop_map(Step::Cpu),
        1 => (0..400_u64).prop_map(Step::Syscall),
        1 => any::<bool>().prop_map(Step::Kernel),
        1 => Just(Step::Encoding),
    ]
}

fn file(tid: u64, start: u64, steps: Vec<Step>) -> File {
    let mut file = File::of(tid, 7).time(start).instr(0x9000 + tid, 1);
    let mut time = start;
    for step in steps {
        file = match step {
            Step::Fetch(at, size) => file.instr(at, size),
            Step::Data(true, at, size) => file.read(at, size),
            Step::Data(false, at, size) => file.write(at, size),
            Step::Time(more) => {
                time += more;
                file.time(time)
            }
            Step::Cpu(cpu) => file.cpu(cpu),
            Step::Syscall(number) => file.mark(m::SYSCALL, number),
            Step::Kernel(true) => file.mark(m::SYSCALL_TRACE_START, 0),
            Step::Kernel(false) => file.mark(m::SYSCALL_TRACE_END, 0),
            Step::Encoding => file.record(47, 4, 0),
        };
    }
    file.end(tid)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_rows_agree_with_the_oracle(threads in proptest::collection::vec((0..30_u64, proptest::collection::vec(step(), 0..60)), 1..6)) {
        let files: Vec<File> = threads.into_iter().enumerate().map(|(n, (start, steps))| file(20 + n as u64, start, steps)).collect();
        let path = directory("oracle");
        for (number, file) in files.iter().enumerate() {
            fs::write(path.join(format!("t{number}.trace")), file.bytes()).unwrap();
        }
        let it = drain(import::open(&path.display().to_string(), None).unwrap()).unwrap();
        prop_assert_eq!(joined(&it.rows), read(&files));
    }

    #[test]
    fn damaged_files_never_panic(
        steps in proptest::collection::vec(step(), 0..40),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = file(20, 5, steps).bytes();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = super::super::import_bytes("drmemtrace", bytes);
    }
}
