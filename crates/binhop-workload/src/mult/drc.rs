//! `Drc` is a design-rule checker for VLSI layout (magic in the documents' mixes), on corner-stitched tiles.
//!
//! The layout is a plane of tiles in rows (cells of a standard height). Each tile has the four stitches of
//! corner stitching. The check goes through the plane area by area. At every tile it walks the right and the
//! top edge by the stitches, and looks up the rules for each pair of types that meets. Then the designer
//! changes some tiles, and the plane is checked again. 230,000 tiles of 40 bytes are 9 MB. The layout editor
//! ([`super::editor`]) works on the same plane.

use super::libc::Libc;
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

pub(crate) const IMAGE: Image =
    Image { name: "magic", segment: 19, text: 384 << 10, data: 128 << 10, initialised: 48 << 10 };

const READ: u64 = TEXT + 0x4000;
pub(crate) const SEARCH: u64 = TEXT + 0x8000;
/// Each type has a function for its checks.
const CHECK: u64 = TEXT + 0xa000;
const CHECK_BYTES: u64 = 0x1800;
const PAINT: u64 = TEXT + 0x4_0000;
pub(crate) const LIBC: Libc = Libc::at(TEXT + 0x5_0000);
const RULES: u64 = DATA + 0x8000;

const TILE: u64 = 40;
pub(crate) const TYPES: u64 = 8;
pub(crate) const ROWS: usize = 240;
pub(crate) const COLUMNS: usize = 960;
/// The size of an area: rows and tiles in a row.
const AREA: (usize, usize) = (12, 48);

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Drc::new(draws, cpu, ROWS, COLUMNS))
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tile {
    pub(crate) x: u32,
    pub(crate) kind: u8,
    /// The tile below the left corner and the tile above the right corner: the stitches lb and rt. The other
    /// stitches, bl and tr, are the neighbours in the row.
    pub(crate) below: u32,
    pub(crate) above: u32,
}

enum DrcPhase {
    Begin,
    Read,
    Check,
    Paint,
}

/// `Drc` is the design-rule checker with its plane of tiles.
pub(crate) struct Drc {
    draws: DataRng,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    phase: DrcPhase,
    pub(crate) tiles: Vec<Tile>,
    at: usize,
    violations: u64,
    plane: u64,
}

impl Drc {
    pub(crate) fn new(draws: DataRng, cpu: &mut Cpu, rows: usize, columns: usize) -> Self {
        let plane = cpu.sbrk(TILE * (rows * columns) as u64);
        Self { draws, rows, columns, phase: DrcPhase::Begin, tiles: Vec::new(), at: 0, violations: 0, plane }
    }

    /// Returns the address of a tile's record.
    pub(crate) fn tile(&self, index: usize) -> u64 {
        self.plane + TILE * index as u64
    }

    /// Returns the right end of a tile: the start of the next tile. The last tile of a row has no end.
    pub(crate) fn end(&self, index: usize) -> u32 {
        if (index + 1).is_multiple_of(self.columns) { u32::MAX } else { self.tiles[index + 1].x }
    }

    /// Returns whether tiles of the file are left to read.
    pub(crate) fn reading(&self) -> bool {
        self.tiles.len() < self.rows * self.columns
    }

    /// Reads the next block of the file: up to 300 tiles.
    pub(crate) fn read_block(&mut self, cpu: &mut Cpu) {
        for _ in 0..300.min(self.rows * self.columns - self.tiles.len()) {
            self.read(cpu);
        }
        LIBC.fill(cpu, DATA + 0x2000, 7200, (8, 24 * self.tiles.len() as u64));
    }

    /// Reads the next tile of the file and stitches it to the row below.
    fn read(&mut self, cpu: &mut Cpu) {
        let index = self.tiles.len();
        let first = index.is_multiple_of(self.columns);
        let x = if first { 0 } else { self.tiles[index - 1].x + 2 + self.draws.below(30) as u32 };
        let mut tile = Tile { x, kind: self.draws.below(TYPES) as u8, below: 0, above: 0 };
        for word in 0..6 {
            cpu.jump(READ + 0x80 * word);
            cpu.run(4);
            cpu.load_local(word);
            cpu.run(5);
            cpu.load(DATA + 0x2000 + (24 * index as u64 + 4 * word) % 8192, 4);
            cpu.run(5);
            cpu.store_local(word);
            cpu.run(6);
            cpu.store(self.tile(index) + 4 * word, 4);
        }
        if index >= self.columns {
            // Search to the right, from the left neighbour's stitch or from the row's first tile.
            let start = if first { index - self.columns } else { self.tiles[index - 1].below as usize };
            let mut below = start;
            while self.end(below) <= x {
                cpu.jump(READ + 0x400);
                cpu.run(4);
                cpu.load(self.tile(below) + 16, 4);
                // The tile `below` ends at `x` or before, so the left neighbour lies above its right corner.
                self.tiles[below].above = index as u32 - 1;
                cpu.run(3);
                cpu.store(self.tile(below) + 20, 4);
                below += 1;
            }
            tile.below = below as u32;
            cpu.run(2);
            cpu.store(self.tile(index) + 24, 4);
        }
        self.tiles.push(tile);
        if (index + 1).is_multiple_of(self.columns) && index >= self.columns {
            let mut below = self.tiles[index].below as usize;
            while below < index + 1 - self.columns {
                self.tiles[below].above = index as u32;
                cpu.run(3);
                cpu.store(self.tile(below) + 20, 4);
                below += 1;
            }
        }
    }

