//! The formats of DRAM simulators hold the accesses that reach memory.

use std::io::Write;

use super::{Exporter, Writes};

/// The entry of Ramulator 2 in the list.
pub(super) const RAMULATOR2: Exporter = Exporter {
    name: "ramulator2",
    what: "Ramulator 2's load/store trace of what reaches memory: LD or ST, hexadecimal physical address",
    example: "LD 0x12340",
    lost: "when: the order stays; how many bytes: an access is a line of the last cache; why memory is asked",
    writes: Writes::Physical(|access, out| {
        let label = if access.write { "ST" } else { "LD" };
        let _ = writeln!(out, "{label} {:#x}", access.addr);
    }),
};

/// The entry of DRAMsim3 in the list.
pub(super) const DRAMSIM3: Exporter = Exporter {
    name: "dramsim3",
    what: "DRAMsim3's trace of what reaches memory: hexadecimal physical address, READ or WRITE, cycle of the memory; in small letters, cycle of the processor",
    example: "0x12340 read 1001",
    lost: "how many bytes: an access is a line of the last cache; why memory is asked; the cycle is that of an in-order processor, in its cycles: one for each instruction, and what the machine's [cost] makes it wait; behind a scheme for device data it is a cycle of the memory",
    writes: Writes::Physical(|access, out| {
        // DRAMsim3 accepts the two words in capital and in small letters (its `Transaction`). So the letters can tell
        // whether the cycle is one of the memory or one of the processor.
        let label = match (access.write, access.of_memory) {
            (false, true) => "READ",
            (true, true) => "WRITE",
            (false, false) => "read",
            (true, false) => "write",
        };
        let _ = writeln!(out, "{:#x} {label} {}", access.addr, access.cycle);
    }),
};
