//! `Step` names what happens in a step, and prints it.

use std::fmt;

use crate::state::Kind;

/// `Verb` is what happens in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Ask(Kind),
    Read,
    Write,
    Replace,
    GiveBack,
    Clean,
    Drop,
    Serve,
    Answer,
    Collect,
    Supply,
    Send,
    Receive,
    Drain,
    Pass,
    TakeIn,
}

/// `Step` is a step of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub verb: Verb,
    pub cache: usize,
    pub line: usize,
}

impl Step {
    /// Returns whether the step completes work. The other steps are choices of processors and devices.
    pub fn completes(self) -> bool {
        use Verb::{Answer, Collect, Drain, Pass, Receive, Send, Serve, Supply, TakeIn};
        matches!(self.verb, Serve | Answer | Collect | Supply | Send | Receive | Drain | Pass | TakeIn)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cache, line) = (["P0", "P1", "D"][self.cache], ["A", "B"][self.line]);
        match self.verb {
            Verb::Ask(Kind::Read) => write!(f, "{cache} asks to read line {line}"),
            Verb::Ask(Kind::Write) => write!(f, "{cache} asks to write line {line}"),
            Verb::Ask(Kind::WriteWhole) => write!(f, "{cache} asks to write all of line {line}"),
            Verb::Read => write!(f, "{cache} reads its copy of line {line}"),
            Verb::Write => write!(f, "{cache} writes its copy of line {line}"),
            Verb::Replace => write!(f, "{cache} replaces line {line}"),
            Verb::GiveBack => write!(f, "{cache} replaces line {line}, and offers it to D"),
            Verb::Clean => write!(f, "{cache} cleans line {line}"),
            Verb::Drop => write!(f, "{cache} drops line {line} from its buffer"),
            Verb::Serve => write!(f, "the home of line {line} serves {cache}, and probes the other caches"),
            Verb::Answer => write!(f, "{cache} answers the probe of line {line}"),
            Verb::Collect => write!(f, "the answer of {cache} reaches the home of line {line}"),
            Verb::Supply => write!(f, "memory supplies line {line}"),
            Verb::Send => write!(f, "the home sends line {line} to {cache}"),
            Verb::Receive => write!(f, "{cache} receives line {line}"),
            Verb::Drain => write!(f, "line {line} goes from the buffer of {cache} to memory"),
            Verb::Pass => write!(f, "line {line} leaves the buffer of {cache} for D"),
            Verb::TakeIn => write!(f, "{cache} receives the returned line {line}"),
        }
    }
}
