//! `Machine` tells the steps of a state. Each step is one event in one place: a cache asks, the home probes, a cache
//! answers, the home collects an answer, memory supplies, data arrive, a buffer empties.
//!
//! Rules
//! - The home of a line serves one request at a time. Requests wait in any order.
//! - A cache has one request under way, and a buffer of one line. A line in the buffer answers probes; a probe of a
//!   write cancels it. A cache does not ask for a line that its buffer holds.
//! - A write waits for the answers of all other caches, unless the state of the copy excludes other copies.
//! - A returned line is a hint: the buffer may drop it.
//! - What a copy does, and what becomes of it, are entries of the tables.

use binhop_hw::{LineAction, LineEvent, LineState, Transition, TransitionTable, transition};

use crate::{
    state::{Bound, CACHES, DMA, Kind, Phase, Slot, State},
    step::{Step, Verb},
};

/// `Flaw` is a defect of the machine besides the tables. It lets tests see that the checker finds deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// A cache answers no probe of a line that it has itself asked for.
    AskingCachesDoNotAnswer,
    /// The home probes again, and does not ask memory, if no cache has data.
    HomeProbesAgain,
}

/// `Machine` is a machine of two processor caches and a DMA cache.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub processors: TransitionTable,
    pub dma: TransitionTable,
    pub lines: usize,
    /// The largest number of requests and of lines in buffers at a time.
    pub under_way: usize,
    pub flaw: Flaw,
}

/// `After` is what follows a step: a state, or a fault of the protocol.
pub type After = Result<State, &'static str>;

pub const STALE_READ: &str = "a read returns stale data";
pub const STALE_WRITE: &str = "a partial write joins stale data";
pub const EXCLUDED: &str = "the table excludes the event in this state";
pub const STAYS: &str = "the line must leave, and stays";
pub const NOT_CLEAN: &str = "the line is cleaned, and memory does not become equal to it";

