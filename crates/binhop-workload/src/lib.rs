//! This crate holds the built-in workloads: real algorithms that run on instrumented memory.
//!
//! Each program is written in Rust, does its work, and emits the references that its execution makes on a
//! 32-bit RISC machine (4-byte instructions, like the Titan of the documents): code laid out in functions and
//! basic blocks, stack, heap, static data. A workload takes any seed and needs no files. The same name and
//! seed give the same stream to the bit. A stream never ends: each program's file says what the program does
//! when its work is done.
//!
//! The workloads represent traces that no longer exist (KH90 §4.1, LF91 Table 1). [`calibration`] measures
//! how close they come, and `docs/workloads.md` records the figures.

mod address_space;
pub mod calibration;
mod cpu;
mod data_rng;
mod heap;
mod lin;
mod mb90;
mod mult;
mod paging;
mod pingpong;
mod program;
mod rows;
mod sched;
mod sor;
mod stream;
mod tb10;
mod tree;
mod tv;

use binhop_base::{Problem, Result};
use binhop_trace::source::{ProcessMeta, SegmentMeta};
use binhop_trace::{EventBatch, Meta, Source};

use crate::address_space::{AddressSpace, Image};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Command, Program, SeededStart};
use crate::sched::{Born, Discipline, ProcessMix};
use crate::stream::{BATCH_ROWS, Columns};
use crate::tb10::{FileInfo, file_copy, specweb, tpch};

/// `WorkloadInfo` describes a workload to a user.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// What the workload computes.
    pub what: &'static str,
    /// The trace of the documents that the workload represents.
    pub stands_for: &'static str,
    /// Whether the workload consists of many processes, with switches.
    pub multiprogrammed: bool,
    composition: Composition,
}

impl WorkloadInfo {
    /// Returns whether the system calls have the numbers of Linux. This is so for programs whose calls name files.
    fn is_of_linux(&self) -> bool {
        matches!(self.composition, Composition::Single(_, _, files) if !files.is_empty())
    }
}

#[derive(Clone, Copy, Debug)]
enum Composition {
    /// One program: its image, the function that starts it, and the files that its system calls name.
    Single(Image, SeededStart, &'static [FileInfo]),
    /// A mix: the function that gives its commands, all their images, and when a process leaves the
    /// processor.
    Mix(fn(u64) -> Vec<Command>, &'static [Image], Discipline),
}

/// Every workload: the workloads of KH90 in the order of its Table 2, the workloads of MB90 in the order of its Table
/// 2, and the workloads of TB10.
pub const WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo {
        name: "mult1",
        what: "mult2 with a linker and a Scheme program",
        stands_for: "Mult1 (KH90), mult (LF91)",
        multiprogrammed: true,
        composition: Composition::Mix(
            mult::with_linker_and_scheme,
            mult::IMAGES,
            Discipline::Turns(mult::QUANTUM_MULT1),
        ),
    },
    WorkloadInfo {
        name: "mult1.2",
        what: "mult1 with longer quanta",
        stands_for: "Mult1.2 (KH90)",
        multiprogrammed: true,
        composition: Composition::Mix(
            mult::with_linker_and_scheme,
            mult::IMAGES,
            Discipline::Turns(mult::QUANTUM_MULT1_2),
        ),
    },
    WorkloadInfo {
        name: "mult2",
        what: "compiles, a maze router, a design-rule checker and shell commands at once; short quanta",
        stands_for: "Mult2 (KH90)",
        multiprogrammed: true,
        composition: Composition::Mix(
            mult::without_linker_and_scheme,
            mult::IMAGES,
            Discipline::Turns(mult::QUANTUM_MULT2),
        ),
    },
    WorkloadInfo {
        name: "mult2.2",
        what: "mult2 with longer quanta",
        stands_for: "Mult2.2 (KH90)",
        multiprogrammed: true,
        composition: Composition::Mix(
            mult::without_linker_and_scheme,
            mult::IMAGES,
            Discipline::Turns(mult::QUANTUM_MULT2_2),
        ),
    },
    WorkloadInfo {
        name: "tv",
        what: "a timing verifier: longest paths over a large netlist, case by case",
        stands_for: "Tv (KH90, LF91)",
        multiprogrammed: false,
        composition: Composition::Single(tv::IMAGE, tv::start, &[]),
    },
    WorkloadInfo {
        name: "sor",
        what: "nonlinear successive over-relaxation on a very large sparse system",
        stands_for: "Sor (KH90, LF91)",
        multiprogrammed: false,
        composition: Composition::Single(sor::IMAGE, sor::start, &[]),
    },
    WorkloadInfo {
        name: "tree",
        what: "building large trees and searching them, in a Lisp heap with a copying collector",
        stands_for: "Tree (KH90, LF91)",
        multiprogrammed: false,
        composition: Composition::Single(tree::IMAGE, tree::start, &[]),
    },
    WorkloadInfo {
        name: "lin",
        what: "sparse LU, once a time step, of the supply net of a register file",
        stands_for: "Lin (KH90, LF91)",
        multiprogrammed: false,
        composition: Composition::Single(lin::IMAGE, lin::start, &[]),
    },
    WorkloadInfo {
        name: "timesharing",
        what: "a layout editor with a user, a Scheme program, compiles, links and a script of short commands",
        stands_for: "Timesharing (MB90)",
        multiprogrammed: true,
        composition: Composition::Mix(mb90::timesharing, mb90::TIMESHARING_IMAGES, mb90::UNIX),
    },
    WorkloadInfo {
        name: "compute-bound",
        what: "tree beside a timing verifier on a small chip",
        stands_for: "Compute-bound (MB90)",
        multiprogrammed: true,
        composition: Composition::Mix(mb90::compute_bound, mb90::COMPUTE_BOUND_IMAGES, mb90::UNIX),
    },
    WorkloadInfo {
        name: "client-server",
        what: "a file server and its client, which exchange messages",
        stands_for: "Client-Server (MB90)",
        multiprogrammed: true,
        composition: Composition::Mix(
            mb90::client_server,
            mb90::CLIENT_SERVER_IMAGES,
            mb90::UNIX_WITHOUT_FAULTS,
        ),
    },
    WorkloadInfo {
        name: "file-copy",
        what: "copying files of 400 MB through the page cache, for `binhop io`",
        stands_for: "File-copy (TB10)",
        multiprogrammed: false,
        composition: Composition::Single(file_copy::IMAGE, file_copy::start, file_copy::FILES),
    },
    WorkloadInfo {
        name: "tpch",
        what: "a query that scans a table on disk and joins it in memory, for `binhop io`",
        stands_for: "TPC-H (TB10)",
        multiprogrammed: false,
        composition: Composition::Single(tpch::IMAGE, tpch::start, tpch::FILES),
    },
    WorkloadInfo {
        name: "specweb",
        what: "a web server with small packets and a large cache of items, for `binhop io`",
        stands_for: "SPECweb2005 (TB10)",
        multiprogrammed: false,
        composition: Composition::Single(specweb::IMAGE, specweb::start, specweb::FILES),
    },
];

/// Returns the names of all workloads.
#[must_use]
pub fn names() -> Vec<&'static str> {
    WORKLOADS.iter().map(|info| info.name).collect()
}

