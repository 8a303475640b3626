//! `Descriptors` finds the file of a descriptor. With it, the events of system calls name files, and all mappings of
//! one file are one segment.

use std::collections::BTreeMap;

use crate::source::SegmentMeta;

/// `Descriptors` holds the open descriptors of every process.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// The file id of each descriptor, by asid and descriptor.
    open: BTreeMap<(u32, u64), u64>,
    /// The file id of each path. All processes share it.
    ids: BTreeMap<String, u64>,
    segments: BTreeMap<String, u64>,
    next: u64,
}

impl Descriptors {
    /// Returns the file of a descriptor. A descriptor that no call has opened (standard input, a pipe) gets
    /// an id of its own without a path.
    pub(super) fn of(&mut self, asid: u32, fd: u64) -> u64 {
        let next = &mut self.next;
        *self.open.entry((asid, fd)).or_insert_with(|| {
            *next += 1;
            *next
        })
    }

    /// Opens a path as `fd`. `paths` is the table of the metadata.
    pub(super) fn open(&mut self, asid: u32, fd: u64, path: &str, paths: &mut BTreeMap<u64, String>) {
        let next = &mut self.next;
        let id = *self.ids.entry(path.to_string()).or_insert_with(|| {
            *next += 1;
            paths.insert(*next, path.to_string());
            *next
        });
        self.open.insert((asid, fd), id);
    }

    /// Closes a descriptor.
    pub(super) fn close(&mut self, asid: u32, fd: u64) {
        self.open.remove(&(asid, fd));
    }

    /// Copies a descriptor.
    pub(super) fn copy(&mut self, asid: u32, from: u64, to: u64) {
        let file = self.of(asid, from);
        self.open.insert((asid, to), file);
    }

    /// Gives a child the descriptors of its parent.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        let inherited: Vec<_> =
            self.open.range((parent, 0)..=(parent, u64::MAX)).map(|(key, &id)| (key.1, id)).collect();
        self.open.extend(inherited.into_iter().map(|(fd, id)| ((child, fd), id)));
    }

    /// Removes the descriptors of a process that has ended.
    pub(super) fn exit(&mut self, asid: u32) {
        self.open.retain(|key, _| key.0 != asid);
    }

    /// Returns the path of a descriptor, if it is known.
    pub(super) fn path_of(&self, asid: u32, fd: u64, paths: &BTreeMap<u64, String>) -> Option<String> {
        paths.get(self.open.get(&(asid, fd))?).cloned()
    }

    /// Returns the segment that all mappings of a path share. `table` is the table of the metadata.
    pub(super) fn segment(
        &mut self,
        path: String,
        next: &mut u64,
        table: &mut BTreeMap<u64, SegmentMeta>,
    ) -> u64 {
        *self.segments.entry(path.clone()).or_insert_with(|| {
            let id = *next;
            *next += 1;
            table.insert(id, SegmentMeta { file: Some(path), kind: Some("file".into()) });
            id
        })
    }
}
