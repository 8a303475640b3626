//! `Shard` decodes the records of a file of a trace, in order, up to a point in time.

use binhop_base::{Problem, Result, counted};

use super::record::{KINDS, RecordKind, SIZE, file_type, marker};
use super::shared_state::{RunningThread, SharedState};
use crate::disk::FileIdentity;
use crate::event::{Cause, Op};
use crate::import::rows::Rows;
use crate::input::Input;

/// The number of records in a block if the trace has few files, and if it has many files.
pub(super) const BLOCK_RECORDS: usize = 16 << 10;
pub(super) const SMALL_BLOCK_RECORDS: usize = 2 << 10;

/// `Pause` is the reason why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// A block is done, and more blocks follow.
    Block,
    /// The next record has this time, which is later than the limit.
    Later(u64),
    /// The file has ended.
    End,
}

/// `Record` holds the fields of a record.
#[derive(Clone, Copy, Debug)]
struct Record {
    kind: RecordKind,
    code: u16,
    size: u16,
    addr: u64,
}

/// Returns the record at an offset of a block.
#[inline]
fn record_at(block: &[u8], at: usize) -> Record {
    let bytes: &[u8; SIZE] = block[at..at + SIZE].try_into().expect("a record's bytes");
    let code = u16::from_le_bytes([bytes[0], bytes[1]]);
    let size = u16::from_le_bytes([bytes[2], bytes[3]]);
    let addr = u64::from_le_bytes([
        bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11],
    ]);
    let kind = if code < 256 { KINDS[usize::from(code)] } else { RecordKind::Unknown };
    Record { kind, code, size, addr }
}

/// `Shard` is a file, and how far it has been decoded.
pub(super) struct Shard {
    input: Input,
    block: Vec<u8>,
    /// The number of filled bytes of the block, and of decoded bytes.
    filled: usize,
    at: usize,
    /// The number of records in the blocks before.
    records: u64,
    /// True if the input has been read to its end.
    dry: bool,
    time: u64,
    cpu: u32,
    tid: u64,
    thread: Option<RunningThread>,
    kernel: Option<Cause>,
    /// True if the rows may lack a switch to this thread.
    due: bool,
    /// The number of the ordinal record, which starts the current chunk.
    ordinal: Option<u64>,
    physical: Option<u64>,
    /// The address of the last instruction that may be a round of a string instruction.
    string: Option<u64>,
    footer: bool,
}

impl Shard {
    /// Reads the first block, and checks that the file has this format.
    pub(super) fn new(input: Input, records: usize) -> Result<Self> {
        let mut shard = Self {
            input,
            block: vec![0; records * SIZE],
            filled: 0,
            at: 0,
            records: 0,
            dry: false,
            time: 0,
            cpu: 0,
            tid: 0,
            thread: None,
            kernel: None,
            due: true,
            ordinal: None,
            physical: None,
            string: None,
            footer: false,
        };
        shard.fill()?;
        if shard.filled < SIZE || record_at(&shard.block, 0).kind != RecordKind::Header {
            let value = if shard.filled < SIZE {
                counted(shard.filled as u64, ["byte", "bytes"])
            } else {
                format!("type {}", u16::from_le_bytes([shard.block[0], shard.block[1]]))
            };
            return Err(Problem::request(
                &value,
                shard.input.name(),
                "a drmemtrace file (of 64 bits, after raw2trace) starts with a header: a record of 12 bytes and of type 25",
                "if it is ChampSim's, say --format champsim or champsim-cloudsuite; if it is raw, convert it with DynamoRIO's `drraw2trace -indir DIR`",
            ));
        }
        Ok(shard)
    }

    /// Returns the identity of the file and of its state.
    pub(super) fn identity(&self) -> Option<&FileIdentity> {
        self.input.identity()
    }

    /// Returns the first timestamp of the first block, and the process that the file starts with.
    pub(super) fn head(&self) -> (Option<u64>, Option<u64>) {
        let mut pid = None;
        for at in (0..self.filled / SIZE * SIZE).step_by(SIZE) {
            let record = record_at(&self.block, at);
            match record.kind {
                RecordKind::Process => pid = pid.or(Some(record.addr)),
                RecordKind::Marker if record.size == marker::TIMESTAMP => return (Some(record.addr), pid),
                RecordKind::Instruction | RecordKind::Read | RecordKind::Write => break,
                _ => {}
            }
        }
        (None, pid)
    }

    fn fill(&mut self) -> Result<()> {
        self.records += (self.at / SIZE) as u64;
        self.at = 0;
        self.filled = self.input.fill(&mut self.block)?;
        self.dry = self.filled < self.block.len();
        Ok(())
    }

