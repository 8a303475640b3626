//! The simulator: from a machine description and a trace to a distribution over placements.
//!
//! `decode → prepare → place → front → back`, as stages with named types between them: event batches
//! ([`binhop_trace::EventBatch`]), rows and controls ([`prepare::Block`]), requests
//! ([`binhop_hw::Request`]), and at the end a tidy table ([`Outcome`]).
#![forbid(unsafe_code)]

mod account;
mod back_model;
mod detail;
mod engine;
mod explain;
mod frame_map;
mod front;
mod lane;
mod long_table;
pub mod machine;
pub mod memory;
mod meter;
mod metrics;
mod names;
mod outcome;
pub mod paging;
mod plan;
mod planner;
pub mod prepare;
mod prepared;
mod recency;
mod reckon;
mod rounds;
mod slots;
mod spill;
mod system;
mod table_file;
mod tally;
mod threads;
pub mod unit;

pub use engine::{Heed, PolicyMaker, Progress, memory_stream};
pub use explain::explain;
pub use front::Sharing;
pub use long_table::{Batches, LongTable};
pub use machine::Machine;
pub use memory::Memory;
pub use metrics::{MetricInfo, metrics};
pub use outcome::Outcome;
pub use plan::{MOST_SEEDS, Plan};
pub use prepared::Prepared;
pub use rounds::{Input, Opener, needed, simulate, simulate_all, simulate_in_rounds};
pub use table_file::{StoredBatches, write_table};

/// The known name nearest to `word`, if one is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&word.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let known = ["kh90", "two-level", "zen-4k"];
        assert_eq!(nearest("kh09", known), Some("kh90"));
        assert_eq!(nearest("Two-levle", known), Some("two-level"));
        assert_eq!(nearest("pentium", known), None);
    }
}
