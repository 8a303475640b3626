//! These tests check that a placement that was dumped and is replayed gives the same counts, whatever was evicted in
//! between.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::common::{Event, SMALL, batch, cases, event, machine, reference, run};
use arrow_array::RecordBatch;
use binhop_sim::{Machine, Outcome, RunOptions};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

fn write(table: &RecordBatch, path: &Path) {
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), table.schema(), None).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn replaying(machine: &Machine, path: &Path) -> Result<Machine, Box<binhop_base::Problem>> {
    let settings = ["placement.policy=recorded".to_string(), format!("placement.file={}", path.display())];
    Machine::parse(&machine.resolved(), "replay", &settings)
}

fn compare(number: usize, events: &[Event], name: &str) {
    let machine = machine(number);
    let events = batch(events);
    let dumped = |seed: u64| -> Outcome {
        run(
            &machine,
            &events,
            500,
            &RunOptions { log: true, seeds: vec![seed], interval: Some(100), ..RunOptions::default() },
        )
    };
    let outcome = dumped(5);
    let log = outcome.placements.clone().unwrap();
    if machine.memory().frames.is_none() || log.num_rows() == 0 {
        return;
    }
    let path = file(&format!("{name}-{number}.parquet"));
    write(&log, &path);
    let replay = replaying(&machine, &path).unwrap();
    // Only the draws of the caches depend on the seed now.
    let options = RunOptions { log: true, seeds: vec![5], interval: Some(100), ..RunOptions::default() };
    let again = run(&replay, &events, 500, &options);
    assert_eq!(again.results, outcome.results, "{}", machine.name());
    assert_eq!(again.series.whole().unwrap(), outcome.series.whole().unwrap());
    assert_eq!(again.processes.whole().unwrap(), outcome.processes.whole().unwrap());
    assert_eq!(again.placements, outcome.placements);
}

proptest! {
    #![proptest_config(cases(12, 40))]

    #[test]
    fn every_machine_every_event(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..800)) {
        compare(number, &events, "events");
    }

    #[test]
    fn pages_that_leave_and_return(number in 0..SMALL.len(), events in prop::collection::vec(reference(), 1..1500)) {
        compare(number, &events, "references");
    }
}

#[test]
fn a_recording_that_does_not_fit_is_refused() {
    let touches = |pages: u8| -> Vec<Event> {
        let op = binhop_trace::Op::Load;
        (0..pages).map(|page| Event::Data { op, page, offset: 0, size: 8 }).collect()
    };
    let machine = machine(0);
    let outcome = run(&machine, &batch(&touches(5)), 500, &RunOptions { log: true, ..RunOptions::default() });
    let path = file("refused.parquet");
    write(&outcome.placements.unwrap(), &path);
    let problem = replaying(&machine, Path::new("/no/such.parquet")).unwrap_err();
    assert!(problem.place.contains("placement.file") && problem.value == "/no/such.parquet", "{problem}");
    let replay = replaying(&machine, &path).unwrap();
    let source = Box::new(crate::common::Fixed::new(batch(&touches(6)), 500));
    let problem =
        binhop_sim::simulate(&replay, source, &RunOptions::default(), None, &mut |_| Ok(())).unwrap_err();
    assert!(
        problem.place.contains("placement policy recorded, fault 5: virtual page 5 of asid 0"),
        "{problem}"
    );
    let small = Machine::parse(&replay.resolved(), "small", &["memory.size=16KiB".to_string()]).unwrap_err();
    assert!(small.rule.contains("which has 4 of them"), "{small}");
    let missing = Machine::parse(&machine.resolved(), "missing", &["placement.policy=recorded".to_string()]);
    assert!(missing.unwrap_err().place.contains("placement.file"));
    std::fs::write(&path, b"PAR1 not at all").unwrap();
    assert!(replaying(&machine, &path).unwrap_err().rule.contains("cannot be decoded"));
}
