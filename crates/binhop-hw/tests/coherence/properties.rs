//! The properties hold in every state, and the counts of states are exact.

use binhop_hw::{ESI, IO_ESI, IO_MOESI, MOESI, TransitionTable, check_table};

use crate::{
    explore::{DEADLOCK, LIVELOCK, explore},
    machine::{Flaw, Machine},
};

/// `Pair` names the tables of the processor caches and of the DMA cache.
pub type Pair = (&'static str, TransitionTable, TransitionTable);

/// Each pair of tables, of the processor caches and of the DMA cache.
pub const PAIRS: [Pair; 4] = [
    ("MOESI + IO-MOESI", MOESI, IO_MOESI),
    ("MOESI + IO-ESI", MOESI, IO_ESI),
    ("ESI + IO-MOESI", ESI, IO_MOESI),
    ("ESI + IO-ESI", ESI, IO_ESI),
];
/// The largest number of requests and lines in buffers that can be under way: each cache has one request and one
/// line.
pub const ALL: usize = 6;
/// The number of states of one line under each pair, and the number of steps to the farthest state.
pub const ONE_LINE: [(usize, usize); 4] = [(8288, 38), (7298, 38), (6392, 37), (5402, 37)];
/// The same numbers for two lines, with one request or line in a buffer under way.
pub const TWO_LINES_ONE: [(usize, usize); 4] = [(29_260, 57), (19_160, 57), (12_552, 57), (6099, 57)];
/// The same numbers for two lines, with all that can be under way.
pub const TWO_LINES: [(usize, usize); 4] =
    [(6_799_147, 69), (4_988_522, 69), (3_994_147, 68), (2_659_196, 68)];
/// The same numbers for two lines, with two requests or lines in buffers under way.
pub const TWO_LINES_TWO: [(usize, usize); 4] = [(552_129, 65), (397_424, 65), (281_205, 65), (169_710, 65)];

/// Makes a machine. A table with a hole is refused.
pub fn machine((_, processors, dma): Pair, lines: usize, under_way: usize) -> Machine {
    Machine { processors, dma, lines, under_way, flaw: Flaw::None }
}

/// Enumerates the states under some pairs, and compares their counts.
fn have_the_properties(pairs: &[Pair], lines: usize, under_way: usize, expected: &[(usize, usize)]) {
    let mut counts = Vec::new();
    for &pair in pairs {
        check_table("of the processors", &pair.1).unwrap();
        check_table("of the DMA cache", &pair.2).unwrap();
        let found = explore(&machine(pair, lines, under_way));
        let found = found.unwrap_or_else(|example| panic!("{}:\n{example}", pair.0));
        println!("{}: lines {lines}, under way {under_way}: {found:?}", pair.0);
        counts.push((found.states, found.depth));
    }
    assert_eq!(counts, expected);
}

#[test]
fn all_states_of_a_line_have_the_properties() {
    have_the_properties(&PAIRS, 1, ALL, &ONE_LINE);
}

#[test]
fn all_states_of_two_lines_with_one_thing_under_way_have_the_properties() {
    have_the_properties(&PAIRS, 2, 1, &TWO_LINES_ONE);
}

#[test]
fn all_states_of_two_lines_with_two_things_under_way_have_the_properties() {
    have_the_properties(&PAIRS[..1], 2, 2, &TWO_LINES_TWO[..1]);
}

#[test]
#[ignore = "takes minutes and gigabytes: make test-long"]
fn all_states_of_two_lines_have_the_properties() {
    have_the_properties(&PAIRS[1..], 2, 2, &TWO_LINES_TWO[1..]);
    have_the_properties(&PAIRS, 2, ALL, &TWO_LINES);
}

#[test]
fn a_cache_that_answers_late_makes_a_deadlock_which_prints_as_its_steps() {
    let flawed = Machine { flaw: Flaw::AskingCachesDoNotAnswer, ..machine(PAIRS[0], 1, ALL) };
    let example = explore(&flawed).unwrap_err();
    assert_eq!(example.fault, DEADLOCK);
    assert_eq!(
        example.to_string(),
        "1. P0 asks to read line A\n\
         2. P1 asks to read line A\n\
         3. the home of line A serves P0, and probes the other caches\n\
         4. D asks to read line A\n\
         Fault: deadlock: work is under way, and no step completes any of it"
    );
}

#[test]
fn a_home_that_never_asks_memory_makes_a_livelock() {
    let flawed = Machine { flaw: Flaw::HomeProbesAgain, ..machine(PAIRS[0], 1, ALL) };
    let example = explore(&flawed).unwrap_err();
    assert_eq!(
        example.to_string(),
        "1. P0 asks to read line A\nFault: completing what is under way never ends"
    );
    assert_eq!(example.fault, LIVELOCK);
}
