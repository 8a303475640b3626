//! `RowWriter` turns the steps of a call into rows.
//!
//! # Instructions (ours)
//! - A copy of up to 64 bytes takes 4 instructions: load, store, add, branch. A fill takes 3.
//! - A store that bypasses the caches is one row of a whole line of 64 bytes.
//! - A descriptor takes 4 instructions and one load or store of its 16 bytes.
//! - An interrupt's handler executes 128 instructions in 512 bytes, one piece of code for each ring.
//! - Each of these pieces of code has a place of its own in the kernel's text; an instruction has 4 bytes.

use binhop_os::io::{Device, IoConfig, IoStep, Location, RingId};
use binhop_trace::Op;
use binhop_trace::event::EventBuilder;

use super::layout::{KernelLayout, MapRow};

/// The `arg1` of a transfer whose address is a virtual address of the address space that runs.
pub const RUNNING_SPACE: u64 = u64::MAX;

/// The number of the device that stands for the processor's stores that bypass the caches.
pub const NON_TEMPORAL: u32 = u32::MAX;

/// The bytes that one load and one store copy.
const WORD: u64 = 64;
const INSTRUCTION: u32 = 4;

/// `Code` is a piece of the kernel's text: its first byte and its instructions.
#[derive(Clone, Copy)]
struct Code(u64, u32);

const COPY: Code = Code(0, 4);
const FILL: Code = Code(0x100, 3);
const DESCRIPTOR: Code = Code(0x200, 4);

const fn handler(ring: RingId) -> Code {
    let first = match ring {
        RingId::Disk => 0x1000,
        RingId::Receive => 0x1200,
        RingId::Send => 0x1400,
    };
    Code(first, 128)
}

/// The byte behind the last piece of code.
const TEXT_END: u64 = 0x1600;

/// Returns the most pages of one of `colors` colors that the kernel's text and the three rings have, if a page has
/// `page` bytes and a ring `ring` descriptors. Neighbouring pages have neighbouring colors.
pub(crate) fn kernel_pages(page: u64, ring: u64, colors: u64) -> u64 {
    let rings = 3 * (ring * IoConfig::DESCRIPTOR).div_ceil(page);
    TEXT_END.div_ceil(page).div_ceil(colors) + rings.div_ceil(colors)
}

/// Returns the number by which rows name the agent of a transfer: a device, or the part of a device that reads and
/// writes descriptors. [`device_name`](crate::device_data::device_name) has the names.
const fn number(device: Device, at: Location) -> u32 {
    match (device, matches!(at, Location::Descriptor(..))) {
        (Device::Disk, false) => 0,
        (Device::Network, false) => 1,
        (Device::Disk, true) => 2,
        (Device::Network, true) => 3,
    }
}

/// `RowWriter` writes rows.
#[derive(Debug)]
pub(super) struct RowWriter {
    layout: KernelLayout,
    /// True if copies into the page cache bypass the caches.
    non_temporal: bool,
    /// True between kernel-enter and kernel-leave.
    in_kernel: bool,
    /// True while the trace itself is in the kernel. No kernel-enter and no kernel-leave is written then.
    trace_in_kernel: bool,
}

impl RowWriter {
    pub(super) const fn new(layout: KernelLayout, non_temporal: bool) -> Self {
        Self { layout, non_temporal, in_kernel: false, trace_in_kernel: false }
    }

    /// Notes that the trace itself enters or leaves the kernel.
    pub(super) const fn set_kernel(&mut self, enters: bool) {
        self.trace_in_kernel = enters;
        self.in_kernel = enters;
    }

    /// Writes the rows of a call's steps. Nothing is written for a call without steps.
    pub(super) fn write(&mut self, steps: &[IoStep], out: &mut EventBuilder) {
        for &step in steps {
            self.step(step, out);
        }
        if !self.trace_in_kernel && std::mem::take(&mut self.in_kernel) {
            out.push(Op::KernelLeave, 0, 0, 0);
        }
    }