    /// Decodes until the block or the file ends, or the next record is later than `until`.
    pub(super) fn run(&mut self, until: u64, world: &mut SharedState, rows: &mut Rows) -> Result<Pause> {
        if self.at + SIZE > self.filled {
            if self.dry {
                return self.end(world).map(|()| Pause::End);
            }
            self.fill()?;
        }
        // The block is taken out, so that the loop may change the rest of the shard.
        let block = std::mem::take(&mut self.block);
        let stop = self.decode(&block[..self.filled / SIZE * SIZE], until, world, rows);
        self.block = block;
        stop
    }

    fn decode(
        &mut self,
        block: &[u8],
        until: u64,
        world: &mut SharedState,
        rows: &mut Rows,
    ) -> Result<Pause> {
        let mut at = self.at;
        while at < block.len() {
            let record = record_at(block, at);
            at += SIZE;
            if !self.due && record.size > 0 {
                match record.kind {
                    RecordKind::Instruction => rows.fetch(record.addr, record.size.into()),
                    RecordKind::Read => rows.data(Op::Load, record.addr, record.size.into()),
                    RecordKind::Write => rows.data(Op::Store, record.addr, record.size.into()),
                    RecordKind::Encoding => {}
                    _ => {
                        self.at = at;
                        if let Some(later) = self.other(record, until, world, rows)? {
                            return Ok(Pause::Later(later));
                        }
                    }
                }
            } else {
                self.at = at;
                if let Some(later) = self.other(record, until, world, rows)? {
                    return Ok(Pause::Later(later));
                }
            }
        }
        self.at = at;
        Ok(Pause::Block)
    }

    /// Decodes a rare record, or the first record of a thread after a rare record.
    #[inline(never)]
    fn other(
        &mut self,
        record: Record,
        until: u64,
        world: &mut SharedState,
        rows: &mut Rows,
    ) -> Result<Option<u64>> {
        let Record { kind, size, addr, .. } = record;
        if self.footer {
            return Err(self.problem(
                record,
                "nothing follows the footer of a file",
                "several files were joined: import the directory they came from",
            ));
        }
        match kind {
            RecordKind::Instruction | RecordKind::Read | RecordKind::Write if size == 0 => {
                world.counts.empty += 1;
            }
            RecordKind::Instruction => self.instruction(record, world, rows)?,
            RecordKind::MaybeFetch if self.string == Some(addr) => world.counts.no_fetches += 1,
            RecordKind::MaybeFetch => {
                self.string = Some(addr);
                self.instruction(record, world, rows)?;
            }
            RecordKind::Bundle => self.bundle(record, rows)?,
            RecordKind::Read | RecordKind::Write => {
                self.switch_to(record, world, rows)?;
                let op = if kind == RecordKind::Read { Op::Load } else { Op::Store };
                rows.data(op, addr, size.into());
            }
            RecordKind::NoFetch => world.counts.no_fetches += 1,
            RecordKind::Prefetch => world.counts.prefetches += 1,
            RecordKind::Flush => world.counts.flushes += 1,
            RecordKind::FlushEnd | RecordKind::Encoding => {}
            RecordKind::Thread => {
                self.due |= self.tid != addr || self.thread.is_none();
                self.tid = addr;
                self.thread = world.thread(addr);
            }
            RecordKind::Process => {
                let thread = world.process(self.tid, addr);
                self.due |= self.thread != Some(thread);
                self.thread = Some(thread);
            }
            RecordKind::ThreadExit => {
                world.exit(addr);
                self.due = true;
            }
            RecordKind::Header => world.version(addr),
            RecordKind::Footer => (self.footer, self.due) = (true, true),
            RecordKind::Marker => return self.marker(record, until, world, rows),
            RecordKind::Unknown => {
                let remedy = "the file is damaged, of a 32-bit program (its records are shorter), or of a newer DynamoRIO than format version 7";
                return Err(self.problem(record, "no drmemtrace record has this type", remedy));
            }
        }
        Ok(None)
    }

    fn instruction(&mut self, record: Record, world: &mut SharedState, rows: &mut Rows) -> Result<()> {
        self.switch_to(record, world, rows)?;
        rows.fetch(record.addr, record.size.into());
        Ok(())
    }

    fn bundle(&self, record: Record, rows: &mut Rows) -> Result<()> {
        let lengths = record.addr.to_le_bytes();
        let start = rows.run_end().filter(|_| {
            let lengths = lengths.get(..record.size.into());
            !self.due && lengths.is_some_and(|lengths| !lengths.contains(&0))
        });
        let Some(mut start) = start else {
            let remedy = "the file is damaged: fetch it again, or convert it anew with drraw2trace";
            return Err(self.problem(
                record,
                "a bundle of up to 8 instructions follows an instruction",
                remedy,
            ));
        };
        for length in lengths.into_iter().take(record.size.into()) {
            rows.fetch(start, length.into());
            start = start.wrapping_add(length.into());
        }
        Ok(())
    }

