//! `Libc` is the C library that is linked into every program: buffered input and output, formatted output, start-up.
//!
//! The library is linked statically at the end of each program's text, because there were no shared
//! libraries. Its static data (buffers' descriptors, character classes) are at the start of the data segment.

use crate::address_space::DATA;
use crate::cpu::Cpu;
use crate::program::{Status, call};

/// The library's static data: the table of character classes, then the stream descriptors.
pub(crate) const CLASSES: u64 = DATA + 0x200;
pub(crate) const STREAMS: u64 = DATA + 0x400;

/// The offsets of the functions in the library's text.
const START: u64 = 0;
const FILBUF: u64 = 0x1800;
const PRINTF: u64 = 0x2000;
const NUMBER: u64 = 0x2a00;

/// `Libc` is the library as it is linked into one program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libc {
    text: u64,
}

/// The latency of a read or write that waits for the disk, in instructions: a disk access of some 20 ms on a
/// machine of 20 MIPS. A call that finds its block in the buffer cache does not wait.
pub(crate) const DISK: u64 = 400_000;

impl Libc {
    /// Returns the library at this address of the text.
    pub(crate) const fn at(text: u64) -> Self {
        Self { text }
    }

    /// Runs the start-up code before main: environment, descriptors, locale.
    pub(crate) fn startup(self, cpu: &mut Cpu) {
        for block in 0..24u64 {
            cpu.jump(self.text + START + block * 0xe0);
            cpu.run(17 + (block % 5) as u32);
            cpu.load(crate::address_space::STACK_END - 0x400 + 16 * block, 4);
            cpu.run(9);
            cpu.store(DATA + 32 * block, 4);
            cpu.run(6);
        }
    }

    /// Fills a stream's buffer of `bytes` at `buffer`, by the read call of getc.
    pub(crate) fn fill(self, cpu: &mut Cpu, buffer: u64, bytes: u32, file: (u64, u64)) {
        cpu.call(self.text + FILBUF, 3, 4);
        cpu.load(STREAMS + 16 * (file.0 % 8), 4);
        cpu.run(11);
        cpu.load(STREAMS + 16 * (file.0 % 8) + 4, 4);
        cpu.run(7);
        cpu.syscall(call::READ, buffer, bytes, Some(file));
        cpu.run(5);
        cpu.store(STREAMS + 16 * (file.0 % 8), 4);
        cpu.ret(3, 4);
    }

    /// Writes a full output buffer to the system.
    pub(crate) fn drain(self, cpu: &mut Cpu, buffer: u64, bytes: u32, file: (u64, u64)) {
        cpu.call(self.text + FILBUF + 0x400, 3, 4);
        cpu.load(STREAMS + 16 * (file.0 % 8), 4);
        cpu.run(14);
        cpu.syscall(call::WRITE, buffer, bytes, Some(file));
        cpu.run(6);
        cpu.store(STREAMS + 16 * (file.0 % 8), 4);
        cpu.ret(3, 4);
    }

    /// Prints a line with `fields` conversions into `out`, as printf does. Returns the line's end.
    pub(crate) fn print(self, cpu: &mut Cpu, format: u64, mut out: u64, fields: u32) -> u64 {
        cpu.call(self.text + PRINTF, 8, 24);
        for field in 0..fields {
            for word in 0..2u64 {
                cpu.jump(self.text + PRINTF + 0x60);
                cpu.run(5);
                cpu.load(format + 8 * u64::from(field) + 4 * word, 4);
                cpu.run(8);
                cpu.store(out, 4);
                out += 4;
            }
            cpu.jump(self.text + PRINTF + 0x200 + 0x90 * u64::from(field % 7));
            cpu.run(12);
            cpu.call(self.text + NUMBER, 2, 6);
            for digit in 0..4 {
                cpu.jump(self.text + NUMBER + 0x40);
                cpu.run(13);
                cpu.store_local(digit);
            }
            cpu.ret(2, 6);
            for _ in 0..2 {
                cpu.jump(self.text + PRINTF + 0x180);
                cpu.run(6);
                cpu.load_local(3);
                cpu.run(2);
                cpu.store(out, 4);
                out += 4;
            }
        }
        cpu.ret(8, 24);
        out
    }
}

/// Returns the status of a call that waits for the disk.
pub(crate) fn waits(number: u32) -> Status {
    Status::Blocked { call: number, latency: DISK }
}
