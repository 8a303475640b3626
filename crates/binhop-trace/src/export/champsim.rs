//! `ChampSimExport` writes ChampSim's binary trace: 64 bytes for each instruction.
//!
//! | bytes | holds | here |
//! |---|---|---|
//! | 0–7 | address of the instruction | as `din.rs` spreads the instructions of a run |
//! | 8, 9 | branch, taken | both 1, if the next instruction does not follow in memory |
//! | 10–11 | destination registers | 26 (the instruction pointer) for a branch: a direct jump to ChampSim |
//! | 12–15 | source registers | none |
//! | 16–31 | two store addresses | the stores and modifies behind the last instruction of the run |
//! | 32–63 | four load addresses | the loads and modifies behind the last instruction of the run |
//!
//! A field of 0 holds no address. References that do not fit into the record of an instruction go to a
//! further record of the same instruction. References before the first fetch go to an instruction at
//! address 0. The load and the store of a modify stand in one instruction, and `binhop import` makes a modify
//! of them again. If an instruction loads and stores one address separately, the import makes a modify of
//! these two references, too.

use super::din::{LeftOut, instructions};
use super::{Exporter, RecordSink, Virtual, Wanted, Writes};
use crate::event::{Event, Op};
use binhop_base::counted;

/// The entry of the format in the list.
pub(super) const CHAMPSIM: Exporter = Exporter {
    name: "champsim",
    what: "ChampSim's binary trace of instructions, 64 bytes each",
    example: "",
    lost: "sizes; where instructions begin within a run; branches that are not taken; registers; which process runs, and all system events; references to address 0; instructions with more than four loads or two stores, which become several; a modify is a load and a store of one address by one instruction",
    writes: Writes::Virtual(|| Box::new(ChampSimExport::default())),
};

/// ChampSim's number of the x86 instruction pointer.
const INSTRUCTION_POINTER: u8 = 26;
const STORES: usize = 2;
const LOADS: usize = 4;

#[derive(Default)]
struct ChampSimExport {
    /// The last instruction, which may still get references.
    open: Option<Instruction>,
    left_out: LeftOut,
    /// True once there was a fetch.
    fetched: bool,
    /// The number of references before the first fetch, and of the instructions made up for them.
    early: u64,
    made_up: u64,
    repeated: u64,
    nowhere: u64,
}

#[derive(Clone, Copy)]
struct Instruction {
    addr: u64,
    /// The address behind the last byte of the instruction.
    end: u64,
    stores: [u64; STORES],
    loads: [u64; LOADS],
}

impl Instruction {
    fn at(addr: u64, size: u64) -> Self {
        Self { addr, end: addr.wrapping_add(size), stores: [0; STORES], loads: [0; LOADS] }
    }

    /// Notes an address that the instruction loads from, stores to, or both. Returns whether there was room.
    fn place(&mut self, addr: u64, loads: bool, stores: bool) -> bool {
        let free = |places: &[u64]| places.iter().position(|&place| place == 0);
        let (load, store) = (free(&self.loads), free(&self.stores));
        if loads && load.is_none() || stores && store.is_none() {
            return false;
        }
        if let Some(place) = load.filter(|_| loads) {
            self.loads[place] = addr;
        }
        if let Some(place) = store.filter(|_| stores) {
            self.stores[place] = addr;
        }
        true
    }

    /// Writes the instruction. `next` is the address of the next instruction, if there is one.
    fn write(&self, next: Option<u64>, out: &mut RecordSink<'_>) -> Wanted {
        let jumps = next.is_some_and(|next| next != self.end && next != self.addr);
        out.put(|out| {
            out.extend(self.addr.to_le_bytes());
            out.extend([u8::from(jumps), u8::from(jumps)]);
            out.extend([if jumps { INSTRUCTION_POINTER } else { 0 }, 0]);
            out.extend([0; 4]);
            self.stores.iter().chain(&self.loads).for_each(|addr| out.extend(addr.to_le_bytes()));
        })
    }
}

impl ChampSimExport {
    fn next(&mut self, next: Instruction, out: &mut RecordSink<'_>) -> Wanted {
        self.open.replace(next).map_or(Ok(()), |open| open.write(Some(next.addr), out))
    }

    /// Takes a load, a store, or a modify. A modify is a load and a store, and counts once.
    fn data(&mut self, event: &Event, out: &mut RecordSink<'_>) -> Wanted {
        if event.addr == 0 {
            self.nowhere += 1;
            return Ok(());
        }
        self.early += u64::from(!self.fetched);
        let (loads, stores) = (event.op != Op::Store, event.op != Op::Load);
        let made_up = &mut self.made_up;
        let open = self.open.get_or_insert_with(|| {
            *made_up += 1;
            Instruction::at(0, 0)
        });
        if open.place(event.addr, loads, stores) {
            return Ok(());
        }
        let added = if self.fetched { &mut self.repeated } else { &mut self.made_up };
        *added += 1;
        let mut again = Instruction::at(open.addr, open.end.wrapping_sub(open.addr));
        again.place(event.addr, loads, stores);
        self.next(again, out)
    }
}

impl Virtual for ChampSimExport {
    fn event(&mut self, event: &Event, out: &mut RecordSink<'_>) -> Wanted {
        self.left_out.note(event);
        match event.op {
            Op::Fetch => {
                self.fetched = true;
                instructions(event).try_for_each(|(addr, size)| self.next(Instruction::at(addr, size), out))
            }
            Op::Load | Op::Store | Op::Modify => self.data(event, out),
            _ => Ok(()),
        }
    }

    fn end(&mut self, out: &mut RecordSink<'_>) -> Wanted {
        self.open.take().map_or(Ok(()), |open| open.write(None, out))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.left_out.notes();
        if self.repeated > 0 {
            notes.push(format!(
                "{} because of loads from more than {LOADS} addresses or stores to more than {STORES}",
                counted(self.repeated, ["instruction is repeated", "instructions are repeated"])
            ));
        }
        if self.made_up > 0 {
            notes.push(format!(
                "{} at address 0, for {} before the first fetch",
                counted(self.made_up, ["instruction is added", "instructions are added"]),
                counted(self.early, ["reference", "references"])
            ));
        }
        if self.nowhere > 0 {
            notes.push(format!(
                "{} left out: a ChampSim trace writes address 0 for no reference",
                counted(self.nowhere, ["reference to address 0 is", "references to address 0 are"])
            ));
        }
        notes
    }
}
