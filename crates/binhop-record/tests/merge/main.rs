//! These tests check the merge on generated recordings: it keeps its properties, and equals a slow model.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod generated;
mod model;
mod native;
mod schedules;

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;

use binhop_base::{Problem, Result};
use binhop_record::schedule::{BuiltIn, RoundRobin, Schedule};
use binhop_record::{Merge, Piece, ProcessStream, ProcessStreams};
use binhop_trace::event::{Cause, EventBatch, EventBuilder};
use binhop_trace::{Meta, Op, Source, lint};
use generated::{FUTEX, REAPED, RECEIVED, Recording, SENT, Script, ScriptedProcesses, Size, WAIT4, simulate};
use proptest::prelude::*;

/// A row: op, addr, size, count, arg0, arg1.
type Row = (u8, u64, u32, u32, Option<u64>, Option<u64>);

fn rows_of(batch: &EventBatch) -> impl Iterator<Item = Row> + '_ {
    (0..batch.len()).map(|row| {
        let columns = (batch.op()[row], batch.addr()[row], batch.size()[row], batch.count()[row]);
        (columns.0, columns.1, columns.2, columns.3, batch.arg0(row), batch.arg1(row))
    })
}

fn drain(merge: &mut Merge) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(batch) = merge.next_batch().unwrap() {
        rows.extend(rows_of(&batch));
    }
    rows
}

fn merged(recording: &Recording, schedule: Box<dyn Schedule>) -> (Vec<Row>, Meta) {
    let mut merge = Merge::new(ScriptedProcesses::new(recording), schedule, Meta::default());
    let rows = drain(&mut merge);
    (rows, merge.meta().clone())
}

fn short_turns(seed: u64) -> Box<dyn Schedule> {
    // At one instruction a microsecond a turn has about a thousand instructions. It spans a few system calls.
    Box::new(BuiltIn::new(seed, 1))
}

fn is(row: &Row, op: Op) -> bool {
    row.0 == op as u8
}

/// Returns the process that made each row, without the switches.
fn owners(rows: &[Row]) -> Vec<u32> {
    let mut running = 0;
    rows.iter()
        .map(|row| {
            if is(row, Op::Switch) {
                running = row.1 as u32;
            }
            running
        })
        .collect()
}

fn own_rows(script: &Script) -> Vec<Row> {
    let rows = script.pieces.iter().filter_map(|(_, piece)| match piece {
        Piece::Rows(batch) => Some(rows_of(batch).collect::<Vec<_>>()),
        _ => None,
    });
    rows.flatten().collect()
}

/// Draws the seed and the size of a generated recording.
fn recordings(signals: bool) -> impl Strategy<Value = (u64, Size)> {
    let drawn = (any::<u64>(), 1u64..9, 1u64..4, 1u32..60);
    drawn.prop_map(move |(seed, processes, channels, steps)| {
        (seed, Size { processes, channels, steps, signals })
    })
}

/// Checks that every process's rows are complete and in order, and that its fork and exit are there.
fn check_lives(recording: &Recording, rows: &[Row], meta: &Meta) {
    let mut by_asid: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
    let (mut born, mut ended) = (vec![0], Vec::new());
    for (row, &asid) in rows.iter().zip(&owners(rows)) {
        match Op::from_code(row.0).unwrap() {
            Op::Switch => assert!(born.contains(&asid) && !ended.contains(&asid)),
            Op::Fork => {
                assert_eq!(
                    (row.1, row.4),
                    (born.len() as u64, Some(u64::from(asid))),
                    "numbers in order of birth"
                );
                assert_eq!(meta.processes[&(row.1 as u32)].parent, Some(asid));
                born.push(row.1 as u32);
            }
            Op::Exec => assert_eq!(row.1, u64::from(asid)),
            Op::Exit => {
                assert_eq!(row.1, u64::from(asid));
                ended.push(asid);
            }
            _ => by_asid.entry(asid).or_default().push(*row),
        }
    }
    assert_eq!(
        (born.len(), ended.len(), meta.processes.len()),
        (recording.len(), recording.len(), recording.len())
    );
    for (asid, process) in &meta.processes {
        let script = &recording[&process.pid.unwrap()];
        assert_eq!(by_asid.remove(asid).unwrap_or_default(), own_rows(script), "address space {asid}");
    }
}

