//! DynamoRIO's drmemtrace, offline, after raw2trace: records of 12 bytes, a file for each thread or for each processor.
//!
//! | record | becomes |
//! |---|---|
//! | instructions of every kind, bundles | fetch, joined into runs |
//! | read, write | load, store, as they stand: an instruction that reads and writes the same bytes makes both |
//! | thread, process | switch, where the next reference is of another thread; one address space for each process |
//! | thread exit | the cause of the switch behind it; exit of the process, with the last of its files |
//! | marker: system call | syscall, and the cause of a switch that follows it with nothing between |
//! | markers: trace of a system call or a context switch, start and end | kernel-enter, kernel-leave |
//! | markers: physical address, virtual address | a recorded placement |
//! | encodings, further rounds of string instructions, prefetches, flushes, other markers | nothing; counted |
//!
//! A cause is what the outgoing thread's last record says: the number of a system call, its end, or else involuntary.
//!
//! **Order.** A file is cut at its timestamps, and the pieces of all files are put in the order of their times (of equal
//! ones, in the order of the files' names). A file is opened when its first piece is due and closed at its end, so that
//! memory and open files grow with the threads that live at one time. Files without timestamps (of old versions) follow
//! one another. A process ends with its last file, where a file is a thread.
//!
//! **Chunks.** Each chunk but the first starts with the ordinal of its first record and with a repeated timestamp and
//! processor, which are passed over; that is what makes a chunk readable by itself.

mod directory;
mod merge;
mod record;
mod shard;
mod shared_state;

pub(super) use self::merge::FORMAT;
