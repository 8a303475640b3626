//! `explore` enumerates all states that a machine reaches, breadth first, and checks the properties in each.
//!
//! - At most one cache owns a line; Modified and Exclusive exclude other copies.
//! - The newest data of a line exist. If nothing is under way for the line, its owner has them, and memory has them if
//!   no cache owns the line.
//! - No deadlock: where work is under way, a step completes some of it; and from each state, completing what is under
//!   way leads to a state in which nothing is under way.
//!
//! The steps check the reads and the writes themselves.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

use binhop_hw::LineState;

use crate::{
    machine::Machine,
    state::{Bound, CACHES, Slot, State},
    step::Step,
};

/// `Mix` mixes the bits of packed states.
#[derive(Clone, Copy, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a packed state is one u128");
    }

    fn write_u128(&mut self, number: u128) {
        let half =
            (number as u64 ^ ((number >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (half ^ half >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
}

/// `Found` is what the enumeration found in a protocol without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of states. States that differ only in the names of processors and lines count once.
    pub states: usize,
    /// The number of steps to the state that is farthest from the first state.
    pub depth: usize,
}

/// `CounterExample` is a shortest sequence of steps to a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterExample {
    pub fault: &'static str,
    pub steps: Vec<Step>,
}

impl std::fmt::Display for CounterExample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {step}", number + 1)?;
        }
        write!(f, "Fault: {}", self.fault)
    }
}

pub const DEADLOCK: &str = "deadlock: work is under way, and no step completes any of it";
pub const LIVELOCK: &str = "completing what is under way never ends";
pub const TWO_OWNERS: &str = "two caches own the line";
pub const NOT_EXCLUSIVE: &str = "another cache holds a copy beside one that is Modified or Exclusive";
pub const LOST: &str = "the newest data of the line are lost";
pub const OLD_MEMORY: &str = "no cache owns the line, and memory is stale";

/// The number that stands for no state: nothing is under way.
const QUIET: u32 = u32::MAX;

struct Search<'a> {
    machine: &'a Machine,
    ids: HashMap<u128, u32, BuildHasherDefault<Mix>>,
    states: Vec<u128>,
    parents: Vec<u32>,
    /// For each state, the state after its first step that completes work.
    completes: Vec<u32>,
}

/// Enumerates the states of a machine.
pub fn explore(machine: &Machine) -> Result<Found, CounterExample> {
    let first = State::first().canonical(machine.lines);
    let mut search = Search {
        machine,
        ids: HashMap::from_iter([(first, 0)]),
        states: vec![first],
        parents: vec![0],
        completes: Vec::new(),
    };
    let (mut depth, mut level_end, mut at) = (0, 1, 0);
    while at < search.states.len() {
        if at == level_end {
            (depth, level_end) = (depth + 1, search.states.len());
        }
        search.expand(at)?;
        at += 1;
    }
    search.all_drain()?;
    Ok(Found { states: search.states.len(), depth })
}

impl Search<'_> {
    fn expand(&mut self, at: usize) -> Result<(), CounterExample> {
        let state = State::unpack(self.states[at]);
        let mut fault = None;
        let mut completes = QUIET;
        let machine = self.machine;
        machine.steps(&state, &mut |step, after| match after {
            Ok(next) => {
                let id = self.id(&next, at);
                if step.completes() && completes == QUIET {
                    completes = id;
                }
                if fault.is_none()
                    && let Some(broken) = broken(&next, step.line)
                {
                    fault = Some((broken, step));
                }
            }
            Err(broken) => {
                fault.get_or_insert((broken, step));
            }
        });
        if let Some((fault, step)) = fault {
            return Err(self.example(at, fault, Some(step)));
        }
        if completes == QUIET && (0..machine.lines).any(|line| !state.is_quiet(line)) {
            return Err(self.example(at, DEADLOCK, None));
        }
        self.completes.push(completes);
        Ok(())
    }

    fn id(&mut self, state: &State, parent: usize) -> u32 {
        let number = state.canonical(self.machine.lines);
        let id = self.states.len() as u32;
        match self.ids.entry(number) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(empty) => {
                empty.insert(id);
                self.states.push(number);
                self.parents.push(parent as u32);
                id
            }
        }
    }

    /// Checks that each state leads to a state in which nothing is under way.
    fn all_drain(&self) -> Result<(), CounterExample> {
        let mut drains = vec![false; self.states.len()];
        for start in 0..self.states.len() as u32 {
            let mut way = Vec::new();
            let mut at = start;
            while at != QUIET && !drains[at as usize] {
                // A way that comes to a state twice never ends. No way that ends is so long.
                if way.len() > 1000 {
                    return Err(self.example(start as usize, LIVELOCK, None));
                }
                way.push(at);
                at = self.completes[at as usize];
            }
            way.into_iter().for_each(|at| drains[at as usize] = true);
        }
        Ok(())
    }

    /// Makes the sequence of steps to a state, and the step that breaks a property there. Names are those of one run:
    /// the sequence is walked again from the first state.
    fn example(&self, at: usize, fault: &'static str, last: Option<Step>) -> CounterExample {
        let mut way = vec![at];
        while let Some(&at) = way.last().filter(|&&at| at != 0) {
            way.push(self.parents[at] as usize);
        }
        let mut steps = Vec::new();
        let mut state = State::first();
        for &to in way.iter().rev().skip(1) {
            let mut found = None;
            self.machine.steps(&state, &mut |step, after| {
                if let Ok(next) = after
                    && next.canonical(self.machine.lines) == self.states[to]
                {
                    found.get_or_insert((step, next));
                }
            });
            let (step, next) = found.expect("a state follows from its parent");
            steps.push(step);
            state = next;
        }
        if last.is_some() {
            let mut breaking = None;
            self.machine.steps(&state, &mut |step, after| {
                let is = match after {
                    Ok(next) => broken(&next, step.line) == Some(fault),
                    Err(broken) => broken == fault,
                };
                if is {
                    breaking.get_or_insert(step);
                }
            });
            steps.extend(breaking);
        }
        CounterExample { fault, steps }
    }
}

/// Returns the property of a line that a state breaks.
fn broken(state: &State, line: usize) -> Option<&'static str> {
    let of = &state.lines[line];
    let count = |is: fn(LineState) -> bool| of.held.iter().filter(|held| is(held.state)).count();
    let owners = count(LineState::is_dirty);
    let exclusive = count(LineState::excludes_copies);
    if owners > 1 {
        return Some(TWO_OWNERS);
    }
    if exclusive > 0 && count(|state| state != LineState::Invalid) > 1 {
        return Some(NOT_EXCLUSIVE);
    }
    let buffered = (0..CACHES)
        .any(|cache| matches!(state.ports[cache].buffer, Some((Bound::Memory, of, true)) if of == line));
    let moving = of.home.data == Some(true)
        || of.home.slots.iter().any(|slot| matches!(slot, Slot::Answer { data: Some(true), .. }));
    if !of.memory && !buffered && !moving && of.held.iter().all(|held| !held.fresh) {
        return Some(LOST);
    }
    let owned = of.held.iter().any(|held| held.state.is_dirty() && held.fresh);
    (state.is_quiet(line) && !of.memory && !owned).then_some(OLD_MEMORY)
}
