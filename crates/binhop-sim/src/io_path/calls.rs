//! `Call` reads a system call that moves data from the rows of a trace.

use std::collections::BTreeMap;

use binhop_base::{Problem, Result};
use binhop_os::io::IoPath;
use binhop_trace::Meta;
use binhop_trace::event::{Event, range_kinds};

use super::mappings::is_elsewhere;

/// `Object` is the kind of the object that a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    File,
    Socket,
    Pipe,
    /// A terminal, a device, a file in memory (`/memfd:`), or another object without data on the path.
    Other,
}

/// Returns the kind of each object that a trace names. Linux names sockets and pipes by their kind.
pub(super) fn objects(meta: &Meta) -> BTreeMap<u64, Object> {
    let kind = |path: &str| match path {
        _ if path.starts_with("socket:") => Object::Socket,
        _ if path.starts_with("pipe:") => Object::Pipe,
        _ if path.starts_with("anon_inode:") || is_elsewhere(path) => Object::Other,
        _ => Object::File,
    };
    meta.files.iter().map(|(&id, path)| (id, kind(path))).collect()
}

/// `Ranges` says which ranges of a call are buffers with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranges {
    /// The main range alone. Other ranges are headers and addresses.
    Main,
    /// The main range and the further buffers of messages. Other ranges are headers and addresses.
    Messages,
    /// All ranges that the kernel has written.
    Written,
    /// The main range, and the ranges that the kernel has read, except the first of them, which is the list of the
    /// buffers.
    AllButList,
    /// All ranges except the first range that the kernel has read, which is the list of the buffers.
    AllButFirstRead,
}

/// `CallTable` names the system calls of a system that move data.
#[derive(Debug)]
pub(super) struct CallTable {
    system: &'static str,
    /// The calls of a process and an object: the number, whether the call reads, and its buffers.
    calls: &'static [(u32, bool, Ranges)],
    /// The calls that move data between two objects.
    between: &'static [u32],
    /// The call that copies the data of a pipe to another pipe.
    tee: Option<u32>,
    /// The call that moves the user's memory into a pipe, or a pipe's data into the user's memory.
    user_pipe: Option<u32>,
    /// The calls that write the dirty pages of a file to the disk.
    syncs_file: &'static [u32],
    /// The calls that write all dirty pages to the disk.
    syncs: &'static [u32],
    /// The calls that write the dirty pages of a range of mappings to the disk.
    syncs_range: &'static [u32],
    /// The calls that copy between the user and another process, whose side has no address in the process that calls.
    between_processes: &'static [u32],
    /// The calls that start transfers, of which a trace does not say what they move.
    unknown: &'static [u32],
    /// The calls that give a file a length, and the calls that delete a file.
    cuts: &'static [u32],
    deletes: &'static [u32],
}

impl CallTable {
    /// Returns the table of the system whose calls a trace holds.
    ///
    /// # Errors
    /// The system is unknown, or the trace holds the calls of several systems.
    pub(super) fn of(meta: &Meta, trace: &str) -> Result<&'static Self> {
        const TABLES: &[CallTable] = &[LINUX, BSD];
        let system = meta.call_system();
        TABLES.iter().find(|table| table.system == system).ok_or_else(|| {
            let known: Vec<&str> = TABLES.iter().map(|table| table.system).collect();
            Problem::request(
                system,
                &format!("{trace}: system_calls in the metadata"),
                &format!(
                    "the path of device data reads the system calls of one system: {}",
                    known.join(", ")
                ),
                "name one of them, or leave the path out: --no-path",
            )
        })
    }
}

const LINUX: CallTable = CallTable {
    system: Meta::LINUX,
    calls: &LINUX_CALLS,
    // sendfile, splice and copy_file_range
    between: &[40, 275, 326],
    tee: Some(276),
    // vmsplice
    user_pipe: Some(278),
    // fsync and fdatasync
    syncs_file: &[74, 75],
    // sync, and syncfs, as if there were one file system
    syncs: &[162, 306],
    // msync
    syncs_range: &[26],
    // process_vm_readv and process_vm_writev
    between_processes: &[310, 311],
    // io_submit and io_uring_enter
    unknown: &[209, 426],
    // truncate and ftruncate; open, openat, openat2 and creat, where they cut the file
    cuts: &[76, 77, 2, 257, 437, 85],
    // unlink and unlinkat; rename, renameat and renameat2, for the file whose name another file takes
    deletes: &[87, 263, 82, 264, 316],
};

