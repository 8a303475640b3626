//! sor solves a very large sparse nonlinear system by successive over-relaxation. It represents Sor (KH90
//! §4.1.1: "very large, sparse matrices"; LF91 Table 1: a Fortran implementation).
//!
//! It computes the node potentials u of a random network of conductors, Σⱼ g(uᵢ − uⱼ)·cᵢⱼ + dᵢ uᵢ = bᵢ, where
//! the characteristic g is a monotone cubic spline in a table. One relaxation of row i evaluates g for every
//! neighbour (a Fortran call: arguments by reference, through the stack), then takes an over-relaxed Newton
//! step. Rows are swept in order; couplings go to nodes anywhere in the network.
//!
//! Sizes: there are 775,000 unknowns. The arrays u, b and d have 6.2 MB each, and every sweep gathers from all
//! of u. A row has 2 to 5 couplings; the compressed rows take 30 MB. The arrays are declared with room to
//! spare. The program has 58.9 MB in all (the paper: 62 MB), of which 48 MB are touched. LF91's Table 2 shows the same
//! for the original: faults fall in a straight line up to 6.2 MB (a uniform gather), then stay constant (a sweep over
//! some 42 MB). When the system is solved (the residual has fallen to 10⁻⁶ of its first value), another right-hand side
//! is loaded.

use crate::address_space::{Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

/// The program's image: Fortran main, the sweep, the characteristic, and the used part of the run-time
/// library.
pub(crate) const IMAGE: Image =
    Image { name: "sor", segment: 1, text: 64 << 10, data: 64 << 10, initialised: 4 << 10 };

const ASSEMBLE: u64 = TEXT + 0x1000;
const SWEEP: u64 = TEXT + 0x2400;
const CHARACTERISTIC: u64 = TEXT + 0x3a00;
const SPLINE: u64 = TEXT + 0x5e00;
const LOAD: u64 = TEXT + 0x6800;

const UNKNOWNS: usize = 775_000;
const RELAXATION: f64 = 1.3;
/// Knots of the characteristic between −8 and 8.
const KNOTS: usize = 256;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Sor::new(draws, cpu, UNKNOWNS))
}

enum SorPhase {
    Assemble,
    Relax,
    Load,
}

struct Sor {
    draws: DataRng,
    phase: SorPhase,
    row: usize,
    // The system.
    u: Vec<f64>,
    b: Vec<f64>,
    d: Vec<f64>,
    first: Vec<u32>,
    column: Vec<u32>,
    value: Vec<f64>,
    /// g and its slope at each knot.
    knots: Vec<[f64; 2]>,
    // The residuals (sums of squared corrections) of the current sweep and of the first sweep.
    residual: f64,
    initial: f64,
    sweeps: u32,
    // The addresses of these arrays.
    at: Addresses,
}

struct Addresses {
    u: u64,
    b: u64,
    d: u64,
    first: u64,
    column: u64,
    value: u64,
    knots: u64,
}

impl Sor {
    fn new(draws: DataRng, cpu: &mut Cpu, unknowns: usize) -> Self {
        let n = unknowns as u64;
        // Fortran arrays are declared with room to spare: for four couplings a row, where a row has 3.2 on
        // average.
        let at = Addresses {
            u: cpu.sbrk(8 * n),
            b: cpu.sbrk(8 * n),
            d: cpu.sbrk(8 * n),
            first: cpu.sbrk(4 * (n + 1)),
            column: cpu.sbrk(4 * 4 * n),
            value: cpu.sbrk(8 * 4 * n),
            knots: crate::address_space::DATA + 0x1000,
        };
        // g(v) = v + v³/64: monotone, so that the relaxation converges.
        let knots = (0..=KNOTS)
            .map(|k| {
                let v = 16.0 * k as f64 / KNOTS as f64 - 8.0;
                [v + v * v * v / 64.0, 1.0 + 3.0 * v * v / 64.0]
            })
            .collect();
        Self {
            draws,
            phase: SorPhase::Assemble,
            row: 0,
            u: vec![0.0; unknowns],
            b: vec![0.0; unknowns],
            d: vec![0.0; unknowns],
            first: vec![0],
            column: Vec::new(),
            value: Vec::new(),
            knots,
            residual: 0.0,
            initial: 0.0,
            sweeps: 0,
            at,
        }
    }

