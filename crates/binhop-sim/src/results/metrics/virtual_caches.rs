//! This file names the metrics of caches with virtual tags. Machines without frames do not have these metrics
//! ([`crate::synonyms`]).

use super::{MetricInfo, whole};
use crate::results::tally::Tally;

/// The metrics: name, unit and meaning.
const LIST: &[(&str, &str, &str)] = &[
    (
        "translation.synonyms",
        "accesses",
        "Accesses of the program that left two different copies of a line in caches with virtual tags (JM97 §3.1): a store beside a copy under another name, or another access where a copy is dirty.",
    ),
    (
        "translation.aliases",
        "pages",
        "Names beyond the first by which the program accessed a page of caches with virtual tags. A name is a mapping with `tag = \"asid\"`, and a global address with `tag = \"global\"`.",
    ),
    (
        "translation.aliases.writable",
        "pages",
        "The aliases of writable shared memory: of segments whose first map is shared and may be written. A store through such an alias may leave a synonym.",
    ),
];

/// Returns every metric that only caches with virtual tags have.
pub(super) fn metrics() -> impl Iterator<Item = MetricInfo> {
    LIST.iter().map(|&(name, unit, meaning)| MetricInfo { name: name.to_string(), unit, meaning })
}

/// Visits every metric of caches with virtual tags: name, unit, value.
pub(super) fn each(tally: &Tally, visit: &mut impl FnMut(String, &'static str, Option<f64>)) {
    let [all, writable] = tally.stream.aliases;
    for (&(name, unit, _), count) in LIST.iter().zip([tally.synonyms, all, writable]) {
        visit(name.to_string(), unit, Some(whole(count)));
    }
}