/// 4.3BSD has no call that moves data between two objects. Its traces name no file that is cut or deleted.
const BSD: CallTable = CallTable {
    system: Meta::BSD,
    calls: &BSD_CALLS,
    between: &[],
    tee: None,
    user_pipe: None,
    syncs_file: &[95],
    syncs: &[36],
    syncs_range: &[],
    between_processes: &[],
    unknown: &[],
    cuts: &[],
    deletes: &[],
};

const BSD_CALLS: [(u32, bool, Ranges); 10] = [
    (3, true, Ranges::Main),          // read
    (120, true, Ranges::Written),     // readv
    (102, true, Ranges::Main),        // recv
    (113, true, Ranges::Main),        // recvmsg
    (125, true, Ranges::Main),        // recvfrom
    (4, false, Ranges::Main),         // write
    (121, false, Ranges::AllButList), // writev
    (101, false, Ranges::Main),       // send
    (114, false, Ranges::Main),       // sendmsg
    (133, false, Ranges::Main),       // sendto
];

const LINUX_CALLS: [(u32, bool, Ranges); 16] = [
    (0, true, Ranges::Main),          // read
    (17, true, Ranges::Main),         // pread64
    (19, true, Ranges::Written),      // readv
    (295, true, Ranges::Written),     // preadv
    (327, true, Ranges::Written),     // preadv2
    (45, true, Ranges::Main),         // recvfrom
    (47, true, Ranges::Messages),     // recvmsg
    (299, true, Ranges::Messages),    // recvmmsg
    (1, false, Ranges::Main),         // write
    (18, false, Ranges::Main),        // pwrite64
    (20, false, Ranges::AllButList),  // writev
    (296, false, Ranges::AllButList), // pwritev
    (328, false, Ranges::AllButList), // pwritev2
    (44, false, Ranges::Main),        // sendto
    (46, false, Ranges::Messages),    // sendmsg
    (307, false, Ranges::Messages),   // sendmmsg
];

/// `Moves` says from where to where a call moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    /// The call moves bytes from the object to the user.
    ToUser,
    /// The call moves bytes from the user to the object.
    FromUser,
    /// The call moves bytes from the object to another object.
    Between,
    /// The call copies bytes to another pipe. The bytes stay in the first pipe, too.
    Tee,
    /// The call moves bytes from the user to a pipe, its target. Without a target it moves bytes from a pipe, its
    /// object, to the user.
    UserPipe,
    /// The call writes the dirty pages of the object to the disk.
    FileToDisk,
    /// The call writes all dirty pages to the disk.
    AllToDisk,
    /// The call writes the dirty pages behind a range of the user's memory to the disk.
    RangeToDisk,
    /// The call moves bytes between the user and another process.
    OtherProcess,
    /// The call starts transfers that the trace does not describe.
    Unknown,
    /// The call moves no bytes: it sets the file's length to the offset.
    Cut,
    /// The call moves no bytes: it deletes the file.
    Delete,
}

/// `CallTarget` is what a call between two objects writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallTarget {
    pub(super) object: Option<u64>,
    pub(super) offset: Option<u64>,
    pub(super) bytes: u64,
}

/// `Call` is a system call that moves data of an object.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) moves: Moves,
    /// The object that a call between two objects writes to, if the trace names it. A call that moved nothing names no
    /// target.
    pub(super) target: Option<CallTarget>,
    /// The number of the file, socket or pipe.
    pub(super) object: Option<u64>,
    pub(super) offset: Option<u64>,
    /// The bytes of the main range.
    bytes: u32,
    buffers: Ranges,
    has_list: bool,
    pieces: Vec<(u64, u32)>,
}

