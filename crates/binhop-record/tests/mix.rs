//! These tests check mixes of traces: the rows of small mixes, and the properties that every mix keeps.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::collections::BTreeMap;

use binhop_base::{Problem, Result};
use binhop_record::{EndsWhen, Faults, Latencies, Mix, MixInput, Mixing, Quantum};
use binhop_trace::event::{Cause, EventBatch, EventBuilder};
use binhop_trace::source::{LaneView, ProcessMeta, SegmentMeta, Steered};
use binhop_trace::{Meta, Op, Source, lint};
use proptest::prelude::*;

/// A row: op, addr, size, count, arg0, arg1.
type Row = (Op, u64, u32, u32, Option<u64>, Option<u64>);

#[derive(Clone, Default)]
struct FixedRows {
    rows: Vec<Row>,
    batch: usize,
    meta: Meta,
    /// The rows of the last batch, if the source gives rows back that are wanted later.
    last: Option<Vec<Row>>,
}

impl Source for FixedRows {
    fn name(&self) -> &str {
        "given"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let rows: Vec<Row> = self.rows.drain(..self.batch.max(1).min(self.rows.len())).collect();
        let mut batch = EventBuilder::default();
        rows.iter().for_each(|row| batch.push_args(row.0, row.1, row.2, row.3, [row.4, row.5]));
        let batch = (!rows.is_empty()).then(|| batch.finish());
        self.last = self.last.is_some().then_some(rows);
        Ok(batch)
    }
    fn rest(&mut self, unread: usize) -> bool {
        let Some(last) = &self.last else { return false };
        self.rows.splice(..0, last[last.len() - unread..].to_vec());
        true
    }
}

fn input(name: &str, given: &FixedRows) -> MixInput {
    let given = given.clone();
    MixInput { name: name.into(), open: Box::new(move || Ok(Box::new(given.clone()))), length: None }
}

fn round_robin(quantum: u64) -> Mixing {
    Mixing::new(Quantum::Instructions(quantum))
}

fn mix(inputs: &[FixedRows], quantum: u64, latency: u64, ends: EndsWhen) -> Mix {
    mix_by(inputs, Mixing { latencies: Latencies::all(latency), ends, ..round_robin(quantum) })
}

fn mix_by(inputs: &[FixedRows], mixing: Mixing) -> Mix {
    let inputs = inputs.iter().enumerate().map(|(at, given)| input(&format!("t{at}"), given)).collect();
    Mix::new(inputs, mixing).unwrap()
}

fn drain(mix: &mut Mix) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(batch) = mix.next_batch().unwrap() {
        rows.extend(rows_of(&batch));
    }
    rows
}

fn rows_of(batch: &EventBatch) -> Vec<Row> {
    let row = |row| {
        let op = Op::from_code(batch.op()[row]).unwrap();
        (op, batch.addr()[row], batch.size()[row], batch.count()[row], batch.arg0(row), batch.arg1(row))
    };
    (0..batch.len()).map(row).collect()
}

fn fetch(addr: u64, count: u32) -> Row {
    (Op::Fetch, addr, count * 4, count, None, None)
}

fn load(addr: u64) -> Row {
    (Op::Load, addr, 8, 1, None, None)
}

fn switch(asid: u64, tid: u32, cause: Cause, number: Option<u64>) -> Row {
    (Op::Switch, asid, tid, 0, Some(cause as u64), number)
}

fn exit(asid: u64) -> Row {
    (Op::Exit, asid, 0, 0, None, None)
}

fn given(rows: Vec<Row>) -> FixedRows {
    FixedRows { rows, batch: 3, meta: Meta::default(), last: None }
}

const READ: Option<u64> = Some(0);

