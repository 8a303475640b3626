//! `ChampSimImport` reads ChampSim's traces, a record of fixed size for each instruction, and CloudSuite's
//! variant.
//!
//! | bytes | 64-byte record | 96-byte record (CloudSuite) |
//! |---|---|---|
//! | 0 | address of the instruction | the same |
//! | 8, 9 | branch, taken: 0 or 1 | the same |
//! | 10 | 2 + 4 registers | 4 + 4 registers |
//! | 16 or 24 | 2 addresses written | 4 addresses written |
//! | 32 or 56 | 4 addresses read | 4 addresses read |
//! | 88 | | 2 bytes of address space |
//!
//! An address of 0 is unused. A record has no sizes and no instruction length. As with `din`, each reference
//! is one access of the aligned four-byte word at its address, so it touches one line, as in ChampSim. A
//! fetch joins a run if it may be the next instruction. The trace is marked `sizes = "assumed"`.
//!
//! The loads of an instruction come before its stores. Every address in a record is one operand and counts
//! once. A load and a store of the same address are one modify, in the place of the load. If an instruction
//! names an address several times, its last loads pair with its first stores: loads A, A and store A are a
//! load, then a modify; load A and stores A, A are a modify, then a store.
//!
//! A file has no mark of its format. So the two bytes that must be 0 or 1 are checked in every record, and a
//! file of another format is soon recognized.

use binhop_base::{Problem, Result, counted, counted_notes};

use super::rows::{Left, Rows};
use super::{Format, Importer};
use crate::event::{EventBatch, Op};
use crate::input::Input;
use crate::source::Failure;
use crate::source::{Meta, Source};

/// The entry of ChampSim in the list.
pub(super) const FORMAT: Format = Format {
    name: "champsim",
    what: "ChampSim's records of 64 bytes, one for each instruction",
    example: &[0; 64],
    lost: "a reference is taken as the aligned 4-byte word at its address (sizes = \"assumed\"); registers and branches are left out; one process, no system events",
    extensions: &["champsimtrace", "champsim"],
    open: |input| Ok(Box::new(ChampSimImport::<2, 64>::new(input))),
    directory: None,
};
/// The entry of CloudSuite's variant in the list.
pub(super) const CLOUDSUITE: Format = Format {
    name: "champsim-cloudsuite",
    what: "ChampSim's records of 96 bytes, as the CloudSuite traces have them: with an address space",
    example: &[0; 96],
    lost: "as with champsim; where the address space changes, a switch is written, and why is not known",
    extensions: &["cloudsuite"],
    open: |input| Ok(Box::new(ChampSimImport::<4, 96>::new(input))),
    directory: None,
};

/// The records of a block.
const BLOCK_RECORDS: usize = 4096;

/// A batch is returned once it holds this many rows. The block that reaches the number is finished first.
const BATCH_ROWS: usize = 64 << 10;

/// `ChampSimImport` reads a trace of records of `SIZE` bytes with up to `STORES` store addresses.
struct ChampSimImport<const STORES: usize, const SIZE: usize> {
    input: Input,
    meta: Meta,
    rows: Rows,
    block: Vec<u8>,
    /// The number of records in the blocks before.
    records: u64,
    asid: u32,
    switches: u64,
    /// True if the file starts as a drmemtrace file does.
    is_drmemtrace: bool,
    ended: bool,
    failed: Failure,
}

