//! The counters of a memory with a controller.

use core::ops::{AddAssign, Sub};

use binhop_base::Kind;

use crate::counters::{CounterInfo, Value, counters};

counters! {
    /// The counts of the requests of one class.
    DramUseCounters {
        reads: u64 = "reads", "lines", "Lines read from a row.";
        writes: u64 = "writes", "lines", "Lines written to a row.";
        forwarded: u64 = "forwarded", "lines", "Lines read from the queue of writes.";
        row_hits: u64 = "row-hits", "lines", "Lines whose row was open when they came to their turn.";
        row_misses: u64 = "row-misses", "lines", "Lines whose bank had no open row.";
        row_conflicts: u64 = "row-conflicts", "lines", "Lines whose bank had to close another row first.";
        latency: u64 = "latency", "memory cycles", "Cycles from the arrival of reads to the end of their data.";
    }
}

counters! {
    /// The counts of commands and of the bus.
    DramCounters {
        activates: u64 = "activates", "commands", "Rows that were opened.";
        precharges: u64 = "precharges", "commands", "Commands that closed a row, or the rows of a rank.";
        refreshes: u64 = "refreshes", "commands", "Refreshes of a rank.";
        bus: u64 = "bus", "memory cycles", "Cycles in which data were on a bus.";
        turns: u64 = "turns", "commands", "Changes between reads and writes on a channel.";
    }
}
