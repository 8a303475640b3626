//! `IoCounts` holds what the path counts. `IoWaiting` holds the requests and pages that wait at one moment.

/// Declares a struct of counts: each has a name, a unit and a meaning.
macro_rules! io_counts {
    ($(#[$about:meta])* $struct:ident { $($name:ident $unit:literal $meaning:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $struct {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl $struct {
            /// Each count: its name, unit and meaning.
            pub const LIST: &'static [(&'static str, &'static str, &'static str)] =
                &[$((stringify!($name), $unit, $meaning)),*];

            /// Returns the counts in the order of [`Self::LIST`].
            pub fn values(&self) -> impl Iterator<Item = u64> + use<> {
                [$(self.$name),*].into_iter()
            }
        }
    };
}

io_counts! {
    /// `IoCounts` holds what the path counts. Bytes of calls are the bytes that calls moved.
    IoCounts {
        read "bytes" "Bytes that calls read from files.";
        written "bytes" "Bytes that calls wrote to files.";
        received "bytes" "Bytes that calls received from sockets.";
        sent "bytes" "Bytes that calls sent to sockets.";
        piped "bytes" "Bytes that calls wrote into pipes.";
        cache_hits "pages" "Pages that calls and faults found in the page cache.";
        cache_misses "pages" "Pages that calls and faults did not find in the page cache.";
        pages_read "pages" "Pages that the disk read into the page cache.";
        pages_written "pages" "Pages that the disk wrote from the page cache.";
        pages_evicted "pages" "Pages that left the full page cache.";
        pages_reclaimed "pages" "Pages that left the page cache because memory was full.";
        disk_requests "requests" "Requests that the disk served, direct ones included.";
        packets_arrived "packets" "Packets that the card put into the receive ring. The ring drops none: the sender waits while io.backlog packets lie there.";
        packets_received "packets" "Packets that arrived and that the driver handed to sockets.";
        packets_sent "packets" "Packets that the card sent.";
        interrupts "interrupts" "Interrupts of all devices.";
    }
}

io_counts! {
    /// `IoWaiting` is what waits for devices and the flusher.
    IoWaiting {
        reads_waiting "pages" "Pages that the disk had been asked to read, and had not read when the trace ended.";
        writes_waiting "pages" "Pages that the disk had been asked to write, and had not written when the trace ended.";
        packets_waiting "packets" "Packets that waited in the send ring when the trace ended.";
        dirty "pages" "Pages of the page cache that were dirty when the trace ended.";
    }
}
