//! These tests check what the kernel references at switches, faults and system calls, in exact integers.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Event, SMALL, batch, event, flushes, flushing, machine, run};
use crate::switches::may_hold_a_line_twice;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use binhop_hw::{FastPath, FastPathSet, Rules};
use binhop_sim::{Machine, Outcome, RunOptions, SwitchOptions, explain};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

/// Returns a small machine with settings for its kernel.
fn with(number: usize, settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::parse(&machine(number).resolved(), SMALL[number].0, &settings).unwrap()
}

fn value(outcome: &Outcome, metric: &str) -> Option<u64> {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap();
    let row = column("metric").as_string::<i32>().iter().position(|name| name == Some(metric))?;
    Some(column("value").as_primitive::<Float64Type>().value(row) as u64)
}

/// Returns three switches, a system call, and loads of two pages.
fn events() -> EventBatch {
    let mut events = EventBuilder::default();
    for asid in [1, 2, 1] {
        events.push_args(Op::Switch, asid, 1, 0, [Some(2), None]);
        events.push(Op::Fetch, 0x4000, 40, 10);
        events.push(Op::Load, 0x9008, 8, 1);
    }
    events.push(Op::Syscall, 0, 0, 4);
    events.finish()
}

/// Level 1 of this machine has lines of 64 bytes, and pages of 4 KiB.
const COSTS: usize = 2;

#[test]
fn each_line_of_a_footprint_is_accessed_once_at_each_occasion() {
    let machine = with(
        COSTS,
        &[
            // Bytes 100 to 300 lie in the lines 1 to 4; the data from 4,000 on crosses into the second page.
            "kernel.switch.code=200B",
            "kernel.switch.code-at=100B",
            "kernel.switch.data=256B",
            "kernel.switch.data-at=4000B",
            "kernel.switch.stored=64B",
            "kernel.syscall.code=64B",
            "kernel.fault.data=65B",
        ],
    );
    let plain = run(&machine, &events(), 100, &RunOptions::default());
    assert_eq!(value(&plain, "l1i.kernel.fetch.accesses"), None, "the kernel acts where a run asks for it");
    let kernel = run(&machine, &events(), 100, &RunOptions { kernel: true, ..RunOptions::default() });
    let of = |metric: &str| value(&kernel, metric).unwrap();
    assert_eq!(of("l1i.kernel.fetch.accesses"), 3 * 4 + 1);
    // Bytes 4,000 to 4,256 lie in the lines 62 to 66; four pages are touched for the first time.
    assert_eq!(of("l1d.kernel.load.accesses"), 3 * 5 + 4 * 2);
    assert_eq!(of("l1d.kernel.store.accesses"), 3 * 2);
    assert_eq!(of("instructions"), value(&plain, "instructions").unwrap());
    assert!(of("cycles") > value(&plain, "cycles").unwrap());
    // The kernel is a second agent, which the chain of a back serves, too.
    let without = FastPathSet::NONE.with(FastPath::Chain);
    let one_by_one =
        run(&machine, &events(), 100, &RunOptions { kernel: true, without, ..RunOptions::default() });
    assert_eq!(kernel.results, one_by_one.results);
}

#[test]
fn a_flush_removes_all_lines_of_the_caches_that_are_named() {
    let options = RunOptions { kernel: true, ..RunOptions::default() };
    // The system call is the last event, so every line that a cache was filled with is gone.
    for (setting, flushed) in [("l1d, l1i", ["l1i", "l1d"]), ("all", ["l1d", "l2"])] {
        let kernel =
            run(&with(COSTS, &[&format!("kernel.syscall.flush={setting}")]), &events(), 100, &options);
        let of = |metric: String| value(&kernel, &metric).unwrap();
        for cache in flushed {
            let left = of(format!("{cache}.evictions")) + of(format!("{cache}.purged"));
            assert_eq!(left, of(format!("{cache}.fills")), "{setting}: {cache}");
            assert!(of(format!("{cache}.purged")) > 0);
        }
        assert_eq!(of("l2.purged".into()) > 0, setting == "all");
    }
    // A process that switches to itself fetches a line anew after each flush, and loads its data once.
    let mut alone = EventBuilder::default();
    for _ in 0..3 {
        alone.push_args(Op::Switch, 1, 1, 0, [Some(2), None]);
        alone.push(Op::Fetch, 0x4000, 40, 10);
        alone.push(Op::Load, 0x9008, 8, 1);
    }
    let kernel = run(&with(COSTS, &["kernel.switch.flush=l1i"]), &alone.finish(), 100, &options);
    assert_eq!(["l1i.fetch.misses", "l1d.load.misses"].map(|name| value(&kernel, name)), [Some(3), Some(1)]);
}

