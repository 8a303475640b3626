//! Events drive a simulation. A batch holds them in columns.
//!
//! A recorder, an importer, a built-in workload and a Polars frame all produce batches of these columns,
//! and the engine reads them without a copy. [`Op`] says what each column means for each operation.

mod batch;
mod builder;
mod row;

pub use batch::{EventBatch, schema};
pub use builder::EventBuilder;
pub use row::Event;

macro_rules! ops {
    ($($name:ident = $code:literal $text:literal, $doc:literal;)*) => {
        /// The operation of an event: the `op` column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op { $(#[doc = $doc] $name = $code,)* }

        impl Op {
            /// Every operation, in order of its code.
            pub const ALL: &'static [Op] = &[$(Op::$name,)*];
            /// Returns the name users see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => $text,)* }
            }
            /// Returns what the columns of an event of this operation hold.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Op::$name => $doc,)* }
            }
            /// Returns the operation with this code.
            #[inline]
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Op::$name),)* _ => None }
            }
        }
    };
}

ops! {
    Fetch = 0 "fetch", "Instructions executed in sequence: addr first byte, size bytes, count instructions.";
    Load = 1 "load", "A load: addr first byte, size bytes, count 1.";
    Store = 2 "store", "A store: addr first byte, size bytes, count 1.";
    Modify = 3 "modify", "A load and a store of the same bytes by one instruction: addr first byte, size bytes, count 1.";
    Switch = 4 "switch", "Another thread runs from here: addr asid, size tid, count cpu, arg0 cause (see Cause), arg1 system call number.";
    Syscall = 5 "syscall", "A system call's main range: addr user buffer, size bytes moved, count number, arg0 file id, arg1 offset.";
    Range = 6 "range", "A further range of the call before it: addr start, size bytes, count 1 if the kernel read it and 2 if it wrote it; 4 if the kernel read a further buffer of a message, 5 if it wrote one. With count 3, the file, socket or pipe to which a call between two files writes: size bytes moved, arg0 file id, arg1 offset.";
    Map = 7 "map", "Pages appear (over a live range they replace it): addr start, size flags, count pages, arg0 segment, arg1 first byte in the segment.";
    Protect = 8 "protect", "Protection changes: addr start, size flags, count pages.";
    Unmap = 9 "unmap", "Pages disappear: addr start, count pages.";
    Fork = 10 "fork", "An address space is born as a copy: addr new asid, arg0 parent asid.";
    Exec = 11 "exec", "An address space gets a new program; all its mappings end: addr asid.";
    Exit = 12 "exit", "An address space ends: addr asid.";
    DmaRead = 13 "dma-read", "A device reads memory (CPU to device): addr start, size bytes, count device, arg0 request id, arg1 segment. With arg1, addr counts from the segment's first byte; without arg1, addr is a physical address.";
    DmaWrite = 14 "dma-write", "A device writes memory (device to CPU): addr start, size bytes, count device, arg0 request id, arg1 segment as for dma-read.";
    Time = 15 "time", "Wall time of the recorded program: addr nanoseconds since its start.";
    KernelEnter = 16 "kernel-enter", "References from here to kernel-leave are the kernel's, also behind a switch, and count with the program's. The table of processes has a row for them. The event has: count cause.";
    KernelLeave = 17 "kernel-leave", "The kernel's references end.";
}

impl Op {
    /// Returns whether the operation is a reference to memory: a fetch, load, store or modify.
    #[inline]
    #[must_use]
    pub const fn is_reference(self) -> bool {
        (self as u8) <= Op::Modify as u8
    }
}

/// The reason why the outgoing thread left the processor: `arg0` of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Cause {
    /// The thread gave up the processor in a system call.
    SystemCall = 0,
    /// The thread waits for a page.
    PageFault = 1,
    /// The quantum of the thread ended, or another thread took precedence.
    Involuntary = 2,
    /// The thread ended.
    Exit = 3,
}

impl Cause {
    /// Every cause, in order of its code.
    pub const ALL: &'static [Self] = &[Self::SystemCall, Self::PageFault, Self::Involuntary, Self::Exit];

    /// Returns the name users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemCall => "system-call",
            Self::PageFault => "page-fault",
            Self::Involuntary => "involuntary",
            Self::Exit => "exit",
        }
    }

    /// Returns the cause with this code; `None` for a number without a meaning.
    #[must_use]
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::SystemCall),
            1 => Some(Self::PageFault),
            2 => Some(Self::Involuntary),
            3 => Some(Self::Exit),
            _ => None,
        }
    }
}

/// The values of the `count` column of a range event, which say what happened to the range.
pub mod range_kinds {
    /// The kernel has read the range.
    pub const READ: u32 = 1;
    /// The kernel has written the range.
    pub const WRITTEN: u32 = 2;
    /// The row names the file, socket or pipe to which a call between two files writes.
    pub const TARGET: u32 = 3;
    /// The kernel has read the range, a further buffer of a message (sendmsg, sendmmsg).
    pub const SENT: u32 = 4;
    /// The kernel has written the range, a further buffer of a message (recvmsg, recvmmsg).
    pub const RECEIVED: u32 = 5;
}

/// Flags of a map or protect event, in the `size` column.
pub mod map_flags {
    /// The pages may be read.
    pub const READ: u32 = 1;
    /// The pages may be written.
    pub const WRITE: u32 = 2;
    /// The pages may be executed.
    pub const EXEC: u32 = 4;
    /// Every process that shares the pages sees a write. Without this flag the first write copies the page.
    pub const SHARED: u32 = 8;
    /// The mapping grows when a reference touches memory just below its start, as a stack does.
    pub const GROWS: u32 = 16;
    /// All flags together.
    pub const ALL: u32 = 31;
}
