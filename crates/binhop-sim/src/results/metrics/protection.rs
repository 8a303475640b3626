//! This file names the metrics of caches whose lines keep the protection of their pages ([`crate::softvm`]'s
//! `protection`).

use binhop_base::Kind;

use super::{MetricInfo, whole};
use crate::machine::{Machine, ProtectionViolations};
use crate::results::tally::Tally;

/// The metrics: name, unit and meaning.
const LIST: &[(&str, &str, &str)] = &[
    (
        "translation.protection.changes",
        "events",
        "Events that changed the protection of pages that their space has touched, and maps since (JM97 §5.4).",
    ),
    (
        "translation.protection.pages",
        "pages",
        "Pages that their space has touched, and maps since, of which an event changed the protection.",
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
];

/// Returns every metric that exists only for machines whose lines keep protection.
pub(super) fn metrics() -> impl Iterator<Item = MetricInfo> {
    LIST.iter().map(|&(name, unit, meaning)| MetricInfo { name: name.to_string(), unit, meaning })
}

/// Visits every metric of protection: name, unit, value.
pub(super) fn each(
    machine: &Machine,
    tally: &Tally,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    let (Some(config), Some(sweeps)) = (machine.protection(), tally.sweeps) else { return };
    let stream = &tally.stream.protection;
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
    if config.violations != ProtectionViolations::Ignore {
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            show(&format!("{}.violations", kind.name()), "accesses", stream.violations[kind as usize]);
        }
    }
}
