//! `Decoder::record` decodes the records of programs, system calls, mappings, threads and processes.
//!
//! **Counting rules.** `recorder/instrument.c` holds the rules of instructions and data. The longest range of
//! a system call is its main range. If a call takes a list of buffers (readv, writev, vmsplice, sendmsg and similar
//! calls), its main range is a buffer, and never the list or a header. The other ranges follow as range rows: `count`
//! is 1 where the kernel read and 2 where it wrote. For a further buffer of a message, `count` is 4 where the kernel
//! read and 5 where it wrote. A range that is longer than the call's result (the whole buffer of a short receive) is
//! cut to the result. A call that fails moved nothing, though the kernel may have read its arguments. The recorder
//! itself cuts the ranges of messages, because only the recorder knows which of them are buffers.

use std::num::NonZeroU64;

use binhop_base::counted;
use binhop_trace::event::{Cause, Op, range_kinds};

use super::{Decoder, PAGE};
use crate::areas::{Area, Areas};
use crate::piece::Piece;
use crate::schedule::calls::{Descriptor, waits};
use crate::wire;

/// The decoding of records, by their kind. An error says what is wrong with the record.
impl Decoder {
    /// Decodes a record.
    ///
    /// # Errors
    /// A recorder does not write such a record.
    pub(super) fn record(&mut self, kind: u64, words: &[u64]) -> Result<(), String> {
        match (kind, words) {
            (wire::START, [_, _, wanted, name @ ..]) => self.starts(text(name)?, *wanted != 0),
            (wire::BLOCK, [number, items @ ..]) => self.blocks.describe(*number, items)?,
            (wire::PARTIAL, [struck, run, noted @ ..]) => {
                self.blocks.partial(wire::low(*run) as usize, *struck, noted, &mut self.rows);
            }
            (wire::ENTER, &[call, time, regular, ref args @ ..]) if args.len() == 6 => {
                let (tid, number) = thread_and_call(call);
                let file = if regular == 1 { Descriptor::File } else { Descriptor::Other };
                let args = <&[u64; 6]>::try_from(args).expect("six of them");
                self.push(Piece::Enter { tid, number, waits: waits(number, *args, file), time });
            }
            (wire::LEAVE, call)
                if call.len() >= CALL_WORDS && (call.len() - CALL_WORDS).is_multiple_of(2) =>
            {
                self.leaves(call);
            }
            (wire::TIME, &[time]) => self.push(Piece::Time { time }),
            (wire::FILE, &[device, inode, birth, bytes, ref path @ ..]) => {
                let bytes = (bytes != wire::NO_BYTES).then_some(bytes);
                self.catalog().name_file((device, inode), NonZeroU64::new(birth), bytes, &text(path)?);
            }
            (wire::MAP, &[start, bytes, flags, device, inode, offset]) => {
                self.maps(start, bytes, flags, (device, inode), offset)?;
            }
            (wire::UNMAP, &[start, bytes]) => self.unmaps(start, end_of(start, bytes)?),
            (wire::PROTECT, &[start, bytes, flags]) => {
                self.protects(start, end_of(start, bytes)?, flags as u32);
            }
            (wire::MOVE, &[from, to, bytes]) => {
                end_of(to, bytes)?;
                self.moves(from, end_of(from, bytes)?, to);
            }
            (wire::THREAD, &[tid, cause, number]) => {
                let tid = u32::try_from(tid).map_err(|_| format!("a thread of number {tid}"))?;
                let cause = match cause {
                    wire::LEFT_CALL => Cause::SystemCall,
                    wire::LEFT_INVOLUNTARY => Cause::Involuntary,
                    wire::LEFT_EXIT => Cause::Exit,
                    other => return Err(format!("a thread left for reason {other}")),
                };
                let number = (cause == Cause::SystemCall).then_some(wire::low(number) as u32);
                self.push(Piece::Thread { tid, cause, number });
            }
            (wire::FORK, &[child]) => {
                let decoder = self.child();
                self.children.push((child, decoder));
                self.push(Piece::Fork { child });
            }
            (wire::EXIT, &[_, time]) => {
                self.ended = true;
                self.push(Piece::Exit { time });
            }
            _ => {
                let length = counted(words.len() as u64, ["word", "words"]);
                return Err(format!("a record of kind {kind} with {length}"));
            }
        }
        Ok(())
    }