#[test]
fn machines_of_one_run_have_one_kernel() {
    let machines = [with(COSTS, &["kernel.switch.code=64B"]), with(COSTS, &["kernel.switch.code=65B"])];
    let options = RunOptions { kernel: true, ..RunOptions::default() };
    let names: Vec<String> = machines.iter().map(|machine| machine.name().to_string()).collect();
    let problem = explain(&machines, &names, &options, None).unwrap_err();
    assert!(problem.to_string().contains("one by one"), "{problem}");
    assert!(explain(&machines, &names, &RunOptions::default(), None).is_ok());
}

#[test]
fn a_wrong_footprint_is_refused() {
    for (setting, word) in [
        ("kernel.swich.code=1KiB", "switch"),
        ("kernel.switch.code=1GiB", "smaller"),
        ("kernel.switch.size=3", "code"),
        ("kernel.switch.flush=l1q", "did you mean l1i?"),
        ("kernel.fault.flush=l1i,", "l1i, l1d, l2; \"all\" means all of them"),
        ("kernel.syscall.flush=true", "takes text"),
    ] {
        let problem =
            Machine::parse(&machine(COSTS).resolved(), "small", &[setting.to_string()]).unwrap_err();
        assert!(problem.to_string().contains(word), "{setting}: {problem}");
    }
}

fn compare(machine: &Machine, events: &[Event]) {
    let events = batch(events);
    let options = RunOptions { seeds: vec![0, 1], kernel: true, ..RunOptions::default() };
    let plain = run(machine, &events, 500, &options);
    let observed = RunOptions { switches: Some(SwitchOptions { raw: true }), ..options.clone() };
    let switches = run(machine, &events, 500, &observed);
    assert_eq!(plain.results, switches.results, "observing switches changes no count");
    let unshared = run(machine, &events, 7, &RunOptions { share: false, ..observed });
    assert_eq!(unshared.results, switches.results);
    let (one, other) = (switches.switches.unwrap(), unshared.switches.unwrap());
    assert_eq!((&one.costs, &one.curves, &one.pages), (&other.costs, &other.curves, &other.pages));
    // A process that runs alone has the caches for itself.
    let costs = one.costs;
    let column = |name: &str| costs.column_by_name(name).unwrap().as_primitive::<UInt64Type>().clone();
    if costs.num_rows() == 2 {
        assert_eq!(column("cycles.shared"), column("cycles.private"));
        assert_eq!(column("kernel.cycles.shared"), column("kernel.cycles.private"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_acts_on_shared_and_private_caches_alike(
        number in 0..SMALL.len(),
        flushes in flushes(),
        events in prop::collection::vec(event(), 1..300),
    ) {
        let settings = [
            "kernel.switch.code=1KiB", "kernel.switch.data=512B", "kernel.switch.data-at=3KiB",
            "kernel.syscall.code=300B", "kernel.syscall.code-at=2KiB", "kernel.syscall.stored=40B",
            "kernel.fault.data=128B", "kernel.fault.code=32B",
        ];
        if machine(number).tree().config().rules != Rules::Cachegrind && !may_hold_a_line_twice(number) {
            compare(&flushing(&with(number, &settings), flushes), &events);
        }
    }
}
