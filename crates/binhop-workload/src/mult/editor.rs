//! `Editor` is Magic, the layout editor of MB90's timesharing set: a user types commands that edit the plane of tiles
//! of [`super::drc`].
//!
//! The editor reads the layout. Then it waits for the user in read. Most events move the cursor: the editor
//! finds the tile under the cursor by the stitches and draws the box. The other events are commands: paint a
//! box, move a box, redraw the window, check an area. After each change the editor draws and checks the area,
//! as Magic does between two commands. The display gets the rectangles through a buffer.
//!
//! Sizes: the plane has 9.2 MB, the text 384 KB, the data 128 KB, the lists of the undo and of the box 256 KB:
//! 10 MB (MB90 Table 1).

use std::collections::VecDeque;

use super::drc::{COLUMNS, Drc, LIBC, ROWS, SEARCH, TYPES};
use super::libc::waits;
use crate::address_space::{DATA, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

const EVENT: u64 = TEXT + 0x1_8000;
const DRAW: u64 = TEXT + 0x2_0000;
const PAINT: u64 = TEXT + 0x2_8000;
const YANK: u64 = TEXT + 0x3_0000;
/// A style per type: fill pattern, color, layer.
const STYLES: u64 = DATA + 0x6000;
/// The result of painting one type over another.
const PAINT_RESULT: u64 = DATA + 0x7000;
const DISPLAY: u64 = DATA + 0x1_0000;
const DISPLAY_BYTES: u64 = 8 << 10;
/// The lists of the undo and of the yanked box. The undo list is used as a ring: its end is followed by its start.
const LIST: u64 = 128 << 10;

/// The pause before an event of the cursor and before a command: at least so many instructions of other
/// processes, at most three times as many. The cursor moves ten times in a second, on a machine of 20 MIPS.
const MOTION: u64 = 1_000_000;
const THINK: u64 = 3_000_000;
/// The events of the cursor before a command: at least one, and at most this number.
const MOTIONS: u64 = 4;
/// Rectangles are drawn, painted or checked at most so many in a step.
const IN_STEP: usize = 120;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Editor::new(draws, cpu, ROWS, COLUMNS))
}

/// `Window` is an area of the plane: rows, and a range of x.
#[derive(Clone, Copy, Debug)]
struct Window {
    rows: (usize, usize),
    x: (u32, u32),
}

/// `EditTask` is what the editor does with every tile that intersects a window.
#[derive(Clone, Copy, Debug)]
enum EditTask {
    /// Draws the tile's rectangle.
    Draw,
    /// Gives the tile this type.
    Paint(u8),
    /// Remembers the tile's type.
    Yank,
    /// Gives the tile the next type that was remembered.
    Put,
    /// Checks the tile against its neighbours.
    Check,
}

/// `EditPass` is a task under way: the next tile of the window.
struct EditPass {
    task: EditTask,
    window: Window,
    row: usize,
    tile: Option<usize>,
}

struct Editor {
    draws: DataRng,
    plane: Drc,
    begun: bool,
    /// The passes of the current command that are left to do.
    passes: VecDeque<EditPass>,
    /// The tile where the last search ended. The next search begins there.
    hint: usize,
    motions: u64,
    /// The types that were yanked.
    yanked: VecDeque<u8>,
    drawn: u64,
    undone: u64,
    undo: u64,
    box_list: u64,
}

impl Editor {
    fn new(mut draws: DataRng, cpu: &mut Cpu, rows: usize, columns: usize) -> Self {
        let plane = Drc::new(DataRng::new(draws.next(), 0), cpu, rows, columns);
        Self {
            draws,
            plane,
            begun: false,
            passes: VecDeque::new(),
            hint: 0,
            motions: 0,
            yanked: VecDeque::new(),
            drawn: 0,
            undone: 0,
            undo: cpu.sbrk(LIST),
            box_list: cpu.sbrk(LIST),
        }
    }