    /// Assembles row `i`: couplings to random nodes, a diagonal, a source.
    fn assemble(&mut self, cpu: &mut Cpu, i: usize) {
        cpu.jump(ASSEMBLE);
        cpu.run(18);
        let couplings = 2 + self.draws.below(3) as usize + usize::from(self.draws.below(5) == 0);
        for _ in 0..couplings {
            let j = self.draws.below(self.u.len() as u64) as u32;
            let c = 0.2 + 0.8 * self.draws.unit();
            let k = self.column.len() as u64;
            // Reads the coupling (buffered, formatted input), checks it, appends it.
            cpu.jump(ASSEMBLE + 0x80);
            for word in 0..6 {
                cpu.run(3);
                cpu.load(self.at.knots + 0x2000 + (k % 512) * 24 + 4 * word, 4);
                cpu.run(2);
                cpu.store_local(word);
            }
            cpu.run(6);
            cpu.store(self.at.column + 4 * k, 4);
            cpu.run(3);
            cpu.store(self.at.value + 8 * k, 8);
            self.column.push(j);
            self.value.push(c);
        }
        cpu.jump(ASSEMBLE + 0x1c0);
        self.d[i] = 0.5 + self.draws.unit();
        self.b[i] = 4.0 * self.draws.unit() - 2.0;
        self.first.push(self.column.len() as u32);
        let n = i as u64;
        cpu.run(8);
        cpu.store(self.at.u + 8 * n, 8);
        cpu.run(3);
        cpu.store(self.at.d + 8 * n, 8);
        cpu.run(3);
        cpu.store(self.at.b + 8 * n, 8);
        cpu.run(2);
        cpu.store(self.at.first + 4 * (n + 1), 4);
    }

    /// Calls the characteristic: returns g and its slope at v.
    #[inline(always)]
    fn characteristic(&self, cpu: &mut Cpu, v: f64) -> (f64, f64) {
        cpu.call(CHARACTERISTIC, 3, 6);
        // Arguments come by reference: the caller's temporaries.
        cpu.load_local(12);
        cpu.run(2);
        cpu.load_local(13);
        cpu.run(3);
        let x = ((v + 8.0) * (KNOTS as f64 / 16.0)).clamp(0.0, KNOTS as f64 - 1e-9);
        let k = x as usize;
        if v.abs() > 8.0 {
            cpu.jump(CHARACTERISTIC + 0x400);
            cpu.run(3);
        }
        let at = self.at.knots + 16 * k as u64;
        cpu.jump(SPLINE);
        cpu.run(3);
        cpu.load(at, 8);
        cpu.run(2);
        cpu.load(at + 8, 8);
        cpu.run(2);
        cpu.load(at + 16, 8);
        cpu.run(3);
        cpu.load(at + 24, 8);
        cpu.run(6);
        cpu.store_local(0);
        cpu.run(2);
        cpu.store_local(2);
        cpu.ret(3, 6);
        let (p, q, t) = (self.knots[k], self.knots[k + 1], x - k as f64);
        let h = 16.0 / KNOTS as f64;
        let (t2, t3) = (t * t, t * t * t);
        let g = p[0] * (2.0 * t3 - 3.0 * t2 + 1.0)
            + h * p[1] * (t3 - 2.0 * t2 + t)
            + q[0] * (3.0 * t2 - 2.0 * t3)
            + h * q[1] * (t3 - t2);
        (g, p[1] + (q[1] - p[1]) * t)
    }

