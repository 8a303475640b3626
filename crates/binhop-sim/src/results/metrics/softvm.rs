//! This file names the metrics of software that translates when the last level misses.

use binhop_base::Kind;

use super::{MetricInfo, PER_INSTRUCTION_CYCLES, ratio, whole};
use crate::machine::{Machine, SoftvmConfig, WriteBacks};
use crate::results::tally::Tally;
use crate::softvm::{MissCause, SoftvmCounts};

const KINDS: [Kind; 3] = [Kind::Fetch, Kind::Load, Kind::Store];

/// Metrics that do not depend on a list: name, unit and meaning.
const LIST: &[(&str, &str, &str)] = &[
    (
        "translation.<kind>.cache-misses",
        "accesses",
        "Accesses whose line no cache held, so that software translated (JM97 §4).",
    ),
    (
        "translation.entries.user-misses",
        "loads",
        "Loads of user entries whose line no cache held, so that the handler loaded the root entry first.",
    ),
    (
        "translation.write-backs",
        "lines",
        "Lines that a handler translated because they went back to memory, or were read for a write-back.",
    ),
    (
        "translation.write-backs.most-waiting",
        "lines",
        "The maximum number of lines that waited for the handler of write-backs at one time, up to the end of the phase.",
    ),
];

/// Returns every metric that only software at cache misses has.
pub(super) fn metrics() -> impl Iterator<Item = MetricInfo> {
    let fixed =
        LIST.iter().map(|&(name, unit, meaning)| MetricInfo { name: name.to_string(), unit, meaning });
    let causes = MissCause::ALL.iter().map(|&(_, name, meaning)| MetricInfo {
        name: format!("translation.cycles.{name}"),
        unit: "cycles",
        meaning,
    });
    fixed.chain(super::protection::metrics()).chain(causes)
}

/// Visits every metric of software at cache misses: name, unit, value.
pub(super) fn each(
    machine: &Machine,
    config: &SoftvmConfig,
    tally: &Tally,
    counts: &SoftvmCounts,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    let by_table = config.write_backs == WriteBacks::Table;
    for kind in KINDS {
        let name = format!("translation.{}.cache-misses", kind.name());
        visit(name, "accesses", Some(whole(counts.misses(kind))));
    }
    let misses = Some(whole(counts.misses_of_entries()));
    visit("translation.entries.user-misses".to_string(), "loads", misses);
    super::protection::each(machine, tally, visit);
    if by_table {
        let [lines, most] = counts.write_backs();
        visit("translation.write-backs".to_string(), "lines", Some(whole(lines)));
        visit("translation.write-backs.most-waiting".to_string(), "lines", Some(whole(most)));
    }
    if config.huge_log2.is_some() {
        super::translation::huge_pages(machine, tally, visit);
    }
    let tables = tally.stream.tables * machine.memory().page.bytes();
    visit("translation.tables".to_string(), "bytes", Some(whole(tables)));
    if machine.has_cost() {
        let mut all = 0;
        for &(cause, name, _) in MissCause::ALL {
            all += counts.cycles(cause);
            if by_table || cause != MissCause::WriteBack {
                let cycles = Some(whole(counts.cycles(cause)));
                visit(format!("translation.cycles.{name}"), "cycles", cycles);
            }
        }
        visit("translation.cycles".to_string(), "cycles", Some(whole(all)));
        visit("translation.cpi".to_string(), PER_INSTRUCTION_CYCLES, ratio(all, tally.stream.instructions));
    }
}
