//! `Patient` waits for input that may never come.
//!
//! A pipe, a terminal or a FIFO may be silent forever, and a blocked `read` does not notice signals. So input
//! that is no regular file is waited for in steps of [`STEP_MS`]. Between steps the waiting thread asks
//! whether it is still wanted. A thread that works ahead for another thread asks its own `Flag`. Every other
//! thread asks the program's hook ([`set_hook`], Python's signals). A raised flag or an error of the hook
//! ends the wait. A FIFO is opened without waiting for its writer, then waited for in the same way.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use binhop_base::{Problem, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// `Patient` reads a file that may be silent.
pub(crate) struct Patient(pub(crate) File);

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
        assert_eq!(ASKED.load(Ordering::Relaxed), 0, "data that is there is read without a wait");
        assert!(inner(&patient.read(&mut buffer).unwrap_err()).is_some());
        assert_eq!(ASKED.load(Ordering::Relaxed), 3);
        drop(writer);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0, "the writer has gone");
    }
}
