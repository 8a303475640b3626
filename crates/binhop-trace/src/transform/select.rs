//! `Selection` keeps rows by operation, process, address, segment and mode.
//!
//! A row is kept if it passes every filter that is given.
//!
//! | filter | passes a row if | applies to |
//! |---|---|---|
//! | kinds | its operation is one of the kinds | every row. If a kind is a reference, changes of state are kept as well; otherwise only the kinds |
//! | processes | one of the processes runs (a switch, fork, exec or exit: it names one of the processes) | every row but time, kernel-enter and kernel-leave |
//! | addresses | one of its bytes lies in one of the ranges | references |
//! | regions | its first byte lies in a segment of that kind, or of a file whose path holds the text | references |
//! | mode | the kernel, or the program, makes it | references |

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Problem, Result};

use super::part::{Choice, Choose};
use super::regions::Regions;
use crate::event::{Cause, Event, Op};
use crate::source::Meta;

/// `Mode` tells references of the kernel from references of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The kernel makes the reference: it lies between kernel-enter and kernel-leave.
    Kernel,
    /// A program makes the reference.
    User,
}

/// `Selection` holds the filters that the top of this file defines. An empty or absent filter passes every
/// row.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// Names of operations. `reference`, `data` and `system` name several operations each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Address spaces, by asid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asids: Vec<u64>,
    /// Process ids at the time of recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u64>,
    /// Commands, whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Ranges of addresses: the first address, and the address behind the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<(u64, u64)>,
    /// Kinds of segments, or text in the paths of their files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// The mode of references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

impl Selection {
    /// Returns the given filters as an error names them.
    fn said(&self) -> String {
        let filters = [
            ("kind", self.kinds.clone()),
            ("asid", self.asids.iter().map(u64::to_string).collect()),
            ("pid", self.pids.iter().map(u64::to_string).collect()),
            ("command", self.commands.clone()),
            ("address", self.addresses.iter().map(|(from, to)| format!("{from:#x}-{to:#x}")).collect()),
            ("region", self.regions.clone()),
        ];
        let mut said: Vec<String> = filters
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name} {}", values.join(" or ")))
            .collect();
        said.extend(self.mode.map(|mode| match mode {
            Mode::Kernel => "kernel".to_owned(),
            Mode::User => "user".to_owned(),
        }));
        said.join(", ")
    }
}

