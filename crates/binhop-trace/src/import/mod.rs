//! Importers read foreign trace formats. Each format has a file or a directory of its own.
//!
//! [`FORMATS`] is the list of formats. `import --format`, the help, the documentation and the tests use it. A
//! new format is a file with its grammar and a line in the list.
//!
//! An importer is a [`Source`]: it streams in constant memory, into a simulation or into a file.

mod fields;
mod lines;
pub mod rows;

use binhop_base::{Problem, Result};

use std::path::Path;

use crate::input::open::cannot_open;
use crate::input::{Input, PACKINGS};
use crate::placements::{Placements, v2p};
use crate::source::Source;

/// `Importer` is a source that reads a foreign format.
///
/// An importer learns some metadata from the events: process ids, a command line, whether every size was
/// given. [`Source::meta`] holds them once `next_batch` has returned `None`, and cautious answers before.
pub trait Importer: Source {
    /// Returns what was skipped or assumed: a sentence for each, with its count. It is complete once the
    /// input has ended.
    fn notes(&self) -> Vec<String>;

    /// Returns the number of references read so far, which [`Importer::notes`] refer to. An input is read in
    /// blocks, so this may exceed the references of the returned batches.
    fn references(&self) -> u64;

    /// Returns the identity of the file and of its state, if it is a regular file. Of several files, this
    /// returns all identities.
    fn identity(&self) -> Option<String>;

    /// Returns the frames of the pages at the time of recording, if the trace tells. It is complete once the
    /// input has ended.
    fn placement(&self) -> Option<&Placements> {
        None
    }
}

/// The result of opening a foreign trace.
pub type OpenedTrace = Result<Box<dyn Importer>>;

/// `Format` is a foreign format that is read.
#[derive(Debug)]
pub struct Format {
    /// The name of the format for `--format`.
    pub name: &'static str,
    /// A description of the format.
    pub what: &'static str,
    /// The smallest trace: a line, or a record and what must surround it. It becomes one row.
    pub example: &'static [u8],
    /// What an import loses or assumes.
    pub lost: &'static str,
    /// The file name extensions of the format, without those of compression.
    pub extensions: &'static [&'static str],
    /// Starts reading an input.
    pub open: fn(Input) -> OpenedTrace,
    /// Starts reading a directory, if a trace of this format may be a directory.
    pub directory: Option<fn(&Path) -> OpenedTrace>,
}

macro_rules! formats {
    ($($module:ident: $($format:ident),+;)*) => {
        $(mod $module;)*

        /// Every format.
        pub const FORMATS: &[Format] = &[$($($module::$format,)+)*];
    };
}

// A line names the file of a format, and its entry or entries.
formats! {
    din: FORMAT;
    xdin: FORMAT;
    lackey: FORMAT;
    text: FORMAT;
    drmemtrace: FORMAT;
    champsim: FORMAT, CLOUDSUITE;
}

/// Returns the format of this name.
///
/// # Errors
/// No format has this name. The error lists all names.
pub fn format(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        Problem::request(name, "--format", "there is no such format", &format!("take one of {}", names()))
    })
}

/// Returns the format that the name of a file tells (`x.din`, `x.din.xz`). For a directory, this is the
/// format whose traces may be directories.
#[must_use]
pub fn format_of_path(path: &str) -> Option<&'static Format> {
    if Path::new(path).is_dir() {
        return FORMATS.iter().find(|format| format.directory.is_some());
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    // The extension of the compression follows the extension of the format.
    let packed = |part: &str| PACKINGS.iter().any(|(_, extension)| *extension == part);
    let mut parts = name.rsplit('.').filter(|part| !packed(part));
    let extension = parts.next()?;
    parts.next()?;
    FORMATS.iter().find(|format| format.extensions.contains(&extension))
}

/// Opens a foreign trace: a file, a directory, or `-` for the standard input. Without the name of a format,
/// the path decides the format.
///
/// # Errors
/// The file does not exist, the format is unknown, the path does not tell the format, or the input cannot be
/// opened.
pub fn open(path: &str, format_name: Option<&str>) -> OpenedTrace {
    let chosen = match format_name {
        Some(name) => format(name)?,
        None => format_of_path(path).ok_or_else(|| no_format(path))?,
    };
    match chosen.directory {
        Some(directory) if Path::new(path).is_dir() => directory(Path::new(path)),
        _ => (chosen.open)(Input::open(path)?),
    }
}

/// Returns the problem of a path that does not tell its format.
fn no_format(path: &str) -> Box<Problem> {
    if path != "-"
        && let Err(error) = std::fs::metadata(path)
    {
        return cannot_open(path, &error);
    }
    if v2p::is_map(path) {
        let rule = "is a map of virtual to physical addresses, not a trace";
        let remedy = "give it to a simulation, with its trace: `binhop run MACHINE TRACE --v2p FILE`, or `binhop compare`";
        return Problem::request(path, "", rule, remedy);
    }
    let remedy = format!("say --format, one of {}", names());
    Problem::request(path, "", "its name does not tell the format", &remedy)
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}