    /// Returns whether two types must not touch.
    fn forbidden(a: u8, b: u8) -> bool {
        (a ^ b) == 5 || (a == 2 && b == 3)
    }

    /// Looks up the rules for a pair of tiles that meet.
    fn rule(&mut self, cpu: &mut Cpu, index: usize, other: usize) {
        let (a, b) = (self.tiles[index].kind, self.tiles[other].kind);
        let pair = u64::from(a) * TYPES + u64::from(b);
        let code = CHECK + CHECK_BYTES * u64::from(a) + 0x400;
        cpu.jump(code);
        cpu.run(3);
        cpu.load(self.tile(other) + 8, 4);
        cpu.run(2);
        cpu.load(self.tile(other), 4);
        for rule in 0..5 {
            cpu.jump(code + 0x80 + 0x180 * (u64::from(b) % 8) + 0x20 * (rule % 3));
            cpu.run(4);
            cpu.load(RULES + 256 * pair + 32 * rule, 4);
            cpu.run(3);
            cpu.load(RULES + 256 * pair + 32 * rule + 8, 4);
            cpu.run(3);
            cpu.load_local(rule);
            cpu.run(2);
            cpu.load_local(7);
            cpu.run(2);
            cpu.store_local(6);
            cpu.run(2);
        }
        if Self::forbidden(a, b) {
            self.violations += 1;
            cpu.jump(PAINT + 0x2000);
            cpu.run(20);
            cpu.store(DATA + 0x4000 + 4 * (self.violations % 512), 4);
        }
    }

    /// Checks a tile against the tiles at its right and along its top.
    pub(crate) fn check(&mut self, cpu: &mut Cpu, index: usize) {
        let tile = self.tiles[index];
        cpu.call(CHECK + CHECK_BYTES * u64::from(tile.kind), 7, 8);
        for word in 0..6 {
            cpu.run(4);
            cpu.load(self.tile(index) + 4 * word, 4);
            cpu.run(3);
            cpu.store_local(word);
        }
        if !(index + 1).is_multiple_of(self.columns) {
            self.rule(cpu, index, index + 1);
        }
        if index + self.columns < self.tiles.len() {
            let mut above = tile.above as usize;
            loop {
                cpu.jump(CHECK + CHECK_BYTES * u64::from(tile.kind) + 0x200);
                cpu.run(4);
                cpu.load(self.tile(above) + 12, 4);
                cpu.run(3);
                self.rule(cpu, index, above);
                if self.tiles[above].x <= tile.x {
                    break;
                }
                above -= 1;
            }
        }
        cpu.ret(7, 8);
    }

    /// Returns the tile that is checked `at`-th. The order is area by area.
    fn ordered(&self, at: usize) -> usize {
        let (height, width) = (AREA.0.min(self.rows), AREA.1.min(self.columns));
        let (area, inside) = (at / (height * width), at % (height * width));
        let across = self.columns / width;
        let (row, column) = (area / across * height + inside / width, area % across * width + inside % width);
        row * self.columns + column
    }

    /// Changes the types of tiles in one place, as the designer does.
    fn paint(&mut self, cpu: &mut Cpu) {
        let around = self.draws.below(self.tiles.len() as u64 - 64) as usize;
        for index in around..around + 64 {
            cpu.jump(PAINT);
            cpu.run(30);
            cpu.load(self.tile(index) + 8, 4);
            cpu.run(12);
            cpu.store(self.tile(index) + 8, 4);
            self.tiles[index].kind = self.draws.below(TYPES) as u8;
        }
    }
}

impl Program for Drc {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let all = self.rows * self.columns;
        match self.phase {
            DrcPhase::Begin => {
                LIBC.startup(cpu);
                self.phase = DrcPhase::Read;
            }
            DrcPhase::Read => {
                self.read_block(cpu);
                if !self.reading() {
                    self.phase = DrcPhase::Check;
                }
                return if self.draws.below(4) == 0 { super::libc::waits(call::READ) } else { Status::Ready };
            }
            DrcPhase::Check => {
                let end = (self.at + 40).min(all);
                for at in self.at..end {
                    let index = self.ordered(at);
                    cpu.jump(SEARCH);
                    cpu.run(9);
                    cpu.load(self.tile(index) + 16, 4);
                    cpu.run(6);
                    self.check(cpu, index);
                }
                self.at = end;
                if end == all {
                    self.at = 0;
                    self.phase = DrcPhase::Paint;
                }
            }
            DrcPhase::Paint => {
                self.paint(cpu);
                self.violations = 0;
                self.phase = DrcPhase::Check;
                LIBC.print(cpu, DATA + 0x900, DATA + 0x3000, 3);
                cpu.syscall(call::READ, DATA + 0x1000, 16, Some((0, 0)));
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

    #[test]
    fn violations_are_those_of_all_pairs_that_touch() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let (rows, columns) = (24, 96);
        let mut drc = Drc::new(DataRng::new(8, 0), &mut cpu, rows, columns);
        while !matches!(drc.phase, DrcPhase::Paint) {
            drc.step(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
        }
        let mut expected = 0;
        for a in 0..rows * columns {
            for b in 0..rows * columns {
                let meets = drc.tiles[a].x < drc.end(b) && drc.tiles[b].x < drc.end(a);
                let beside = b == a + 1 && b / columns == a / columns;
                if beside || (b / columns == a / columns + 1 && meets) {
                    expected += u64::from(Drc::forbidden(drc.tiles[a].kind, drc.tiles[b].kind));
                }
            }
        }
        assert_eq!(drc.violations, expected);
        assert!(expected > 100);
        assert_eq!(cpu.depth(), 0);
    }
}