    /// Finds the tile at a point: from the last tile up or down by the stitches, then along the row.
    fn find(&mut self, cpu: &mut Cpu, row: usize, x: u32) -> usize {
        let columns = self.plane.columns;
        let mut at = self.hint;
        let hop = |cpu: &mut Cpu, plane: &Drc, at: usize, stitch: u64| {
            cpu.jump(SEARCH + 0x40 * (stitch / 4));
            cpu.run(3);
            cpu.load(plane.tile(at) + stitch, 4);
            cpu.run(3);
            cpu.load(plane.tile(at), 4);
            cpu.run(3);
        };
        while at / columns != row {
            let up = at / columns < row;
            hop(cpu, &self.plane, at, if up { 20 } else { 24 });
            at = if up { self.plane.tiles[at].above } else { self.plane.tiles[at].below } as usize;
        }
        while self.plane.tiles[at].x > x {
            hop(cpu, &self.plane, at, 12);
            at -= 1;
        }
        while self.plane.end(at) <= x {
            hop(cpu, &self.plane, at, 16);
            at += 1;
        }
        self.hint = at;
        at
    }

    /// Draws a tile: clips its rectangle and appends it to the display's buffer.
    fn draw(&mut self, cpu: &mut Cpu, tile: usize, window: Window) {
        let address = self.plane.tile(tile);
        let kind = u64::from(self.plane.tiles[tile].kind);
        cpu.call(DRAW + 0x400 * kind, 5, 6);
        for side in 0..4 {
            cpu.run(2);
            cpu.load(address + 4 * (side % 2), 4);
            cpu.run(3);
            cpu.store_local(side);
        }
        for word in 0..3 {
            cpu.jump(DRAW + 0x2100);
            cpu.run(2);
            cpu.load(STYLES + 64 * kind + 4 * word, 4);
            cpu.run(3);
        }
        let entry = DISPLAY + self.drawn * 20 % DISPLAY_BYTES;
        for word in 0..5 {
            cpu.run(3);
            cpu.load_local(word);
            cpu.run(1);
            cpu.store(entry + 4 * word, 4);
        }
        cpu.ret(5, 6);
        self.drawn += 1;
        if self.drawn * 20 % DISPLAY_BYTES < 20 {
            LIBC.drain(cpu, DISPLAY, DISPLAY_BYTES as u32, (5, 0));
        }
        debug_assert!(self.plane.tiles[tile].x < window.x.1 && self.plane.end(tile) > window.x.0);
    }

    /// Gives a tile a type, and remembers the old type in the undo list.
    fn paint(&mut self, cpu: &mut Cpu, tile: usize, kind: u8) {
        let old = self.plane.tiles[tile].kind;
        cpu.call(PAINT + 0x300 * u64::from(kind), 4, 3);
        cpu.run(5);
        cpu.load(self.plane.tile(tile) + 8, 4);
        cpu.run(4);
        cpu.load(PAINT_RESULT + 4 * (TYPES * u64::from(kind) + u64::from(old)), 4);
        cpu.run(6);
        cpu.store(self.plane.tile(tile) + 8, 4);
        let entry = self.undo + self.undone * 16 % LIST;
        for word in 0..4 {
            cpu.run(4);
            cpu.store(entry + 4 * word, 4);
        }
        cpu.ret(4, 3);
        self.undone += 1;
        self.plane.tiles[tile].kind = kind;
    }

    /// Remembers a tile's type.
    fn yank(&mut self, cpu: &mut Cpu, tile: usize) {
        let entry = self.box_list + 12 * self.yanked.len() as u64 % LIST / 4 * 4;
        cpu.jump(YANK);
        for word in 0..3 {
            cpu.run(5);
            cpu.load(self.plane.tile(tile) + 4 * word, 4);
            cpu.run(4);
            cpu.store(entry + 4 * word, 4);
        }
        self.yanked.push_back(self.plane.tiles[tile].kind);
    }

    /// Does a task with one tile.
    fn apply(&mut self, cpu: &mut Cpu, task: EditTask, tile: usize, window: Window) {
        match task {
            EditTask::Draw => self.draw(cpu, tile, window),
            EditTask::Paint(kind) => self.paint(cpu, tile, kind),
            EditTask::Yank => self.yank(cpu, tile),
            EditTask::Put => {
                cpu.jump(YANK + 0x200);
                cpu.run(6);
                cpu.load(self.box_list + 12 * self.yanked.len() as u64 % LIST / 4 * 4, 4);
                if let Some(kind) = self.yanked.pop_front() {
                    self.paint(cpu, tile, kind);
                }
            }
            EditTask::Check => self.plane.check(cpu, tile),
        }
    }

