//! timesharing, compute-bound and client-server are the benchmark sets of MB90 (Tables 1 and 2).
//!
//! timesharing has a layout editor of 10 MB with a user, the Scheme program Tree of 12 MB, a make that
//! compiles, a make that links, and a shell that runs a script of short commands without end. compute-bound
//! has Tree on a larger problem (65 MB) and a timing verifier of 3.4 MB. client-server has pingpong.
//!
//! The discipline is that of the document's system: a clock that ticks every 400,000 instructions (the
//! document: 400,000 cycles), wake-up preemption, and page faults that wait for the disk.

use crate::address_space::Image;
use crate::data_rng::DataRng;
use crate::mult::compile::{AS, MAKE, Recipe, start_recipe};
use crate::mult::{self, ccom, drc, editor, link, shell, unix};
use crate::program::Command;
use crate::sched::Discipline;
use crate::tv::TvShape;
use crate::{pingpong, tree, tv};

/// The instructions between two ticks of the clock (MB90 §5.1).
const TICK: u64 = 400_000;

pub(crate) const UNIX: Discipline = Discipline::Unix { tick: TICK, page_faults: Some(mult::libc::DISK) };
/// Servers and clients are in memory from the start: "no page faults are taken" (MB90 §5.3).
pub(crate) const UNIX_WITHOUT_FAULTS: Discipline = Discipline::Unix { tick: TICK, page_faults: None };

/// MB90's TV has 3.4 MB: 0.3 MB of text and data, and a heap that holds the chip and some cases' events.
const SMALL_CHIP: TvShape = TvShape { gates: 13_500, heap: 3_100 << 10, global: 4_000 };

/// make #1 compiles the larger files of Magic's source.
const SOURCES: Recipe = Recipe::Compile { functions: (40, 120), lines: (4_000, 12_000), looped: true };
/// make #2 links the binaries of Magic.
const BINARIES: Recipe = Recipe::Link { least: 100, more: 100, disk: 12 };

/// The images of the programs of timesharing.
pub(crate) const TIMESHARING_IMAGES: &[Image] = &[
    drc::IMAGE,
    mult::SCHEME,
    MAKE,
    ccom::IMAGE,
    AS,
    link::IMAGE,
    shell::IMAGE,
    unix::CP,
    unix::CAT,
    unix::EX,
    unix::RM,
    unix::PS,
    unix::LS,
];

pub(crate) const COMPUTE_BOUND_IMAGES: &[Image] = &[tree::IMAGE, tv::IMAGE];

pub(crate) const CLIENT_SERVER_IMAGES: &[Image] = &[pingpong::SERVER, pingpong::CLIENT];

/// Returns the programs of timesharing.
pub(crate) fn timesharing(seed: u64) -> Vec<Command> {
    vec![
        mult::command(shell::IMAGE, seed, 1, shell::start_script),
        mult::command(drc::IMAGE, seed, 2, editor::start),
        mult::command(MAKE, seed, 3, |draws, cpu| start_recipe(draws, cpu, SOURCES)),
        mult::command(MAKE, seed, 4, |draws, cpu| start_recipe(draws, cpu, BINARIES)),
        mult::command(mult::SCHEME, seed, 5, mult::start_scheme),
    ]
}

/// Returns the programs of compute-bound.
pub(crate) fn compute_bound(seed: u64) -> Vec<Command> {
    let small_chip = |draws, cpu: &mut crate::cpu::Cpu| -> Box<dyn crate::program::Program> {
        Box::new(tv::Tv::new(draws, cpu, SMALL_CHIP))
    };
    vec![mult::command(tree::IMAGE, seed, 1, tree::start), mult::command(tv::IMAGE, seed, 2, small_chip)]
}

/// Returns the programs of client-server.
pub(crate) fn client_server(seed: u64) -> Vec<Command> {
    pingpong::commands(DataRng::new(seed, 1))
}