    /// Appends a switch if the rows lack a switch to this thread.
    fn switch_to(&mut self, record: Record, world: &mut SharedState, rows: &mut Rows) -> Result<()> {
        let Some(thread) = self.thread else {
            let rule = "a thread and a process (types 22 and 24) are named before the first reference";
            let remedy = "the file is damaged: fetch it again, or convert it anew with drraw2trace";
            return Err(self.problem(record, rule, remedy));
        };
        if std::mem::take(&mut self.due) {
            world.switch_to(thread, self.cpu, self.kernel, rows);
        }
        Ok(())
    }

    /// Takes note that another file was decoded, so that the next record may need a switch.
    pub(super) fn resume(&mut self) {
        self.due = true;
    }

    /// Decodes a marker. Returns the time of the next record if it is later than `until`.
    fn marker(
        &mut self,
        record: Record,
        until: u64,
        world: &mut SharedState,
        rows: &mut Rows,
    ) -> Result<Option<u64>> {
        let value = record.addr;
        let number = self.number();
        // A chunk starts with the number of its first record and repeats the time and the processor.
        let repeated = |last: u64| self.ordinal.is_some_and(|ordinal| number - ordinal <= last);
        match record.size {
            marker::TIMESTAMP if repeated(1) => {}
            marker::CPU_ID if repeated(2) => {}
            marker::TIMESTAMP => {
                world.counts.backward += u64::from(value < self.time);
                self.time = self.time.max(value);
                return Ok((self.time > until).then_some(self.time));
            }
            // The low 12 bits are the processor, the bits above are its socket. All bits are ones if the
            // processor was not known.
            marker::CPU_ID => self.cpu = if value == u64::MAX { 0 } else { value as u32 & 0xfff },
            marker::RECORD_ORDINAL => self.ordinal = Some(number),
            marker::VERSION => world.version(value),
            marker::FILETYPE => world.file_type |= value,
            marker::PAGE_SIZE => world.page_size(value, &self.place())?,
            marker::SYSCALL => {
                self.switch_to(record, world, rows)?;
                world.call(value, rows);
                self.due = true;
            }
            marker::SYSCALL_TRACE_START => self.kernel(Some(Cause::SystemCall)),
            marker::CONTEXT_SWITCH_START => self.kernel(Some(Cause::Involuntary)),
            marker::SYSCALL_TRACE_END | marker::CONTEXT_SWITCH_END => self.kernel(None),
            marker::KERNEL_EVENT => world.counts.signals += 1,
            marker::CORE_WAIT | marker::CORE_IDLE => world.counts.idle += 1,
            marker::PHYSICAL_ADDRESS => self.physical = Some(value),
            marker::PHYSICAL_ADDRESS_NOT_AVAILABLE => world.counts.without_frame += 1,
            marker::VIRTUAL_ADDRESS => {
                if let (Some(physical), Some(thread)) = (self.physical.take(), self.thread) {
                    world.place(thread.asid, value, physical);
                }
            }
            _ => world.counts.markers += 1,
        }
        Ok(None)
    }

    fn kernel(&mut self, kernel: Option<Cause>) {
        self.kernel = kernel;
        self.due = true;
    }

    /// Takes the end of the file. A file that is cut short is an error.
    fn end(&self, world: &mut SharedState) -> Result<()> {
        let rest = self.filled % SIZE;
        if rest == 0 && !self.footer && world.file_type & file_type::CORE_SHARDED != 0 {
            world.counts.uncut += 1;
        } else if rest != 0 || !self.footer {
            let value = if rest == 0 {
                "no footer".to_string()
            } else {
                counted(rest as u64, ["byte of a record", "bytes of a record"])
            };
            let place = format!("{}: record {}", self.input.name(), self.number() + 1);
            let rule = "a drmemtrace file ends with a footer (type 26): this file is cut short";
            let remedy =
                "fetch it again, or convert it anew with drraw2trace; `--length N` imports the part before";
            return Err(Problem::request(&value, &place, rule, remedy));
        }
        Ok(())
    }

    /// Returns the number of the last decoded record, from 0.
    fn number(&self) -> u64 {
        (self.records + (self.at / SIZE) as u64).saturating_sub(1)
    }

    fn place(&self) -> String {
        format!("{}: record {}", self.input.name(), self.number())
    }

    #[cold]
    fn problem(&self, record: Record, rule: &str, remedy: &str) -> Box<Problem> {
        let value = format!("type {}, size {}, address {:#x}", record.code, record.size, record.addr);
        Problem::request(&value, &self.place(), rule, remedy)
    }
}