/// A name for several operations.
type Several = (&'static str, fn(Op) -> bool);

/// The kinds that a filter may name besides operations.
const KINDS: &[Several] = &[
    ("reference", Op::is_reference),
    ("data", |op| op.is_reference() && !matches!(op, Op::Fetch)),
    ("system", |op| !op.is_reference()),
];

/// `Selector` is a selection, resolved against the metadata of a trace.
pub(super) struct Selector {
    /// Whether each operation is kept, by code.
    kinds: [bool; Op::ALL.len()],
    keeps_state: bool,
    asids: Option<BTreeSet<u64>>,
    /// The ranges in order. No two ranges touch.
    addresses: Vec<(u64, u64)>,
    segments: Option<BTreeSet<u64>>,
    regions: Regions,
    /// True if mappings must be followed.
    follows: bool,
    mode: Option<Mode>,
    current: u64,
    kernel: u32,
    /// The address spaces that made references, if the selection names processes.
    ran: BTreeSet<u64>,
    /// The rows so far, and the added rows that map what children inherit from parents that are left out.
    rows: u64,
    remapped: u64,
    said: String,
}

/// The most rows that map what children inherit from parents that are left out: a constant, and a number for
/// each row of the trace.
const REMAPPED: u64 = 1 << 18;
const REMAPPED_OF_ROW: u64 = 16;

impl Selector {
    pub(super) fn new(selection: &Selection, meta: &Meta) -> Result<Self> {
        let kinds = kinds(&selection.kinds)?;
        if let Some((from, to)) = selection.addresses.iter().find(|(from, to)| from >= to) {
            return Err(Problem::request(
                &format!("{from:#x} to {to:#x}"),
                "addresses",
                "a range ends behind its beginning",
                "give the first address, then the one behind the last",
            ));
        }
        let asids = asids(selection, meta)?;
        let segments = segments(&selection.regions, meta)?;
        Ok(Self {
            kinds,
            keeps_state: Op::ALL.iter().any(|&op| op.is_reference() && kinds[op as usize]),
            follows: asids.is_some() || segments.is_some(),
            asids,
            addresses: apart(&selection.addresses),
            segments,
            regions: Regions::new(meta),
            mode: selection.mode,
            current: 0,
            kernel: 0,
            ran: BTreeSet::new(),
            rows: 0,
            remapped: 0,
            said: selection.said(),
        })
    }

    fn too_many_mappings(&self, fork: &Event) -> [String; 3] {
        let Self { remapped, rows, .. } = self;
        let parent = fork.arg0.unwrap_or_default();
        let rule = "a child that is kept without its parent needs a row for each inherited mapping, and these are too \
                    many rows for the rows of the trace so far";
        [
            format!(
                "asid {} without asid {parent}: {remapped} rows of mappings after {rows} rows",
                fork.addr
            ),
            rule.into(),
            format!("keep asid {parent}, too, or fewer of its children"),
        ]
    }

    fn runs(&self, asid: u64) -> bool {
        self.asids.as_ref().is_none_or(|asids| asids.contains(&asid))
    }

    /// Returns whether a reference passes the filters for references.
    fn passes(&self, event: &Event) -> bool {
        let last = event.addr.saturating_add(u64::from(event.size.max(1) - 1));
        let within = || {
            let next = self.addresses.partition_point(|&(_, to)| to <= event.addr);
            self.addresses.get(next).is_some_and(|&(from, _)| from <= last)
        };
        let in_kernel = self.kernel > 0;
        self.mode.is_none_or(|mode| (mode == Mode::Kernel) == in_kernel)
            && (self.addresses.is_empty() || within())
            && self.segments.as_ref().is_none_or(|wanted| {
                self.regions
                    .segment_at(self.current, event.addr)
                    .is_some_and(|segment| wanted.contains(&segment))
            })
    }

    /// Returns what happens to a row that passes the filter of processes.
    fn by_kind(&self, op: Op) -> Choice {
        match (self.kinds[op as usize], self.keeps_state) {
            (true, _) => Choice::Keep,
            (false, true) => Choice::State,
            (false, false) => Choice::Drop,
        }
    }

    /// Returns what happens to a fork. If the child is kept and the parent is not, map events give the child
    /// its mappings. The number of these events is bounded by the rows of the trace.
    fn fork(&mut self, event: &Event) -> Choice {
        let parent = event.arg0.is_some_and(|parent| self.runs(parent));
        match (self.runs(event.addr), parent) {
            (false, _) => Choice::Drop,
            (true, true) => self.by_kind(Op::Fork),
            (true, false) if !self.keeps_state => self.by_kind(Op::Fork),
            (true, false) => {
                let switch = |asid: u64| Event {
                    op: Op::Switch,
                    addr: asid,
                    size: 0,
                    count: 0,
                    arg0: Some(Cause::SystemCall as u64),
                    arg1: None,
                };
                let mut events = vec![switch(event.addr)];
                events.extend(self.regions.remap(event.addr));
                self.remapped += events.len() as u64;
                if self.remapped > REMAPPED + REMAPPED_OF_ROW * self.rows {
                    return Choice::Refuse(self.too_many_mappings(event));
                }
                if self.runs(self.current) {
                    events.push(switch(self.current));
                }
                Choice::Instead(events)
            }
        }
    }
}

impl Choose for Selector {
    fn choose(&mut self, event: &Event, _: &Meta) -> Choice {
        self.rows += 1;
        if event.op.is_reference() {
            if self.asids.is_some() && !self.ran.contains(&self.current) {
                self.ran.insert(self.current);
            }
            let kept = self.kinds[event.op as usize] && self.runs(self.current) && self.passes(event);
            return if kept { Choice::Keep } else { Choice::Drop };
        }
        if self.follows {
            self.regions.note(event, self.current);
        }
        match event.op {
            Op::Switch => {
                self.current = event.addr;
                if self.runs(event.addr) { self.by_kind(Op::Switch) } else { Choice::Drop }
            }
            Op::Fork => self.fork(event),
            Op::Exec | Op::Exit if !self.runs(event.addr) => Choice::Drop,
            Op::KernelEnter | Op::KernelLeave => {
                let enters = event.op == Op::KernelEnter;
                self.kernel = if enters { self.kernel + 1 } else { self.kernel.saturating_sub(1) };
                match self.by_kind(event.op) {
                    Choice::Keep if !self.runs(self.current) => Choice::State,
                    choice => choice,
                }
            }
            Op::Time | Op::Exec | Op::Exit => self.by_kind(event.op),
            _ if !self.runs(self.current) => Choice::Drop,
            op => self.by_kind(op),
        }
    }

    fn wants_state(&self) -> bool {
        !self.keeps_state
    }

    fn nothing(&self) -> (String, String) {
        let rule = "no row of the trace passes this filter";
        let absent = self.asids.as_ref().is_some_and(|asids| asids.is_disjoint(&self.ran));
        if !absent {
            return (self.said.clone(), rule.to_owned());
        }
        if self.ran.is_empty() {
            return (self.said.clone(), format!("{rule}: there is no reference in it"));
        }
        let ran: Vec<String> = self.ran.iter().take(SHOWN).map(u64::to_string).collect();
        let more = if self.ran.len() > SHOWN { ", …" } else { "" };
        (self.said.clone(), format!("{rule}: references are made by asid {}{more}", ran.join(", ")))
    }
}

fn kinds(names: &[String]) -> Result<[bool; Op::ALL.len()]> {
    if names.is_empty() {
        return Ok([true; Op::ALL.len()]);
    }
    let mut kinds = [false; Op::ALL.len()];
    for name in names {
        let of = |op: Op| match KINDS.iter().find(|(several, _)| several == name) {
            Some((_, holds)) => holds(op),
            None => op.name() == name,
        };
        let mut known = false;
        for &op in Op::ALL.iter().filter(|&&op| of(op)) {
            kinds[op as usize] = true;
            known = true;
        }
        if !known {
            let all = Op::ALL.iter().map(|op| op.name()).chain(KINDS.iter().map(|(name, _)| *name));
            let remedy = format!("take some of {}", all.collect::<Vec<_>>().join(", "));
            return Err(Problem::request(name, "kinds", "no kind of row has this name", &remedy));
        }
    }
    Ok(kinds)
}

/// Returns the same addresses in order, with touching ranges joined.
fn apart(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match apart.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => apart.push((from, to)),
        }
    }
    apart
}

