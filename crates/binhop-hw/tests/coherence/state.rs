//! `State` is the state of the machine that the checker enumerates: two processor caches, the DMA cache, the home of
//! each line before memory, and every message under way. A state packs into 128 bits.
//!
//! Data have no value: they are *fresh* if they are what the last write made, and *stale* otherwise. A write makes
//! every other instance of the line stale. So an unbounded count of versions needs one bit.

use binhop_hw::LineState;

/// The caches: two of processors, and the DMA cache.
pub const CACHES: usize = 3;
/// The number of the DMA cache.
pub const DMA: usize = 2;
/// The largest number of lines.
pub const LINES: usize = 2;

/// `Held` is what a cache holds of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub state: LineState,
    pub fresh: bool,
}

/// `Slot` is the channel between the home and a cache: a probe on its way, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Empty,
    Probe,
    /// `held` is true if the cache or its buffer still holds the line; `data` is fresh or stale, if there are any.
    Answer {
        held: bool,
        data: Option<bool>,
    },
}

/// `Phase` is what the home does for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    /// The home has probed the other caches, and gathers their answers.
    Gather,
    /// The data are on their way to the cache that asked.
    Grant,
    /// A returned line is on its way to the DMA cache.
    Return,
}

/// `Home` orders the requests for a line: it serves one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    pub phase: Phase,
    /// The cache that is served.
    pub to: usize,
    pub slots: [Slot; CACHES],
    /// True if another cache still holds the line.
    pub held: bool,
    pub data: Option<bool>,
}

/// `Line` is all that exists once for each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub held: [Held; CACHES],
    pub memory: bool,
    pub home: Home,
}

/// `Kind` is what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    /// The write changes a part of the line, and needs the rest.
    Write,
    /// A device writes the whole line, and needs no data.
    WriteWhole,
}

/// `Bound` says where the line in a buffer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Memory,
    /// A clean line goes to the DMA cache.
    DmaCache,
}

/// `Port` is what a cache has once for all lines: one request under way, and a buffer of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub request: Option<(Kind, usize)>,
    /// Where the line goes, the line, and whether its data are fresh.
    pub buffer: Option<(Bound, usize, bool)>,
}

/// `State` is a state of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub lines: [Line; LINES],
    pub ports: [Port; CACHES],
}

impl State {
    /// Returns the first state: all caches are empty.
    pub fn first() -> Self {
        let home = Home { phase: Phase::Idle, to: 0, slots: [Slot::Empty; CACHES], held: false, data: None };
        let held = [Held { state: LineState::Invalid, fresh: false }; CACHES];
        Self {
            lines: [Line { held, memory: true, home }; LINES],
            ports: [Port { request: None, buffer: None }; CACHES],
        }
    }

    /// Returns whether a cache's buffer holds a line.
    pub fn buffers(&self, cache: usize, line: usize) -> bool {
        matches!(self.ports[cache].buffer, Some((_, of, _)) if of == line)
    }

    /// Returns whether a cache has asked for a line.
    pub fn asks(&self, cache: usize, line: usize) -> bool {
        matches!(self.ports[cache].request, Some((_, of)) if of == line)
    }

    /// Returns whether no work is under way for a line.
    pub fn is_quiet(&self, line: usize) -> bool {
        self.lines[line].home.phase == Phase::Idle
            && (0..CACHES).all(|cache| !self.asks(cache, line) && !self.buffers(cache, line))
    }

    /// Makes every instance of a line stale, because a write has made newer data.
    pub fn age(&mut self, line: usize) {
        let of = &mut self.lines[line];
        of.memory = false;
        of.held.iter_mut().for_each(|held| held.fresh = false);
        let old = |data: &mut Option<bool>| *data = data.map(|_| false);
        old(&mut of.home.data);
        for slot in &mut of.home.slots {
            if let Slot::Answer { data, .. } = slot {
                old(data);
            }
        }
        for port in &mut self.ports {
            if let Some((_, buffered, fresh)) = &mut port.buffer {
                *fresh &= *buffered != line;
            }
        }
    }