    /// Starts a program. If another program ran before, the new program replaces it (exec).
    fn starts(&mut self, command: String, wanted: bool) {
        if self.program.replace((command.clone(), wanted)).is_some() {
            self.areas = Areas::default();
            self.heap = None;
            self.push(Piece::Exec { command });
        }
    }

    /// Adds a row that is not a reference, if the program's rows are wanted.
    fn event(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        if self.program.as_ref().is_none_or(|(_, wanted)| *wanted) {
            self.rows.event(op, addr, size, count, args);
        }
    }

    fn leaves(&mut self, words: &[u64]) {
        let (tid, number) = thread_and_call(words[0]);
        let result = words[2] as i64;
        self.push(Piece::Leave { tid, number, time: words[1], result });
        let (buffer, device, inode, offset) = (words[3], words[4] & !(1 << wire::DIRECT), words[5], words[6]);
        let is_direct = words[4] >> wire::DIRECT == 1;
        // The first range of a vectored call is the list of its buffers; a copy between two processes has two lists.
        // The buffers are read in order, up to the result.
        let is_vector = READS_VECTORS.contains(&number);
        let is_message = MESSAGES.contains(&number);
        let lists = match number {
            _ if BETWEEN_PROCESSES.contains(&number) => 2,
            _ => u32::from(is_vector || WRITES_VECTORS.contains(&number)),
        };
        let mut left = u64::try_from(result).unwrap_or(0);
        let mut listed = 0;
        let moved = |range: &[u64]| {
            let (by_kernel, in_message) =
                (range[1] >> wire::BY_KERNEL == 1, range[1] >> wire::OF_A_MESSAGE & 1 == 1);
            let (start, bytes) = (range[0], range[1] & !(3 << wire::OF_A_MESSAGE));
            let is_list = listed < lists && !by_kernel;
            listed += u32::from(is_list);
            let all = if start == buffer && MOVES_A_BUFFER.contains(&number) {
                bytes.min(u64::try_from(result).unwrap_or(0))
            } else if is_vector && !is_list {
                let now = bytes.min(left);
                left -= now;
                now
            } else {
                bytes
            };
            let kind = match (by_kernel, in_message) {
                (false, false) => range_kinds::READ,
                (true, false) => range_kinds::WRITTEN,
                (false, true) => range_kinds::SENT,
                (true, true) => range_kinds::RECEIVED,
            };
            let may_be_main = !is_list && (in_message || !is_message);
            (start, u32::try_from(all).unwrap_or(u32::MAX), kind, may_be_main)
        };
        let ranges: Vec<(u64, u32, u32, bool)> =
            words[CALL_WORDS..].chunks_exact(2).map(moved).filter(|range| range.1 > 0).collect();
        let longest = ranges.iter().filter(|range| range.3).map(|range| range.1).max();
        let main = ranges.iter().position(|range| range.3 && Some(range.1) == longest);
        let (start, bytes) = main.map_or((0, 0), |main| (ranges[main].0, ranges[main].1));
        let file = (inode != 0).then(|| self.catalog().file((device, inode), is_direct));
        let offset = file.and_then(|_| (offset != u64::MAX).then_some(offset));
        self.event(Op::Syscall, start, bytes, number, [file, offset]);
        for (_, range) in ranges.iter().enumerate().filter(|(index, _)| Some(*index) != main) {
            self.event(Op::Range, range.0, range.1, range.2, [None, None]);
        }
        let (device, inode, offset) = (words[7], words[8], words[9]);
        if inode != 0 && result > 0 {
            let file = self.catalog().file((device, inode), false);
            let offset = (offset != u64::MAX).then_some(offset);
            let bytes = u32::try_from(result).unwrap_or(u32::MAX);
            self.event(Op::Range, 0, bytes, range_kinds::TARGET, [Some(file), offset]);
        }
    }

    fn maps(
        &mut self,
        start: u64,
        bytes: u64,
        flags: u64,
        file: (u64, u64),
        offset: u64,
    ) -> Result<(), String> {
        let end = end_of(start, bytes)?;
        let shared = flags & wire::SHARED != 0;
        let (segment, first) = match flags >> wire::KIND {
            wire::ANONYMOUS if shared => (Some(self.catalog().new_segment(None, "shared memory")), 0),
            wire::ANONYMOUS => (None, 0),
            wire::MAPPED_FILE => (Some(self.catalog().file_segment(file)), offset),
            wire::STACK => (Some(self.catalog().new_segment(None, "stack")), 0),
            wire::HEAP => {
                let heap = self.heap.unwrap_or_else(|| (self.catalog().new_segment(None, "heap"), start));
                self.heap = Some(heap);
                (Some(heap.0), start.wrapping_sub(heap.1))
            }
            wire::SYSTEM_V => (Some(self.catalog().shared_memory(file.1)), 0),
            other => return Err(format!("a mapping of kind {other}")),
        };
        let flags = (flags & ((1 << wire::KIND) - 1)) as u32;
        self.map_area(start, Area { end, segment, first, flags });
        Ok(())
    }

