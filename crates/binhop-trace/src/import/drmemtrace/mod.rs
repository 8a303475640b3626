//! This importer reads DynamoRIO's drmemtrace (offline, after raw2trace). It has records of 12 bytes, and a
//! file for each thread or processor.
//!
//! | record | becomes |
//! |---|---|
//! | instructions of every kind, bundles | fetch, joined into runs |
//! | read, write | load, store; an instruction that reads and writes the same bytes makes both |
//! | thread, process | switch, if the next reference is of another thread; one address space for each process |
//! | thread exit | the cause of the next switch; exit of the process, at the end of its last file |
//! | marker: system call | syscall, and the cause of a switch that follows at once |
//! | markers: trace of a system call or a context switch, start and end | kernel-enter, kernel-leave |
//! | markers: physical address, virtual address | a recorded placement |
//! | encodings, further rounds of string instructions, prefetches, flushes, other markers | no event; they are counted |
//!
//! The last record of the outgoing thread gives the cause: a system call, its end, or else involuntary.
//!
//! **Order.** A file is cut at its timestamps, and the pieces of all files are put in order of time (pieces
//! of equal times in the order of the files' names). A file is opened when its first piece is due and closed
//! at its end, so that memory and open files grow with the threads that live at one time. Files without
//! timestamps (of old versions) follow one another. If each file holds one thread, a process ends with its
//! last file.
//!
//! **Chunks.** Each chunk but the first starts with the ordinal of its first record, which makes a chunk
//! readable by itself. A repeated timestamp and processor follow, and are skipped.

mod directory;
mod merge;
mod record;
mod shard;
mod shared_state;

pub(super) use self::merge::FORMAT;
