//! These tests check the properties of every workload's stream. The stream is the same for the same seed. Every
//! reference lies in a mapped region. Fetch runs and data references alternate as the event schema says. Processes
//! start and end in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use binhop_base::Class;
use binhop_trace::event::{Cause, map_flags};
use binhop_trace::{EventBatch, Meta, Op, Source};
use binhop_workload::calibration::{
    OF_DEVICES, SWITCHES, TARGETS, TRIAL_TARGETS, Trial, TrialTarget, measure, measure_trial,
};
use binhop_workload::{WORKLOADS, WorkloadInfo, names, open};

/// Calls `with` for each of the first `rows` rows, with its batch and its position in the batch.
fn walk(source: &mut dyn Source, rows: usize, mut with: impl FnMut(&EventBatch, usize)) {
    let mut done = 0;
    while done < rows {
        let batch = source.next_batch().expect("a workload reads nothing").expect("a workload never ends");
        for row in 0..batch.len().min(rows - done) {
            with(&batch, row);
        }
        done += batch.len();
    }
}

/// Returns a hash over all columns of the first `rows` rows. The cuts between batches do not matter.
fn fingerprint(name: &str, seed: u64, rows: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |value: u64| hash = (hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(29);
    walk(&mut open(name, seed).expect("a known name"), rows, |batch, row| {
        mix(u64::from(batch.op()[row]));
        mix(batch.addr()[row]);
        mix(u64::from(batch.size()[row]));
        mix(u64::from(batch.count()[row]));
        mix(batch.arg0(row).unwrap_or(u64::MAX));
        mix(batch.arg1(row).unwrap_or(u64::MAX));
    });
    hash
}

/// If one of these numbers changes, every result of the workload changes, and CHANGELOG.md must say so.
const FINGERPRINTS: &[(&str, u64)] = &[
    ("mult1", 18312376120431001008),
    ("mult1.2", 1277592339687077054),
    ("mult2", 11400165877121203110),
    ("mult2.2", 13792355101058647073),
    ("tv", 4582255535478239973),
    ("sor", 3580071698891567927),
    ("tree", 17834596297331962222),
    ("lin", 6609561300370360485),
    ("timesharing", 13300896956935554638),
    ("compute-bound", 7586718965684016019),
    ("client-server", 270841218790302494),
    ("file-copy", 4661556866026065261),
    ("tpch", 11905468630467184975),
    ("specweb", 15286505321005762580),
];

/// Returns the file and line where a list begins, for the message that a workload is missing from it.
fn place_of(file: &str, list: &str) -> String {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a file of the crate");
    let line = text.lines().position(|line| line.contains(list)).expect("the file has the list");
    format!("`{list}` at crates/binhop-workload/{file}:{}", line + 1)
}

#[test]
fn each_stream_has_its_fingerprint() {
    let place = place_of("tests/streams.rs", "const FINGERPRINTS");
    for name in names() {
        let found = fingerprint(name, 0, 5_000_000);
        match FINGERPRINTS.iter().find(|(of, _)| *of == name) {
            Some(&(_, known)) => assert_eq!(found, known, "the stream of `{name}` changed"),
            None => panic!("workload `{name}` has no fingerprint: add (\"{name}\", {found}) to {place}"),
        }
    }
    assert_eq!(FINGERPRINTS.len(), names().len(), "every fingerprint in {place} is of a workload");
}

#[test]
fn another_seed_is_another_stream() {
    for name in names() {
        assert_ne!(fingerprint(name, 1, 1_500_000), fingerprint(name, 2, 1_500_000), "{name}");
    }
}

/// Every call has a number of the system that the workload names: 4.3BSD for the programs of the 1980s, Linux for the
/// others.
#[test]
fn each_call_has_a_number_of_the_system_that_the_trace_names() {
    // 4.3BSD: exit, fork, read, write, open, unlink, the old stat, execve, wait, sendmsg.
    const BSD: [u32; 10] = [1, 2, 3, 4, 5, 10, 18, 59, 84, 114];
    // Linux: read, write, pread64, pwrite64, sendto, recvfrom.
    const LINUX: [u32; 6] = [0, 1, 17, 18, 44, 45];
    for name in names() {
        let mut source = open(name, 1).expect("a known name");
        let linux = ["file-copy", "tpch", "specweb"].contains(&name);
        let expected = if linux { Meta::LINUX } else { Meta::BSD };
        assert_eq!(source.meta().call_system(), expected, "{name}");
        let numbers: &[u32] = if linux { &LINUX } else { &BSD };
        walk(&mut source, 300_000, |batch, row| {
            let is_known = batch.op()[row] != Op::Syscall as u8 || numbers.contains(&batch.count()[row]);
            assert!(is_known, "{name}: {} is no call of {expected}", batch.count()[row]);
        });
    }
}

#[test]
fn an_unknown_name_is_refused() {
    let problem = open("mult3", 0).err().unwrap();
    assert_eq!((problem.class, problem.value.as_str()), (Class::Request, "mult3"));
    assert!(problem.remedy.contains("mult2.2"), "{problem}");
}

#[test]
fn every_workload_has_targets() {
    let place = place_of("src/calibration/mod.rs", "pub const TARGETS");
    let trials = place_of("src/calibration/trial.rs", "pub const TRIAL_TARGETS");
    let devices = place_of("src/calibration/mod.rs", "pub const OF_DEVICES");
    let targets: Vec<_> = TARGETS.iter().map(|target| target.workload).collect();
    let of_trials: Vec<_> = TRIAL_TARGETS.iter().map(|target| target.workload).collect();
    for name in names() {
        let has = targets.contains(&name) || of_trials.contains(&name) || OF_DEVICES.contains(&name);
        assert!(
            has,
            "workload `{name}` has no figures of the trace that it stands for: add a line to {place}, {trials} or {devices}"
        );
    }
    let all = [targets, of_trials, OF_DEVICES.to_vec()].concat();
    assert_eq!(all, names(), "{place}, {trials} and {devices} have the order of WORKLOADS");
}

/// `Region` is a mapping of one address space.
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    flags: u32,
}

