//! These tests merge in the order of a native run: in generated orders, and in a real order where tracing is permitted.

use binhop_record::schedule::Native;
use binhop_record::schedule::native::{
    ObservedOrder, ObservedProcess, ObservedTurn, TurnEnd, capture, obstacle,
};
use binhop_record::{Merge, Piece};
use binhop_trace::event::Cause;
use binhop_trace::{Meta, Op, lint};
use proptest::prelude::*;

use crate::generated::{Recording, ScriptedProcesses};
use crate::{Row, check_causes, check_lives, is, merged, recordings};

/// Returns the processes of a recording as a native run would have shown them: with the same calls, except every
/// `skip`-th call.
fn processes(recording: &Recording, skip: usize) -> Vec<ObservedProcess> {
    let parent_of = |child: u64| {
        let made = |piece: &Piece| matches!(piece, Piece::Fork { child: made } if *made == child);
        recording.values().position(|script| script.pieces.iter().any(|(_, piece)| made(piece)))
    };
    let calls = |pieces: &[(u64, Piece)]| {
        let numbers = pieces.iter().filter_map(|(_, piece)| match piece {
            Piece::Enter { number, .. } => Some((*number, 1)),
            _ => None,
        });
        numbers.enumerate().filter(|(at, _)| (at + 1) % skip != 0).map(|(_, call)| call).collect()
    };
    let all = recording
        .iter()
        .map(|(&pid, script)| ObservedProcess { parent: parent_of(pid), calls: calls(&script.pieces) });
    all.collect()
}

fn turn() -> impl Strategy<Value = (usize, usize, u64, TurnEnd)> {
    let end = prop_oneof![
        Just(TurnEnd::SystemCall),
        Just(TurnEnd::PageFault),
        Just(TurnEnd::Involuntary),
        Just(TurnEnd::Exit)
    ];
    (0usize..9, 0usize..40, 0u64..20, end)
}

