//! lin analyzes the supply net of a register file by sparse LU. It represents Lin (KH90 §4.1.1: "a power
//! supply analyzer working on a register file with sparse matrices"; LF91 Table 1: a circuit analysis
//! program).
//!
//! It computes the node voltages of a resistor grid (21 cells wide, 81 long) whose cells draw currents that
//! change from one time step to the next. Cells' conductances depend on the voltage, so every step assembles
//! and factors the matrix anew: row and column k + 21 are assembled, then pivot k is eliminated (as frontal
//! solvers do), together with the right-hand side. A backward pass gives the voltages, which are stored as
//! waveforms. Elements are list elements of 32 bytes, allocated with the fill-in, in the order of
//! elimination.
//!
//! Sizes: the grid has 1,701 nodes and the matrix 73,000 elements, so every step sweeps 2.3 MB (LF91's Table
//! 5: faults vanish between 2 and 4 MB). The device records have 1 MB. The waveforms grow by 14 KB a step, up
//! to 8 MB. The address space is 57 MB. When the waveforms are full, the next analysis, with another program
//! for the register file, overwrites them.

use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

/// The program's image: reader, device models, sparse package, output.
pub(crate) const IMAGE: Image =
    Image { name: "lin", segment: 3, text: 192 << 10, data: 64 << 10, initialised: 8 << 10 };

const READ: u64 = TEXT + 0x2000;
const ASSEMBLE: u64 = TEXT + 0x4000;
const MODEL: u64 = TEXT + 0x5800;
const ELIMINATE: u64 = TEXT + 0x8000;
const SOLVE: u64 = TEXT + 0x9400;
const STORE: u64 = TEXT + 0xa000;
const LINE: u64 = DATA + 0x2000;

const WIDTH: usize = 21;
const LENGTH: usize = 81;
const DEVICE: u64 = 96;
const ELEMENT: u64 = 32;
const WAVEFORMS: u64 = 8 << 20;
const ADDRESS_SPACE: u64 = 57 << 20;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let lin = Lin::new(draws, cpu, WIDTH, LENGTH);
    cpu.sbrk(ADDRESS_SPACE - (lin.waves - DATA) - WAVEFORMS);
    Box::new(lin)
}

enum LinPhase {
    Read,
    Eliminate,
    Solve,
    Store,
}

struct Lin {
    draws: DataRng,
    width: usize,
    nodes: usize,
    phase: LinPhase,
    at: usize,
    /// The elements; element (i, j) is at `index(i, j)`.
    values: Vec<f64>,
    /// For each node, the conductance to the right and to the lower neighbour.
    grid: Vec<[f64; 2]>,
    state: Vec<u64>,
    right: Vec<f64>,
    voltage: Vec<f64>,
    stored: u64,
    // Addresses.
    elements: u64,
    devices: u64,
    vectors: u64,
    waves: u64,
}

impl Lin {
    fn new(draws: DataRng, cpu: &mut Cpu, width: usize, length: usize) -> Self {
        let nodes = width * length;
        let n = nodes as u64;
        let per_node = (2 * width + 1) as u64;
        let devices = cpu.sbrk(DEVICE * 6 * n);
        let vectors = cpu.sbrk(3 * 8 * n);
        let elements = cpu.sbrk(ELEMENT * per_node * n);
        let waves = cpu.sbrk(WAVEFORMS);
        Self {
            draws,
            width,
            nodes,
            phase: LinPhase::Read,
            at: 0,
            values: vec![0.0; per_node as usize * nodes],
            grid: vec![[0.0; 2]; nodes],
            state: vec![0; nodes],
            right: vec![0.0; nodes],
            voltage: vec![1.0; nodes],
            stored: 0,
            elements,
            devices,
            vectors,
            waves,
        }
    }

    /// Returns an element's index. Elements are allocated hook by hook: row m up to the diagonal, then column
    /// m above it.
    #[inline(always)]
    fn index(&self, i: usize, j: usize) -> usize {
        let hook = 2 * self.width + 1;
        if i >= j { i * hook + (i - j) } else { j * hook + self.width + (j - i) }
    }

    #[inline(always)]
    fn element(&self, i: usize, j: usize) -> u64 {
        self.elements + ELEMENT * self.index(i, j) as u64
    }

    /// Reads the devices at node `k`: characters become numbers, and numbers become records.
    fn read(&mut self, cpu: &mut Cpu, k: usize) {
        self.grid[k] = [0.5 + self.draws.unit(), 0.5 + self.draws.unit()];
        self.state[k] = self.draws.next();
        for device in 0..6u64 {
            let record = self.devices + DEVICE * (6 * k as u64 + device);
            // Names and numbers vary in length.
            for character in 0..34 + self.draws.below(13) {
                cpu.jump(READ + 0x80 * (character % 5));
                cpu.run(3);
                cpu.load(LINE + (40 * (6 * k as u64 + device) + character) % 8192 / 4 * 4, 4);
                cpu.run(7);
                cpu.store_local(1);
            }
            for word in 0..DEVICE / 4 {
                cpu.jump(READ + 0x400);
                cpu.run(3);
                cpu.store(record + 4 * word, 4);
            }
        }
    }