impl Call {
    /// Returns the call of a row; `None` if it moves no data.
    pub(super) fn of(event: &Event, table: &CallTable) -> Option<Self> {
        let known = table.calls.iter().find(|&&(number, ..)| number == event.count);
        let (moves, buffers) = match known {
            Some(&(_, true, buffers)) => (Moves::ToUser, buffers),
            Some(&(_, false, buffers)) => (Moves::FromUser, buffers),
            None if table.between.contains(&event.count) => (Moves::Between, Ranges::Main),
            None if table.tee == Some(event.count) => (Moves::Tee, Ranges::Main),
            None if table.user_pipe == Some(event.count) => (Moves::UserPipe, Ranges::AllButFirstRead),
            None if table.syncs_file.contains(&event.count) => (Moves::FileToDisk, Ranges::Main),
            None if table.syncs.contains(&event.count) => (Moves::AllToDisk, Ranges::Main),
            None if table.syncs_range.contains(&event.count) => (Moves::RangeToDisk, Ranges::Main),
            None if table.between_processes.contains(&event.count) => (Moves::OtherProcess, Ranges::Main),
            None if table.unknown.contains(&event.count) => (Moves::Unknown, Ranges::Main),
            None if table.cuts.contains(&event.count) => (Moves::Cut, Ranges::Main),
            None if table.deletes.contains(&event.count) => (Moves::Delete, Ranges::Main),
            None => return None,
        };
        let main = (event.addr, event.size);
        let has_buffer =
            matches!(moves, Moves::ToUser | Moves::FromUser | Moves::UserPipe | Moves::RangeToDisk);
        let pieces = if event.size > 0 && has_buffer { vec![main] } else { vec![] };
        let (object, offset, bytes) = (event.arg0, event.arg1, event.size);
        Some(Self { moves, target: None, object, offset, bytes, buffers, has_list: false, pieces })
    }

    /// Adds a further range of the call.
    pub(super) fn add_range(&mut self, event: &Event) {
        let Event { addr: start, size: bytes, count: mode, arg0: object, arg1: offset, .. } = *event;
        if mode == range_kinds::TARGET {
            self.target = Some(CallTarget { object, offset, bytes: bytes.into() });
            return;
        }
        let is_data = match self.buffers {
            Ranges::Main => false,
            Ranges::Messages => matches!(mode, range_kinds::SENT | range_kinds::RECEIVED),
            Ranges::Written => mode == range_kinds::WRITTEN,
            Ranges::AllButList => mode == range_kinds::READ && std::mem::replace(&mut self.has_list, true),
            Ranges::AllButFirstRead => {
                mode == range_kinds::WRITTEN || std::mem::replace(&mut self.has_list, true)
            }
        };
        if is_data && bytes > 0 {
            self.pieces.push((start, bytes));
        }
    }

    /// Returns whether the trace does not say what a call moves. For example, an importer may know only the number of
    /// the call. `described` says that a call without object and without bytes has failed
    /// ([`Meta::describes_calls`]).
    pub(super) fn is_unknown(&self, described: bool) -> bool {
        let is_bare = self.object.is_none() && self.target.is_none() && self.pieces.is_empty();
        match self.moves {
            Moves::Unknown => true,
            Moves::OtherProcess => self.bytes > 0 || !described,
            Moves::FileToDisk => self.object.is_none() && !described,
            Moves::Between | Moves::Tee => self.target.is_none() && self.object.is_none() && !described,
            Moves::ToUser | Moves::FromUser | Moves::UserPipe => is_bare && !described,
            Moves::AllToDisk | Moves::RangeToDisk | Moves::Cut | Moves::Delete => false,
        }
    }

    /// Returns the buffers: the first byte and the length of each.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, u32)> {
        self.pieces.iter().copied()
    }

    /// Returns the number of buffers before the first buffer that the path cannot move, because the buffer or the part
    /// of the object ends behind byte [`IoPath::LARGEST`]. `in_file` says that each buffer moves the offset on.
    pub(super) fn movable(&self, in_file: bool) -> usize {
        let mut offset = self.offset;
        let is_movable = |&(user, bytes): &(u64, u32)| {
            let ends = |start: u64| start.checked_add(bytes.into()).is_none_or(|end| end > IoPath::LARGEST);
            let fits = !ends(user) && !offset.is_some_and(ends);
            if fits && in_file {
                offset = offset.map(|at| at + u64::from(bytes));
            }
            fits
        };
        self.pieces().take_while(is_movable).count()
    }
}