    fn step(&mut self, step: IoStep, out: &mut EventBuilder) {
        match step {
            IoStep::Copy { from, to: Location::File(file, byte), bytes } if self.non_temporal => {
                self.copy_past_caches(from, Location::File(file, byte), bytes, out);
            }
            IoStep::Copy { from, to, bytes } => {
                let (from, to) = (self.address(from, out), self.address(to, out));
                for (start, length) in words(from, bytes) {
                    self.execute(COPY, out);
                    out.push(Op::Load, from + start, length, 1);
                    out.push(Op::Store, to + start, length, 1);
                }
            }
            IoStep::Fill { at, bytes } => {
                let at = self.address(at, out);
                for (start, length) in words(at, bytes) {
                    self.execute(FILL, out);
                    out.push(Op::Store, at + start, length, 1);
                }
            }
            IoStep::WriteDescriptor(ring, slot) => self.descriptor(Op::Store, ring, slot, out),
            IoStep::ReadDescriptor(ring, slot) => self.descriptor(Op::Load, ring, slot, out),
            IoStep::Transfer { ring, request, writes, at, bytes, of: _ } => {
                let place = self.layout.place(at, &mut |row| push_map(row, out));
                let (addr, segment) = match (place, at) {
                    (Some(place), _) => (place.offset, place.segment),
                    (None, Location::User(user)) => (user.0, RUNNING_SPACE),
                    (None, _) => unreachable!("the kernel's memory has a place"),
                };
                let op = if writes { Op::DmaWrite } else { Op::DmaRead };
                let args = [Some(request), Some(segment)];
                out.push_args(op, addr, bytes as u32, number(ring.device(), at), args);
            }
            IoStep::Interrupt(ring) => self.execute(handler(ring), out),
            IoStep::Dropped(page) => {
                if let Some((addr, pages)) = self.layout.drop_page(page) {
                    out.push(Op::Unmap, addr, 0, pages);
                }
            }
        }
    }

    /// Writes the rows of a copy into the page cache in which whole lines bypass the caches. A piece ends where a line
    /// of the page cache ends; a piece that is no whole line is stored as usual.
    fn copy_past_caches(&mut self, from: Location, to: Location, bytes: u64, out: &mut EventBuilder) {
        let from = self.address(from, out);
        let to = self.layout.place(to, &mut |row| push_map(row, out)).expect("the page cache has a place");
        for (start, length) in words(to.addr, bytes) {
            self.execute(COPY, out);
            out.push(Op::Load, from + start, length, 1);
            if u64::from(length) == WORD {
                let args = [None, Some(to.segment)];
                out.push_args(Op::DmaWrite, to.offset + start, length, NON_TEMPORAL, args);
            } else {
                out.push(Op::Store, to.addr + start, length, 1);
            }
        }
    }

    fn descriptor(&mut self, op: Op, ring: RingId, slot: u32, out: &mut EventBuilder) {
        let at = self.address(Location::Descriptor(ring, slot), out);
        self.execute(DESCRIPTOR, out);
        out.push(op, at, IoConfig::DESCRIPTOR as u32, 1);
    }

    /// Returns the virtual address of a byte.
    fn address(&mut self, at: Location, out: &mut EventBuilder) -> u64 {
        match (self.layout.place(at, &mut |row| push_map(row, out)), at) {
            (Some(place), _) => place.addr,
            (None, Location::User(user)) => user.0,
            (None, _) => unreachable!("the kernel's memory has a place"),
        }
    }

    /// Executes a piece of code. The kernel is entered if it is not running.
    fn execute(&mut self, Code(first, instructions): Code, out: &mut EventBuilder) {
        let text = self.layout.text(first, &mut |row| push_map(row, out));
        if !std::mem::replace(&mut self.in_kernel, true) {
            out.push(Op::KernelEnter, 0, 0, 0);
        }
        out.push(Op::Fetch, text.addr, instructions * INSTRUCTION, instructions);
    }
}

fn push_map(row: MapRow, out: &mut EventBuilder) {
    let MapRow { start, flags, pages, segment, offset } = row;
    out.push_args(Op::Map, start, flags, pages, [Some(segment), Some(offset)]);
}

/// Returns the pieces of `bytes` from an address that end with a word each: the distance and the length.
fn words(from: u64, bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let start = done;
        done = bytes.min((from + start) / WORD * WORD + WORD - from);
        (start < bytes).then(|| (start, (done - start) as u32))
    })
}