/// `Checker` checks every row of a stream.
#[derive(Default)]
struct Checker {
    name: &'static str,
    spaces: BTreeMap<u64, Vec<Region>>,
    texts: BTreeSet<u64>,
    current: Option<u64>,
    dead: BTreeSet<u64>,
    previous: Option<Op>,
    page_faults: bool,
}

impl Checker {
    fn region(&self, addr: u64, bytes: u32) -> Region {
        let current = self.current.expect("a process runs");
        let inside = |r: &&Region| r.start <= addr && addr + u64::from(bytes) <= r.end;
        *self.spaces[&current].iter().find(inside).unwrap_or_else(|| {
            panic!("{}: space {current} has nothing mapped at {addr:#x}, {bytes} bytes", self.name)
        })
    }

    fn row(&mut self, batch: &EventBatch, row: usize) {
        let (addr, size, count) = (batch.addr()[row], batch.size()[row], batch.count()[row]);
        let op = Op::from_code(batch.op()[row]).expect("a known operation");
        let after_fetch = self.previous == Some(Op::Fetch);
        match op {
            Op::Fetch => {
                assert!(count > 0 && size == 4 * count && addr.is_multiple_of(4), "{}: {addr:#x}", self.name);
                assert!(self.region(addr, size).flags & map_flags::EXEC != 0, "{}: {addr:#x}", self.name);
            }
            Op::Load | Op::Store => {
                assert!(
                    count == 1 && (size == 4 || size == 8) && addr.is_multiple_of(4),
                    "{}: {addr:#x}",
                    self.name
                );
                assert!(self.region(addr, size).flags & map_flags::EXEC == 0, "{}: {addr:#x}", self.name);
                assert!(after_fetch, "{}: a data reference follows the run that it ends", self.name);
            }
            Op::Map => self.map(addr, u64::from(count) * 4096, size, batch.arg0(row)),
            Op::Switch => self.switch(addr, size, batch.arg0(row), batch.arg1(row)),
            Op::Fork => {
                assert_eq!(batch.arg0(row), self.current);
                assert!(!self.spaces.contains_key(&addr) && !self.dead.contains(&addr), "a fresh number");
                let copy = self.spaces[&self.current.expect("a process runs")].clone();
                self.spaces.insert(addr, copy);
            }
            Op::Exec => {
                assert_eq!(Some(addr), self.current);
                self.spaces.insert(addr, Vec::new());
            }
            Op::Exit => {
                assert_eq!(Some(addr), self.current);
                self.spaces.remove(&addr);
                self.dead.insert(addr);
            }
            Op::Syscall => {
                assert!(after_fetch, "{}: a call is made by an instruction", self.name);
                // The buffer may lie in two adjacent mappings.
                if size > 0 {
                    self.region(addr, 1);
                    self.region(addr + u64::from(size) - 1, 1);
                }
            }
            _ => panic!("{}: {} in a workload", self.name, op.name()),
        }
        self.previous = Some(op);
    }

