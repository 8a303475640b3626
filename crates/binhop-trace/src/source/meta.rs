//! `Meta` says what is known about a trace besides its events.

use std::collections::BTreeMap;

/// The page size that is assumed where a trace does not name its own.
pub(crate) const ASSUMED_PAGE: u64 = 4096;

/// What is known about a trace as a whole: the key-value metadata of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Page size of the machine it was made on, in bytes, if known.
    pub page_size: Option<u64>,
    /// What made it: program and version.
    pub recorder: Option<String>,
    /// The command that was recorded.
    pub command: Option<String>,
    /// `"exact"` or `"assumed"`: whether access sizes were recorded or filled in by an importer.
    pub sizes: Option<String>,
    /// What decided the order between processes, if something of ours did: `"built-in"`, `"native"`, `"round-robin"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// asid → (pid, command).
    pub processes: BTreeMap<u32, ProcessMeta>,
    /// segment → (file, kind).
    pub segments: BTreeMap<u64, SegmentMeta>,
    /// file id → path.
    pub files: BTreeMap<u64, String>,
}

/// The process behind an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessMeta {
    /// Process id when it was recorded.
    pub pid: Option<u64>,
    /// Its command.
    pub command: Option<String>,
    /// The address space that forked it, if one of the trace did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
}

/// A sharable unit of an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SegmentMeta {
    /// The file it maps, if any.
    pub file: Option<String>,
    /// text, data, stack, heap, library, …
    pub kind: Option<String>,
}

impl Meta {
    /// Returns the page size that the trace names, if it is a power of two from 512 bytes to 1 GiB.
    pub(crate) fn page_told(&self) -> Option<u64> {
        self.page_size.filter(|page| page.is_power_of_two() && (512..=1 << 30).contains(page))
    }
}