impl Machine {
    fn entry(&self, cache: usize, state: LineState, event: LineEvent) -> Result<Transition, &'static str> {
        let table = if cache == DMA { &self.dma } else { &self.processors };
        let entry = transition(table, state, event);
        if entry.action == LineAction::Never { Err(EXCLUDED) } else { Ok(entry) }
    }

    /// Calls `found` with each step of a state, and with what follows it.
    pub fn steps(&self, state: &State, found: &mut dyn FnMut(Step, After)) {
        for line in 0..self.lines {
            for cache in 0..CACHES {
                let mut report = |verb, after: Option<After>| {
                    if let Some(after) = after {
                        found(Step { verb, cache, line }, after);
                    }
                };
                self.complete(state, cache, line, &mut report);
                if !state.asks(cache, line) {
                    self.choose(state, cache, line, &mut report);
                }
            }
        }
    }

    /// Reports the steps that complete work.
    fn complete(
        &self,
        state: &State,
        cache: usize,
        line: usize,
        report: &mut dyn FnMut(Verb, Option<After>),
    ) {
        let home = state.lines[line].home;
        let waits = self.flaw == Flaw::AskingCachesDoNotAnswer && state.asks(cache, line);
        match home.slots[cache] {
            Slot::Probe if !waits => report(Verb::Answer, Some(self.answer(state, cache, line))),
            Slot::Answer { held, data } => {
                let mut next = *state;
                let home = &mut next.lines[line].home;
                home.slots[cache] = Slot::Empty;
                home.held |= held;
                home.data = home.data.or(data);
                report(Verb::Collect, Some(Ok(next)));
            }
            _ => {}
        }
        match home.phase {
            Phase::Idle if state.asks(cache, line) => {
                let mut next = *state;
                let home = &mut next.lines[line].home;
                (home.phase, home.to) = (Phase::Gather, cache);
                home.slots = probes(cache);
                report(Verb::Serve, Some(Ok(next)));
            }
            Phase::Gather if home.to == cache && home.slots == [Slot::Empty; CACHES] => {
                let mut next = *state;
                let whole = matches!(state.ports[cache].request, Some((Kind::WriteWhole, _)));
                if home.data.is_none() && !whole && self.flaw == Flaw::HomeProbesAgain {
                    next.lines[line].home.slots = probes(cache);
                    report(Verb::Serve, Some(Ok(next)));
                } else if home.data.is_none() && !whole {
                    next.lines[line].home.data = Some(state.lines[line].memory);
                    report(Verb::Supply, Some(Ok(next)));
                } else {
                    next.lines[line].home.phase = Phase::Grant;
                    report(Verb::Send, Some(Ok(next)));
                }
            }
            Phase::Grant if home.to == cache => report(Verb::Receive, self.receive(state, cache, line)),
            Phase::Return if home.to == cache => report(Verb::TakeIn, Some(self.take_in(state, line))),
            _ => {}
        }
        match state.ports[cache].buffer {
            Some((Bound::Memory, of, fresh)) if of == line => {
                let mut next = *state;
                next.ports[cache].buffer = None;
                next.lines[line].memory = fresh;
                report(Verb::Drain, Some(Ok(next)));
            }
            Some((Bound::DmaCache, of, fresh)) if of == line && home.phase == Phase::Idle => {
                let mut next = *state;
                next.ports[cache].buffer = None;
                let home = &mut next.lines[line].home;
                (home.phase, home.to, home.data) = (Phase::Return, DMA, Some(fresh));
                report(Verb::Pass, Some(Ok(next)));
            }
            _ => {}
        }
    }

    fn answer(&self, state: &State, cache: usize, line: usize) -> After {
        let mut next = *state;
        let writes = !matches!(state.ports[state.lines[line].home.to].request, Some((Kind::Read, _)));
        let copy = state.lines[line].held[cache];
        let event = if writes { LineEvent::ProbeWrite } else { LineEvent::ProbeRead };
        let entry = self.entry(cache, copy.state, event)?;
        let mut data = (entry.action == LineAction::Supply).then_some(copy.fresh);
        let mut held = entry.next != LineState::Invalid;
        if let Some((_, of, fresh)) = state.ports[cache].buffer
            && of == line
        {
            data = data.or(Some(fresh));
            held = true;
            if writes {
                next.ports[cache].buffer = None;
            }
        }
        next.lines[line].home.slots[cache] = Slot::Answer { held: held && !writes, data };
        set_state(&mut next, cache, line, entry.next);
        Ok(next)
    }

    fn receive(&self, state: &State, cache: usize, line: usize) -> Option<After> {
        let home = state.lines[line].home;
        let (kind, _) = state.ports[cache].request?;
        let event = match (kind, home.held) {
            (Kind::Read, false) => LineEvent::LocalReadAlone,
            (Kind::Read, true) => LineEvent::LocalReadShared,
            _ => LineEvent::LocalWrite,
        };
        let copy = state.lines[line].held[cache];
        let entry = match self.entry(cache, copy.state, event) {
            Ok(entry) => entry,
            Err(fault) => return Some(Err(fault)),
        };
        let through = entry.action == LineAction::WriteThrough;
        if through && !self.takes_write(state, cache, line) {
            return None;
        }
        let takes = entry.action == LineAction::Fill || through && copy.state == LineState::Invalid;
        let fresh = if takes { home.data.unwrap_or(false) } else { copy.fresh };
        let mut next = *state;
        next.ports[cache].request = None;
        next.lines[line].home = State::first().lines[line].home;
        next.lines[line].held[cache].fresh = fresh;
        Some(match kind {
            Kind::Read if !fresh => Err(STALE_READ),
            Kind::Write if !fresh => Err(STALE_WRITE),
            Kind::Read => {
                set_state(&mut next, cache, line, entry.next);
                Ok(next)
            }
            _ => Ok(written(next, cache, line, entry)),
        })
    }

    fn take_in(&self, state: &State, line: usize) -> After {
        let mut next = *state;
        let copy = state.lines[line].held[DMA];
        let entry = self.entry(DMA, copy.state, LineEvent::Return)?;
        if entry.action == LineAction::Fill {
            next.lines[line].held[DMA].fresh = state.lines[line].home.data == Some(true);
        }
        next.lines[line].home = State::first().lines[line].home;
        set_state(&mut next, DMA, line, entry.next);
        Ok(next)
    }

    /// Returns whether the buffer has room for a write to memory.
    fn takes_write(&self, state: &State, cache: usize, line: usize) -> bool {
        match state.ports[cache].buffer {
            None => true,
            Some((Bound::Memory, of, _)) => of == line,
            Some((Bound::DmaCache, ..)) => true,
        }
    }

    /// Reports the steps that processors and devices may choose.
    fn choose(&self, state: &State, cache: usize, line: usize, report: &mut dyn FnMut(Verb, Option<After>)) {
        let copy = state.lines[line].held[cache];
        let port = state.ports[cache];
        let others = (0..CACHES).filter(|&other| other != cache);
        let alone = others.into_iter().all(|c| state.lines[line].held[c].state == LineState::Invalid);
        let busy: usize = state
            .ports
            .iter()
            .map(|port| usize::from(port.request.is_some()) + usize::from(port.buffer.is_some()))
            .sum();
        let room = busy < self.under_way;
        let asks = room && port.request.is_none() && !state.buffers(cache, line);
        let ask = |kind| {
            let mut next = *state;
            next.ports[cache].request = Some((kind, line));
            asks.then_some(Ok(next))
        };
        let read = if alone { LineEvent::LocalReadAlone } else { LineEvent::LocalReadShared };
        match self.entry(cache, copy.state, read) {
            Err(fault) => report(Verb::Read, Some(Err(fault))),
            Ok(entry) if entry.action == LineAction::Fill => report(Verb::Ask(Kind::Read), ask(Kind::Read)),
            Ok(_) if !copy.fresh => report(Verb::Read, Some(Err(STALE_READ))),
            Ok(entry) => {
                let mut next = *state;
                set_state(&mut next, cache, line, entry.next);
                report(Verb::Read, Some(Ok(next)));
            }
        }
        let excludes = copy.state.excludes_copies();
        match self.entry(cache, copy.state, LineEvent::LocalWrite) {
            Err(fault) => report(Verb::Write, Some(Err(fault))),
            Ok(entry) if excludes && entry.action != LineAction::Fill => {
                let through = entry.action == LineAction::WriteThrough;
                if !copy.fresh {
                    report(Verb::Write, Some(Err(STALE_WRITE)));
                } else if !through || self.takes_write(state, cache, line) && (room || port.buffer.is_some())
                {
                    report(Verb::Write, Some(Ok(written(*state, cache, line, entry))));
                }
            }
            Ok(_) => {
                report(Verb::Ask(Kind::Write), ask(Kind::Write));
                if cache == DMA {
                    report(Verb::Ask(Kind::WriteWhole), ask(Kind::WriteWhole));
                }
            }
        }
        let buffers = room && port.buffer.is_none();
        report(Verb::Replace, self.leave(state, cache, line, buffers));
        report(Verb::Clean, self.clean(state, cache, line, buffers));
        let returns = cache != DMA && copy.state != LineState::Invalid && !copy.state.is_dirty();
        if returns && buffers {
            let mut next = *state;
            next.ports[cache].buffer = Some((Bound::DmaCache, line, copy.fresh));
            set_state(&mut next, cache, line, LineState::Invalid);
            report(Verb::GiveBack, Some(Ok(next)));
        }
        if matches!(port.buffer, Some((Bound::DmaCache, of, _)) if of == line) {
            let mut next = *state;
            next.ports[cache].buffer = None;
            report(Verb::Drop, Some(Ok(next)));
        }
    }

    fn leave(&self, state: &State, cache: usize, line: usize, buffers: bool) -> Option<After> {
        let after = self.write_back(state, cache, line, LineEvent::Replace, buffers)?;
        let stays = |next: &State| next.lines[line].held[cache].state != LineState::Invalid;
        Some(after.and_then(|next| if stays(&next) { Err(STAYS) } else { Ok(next) }))
    }

    fn clean(&self, state: &State, cache: usize, line: usize, buffers: bool) -> Option<After> {
        let after = self.write_back(state, cache, line, LineEvent::Clean, buffers)?;
        let was_dirty = state.lines[line].held[cache].state.is_dirty();
        let equal = |next: &State| !was_dirty || next.buffers(cache, line);
        Some(after.and_then(|next| if equal(&next) { Ok(next) } else { Err(NOT_CLEAN) }))
    }

    fn write_back(
        &self,
        state: &State,
        cache: usize,
        line: usize,
        event: LineEvent,
        buffers: bool,
    ) -> Option<After> {
        let copy = state.lines[line].held[cache];
        let entry = match self.entry(cache, copy.state, event) {
            Ok(entry) => entry,
            Err(fault) => return Some(Err(fault)),
        };
        let mut next = *state;
        if entry.action == LineAction::WriteBack {
            if !buffers {
                return None;
            }
            next.ports[cache].buffer = Some((Bound::Memory, line, copy.fresh));
        }
        set_state(&mut next, cache, line, entry.next);
        Some(Ok(next))
    }
}

/// Returns the channels after the home has probed all caches but the one that asks.
fn probes(cache: usize) -> [Slot; CACHES] {
    std::array::from_fn(|other| if other == cache { Slot::Empty } else { Slot::Probe })
}

/// Changes the state of a copy. An invalid copy has no data, so a copy that was invalid has stale data.
fn set_state(state: &mut State, cache: usize, line: usize, to: LineState) {
    let held = &mut state.lines[line].held[cache];
    held.state = to;
    held.fresh &= to != LineState::Invalid;
}

/// Completes a write: the copy is what the write made, and everything else is stale.
fn written(mut state: State, cache: usize, line: usize, entry: Transition) -> State {
    state.age(line);
    state.lines[line].held[cache].fresh = true;
    if entry.action == LineAction::WriteThrough {
        state.ports[cache].buffer = Some((Bound::Memory, line, true));
    }
    set_state(&mut state, cache, line, entry.next);
    state
}