    /// Continues the current pass by some tiles. Returns false if no pass is left.
    fn pass(&mut self, cpu: &mut Cpu) -> bool {
        let Some(mut pass) = self.passes.pop_front() else { return false };
        // A check takes some 30 times the rows of another task.
        let tiles = if matches!(pass.task, EditTask::Check) { IN_STEP / 4 } else { IN_STEP };
        for _ in 0..tiles {
            if pass.row == pass.window.rows.1 {
                return true;
            }
            let tile = match pass.tile {
                Some(tile) => tile,
                None => self.find(cpu, pass.row, pass.window.x.0),
            };
            self.apply(cpu, pass.task, tile, pass.window);
            let next = tile + 1;
            cpu.jump(SEARCH + 0x200);
            cpu.run(4);
            cpu.load(self.plane.tile(tile) + 16, 4);
            cpu.run(3);
            let ends = next.is_multiple_of(self.plane.columns) || self.plane.tiles[next].x >= pass.window.x.1;
            pass.tile = (!ends).then_some(next);
            pass.row += usize::from(ends);
        }
        self.passes.push_front(pass);
        true
    }

    fn add(&mut self, task: EditTask, window: Window) {
        self.passes.push_back(EditPass { task, window, row: window.rows.0, tile: None });
    }

    /// Draws a random window of this many rows and this width.
    fn window(&mut self, rows: usize, width: u32) -> Window {
        let rows = rows.min(self.plane.rows);
        let first = self.draws.below((self.plane.rows - rows + 1) as u64) as usize;
        // The rows are some 16 wide per tile, and do not end at the same x.
        let x = self.draws.below(14 * self.plane.columns as u64) as u32;
        Window { rows: (first, first + rows), x: (x, x + width) }
    }

    /// Returns a window that is larger by a row and by half its width.
    fn around(&self, window: Window) -> Window {
        let margin = (window.x.1 - window.x.0) / 4;
        Window {
            rows: (window.rows.0.saturating_sub(1), (window.rows.1 + 1).min(self.plane.rows)),
            x: (window.x.0.saturating_sub(margin), window.x.1 + margin),
        }
    }

    /// Reads a command that the user typed, and begins it.
    fn command(&mut self, cpu: &mut Cpu) {
        for character in 0..12 {
            cpu.jump(EVENT + 0x1000 + 0x40 * (character % 5));
            cpu.run(9);
            cpu.load(DATA + 0x1000 + 4 * (character / 4), 4);
            cpu.run(8);
            cpu.store_local(1);
            cpu.run(6);
        }
        let rows = 8 + self.draws.below(24) as usize;
        let area = self.window(rows, 800);
        match self.draws.below(8) {
            0..=2 => {
                let kind = self.draws.below(TYPES) as u8;
                self.add(EditTask::Paint(kind), area);
                self.add(EditTask::Draw, self.around(area));
                self.add(EditTask::Check, self.around(area));
            }
            3 | 4 => {
                let to = self.window(rows, 800);
                self.yanked.clear();
                self.add(EditTask::Yank, area);
                self.add(EditTask::Paint(0), area);
                self.add(EditTask::Put, to);
                for changed in [area, to] {
                    self.add(EditTask::Draw, self.around(changed));
                    self.add(EditTask::Check, self.around(changed));
                }
            }
            5 | 6 => {
                let window = self.window(120, 3_200);
                self.add(EditTask::Draw, window);
            }
            _ => {
                let window = self.window(48, 1_600);
                self.add(EditTask::Check, window);
            }
        }
        LIBC.print(cpu, DATA + 0x900, DATA + 0x3000, 3);
    }

