//! What a recorded process is made of, as the merge sees it: rows in program order, and the points where
//! another process may run.

use binhop_base::Result;
use binhop_trace::EventBatch;
use binhop_trace::event::Cause;

/// A piece of a process's stream, in the order in which its threads ran.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most pieces are rows, and few pieces exist at a time")]
pub enum Piece {
    /// Rows in final form: references, system calls with their ranges, mappings of the running thread. Never a
    /// switch, fork, exec or exit: those are the merge's.
    Rows(EventBatch),
    /// The running thread enters a system call.
    Enter {
        /// The thread.
        tid: u32,
        /// The call's number.
        number: u32,
        /// What it may wait for: [`crate::schedule::calls::waits`] tells by number and arguments.
        waits: WaitsFor,
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
    },
    /// A thread's system call returns to it. What it moved and mapped follows in rows.
    Leave {
        /// The thread.
        tid: u32,
        /// The call's number.
        number: u32,
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
        /// What the call returned; negative: an error's number.
        result: i64,
    },
    /// All before here was done by this time, and nothing after it was before. Wanted now and then in a long
    /// stretch without a system call, so that others need not wait for its end; may be left out.
    Time {
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
    },
    /// From here another thread of the process runs.
    Thread {
        /// The thread.
        tid: u32,
        /// Why the one before it left the processor.
        cause: Cause,
        /// The number of the call it left in, if it left in one.
        number: Option<u32>,
    },
    /// A child process was made.
    Fork {
        /// Its process id.
        child: u64,
    },
    /// From here another program runs in this process: all its mappings have ended.
    Exec {
        /// The program's name.
        command: String,
    },
    /// The process has ended.
    Exit {
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
    },
}

/// What a system call may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// It returns as soon as its work is done.
    Nothing,
    /// A child that ends.
    Child,
    /// Something that another process gives: bytes in a pipe, a connection, a signal, a lock. Even where it returns at
    /// once, what it returns was given before.
    Given,
    /// Room in a pipe, a program that starts, a device: it waited if it took long.
    Room,
}

/// The stream of one process, over every program it runs.
pub trait ProcessStream: Send {
    /// Its process id.
    fn pid(&self) -> u64;
    /// The program it runs now.
    fn command(&self) -> &str;
    /// The next piece; waits until there is one. `None` once the process has ended, or was lost.
    ///
    /// # Errors
    /// What the recorder wrote cannot be understood or read.
    fn next_piece(&mut self) -> Result<Option<Piece>>;
}

/// The processes of one recording.
pub trait ProcessStreams: Send {
    /// The process of the command itself; `None` if it never ran.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>>;
    /// The process that a fork made; waits until it is there. `None` if it never wrote anything.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn child(&mut self, pid: u64) -> Result<Option<Box<dyn ProcessStream>>>;
}