#[test]
fn turns_waits_and_ends_of_a_small_mix() {
    let a = given(vec![
        fetch(0, 4),
        load(1),
        fetch(2, 4),
        fetch(3, 4), // the quantum of 10 ends before this fetch
        load(4),
        switch(0, 0, Cause::SystemCall, READ), // waits for 20 instructions
        fetch(5, 1),
    ]);
    let b = given(vec![switch(9, 33, Cause::Involuntary, None), fetch(10, 10), fetch(11, 10), fetch(12, 1)]);
    let rows = drain(&mut mix(&[a, b], 10, 20, EndsWhen::All));
    use Cause::{Exit, Involuntary, SystemCall};
    let expected = vec![
        fetch(0, 4),
        load(1),
        fetch(2, 4),
        switch(1, 33, Involuntary, None),
        fetch(10, 10),
        switch(0, 0, Involuntary, None),
        fetch(3, 4),
        load(4),
        switch(1, 33, SystemCall, READ),
        fetch(11, 10),
        fetch(12, 1), // its turn was over, but no other input was ready
        exit(1),
        switch(0, 0, Exit, None),
        fetch(5, 1),
        exit(0),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn an_idle_processor_is_a_switch_to_oneself() {
    let waiting = given(vec![fetch(0, 1), switch(0, 0, Cause::PageFault, None), fetch(1, 1)]);
    let rows = drain(&mut mix(&[waiting], 10, 5, EndsWhen::All));
    assert_eq!(rows, [fetch(0, 1), switch(0, 0, Cause::PageFault, None), fetch(1, 1), exit(0)]);
}

#[test]
fn a_trace_of_several_processes_keeps_its_own_order() {
    let mut shell = given(vec![
        fetch(0, 4),
        (Op::Fork, 1, 0, 0, Some(0), None),
        switch(1, 8, Cause::SystemCall, Some(61)),
        (Op::Exec, 1, 0, 0, None, None),
        fetch(1, 4),
        (Op::Exit, 1, 0, 0, None, None),
        switch(0, 7, Cause::Exit, None),
        (Op::Time, 5, 0, 0, None, None),
        fetch(2, 4),
        (Op::Fork, 1, 0, 0, Some(0), None), // the number again
    ]);
    shell.meta.processes.insert(0, ProcessMeta { pid: Some(7), command: Some("sh".into()), parent: None });
    shell.meta.processes.insert(1, ProcessMeta { pid: Some(8), command: Some("ls".into()), parent: Some(0) });
    let other = given(vec![fetch(9, 2), fetch(9, 2)]);
    let mut mix = mix(&[other, shell], 3, 1, EndsWhen::All);
    let rows = drain(&mut mix);
    let expected = vec![
        fetch(9, 2),
        switch(1, 7, Cause::Involuntary, None),
        fetch(0, 4), // a fetch longer than the quantum is not split
        (Op::Fork, 2, 0, 0, Some(1), None),
        switch(2, 8, Cause::SystemCall, Some(61)),
        (Op::Exec, 2, 0, 0, None, None),
        switch(0, 0, Cause::Involuntary, None),
        fetch(9, 2),
        exit(0),
        switch(2, 8, Cause::Exit, None),
        fetch(1, 4),
        exit(2),
        switch(1, 7, Cause::Exit, None),
        fetch(2, 4),
        (Op::Fork, 3, 0, 0, Some(1), None),
        exit(1),
        exit(3),
    ];
    assert_eq!(rows, expected);
    let processes = &mix.meta().processes;
    let known = |asid| processes[&asid].command.clone().map(|command| (processes[&asid].parent, command));
    assert_eq!(
        (known(0), known(1), known(2)),
        (None, Some((None, "sh".into())), Some((Some(1), "ls".into())))
    );
    assert_eq!(mix.meta().schedule.as_deref(), Some("round-robin, quantum 3"));
}

/// Two recordings have libc and a stack each, and both write to one log.
#[test]
fn a_file_is_one_segment_in_all_inputs_and_other_segments_stay_separate() {
    let of = |libc: u64, stack: u64, log: u64| {
        let mut given = given(vec![
            (Op::Map, 0x1000, 5, 1, Some(libc), Some(4096)),
            (Op::Map, 0x2000, 3, 1, Some(stack), Some(0)),
            (Op::Map, 0x3000, 3, 1, None, None),
            fetch(0x1000, 1),
            (Op::Syscall, 0x2000, 8, 1, Some(log), Some(0)),
            (Op::Syscall, 0x2000, 8, 1, Some(77), None),
            fetch(0x1000, 1),
        ]);
        given.meta.page_size = Some(4096);
        let file = |file: &str| SegmentMeta { file: Some(file.into()), kind: Some("text".into()) };
        given.meta.segments.insert(libc, file("/lib/libc.so.6"));
        given.meta.segments.insert(stack, SegmentMeta { file: None, kind: Some("stack".into()) });
        given.meta.files.insert(log, "/tmp/log".into());
        given
    };
    let mut mix = mix(&[of(4, 5, 6), of(1, 2, 3)], 1, 1, EndsWhen::All);
    let rows = drain(&mut mix);
    let args = |op| rows.iter().filter(|row| row.0 == op).map(|row| row.4).collect::<Vec<_>>();
    assert_eq!(args(Op::Map), [Some(0), Some(1), None, Some(0), Some(2), None]);
    assert_eq!(args(Op::Syscall), [Some(0), Some(1), Some(0), Some(2)]);
    let meta = mix.meta();
    assert_eq!(meta.segments[&0].file.as_deref(), Some("/lib/libc.so.6"));
    assert_eq!((meta.segments.len(), meta.files.len()), (3, 1));
    assert_eq!((meta.files[&0].as_str(), meta.page_size), ("/tmp/log", Some(4096)));
}

/// A file keeps a separate number for calls that bypass the page cache, and the mix lists this number among its direct
/// files.
#[test]
fn direct_calls_of_a_mix_keep_a_number_of_their_own() {
    let of = |buffered: u64, direct: u64| {
        let call = |file| (Op::Syscall, 0x2000, 8, 1, Some(file), Some(0));
        let mut given = given(vec![fetch(0, 1), call(buffered), call(direct), fetch(0, 1)]);
        given.meta.files = [(buffered, "/data".into()), (direct, "/data".into())].into();
        given.meta.direct_files = [direct].into();
        given
    };
    let mut mix = mix(&[of(4, 5), of(2, 1)], 1, 1, EndsWhen::All);
    let rows = drain(&mut mix);
    let files: Vec<_> = rows.iter().filter(|row| row.0 == Op::Syscall).map(|row| row.4).collect();
    assert_eq!(files, [Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!(mix.meta().direct_files, [1].into());
    assert_eq!(mix.meta().files[&1], "/data");
}

#[test]
fn a_mix_ends_as_it_was_asked_to() {
    let short = given(vec![fetch(0, 1)]);
    let long = given(vec![fetch(5, 1), fetch(6, 1), fetch(7, 1)]);
    let fetched = |ends| {
        let rows = drain(&mut mix(&[short.clone(), long.clone()], 1, 1, ends));
        rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| row.1).collect::<Vec<_>>()
    };
    assert_eq!(fetched(EndsWhen::All), [0, 5, 6, 7]);
    assert_eq!(fetched(EndsWhen::First), [0]);
    // The repeated input begins again as new processes.
    assert_eq!(fetched(EndsWhen::Repeat), [0, 5, 0, 6, 0, 7]);
    let rows = drain(&mut mix(&[short, long], 1, 1, EndsWhen::Repeat));
    let switches: Vec<u64> = rows.iter().filter(|row| row.0 == Op::Switch).map(|row| row.1).collect();
    assert_eq!(switches, [1, 2, 1, 3, 1]);
}

#[test]
fn a_mix_says_when_its_inputs_ended() {
    let [short, long] = [2, 7].map(|n| given((0..n).map(|addr| fetch(addr, 1)).collect()));
    let notes = |ends| {
        let mut mix = mix(&[short.clone(), long.clone()], 2, 1, ends);
        drain(&mut mix);
        mix.meta().notes_on_ends()
    };
    let ended = |input, after, more| format!("t{input} ended after {after} instructions of the mix{more}");
    let repeated = " and began again 4 times";
    assert_eq!(notes(EndsWhen::All), [ended(0, 2, ""), ended(1, 9, "")]);
    assert_eq!(notes(EndsWhen::First), [ended(0, 2, ""), "t1 did not end before the mix ended".into()]);
    assert_eq!(notes(EndsWhen::Repeat), [ended(0, 2, repeated), ended(1, 15, "")]);
}

/// Returns a program whose page 0x1000 belongs to a file, and whose page 0x2000 does not.
fn with_a_file(file: &str, rows: &[Row]) -> FixedRows {
    let maps = [(Op::Map, 0x1000, 5, 1, Some(0), Some(0x4000)), (Op::Map, 0x2000, 3, 1, Some(1), Some(0))];
    let mut given = given(maps.iter().chain(rows).copied().collect());
    given.meta.segments.insert(0, SegmentMeta { file: Some(file.into()), kind: None });
    given.meta.segments.insert(1, SegmentMeta { file: None, kind: Some("heap".into()) });
    given
}

/// Mixes with first touches that block for 5 instructions. Returns the mix without its maps.
fn faulting(inputs: &[FixedRows], quantum: u64) -> Vec<Row> {
    let latencies = Latencies { fault: 5, ..Latencies::all(1000) };
    let mixing = Mixing { latencies, faults: Faults::First, ..round_robin(quantum) };
    let mut rows = drain(&mut mix_by(inputs, mixing));
    rows.retain(|row| row.0 != Op::Map);
    rows
}

#[test]
fn the_first_touch_of_a_page_of_a_file_waits() {
    let a = with_a_file("/a", &[fetch(0x2000, 2), load(0x1008), load(0x1ff8), fetch(0x1000, 1)]);
    let b = with_a_file("/b", &[fetch(0x2000, 4), fetch(0x2000, 4)]);
    use Cause::{Exit, PageFault};
    let expected = [
        fetch(0x2000, 2),
        switch(1, 0, PageFault, None),
        fetch(0x2000, 4),
        // The wait of 5 instructions is not over at the end of the quantum of 4, and is over 4 instructions later.
        fetch(0x2000, 4),
        exit(1),
        switch(0, 0, Exit, None),
        load(0x1008),
        load(0x1ff8),
        fetch(0x1000, 1),
        exit(0),
    ];
    assert_eq!(faulting(&[a.clone(), b], 4), expected);
    // A processor without another process to run is idle.
    let alone = faulting(&[a], 4);
    assert_eq!(alone[1], switch(0, 0, PageFault, None));
    assert_eq!(alone.iter().filter(|row| row.0 == Op::Switch).count(), 1);
}

#[test]
fn a_page_of_a_shared_file_faults_once_for_all() {
    let faults = |files: [&str; 3]| {
        let programs = files.map(|file| with_a_file(file, &[fetch(0x1000, 1), fetch(0x1000, 1)]));
        let rows = faulting(&programs, 100);
        rows.iter().filter(|row| row.0 == Op::Switch && row.4 == Some(Cause::PageFault as u64)).count()
    };
    // All three processes wait for the same page: the second and the third process wait for the rest of the time.
    assert_eq!(faults(["/a", "/a", "/a"]), 3);
    let program = with_a_file("/a", &[fetch(0x2000, 9), fetch(0x1000, 1)]);
    let rows = faulting(&[program.clone(), program.clone(), program], 2);
    let causes = rows.iter().filter(|row| row.0 == Op::Switch).map(|row| row.4.unwrap());
    let causes: Vec<_> = causes.map(|cause| Cause::from_code(cause).unwrap()).collect();
    use Cause::{Exit, Involuntary, PageFault};
    // The other processes run 9 instructions before they reference the page, and then the wait of 5 is over.
    assert_eq!(causes, [PageFault, Involuntary, Involuntary, Exit, Exit]);
}

#[test]
fn a_reference_waits_once_and_marked_faults_stay() {
    let marked = switch(0, 0, Cause::PageFault, None);
    let faults = |rows: &[Row]| {
        let rows = faulting(&[with_a_file("/a", rows)], 100);
        rows.iter().filter(|row| row.0 == Op::Switch).count()
    };
    // The fault that the trace marks is the fault of the reference behind the mark.
    assert_eq!(faults(&[marked, fetch(0x1000, 1), fetch(0x1000, 1)]), 1);
    assert_eq!(faults(&[fetch(0x1000, 1), marked, fetch(0x1000, 1)]), 2);
    let unmapped = (Op::Unmap, 0x1000, 0, 1, None, None);
    assert_eq!(faults(&[unmapped, fetch(0x1000, 1)]), 0);
    // Two pages of one file: a reference to both waits once.
    let both = (Op::Map, 0x8000, 5, 2, Some(0), Some(0));
    assert_eq!(faults(&[both, load(0x8ffc), load(0x8000), load(0x9000)]), 1);
    assert_eq!(faults(&[both, load(0x8000), load(0x9000)]), 2);
    let kernel = (Op::KernelEnter, 0, 0, 0, None, None);
    assert_eq!(faults(&[kernel, load(0x1000), (Op::KernelLeave, 0, 0, 0, None, None)]), 0);
    // A child has its parent's maps, and a new program has none.
    let (fork, exec) = ((Op::Fork, 1, 0, 0, Some(0), None), (Op::Exec, 1, 0, 0, None, None));
    let child = switch(1, 0, Cause::SystemCall, None);
    assert_eq!(faults(&[fork, child, load(0x1000)]), 2);
    assert_eq!(faults(&[fork, child, exec, load(0x1000)]), 1);
}

#[test]
fn no_other_input_runs_inside_the_kernel() {
    let kernel = given(vec![
        (Op::KernelEnter, 0, 0, 1, None, None),
        fetch(0, 8),
        switch(0, 0, Cause::SystemCall, READ),
        fetch(1, 8),
        (Op::KernelLeave, 0, 0, 0, None, None),
        fetch(2, 1),
    ]);
    let rows = drain(&mut mix(&[kernel, given(vec![fetch(9, 1)])], 4, 100, EndsWhen::All));
    let order: Vec<u64> = rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| row.1).collect();
    assert_eq!(order, [0, 1, 9, 2]);
}

#[test]
fn a_length_bounds_each_input() {
    let long = given((0..100).map(|addr| fetch(addr, 2)).collect());
    let inputs = (0..2).map(|_| MixInput { length: Some(11), ..input("long", &long) }).collect();
    let mut mix = Mix::new(inputs, round_robin(4)).unwrap();
    let fetched: u32 = drain(&mut mix).iter().filter(|row| row.0 == Op::Fetch).map(|row| row.3).sum();
    assert_eq!(fetched, 20); // 5 runs of 2 instructions each; a sixth would pass 11
}

#[test]
fn a_mix_names_the_systems_of_all_calls() {
    let of = |system: Option<&str>| FixedRows {
        meta: Meta { system_calls: system.map(str::to_owned), ..Meta::default() },
        ..given(vec![fetch(0, 1)])
    };
    let mixed = |systems: [Option<&str>; 2]| {
        let inputs = systems.iter().map(|&system| input("trace", &of(system))).collect();
        Mix::new(inputs, round_robin(1)).unwrap().meta().call_system().to_owned()
    };
    assert_eq!(mixed([None, Some("linux-x86-64")]), "linux-x86-64");
    assert_eq!(mixed([Some("4.3bsd"), Some("4.3bsd")]), "4.3bsd");
    assert_eq!(mixed([None, Some("4.3bsd")]), "4.3bsd + linux-x86-64");
}

#[test]
fn page_sizes_that_differ_are_refused() {
    let paged = |page| FixedRows {
        meta: Meta { page_size: Some(page), ..Meta::default() },
        ..given(vec![fetch(0, 1)])
    };
    let inputs = vec![input("a", &paged(4096)), input("b", &paged(16384))];
    let problem = Mix::new(inputs, round_robin(1)).err().unwrap();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("pages of 16384 bytes", "b"));
    assert_eq!(Mix::new(Vec::new(), round_robin(1)).err().unwrap().value, "no trace");
    let inputs = vec![input("a", &paged(4096))];
    let problem = Mix::new(inputs, round_robin(0)).err().unwrap();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("0", "--quantum"));
}