fn asids(selection: &Selection, meta: &Meta) -> Result<Option<BTreeSet<u64>>> {
    let Selection { asids, pids, commands, .. } = selection;
    if asids.is_empty() && pids.is_empty() && commands.is_empty() {
        return Ok(None);
    }
    let mut wanted: BTreeSet<u64> = asids.iter().copied().collect();
    let (mut by_pid, mut by_command) = (BTreeMap::new(), BTreeMap::new());
    for (&asid, process) in &meta.processes {
        if let Some(pid) = process.pid {
            by_pid.entry(pid).or_insert_with(Vec::new).push(u64::from(asid));
        }
        if let Some(command) = &process.command {
            by_command.entry(command).or_insert_with(Vec::new).push(u64::from(asid));
        }
    }
    let mut want = |value: String, place: &str, found: Option<&Vec<u64>>| {
        if let Some(found) = found {
            wanted.extend(found);
            return Ok(());
        }
        let known: Vec<String> = meta
            .processes
            .iter()
            .take(SHOWN)
            .map(|(asid, process)| {
                let pid = process.pid.map_or("-".to_owned(), |pid| pid.to_string());
                format!("{asid} (pid {pid}, {})", process.command.as_deref().unwrap_or("-"))
            })
            .collect();
        let remedy = if known.is_empty() {
            "the trace names no process: say which by its asid".to_owned()
        } else {
            format!("the trace has {}", known.join(", "))
        };
        Err(Problem::request(&value, place, "the trace names no such process", &remedy))
    };
    for &pid in pids {
        want(pid.to_string(), "pid", by_pid.get(&pid))?;
    }
    for command in commands {
        want(command.clone(), "command", by_command.get(command))?;
    }
    Ok(Some(wanted))
}

/// The most processes or segments that an error names.
const SHOWN: usize = 8;

fn segments(regions: &[String], meta: &Meta) -> Result<Option<BTreeSet<u64>>> {
    if regions.is_empty() {
        return Ok(None);
    }
    let mut wanted = BTreeSet::new();
    for region in regions {
        let found = meta.segments.iter().filter(|(_, segment)| {
            segment.kind.as_ref() == Some(region)
                || segment.file.as_ref().is_some_and(|file| file.contains(region.as_str()))
        });
        let found: Vec<u64> = found.map(|(&segment, _)| segment).collect();
        if !found.is_empty() {
            wanted.extend(found);
            continue;
        }
        let names: BTreeSet<&str> =
            meta.segments.values().filter_map(|segment| segment.kind.as_deref()).collect();
        let files: BTreeSet<&str> =
            meta.segments.values().filter_map(|segment| segment.file.as_deref()).collect();
        let known: Vec<&str> = names.into_iter().chain(files).take(SHOWN).collect();
        let remedy = if known.is_empty() {
            "the trace names no segment: filter by address".to_owned()
        } else {
            format!("the trace has {}", known.join(", "))
        };
        return Err(Problem::request(
            region,
            "region",
            "the trace has no segment of this kind, or of a file with this in its path",
            &remedy,
        ));
    }
    Ok(Some(wanted))
}