    /// Relaxes row `i`.
    #[inline(always)]
    fn relax(&mut self, cpu: &mut Cpu, i: usize) {
        let n = i as u64;
        cpu.jump(SWEEP);
        cpu.run(3);
        cpu.load(self.at.u + 8 * n, 8);
        cpu.run(2);
        cpu.load(self.at.d + 8 * n, 8);
        cpu.run(2);
        cpu.load(self.at.b + 8 * n, 8);
        cpu.run(2);
        cpu.load(self.at.first + 4 * n + 4, 4);
        cpu.run(5);
        let ui = self.u[i];
        let (mut sum, mut slope) = (self.d[i] * ui - self.b[i], self.d[i]);
        for k in self.first[i] as usize..self.first[i + 1] as usize {
            cpu.jump(SWEEP + 0x60);
            cpu.run(2);
            cpu.load(self.at.column + 4 * k as u64, 4);
            cpu.run(2);
            let j = self.column[k] as usize;
            cpu.load(self.at.u + 8 * j as u64, 8);
            cpu.run(2);
            cpu.store_local(1);
            cpu.run(2);
            let (g, dg) = self.characteristic(cpu, ui - self.u[j]);
            cpu.run(1);
            cpu.load(self.at.value + 8 * k as u64, 8);
            cpu.run(2);
            cpu.load_local(2);
            cpu.run(3);
            sum += self.value[k] * g;
            slope += self.value[k] * dg;
        }
        cpu.jump(SWEEP + 0x140);
        let step = RELAXATION * sum / slope;
        self.u[i] = ui - step;
        self.residual += step * step;
        cpu.run(22);
        cpu.store(self.at.u + 8 * n, 8);
        cpu.run(4);
        cpu.store_local(3);
        cpu.run(3);
    }

    /// Ends a sweep: the system has converged, or the next sweep begins.
    fn sweep_done(&mut self) {
        if self.sweeps == 0 {
            self.initial = self.residual;
        }
        self.sweeps += 1;
        let solved = self.residual <= 1e-12 * self.initial;
        self.phase = if solved { SorPhase::Load } else { SorPhase::Relax };
        self.residual = 0.0;
    }

    /// Loads another right-hand side for row `i`.
    fn load(&mut self, cpu: &mut Cpu, i: usize) {
        cpu.jump(LOAD);
        cpu.run(14);
        cpu.load_local(3);
        cpu.run(4);
        cpu.store(self.at.b + 8 * i as u64, 8);
        cpu.run(3);
        self.b[i] = 4.0 * self.draws.unit() - 2.0;
    }
}

impl Program for Sor {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let last = (self.row + 128).min(self.u.len());
        for i in self.row..last {
            match self.phase {
                SorPhase::Assemble => self.assemble(cpu, i),
                SorPhase::Relax => self.relax(cpu, i),
                SorPhase::Load => self.load(cpu, i),
            }
        }
        self.row = last;
        if last == self.u.len() {
            self.row = 0;
            match self.phase {
                SorPhase::Assemble => self.phase = SorPhase::Relax,
                SorPhase::Relax => self.sweep_done(),
                SorPhase::Load => {
                    self.sweeps = 0;
                    self.phase = SorPhase::Relax;
                }
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
    fn the_residual_falls_and_the_solution_solves() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let mut sor = Sor::new(DataRng::new(3, 0), &mut cpu, 2_000);
        let mut last = f64::INFINITY;
        let mut falls = 0;
        while !matches!(sor.phase, SorPhase::Load) {
            let (residual, row) = (sor.residual, sor.row);
            sor.step(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
            if sor.row == 0 && row > 0 && residual > 0.0 {
                falls += u32::from(residual < last);
                last = residual;
            }
        }
        assert!(falls + 2 >= sor.sweeps, "{falls} of {} sweeps brought it down", sor.sweeps);
        for i in 0..sor.u.len() {
            let mut sum = sor.d[i] * sor.u[i] - sor.b[i];
            for k in sor.first[i] as usize..sor.first[i + 1] as usize {
                let v = sor.u[i] - sor.u[sor.column[k] as usize];
                sum += sor.value[k] * (v + v * v * v / 64.0);
            }
            assert!(sum.abs() < 1e-4, "row {i}: {sum}");
        }
    }
}
