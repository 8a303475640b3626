//! A record of drmemtrace (DynamoRIO's `trace_entry.h`) holds type, size and address in 12 bytes,
//! little-endian.

/// The bytes of a record.
pub(super) const SIZE: usize = 12;

/// `RecordKind` groups the types of records that are treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Read,
    Write,
    /// An instruction of any kind. Jumps, calls and returns are treated alike.
    Instruction,
    /// An instruction that may be the next round of the string instruction before it (online traces).
    MaybeFetch,
    /// The next round of a string instruction, which fetches no instruction.
    NoFetch,
    /// `size` instructions behind the last instruction. The bytes of `addr` hold their lengths.
    Bundle,
    Encoding,
    Prefetch,
    Flush,
    /// The second half of a flush.
    FlushEnd,
    Thread,
    ThreadExit,
    Process,
    Header,
    Footer,
    Marker,
    Unknown,
}

/// The [`RecordKind`] of each record type.
pub(super) const KINDS: [RecordKind; 256] = {
    let mut kinds = [RecordKind::Unknown; 256];
    let mut code = 0;
    while code < 256 {
        kinds[code] = match code {
            0 => RecordKind::Read,
            1 => RecordKind::Write,
            2..=9 | 27 | 32..=46 => RecordKind::Prefetch,
            10..=16 | 31 | 48 | 49 => RecordKind::Instruction,
            17 => RecordKind::Bundle,
            18 | 20 => RecordKind::Flush,
            19 | 21 => RecordKind::FlushEnd,
            22 => RecordKind::Thread,
            23 => RecordKind::ThreadExit,
            24 => RecordKind::Process,
            25 => RecordKind::Header,
            26 => RecordKind::Footer,
            28 => RecordKind::Marker,
            29 => RecordKind::NoFetch,
            30 => RecordKind::MaybeFetch,
            47 => RecordKind::Encoding,
            _ => RecordKind::Unknown,
        };
        code += 1;
    }
    kinds
};

/// The subtypes of the markers that are read. A marker's `size` holds its subtype.
pub(super) mod marker {
    pub(crate) const KERNEL_EVENT: u16 = 0;
    /// Microseconds since 1601.
    pub(crate) const TIMESTAMP: u16 = 2;
    pub(crate) const CPU_ID: u16 = 3;
    pub(crate) const FILETYPE: u16 = 9;
    pub(crate) const VERSION: u16 = 12;
    pub(crate) const PHYSICAL_ADDRESS: u16 = 15;
    pub(crate) const PHYSICAL_ADDRESS_NOT_AVAILABLE: u16 = 16;
    pub(crate) const VIRTUAL_ADDRESS: u16 = 17;
    pub(crate) const PAGE_SIZE: u16 = 18;
    pub(crate) const RECORD_ORDINAL: u16 = 22;
    pub(crate) const SYSCALL: u16 = 25;
    pub(crate) const SYSCALL_TRACE_START: u16 = 27;
    pub(crate) const SYSCALL_TRACE_END: u16 = 28;
    pub(crate) const CORE_WAIT: u16 = 32;
    pub(crate) const CORE_IDLE: u16 = 33;
    pub(crate) const CONTEXT_SWITCH_START: u16 = 34;
    pub(crate) const CONTEXT_SWITCH_END: u16 = 35;
}

/// Bits of the file type.
pub(super) mod file_type {
    /// References that hit in a small cache were left out at the time of recording.
    pub(crate) const FILTERED: u64 = 0x1 | 0x80 | 0x100;
    pub(crate) const INSTRUCTIONS_ONLY: u64 = 0x4;
    /// The beginning of the trace is filtered, and the rest is not.
    pub(crate) const FILTERED_WARMUP: u64 = 0x2000;
    /// Each file holds the records of a processor, which threads share in turn.
    pub(crate) const CORE_SHARDED: u64 = 0x1_0000;
}

/// The newest version whose records are read.
pub(super) const NEWEST: u64 = 7;

/// Returns a record as a test or an example writes it.
pub(super) const fn bytes(kind: u16, size: u16, addr: u64) -> [u8; SIZE] {
    let (k, s, a) = (kind.to_le_bytes(), size.to_le_bytes(), addr.to_le_bytes());
    [k[0], k[1], s[0], s[1], a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]
}
