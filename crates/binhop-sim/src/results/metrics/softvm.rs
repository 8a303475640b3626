//! This file names the metrics of software that translates when the last level misses.

use binhop_base::Kind;

use super::{MetricInfo, PER_INSTRUCTION_CYCLES, ratio, whole};
use crate::machine::{Machine, ProtectionViolations, SoftvmConfig, WriteBacks};
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
        "translation.protection.changes",
        "events",
        "Events that changed the protection of pages in the page table (JM97 §5.4).",
    ),
    (
        "translation.protection.pages",
        "pages",
        "Pages in the page table of which an event changed the protection.",
    ),
    (
        "translation.protection.level-1.checked",
        "lines",
        "Lines that changes of protection looked for in level 1.",
    ),
    (
        "translation.protection.level-1.updated",
        "lines",
        "Lines among those looked for that level 1 held, so that their protection was updated.",
    ),
    (
        "translation.protection.level-2.checked",
        "lines",
        "Lines that changes of protection looked for in the caches behind level 1.",
    ),
    (
        "translation.protection.level-2.updated",
        "lines",
        "Lines among those looked for that a cache behind level 1 held, so that their protection was updated.",
    ),
    (
        "translation.protection.late-updates",
        "lines",
        "Lines that were updated at the first access that their old protection does not allow.",
    ),
    (
        "translation.protection.cycles",
        "cycles",
        "Cycles to check and update these lines, beside `translation.cycles` (JM97 §5.4).",
    ),
    (
        "translation.<kind>.violations",
        "accesses",
        "Accesses that the protection of their page does not allow.",
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
    fixed.chain(causes)
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
    protection(machine, config, tally, counts, visit);
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

/// Visits the metrics of protection.
fn protection(
    machine: &Machine,
    config: &SoftvmConfig,
    tally: &Tally,
    counts: &SoftvmCounts,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    let (stream, sweeps) = (&tally.stream.protection, counts.sweeps());
    let mut show = |name: &str, unit: &'static str, count: u64| {
        visit(format!("translation.{name}"), unit, Some(whole(count)));
    };
    show("protection.changes", "events", stream.changes);
    show("protection.pages", "pages", stream.pages);
    for level in 0..2 {
        let name = format!("protection.level-{}", level + 1);
        show(&format!("{name}.checked"), "lines", sweeps.checked[level]);
        show(&format!("{name}.updated"), "lines", sweeps.updated[level]);
    }
    show("protection.late-updates", "lines", sweeps.late);
    if machine.has_cost() {
        show("protection.cycles", "cycles", sweeps.cycles());
    }
    if config.protection_violations != ProtectionViolations::Ignore {
        for kind in KINDS {
            show(&format!("{}.violations", kind.name()), "accesses", stream.violations[kind as usize]);
        }
    }
}
