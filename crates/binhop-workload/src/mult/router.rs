//! `Router` is a maze router for printed circuits (grr in the documents' mixes): Lee's algorithm on two layers.
//!
//! For one net after the other, it computes the shortest path between two pins through free cells. A wave
//! spreads from the first pin, and stores in each cell the direction from which it came. The path is traced
//! back and becomes an obstacle. Nets are short compared with the board. A board of 900 × 900 cells in two
//! layers, 4 bytes each, has 6.5 MB; the wave's queue has 256 KB. When the board is routed, the next board is
//! loaded.

use super::libc::Libc;
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

pub(crate) const IMAGE: Image =
    Image { name: "grr", segment: 18, text: 160 << 10, data: 64 << 10, initialised: 8 << 10 };

const CLEAR: u64 = TEXT + 0x2000;
const PICK: u64 = TEXT + 0x3000;
const EXPAND: u64 = TEXT + 0x5000;
const TRACE: u64 = TEXT + 0x7000;
const LIBC: Libc = Libc::at(TEXT + 0x1_8000);

const SIDE: usize = 900;
const NETS: u32 = 2_400;
/// The cells that a wave may reach before the net is given up.
const LIMIT: u32 = 24_000;
/// The table of a step's costs by direction and column.
const COSTS: u64 = DATA + 0x6000;
const QUEUE: u64 = 64 << 10;

const OBSTACLE: u32 = 1 << 31;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Router::new(draws, cpu, SIDE, NETS, 70))
}

enum RouterPhase {
    Begin,
    Clear(usize),
    Pick,
    Expand,
    Trace(u32),
}

struct Router {
    draws: DataRng,
    side: usize,
    nets: u32,
    reach: u64,
    phase: RouterPhase,
    /// For each cell: an obstacle, or net number << 3 | the direction from which the wave came.
    cells: Vec<u32>,
    queue: std::collections::VecDeque<u32>,
    pushed: u64,
    popped: u64,
    net: u32,
    from: u32,
    to: u32,
    reached: u32,
    routed: u64,
    grid: u64,
    ring: u64,
    list: u64,
}

impl Router {
    fn new(draws: DataRng, cpu: &mut Cpu, side: usize, nets: u32, reach: u64) -> Self {
        let cells = 2 * side * side;
        Self {
            draws,
            side,
            nets,
            reach,
            phase: RouterPhase::Begin,
            cells: vec![0; cells],
            queue: std::collections::VecDeque::new(),
            pushed: 0,
            popped: 0,
            net: 0,
            from: 0,
            to: 0,
            reached: 0,
            routed: 0,
            grid: cpu.sbrk(4 * cells as u64),
            ring: cpu.sbrk(4 * QUEUE),
            list: cpu.sbrk(32 * u64::from(nets)),
        }
    }

    #[inline(always)]
    fn cell(&self, index: u32) -> u64 {
        self.grid + 4 * u64::from(index)
    }

    /// Returns the cell in direction 0 to 4 (left, right, up, down, other layer), if it is on the board.
    #[inline(always)]
    fn neighbour(&self, index: u32, direction: u32) -> Option<u32> {
        let side = self.side as u32;
        let plane = side * side;
        let (x, y) = (index % plane % side, index % plane / side);
        match direction {
            0 if x > 0 => Some(index - 1),
            1 if x + 1 < side => Some(index + 1),
            2 if y > 0 => Some(index - side),
            3 if y + 1 < side => Some(index + side),
            4 => Some(if index < plane { index + plane } else { index - plane }),
            _ => None,
        }
    }

    /// Chooses the next net's pins and starts the wave. Returns false if the net cannot be routed.
    fn pick(&mut self, cpu: &mut Cpu) -> bool {
        self.net += 1;
        cpu.jump(PICK);
        let entry = self.list + 32 * u64::from(self.net % self.nets);
        for word in 0..6 {
            cpu.run(7);
            cpu.load(entry + 4 * word, 4);
            cpu.run(4);
        }
        let side = self.side as u64;
        let pin = |draws: &mut DataRng, around: Option<(u64, u64)>, reach: u64| match around {
            None => (draws.below(side), draws.below(side)),
            Some((x, y)) => {
                let near = |c: u64, draws: &mut DataRng| {
                    (c + draws.below(2 * reach)).saturating_sub(reach).min(side - 1)
                };
                (near(x, draws), near(y, draws))
            }
        };
        let first = pin(&mut self.draws, None, 0);
        let second = pin(&mut self.draws, Some(first), self.reach);
        self.from = (first.1 * side + first.0) as u32;
        self.to = (second.1 * side + second.0) as u32;
        cpu.load(self.cell(self.from), 4);
        cpu.run(3);
        cpu.load(self.cell(self.to), 4);
        cpu.run(3);
        if self.from == self.to
            || (self.cells[self.from as usize] | self.cells[self.to as usize]) & OBSTACLE != 0
        {
            return false;
        }
        self.queue.clear();
        self.reached = 0;
        self.mark(cpu, self.from, 7);
        true
    }

    /// Marks a cell that the wave reaches.
    #[inline(always)]
    fn mark(&mut self, cpu: &mut Cpu, index: u32, direction: u32) {
        self.cells[index as usize] = self.net << 3 | direction;
        self.queue.push_back(index);
        self.reached += 1;
        cpu.run(2);
        cpu.store(self.cell(index), 4);
        cpu.load_local(1);
        cpu.run(2);
        cpu.store(self.ring + 4 * (self.pushed % QUEUE), 4);
        cpu.run(2);
        self.pushed += 1;
    }

