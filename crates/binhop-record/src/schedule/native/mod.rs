//! `Native` is the schedule that repeats the order between processes of a run without the recorder.
//!
//! The native run is a list of turns. A turn names its process, the last system call that the process
//! entered, how long the process ran after this call, and why it left.
//! **Processes** correspond if they descend from the command in the same way: the second child of the first
//! child, for example.
//! **A turn's end** is found in the recording by the system call. The time after the call becomes
//! instructions, at the rate of the process so far: instructions recorded for each microsecond observed. The
//! count starts anew at each call.
//! **The next turn** is the first turn in the list that is not over and whose process may run. A turn is
//! skipped while its process must wait in the recording, and dropped if the process gets past it in the
//! meantime. If none of the next `AHEAD` turns can be followed, the process whose last turn is longest ago
//! runs for a millisecond.

mod align;
mod capture;
mod observed;

use std::collections::{HashMap, VecDeque};

use binhop_base::{Problem, Result, counted};
use binhop_trace::event::Cause;

use super::{BuiltIn, Ready, Schedule, longest_ago};
use align::CallPosition;
pub use capture::{capture, obstacle};
pub use observed::{ObservedOrder, ObservedProcess, ObservedTurn, TurnEnd};

/// The number of turns that are searched.
const AHEAD: usize = 256;
/// The length of a turn that was not observed, in microseconds.
const UNKNOWN: u64 = 1000;

/// `Native` is a schedule that follows an observed order.
pub struct Native {
    observed: ObservedOrder,
    turns: VecDeque<ObservedTurn>,
    total: usize,
    followed: u64,
    /// For each address space, its observed process and the number of its children so far.
    known: HashMap<u32, (usize, u32)>,
    processes: Vec<ProcessProgress>,
    /// The turn that is followed now; `None` if no turn can be followed.
    current: Option<ObservedTurn>,
    time: u64,
}

/// `ProcessProgress` says how far an observed process has come in the recording.
#[derive(Clone, Debug, Default)]
struct ProcessProgress {
    position: CallPosition,
    /// The address space, while the process lives.
    asid: Option<u32>,
    /// The instructions that the process had run at its last native call.
    instructions: u64,
    /// The instructions recorded and the microseconds observed between native calls, so far.
    between: (u64, u64),
    /// The instructions that the process has run so far.
    now: u64,
}

impl ProcessProgress {
    /// Returns the number of instructions in `us` microseconds.
    fn instructions_in(&self, us: u64) -> u64 {
        let (instructions, micros) = self.between;
        let rate =
            if micros < 100 { BuiltIn::RATE.into() } else { u128::from(instructions) / u128::from(micros) };
        u64::try_from(u128::from(us) * rate.max(1)).unwrap_or(u64::MAX).max(1)
    }

    /// Returns whether the process has passed the end of a turn.
    fn is_past(&self, turn: &ObservedTurn) -> bool {
        let ran = self.now - self.instructions;
        match turn.end {
            TurnEnd::SystemCall => self.position.at >= turn.calls,
            TurnEnd::Exit => false,
            _ => {
                self.position.at > turn.calls
                    || self.position.at == turn.calls && ran >= self.instructions_in(turn.ran)
            }
        }
    }
}

impl Native {
    /// Makes a schedule that follows an observed order.
    #[must_use]
    pub fn new(observed: ObservedOrder) -> Self {
        let turns: VecDeque<ObservedTurn> = observed.turns.iter().cloned().collect();
        let processes = vec![ProcessProgress::default(); observed.processes.len()];
        let total = turns.len();
        Self { observed, turns, total, followed: 0, known: HashMap::new(), processes, current: None, time: 0 }
    }

    /// Reads the text that [`Native::save`] wrote.
    ///
    /// # Errors
    /// The text is not a schedule.
    pub fn load(text: &str, place: &str) -> Result<Self> {
        let broken = |what: &str| {
            let rule = "a schedule is what `binhop record --observe FILE` wrote";
            Problem::request(what, place, rule, "observe the command again: --schedule native")
        };
        let observed: ObservedOrder =
            serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
        let processes = observed.processes.len();
        if let Some(turn) = observed.turns.iter().find(|turn| turn.process >= processes) {
            return Err(broken(&format!("process {} of {processes}", turn.process)));
        }
        let ordered =
            observed.processes.iter().enumerate().all(|(at, process)| process.parent.is_none_or(|p| p < at));
        if !ordered {
            return Err(broken("a process before its parent"));
        }
        Ok(Self::new(observed))
    }

    /// Returns an observed order as JSON.
    #[must_use]
    pub fn save(observed: &ObservedOrder) -> String {
        serde_json::to_string(observed).expect("plain data becomes JSON")
    }