/// Checks that nothing is received before it is sent, and that no wait returns before the child has ended.
fn check_causes(rows: &[Row], meta: &Meta) {
    let asids: HashMap<u64, u64> =
        meta.processes.iter().map(|(&asid, process)| (process.pid.unwrap(), asid.into())).collect();
    let (mut sent, mut ended) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| is(row, Op::Syscall) || is(row, Op::Exit)) {
        let number = row.1 & 0xff_ffff_ffff;
        match row.1 & !0xff_ffff_ffff {
            _ if is(row, Op::Exit) => ended.push(row.1),
            SENT => sent.push(number),
            RECEIVED => {
                assert!(sent.contains(&number), "message {number:#x} was received before it was sent");
            }
            REAPED => assert!(ended.contains(&asids[&number]), "{number} was waited for before it ended"),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_merge_keeps_every_process_and_every_cause(drawn in recordings(false), seed: u64) {
        let recording = simulate(drawn.0, drawn.1);
        let (rows, meta) = merged(&recording, short_turns(seed));
        prop_assert_eq!(meta.schedule.as_deref(), Some("built-in"));
        check_lives(&recording, &rows, &meta);
        check_causes(&rows, &meta);
    }

    #[test]
    fn signals_that_end_a_wait_for_a_child_lose_no_process(drawn in recordings(true), seed: u64) {
        let recording = simulate(drawn.0, drawn.1);
        let (rows, meta) = merged(&recording, short_turns(seed));
        check_lives(&recording, &rows, &meta);
    }

    #[test]
    fn a_merge_equals_the_slow_model(drawn in recordings(true), seed: u64, quantum in 1u64..3000) {
        let recording = simulate(drawn.0, drawn.1);
        for schedule in [|seed, _| short_turns(seed), |_, quantum| Box::new(RoundRobin::new(quantum)) as Box<dyn Schedule>] {
            let (rows, _) = merged(&recording, schedule(seed, quantum));
            let model = model::merge(&recording, schedule(seed, quantum).as_mut());
            prop_assert_eq!(rows, model);
        }
    }

    #[test]
    fn lint_finds_nothing(drawn in recordings(false), seed: u64) {
        let recording = simulate(drawn.0, drawn.1);
        let mut merge = Merge::new(ScriptedProcesses::new(&recording), short_turns(seed), Meta::default());
        prop_assert_eq!(lint::lint(&mut merge, None, &mut |_| Ok(())).unwrap(), []);
    }

    #[test]
    fn a_preempted_turn_used_up_its_quantum(drawn in recordings(false), quantum in 30u64..3000) {
        let recording = simulate(drawn.0, drawn.1);
        let (rows, _) = merged(&recording, Box::new(RoundRobin::new(quantum)));
        let mut ran = 0u64;
        for row in &rows {
            if is(row, Op::Switch) {
                // A process that was alone at the end of its turn had another turn.
                if row.4 == Some(Cause::Involuntary as u64) {
                    prop_assert!(ran > quantum - 23, "{} of {}", ran, quantum);
                }
                ran = 0;
            } else if is(row, Op::Fetch) {
                ran += u64::from(row.3);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// The recorder writes in the order of time. The merge must not wait for a piece that comes after the
    /// pieces it has not read.
    #[test]
    fn pieces_that_come_late_make_the_same_rows(drawn in recordings(false), seed: u64, pauses: u8) {
        let recording = simulate(drawn.0, drawn.1);
        let (rows, _) = merged(&recording, short_turns(seed));
        let mut all: Vec<(u64, u64, usize)> = Vec::new();
        let (mut senders, mut arriving) = (BTreeMap::new(), BTreeMap::new());
        for (&pid, script) in &recording {
            let (sender, receiver) = channel();
            senders.insert(pid, sender);
            arriving.insert(pid, receiver);
            all.extend(script.pieces.iter().enumerate().map(|(at, (time, _))| (*time, pid, at)));
        }
        all.sort_by_key(|&(time, pid, at)| (time, at, pid));
        let given = ScriptedProcesses { recording: recording.clone(), arriving: Some(arriving) };
        let recorded = recording.clone();
        let recorder = std::thread::spawn(move || {
            for (n, (_, pid, at)) in all.into_iter().enumerate() {
                if n % 64 == usize::from(pauses % 64) {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                senders[&pid].send(recorded[&pid].pieces[at].1.clone()).unwrap();
            }
        });
        let mut merge = Merge::new(Box::new(given), short_turns(seed), Meta::default());
        prop_assert_eq!(drain(&mut merge), rows);
        recorder.join().unwrap();
    }
}

fn switches(rows: &[Row]) -> Vec<(u64, u32, Option<u64>, Option<u64>)> {
    rows.iter().filter(|row| is(row, Op::Switch)).map(|row| (row.1, row.2, row.4, row.5)).collect()
}

#[test]
fn threads_of_a_process_are_switches_within_it() {
    let script = generated::with_threads();
    let recording = Recording::from([(100, script)]);
    let (rows, _) = merged(&recording, short_turns(0));
    let call = Some(Cause::SystemCall as u64);
    let expected = [(0, 7, call, Some(u64::from(FUTEX))), (0, 100, Some(Cause::Involuntary as u64), None)];
    assert_eq!(switches(&rows), expected);
}

/// While the only process waits, the processor is idle. A switch from the process to itself marks this.
#[test]
fn an_idle_processor_is_a_switch_to_oneself() {
    let piece = |time, piece| (time, piece);
    let waits = binhop_record::WaitsFor::Given;
    let pieces = vec![
        piece(0, Piece::Enter { tid: 5, number: 0, waits, time: 0 }),
        piece(20_000, Piece::Leave { tid: 5, number: 0, time: 20_000, result: 0 }),
        piece(30_000, Piece::Enter { tid: 5, number: 0, waits, time: 30_000 }),
        piece(50_001, Piece::Leave { tid: 5, number: 0, time: 50_001, result: 0 }),
        piece(50_001, Piece::Exit { time: 50_001 }),
    ];
    let recording = Recording::from([(5, Script { pid: 5, pieces })]);
    let (rows, _) = merged(&recording, short_turns(0));
    // The first call took 20 µs, which does not count as a wait.
    assert_eq!(switches(&rows), [(0, 5, Some(0), Some(0))]);
}

/// A parent that waits for its child does not delay the child: the child's rows come before the parent's call
/// returns.
#[test]
fn a_parent_that_waits_for_a_child_is_not_waited_for() {
    let (sender, receiver) = channel::<Piece>();
    let mut batch = binhop_trace::event::EventBuilder::default();
    (0..100_000u64).for_each(|row| batch.push(Op::Fetch, row, 4, 1));
    let child = vec![(0, Piece::Rows(batch.finish())), (9, Piece::Exit { time: 9 })];
    let recording =
        Recording::from([(1, Script { pid: 1, pieces: Vec::new() }), (2, Script { pid: 2, pieces: child })]);
    let given = ScriptedProcesses { recording, arriving: Some(BTreeMap::from([(1, receiver)])) };
    sender.send(Piece::Fork { child: 2 }).unwrap();
    let waits = binhop_record::WaitsFor::Child;
    sender.send(Piece::Enter { tid: 1, number: WAIT4, waits, time: 1 }).unwrap();
    let mut merge = Merge::new(Box::new(given), short_turns(0), Meta::default());
    // The parent's stream has no further pieces yet, and the child's rows come nevertheless.
    let mut seen = 0;
    while seen < 90_000 {
        seen += merge.next_batch().unwrap().unwrap().len();
    }
    sender.send(Piece::Leave { tid: 1, number: WAIT4, time: 10, result: 2 }).unwrap();
    sender.send(Piece::Exit { time: 11 }).unwrap();
    let rows = drain(&mut merge);
    assert_eq!(rows.last().map(|row| (row.0, row.1)), Some((Op::Exit as u8, 0)));
}

/// A parent waits for its child's program to start, and its stream names the child only after the call's
/// return.
#[test]
fn a_child_named_after_the_call_ran_since_the_call_began() {
    let (tid, number, waits) = (1, 58, binhop_record::WaitsFor::Room);
    let parent = vec![
        (0, Piece::Enter { tid, number, waits, time: 10 }),
        (0, Piece::Leave { tid, number, time: 1_000_000, result: 2 }),
        (0, Piece::Fork { child: 2 }),
        (0, Piece::Exit { time: 1_000_001 }),
    ];
    let child = vec![(0, Piece::Time { time: 999_999 }), (0, Piece::Exit { time: 1_000_000 })];
    let recording =
        Recording::from([(1, Script { pid: 1, pieces: parent }), (2, Script { pid: 2, pieces: child })]);
    let (rows, _) = merged(&recording, short_turns(0));
    let rows: Vec<_> = rows.iter().map(|row| (Op::from_code(row.0).unwrap(), row.1, row.4, row.5)).collect();
    let expected = [
        (Op::Fork, 1, Some(0), None),
        (Op::Switch, 1, Some(Cause::SystemCall as u64), Some(58)),
        (Op::Exit, 1, None, None),
        (Op::Switch, 0, Some(Cause::Exit as u64), None),
        (Op::Exit, 0, None, None),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_recording_of_nothing_is_empty() {
    let (rows, meta) = merged(&Recording::new(), short_turns(0));
    assert_eq!((rows, meta.processes.len()), (Vec::new(), 0));
}

/// `Breaking` is one process whose second piece cannot be read.
struct Breaking(u32);

impl ProcessStreams for Breaking {
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>> {
        Ok(Some(Box::new(Self(0))))
    }

    fn child(&mut self, _: u64) -> Result<Option<Box<dyn ProcessStream>>> {
        Ok(None)
    }
}

impl ProcessStream for Breaking {
    fn pid(&self) -> u64 {
        1
    }

    fn command(&self) -> &str {
        "breaking"
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
        self.0 += 1;
        if self.0 == 2 {
            return Err(Problem::request("2", "breaking", "breaks", "mend it"));
        }
        let mut rows = EventBuilder::default();
        rows.push_args(Op::Fetch, 0x1000, 16, 4, [None, None]);
        Ok((self.0 < 9).then(|| Piece::Rows(rows.finish())))
    }
}

#[test]
fn the_error_of_a_process_follows_its_rows_and_stays() {
    let mut merge = Merge::new(Box::new(Breaking(0)), Box::new(RoundRobin::new(100)), Meta::default());
    let mut rows = Vec::new();
    let error = loop {
        match merge.next_batch() {
            Ok(batch) => rows.extend(rows_of(&batch.expect("the source fails before it ends"))),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("breaks"), "{error}");
    assert_eq!(rows.iter().filter(|row| is(row, Op::Fetch)).count(), 1);
    (0..3).for_each(|_| assert_eq!(merge.next_batch().unwrap_err().to_string(), error));
}