    fn switch(&mut self, asid: u64, tid: u32, cause: Option<u64>, number: Option<u64>) {
        assert!(!self.dead.contains(&asid) && u64::from(tid) == asid);
        let left_dead = self.current.is_some_and(|current| self.dead.contains(&current));
        assert_eq!(cause == Some(Cause::Exit as u64), left_dead);
        assert_eq!(cause == Some(Cause::SystemCall as u64), number.is_some());
        assert_eq!(cause.is_none(), self.current.is_none(), "only the first dispatch has no cause");
        assert!(self.page_faults || cause != Some(Cause::PageFault as u64));
        self.current = Some(asid);
        self.spaces.entry(asid).or_default();
    }

    fn map(&mut self, start: u64, bytes: u64, flags: u32, segment: Option<u64>) {
        assert!(
            start.is_multiple_of(64 << 10) && bytes.is_multiple_of(64 << 10),
            "mappings start and end at multiples of 64 KiB"
        );
        assert_eq!(flags & !map_flags::ALL, 0);
        let space = self.spaces.entry(self.current.expect("a process runs")).or_default();
        assert!(
            space.iter().all(|r| start + bytes <= r.start || r.end <= start),
            "{}: mapped twice",
            self.name
        );
        if flags & map_flags::EXEC != 0 {
            assert_eq!(flags & map_flags::WRITE, 0);
            self.texts.insert(segment.expect("text has a segment"));
        }
        space.push(Region { start, end: start + bytes, flags });
    }
}

/// Checks the first rows of a workload's stream, and whether a process ends within these rows.
fn check_rows(info: &WorkloadInfo, rows: usize, a_process_ends: bool) {
    let current = (!info.multiprogrammed).then_some(0);
    let page_faults = ["timesharing", "compute-bound"].contains(&info.name);
    let mut checker = Checker { name: info.name, current, page_faults, ..Checker::default() };
    let mut source = open(info.name, 7).expect("a known name");
    let known = source.meta().segments.clone();
    walk(&mut source, rows, |batch, row| checker.row(batch, row));
    assert_eq!(!checker.dead.is_empty(), a_process_ends, "{}: processes end", info.name);
    for asid in checker.spaces.keys().chain(&checker.dead) {
        let named = source.meta().processes.get(&(*asid as u32)).and_then(|named| named.command.as_ref());
        assert!(named.is_some(), "{}: process {asid} has no name", info.name);
    }
    for segment in &checker.texts {
        assert!(known.contains_key(segment), "{}: segment {segment} has no name", info.name);
    }
}

/// In `timesharing`, the first process ends after six million rows.
#[test]
fn every_reference_lies_in_a_mapping_that_permits_it() {
    for info in WORKLOADS {
        let many = info.name == "timesharing";
        check_rows(info, if many { 6_500_000 } else { 1_500_000 }, many);
    }
}

#[test]
#[ignore = "takes long: 12,000,000 rows of each workload"]
fn every_reference_lies_in_a_mapping_until_processes_have_ended() {
    for info in WORKLOADS {
        let for_ever = ["compute-bound", "client-server"].contains(&info.name);
        check_rows(info, 12_000_000, info.multiprogrammed && !for_ever);
    }
}

fn check_structure(references: u64) {
    for info in WORKLOADS {
        let mut source = open(info.name, 0).expect("a known name");
        let structure = measure(&mut source, references).expect("a workload reads nothing");
        assert!((references..references + 1_000).contains(&structure.references()), "{}", info.name);
        assert_eq!(structure.switches, structure.causes.iter().sum::<u64>());
        assert_eq!(structure.switches > 0, info.multiprogrammed);
        assert_eq!(structure.processes > 1, info.multiprogrammed);
    }
}