    fn map_area(&mut self, start: u64, area: Area) {
        self.areas.cut(start, area.end);
        self.areas.insert(start, area);
        let args = match area.segment {
            Some(segment) => [Some(segment), Some(area.first)],
            None => [None, None],
        };
        self.event(Op::Map, start, area.flags, pages(start, area.end), args);
    }

    /// Unmaps only what is mapped: a program may name a larger range.
    fn unmaps(&mut self, start: u64, end: u64) {
        for (from, area) in self.areas.cut(start, end) {
            self.event(Op::Unmap, from, 0, pages(from, area.end), [None, None]);
        }
    }

    fn protects(&mut self, start: u64, end: u64, protection: u32) {
        let kept = !(wire::READ | wire::WRITE | wire::EXEC) as u32;
        for (from, area) in self.areas.cut(start, end) {
            let flags = area.flags & kept | protection;
            self.areas.insert(from, Area { flags, ..area });
            self.event(Op::Protect, from, flags, pages(from, area.end), [None, None]);
        }
    }

    /// Moves mappings. The pages of a segment keep their identity when they move; anonymous memory counts as
    /// new at its new place. A segment for anonymous memory would not help: a page that was written in a
    /// private mapping belongs to the address space at its address, and no event moves such a page.
    fn moves(&mut self, from: u64, end: u64, to: u64) {
        for (start, area) in self.areas.parts(from, end) {
            let place = to.wrapping_add(start - from);
            self.map_area(place, Area { end: place.wrapping_add(area.end - start), ..area });
        }
    }
}

/// The number of words in a call's record before the ranges.
const CALL_WORDS: usize = 10;

/// The calls whose second argument is a buffer. Such a call moves at most as many bytes of the buffer as its result
/// says. The numbers are those of x86-64: read, write, pread64, pwrite64, sendto, recvfrom.
const MOVES_A_BUFFER: [u32; 6] = [0, 1, 17, 18, 44, 45];

/// The calls that read a list of buffers, and then read the buffers, together at most as many bytes as the result says:
/// writev, pwritev, pwritev2, vmsplice, process_vm_writev.
const READS_VECTORS: [u32; 5] = [20, 296, 328, 278, 311];

/// The calls that read a list of buffers, and write the buffers: readv, preadv, preadv2. (A vmsplice from a pipe writes
/// its buffers, too.)
const WRITES_VECTORS: [u32; 3] = [19, 295, 327];

/// The calls that copy between the caller and another process, and read a list of the caller's buffers and a list of
/// the other process's buffers: process_vm_readv and process_vm_writev. The buffers of the other process do not lie in
/// the caller's memory.
const BETWEEN_PROCESSES: [u32; 2] = [310, 311];

/// The calls that move messages, whose buffers the recorder marks: sendmsg, recvmsg, sendmmsg, recvmmsg.
const MESSAGES: [u32; 4] = [46, 47, 307, 299];

fn thread_and_call(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, wire::low(word) as u32)
}

/// Returns the end of a range. The range must be whole pages of a user's addresses, which lie below 2^63.
fn end_of(start: u64, bytes: u64) -> Result<u64, String> {
    let whole =
        start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes / PAGE <= u64::from(u32::MAX);
    let end = start.checked_add(bytes).filter(|&end| whole && end <= 1 << 63);
    end.ok_or_else(|| format!("{bytes} bytes at {start:#x} are not a range of whole pages"))
}

fn pages(start: u64, end: u64) -> u32 {
    ((end - start) / PAGE) as u32
}

/// Returns the string of these words: its length in bytes, then its bytes.
fn text(words: &[u64]) -> Result<String, String> {
    let (length, words) = words.split_first().ok_or("a text without a length")?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = usize::try_from(*length).ok().and_then(|length| bytes.get(..length));
    Ok(String::from_utf8_lossy(bytes.ok_or("a text longer than its record")?).into_owned())
}