    /// Spreads the wave from one cell. Returns true if the wave reached the second pin, and `None` if no cell
    /// is left or the net is given up.
    #[inline(always)]
    fn expand(&mut self, cpu: &mut Cpu) -> Option<bool> {
        let index = self.queue.pop_front().filter(|_| self.reached < LIMIT)?;
        cpu.jump(EXPAND);
        cpu.run(4);
        cpu.load(self.ring + 4 * (self.popped % QUEUE), 4);
        self.popped += 1;
        cpu.run(5);
        cpu.load_local(2);
        cpu.run(3);
        cpu.load_local(3);
        for direction in 0..5 {
            cpu.jump(EXPAND + 0x60 + 0x70 * u64::from(direction));
            cpu.run(2);
            cpu.load_local(4 + u64::from(direction));
            cpu.run(2);
            cpu.load(COSTS + 32 * u64::from(direction) + 4 * u64::from(index % 8), 4);
            cpu.run(2);
            cpu.load_local(10);
            cpu.run(1);
            let Some(next) = self.neighbour(index, direction) else { continue };
            cpu.load(self.cell(next), 4);
            cpu.run(4);
            let cell = self.cells[next as usize];
            if cell & OBSTACLE == 0 && cell >> 3 != self.net {
                self.mark(cpu, next, direction);
                if next == self.to {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Makes a cell of the path an obstacle and goes one cell back.
    fn trace(&mut self, cpu: &mut Cpu, index: u32) -> RouterPhase {
        let direction = self.cells[index as usize] & 7;
        cpu.jump(TRACE);
        cpu.run(9);
        cpu.load(self.cell(index), 4);
        cpu.run(8);
        cpu.store(self.cell(index), 4);
        self.cells[index as usize] = OBSTACLE | direction;
        if direction == 7 {
            self.routed += 1;
            return RouterPhase::Pick;
        }
        let back = if direction == 4 { 4 } else { direction ^ 1 };
        self.neighbour(index, back).map_or(RouterPhase::Pick, RouterPhase::Trace)
    }

    fn advance(&mut self, cpu: &mut Cpu) -> RouterPhase {
        match self.phase {
            RouterPhase::Begin => {
                LIBC.startup(cpu);
                RouterPhase::Clear(0)
            }
            RouterPhase::Clear(from) => {
                let to = (from + 256).min(self.cells.len());
                for index in (from..to).step_by(2) {
                    cpu.jump(CLEAR);
                    cpu.run(2);
                    cpu.store(self.cell(index as u32), 4);
                    cpu.store(self.cell(index as u32 + 1), 4);
                    cpu.run(3);
                }
                self.cells[from..to].fill(0);
                if to < self.cells.len() { RouterPhase::Clear(to) } else { RouterPhase::Pick }
            }
            RouterPhase::Pick if self.net == self.nets => {
                self.net = 0;
                LIBC.drain(cpu, DATA + 0x3000, 8192, (7, 0));
                RouterPhase::Clear(0)
            }
            RouterPhase::Pick => {
                if self.pick(cpu) {
                    RouterPhase::Expand
                } else {
                    RouterPhase::Pick
                }
            }
            RouterPhase::Expand => match self.expand(cpu) {
                None => RouterPhase::Pick,
                Some(true) => RouterPhase::Trace(self.to),
                Some(false) => RouterPhase::Expand,
            },
            RouterPhase::Trace(index) => self.trace(cpu, index),
        }
    }
}

impl Program for Router {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        for _ in 0..200 {
            self.phase = self.advance(cpu);
            if matches!(self.phase, RouterPhase::Clear(0)) {
                LIBC.fill(cpu, DATA + 0x3000, 8192, (6, 0));
                return super::libc::waits(call::READ);
            }
        }
        Status::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    /// Returns the distance by a plain breadth-first search over free cells.
    fn distance(router: &Router) -> Option<u32> {
        let mut seen = vec![u32::MAX; router.cells.len()];
        let mut queue = std::collections::VecDeque::from([router.from]);
        seen[router.from as usize] = 0;
        while let Some(at) = queue.pop_front() {
            if at == router.to {
                return Some(seen[at as usize]);
            }
            for next in (0..5).filter_map(|d| router.neighbour(at, d)) {
                if seen[next as usize] == u32::MAX && router.cells[next as usize] & OBSTACLE == 0 {
                    seen[next as usize] = seen[at as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        None
    }

    #[test]
    fn paths_are_shortest_and_connect_the_pins() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let mut router = Router::new(DataRng::new(6, 0), &mut cpu, 40, 60, 30);
        let (mut length, mut shortest, mut checked) = (0, None, 0);
        while router.net < 60 {
            let started = matches!(router.phase, RouterPhase::Pick);
            router.phase = router.advance(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
            match router.phase {
                RouterPhase::Expand if started => {
                    shortest = distance(&router);
                    length = 0;
                }
                RouterPhase::Trace(_) => length += 1,
                RouterPhase::Pick if length > 0 => {
                    // `length` counts the cells on the path, both pins included.
                    assert_eq!(Some(length - 1), shortest, "net {}", router.net);
                    assert!(router.cells[router.from as usize] & OBSTACLE != 0);
                    length = 0;
                    checked += 1;
                }
                _ => {}
            }
        }
        assert!(checked > 30, "{checked}");
    }
}