#[test]
fn latencies_depend_on_what_the_process_waits_for() {
    let waits = |cause, number| {
        let a = given(vec![fetch(0, 1), switch(0, 0, cause, number), fetch(1, 1)]);
        let b = given((0..100).map(|_| fetch(9, 1)).collect());
        let inputs = vec![input("a", &a), input("b", &b)];
        let latencies = Latencies { given: 10, room: 20, fault: 30 };
        let mut mix = Mix::new(inputs, Mixing { latencies, ..round_robin(1) }).unwrap();
        let rows = drain(&mut mix);
        rows.iter().filter(|row| row.0 == Op::Fetch).position(|row| row.1 == 1).unwrap() - 1
    };
    assert_eq!(waits(Cause::SystemCall, READ), 10);
    assert_eq!(waits(Cause::SystemCall, Some(74)), 20); // fsync
    assert_eq!(waits(Cause::SystemCall, None), 10);
    assert_eq!(waits(Cause::PageFault, None), 30);
}

/// Draws the rows of a program that sometimes waits.
fn programs() -> impl Strategy<Value = Vec<Row>> {
    let row = prop_oneof![
        8 => (0u64..1000, 1u32..30).prop_map(|(addr, count)| fetch(addr, count)),
        6 => (0u64..1000).prop_map(load),
        1 => Just(switch(0, 0, Cause::SystemCall, READ)),
        1 => Just((Op::Syscall, 64, 8, 0, Some(3), None)),
        1 => Just((Op::Time, 1, 0, 0, None, None)),
    ];
    prop::collection::vec(row, 1..200)
}

