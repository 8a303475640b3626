//! `lint` checks the rules that the events of a trace obey, apart from the simulator.
//!
//! [`RULES`] is the list. A rule has a line in the list, a place in `walk.rs` that finds where it is broken,
//! and a trace in the tests that breaks it. The tests walk the list.

mod ranges;
mod walk;

use binhop_base::Result;
use serde::Serialize;

use crate::source::Source;
use crate::totals::{ContentHash, Totals};
use crate::trace_file::FileFacts;

/// `Severity` says how bad it is to break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The event has no meaning, or contradicts others: a simulation refuses it or would be wrong.
    Error,
    /// The event has a meaning, but hardly the meaning that was intended.
    Warning,
}

/// `LintRule` is a rule that the events of a trace obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LintRule {
    /// The name of the rule.
    pub name: &'static str,
    /// How bad it is to break the rule.
    pub severity: Severity,
    /// The rule as a sentence without its period, as [`binhop_base::Problem::rule`] is.
    pub meaning: &'static str,
    /// What to do if the rule is broken.
    pub remedy: &'static str,
}

macro_rules! rules {
    ($($id:ident = $name:literal $severity:ident, $meaning:literal, $remedy:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum RuleId { $($id,)* }

        /// Every rule.
        pub const RULES: &[LintRule] = &[
            $(LintRule { name: $name, severity: Severity::$severity, meaning: $meaning, remedy: $remedy },)*
        ];
    };
}

rules! {
    UnknownOp = "unknown-op" Error, "Every op is the code of an operation",
        "see the table of operations in the documentation of traces, and map the codes";
    FetchEmpty = "fetch-empty" Error, "A fetch has at least one instruction and one byte",
        "leave the row out, or give count and size";
    FetchLong = "fetch-long" Warning, "No instruction is longer than 15 bytes (x86's longest): size ≤ 15 · count",
        "check that count is instructions and size is bytes";
    ReferenceLarge = "reference-large" Error, "A reference has at most 65536 bytes, and a fetch at most 65536 instructions",
        "check that size is bytes and count instructions, and split longer references";
    DataCount = "data-count" Error, "A load, store or modify is one reference: count is 1",
        "write one row per data reference";
    DataEmpty = "data-empty" Error, "A load, store or modify touches at least one byte",
        "give the size; if it is not known, assume 4 and say sizes = \"assumed\" in the metadata";
    AddressOverflow = "address-overflow" Error, "addr + size stays within 64 bits",
        "check that addr is an address and size is a size";
    SwitchCause = "switch-cause" Warning, "A switch says why the outgoing thread left: arg0 is 0 system call, 1 page fault, 2 involuntary or 3 exit",
        "fill arg0; without it, switches cannot be told apart by cause";
    SwitchToExited = "switch-to-exited" Error, "Nobody switches to an address space that has ended",
        "number address spaces afresh when pids are used again";
    SwitchNeverRuns = "switch-never-runs" Warning, "A process to which the processor switches makes a reference of its own at some time",
        "record what the process does; a run counts the switch, and its tables have no row for the process";
    ForkOfLive = "fork-of-live" Error, "An address space that is born was not alive before",
        "number address spaces afresh when pids are used again";
    ForkParent = "fork-parent" Error, "A fork names its parent in arg0, and the parent is alive",
        "fill arg0 with the parent's asid";
    EndOfDead = "end-of-dead" Error, "Only a live address space can exec or exit",
        "let the fork, or a switch to it, come first";
    MapEmpty = "map-empty" Error, "A map, protect or unmap event covers at least one page and stays within 64 bits",
        "count is pages, not bytes";
    MapAligned = "map-aligned" Error, "Mappings start at a page",
        "give the page size of origin in the metadata, and page-aligned starts";
    MapFlags = "map-flags" Error, "Flags of a map or protect event are 1 read, 2 write, 4 execute, 8 shared, 16 grows, and sums of them",
        "translate the flags of your system into these";
    UnmapUnmapped = "unmap-unmapped" Warning, "Pages that are unmapped or protected were mapped before",
        "record the mappings from the program's start";
    OutsideMaps = "outside-maps" Warning, "In an address space with mappings, every reference lies inside a mapping",
        "record all mappings; references outside mappings go to an implicit private segment, and are counted";
    RangeAlone = "range-alone" Error, "A range belongs to the system call before it, with no switch between them",
        "put the range after its system call";
    KernelLeave = "kernel-leave" Error, "The kernel is left only where it was entered",
        "pair kernel-enter and kernel-leave";
    TimeBackward = "time-backward" Error, "Time does not run backward",
        "sort by time, or leave time events out";
    Promise = "promise" Error, "Totals and content hash equal those in the file's metadata",
        "the file was changed after it was written: make it again with `binhop import`";
}

/// `Finding` is a broken rule: how often it is broken, and where first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule.
    #[serde(flatten)]
    pub rule: LintRule,
    /// The number of events that break the rule.
    pub count: u64,
    /// The first events that break the rule.
    pub examples: Vec<Example>,
}

/// `Example` is an event that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The row of the event, from 0; `None` if the whole trace breaks the rule.
    pub row: Option<u64>,
    /// What is wrong in this row.
    pub detail: String,
}

/// The most examples that a finding shows.
const EXAMPLES: usize = 5;

/// `Findings` counts the events that break each rule.
#[derive(Debug)]
struct Findings {
    by_rule: Vec<(u64, Vec<Example>)>,
}

impl Findings {
    fn new() -> Self {
        Self { by_rule: vec![(0, Vec::new()); RULES.len()] }
    }

    fn add(&mut self, rule: RuleId, row: Option<u64>, detail: impl FnOnce() -> String) {
        let (count, examples) = &mut self.by_rule[rule as usize];
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(Example { row, detail: detail() });
        }
    }

    fn finish(self) -> Vec<Finding> {
        let all = RULES.iter().zip(self.by_rule);
        let broken = all.filter(|(_, (count, _))| *count > 0);
        broken.map(|(&rule, (count, examples))| Finding { rule, count, examples }).collect()
    }
}

/// Reads a source to its end and returns the rules that it breaks, in the order of [`RULES`]. A sound source
/// breaks none. `progress` gets the totals after each batch, and its error ends the reading.
///
/// # Errors
/// The source fails (a damaged file, say), or `progress` does.
pub fn lint(
    source: &mut dyn Source,
    facts: Option<&FileFacts>,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<Vec<Finding>> {
    let mut findings = Findings::new();
    let mut walk = walk::Walk::new(source.meta());
    let (mut totals, mut content) = (Totals::default(), ContentHash::new());
    while let Some(batch) = source.next_batch()? {
        walk.add(&batch, &mut findings);
        totals.add(&batch);
        content.add(&batch);
        progress(&totals)?;
    }
    walk.finish(&mut findings);
    let checks = facts.and_then(|facts| facts.checks.as_ref());
    if let Some(broken) = checks.and_then(|checks| checks.broken_by(&totals, content.finish())) {
        findings.add(RuleId::Promise, None, || format!("{}: {}", broken.found, broken.promised));
    }
    Ok(findings.finish())
}

#[cfg(test)]
mod tests;
