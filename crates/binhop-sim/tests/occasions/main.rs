//! These tests check injected accesses, and what preparation forgets because of them.
//!
//! A synthetic unit draws accesses, invalidations and waits at every kind of occasion. Its draws differ from
//! lane to lane. Random machines run random streams with this unit. Whether a run shares fronts and skips rows
//! or not, it must tell the unit the same as the oracle, and count the same. The oracle takes one reference
//! after another and has neither filters nor blocks.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod compare;
mod drawn;
mod synthetic;

use crate::common::{Event, Fixed, SMALL, batch, cases, reference};
use binhop_hw::Rules;
use binhop_sim::occasion::Subscription;
use binhop_sim::{Machine, RunOptions, simulate_all};
use compare::{Logs, assert_same_logs, compare, run_with};
use drawn::{any_event, behind, far, machine, near, occasion, sharing, subscription};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

fn rejecting(cases: ProptestConfig) -> ProptestConfig {
    ProptestConfig { max_global_rejects: 100_000, ..cases }
}

proptest! {
    #![proptest_config(rejecting(cases(80, 350)))]

    #[test]
    fn every_event_on_every_machine(machine in machine(), subscription in subscription(), step in 1usize..60, events in prop::collection::vec(any_event(), 1..100)) {
        compare(&machine, &subscription, &events, step);
    }

    #[test]
    fn runs_of_references(machine in machine(), subscription in subscription(), step in 1usize..60, events in prop::collection::vec(prop_oneof![reference(), near()], 1..140)) {
        compare(&machine, &subscription, &events, step);
    }

    #[test]
    fn occasions_between_hits(machine in machine(), subscription in subscription(), step in 1usize..60, events in prop::collection::vec(occasion(), 1..120)) {
        compare(&machine, &subscription, &events, step);
    }
}

proptest! {
    #![proptest_config(rejecting(cases(40, 150)))]

    #[test]
    fn units_behind_a_shared_front(machine in sharing(), subscription in behind(), step in 1usize..60, events in prop::collection::vec(prop_oneof![reference(), far(), Just(Event::Thread)], 1..140)) {
        compare(&machine, &subscription, &events, step);
    }

    #[test]
    fn machines_together_or_alone(number in 0..SMALL.len(), subscription in subscription(), events in prop::collection::vec(any_event(), 1..100)) {
        together_or_alone(number, &subscription, &events);
    }
}

/// The long form of the properties above runs more cases.
#[test]
#[ignore = "takes minutes: 60,000 cases"]
fn a_great_many_cases() {
    let run = |cases, strategy: BoxedStrategy<(Machine, Subscription, Vec<Event>)>| {
        let config = rejecting(ProptestConfig::with_cases(cases));
        let mut runner = TestRunner::new(config);
        let tested = runner.run(&(strategy, 1usize..60), |((machine, subscription, events), step)| {
            compare(&machine, &subscription, &events, step);
            Ok(())
        });
        tested.unwrap_or_else(|problem| panic!("{problem}"));
    };
    let events = prop_oneof![
        prop::collection::vec(any_event(), 1..200),
        prop::collection::vec(prop_oneof![reference(), near()], 1..300),
        prop::collection::vec(occasion(), 1..300),
    ];
    run(50_000, (machine(), subscription(), events).boxed());
    let events = prop::collection::vec(prop_oneof![reference(), far(), Just(Event::Thread)], 1..300);
    run(10_000, (sharing(), behind(), events).boxed());
}

/// Returns machines of one placement that differ behind level 1, and an unrelated machine.
fn together_or_alone(number: usize, subscription: &Subscription, events: &[Event]) {
    let base = crate::common::machine(number);
    let whole = |machine: &Machine| machine.tree().config().rules == Rules::Cachegrind;
    let changed = ["cache.l2.ways=4", "cache.l2.ways=8", "cache.l2.line=128B", "cache.l2.replacement=random"];
    let change = |change: &&str| {
        let settings = [(*change).to_string(), format!("name={change:?}")];
        Machine::parse(&base.resolved(), change, &settings).ok()
    };
    let mut machines: Vec<Machine> = changed.iter().filter_map(change).collect();
    machines.extend([base.clone(), crate::common::machine((number + 1) % SMALL.len())]);
    machines.retain(|machine| !whole(machine));
    let events = batch(events);
    let logs = Logs::default();
    let options = RunOptions { seeds: vec![3, 4], units: logs.units(subscription), ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 1000));
    let outcomes = simulate_all(&machines, source, &options, None, &mut |_| Ok(())).unwrap();
    for (machine, outcome) in machines.iter().zip(&outcomes) {
        let (alone, single) =
            run_with(machine, &events, 1000, subscription, &RunOptions { units: None, ..options.clone() });
        for seed in [3, 4] {
            let what = format!("{}, seed {seed}, alone or with others", machine.name());
            assert_same_logs(&alone.of(machine, seed), &logs.of(machine, seed), &what);
        }
        assert!(single.results == outcome.results && single.notes == outcome.notes, "{}", machine.name());
    }
}