fn observed(recording: &Recording, turns: &[(usize, usize, u64, TurnEnd)], skip: usize) -> ObservedOrder {
    let processes = processes(recording, skip);
    let turns = turns.iter().zip(0..).map(|(&(process, calls, ran, end), start)| {
        let process = process % processes.len();
        ObservedTurn { process, start, calls: calls.min(processes[process].calls.len()), ran, end }
    });
    ObservedOrder { command: vec!["made up".into()], turns: turns.collect(), processes, lost: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In any native order every process is complete, and every cause comes before its effect.
    #[test]
    fn any_native_order_keeps_every_process_and_every_cause(
        drawn in recordings(false),
        turns in prop::collection::vec(turn(), 0..300),
        skip in 2usize..50,
    ) {
        let recording = crate::generated::simulate(drawn.0, drawn.1);
        let observed = observed(&recording, &turns, skip);
        let (rows, meta) = merged(&recording, Box::new(Native::new(observed.clone())));
        prop_assert_eq!(meta.schedule.as_deref(), Some("native"));
        let timeless: Vec<Row> = rows.iter().filter(|row| !is(row, Op::Time)).copied().collect();
        check_lives(&recording, &timeless, &meta);
        check_causes(&timeless, &meta);
        let schedule = Native::load(&Native::save(&observed), "saved").unwrap();
        let mut merge = Merge::new(ScriptedProcesses::new(&recording), Box::new(schedule), Meta::default());
        prop_assert_eq!(lint::lint(&mut merge, None, &mut |_| Ok(())).unwrap(), []);
    }
}

/// Two processes that only compute and call `getpid` get exactly the observed order.
#[test]
fn turns_end_where_the_native_turns_ended() {
    let script = |pid: u64, child: Option<u64>| {
        let mut rows = binhop_trace::event::EventBuilder::default();
        (0..4000u64).for_each(|row| rows.push(Op::Fetch, row, 4, 1));
        let rows = rows.finish();
        let tid = pid as u32;
        let waits = binhop_record::WaitsFor::Nothing;
        let mut pieces = Vec::new();
        pieces.extend(child.map(|child| (0, Piece::Fork { child })));
        for time in [1, 3] {
            pieces.push((0, Piece::Rows(rows.clone())));
            pieces.push((0, Piece::Enter { tid, number: 39, waits, time }));
            pieces.push((0, Piece::Leave { tid, number: 39, time, result: 1 }));
        }
        pieces.push((0, Piece::Exit { time: 4 }));
        (pid, crate::Script { pid, pieces })
    };
    let recording = Recording::from([script(1, Some(2)), script(2, None)]);
    let turn = |process, start, calls, ran, end| ObservedTurn { process, start, calls, ran, end };
    let observed = ObservedOrder {
        processes: processes(&recording, 99),
        turns: vec![
            turn(0, 0, 0, 3, TurnEnd::Involuntary), // 3 µs: 3000 instructions, at the rate assumed before any is known
            turn(1, 5, 1, 0, TurnEnd::SystemCall),
            turn(0, 9, 1, 0, TurnEnd::PageFault),
            turn(1, 20, 2, 0, TurnEnd::Exit),
            turn(0, 30, 2, 0, TurnEnd::Exit),
        ],
        ..ObservedOrder::default()
    };
    let (rows, _) = merged(&recording, Box::new(Native::new(observed)));
    let mut switches = Vec::new();
    let mut instructions = 0;
    for row in &rows {
        if is(row, Op::Switch) {
            switches.push((instructions, row.1, row.4.unwrap()));
        }
        if is(row, Op::Fetch) {
            instructions += row.3;
        }
    }
    let [call, fault, involuntary, exit] =
        [Cause::SystemCall, Cause::PageFault, Cause::Involuntary, Cause::Exit].map(|c| c as u64);
    // The first process runs one more instruction after its call: such a turn ends before the second fetch
    // after the call.
    assert_eq!(switches, [(3000, 1, involuntary), (7000, 0, call), (8001, 1, fault), (12_001, 0, exit)]);
    let times: Vec<u64> = rows.iter().filter(|row| is(row, Op::Time)).map(|row| row.1).collect();
    assert_eq!(times, [0, 5000, 9000, 20_000, 30_000]);
}

#[test]
fn a_text_that_is_not_a_schedule_is_refused() {
    for (text, value) in [
        ("{", "EOF while parsing an object at line 1 column 1"),
        (
            r#"{"command":[],"processes":[],"runs":[{"process":0,"start":0,"calls":0,"ran":0,"end":"exit"}],"lost":0}"#,
            "process 0 of 0",
        ),
        (
            r#"{"command":[],"processes":[{"parent":0,"calls":[]}],"runs":[],"lost":0}"#,
            "a process before its parent",
        ),
    ] {
        let problem = Native::load(text, "order.json").err().unwrap();
        assert_eq!((problem.value.as_str(), problem.place.as_str()), (value, "order.json"));
    }
}

#[test]
fn a_real_native_run_is_observed() {
    if let Some(obstacle) = obstacle() {
        eprintln!("skipped: {obstacle}");
        return;
    }
    let command = ["sh", "-c", "head -c 300000 /dev/zero | sort | wc -c > /dev/null; true"].map(String::from);
    let mut started = Vec::new();
    let (observed, status) = capture(&command, |pid| started.push(pid)).unwrap();
    assert!(status.success());
    assert_eq!(started.len(), 1, "the command's process gets the signals");
    assert_eq!(observed.processes.len(), 4, "sh, head, sort, wc");
    assert!(observed.processes.iter().skip(1).all(|process| process.parent == Some(0)));
    let calls = |process: usize, number| {
        observed.processes[process].calls.iter().filter(|call| call.0 == number).count()
    };
    assert!(calls(0, 61) >= 3, "the shell waits for three children");
    let exits = observed.turns.iter().filter(|turn| turn.end == TurnEnd::Exit).count();
    assert!(exits >= 3 && observed.lost == 0, "{exits} exits, {} lost", observed.lost);
    // `head` writes more than the pipe holds, so a process waited in a read or a write.
    assert!(observed.turns.iter().any(|turn| turn.end == TurnEnd::SystemCall));
    assert!(observed.turns.windows(2).all(|pair| pair[0].start <= pair[1].start));
    let (_, status) = capture(&["false".to_owned()], drop).unwrap();
    assert_eq!(status.code(), Some(1));
}
