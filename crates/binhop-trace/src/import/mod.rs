//! Foreign trace formats, one file each.
//!
//! [`FORMATS`] is the list: what `import --format` accepts, what the help and the documentation show and
//! what the tests walk all come from it. To add a format: a file with its grammar, and one line in the list.
//!
//! An importer is a [`Source`]: it streams in constant memory, into a simulation as well as into a file.

mod champsim;
mod din;
mod drmemtrace;
mod fields;
mod lackey;
mod lines;
pub mod rows;
mod text;
mod xdin;

use binhop_base::{Problem, Result};

use std::path::Path;

use crate::input::open::cannot_open;
use crate::input::{Input, PACKINGS};
use crate::placements::{Placements, v2p};
use crate::source::Source;

/// A source that reads a foreign format.
///
/// What it learns on the way (process ids, a command line, whether every size was given) is in
/// [`Source::meta`] only after `next_batch` has returned `None`; before, that holds the cautious answer.
pub trait Importer: Source {
    /// What was skipped or assumed, a sentence each, with its count. Complete once the input has ended.
    fn notes(&self) -> Vec<String>;

    /// References read so far: at least those handed on, since inputs are read in blocks. What [`Importer::notes`] count.
    fn references(&self) -> u64;

    /// Returns the identity of the file that is read and of its state, if it is a regular file; of several
    /// files, all identities.
    fn identity(&self) -> Option<String>;

    /// The frames that pages had when they were recorded, if the trace tells. Complete once the input has ended.
    fn placement(&self) -> Option<&Placements> {
        None
    }
}

/// What opening a foreign trace gives.
pub type OpenedTrace = Result<Box<dyn Importer>>;

/// A foreign format.
#[derive(Debug)]
pub struct Format {
    /// What `--format` calls it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The smallest piece of it: a line, or a record with what must stand around it.
    pub example: &'static [u8],
    /// What is lost or assumed in importing it.
    pub lost: &'static str,
    /// File name extensions that mean it, before any of compression.
    pub extensions: &'static [&'static str],
    /// Starts reading.
    pub open: fn(Input) -> OpenedTrace,
    /// Starts reading a directory, where a trace may be one.
    pub directory: Option<fn(&Path) -> OpenedTrace>,
}

/// Every format.
pub const FORMATS: &[Format] = &[
    din::FORMAT,
    xdin::FORMAT,
    lackey::FORMAT,
    text::FORMAT,
    drmemtrace::FORMAT,
    champsim::FORMAT,
    champsim::CLOUDSUITE,
];

/// The format of this name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn format(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        Problem::request(name, "--format", "there is no such format", &format!("take one of {}", names()))
    })
}

/// The format that a file's name tells: `x.din`, `x.din.xz`; of a directory, the one whose traces may be one.
#[must_use]
pub fn format_of_path(path: &str) -> Option<&'static Format> {
    if Path::new(path).is_dir() {
        return FORMATS.iter().find(|format| format.directory.is_some());
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    // Extensions of compressed files come after the format's own.
    let packed = |part: &str| PACKINGS.iter().any(|(_, extension)| *extension == part);
    let mut parts = name.rsplit('.').filter(|part| !packed(part));
    let extension = parts.next()?;
    parts.next()?;
    FORMATS.iter().find(|format| format.extensions.contains(&extension))
}

/// Opens a foreign trace: the path of a file or a directory, or `-`, in the named format or the one its name tells.
///
/// # Errors
/// There is no such file; the format is unknown or cannot be told; the input cannot be opened.
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

/// Why the format of a path is not known.
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