/// Mixes by the slow model, for inputs of one process: the model goes row by row, and every decision looks at every
/// input.
fn model(programs: &[Vec<Row>], quantum: u64, latency: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let n = programs.len();
    let (mut at, mut wakes, mut last_turn, mut numbers) =
        (vec![0; n], vec![0u64; n], vec![0; n], vec![None; n]);
    let (mut now, mut me, mut turn, mut ran) = (0, 0, 1, 0);
    (last_turn[0], numbers[0]) = (1, Some(0u64));
    let mut files: BTreeMap<usize, u64> = BTreeMap::new();
    at[0] = usize::from(programs[0][0].0 == Op::Switch);
    loop {
        let row = programs[me].get(at[me]).copied();
        let leaves = match row {
            None => {
                rows.push(exit(numbers[me].unwrap()));
                at[me] += 1;
                Some((Cause::Exit, None))
            }
            Some((Op::Switch, .., number)) => {
                wakes[me] = now + latency;
                at[me] += 1;
                Some((Cause::SystemCall, number))
            }
            Some((Op::Fetch, _, _, count, ..)) if ran > 0 && ran + u64::from(count) > quantum => {
                let alone = (0..n).all(|other| other == me || at[other] > programs[other].len());
                (!alone).then_some((Cause::Involuntary, None))
            }
            _ => None,
        };
        let Some((cause, number)) = leaves else {
            let mut row = row.unwrap();
            at[me] += 1;
            if row.0 == Op::Fetch {
                (now, ran) = (now + u64::from(row.3), ran + u64::from(row.3));
            } else if row.0 == Op::Syscall {
                let next = files.len() as u64;
                row.4 = Some(*files.entry(me).or_insert(next));
            }
            rows.extend(Some(row).filter(|row| row.0 != Op::Time));
            continue;
        };
        let living: Vec<usize> = (0..n).filter(|&other| at[other] <= programs[other].len()).collect();
        let Some(first) = living.iter().map(|&other| wakes[other]).min() else { return rows };
        now = now.max(first);
        let ready = living.into_iter().filter(|&other| wakes[other] <= now);
        let next = ready.min_by_key(|&other| last_turn[other]).unwrap();
        let known = numbers.iter().flatten().count() as u64;
        let asid = *numbers[next].get_or_insert(known);
        if next != me || cause != Cause::Involuntary {
            // If the input's first event is a switch, the switch that begins the turn replaces it.
            if at[next] == 0 && programs[next][0].0 == Op::Switch {
                at[next] = 1;
            }
            rows.push(switch(asid, 0, cause, number));
        }
        turn += 1;
        (me, last_turn[next], ran) = (next, turn, 0);
    }
}

