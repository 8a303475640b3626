//! Each entry of each table is changed once to every other value that its event may have. A mutant is caught, or it is
//! in the list of safe mutants with its reason.

use std::collections::BTreeMap;

use binhop_hw::{
    IO_MOESI, LineAction, LineEvent, LineState, PROTOCOLS, Transition, TransitionTable, check_table,
    reached_states, transition,
};

use crate::{
    explore::{CounterExample, explore},
    properties::{ALL, PAIRS, machine},
    safe::{SAFE, Safe},
};

const REFUSED: &str = "the table is refused when it is loaded";

/// `Mutant` is a table with one changed entry.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    pub protocol: &'static str,
    pub state: LineState,
    pub event: LineEvent,
    pub to: Transition,
    pub table: TransitionTable,
}

impl Mutant {
    fn name(&self) -> String {
        let Self { protocol, state, event, to: Transition { next, action }, .. } = self;
        format!("{protocol} {state:?} {event:?} -> {next:?} {action:?}")
    }

    /// Checks the mutant in every pair of tables that has its table. Returns the first fault.
    fn check(&self) -> Option<String> {
        if check_table(self.protocol, &self.table).is_err() {
            return Some(REFUSED.to_owned());
        }
        PAIRS.into_iter().find_map(|(name, processors, dma)| {
            let (of_processors, of_dma) = name.split_once(" + ").unwrap();
            let pair = if of_processors == self.protocol {
                (name, self.table, dma)
            } else if of_dma == self.protocol {
                (name, processors, self.table)
            } else {
                return None;
            };
            explore(&machine(pair, 1, ALL)).err().map(|example| example.fault.to_owned())
        })
    }
}

/// Returns every mutant of every table. An entry that no event reaches has mutants, too.
fn mutants() -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for &(protocol, table) in PROTOCOLS {
        let states = reached_states(table);
        for &state in &states {
            for &event in LineEvent::ALL {
                let old = transition(table, state, event);
                for &next in &states {
                    for &action in event.actions().iter().chain(&[LineAction::Never]) {
                        let to = Transition { next, action };
                        let no_change =
                            to == old || action == LineAction::Never && next != LineState::Invalid;
                        if !no_change {
                            let mut table = *table;
                            table[state as usize][event as usize] = to;
                            mutants.push(Mutant { protocol, state, event, to, table });
                        }
                    }
                }
            }
        }
    }
    mutants
}

/// Returns the names of the mutants in the list of safe mutants, each with its reasons.
fn listed() -> BTreeMap<String, String> {
    let mut listed = BTreeMap::new();
    for Safe { tables, reasons, changes } in SAFE {
        for (table, change) in
            tables.iter().flat_map(|table| changes.iter().map(move |change| (table, change)))
        {
            let twice = listed.insert(format!("{table} {change}"), reasons.join("; "));
            assert!(twice.is_none(), "{table} {change} is listed twice");
        }
    }
    listed
}

/// Checks every `step`-th mutant, and that the list of safe mutants holds mutants alone. Returns the number of mutants
/// that are caught by each property.
fn caught(step: usize) -> BTreeMap<String, usize> {
    let mut listed = listed();
    let mut faults: BTreeMap<String, usize> = BTreeMap::new();
    for (number, mutant) in mutants().iter().enumerate() {
        let name = mutant.name();
        let reasons = listed.remove(&name);
        if !number.is_multiple_of(step) {
            continue;
        }
        match (mutant.check(), reasons) {
            (Some(fault), None) => *faults.entry(fault).or_default() += 1,
            (Some(fault), Some(reasons)) => {
                panic!("{name} is listed as safe ({reasons}), and has a fault: {fault}")
            }
            (None, None) => panic!("{name} breaks no property, and is not listed as safe"),
            (None, Some(_)) => {}
        }
    }
    assert!(listed.is_empty(), "listed as safe, and no mutants: {:?}", listed.keys());
    faults
}

#[test]
fn some_mutants_are_caught_or_listed_as_safe() {
    let faults = caught(11);
    assert!(faults.len() > CAUGHT.len() / 2, "few properties catch a mutant: {faults:?}");
    assert!(faults.keys().all(|fault| CAUGHT.iter().any(|(known, _)| known == fault)), "{faults:?}");
}

#[test]
#[ignore = "takes long: all mutants"]
fn each_mutant_is_caught_or_listed_as_safe() {
    let faults = caught(1);
    let faults: Vec<_> = faults.iter().map(|(fault, &count)| (fault.as_str(), count)).collect();
    assert_eq!(faults, CAUGHT);
}

/// The mutants that are caught, by the property that they break first.
pub const CAUGHT: &[(&str, usize)] = &[
    ("a partial write joins stale data", 27),
    ("a read returns stale data", 124),
    ("another cache holds a copy beside one that is Modified or Exclusive", 143),
    ("no cache owns the line, and memory is stale", 88),
    ("the line is cleaned, and memory does not become equal to it", 20),
    ("the line must leave, and stays", 104),
    ("the newest data of the line are lost", 71),
    ("the table is refused when it is loaded", 116),
    ("two caches own the line", 53),
];

/// Returns the counter-example of a mutant that loses the data of an owner.
pub fn example() -> (String, CounterExample) {
    let lost = |mutant: &Mutant| mutant.name() == "MOESI Modified ProbeRead -> Shared Supply";
    let mutant = mutants().into_iter().find(lost).unwrap();
    let example = explore(&machine(("mutant", mutant.table, IO_MOESI), 1, ALL)).unwrap_err();
    (mutant.name(), example)
}

/// Returns the number of mutants, and how many of them are listed as safe.
pub fn counts() -> (usize, usize) {
    (mutants().len(), listed().len())
}
