//! `FileNumbers` maps the numbers of a trace to files. Several numbers may stand for one file.

use std::collections::BTreeMap;

use binhop_os::io::FileId;
use binhop_trace::Meta;

/// `FileNumbers` holds the file behind each number whose path is known.
pub(super) struct FileNumbers(BTreeMap<u64, FileId>);

impl FileNumbers {
    /// Finds the numbers with one path: a trace names one file by one path. The file has the first number that is not
    /// direct. A path that is unknown is empty, and numbers with an empty path are different files.
    pub(super) fn of(meta: &Meta) -> Self {
        let mut first: BTreeMap<&str, u64> = BTreeMap::new();
        let (direct, others): (Vec<_>, Vec<_>) = meta
            .files
            .iter()
            .filter(|(_, path)| !path.is_empty())
            .partition(|(id, _)| meta.direct_files.contains(id));
        for (&id, path) in others.iter().chain(&direct).copied() {
            first.entry(path).or_insert(id);
        }
        let one = |(&id, path): (&u64, &String)| (id, FileId(first[path.as_str()]));
        Self(others.into_iter().chain(direct).map(one).collect())
    }

    /// Returns the file that a number stands for.
    pub(super) fn file(&self, number: u64) -> FileId {
        self.0.get(&number).copied().unwrap_or(FileId(number))
    }
}