    /// Returns the state that differs in the names of processors and lines only, and that has the smallest number.
    pub fn canonical(&self, lines: usize) -> u128 {
        let processors = self.exchange_processors();
        let mut least = self.pack().min(processors.pack());
        if lines == 2 {
            least = least.min(self.exchange_lines().pack()).min(processors.exchange_lines().pack());
        }
        least
    }

    fn exchange_processors(&self) -> Self {
        let mut other = *self;
        other.ports.swap(0, 1);
        for line in &mut other.lines {
            line.held.swap(0, 1);
            line.home.slots.swap(0, 1);
            if line.home.phase != Phase::Idle && line.home.to != DMA {
                line.home.to = 1 - line.home.to;
            }
        }
        other
    }

    fn exchange_lines(&self) -> Self {
        let mut other = *self;
        other.lines.swap(0, 1);
        for port in &mut other.ports {
            port.request = port.request.map(|(kind, line)| (kind, 1 - line));
            port.buffer = port.buffer.map(|(bound, line, fresh)| (bound, 1 - line, fresh));
        }
        other
    }

    /// Returns the state as a number.
    pub fn pack(&self) -> u128 {
        let mut number = 0;
        let mut put = |bits: u32, value: usize| number = number << bits | value as u128;
        for line in &self.lines {
            for held in line.held {
                put(3, held.state as usize);
                put(1, held.fresh.into());
            }
            put(1, line.memory.into());
            put(2, line.home.phase as usize);
            put(2, line.home.to);
            for slot in line.home.slots {
                put(
                    3,
                    match slot {
                        Slot::Empty => 0,
                        Slot::Probe => 1,
                        Slot::Answer { held, data } => 2 + usize::from(held) + 2 * choice(data),
                    },
                );
            }
            put(1, line.home.held.into());
            put(2, choice(line.home.data));
        }
        for port in &self.ports {
            put(3, port.request.map_or(0, |(kind, line)| 1 + kind as usize + 3 * line));
            put(
                4,
                port.buffer
                    .map_or(0, |(bound, line, fresh)| 1 + bound as usize + 2 * line + 4 * usize::from(fresh)),
            );
        }
        number
    }

    /// Returns the state with a number.
    pub fn unpack(mut number: u128) -> Self {
        let mut take = |bits: u32| {
            let value = number as usize & ((1 << bits) - 1);
            number >>= bits;
            value
        };
        let mut state = Self::first();
        for port in state.ports.iter_mut().rev() {
            port.buffer = take(4).checked_sub(1).map(|value| {
                let bound = [Bound::Memory, Bound::DmaCache][value % 2];
                (bound, value / 2 % 2, value / 4 == 1)
            });
            port.request = take(3).checked_sub(1).map(|value| {
                let kind = [Kind::Read, Kind::Write, Kind::WriteWhole][value % 3];
                (kind, value / 3)
            });
        }
        for line in state.lines.iter_mut().rev() {
            line.home.data = chosen(take(2));
            line.home.held = take(1) == 1;
            for slot in line.home.slots.iter_mut().rev() {
                *slot = match take(3) {
                    0 => Slot::Empty,
                    1 => Slot::Probe,
                    value => Slot::Answer { held: value % 2 == 1, data: chosen((value - 2) / 2) },
                };
            }
            line.home.to = take(2);
            line.home.phase = [Phase::Idle, Phase::Gather, Phase::Grant, Phase::Return][take(2)];
            line.memory = take(1) == 1;
            for held in line.held.iter_mut().rev() {
                held.fresh = take(1) == 1;
                held.state = LineState::ALL[take(3)];
            }
        }
        state
    }
}

fn choice(data: Option<bool>) -> usize {
    data.map_or(0, |fresh| 1 + usize::from(fresh))
}

fn chosen(value: usize) -> Option<bool> {
    value.checked_sub(1).map(|fresh| fresh == 1)
}
