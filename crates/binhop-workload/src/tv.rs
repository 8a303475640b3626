//! tv is a timing verifier: it finds longest paths in a large netlist. It represents Tv (KH90 §4.1.1: "a VLSI
//! timing verifier"; LF91 Table 1: a Pascal timing verifier analyzing the MultiTitan CPU).
//!
//! It reads a netlist of 135,000 gates. Then it computes the latest arrival at every gate, case by case. A
//! case is a setting of the chip's mode inputs, which cuts some connections. The search goes depth first from
//! each gate through its fan-in, and visits every gate once per case. A table of slopes gives the delay of a
//! connection. If a case is worse than all cases before, an event is recorded for the gate; every visit
//! compares with the gate's last event.
//!
//! Sizes: a gate is a record of 64 bytes and a list cell of 16 per fan-in, allocated as read: 14 MB. Events
//! of 24 bytes are never freed: another 10 MB in a dozen cases. Most connections are short (tens of gates);
//! one in seven is a global net that reaches back up to 40,000 gates. LF91's Table 4 shows for the original
//! some fourteen passes over 8 to 16 MB. The heap is 96 MB. After 64 cases another chip is read in its place.
//! MB90's TV has 3.4 MB: the same program on a smaller chip ([`crate::mb90`]).

use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

/// The program's image: reader, case analysis, delay model, report, Pascal run-time system.
pub(crate) const IMAGE: Image =
    Image { name: "tv", segment: 4, text: 256 << 10, data: 64 << 10, initialised: 32 << 10 };

const READ: u64 = TEXT + 0x2000;
const NEW: u64 = TEXT + 0x3000;
const VISIT: u64 = TEXT + 0x8000;
const DELAY: u64 = TEXT + 0x9800;
const SLOPE: u64 = TEXT + 0xb000;
const RECORD: u64 = TEXT + 0xc800;
const LINE: u64 = DATA + 0x8000;
const TABLE: u64 = DATA + 0x2000;

const GATE: u64 = 64;
const CELL: u64 = 16;
const EVENT: u64 = 24;
const CASES: u32 = 64;

/// `TvShape` says how large the chip and the heap are.
#[derive(Clone, Copy)]
pub(crate) struct TvShape {
    /// Gates of a chip.
    pub(crate) gates: usize,
    /// Bytes of the heap. If the events of another case might not fit, the next chip is read.
    pub(crate) heap: u64,
    /// The largest distance that a global net reaches back, in gates.
    pub(crate) global: u64,
}

const SHAPE: TvShape = TvShape { gates: 135_000, heap: 96 << 20, global: 40_000 };

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Tv::new(draws, cpu, SHAPE))
}

#[derive(Clone, Copy, Default)]
struct Gate {
    /// The first fan-in cell. The gate's cells end where the next gate's cells begin.
    fan_in: u32,
    /// The record's place in the heap.
    at: u32,
    /// The case in which the gate was visited last.
    case: u32,
    arrival: f32,
    /// The worst arrival of all cases, and the place of its event.
    worst: f32,
    event: u32,
}

#[derive(Clone, Copy)]
struct VisitFrame {
    gate: u32,
    cell: u32,
    latest: f32,
}

pub(crate) struct Tv {
    draws: DataRng,
    shape: TvShape,
    gates: Vec<Gate>,
    /// The driving gate and the resistance of each fan-in.
    cells: Vec<(u32, f32)>,
    frames: Vec<VisitFrame>,
    /// The gate that is read next, or the root that is visited next.
    next: usize,
    /// The current case; 0 while the netlist is read.
    case: u32,
    heap: u64,
    free: u64,
}

impl Tv {
    pub(crate) fn new(draws: DataRng, cpu: &mut Cpu, shape: TvShape) -> Self {
        let heap = cpu.sbrk(shape.heap);
        Self {
            draws,
            shape,
            gates: Vec::with_capacity(shape.gates + 1),
            cells: Vec::new(),
            frames: Vec::new(),
            next: 0,
            case: 0,
            heap,
            free: 0,
        }
    }

    /// Allocates a record as Pascal's new does: moves the heap pointer and clears nothing.
    fn new_record(&mut self, cpu: &mut Cpu, bytes: u64) -> u64 {
        cpu.call(NEW, 1, 0);
        cpu.run(7);
        cpu.load(TABLE - 0x40, 4);
        cpu.run(5);
        cpu.store(TABLE - 0x40, 4);
        cpu.ret(1, 0);
        let at = self.free;
        self.free += bytes;
        assert!(self.free <= self.shape.heap, "the heap holds a netlist and the events of {CASES} cases");
        at
    }

