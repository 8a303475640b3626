//! `FileNumbers` knows which numbers of a trace stand for one file.

use std::collections::BTreeMap;

use binhop_os::io::FileId;
use binhop_trace::Meta;

/// `FileNumbers` holds the file behind each direct file that has a number for other calls, too.
pub(super) struct FileNumbers(BTreeMap<u64, FileId>);

impl FileNumbers {
    /// Finds the direct files whose path another file has. Files whose path is unknown, and empty, are different files.
    pub(super) fn of(meta: &Meta) -> Self {
        let is_other = |(id, path): &(&u64, &String)| !meta.direct_files.contains(id) && !path.is_empty();
        let others = meta.files.iter().filter(is_other);
        let by_path: BTreeMap<&str, u64> = others.map(|(&id, path)| (path.as_str(), id)).collect();
        let other = |&id: &u64| Some((id, FileId(*by_path.get(meta.files.get(&id)?.as_str())?)));
        Self(meta.direct_files.iter().filter_map(other).collect())
    }

    /// Returns the file that a number stands for.
    pub(super) fn file(&self, number: u64) -> FileId {
        self.0.get(&number).copied().unwrap_or(FileId(number))
    }
}
