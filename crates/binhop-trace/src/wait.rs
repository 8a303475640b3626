//! Waits for input that may never come.
//!
//! A pipe, a terminal or a FIFO may be silent forever, and a blocked `read` does not notice signals. So input
//! that is no regular file is waited for in steps of [`STEP_MS`]. Between steps the waiting thread asks
//! whether it is still wanted. A thread that works ahead for another thread asks its own `Flag`. Every other
//! thread asks the program's hook ([`set_hook`], Python's signals). An error of either ends the wait. A FIFO
//! is opened without waiting for its writer, then waited for in the same way.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use binhop_base::{Problem, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::input::cannot_open;
use crate::steady::{Forward, Identity, Steady};

/// The length of a step in milliseconds. A wait goes on this long after Ctrl-C.
pub const STEP_MS: u64 = 100;

static HOOK: OnceLock<fn() -> Result<()>> = OnceLock::new();

thread_local! {
    static FLAG: RefCell<Option<Flag>> = const { RefCell::new(None) };
}

/// Sets the hook that a waiting thread calls, once for the program. An error of the hook ends the wait.
pub fn set_hook(hook: fn() -> Result<()>) {
    let _ = HOOK.set(hook);
}

/// `Flag` tells a thread that nothing waits for its input any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Makes the calling thread ask this flag from now on, in place of the hook.
    pub(crate) fn adopt(&self) {
        FLAG.set(Some(self.clone()));
    }

    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns without error if the calling thread may go on waiting.
///
/// # Errors
/// The thread's flag is raised, or the hook has an error.
pub fn check() -> Result<()> {
    let own = FLAG.with_borrow(|flag| flag.as_ref().map(|flag| flag.0.load(Ordering::Relaxed)));
    match (own, HOOK.get()) {
        (Some(true), _) => Err(Problem::interrupted()),
        (None, Some(hook)) => hook(),
        _ => Ok(()),
    }
}

/// A file opened for reading from front to end, and its identity if it is a regular file.
pub(crate) type Opened = (Box<dyn Read + Send>, Option<Identity>);

/// Opens a file, a FIFO or a device.
///
/// # Errors
/// The file does not exist, may not be read, or is a directory.
pub(crate) fn open(path: &str) -> Result<Opened> {
    let opened = open_any(path).map_err(|error| cannot_open(path, &error))?;
    if Path::new(path).is_dir() {
        return Err(Problem::request(path, "", "is a directory, and a file is read here", "name the file"));
    }
    Ok(opened)
}

fn open_any(path: &str) -> io::Result<Opened> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    readable(OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?, path)
}

/// Opens the standard input.
pub(crate) fn standard_input() -> io::Result<Opened> {
    readable(io::stdin().as_fd().try_clone_to_owned()?.into(), "standard input")
}

fn readable(file: File, place: &str) -> io::Result<Opened> {
    // The standard input may have been read before, so reading continues at its current position.
    if !file.metadata()?.is_file() || place == "standard input" {
        return Ok((Box::new(Patient(file)), None));
    }
    let steady = Steady::new(file)?;
    let identity = steady.identity().clone();
    Ok((Box::new(Forward::new(steady, place)), Some(identity)))
}

/// `Patient` reads a file that may be silent.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = Timespec { tv_sec: 0, tv_nsec: (STEP_MS * 1_000_000) as _ };
        loop {
            let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&step));
            match ready {
                Ok(0) | Err(rustix::io::Errno::INTR) => check().map_err(io::Error::other)?,
                // A file that cannot be polled is read directly.
                _ => match self.0.read(buffer) {
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        check().map_err(io::Error::other)?;
                    }
                    read => return read,
                },
            }
        }
    }
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
        return Err(inner(&error).unwrap_or_else(|| wrong(&format!("cannot be read: {error}"))));
    }
    if bytes.len() > LONGEST_TEXT {
        return Err(wrong(&format!("is longer than {} MiB: it is no {what}", LONGEST_TEXT >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| wrong("is no text in UTF-8"))
}

/// Returns the problem that a reading error carries: an ended wait, or a changed file.
pub(crate) fn inner(error: &io::Error) -> Option<Box<Problem>> {
    error.get_ref()?.downcast_ref::<Box<Problem>>().cloned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    fn pipe() -> (File, File) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (reader.into(), writer.into())
    }

    /// A silent pipe is waited for in steps. A raised flag ends the wait at the next step.
    #[test]
    fn a_raised_flag_ends_the_wait() {
        let (reader, writer) = pipe();
        let flag = Flag::default();
        let its = flag.clone();
        let waiting = thread::spawn(move || {
            its.adopt();
            Patient(reader).read(&mut [0; 8]).unwrap_err()
        });
        flag.raise();
        let error = waiting.join().unwrap();
        assert_eq!(inner(&error).unwrap(), Problem::interrupted());
        drop(writer);
    }

    #[test]
    fn the_hook_is_asked_at_each_step_and_ends_the_wait() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        set_hook(|| match ASKED.fetch_add(1, Ordering::Relaxed) {
            0..2 => Ok(()),
            _ => Err(Problem::interrupted()),
        });
        let (reader, mut writer) = pipe();
        writer.write_all(b"now").unwrap();
        let mut patient = Patient(reader);
        let mut buffer = [0; 8];
        assert_eq!(patient.read(&mut buffer).unwrap(), 3);
        assert_eq!(ASKED.load(Ordering::Relaxed), 0, "what is there is not waited for");
        assert!(inner(&patient.read(&mut buffer).unwrap_err()).is_some());
        assert_eq!(ASKED.load(Ordering::Relaxed), 3);
        drop(writer);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0, "the writer has gone");
    }

    #[test]
    fn a_text_is_of_bounded_length() {
        let problem = read_text("/dev/zero", "machine", "name another").unwrap_err();
        assert_eq!((&*problem.value, &*problem.place), ("/dev/zero", "machine"));
        assert_eq!(problem.rule, "is longer than 16 MiB: it is no machine");
        assert_eq!(read_text("/dev/null", "machine", "name another").unwrap(), "");
        let missing = read_text("/no/such", "study", "name another").unwrap_err();
        assert!(missing.rule.starts_with("cannot be read: No such file"), "{missing}");
    }
}