    /// Returns the present current and conductance of the cell at node `k`.
    fn model(&mut self, cpu: &mut Cpu, k: usize) -> (f64, f64) {
        cpu.call(MODEL, 4, 4);
        let record = self.devices + DEVICE * 6 * k as u64;
        for word in 0..10 {
            cpu.run(5);
            cpu.load(record + 8 * word, 8);
        }
        cpu.run(12);
        cpu.load(self.vectors + 8 * k as u64, 8);
        // A shift register switches the cell; its taps give a maximal 64-bit sequence.
        let s = self.state[k];
        let bit = (s ^ (s >> 1) ^ (s >> 3) ^ (s >> 4)) & 1;
        self.state[k] = s >> 1 | bit << 63;
        cpu.run(9);
        cpu.store(record + 88, 8);
        cpu.ret(4, 4);
        let conductance = 0.01 + 0.002 * self.voltage[k];
        (if bit == 1 { 0.3 } else { 0.01 }, conductance)
    }

    /// Clears row and column `k` up to the diagonal, and enters the connections of node `k` to earlier nodes.
    fn assemble(&mut self, cpu: &mut Cpu, k: usize) {
        for j in k.saturating_sub(self.width)..=k {
            for (r, c) in [(k, j), (j, k)] {
                cpu.jump(ASSEMBLE);
                cpu.run(3);
                cpu.store(self.element(r, c) + 8, 8);
                cpu.run(2);
                cpu.load(self.element(r, c) + 24, 4);
                let index = self.index(r, c);
                self.values[index] = 0.0;
            }
        }
        let (current, conductance) = self.model(cpu, k);
        self.right[k] = -current;
        let mut diagonal = conductance;
        // Every fourth node of the first column has a supply pad.
        if k.is_multiple_of(4 * self.width) {
            diagonal += 10.0;
            self.right[k] += 10.0;
        }
        for (other, g) in self.neighbours(k) {
            cpu.jump(ASSEMBLE + 0x80);
            cpu.run(6);
            cpu.load(self.devices + DEVICE * (6 * k.min(other) as u64 + 1) + 16, 8);
            cpu.run(5);
            diagonal += g;
            if other < k {
                for (r, c) in [(k, other), (other, k)] {
                    cpu.run(4);
                    cpu.store(self.element(r, c) + 8, 8);
                    let index = self.index(r, c);
                    self.values[index] = -g;
                }
            }
        }
        let index = self.index(k, k);
        self.values[index] = diagonal;
        cpu.run(3);
        cpu.store(self.element(k, k) + 8, 8);
        cpu.run(2);
        cpu.store(self.vectors + 16 * self.nodes as u64 + 8 * k as u64, 8);
    }

    /// Returns the nodes connected to `k`, each with the conductance between them.
    fn neighbours(&self, k: usize) -> impl Iterator<Item = (usize, f64)> + use<> {
        let (width, nodes) = (self.width, self.nodes);
        let column = k % width;
        let left = (column > 0).then(|| (k - 1, self.grid[k - 1][0]));
        let right = (column + 1 < width).then(|| (k + 1, self.grid[k][0]));
        let above = (k >= width).then(|| (k - width, self.grid[k - width][1]));
        let below = (k + width < nodes).then(|| (k + width, self.grid[k][1]));
        [left, right, above, below].into_iter().flatten()
    }

    /// Eliminates pivot `k` from the rows below, and from the right-hand side.
    fn eliminate(&mut self, cpu: &mut Cpu, k: usize) {
        let last = (k + self.width).min(self.nodes - 1);
        cpu.jump(ELIMINATE);
        cpu.run(8);
        cpu.load(self.element(k, k) + 8, 8);
        cpu.run(14);
        let pivot = 1.0 / self.values[self.index(k, k)];
        for i in k + 1..=last {
            cpu.jump(ELIMINATE + 0x60);
            cpu.run(3);
            cpu.load(self.element(i, k) + 8, 8);
            cpu.run(4);
            cpu.store(self.element(i, k) + 8, 8);
            cpu.run(3);
            cpu.load(self.element(i, k) + 24, 4);
            let index = self.index(i, k);
            self.values[index] *= pivot;
            self.right[i] -= self.values[index] * self.right[k];
            cpu.run(4);
            cpu.store(self.vectors + 16 * self.nodes as u64 + 8 * i as u64, 8);
        }
        for j in k + 1..=last {
            cpu.jump(ELIMINATE + 0x100);
            cpu.run(5);
            cpu.load(self.element(k, j) + 8, 8);
            cpu.run(3);
            cpu.load(self.element(k, j) + 28, 4);
            cpu.run(3);
            let upper = self.values[self.index(k, j)];
            for i in k + 1..=last {
                let (source, target) = (self.element(i, k), self.element(i, j));
                cpu.jump(ELIMINATE + 0x140);
                cpu.run(1);
                cpu.load(source, 4);
                cpu.run(1);
                cpu.load(target, 4);
                cpu.run(3);
                cpu.load(source + 8, 8);
                cpu.run(2);
                cpu.load(target + 8, 8);
                cpu.run(5);
                cpu.store(target + 8, 8);
                cpu.load(target + 24, 4);
                cpu.run(2);
                cpu.load(source + 24, 4);
                cpu.run(4);
                let (from, to) = (self.index(i, k), self.index(i, j));
                self.values[to] -= self.values[from] * upper;
            }
        }
    }

