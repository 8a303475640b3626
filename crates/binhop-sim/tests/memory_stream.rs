//! These tests check the accesses that reach memory, one at a time. Their number and kinds must equal the counts of the
//! run, and each access is the expected access.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Event, Fixed, SMALL, batch, cases, event, machine, run};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_base::Kind;
use binhop_hw::Rules;
use binhop_sim::{Machine, Outcome, RunOptions, memory_stream};
use binhop_trace::Op;
use binhop_trace::event::{EventBatch, EventBuilder};
use binhop_trace::export::MemoryAccess;
use proptest::prelude::*;

fn stream(machine: &Machine, events: &EventBatch, options: &RunOptions) -> (Vec<MemoryAccess>, Outcome) {
    let mut accesses = Vec::new();
    let mut take = |some: &[MemoryAccess]| {
        accesses.extend_from_slice(some);
        Ok(())
    };
    let source = Box::new(Fixed::new(events.clone(), 100));
    let outcome = memory_stream(machine, source, options, &mut take, &mut |_| Ok(())).unwrap();
    (accesses, outcome)
}

/// Counts accesses of memory by kind: of reads, of writes.
fn counted(outcome: &Outcome) -> [u64; 2] {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap().clone();
    let (names, values) = (column("metric"), column("value"));
    let (names, values) = (names.as_string::<i32>(), values.as_primitive::<Float64Type>());
    let of = |kind: Kind| -> u64 {
        // If the agent is not the user, its name stands before the kind.
        let end = format!(".{}.accesses", kind.name());
        let counts = |row: &usize| {
            let name = names.value(*row);
            name.starts_with("memory.") && name.ends_with(&end)
        };
        (0..names.len()).filter(counts).map(|row| values.value(row) as u64).sum()
    };
    let writes = [Kind::Write, Kind::Writeback, Kind::System];
    let sum = |wanted: bool| {
        Kind::ALL.iter().filter(|kind| writes.contains(kind) == wanted).map(|&kind| of(kind)).sum()
    };
    [sum(false), sum(true)]
}

fn compare(number: usize, events: &[Event]) {
    let machine = machine(number);
    if machine.tree().config().rules == Rules::Cachegrind {
        let source = Box::new(Fixed::new(batch(events), 100));
        let refused =
            memory_stream(&machine, source, &RunOptions::default(), &mut |_| Ok(()), &mut |_| Ok(()));
        assert!(refused.err().unwrap().rule.contains("written data leaves no trace"));
        return;
    }
    let events = batch(events);
    let options = RunOptions { seeds: vec![3], ..RunOptions::default() };
    let plain = run(&machine, &events, 1000, &options);
    for threads in [1, 2] {
        let (accesses, outcome) = stream(&machine, &events, &RunOptions { threads, ..options.clone() });
        assert_eq!(outcome.results, plain.results, "{}: listening changes nothing", machine.name());
        let writes = accesses.iter().filter(|access| access.write).count() as u64;
        assert_eq!([accesses.len() as u64 - writes, writes], counted(&plain), "{}", machine.name());
        assert!(accesses.is_sorted_by_key(|access| access.cycle), "{}: in order", machine.name());
        assert!(accesses.iter().all(|access| access.addr.is_multiple_of(16)), "{}: lines", machine.name());
        let bytes = machine.memory().frames.map_or(u64::MAX, |frames| frames * 4096);
        assert!(accesses.iter().all(|access| access.addr < bytes), "{}: within memory", machine.name());
    }
}

proptest! {
    #![proptest_config(cases(20, 60))]

    #[test]
    fn as_many_as_the_run_counts(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..1200)) {
        compare(number, &events);
    }
}

/// 1 KiB direct-mapped level 1, 32-byte lines, physical = virtual.
const PLAIN: &str = r#"
memory = { page = "4KiB" }
placement = { policy = "identity" }
[cache.l1i]
serves = "fetch"
size = "1KiB"
line = "32B"
next = "memory"
[cache.l1d]
serves = "data"
size = "1KiB"
line = "32B"
next = "memory"
"#;

fn lines(settings: &[&str]) -> String {
    let mut rows = EventBuilder::default();
    rows.push(Op::Fetch, 0x1000, 4, 1); // reads its line
    rows.push(Op::Store, 0x2004, 4, 1); // reads its line, which is dirty then
    rows.push(Op::Load, 0x2408, 4, 1); // reads a line of the same set: the dirty one leaves
    rows.push(Op::Fetch, 0x1004, 28, 7); // its line is there
    rows.push(Op::Load, 0x281f, 2, 1); // two lines, one in the set of the first
    reached(settings, &rows.finish())
}

/// Returns the accesses that reach the memory of `PLAIN`, each with its cycle.
fn reached(settings: &[&str], events: &EventBatch) -> String {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let machine = Machine::parse(PLAIN, "plain", &settings).unwrap();
    let (accesses, _) = stream(&machine, events, &RunOptions::default());
    let line = |access: &MemoryAccess| {
        format!("{}{:x}@{}", if access.write { "w" } else { "r" }, access.addr, access.cycle)
    };
    accesses.iter().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn exactly_these_at_exactly_these_cycles() {
    assert_eq!(lines(&[]), "r1000@0 r2000@1 r2400@1 w2000@1 r2800@8 r2820@8");
    // Each read for which the program waits takes ten cycles. The victim leaves when its line has arrived.
    assert_eq!(lines(&["cost.memory=10"]), "r1000@0 r2000@11 r2400@21 w2000@31 r2800@38 r2820@48");
    let first = ["cost.memory=10", "cache.l1d.writeback-order=before-fill"];
    assert_eq!(lines(&first), "r1000@0 r2000@11 w2000@21 r2400@21 r2800@38 r2820@48");
    // Stores pass through: the word's line is written, and no line is ever dirty.
    let through = ["cache.l1d.write=through", "cache.l1d.allocate=false"];
    assert_eq!(lines(&through), "r1000@0 w2000@1 r2400@1 r2800@8 r2820@8");
}

#[test]
fn a_run_of_instructions_asks_for_all_its_lines_at_its_first_cycle() {
    let mut rows = EventBuilder::default();
    rows.push(Op::Fetch, 0x1000, 64, 16); // sixteen instructions over two lines
    rows.push(Op::Load, 0x2000, 4, 1);
    let run = rows.finish();
    assert_eq!(reached(&[], &run), "r1000@0 r1020@0 r2000@16");
    // The processor waits for the first line before it accesses the second line.
    assert_eq!(reached(&["cost.memory=10"], &run), "r1000@0 r1020@10 r2000@36");
    // With one row for each instruction, the second line is accessed when its first instruction starts.
    let mut rows = EventBuilder::default();
    (0..16).for_each(|number| rows.push(Op::Fetch, 0x1000 + 4 * number, 4, 1));
    rows.push(Op::Load, 0x2000, 4, 1);
    let apart = rows.finish();
    assert_eq!(reached(&[], &apart), "r1000@0 r1020@8 r2000@16");
    assert_eq!(reached(&["cost.memory=10"], &apart), "r1000@0 r1020@18 r2000@36");
}
