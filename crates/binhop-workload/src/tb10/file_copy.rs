//! file-copy copies files of 400 MB, one after the other (TB10 §4.1: "copies one 400MB file ... within Ext3").
//!
//! The loop is the loop of every copying program: it fills a buffer by a read, and writes what it has read. The
//! document names neither the program nor its buffer. With 616 KiB, source and buffer together are larger than the
//! traced machine's level 2 of 1 MiB, so a part of the buffer leaves the cache between the read and the write. This
//! agrees with the document's shares: for each line that the disk writes, the processor reads 1.7 lines and writes 1.4,
//! while a small buffer would give 1.0 of each. There are 8 pairs of files, which are copied in a random order; by the
//! time a pair comes again, the page cache of the machine has lost it.

use super::{FileInfo, linux};
use crate::address_space::{Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

pub(crate) const IMAGE: Image =
    Image { name: "file-copy", segment: 31, text: 64 << 10, data: 16 << 10, initialised: 4 << 10 };

/// The bytes of a file.
const FILE: u64 = 400_000_000;
/// The bytes of the program's buffer.
const BUFFER: u64 = 616 << 10;
/// The pairs of files.
const PAIRS: usize = 8;
const LOOP: u64 = TEXT + 0x2000;

const fn source(path: &'static str, id: u64) -> FileInfo {
    FileInfo { id, path, bytes: FILE, direct: false }
}

const fn copy(path: &'static str, id: u64) -> FileInfo {
    FileInfo { id, path, bytes: 0, direct: false }
}

/// The files: a source has an odd number, and its copy has the next number.
pub(crate) const FILES: &[FileInfo] = &[
    source("/data/package-1", 1),
    copy("/copy/package-1", 2),
    source("/data/package-2", 3),
    copy("/copy/package-2", 4),
    source("/data/package-3", 5),
    copy("/copy/package-3", 6),
    source("/data/package-4", 7),
    copy("/copy/package-4", 8),
    source("/data/package-5", 9),
    copy("/copy/package-5", 10),
    source("/data/package-6", 11),
    copy("/copy/package-6", 12),
    source("/data/package-7", 13),
    copy("/copy/package-7", 14),
    source("/data/package-8", 15),
    copy("/copy/package-8", 16),
];

pub(crate) fn start(mut draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let mut order: [u64; PAIRS] = std::array::from_fn(|pair| pair as u64);
    for left in (1..PAIRS).rev() {
        order.swap(left, draws.below(left as u64 + 1) as usize);
    }
    Box::new(FileCopy { buffer: cpu.sbrk(BUFFER), order, turn: 0, offset: 0 })
}

struct FileCopy {
    buffer: u64,
    /// The pairs, in the order in which they are copied.
    order: [u64; PAIRS],
    /// The place of the current pair in `order`.
    turn: usize,
    /// The first byte that is not copied yet.
    offset: u64,
}

impl Program for FileCopy {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let bytes = BUFFER.min(FILE - self.offset);
        let pair = self.order[self.turn];
        for (number, file) in [(linux::READ, 2 * pair + 1), (linux::WRITE, 2 * pair + 2)] {
            cpu.jump(LOOP);
            cpu.run(6);
            cpu.load_local(2);
            cpu.run(3);
            cpu.load_local(3);
            cpu.run(2);
            cpu.syscall(number, self.buffer, bytes as u32, Some((file, self.offset)));
            cpu.run(4);
            cpu.store_local(4);
            cpu.run(3);
        }
        self.offset += bytes;
        if self.offset == FILE {
            (self.turn, self.offset) = ((self.turn + 1) % PAIRS, 0);
        }
        Status::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;
    use binhop_trace::Op;

    #[test]
    fn each_byte_of_a_file_is_read_once_and_written_once_to_its_copy() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let mut program = start(DataRng::new(1, 0), &mut cpu);
        let mut next = [0; 2];
        let mut source = None;
        while next[1] < FILE {
            cpu.rows.clear();
            program.step(&mut cpu);
            cpu.finish_step();
            for &(row, args) in cpu.rows.args() {
                if cpu.rows.op()[row] != Op::Syscall as u8 {
                    continue;
                }
                let writes = cpu.rows.count()[row] == linux::WRITE;
                let file = args[0].expect("a call names its file") - u64::from(writes);
                assert_eq!(*source.get_or_insert(file), file);
                assert!(file % 2 == 1);
                assert_eq!(args[1], Some(next[usize::from(writes)]));
                next[usize::from(writes)] += u64::from(cpu.rows.size()[row]);
            }
            assert_eq!(next[0], next[1]);
        }
        assert_eq!(next, [FILE; 2]);
    }
}