/// Returns how often an address occurs in a list of addresses.
#[inline]
fn times(addr: u64, among: &[u64]) -> usize {
    among.iter().filter(|&&other| other == addr).count()
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

impl<const STORES: usize, const SIZE: usize> ChampSimImport<STORES, SIZE> {
    const FIRST_STORE: usize = if STORES == 2 { 16 } else { 24 };
    const FIRST_LOAD: usize = Self::FIRST_STORE + 8 * STORES;

    fn new(input: Input) -> Self {
        Self {
            input,
            meta: Meta { sizes: Some("assumed".into()), ..Meta::default() },
            rows: Rows::with_capacity(BATCH_ROWS),
            block: vec![0; BLOCK_RECORDS * SIZE],
            records: 0,
            asid: 0,
            switches: 0,
            is_drmemtrace: false,
            ended: false,
            failed: Failure::default(),
        }
    }

    fn advance(&mut self) -> Result<Option<EventBatch>> {
        while !self.ended && self.rows.len() < BATCH_ROWS {
            self.decode_block()?;
        }
        if self.ended && self.rows.references() == 0 {
            return Err(Problem::request(
                "0 records",
                self.input.name(),
                "a trace holds at least one reference",
                "check the command that wrote it",
            ));
        }
        Ok((!self.rows.is_empty()).then(|| self.rows.take(BATCH_ROWS)))
    }

    fn decode_block(&mut self) -> Result<()> {
        let filled = self.input.fill(&mut self.block)?;
        self.ended = filled < self.block.len();
        self.is_drmemtrace |= self.records == 0 && self.block.starts_with(&[25, 0]);
        let block = std::mem::take(&mut self.block);
        let wrong = block[..filled].chunks_exact(SIZE).position(|record| {
            let plausible = record[8] <= 1 && record[9] <= 1;
            if plausible {
                self.instruction(record);
            }
            !plausible
        });
        self.block = block;
        if let Some(place) = wrong {
            return Err(self.no_record(place));
        }
        self.records += (filled / SIZE) as u64;
        if !filled.is_multiple_of(SIZE) {
            return Err(Problem::request(
                &counted((filled % SIZE) as u64, ["byte", "bytes"]),
                &format!("{}: record {}", self.input.name(), self.records),
                &format!("a record has {SIZE} bytes, and the trace ends in the middle of a record"),
                "fetch it again; if it is whole, say the right --format: champsim has records of 64 bytes, champsim-cloudsuite of 96",
            ));
        }
        if self.ended {
            self.rows.end_run();
        }
        Ok(())
    }

    #[inline]
    fn instruction(&mut self, record: &[u8]) {
        if SIZE == 96 {
            let asid = u32::from(u16::from_le_bytes([record[88], record[89]]));
            if asid != self.asid {
                self.switch(asid);
            }
        }
        self.rows.fetch_word(u64_at(record, 0));
        let stores: [u64; STORES] = std::array::from_fn(|n| u64_at(record, Self::FIRST_STORE + 8 * n));
        let loads: [u64; 4] = std::array::from_fn(|n| u64_at(record, Self::FIRST_LOAD + 8 * n));
        // Most instructions touch no memory, and most others touch one address.
        if loads.iter().any(|&addr| addr != 0) {
            for (slot, &addr) in loads.iter().enumerate().filter(|&(_, &addr)| addr != 0) {
                let later_loads = times(addr, &loads[slot + 1..]);
                let op = if later_loads < times(addr, &stores) { Op::Modify } else { Op::Load };
                self.rows.data_word(op, addr);
            }
        }
        if stores.iter().any(|&addr| addr != 0) {
            for (slot, &addr) in stores.iter().enumerate().filter(|&(_, &addr)| addr != 0) {
                let earlier_stores = times(addr, &stores[..slot]);
                if earlier_stores >= times(addr, &loads) {
                    self.rows.data_word(Op::Store, addr);
                }
            }
        }
    }

    #[cold]
    fn switch(&mut self, asid: u32) {
        self.asid = asid;
        self.switches += 1;
        self.rows.switch(asid, 0, 0, Left::Running);
    }

    fn no_record(&self, place: usize) -> Box<Problem> {
        let record = &self.block[place * SIZE..];
        let (branch, taken) = (record[8], record[9]);
        let number = self.records + place as u64;
        let remedy = if self.is_drmemtrace {
            "it starts as drmemtrace files do: say --format drmemtrace"
        } else {
            "say the right --format: champsim has records of 64 bytes, champsim-cloudsuite of 96"
        };
        Problem::request(
            &format!("{branch} and {taken}"),
            &format!("{}: record {number}", self.input.name()),
            &format!(
                "bytes 8 and 9 of a ChampSim record of {SIZE} bytes (branch, taken) are 0 or 1: this is no such record"
            ),
            remedy,
        )
    }
}

impl<const STORES: usize, const SIZE: usize> Source for ChampSimImport<STORES, SIZE> {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

impl<const STORES: usize, const SIZE: usize> Importer for ChampSimImport<STORES, SIZE> {
    fn notes(&self) -> Vec<String> {
        counted_notes([
            (
                self.rows.references(),
                ["reference has", "references have"],
                "no size: a reference becomes the aligned 4-byte word at its address",
            ),
            (
                self.switches,
                [
                    "change of address space becomes a switch, whose cause and thread are",
                    "changes of address space become switches, whose cause and thread are",
                ],
                "not known",
            ),
        ])
    }

    fn references(&self) -> u64 {
        self.rows.references()
    }

    fn identity(&self) -> Option<String> {
        self.input.identity().map(ToString::to_string)
    }
}
