//! `find` finds the files of a trace in a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use binhop_base::{Problem, Result};

/// `TraceFiles` holds the files of a trace, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct TraceFiles {
    /// The files with records.
    pub(super) files: Vec<ShardFile>,
    /// The number of files that are no part of the trace: schedules, lists of modules and functions.
    pub(super) others: u64,
    /// A map of virtual to physical addresses in the same directory.
    pub(super) map: Option<PathBuf>,
}

/// `ShardFile` is a file of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardFile {
    pub(super) path: PathBuf,
    /// The number and the command of the process, if the name `drmemtrace.COMMAND.PID.….dir` tells them.
    pub(super) process: Option<(u64, String)>,
}

/// Returns whether a file with this name holds records: `.trace` or `.memtrace`, and perhaps a packing.
fn is_trace(name: &str) -> bool {
    let mut parts = name.split('.').rev();
    let packed = |part: &&str| crate::input::PACKINGS.iter().any(|(_, extension)| extension == part);
    let last = parts.by_ref().find(|part| !packed(part));
    matches!(last, Some("trace" | "memtrace")) && !name.starts_with('.')
}

/// Finds the files in a directory, in its `trace/`, or in the `drmemtrace.*.dir` of several processes.
///
/// # Errors
/// There is no file with records, the trace is raw, or a directory cannot be read.
pub(super) fn find(path: &Path) -> Result<TraceFiles> {
    let mut files = TraceFiles::default();
    gather(path, &mut files)?;
    if files.files.is_empty() {
        let mut inner = path.join("trace");
        if inner.is_dir() {
            gather(&inner, &mut files)?;
        } else {
            inner = path.to_owned();
            for directory in entries(path)?.into_iter().filter(|entry| is_process(entry)) {
                gather(&directory.join("trace"), &mut files)?;
            }
        }
        if files.files.is_empty() {
            return Err(nothing(path, &inner));
        }
    }
    files.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |error: io::Error| {
        let rule = format!("the directory cannot be read ({error})");
        Problem::request(
            &path.display().to_string(),
            "",
            &rule,
            "check the path, and make it readable for you",
        )
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        entries.push(entry.map_err(unreadable)?.path());
    }
    entries.sort();
    Ok(entries)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_process(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with("drmemtrace.") && name.ends_with(".dir") && path.join("trace").is_dir()
}

/// Adds the files of one directory.
fn gather(path: &Path, files: &mut TraceFiles) -> Result<()> {
    let process = process_of(path);
    for entry in entries(path)?.into_iter().filter(|entry| entry.is_file()) {
        let name = name_of(&entry);
        if is_trace(&name) {
            files.files.push(ShardFile { path: entry, process: process.clone() });
        } else if name == "v2p.textproto" {
            files.map = Some(entry);
        } else {
            files.others += 1;
        }
    }
    let map = path.parent().map(|parent| parent.join("aux").join("v2p.textproto"));
    files.map = files.map.take().or(map.filter(|map| map.is_file()));
    Ok(())
}

/// Returns the process and the command that the name of a directory tells:
/// `drmemtrace.COMMAND.PID.NUMBER.dir`, or its `trace/`.
fn process_of(path: &Path) -> Option<(u64, String)> {
    let named = |path: &Path| -> Option<(u64, String)> {
        let name = name_of(path);
        let inner = name.strip_prefix("drmemtrace.")?.strip_suffix(".dir")?;
        let (front, _) = inner.rsplit_once('.')?;
        let (command, pid) = front.rsplit_once('.')?;
        Some((pid.parse().ok()?, command.to_string()))
    };
    named(path).or_else(|| named(path.parent()?))
}

/// Returns the problem of a directory without a trace.
fn nothing(path: &Path, inner: &Path) -> Box<Problem> {
    let place = path.display().to_string();
    let raw = |path: &Path| {
        let here = entries(path).unwrap_or_default();
        here.iter().map(|entry| name_of(entry)).any(|name| name.contains(".raw")) || name_of(path) == "raw"
    };
    if raw(path) || raw(inner) || path.join("raw").is_dir() {
        return Problem::request(
            "raw/",
            &place,
            "the files that drmemtrace wrote while the program ran are no trace yet: they name blocks of code, and only the program's binaries hold the code",
            "convert it where the program and its libraries are: `drraw2trace -indir DIR`, of DynamoRIO; then import DIR/trace",
        );
    }
    Problem::request(
        "no trace file",
        &place,
        "a drmemtrace directory, or its trace/, holds a file for each thread or processor: *.trace, packed or not (.zip, .gz, .lz4), or *.memtrace.sz",
        "name the directory that DynamoRIO made (drmemtrace.COMMAND.PID.NUMBER.dir), or one of its files",
    )
}