    /// Reads gate `i` with its fan-in.
    fn read(&mut self, cpu: &mut Cpu, i: usize) {
        let at = self.new_record(cpu, GATE);
        for character in 0..36u64 {
            cpu.jump(READ + 0x60 * (character % 7));
            cpu.run(4);
            cpu.load(LINE + (36 * i as u64 + character) % 8192 / 4 * 4, 4);
            cpu.run(5);
            cpu.store_local(1);
        }
        for word in 0..GATE / 4 {
            cpu.jump(READ + 0x400);
            cpu.run(2);
            cpu.store(self.heap + at + 4 * word, 4);
        }
        let fan_in = self.cells.len() as u32;
        // The first gates of every block are fed by pads and latches only.
        let inputs = if i.is_multiple_of(60) { 0 } else { 1 + self.draws.below(4) };
        for _ in 0..inputs {
            let reach = if self.draws.below(7) == 0 { self.shape.global } else { 60 };
            let driver = i as u64 - 1 - self.draws.below(reach.min(i as u64));
            let cell = self.new_record(cpu, CELL);
            cpu.jump(READ + 0x480);
            cpu.run(6);
            cpu.load(self.heap + u64::from(self.gates[driver as usize].at) + 8, 4);
            for word in 0..CELL / 4 {
                cpu.run(3);
                cpu.store(self.heap + cell + 4 * word, 4);
            }
            self.cells.push((driver as u32, 0.2 + self.draws.unit() as f32));
        }
        self.gates.push(Gate { fan_in, at: at as u32, ..Gate::default() });
    }

    fn gate(&self, i: u32) -> u64 {
        self.heap + u64::from(self.gates[i as usize].at)
    }

    /// Returns whether this case cuts connection `cell`.
    fn cut(&self, cell: u32) -> bool {
        (u64::from(cell) * 0x9E37_79B9 + u64::from(self.case) * 0x85EB_CA77) % 1009 < 60
    }

    /// Enters a gate.
    fn enter(&mut self, cpu: &mut Cpu, gate: u32) {
        cpu.call(VISIT, 6, 8);
        let at = self.gate(gate);
        for word in 0..6 {
            cpu.run(4);
            cpu.load(at + 8 * word, 4);
            cpu.run(3);
            cpu.store_local(word);
        }
        cpu.store(at + 20, 4);
        self.gates[gate as usize].case = self.case;
        let cell = self.gates[gate as usize].fan_in;
        self.frames.push(VisitFrame { gate, cell, latest: 0.0 });
    }

    /// Returns the delay of a connection from the driver's resistance and a table of slopes.
    fn delay(&self, cpu: &mut Cpu, gate: u32, cell: u32, arrival: f32) -> f32 {
        cpu.call(DELAY, 5, 10);
        let at = self.gate(gate);
        for word in 0..5 {
            cpu.run(4);
            cpu.load(at + 24 + 4 * word, 4);
            cpu.run(3);
            cpu.store_local(word);
        }
        let resistance = self.cells[cell as usize].1;
        let entry = ((resistance * 40.0) as u64 + (arrival as u64 % 16) * 48) % 1024;
        cpu.call(SLOPE, 3, 6);
        for (step, column) in [0, 16, 768, 784].into_iter().enumerate() {
            cpu.run(5);
            cpu.load(TABLE + (16 * entry + column) % 0x4000, 8);
            cpu.run(4);
            cpu.store_local(2 * (step as u64 % 3));
            cpu.run(2);
            cpu.load_local(2 * (step as u64 % 3));
        }
        cpu.run(10);
        cpu.ret(3, 6);
        for word in 0..5 {
            cpu.jump(DELAY + 0x180);
            cpu.run(2);
            cpu.load_local(word);
            cpu.run(2);
            cpu.store_local(word);
        }
        cpu.run(9);
        cpu.ret(5, 10);
        resistance * (1.0 + 0.01 * (entry % 48) as f32)
    }

    /// Continues with the top gate: its next fan-in, or its end.
    fn visit(&mut self, cpu: &mut Cpu) {
        let top = self.frames.len() - 1;
        let frame = self.frames[top];
        let end = self.gates.get(frame.gate as usize + 1).map_or(self.cells.len() as u32, |g| g.fan_in);
        cpu.jump(VISIT + 0x140);
        cpu.run(4);
        if frame.cell == end {
            self.leave(cpu, frame);
            return;
        }
        let own = u64::from(frame.cell - self.gates[frame.gate as usize].fan_in);
        let cell = self.gate(frame.gate) + GATE + CELL * own;
        cpu.load(cell, 4);
        cpu.run(3);
        cpu.load(cell + 4, 4);
        cpu.run(5);
        let (driver, _) = self.cells[frame.cell as usize];
        if self.cut(frame.cell) {
            cpu.jump(VISIT + 0x200);
            cpu.run(3);
            self.frames[top].cell += 1;
            return;
        }
        cpu.load(self.gate(driver) + 20, 4);
        cpu.run(3);
        if self.gates[driver as usize].case != self.case {
            self.enter(cpu, driver);
            return;
        }
        cpu.load(self.gate(driver) + 24, 4);
        cpu.run(2);
        let arrival = self.gates[driver as usize].arrival;
        let after = arrival + self.delay(cpu, frame.gate, frame.cell, arrival);
        cpu.jump(VISIT + 0x280);
        cpu.run(6);
        self.frames[top].latest = frame.latest.max(after);
        self.frames[top].cell += 1;
    }

