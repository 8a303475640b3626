//! `Problem` is the form of every error: value, place, rule, remedy.

use alloc::{
    boxed::Box,
    string::{String, ToString},
};
use core::fmt;

use crate::escape::escaped;

/// `Class` says who caused a problem. It decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The run failed (exit code 1): an invariant of the simulated physics broke.
    Run,
    /// The request was wrong (exit code 2): its input, machine or arguments, or a place that cannot be
    /// written.
    Request,
    /// The user stopped the run (exit code 130).
    Interrupted,
}

/// `Problem` says what went wrong, so that the reader can mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The class says who caused the problem.
    pub class: Class,
    /// The value that is wrong, as it was given.
    pub value: String,
    /// The place of the value: file, line, row group, key, option.
    pub place: String,
    /// The rule that the value breaks.
    pub rule: String,
    /// The remedy: what the reader can do.
    pub remedy: String,
}

/// `Result` has a boxed [`Problem`], because errors are rare and must not widen every return value.
pub type Result<T> = core::result::Result<T, Box<Problem>>;

impl Problem {
    /// Makes the problem of a wrong request.
    #[must_use]
    pub fn request(value: &str, place: &str, rule: &str, remedy: &str) -> Box<Self> {
        Self::new(Class::Request, value, place, rule, remedy)
    }

    /// Makes the problem of a failed run.
    #[must_use]
    pub fn run(value: &str, place: &str, rule: &str, remedy: &str) -> Box<Self> {
        Self::new(Class::Run, value, place, rule, remedy)
    }

    /// Makes the problem of a run that the user stopped with Ctrl-C.
    #[must_use]
    pub fn interrupted() -> Box<Self> {
        Self::new(Class::Interrupted, "interrupted", "", "stopped by the user", "unfinished work was removed")
    }

    fn new(class: Class, value: &str, place: &str, rule: &str, remedy: &str) -> Box<Self> {
        Box::new(Self {
            class,
            value: value.to_string(),
            place: place.to_string(),
            rule: rule.to_string(),
            remedy: remedy.to_string(),
        })
    }
}

/// The message is one line, and text from a trace or a file name is escaped in it.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", escaped(&self.place))?;
        }
        write!(f, "{}: {}; {}", escaped(&self.value), escaped(&self.rule), escaped(&self.remedy))
    }
}

impl core::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_value_place_rule_and_remedy() {
        let problem = Problem::request("3MiB", "kh90.toml: cache.l2.size", "must be 2^n", "take 4MiB");
        assert_eq!(problem.to_string(), "kh90.toml: cache.l2.size: 3MiB: must be 2^n; take 4MiB");
    }

    #[test]
    fn a_problem_is_one_line_that_steers_no_terminal() {
        let problem = Problem::request("a\nb", "\x1b[2J.din", "no\u{9b}", "\u{202e}");
        assert_eq!(problem.to_string(), "\\x1b[2J.din: a\\nb: no\\x9b; \\u202e");
    }
}
