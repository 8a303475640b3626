//! mult1, mult1.2, mult2 and mult2.2 are a machine in daily use. They represent the multiprogramming traces
//! of KH90 §4.1.1: a series of compiles, a printed-circuit router, a VLSI design-rule checker and a series of
//! simple commands, all at once (mult2, 40 MB active). mult1 adds the linker and a Scheme program (75 MB
//! active).
//!
//! `make` and the shells start compilers, assemblers and commands. The started programs read their input in
//! system calls that give up the processor, and they end. Processes that run the same program share its text.
//! The long-running programs start over on new data when their work is done.

pub(crate) mod ccom;
pub(crate) mod compile;
pub(crate) mod drc;
pub(crate) mod editor;
pub(crate) mod libc;
pub(crate) mod link;
mod router;
pub(crate) mod shell;
mod source;
pub(crate) mod unix;

use crate::address_space::Image;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Command, Program, SeededStart};
use crate::tree::{Tree, TreeShape};

/// The quanta in instructions. They make the mean interval between switches, calls included, equal to the
/// document's (138,000 for mult1, 195,000 for mult1.2, 134,000 for mult2, 214,000 for mult2.2).
pub(crate) const QUANTUM_MULT1: u64 = 180_000;
pub(crate) const QUANTUM_MULT1_2: u64 = 265_000;
pub(crate) const QUANTUM_MULT2: u64 = 150_000;
pub(crate) const QUANTUM_MULT2_2: u64 = 285_000;

/// The Scheme program of mult1 and timesharing is tree on a smaller problem (MB90 Table 1: 12 MB).
pub(crate) const SCHEME: Image =
    Image { name: "scheme", segment: 21, text: 128 << 10, data: 64 << 10, initialised: 16 << 10 };
const SMALL_TREES: TreeShape = TreeShape { half: 6 << 20, nodes: 4_000, forest: 8, walks: 14, older: 4 };

/// The images of every program of the mixes.
pub(crate) const IMAGES: &[Image] = &[
    shell::IMAGE,
    compile::MAKE,
    ccom::IMAGE,
    compile::AS,
    router::IMAGE,
    drc::IMAGE,
    link::IMAGE,
    SCHEME,
    unix::LS,
    unix::GREP,
    unix::SORT,
    unix::WC,
];

pub(crate) fn start_scheme(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Tree::new(draws, cpu, SMALL_TREES))
}

/// Returns a command whose program draws its data from generator `number` of the seed.
pub(crate) fn command(image: Image, seed: u64, number: u64, start: SeededStart) -> Command {
    let draws = DataRng::new(seed, number);
    Command { image, start: Box::new(move |cpu| start(draws, cpu)) }
}

/// Returns the programs of mult2 and mult2.2.
pub(crate) fn without_linker_and_scheme(seed: u64) -> Vec<Command> {
    vec![
        command(shell::IMAGE, seed, 1, shell::start),
        command(shell::IMAGE, seed, 2, shell::start),
        command(compile::MAKE, seed, 3, compile::start_make),
        command(router::IMAGE, seed, 4, router::start),
        command(drc::IMAGE, seed, 5, drc::start),
    ]
}

/// Returns the programs of mult1 and mult1.2.
pub(crate) fn with_linker_and_scheme(seed: u64) -> Vec<Command> {
    let mut commands = without_linker_and_scheme(seed);
    commands.push(command(link::IMAGE, seed, 6, link::start));
    commands.push(command(SCHEME, seed, 7, start_scheme));
    commands
}