    /// Ends a gate's visit: stores its arrival and compares the arrival with the worst so far.
    fn leave(&mut self, cpu: &mut Cpu, frame: VisitFrame) {
        let at = self.gate(frame.gate);
        cpu.jump(VISIT + 0x300);
        cpu.run(5);
        cpu.store(at + 24, 4);
        cpu.run(4);
        cpu.load(at + 28, 4);
        cpu.run(6);
        let gate = &mut self.gates[frame.gate as usize];
        gate.arrival = frame.latest;
        let (worst, event) = (gate.worst, u64::from(gate.event));
        if self.case > 1 {
            cpu.load(self.heap + event, 8);
            cpu.run(5);
        }
        if frame.latest > worst || self.case == 1 {
            let event = self.new_record(cpu, EVENT);
            cpu.jump(RECORD);
            for word in 0..EVENT / 4 {
                cpu.run(4);
                cpu.store(self.heap + event + 4 * word, 4);
            }
            cpu.run(3);
            cpu.store(at + 28, 4);
            let gate = &mut self.gates[frame.gate as usize];
            gate.worst = frame.latest;
            gate.event = event as u32;
        }
        self.frames.pop();
        cpu.ret(6, 8);
    }

    /// Begins the next root, the next case, or the next chip.
    fn root(&mut self, cpu: &mut Cpu) {
        cpu.jump(TEXT + 0x1000);
        cpu.run(5);
        cpu.load(TABLE - 0x80, 4);
        if self.next < self.shape.gates {
            let root = self.next as u32;
            self.next += 1;
            cpu.load(self.gate(root) + 20, 4);
            cpu.run(3);
            if self.gates[root as usize].case != self.case {
                self.enter(cpu, root);
            }
            return;
        }
        self.next = 0;
        self.case += 1;
        if self.case > CASES || self.free + EVENT * self.shape.gates as u64 > self.shape.heap {
            self.case = 0;
            self.free = 0;
            self.gates.clear();
            self.cells.clear();
        }
    }
}

impl Program for Tv {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if self.case == 0 {
            let end = (self.next + 50).min(self.shape.gates);
            for gate in self.next..end {
                self.read(cpu, gate);
            }
            self.next = end;
            if end == self.shape.gates {
                self.next = 0;
                self.case = 1;
            }
            return Status::Ready;
        }
        for _ in 0..150 {
            if self.frames.is_empty() {
                self.root(cpu);
                if self.case == 0 {
                    break;
                }
            } else {
                self.visit(cpu);
            }
        }
        Status::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn arrivals_are_the_longest_paths() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let shape = TvShape { gates: 1_500, heap: 1 << 20, global: 40_000 };
        let mut tv = Tv::new(DataRng::new(4, 0), &mut cpu, shape);
        while tv.case == 0 {
            tv.step(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
        }
        for case in 1..=4 {
            while tv.next < tv.shape.gates || !tv.frames.is_empty() {
                if tv.frames.is_empty() {
                    tv.root(&mut cpu);
                } else {
                    tv.visit(&mut cpu);
                }
                cpu.finish_step();
                cpu.rows.clear();
            }
            // Every driver has a smaller number than the gate that it drives.
            let mut arrival = vec![0f32; tv.shape.gates];
            for gate in 0..tv.shape.gates {
                let end = tv.gates.get(gate + 1).map_or(tv.cells.len() as u32, |g| g.fan_in);
                for cell in tv.gates[gate].fan_in..end {
                    let (driver, _) = tv.cells[cell as usize];
                    if !tv.cut(cell) {
                        let before = arrival[driver as usize];
                        let after = before + tv.delay(&mut cpu, gate as u32, cell, before);
                        arrival[gate] = arrival[gate].max(after);
                    }
                }
                cpu.finish_step();
                cpu.rows.clear();
            }
            let found: Vec<f32> = tv.gates.iter().map(|g| g.arrival).collect();
            assert!(found == arrival && tv.case == case, "case {case}");
            assert!(arrival.iter().any(|&a| a > 5.0), "paths of some length");
            tv.root(&mut cpu);
        }
        assert_eq!(cpu.depth(), 0);
    }
}