proptest! {
    #[test]
    fn a_mix_equals_the_slow_model(
        programs in prop::collection::vec(programs(), 1..5),
        quantum in 1u64..200,
        latency in 0u64..300,
        batch in 1usize..50,
    ) {
        let inputs: Vec<FixedRows> = programs.iter().map(|rows| FixedRows { batch, ..given(rows.clone()) }).collect();
        let rows = drain(&mut mix(&inputs, quantum, latency, EndsWhen::All));
        let others: Vec<FixedRows> = programs.iter().map(|rows| FixedRows { batch: 7, ..given(rows.clone()) }).collect();
        prop_assert_eq!(&rows, &drain(&mut mix(&others, quantum, latency, EndsWhen::All)), "batches matter");

        prop_assert_eq!(&rows, &model(&programs, quantum, latency));
        let mut found =
            lint::lint(&mut mix(&inputs, quantum, latency, EndsWhen::All), None, &mut |_| Ok(())).unwrap();
        // A drawn program may hold no reference.
        found.retain(|finding| finding.rule.name != "switch-never-runs");
        prop_assert_eq!(found, []);
    }
}

proptest! {
    /// Inputs after the first 32 give rows back when their turn ends, and read them again.
    #[test]
    fn a_mix_of_many_inputs_does_not_depend_on_rows_given_back(
        programs in prop::collection::vec(programs(), 1..4),
        quantum in 1u64..200,
        latency in 0u64..300,
        batch in 1usize..50,
        length in prop::option::of(0u64..300),
    ) {
        let mixed = |rests: bool| {
            let many = std::iter::repeat_n(vec![fetch(0, 1)], 32).chain(programs.iter().cloned());
            let inputs = many.map(|rows| {
                let last = rests.then(Vec::new);
                MixInput { length, ..input("one", &FixedRows { batch, last, ..given(rows) }) }
            });
            let mixing = Mixing { latencies: Latencies::all(latency), ..round_robin(quantum) };
            drain(&mut Mix::new(inputs.collect(), mixing).unwrap())
        };
        prop_assert_eq!(mixed(true), mixed(false));
    }
}

