//! `IoCounts` holds what the path counts.

/// `IoCounts` holds what the path counts. Bytes of calls are the bytes that calls moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Bytes that calls read from files.
    pub read: u64,
    /// Bytes that calls wrote to files.
    pub written: u64,
    /// Bytes that calls received from sockets.
    pub received: u64,
    /// Bytes that calls sent to sockets.
    pub sent: u64,
    /// Bytes that calls wrote into pipes.
    pub piped: u64,
    /// Pages that calls found in the page cache.
    pub cache_hits: u64,
    /// Pages that calls did not find in the page cache.
    pub cache_misses: u64,
    /// Pages that the disk read into the page cache.
    pub pages_read: u64,
    /// Pages that were written from the page cache to the disk.
    pub pages_written: u64,
    /// Pages that left the full page cache.
    pub pages_evicted: u64,
    /// Requests to the disk, direct ones included.
    pub disk_requests: u64,
    /// Packets that arrived or were sent.
    pub packets: u64,
    /// Interrupts of all devices.
    pub interrupts: u64,
}