    /// Computes the voltage of node `k`. The voltages of later nodes are known.
    fn solve(&mut self, cpu: &mut Cpu, k: usize) {
        let right = self.vectors + 16 * self.nodes as u64;
        cpu.jump(SOLVE);
        cpu.run(6);
        cpu.load(right + 8 * k as u64, 8);
        let mut sum = self.right[k];
        for j in k + 1..=(k + self.width).min(self.nodes - 1) {
            cpu.jump(SOLVE + 0x40);
            cpu.run(2);
            cpu.load(self.element(k, j) + 8, 8);
            cpu.run(3);
            cpu.load(self.vectors + 8 * j as u64, 8);
            cpu.run(4);
            cpu.load(self.element(k, j) + 28, 4);
            cpu.run(3);
            sum -= self.values[self.index(k, j)] * self.voltage[j];
        }
        cpu.jump(SOLVE + 0x80);
        cpu.run(3);
        cpu.load(self.element(k, k) + 8, 8);
        cpu.run(12);
        cpu.store(self.vectors + 8 * k as u64, 8);
        self.voltage[k] = sum / self.values[self.index(k, k)];
    }

    /// Appends the voltage of node `k` to its waveform.
    fn store(&mut self, cpu: &mut Cpu, k: usize) {
        cpu.jump(STORE);
        cpu.run(5);
        cpu.load(self.vectors + 8 * k as u64, 8);
        cpu.run(6);
        cpu.store(self.waves + self.stored, 8);
        self.stored += 8;
        if self.stored == WAVEFORMS {
            self.stored = 0;
        }
    }
}

impl Program for Lin {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let end = (self.at + 4).min(self.nodes);
        for k in self.at..end {
            match self.phase {
                LinPhase::Read => self.read(cpu, k),
                LinPhase::Eliminate => {
                    let ahead = k + self.width;
                    for node in if k == 0 { 0 } else { ahead }..(ahead + 1).min(self.nodes) {
                        self.assemble(cpu, node);
                    }
                    self.eliminate(cpu, k);
                }
                LinPhase::Solve => self.solve(cpu, self.nodes - 1 - k),
                LinPhase::Store => self.store(cpu, k),
            }
        }
        self.at = end;
        if end == self.nodes {
            self.at = 0;
            self.phase = match self.phase {
                LinPhase::Read | LinPhase::Store => LinPhase::Eliminate,
                LinPhase::Eliminate => LinPhase::Solve,
                LinPhase::Solve => LinPhase::Store,
            };
        }
        Status::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn the_voltages_obey_kirchhoff() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let mut lin = Lin::new(DataRng::new(2, 0), &mut cpu, 5, 12);
        let mut before = lin.voltage.clone();
        let (mut checked, mut currents) = (0, Vec::new());
        while checked < 3 {
            let storing = matches!(lin.phase, LinPhase::Store);
            if matches!(lin.phase, LinPhase::Solve) && lin.at == 0 {
                before.clone_from(&lin.voltage);
                // The next state's bit was shifted into the top of the register.
                currents = lin.state.iter().map(|s| if s >> 63 == 1 { 0.3 } else { 0.01 }).collect();
            }
            lin.step(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
            if storing || !matches!(lin.phase, LinPhase::Store) {
                continue;
            }
            for k in 0..lin.nodes {
                let v = &lin.voltage;
                let mut flow = currents[k] + (0.01 + 0.002 * before[k]) * v[k];
                if k.is_multiple_of(20) {
                    flow += 10.0 * (v[k] - 1.0);
                }
                for (other, g) in lin.neighbours(k) {
                    flow += g * (v[k] - v[other]);
                }
                assert!(flow.abs() < 1e-9, "node {k}: {flow}");
            }
            checked += 1;
        }
    }
}