proptest! {
    /// A first touch that blocks equals a fault that the trace marks before the same reference.
    #[test]
    fn first_touches_equal_marked_faults(
        programs in prop::collection::vec(programs(), 1..5),
        quantum in 1u64..200,
        latency in 0u64..300,
        batch in 1usize..50,
    ) {
        const PAGES: u64 = 8;
        let program = |(number, rows): (usize, &Vec<Row>)| {
            let rows = rows.iter().map(|&(op, addr, ..)| match op {
                Op::Fetch => fetch((addr % PAGES) << 12, 3),
                Op::Load => load((addr % PAGES) << 12),
                _ => fetch(0, 1),
            });
            let maps = [
                (Op::Map, 0, 5, (PAGES / 2) as u32, Some(0), Some(0)),
                (Op::Map, (PAGES / 2) << 12, 3, (PAGES / 2) as u32, None, None),
            ];
            let mut given = FixedRows { batch, ..given(maps.into_iter().chain(rows).collect()) };
            let file = Some(format!("/{number}"));
            given.meta.segments.insert(0, SegmentMeta { file, kind: None });
            given
        };
        let plain: Vec<FixedRows> = programs.iter().enumerate().map(program).collect();
        let marked: Vec<FixedRows> = plain.iter().map(|given| {
            let mut read = BTreeMap::new();
            let mut rows = Vec::new();
            for &row in &given.rows {
                let of_file = row.0.is_reference() && row.1 >> 12 < PAGES / 2;
                if of_file && read.insert(row.1 >> 12, ()).is_none() {
                    rows.push(switch(0, 0, Cause::PageFault, None));
                }
                rows.push(row);
            }
            FixedRows { rows, ..given.clone() }
        }).collect();
        let none = Mixing { latencies: Latencies::all(latency), ..round_robin(quantum) };
        let first = Mixing { faults: Faults::First, ..none };
        let rows = drain(&mut mix_by(&plain, first));
        prop_assert_eq!(&rows, &drain(&mut mix_by(&marked, none)));
        // The marks stand for the same references, so first touches add no fault to them.
        prop_assert_eq!(&rows, &drain(&mut mix_by(&marked, first)));
    }
}