    /// Returns the `nth` child of an observed process.
    fn child(&self, parent: usize, nth: u32) -> Option<usize> {
        let children =
            self.observed.processes.iter().enumerate().filter(|(_, process)| process.parent == Some(parent));
        children.map(|(at, _)| at).nth(nth as usize)
    }

    fn progress(&mut self, asid: u32) -> Option<&mut ProcessProgress> {
        let &(at, _) = self.known.get(&asid)?;
        Some(&mut self.processes[at])
    }
}

impl Schedule for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn choose(&mut self, ready: &[Ready]) -> usize {
        while self.turns.front().is_some_and(|turn| self.processes[turn.process].is_past(turn)) {
            self.turns.pop_front();
        }
        let may = |turn: &ObservedTurn| {
            let progress = &self.processes[turn.process];
            let place = ready.iter().position(|ready| Some(ready.asid) == progress.asid)?;
            Some(place).filter(|_| !progress.is_past(turn))
        };
        let found = self.turns.iter().take(AHEAD).enumerate().find_map(|(at, turn)| Some((at, may(turn)?)));
        self.current = found.and_then(|(at, _)| self.turns.remove(at));
        self.followed += u64::from(self.current.is_some());
        found.map_or_else(|| longest_ago(ready), |(_, place)| place)
    }

    fn turn(&mut self, asid: u32) -> u64 {
        let Some(turn) = &self.current else { return UNKNOWN * BuiltIn::RATE };
        self.time = self.time.max(turn.start * 1000);
        let Some(&(at, _)) = self.known.get(&asid) else { return UNKNOWN * BuiltIn::RATE };
        let progress = &self.processes[at];
        if progress.position.at < turn.calls || turn.end == TurnEnd::Exit {
            return u64::MAX;
        }
        progress.instructions_in(turn.ran).saturating_sub(progress.now - progress.instructions).max(1)
    }

    fn started(&mut self, asid: u32, parent: Option<u32>) {
        let at = match parent.map(|parent| self.known.get_mut(&parent)) {
            None => Some(0),
            Some(None) => None,
            Some(Some((parent, children))) => {
                *children += 1;
                let (parent, nth) = (*parent, *children - 1);
                self.child(parent, nth)
            }
        };
        if let Some(at) = at.filter(|&at| at < self.processes.len()) {
            self.known.insert(asid, (at, 0));
            self.processes[at].asid = Some(asid);
        }
    }

    fn ended(&mut self, asid: u32) {
        if let Some(progress) = self.progress(asid) {
            progress.asid = None;
        }
    }

    fn ran(&mut self, asid: u32, instructions: u64) {
        if let Some(progress) = self.progress(asid) {
            progress.now += instructions;
        }
    }

    fn entered(&mut self, asid: u32, number: u32) -> Option<u64> {
        let &(at, _) = self.known.get(&asid)?;
        let (progress, native) = (&mut self.processes[at], &self.observed.processes[at].calls);
        let before = progress.position.at;
        if !progress.position.enters(number, native) {
            return None;
        }
        if progress.position.at == before + 1 {
            progress.between.0 += progress.now - progress.instructions;
            progress.between.1 += native[before].1;
        }
        progress.instructions = progress.now;
        let turn = self.current.as_ref().filter(|turn| turn.process == at)?;
        match turn.end {
            _ if progress.position.at > turn.calls => Some(1), // the process has passed the turn's end
            _ if progress.position.at < turn.calls => None,
            TurnEnd::SystemCall => Some(0),
            TurnEnd::Exit => None,
            TurnEnd::PageFault | TurnEnd::Involuntary => Some(progress.instructions_in(turn.ran)),
        }
    }

    fn cause(&self) -> Cause {
        match self.current.as_ref().map(|turn| turn.end) {
            Some(TurnEnd::PageFault) => Cause::PageFault,
            _ => Cause::Involuntary,
        }
    }

    fn time(&self) -> Option<u64> {
        self.current.as_ref().map(|_| self.time)
    }

    fn notes(&self) -> Vec<String> {
        let calls: u64 = self.observed.processes.iter().map(|process| process.calls.len() as u64).sum();
        let matched: u64 = self.processes.iter().map(|progress| progress.position.matched).sum();
        let mut notes = vec![format!(
            "the order is that of a native run: the recording has {matched} of its {}, and follows {} of its {}",
            counted(calls, ["system call", "system calls"]),
            self.followed,
            counted(self.total as u64, ["turn", "turns"])
        )];
        if matched * 10 < calls * 8 {
            notes.push(
                "fewer than 80% of the native run's system calls were found: the two runs did not do the same, and the order is a rough one"
                    .into(),
            );
        }
        if self.observed.lost > 0 {
            notes.push(format!(
                "the kernel lost {} of the native run",
                counted(self.observed.lost, ["event", "events"])
            ));
        }
        notes
    }
}
