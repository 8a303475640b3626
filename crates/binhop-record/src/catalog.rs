//! `Catalog` numbers the segments and files of a recording, which all processes share.
//!
//! A segment that maps a file has one number for every process, so that a library's text is one set of pages.
//! Numbers are given in the order in which the merge meets the segments, so that they do not depend on the
//! order in which pipes are read.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use binhop_trace::Meta;
use binhop_trace::source::SegmentMeta;

/// The end of the recorder's path.
const RECORDER: &str = "/binhop-amd64-linux";

/// A file is identified by its device and inode.
pub(crate) type FileKey = (u64, u64);

/// `FilePath` is the first path of a file.
#[derive(Debug)]
struct FilePath {
    path: String,
    /// The number of the file among the files with this path, from 1.
    ordinal: u32,
}

impl FilePath {
    /// Returns the name of the file in the trace. Readers of a trace join calls and mappings by this name, so another
    /// file with the same path has another name.
    fn name(&self) -> String {
        match self.ordinal {
            1 => self.path.clone(),
            ordinal => format!("{} (file {ordinal})", self.path),
        }
    }
}

/// `Catalog` holds the numbers of segments and files, and what is known of them.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    segments: BTreeMap<FileKey, u64>,
    shared_memory: BTreeMap<u64, u64>,
    /// The number of each file, and its number for calls that bypass the page cache.
    files: BTreeMap<(FileKey, bool), u64>,
    /// The first name of each file.
    paths: BTreeMap<FileKey, FilePath>,
    /// The number of files that had each absolute path as their first name.
    files_at: BTreeMap<String, u32>,
    /// When each file was made, in nanoseconds, where the file system knows it.
    births: BTreeMap<FileKey, NonZeroU64>,
    bytes: BTreeMap<FileKey, u64>,
    meta: Meta,
    next_segment: u64,
}

impl Catalog {
    /// Sets a file's path, and the time at which it was made and its bytes, if they are known. The recorder names a
    /// file before it uses the file; if the recorder names a file again, the first path and the first bytes stay.
    ///
    /// An inode that was made at another time is another file. The same file may have another path: it was renamed, or
    /// has several names. A mapping keeps its inode, so a mapping with an unknown time maps the same file. Where no
    /// time was known before, another path means another file. Of several files with one path, the trace names all but
    /// the first with a number.
    pub(crate) fn name_file(
        &mut self,
        file: FileKey,
        birth: Option<NonZeroU64>,
        bytes: Option<u64>,
        path: &str,
    ) {
        let before = self.paths.get(&file);
        let is_another = match (self.births.get(&file), birth) {
            (Some(&one), Some(other)) => one != other,
            (Some(_), None) => false,
            (None, _) => before.is_some_and(|before| before.path != path),
        };
        if is_another || before.is_none() {
            let ordinal = if path.starts_with('/') {
                let files = self.files_at.entry(path.to_owned()).or_default();
                *files += 1;
                *files
            } else {
                1
            };
            self.paths.insert(file, FilePath { path: path.to_owned(), ordinal });
        }
        if let Some(birth) = birth {
            self.births.insert(file, birth);
        }
        if is_another {
            self.segments.remove(&file);
            self.files.remove(&(file, false));
            self.files.remove(&(file, true));
            self.bytes.remove(&file);
        }
        if let Some(bytes) = bytes {
            self.bytes.entry(file).or_insert(bytes);
        }
    }

    /// Returns the segment that maps a file.
    pub(crate) fn file_segment(&mut self, file: FileKey) -> u64 {
        if let Some(&segment) = self.segments.get(&file) {
            return segment;
        }
        let known = self.paths.get(&file);
        let path = known.map(|known| known.path.as_str());
        // Valgrind maps a page of its own code into programs. The trace does not hold the path of the
        // recorder's file.
        if path.is_some_and(|path| path.ends_with(RECORDER)) {
            let segment = self.new_segment(None, "valgrind");
            self.segments.insert(file, segment);
            return segment;
        }
        let (name, kind) = (known.map(FilePath::name), path.map_or("file", kind_of));
        let segment = self.new_segment(name, kind);
        self.segments.insert(file, segment);
        segment
    }

    /// Returns the segment of a System V shared memory, by its identifier.
    pub(crate) fn shared_memory(&mut self, id: u64) -> u64 {
        if let Some(&segment) = self.shared_memory.get(&id) {
            return segment;
        }
        let segment = self.new_segment(None, "shared memory");
        self.shared_memory.insert(id, segment);
        segment
    }

    /// Makes a new segment.
    pub(crate) fn new_segment(&mut self, file: Option<String>, kind: &str) -> u64 {
        self.next_segment += 1;
        let what = SegmentMeta { file, kind: Some(kind.to_owned()) };
        self.meta.segments.insert(self.next_segment, what);
        self.next_segment
    }

    /// Returns the number of a file whose bytes a system call moves. A file has two numbers if some calls on it are
    /// direct and others are not.
    pub(crate) fn file(&mut self, file: FileKey, is_direct: bool) -> u64 {
        if let Some(&id) = self.files.get(&(file, is_direct)) {
            return id;
        }
        let id = self.meta.files.len() as u64 + 1;
        self.files.insert((file, is_direct), id);
        if is_direct {
            self.meta.direct_files.insert(id);
        }
        self.meta.files.insert(id, self.paths.get(&file).map(FilePath::name).unwrap_or_default());
        if let Some(&bytes) = self.bytes.get(&file) {
            self.meta.file_bytes.insert(id, bytes);
        }
        id
    }

    /// Writes the segments and files into a trace's metadata.
    pub(crate) fn write_to(&self, meta: &mut Meta) {
        meta.segments.clone_from(&self.meta.segments);
        meta.files.clone_from(&self.meta.files);
        meta.file_bytes.clone_from(&self.meta.file_bytes);
        meta.direct_files.clone_from(&self.meta.direct_files);
    }
}

/// Returns the kind of a mapped file, by its name.
fn kind_of(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.ends_with(".so") || name.contains(".so.") { "library" } else { "file" }
}
