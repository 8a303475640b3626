//! `open` opens files, FIFOs, devices and the standard input for reading from front to end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use binhop_base::{Problem, Result};
use rustix::fs::OFlags;

use crate::disk::{FileIdentity, Forward, Steady};
use crate::wait::{self, Patient};

/// The system's error number for too many open files of a process (EMFILE).
pub(crate) const TOO_MANY_OPEN: i32 = 24;
/// The remedy for too many open files.
pub(crate) const RAISE_THE_LIMIT: &str = "raise the limit of open files: `ulimit -n 65536`";

/// Returns the problem of a file that cannot be opened.
pub(crate) fn cannot_open(path: &str, error: &io::Error) -> Box<Problem> {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "check the path; `-` reads standard input",
        io::ErrorKind::PermissionDenied => "make it readable for you",
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN) => RAISE_THE_LIMIT,
        _ => "check the path and the disk",
    };
    Problem::request(path, "", &format!("cannot be opened ({error})"), remedy)
}

/// A file opened for reading from front to end, and its identity if it is a regular file.
pub(crate) type OpenedFile = (Box<dyn Read + Send>, Option<FileIdentity>);

/// Opens a file, a FIFO or a device.
///
/// # Errors
/// The file does not exist, may not be read, or is a directory.
pub(crate) fn open(path: &str) -> Result<OpenedFile> {
    let opened = open_any(path).map_err(|error| cannot_open(path, &error))?;
    if Path::new(path).is_dir() {
        return Err(Problem::request(path, "", "is a directory, and a file is read here", "name the file"));
    }
    Ok(opened)
}

fn open_any(path: &str) -> io::Result<OpenedFile> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    readable(OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?, path)
}

/// Opens the standard input.
pub(crate) fn standard_input() -> io::Result<OpenedFile> {
    readable(io::stdin().as_fd().try_clone_to_owned()?.into(), "standard input")
}

fn readable(file: File, place: &str) -> io::Result<OpenedFile> {
    // The standard input may have been read before, so reading continues at its current position.
    if !file.metadata()?.is_file() || place == "standard input" {
        return Ok((Box::new(Patient(file)), None));
    }
    let steady = Steady::new(file)?;
    let identity = steady.identity().clone();
    Ok((Box::new(Forward::new(steady, place)), Some(identity)))
}

/// The most bytes of a text that a person writes: a machine, a study.
pub const LONGEST_TEXT: usize = 16 << 20;

/// Reads a text that a person wrote. Errors call it `what` and advise `remedy`.
///
/// # Errors
/// The text cannot be opened or read, is longer than [`LONGEST_TEXT`], or is no UTF-8, or the wait was ended.
pub fn read_text(path: &str, what: &str, remedy: &str) -> Result<String> {
    let wrong = |rule: &str| Problem::request(path, what, rule, remedy);
    let mut bytes = Vec::new();
    let read =
        open_any(path).and_then(|(text, _)| text.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(wait::inner(&error).unwrap_or_else(|| wrong(&format!("cannot be read: {error}"))));
    }
    if bytes.len() > LONGEST_TEXT {
        return Err(wrong(&format!("is longer than {} MiB: it is no {what}", LONGEST_TEXT >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| wrong("is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_largest_length() {
        let problem = read_text("/dev/zero", "machine", "name another").unwrap_err();
        assert_eq!((&*problem.value, &*problem.place), ("/dev/zero", "machine"));
        assert_eq!(problem.rule, "is longer than 16 MiB: it is no machine");
        assert_eq!(read_text("/dev/null", "machine", "name another").unwrap(), "");
        let missing = read_text("/no/such", "study", "name another").unwrap_err();
        assert!(missing.rule.starts_with("cannot be read: No such file"), "{missing}");
    }
}
