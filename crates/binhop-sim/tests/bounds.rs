//! These tests check that the cost of one row of a trace is bounded: references have a largest size, and errors name
//! the row.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::Fixed;
use binhop_base::{Bytes, Problem};
use binhop_sim::paging::{PagingOptions, paging};
use binhop_sim::{Machine, RunOptions, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};

const MACHINE: &str = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "random" }
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "memory"
"#;

/// Returns ten loads, then this row, then a load.
fn events(op: Op, addr: u64, size: u32, count: u32) -> EventBatch {
    let mut builder = EventBuilder::default();
    (0..10).for_each(|row| builder.push(Op::Load, row * 64, 8, 1));
    builder.push(op, addr, size, count);
    builder.push(Op::Load, 0, 8, 1);
    builder.finish()
}

/// Returns the outcomes of a simulation and of the paging pass, in batches of `step` rows.
fn outcomes(events: &EventBatch, step: usize, length: Option<u64>) -> [Result<(), Box<Problem>>; 2] {
    let machine = Machine::parse(MACHINE, "small", &[]).unwrap();
    let source = || Box::new(Fixed::new(events.clone(), step));
    let options = RunOptions { length, ..RunOptions::default() };
    let simulated = simulate(&machine, source(), &options, None, &mut |_| Ok(()));
    let options = PagingOptions {
        page: Bytes(4096),
        sizes: vec![Bytes(1 << 20)],
        colors: vec![1],
        length,
        pid_hash: false,
        ahead: false,
    };
    let paged = paging(source(), &options, &mut |_| Ok(()));
    [simulated.map(drop), paged.map(drop)]
}

#[test]
fn a_reference_beyond_the_bound_is_refused_with_its_row_whatever_the_batches() {
    for step in [1, 4, 11, 100] {
        for (op, size, count, value, rule) in [
            (Op::Load, u32::MAX, 1, "load with size 4294967295", "a load has at most 65536 bytes"),
            (Op::Modify, 65_537, 1, "modify with size 65537", "a modify has at most 65536 bytes"),
            (Op::Fetch, 1 << 20, 1 << 18, "fetch with size 1048576", "a fetch has at most 65536 bytes"),
            (Op::Fetch, 4, u32::MAX, "fetch with count 4294967295", "a fetch has at most 65536 instructions"),
        ] {
            for outcome in outcomes(&events(op, 0, size, count), step, None) {
                let problem = outcome.unwrap_err();
                let said = (&*problem.value, &*problem.place, &*problem.rule);
                assert_eq!(said, (value, "test trace: row 10", rule), "batches of {step}");
            }
        }
    }
}

#[test]
fn the_largest_reference_and_what_lies_behind_the_length_are_no_error() {
    for step in [1, 100] {
        for (op, count) in [(Op::Store, 1), (Op::Fetch, 65_536)] {
            assert!(outcomes(&events(op, 0, 65_536, count), step, None).iter().all(Result::is_ok));
        }
        assert!(outcomes(&events(Op::Load, 0, u32::MAX, 1), step, Some(10)).iter().all(Result::is_ok));
    }
}

#[test]
fn errors_of_system_events_name_the_row_of_the_trace() {
    for step in [1, 4, 100] {
        for (op, addr, value) in [
            (Op::Map, u64::MAX - 4095, "map in asid 0 at address 0xfffffffffffff000: 2 pages of 4096 B"),
            (Op::Switch, 1 << 32, "4294967296"),
            (Op::DmaRead, 0, "dma-read"),
        ] {
            for outcome in outcomes(&events(op, addr, 0, 2), step, None) {
                let problem = outcome.unwrap_err();
                assert_eq!(problem.value, value);
                assert_eq!(problem.place.split(": asid").next(), Some("test trace: row 10"), "{problem}");
            }
        }
    }
}

#[test]
fn system_events_may_cover_whatever_they_like() {
    // 2³² − 1 pages are mapped, protected and unmapped, and a call moves 4 GiB. This costs as much work as
    // one page of each.
    for op in [Op::Map, Op::Protect, Op::Unmap, Op::Syscall, Op::Range] {
        assert!(outcomes(&events(op, 0, u32::MAX, u32::MAX), 100, None).iter().all(Result::is_ok));
    }
}
