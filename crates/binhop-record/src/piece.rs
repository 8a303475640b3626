//! `Piece` is what the merge reads of a recorded process's stream: rows in program order, or an event between
//! them at which another process may run.

use binhop_base::Result;
use binhop_trace::EventBatch;
use binhop_trace::event::Cause;

/// `Piece` is a piece of a process's stream. The pieces are in the order in which the process's threads ran.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most pieces are rows, and few pieces exist at a time")]
pub enum Piece {
    /// Rows in final form: references, system calls with their ranges, and mappings of the running thread.
    /// Switches, forks, execs and exits are not among them: the merge makes these rows.
    Rows(EventBatch),
    /// The running thread enters a system call.
    Enter {
        /// The thread.
        tid: u32,
        /// The call's number.
        number: u32,
        /// What the call may wait for; [`crate::schedule::calls::waits`] decides by number and arguments.
        waits: WaitsFor,
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
    },
    /// A system call returns to its thread. Rows follow for the memory that the call moved and mapped.
    Leave {
        /// The thread.
        tid: u32,
        /// The call's number.
        number: u32,
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
        /// The call's result; a negative result is an error's number.
        result: i64,
    },
    /// Everything before this piece was done by this time, and everything after the piece is done later. In a long span
    /// without a system call such pieces let other processes go on before the span ends. A stream may lack such pieces.
    Time {
        /// Nanoseconds on the recorder's monotonic clock.
        time: u64,
    },
    /// From here another thread of the process runs.
    Thread {
        /// The thread.
        tid: u32,
        /// Why the thread before it left the processor.
        cause: Cause,
        /// The number of the call in which the thread before it left, if it left in a call.
        number: Option<u32>,
    },
    /// A child process was forked.
    Fork {
        /// Its process id.
        child: u64,
    },
    /// From here another program runs in this process. All mappings of the old program have ended.
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

/// `WaitsFor` says what a system call may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The call returns as soon as its work is done.
    Nothing,
    /// A child that ends.
    Child,
    /// Something that another process gives: bytes in a pipe, a connection, a signal, a lock. Even if the
    /// call returns at once, the other process gave it before.
    Given,
    /// Room in a pipe, a program that starts, or a device. The call waited if it took long.
    Room,
}

/// `ProcessStream` is the stream of one process, over every program that the process runs.
pub trait ProcessStream: Send {
    /// Returns the process id.
    fn pid(&self) -> u64;
    /// Returns the name of the program that runs now.
    fn command(&self) -> &str;
    /// Returns the next piece, and waits until there is one. `None` once the process has ended, or was lost.
    ///
    /// # Errors
    /// The recorder's words cannot be read or decoded.
    fn next_piece(&mut self) -> Result<Option<Piece>>;
}

/// `ProcessStreams` gives the streams of a recording's processes.
pub trait ProcessStreams: Send {
    /// Returns the stream of the command's own process; `None` if the command never ran.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>>;
    /// Returns the stream of a forked process, and waits until there is one. `None` if the process never
    /// wrote anything.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn child(&mut self, pid: u64) -> Result<Option<Box<dyn ProcessStream>>>;
}
