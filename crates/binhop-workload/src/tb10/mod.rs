//! This module holds programs whose system calls move device data (TB10 §4.1).
//!
//! The programs make the calls of Linux on x86-64 with the number of the file and the offset. `binhop io` and
//! `binhop.device_data` make kernel and devices act on the calls; elsewhere a call moves nothing. Sizes that TB10 does
//! not state are ours. These sizes were chosen so that the shares and sizes of TB10's Tables 1 and 2 come out at the
//! memory of the machine `opteron` (`studies/tb10` has the figures).

pub(crate) mod file_copy;
pub(crate) mod specweb;
pub(crate) mod tpch;

/// `FileInfo` is a file that a workload uses, or a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileInfo {
    /// The number of the file.
    pub(crate) id: u64,
    /// The path. Linux names a socket `socket:[NUMBER]`.
    pub(crate) path: &'static str,
    /// The bytes of the file at the start of the workload.
    pub(crate) bytes: u64,
    /// True if calls bypass the page cache.
    pub(crate) direct: bool,
}

/// The numbers of the system calls (Linux on x86-64).
pub(crate) mod linux {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const PREAD: u32 = 17;
    pub(crate) const PWRITE: u32 = 18;
    pub(crate) const SENDTO: u32 = 44;
    pub(crate) const RECVFROM: u32 = 45;
}