/// `Costs` is a lane in which each row of a stream costs its instructions, and some rows cost more.
struct Costs {
    /// The most cycles that a reference costs besides its instructions.
    dearest: u64,
    one_by_one: bool,
    rows: u64,
    cycles: u64,
}

impl Costs {
    fn run(mix: &mut Mix, dearest: u64, one_by_one: bool) -> (Vec<Row>, u64) {
        let (mut lane, mut rows) = (Self { dearest, one_by_one, rows: 0, cycles: 0 }, Vec::new());
        while let Some(batch) = mix.next_piece(&mut lane).unwrap() {
            for row in rows_of(&batch) {
                lane.rows += 1;
                if row.0.is_reference() {
                    // What a row costs depends on all rows before it, as in a cache.
                    let draw = lane.rows.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        ^ row.1.wrapping_mul(0x2545_f491_4f6c_dd1d);
                    let draw = draw >> 40;
                    let extra = if draw % 3 == 0 { draw % (dearest + 1) } else { 0 };
                    lane.cycles += instructions_of(&row) + extra;
                }
                rows.push(row);
            }
        }
        (rows, lane.cycles)
    }
}

fn instructions_of(row: &Row) -> u64 {
    if row.0 == Op::Fetch { row.3.into() } else { 0 }
}

impl LaneView for Costs {
    fn cycles(&self) -> u64 {
        self.cycles
    }

    fn rows_within(&mut self, rows: &EventBatch, left: u64) -> usize {
        let mut worst = 0;
        let fits = |row: &Row| {
            worst += instructions_of(row) + if row.0.is_reference() { self.dearest } else { 0 };
            worst <= left
        };
        if self.one_by_one { 0 } else { rows_of(rows).into_iter().take_while(fits).count() }
    }

    fn rows_before_placement(&mut self, rows: &EventBatch) -> (usize, bool) {
        (rows.len(), false)
    }
}

proptest! {
    /// If the worst case of several rows fits into the rest of a quantum, the rows are yielded together. The stream
    /// stays the same.
    #[test]
    fn pieces_equal_rows_one_by_one(
        programs in prop::collection::vec(programs(), 1..5),
        quantum in 1u64..2000,
        latency in 0u64..3000,
        dearest in 0u64..200,
        batch in 1usize..50,
    ) {
        let inputs: Vec<FixedRows> = programs.iter().map(|rows| FixedRows { batch, ..given(rows.clone()) }).collect();
        let latencies = Latencies::all(latency);
        let mixing = Mixing { latencies, faults: Faults::First, ..Mixing::new(Quantum::Cycles(quantum)) };
        let in_pieces = Costs::run(&mut mix_by(&inputs, mixing), dearest, false);
        prop_assert_eq!(&in_pieces, &Costs::run(&mut mix_by(&inputs, mixing), dearest, true));
        // If nothing waits, the mix equals the mix with a quantum in instructions.
        let mixing = Mixing { latencies, ..round_robin(quantum) };
        let by_instructions = drain(&mut mix_by(&inputs, mixing));
        let cycles = Mixing { quantum: Quantum::Cycles(quantum), ..mixing };
        prop_assert_eq!(&by_instructions, &Costs::run(&mut mix_by(&inputs, cycles), 0, false).0);
        prop_assert_eq!(&by_instructions, &Costs::run(&mut mix_by(&inputs, cycles), 0, true).0);
    }
}

/// A turn ends before the next fetch. The cycles that its last instruction waited count in the turn.
#[test]
fn a_quantum_in_cycles_ends_before_a_fetch() {
    struct Slow(u64);
    impl LaneView for Slow {
        fn cycles(&self) -> u64 {
            self.0
        }
        fn rows_within(&mut self, _: &EventBatch, _: u64) -> usize {
            0
        }
        fn rows_before_placement(&mut self, rows: &EventBatch) -> (usize, bool) {
            (rows.len(), false)
        }
    }
    let a = given(vec![fetch(0, 4), load(1), fetch(2, 4), fetch(3, 4)]);
    let b = given(vec![fetch(10, 1), fetch(11, 20), fetch(12, 1)]);
    let mut mix = mix_by(&[a, b], Mixing::new(Quantum::Cycles(20)));
    let (mut lane, mut rows) = (Slow(0), Vec::new());
    while let Some(batch) = mix.next_piece(&mut lane).unwrap() {
        for row in rows_of(&batch) {
            // Every load waits for 13 cycles.
            lane.0 += instructions_of(&row) + if row.0 == Op::Load { 13 } else { 0 };
            rows.push(row);
        }
    }
    let expected = [
        fetch(0, 4),
        load(1), // 17 cycles have passed, and a fetch of 4 would exceed 20
        switch(1, 0, Cause::Involuntary, None),
        fetch(10, 1),
        switch(0, 0, Cause::Involuntary, None),
        fetch(2, 4),
        fetch(3, 4),
        exit(0),
        switch(1, 0, Cause::Exit, None),
        fetch(11, 20),
        fetch(12, 1),
        exit(1),
    ];
    assert_eq!(rows, expected);
}

