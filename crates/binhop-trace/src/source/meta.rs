//! `Meta` says what is known about a trace besides its events. `docs/generate.py` makes the tables of the page on traces
//! from the fields of these structs and from their comments.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::counted;

/// The page size that is assumed where a trace does not name its own.
pub(crate) const ASSUMED_PAGE: u64 = 4096;

/// The most inputs of a mix whose ends are reported one by one.
const MOST_ENDS: usize = 16;

/// `Meta` describes a trace as a whole. A trace file holds it as JSON under one key of its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Meta {
    /// The page size of the machine that the trace was made on, in bytes, if known.
    pub page_size: Option<u64>,
    /// The program that made the trace, and its version.
    pub recorder: Option<String>,
    /// The command that was recorded.
    pub command: Option<String>,
    /// `"exact"` if access sizes were recorded, `"assumed"` if an importer filled them in.
    pub sizes: Option<String>,
    /// The system whose numbers the system calls have: `"linux-x86-64"` or `"4.3bsd"`. Without this field the calls have
    /// the numbers of Linux on x86-64. A mix of calls of both systems has `"4.3bsd + linux-x86-64"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<String>,
    /// True if each system call names its object, unless its descriptor was bad, and its buffers if it moved anything.
    /// Then a call that names neither has moved nothing. Without this field nothing is known of such a call.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub describes_calls: bool,
    /// The rule by which binhop put the processes of a recording in order: `"built-in"`, `"native"` or `"round-robin"`. A
    /// mix has its order and its quantum here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The inputs of a mix, and when each input ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mixed: Vec<MixedMeta>,
    /// The process of each asid.
    pub processes: BTreeMap<u32, ProcessMeta>,
    /// The file and the kind of each segment, by the number that `map` gives the segment.
    pub segments: BTreeMap<u64, SegmentMeta>,
    /// The path of each file, socket or pipe, by the file id of system calls. The path is empty if it is not known.
    pub files: BTreeMap<u64, String>,
    /// The length of a file in bytes when the trace first uses the file, by file id, where the length is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub file_bytes: BTreeMap<u64, u64>,
    /// The file ids whose calls bypass the page cache (`O_DIRECT`): a device transfers their data from and to the
    /// memory of the process that calls.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub direct_files: BTreeSet<u64>,
}

/// `ProcessMeta` describes the process of an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessMeta {
    /// The process id at the time of recording.
    pub pid: Option<u64>,
    /// The command of the process.
    pub command: Option<String>,
    /// The asid of the process that forked this process, if the trace holds the fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
}

/// `MixedMeta` describes an input of a mix.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct MixedMeta {
    /// The name of the input.
    pub name: String,
    /// The number of times that the input began: 1, and more if the mix repeats it.
    pub begun: u32,
    /// The number of times that the input ended.
    pub ended: u32,
    /// The number of instructions of the mix before the input's first end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_end: Option<u64>,
}

impl MixedMeta {
    /// Describes an input that begins.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), begun: 1, ended: 0, first_end: None }
    }

    /// Notes an end of the input, after this number of instructions of the mix.
    pub fn end(&mut self, instructions: u64) {
        self.ended += 1;
        self.first_end.get_or_insert(instructions);
    }

    /// Returns a sentence for the user on the input's end.
    #[must_use]
    pub fn note(&self) -> String {
        let Self { name, begun, .. } = self;
        let Some(first) = self.first_end else { return format!("{name} did not end before the mix ended") };
        let again = match begun - 1 {
            0 => String::new(),
            1 => " and began again once".to_owned(),
            times => format!(" and began again {times} times"),
        };
        format!("{name} ended after {} of the mix{again}", counted(first, ["instruction", "instructions"]))
    }
}

/// `SegmentMeta` describes a segment: a part of an address space that processes may share.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SegmentMeta {
    /// The file that the segment maps, if it maps a file.
    pub file: Option<String>,
    /// The kind of memory, in a word of the recorder or the workload, such as `"heap"`, `"stack"`, `"library"`.
    pub kind: Option<String>,
}

impl Meta {
    /// Linux on x86-64 in [`system_calls`](Self::system_calls).
    pub const LINUX: &'static str = "linux-x86-64";
    /// 4.3BSD in [`system_calls`](Self::system_calls).
    pub const BSD: &'static str = "4.3bsd";

    /// Returns notes on the ends of the inputs of a mix, one sentence each. Of many inputs, the first are named.
    #[must_use]
    pub fn notes_on_ends(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.mixed.iter().take(MOST_ENDS).map(MixedMeta::note).collect();
        let more = self.mixed.len() - notes.len();
        if more > 0 {
            let mixed = counted(more as u64, ["more trace was", "more traces were"]);
            notes.push(format!("{mixed} mixed: binhop inspect --json lists each end"));
        }
        notes
    }

    /// Returns the system whose numbers the system calls have. If a trace names no system, its calls have the numbers
    /// of Linux on x86-64, the system that the recorder knows.
    #[must_use]
    pub fn call_system(&self) -> &str {
        self.system_calls.as_deref().unwrap_or(Self::LINUX)
    }

    /// Returns the value of [`system_calls`](Self::system_calls) for a trace that is made of these traces: the names of
    /// their systems. `None` stands for Linux on x86-64 alone.
    #[must_use]
    pub fn joint_call_system<'a>(traces: impl IntoIterator<Item = &'a Self>) -> Option<String> {
        let systems = traces.into_iter().flat_map(|trace| trace.call_system().split(" + "));
        let systems: BTreeSet<&str> = systems.collect();
        let all = systems.into_iter().collect::<Vec<_>>().join(" + ");
        (!all.is_empty() && all != Self::LINUX).then_some(all)
    }

    /// Adds a process and returns its asid: the number of the processes before it.
    pub(crate) fn add_process(&mut self, pid: u64, command: Option<String>) -> u32 {
        let asid = self.processes.len() as u32;
        self.processes.insert(asid, ProcessMeta { pid: Some(pid), command, parent: None });
        asid
    }

    /// Returns the page size that the trace names, if it is a power of two from 512 bytes to 1 GiB.
    #[must_use]
    pub fn known_page_size(&self) -> Option<u64> {
        self.page_size.filter(|page| page.is_power_of_two() && (512..=1 << 30).contains(page))
    }
}