    /// Follows the cursor: finds the tile under it, and draws the box.
    fn motion(&mut self, cpu: &mut Cpu) {
        cpu.jump(EVENT);
        cpu.run(30);
        cpu.load(DATA + 0x1000, 4);
        cpu.run(25);
        let row = (self.hint / self.plane.columns + self.draws.below(9) as usize).saturating_sub(4);
        let x = self.plane.tiles[self.hint].x + self.draws.below(200) as u32;
        let tile = self.find(cpu, row.min(self.plane.rows - 1), x);
        let x = self.plane.tiles[tile].x;
        self.draw(cpu, tile, Window { rows: (row, row + 1), x: (x, x + 1) });
        LIBC.print(cpu, DATA + 0x980, DATA + 0x3000, 4);
        LIBC.drain(cpu, DATA + 0x3000, 64, (5, 0));
    }
}

impl Program for Editor {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if !self.begun {
            self.begun = true;
            LIBC.startup(cpu);
            return waits(call::OPEN);
        }
        if self.plane.reading() {
            self.plane.read_block(cpu);
            return if self.draws.below(8) == 0 { waits(call::READ) } else { Status::Ready };
        }
        if self.pass(cpu) {
            return Status::Ready;
        }
        cpu.jump(EVENT + 0x2000);
        let pause = if self.motions > 0 {
            self.motions -= 1;
            self.motion(cpu);
            MOTION
        } else {
            self.motions = 1 + self.draws.below(MOTIONS);
            self.command(cpu);
            THINK
        };
        cpu.syscall(call::READ, DATA + 0x1000, 16, Some((0, 0)));
        Status::Blocked { call: call::READ, latency: pause + self.draws.below(2 * pause) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;
    use crate::mult::drc::IMAGE;

    fn editor(cpu: &mut Cpu) -> Editor {
        let mut editor = Editor::new(DataRng::new(2, 0), cpu, 24, 96);
        while editor.plane.reading() {
            editor.plane.read_block(cpu);
            cpu.finish_step();
            cpu.rows.clear();
        }
        editor
    }

    fn run(editor: &mut Editor, cpu: &mut Cpu, task: EditTask, window: Window) {
        editor.add(task, window);
        while editor.pass(cpu) {
            cpu.finish_step();
            cpu.rows.clear();
        }
    }

    /// The tiles that intersect a window, found by looking at every tile.
    fn inside(editor: &Editor, window: Window) -> Vec<usize> {
        let columns = editor.plane.columns;
        (window.rows.0 * columns..window.rows.1 * columns)
            .filter(|&tile| editor.plane.tiles[tile].x < window.x.1 && editor.plane.end(tile) > window.x.0)
            .collect()
    }

    #[test]
    fn tasks_reach_exactly_the_tiles_of_their_window() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let mut editor = editor(&mut cpu);
        for _ in 0..40 {
            let (from, to) = (editor.window(5, 150), editor.window(5, 150));
            let mut kinds: Vec<u8> = editor.plane.tiles.iter().map(|tile| tile.kind).collect();
            let drawn = editor.drawn;
            run(&mut editor, &mut cpu, EditTask::Draw, from);
            assert_eq!(editor.drawn - drawn, inside(&editor, from).len() as u64);
            let taken: Vec<u8> = inside(&editor, from).iter().map(|&tile| kinds[tile]).collect();
            editor.yanked.clear();
            run(&mut editor, &mut cpu, EditTask::Yank, from);
            run(&mut editor, &mut cpu, EditTask::Paint(6), from);
            run(&mut editor, &mut cpu, EditTask::Put, to);
            inside(&editor, from).iter().for_each(|&tile| kinds[tile] = 6);
            for (&tile, kind) in inside(&editor, to).iter().zip(taken) {
                kinds[tile] = kind;
            }
            assert!(editor.plane.tiles.iter().map(|tile| tile.kind).eq(kinds));
        }
        assert_eq!(cpu.depth(), 0);
    }

    #[test]
    fn a_point_is_found_from_anywhere() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let mut editor = editor(&mut cpu);
        for _ in 0..500 {
            let window = editor.window(1, 1);
            let (row, x) = (window.rows.0, window.x.0);
            let tile = editor.find(&mut cpu, row, x);
            assert_eq!(tile / editor.plane.columns, row);
            assert!(editor.plane.tiles[tile].x <= x && x < editor.plane.end(tile));
            cpu.finish_step();
            cpu.rows.clear();
        }
    }
}