#[test]
fn the_structure_is_that_of_the_documents() {
    check_structure(6_000_000);
}

#[test]
#[ignore = "takes long: 60,000,000 references of each workload"]
fn the_structure_of_long_streams_is_that_of_the_documents() {
    check_structure(60_000_000);
}

fn trial(name: &str, switches: u64) -> Trial {
    let mut source = open(name, 0).expect("a known name");
    measure_trial(&mut source, switches, &mut |_| Ok(())).expect("a workload reads nothing")
}

/// Compares a trial with MB90's figures. Figures of all switches are compared after `SWITCHES` switches.
fn compare_with_mb90(target: &TrialTarget, switches: u64) {
    let trial = trial(target.workload, switches);
    assert_eq!(trial.all_switches(), switches);
    assert_eq!((trial.segments.len() as u64, trial.to_itself), (switches, 0), "{}", target.workload);
    let involuntary = trial.share(Cause::Involuntary);
    let (least, most) = target.involuntary;
    // Of the first 200 switches of compute-bound, 20 are page faults.
    let least = if switches == 200 { 0.85 } else { least };
    assert!((least..=most).contains(&involuntary), "{}: {involuntary}", target.workload);
    for (name, size) in target.programs {
        let found = trial.programs[*name].bytes as f64 / 1e6;
        assert!((found / size - 1.0).abs() < 0.1, "{name}: {found} MB");
    }
    // The programs of timesharing run one after another.
    if switches == SWITCHES || target.workload != "timesharing" {
        let data = trial.data as f64 / trial.instructions as f64;
        assert!((data / target.data - 1.0).abs() < 0.06, "{}: {data} data references", target.workload);
        let megabytes = trial.bytes as f64 / 1e6;
        assert!((megabytes / target.megabytes - 1.0).abs() < 0.1, "{}: {megabytes} MB", target.workload);
        if let Some(processes) = target.processes {
            let ratio = trial.processes as f64 / processes as f64;
            assert!((0.8..1.25).contains(&ratio), "{} processes", trial.processes);
        }
    }
    if switches == SWITCHES {
        // The processes of compute-bound use up their quanta of 400,000 instructions. The document's quantum is 400,000
        // cycles, in which a process executed about 250,000 instructions (docs/workloads.md has both figures).
        if target.workload == "compute-bound" {
            assert_eq!(trial.instructions, 1_991_834_536);
            return;
        }
        let millions = trial.instructions as f64 / 1e6;
        let (least, most) = target.instructions;
        assert!((0.97 * least..1.03 * most).contains(&millions), "{}: {millions} M", target.workload);
    }
}

/// The first 200 switches of `compute-bound` hold all its page faults, and the first 600 switches of `timesharing` run
/// its largest programs.
#[test]
fn the_trials_begin_as_those_of_mb90() {
    for target in TRIAL_TARGETS {
        let switches = match target.workload {
            "compute-bound" => 200,
            "timesharing" => 600,
            _ => SWITCHES,
        };
        compare_with_mb90(target, switches);
    }
}

#[test]
#[ignore = "takes long: whole trials of 5,000 switches"]
fn the_trials_are_those_of_mb90() {
    for target in TRIAL_TARGETS {
        compare_with_mb90(target, SWITCHES);
    }
}

#[test]
fn no_page_is_read_from_disk_twice_and_servers_never_wait_for_one() {
    let faults = |trial: &Trial| trial.switches.get(&(Cause::PageFault as u64, None)).copied().unwrap_or(0);
    let of_two = trial("compute-bound", 200);
    // tree has 128 KiB of text and 16 KiB of initialised data; tv has 256 and 32 KiB.
    assert!((10..=(128 + 16 + 256 + 32) / 4).contains(&faults(&of_two)), "{}", faults(&of_two));
    assert_eq!(faults(&of_two), faults(&trial("compute-bound", 400)));
    assert_eq!(faults(&trial("client-server", 500)), 0);
}