/// Opens a workload at its beginning.
///
/// # Errors
/// There is no workload of this name.
pub fn open(name: &str, seed: u64) -> Result<Workload> {
    let info = WORKLOADS.iter().find(|info| info.name == name).ok_or_else(|| {
        let remedy = format!("the built-in workloads are {}", names().join(", "));
        Problem::request(name, "workload", "there is no built-in workload of this name", &remedy)
    })?;
    let engine = match info.composition {
        Composition::Single(image, start, _) => {
            let mut cpu = Cpu::new(AddressSpace::new(image, 0));
            cpu.load_image();
            let program = start(DataRng::new(seed, 0), &mut cpu);
            cpu.finish_step();
            Engine::Single { cpu: Box::new(cpu), program }
        }
        Composition::Mix(commands, _, discipline) => {
            Engine::Mix(Box::new(ProcessMix::new(discipline, commands(seed))))
        }
    };
    let mut workload = Workload { info, meta: meta(info, seed), engine, columns: Columns::default() };
    workload.name_processes();
    Ok(workload)
}

fn meta(info: &WorkloadInfo, seed: u64) -> Meta {
    let mut meta = Meta {
        page_size: Some(address_space::PAGE),
        recorder: Some(concat!("binhop-workload ", env!("CARGO_PKG_VERSION")).to_owned()),
        command: Some(format!("{} (seed {seed})", info.name)),
        sizes: Some("exact".to_owned()),
        system_calls: (!info.is_of_linux()).then(|| Meta::BSD.to_owned()),
        ..Meta::default()
    };
    let images: &[Image] = match &info.composition {
        Composition::Single(image, _, files) => {
            for file in *files {
                meta.files.insert(file.id, file.path.to_owned());
                if file.path.starts_with('/') {
                    meta.file_bytes.insert(file.id, file.bytes);
                }
                if file.direct {
                    meta.direct_files.insert(file.id);
                }
            }
            let process = ProcessMeta { command: Some(image.name.to_owned()), ..ProcessMeta::default() };
            meta.processes.insert(0, process);
            for (kind, name) in ["data", "heap", "stack"].into_iter().enumerate() {
                let segment = SegmentMeta { file: None, kind: Some(name.to_owned()) };
                meta.segments.insert(AddressSpace::segment(0, kind as u64), segment);
            }
            std::slice::from_ref(image)
        }
        Composition::Mix(_, images, _) => images,
    };
    for image in images {
        let segment = SegmentMeta { file: Some(image.name.to_owned()), kind: Some("text".to_owned()) };
        meta.segments.insert(image.segment, segment);
    }
    meta
}

enum Engine {
    Single { cpu: Box<Cpu>, program: Box<dyn Program> },
    Mix(Box<ProcessMix>),
}

/// `Workload` is a source: the endless events of a built-in workload.
pub struct Workload {
    info: &'static WorkloadInfo,
    meta: Meta,
    engine: Engine,
    columns: Columns,
}

impl Workload {
    /// Names the processes that were made since the last call after their programs.
    fn name_processes(&mut self) {
        if let Engine::Mix(mix) = &mut self.engine {
            for Born { asid, parent, program } in mix.take_born() {
                let parent = parent.map(|parent| parent as u32);
                let process =
                    ProcessMeta { command: Some(program.to_owned()), parent, ..ProcessMeta::default() };
                self.meta.processes.insert(asid as u32, process);
            }
        }
    }
}

impl Source for Workload {
    fn name(&self) -> &str {
        self.info.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        while self.columns.len() < BATCH_ROWS {
            match &mut self.engine {
                Engine::Single { cpu, program } => {
                    self.columns.take(&cpu.rows, 0, cpu.rows.len());
                    cpu.rows.clear();
                    program.step(cpu);
                    cpu.finish_step();
                }
                Engine::Mix(mix) => mix.turn(&mut self.columns),
            }
        }
        self.name_processes();
        self.columns.batch(self.info.name).map(Some)
    }
}