/// The lane holds only the page that was touched last, so a reference to any other page brings back an evicted page.
#[test]
fn a_page_that_returns_waits_before_its_reference() {
    #[derive(Default)]
    struct OnePage {
        seen: Vec<u64>,
    }
    impl LaneView for OnePage {
        fn cycles(&self) -> u64 {
            0
        }
        fn rows_within(&mut self, _: &EventBatch, _: u64) -> usize {
            unreachable!("the quantum is in instructions")
        }
        fn rows_before_placement(&mut self, rows: &EventBatch) -> (usize, bool) {
            let held = self.seen.last();
            let moves = rows_of(rows).iter().position(|row| row.0.is_reference() && Some(&row.1) != held);
            let returns = moves.is_some_and(|at| self.seen.contains(&rows.addr()[at]));
            (moves.unwrap_or(rows.len()), returns)
        }
    }
    let a = given(vec![fetch(1, 2), fetch(2, 2), fetch(2, 2), fetch(1, 2)]);
    let b = given(vec![fetch(3, 2), fetch(3, 2), fetch(3, 2)]);
    let latencies = Latencies { fault: 3, ..Latencies::all(1000) };
    let mut mix = mix_by(&[a, b], Mixing { latencies, faults: Faults::All, ..round_robin(100) });
    let (mut lane, mut rows) = (OnePage::default(), Vec::new());
    while let Some(batch) = mix.next_piece(&mut lane).unwrap() {
        lane.seen.extend(rows_of(&batch).iter().filter(|row| row.0.is_reference()).map(|row| row.1));
        rows.extend(rows_of(&batch));
    }
    let expected = [
        fetch(1, 2),
        fetch(2, 2),
        fetch(2, 2),
        switch(1, 0, Cause::PageFault, None),
        fetch(3, 2),
        fetch(3, 2),
        fetch(3, 2),
        exit(1),
        switch(0, 0, Cause::Exit, None),
        fetch(1, 2), // it has waited once, and does not wait again
        exit(0),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_quantum_in_cycles_needs_a_lane() {
    let mut mix = mix_by(&[given(vec![fetch(0, 1)])], Mixing::new(Quantum::Cycles(400)));
    assert_eq!(mix.meta().schedule.as_deref(), Some("round-robin, quantum 400 cycles"));
    let problem = mix.next_batch().unwrap_err();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("400 cycles", "quantum"));
    let all = Mixing { faults: Faults::All, ..round_robin(9) };
    let problem = mix_by(&[given(vec![fetch(0, 1)])], all).next_batch().unwrap_err();
    assert_eq!((problem.value.as_str(), problem.place.as_str()), ("all", "faults"));
    let problem =
        Mix::new(vec![input("a", &given(Vec::new()))], Mixing::new(Quantum::Cycles(0))).err().unwrap();
    assert_eq!(problem.value, "0");
}

/// `Breaking` fails at its second batch only.
#[derive(Clone)]
struct Breaking(FixedRows, u32);

impl Source for Breaking {
    fn name(&self) -> &str {
        "breaking"
    }
    fn meta(&self) -> &Meta {
        self.0.meta()
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        self.1 += 1;
        if self.1 == 2 {
            return Err(Problem::request("2", "breaking", "breaks", "mend it"));
        }
        self.0.next_batch()
    }
}

#[test]
fn the_error_of_an_input_stays() {
    let rows: Vec<Row> = (0..9).map(|at| fetch(at, 4)).collect();
    let breaking = Breaking(given(rows.clone()), 0);
    let open = move || Ok(Box::new(breaking.clone()) as Box<dyn Source>);
    let broken = MixInput { name: "broken".into(), open: Box::new(open), length: None };
    let inputs = vec![broken, input("whole", &given(rows))];
    let mut mix = Mix::new(inputs, round_robin(8)).unwrap();
    let error = loop {
        match mix.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "the source fails before it ends"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("breaks"), "{error}");
    (0..3).for_each(|_| assert_eq!(mix.next_batch().unwrap_err().to_string(), error));
}
