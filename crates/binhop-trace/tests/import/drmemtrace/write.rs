//! `File` writes small drmemtrace files.

use std::path::PathBuf;

/// Subtypes of markers.
pub(super) mod m {
    pub(crate) const KERNEL_EVENT: u16 = 0;
    pub(crate) const TIMESTAMP: u16 = 2;
    pub(crate) const CPU_ID: u16 = 3;
    pub(crate) const FILETYPE: u16 = 9;
    pub(crate) const CACHE_LINE_SIZE: u16 = 10;
    pub(crate) const VERSION: u16 = 12;
    pub(crate) const PHYSICAL_ADDRESS: u16 = 15;
    pub(crate) const NO_PHYSICAL_ADDRESS: u16 = 16;
    pub(crate) const VIRTUAL_ADDRESS: u16 = 17;
    pub(crate) const PAGE_SIZE: u16 = 18;
    pub(crate) const CHUNK_INSTR_COUNT: u16 = 20;
    pub(crate) const CHUNK_FOOTER: u16 = 21;
    pub(crate) const RECORD_ORDINAL: u16 = 22;
    pub(crate) const SYSCALL: u16 = 25;
    pub(crate) const MAYBE_BLOCKING: u16 = 26;
    pub(crate) const SYSCALL_TRACE_START: u16 = 27;
    pub(crate) const SYSCALL_TRACE_END: u16 = 28;
    pub(crate) const CORE_IDLE: u16 = 33;
    pub(crate) const CONTEXT_SWITCH_START: u16 = 34;
    pub(crate) const CONTEXT_SWITCH_END: u16 = 35;
}

/// `File` holds the records of a file: type, size, address.
#[derive(Clone, Debug, Default)]
pub(super) struct File(pub(super) Vec<(u16, u16, u64)>);

impl File {
    /// Makes a file with the head that raw2trace writes for a thread.
    pub(super) fn of(tid: u64, pid: u64) -> Self {
        let file =
            Self::default().record(25, 0, 7).mark(m::VERSION, 7).mark(m::FILETYPE, 0x640).thread(tid, pid);
        file.mark(m::CACHE_LINE_SIZE, 64).mark(m::CHUNK_INSTR_COUNT, 20).mark(m::PAGE_SIZE, 4096)
    }

    pub(super) fn record(mut self, kind: u16, size: u16, addr: u64) -> Self {
        self.0.push((kind, size, addr));
        self
    }

    pub(super) fn instr(self, addr: u64, size: u16) -> Self {
        self.record(10, size, addr)
    }

    pub(super) fn jump(self, addr: u64, size: u16) -> Self {
        self.record(11, size, addr)
    }

    pub(super) fn read(self, addr: u64, size: u16) -> Self {
        self.record(0, size, addr)
    }

    pub(super) fn write(self, addr: u64, size: u16) -> Self {
        self.record(1, size, addr)
    }

    pub(super) fn mark(self, kind: u16, value: u64) -> Self {
        self.record(28, kind, value)
    }

    pub(super) fn time(self, microseconds: u64) -> Self {
        self.mark(m::TIMESTAMP, microseconds)
    }

    pub(super) fn cpu(self, cpu: u64) -> Self {
        self.mark(m::CPU_ID, cpu)
    }

    pub(super) fn thread(self, tid: u64, pid: u64) -> Self {
        self.record(22, 4, tid).record(24, 4, pid)
    }

    pub(super) fn exit(self, tid: u64) -> Self {
        self.record(23, 4, tid)
    }

    pub(super) fn end(self, tid: u64) -> Self {
        self.exit(tid).record(26, 0, 0)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 * self.0.len());
        for (kind, size, addr) in &self.0 {
            out.extend(kind.to_le_bytes());
            out.extend(size.to_le_bytes());
            out.extend(addr.to_le_bytes());
        }
        out
    }
}

/// Makes an empty directory for one test.
pub(super) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("drmemtrace-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
