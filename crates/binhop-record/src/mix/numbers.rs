//! `Numbers` numbers address spaces, segments and files anew for a mix, because each trace has its own
//! numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use binhop_trace::Meta;
use binhop_trace::source::{ProcessMeta, SegmentMeta};

/// `Numbers` gives the mix's numbers, and keeps what they stand for.
#[derive(Default)]
pub(super) struct Numbers {
    spaces: u32,
    segments: u64,
    files: u64,
    segment_of_file: HashMap<String, u64>,
    /// The number of each path. A file of which some calls are direct has two numbers.
    file_of_path: HashMap<(String, bool), u64>,
    processes: BTreeMap<u32, ProcessMeta>,
    described: BTreeMap<u64, SegmentMeta>,
    paths: BTreeMap<u64, String>,
    bytes: BTreeMap<u64, u64>,
    direct_files: BTreeSet<u64>,
    /// True if anything was added since the last [`Numbers::write_to`].
    changed: bool,
}

impl Numbers {
    /// Numbers a new address space.
    pub(super) fn space(&mut self, process: ProcessMeta) -> u32 {
        let asid = self.spaces;
        self.spaces += 1;
        self.processes.insert(asid, process);
        self.changed = true;
        asid
    }

    /// Sets what is known of an address space's process; its parent stays.
    pub(super) fn describe(&mut self, asid: u32, process: &ProcessMeta) {
        let known = self.processes.entry(asid).or_default();
        *known = ProcessMeta { parent: known.parent, ..process.clone() };
        self.changed = true;
    }

    /// Returns the number of a segment: the same number for the same file, else a new number.
    pub(super) fn segment(&mut self, described: Option<&SegmentMeta>) -> u64 {
        let file = described.and_then(|segment| segment.file.as_ref());
        if let Some(&known) = file.and_then(|file| self.segment_of_file.get(file)) {
            return known;
        }
        let segment = self.segments;
        self.segments += 1;
        if let Some(file) = file {
            self.segment_of_file.insert(file.clone(), segment);
        }
        if let Some(described) = described {
            self.described.insert(segment, described.clone());
            self.changed = true;
        }
        segment
    }

    /// Returns the number of a file: the same number for the same path, else a new number. A file has a separate number
    /// for direct calls.
    pub(super) fn file(&mut self, path: Option<&String>, is_direct: bool, bytes: Option<u64>) -> u64 {
        let named = path.filter(|path| !path.is_empty()).map(|path| (path.clone(), is_direct));
        if let Some(&known) = named.as_ref().and_then(|named| self.file_of_path.get(named)) {
            return known;
        }
        let file = self.files;
        self.files += 1;
        if let Some(named) = named {
            self.file_of_path.insert(named, file);
        }
        if let Some(path) = path {
            self.paths.insert(file, path.clone());
            self.changed = true;
        }
        if is_direct {
            self.direct_files.insert(file);
            self.changed = true;
        }
        if let Some(bytes) = bytes {
            self.bytes.insert(file, bytes);
            self.changed = true;
        }
        file
    }

    /// Writes what the numbers stand for into the mix's metadata.
    pub(super) fn write_to(&mut self, meta: &mut Meta) {
        if std::mem::take(&mut self.changed) {
            meta.processes.clone_from(&self.processes);
            meta.segments.clone_from(&self.described);
            meta.files.clone_from(&self.paths);
            meta.file_bytes.clone_from(&self.bytes);
            meta.direct_files.clone_from(&self.direct_files);
        }
    }
}
