//! `binhop-sim` simulates a trace on a machine description, and returns a distribution of counts over
//! placements.
//!
//! The stages are `decode → prepare → place → front → back`. Between them stand named types: event batches
//! ([`binhop_trace::EventBatch`]), rows and controls ([`prepare::Block`]), requests
//! ([`binhop_hw::Request`]), and at the end a tidy table ([`Outcome`]).
#![forbid(unsafe_code)]

pub mod device_data;
mod events;
mod explain;
mod frame_map;
mod front_event;
pub mod io_path;
pub mod machine;
pub mod memory_limit;
pub mod occasion;
mod options;
pub mod paging;
pub mod prepare;
mod progress;
mod results;
pub mod reuse;
mod run;
mod sharing;
mod soft_tlb;
mod softvm;
mod synonyms;
mod translation;
pub mod unit;

pub use explain::{explain, explain_steered};
pub use machine::Machine;
pub use memory_limit::MemoryLimit;
pub use options::{MOST_SEEDS, RunOptions, SwitchOptions};
pub use progress::{InterruptCheck, Progress};
pub use results::{
    Batches, LongTable, MetricInfo, Outcome, StoredBatches, Summary, SwitchTables, metrics, write_table,
};
/// `Prepared` is for benchmarks and tests alone, because it holds the whole prepared trace in memory.
#[doc(hidden)]
pub use run::Prepared;
pub use run::{
    OpenSteered, PolicyMaker, Reopen, TraceInput, estimated_memory, front_stream, memory_stream, simulate,
    simulate_all, simulate_in_rounds, simulate_steered,
};
pub use sharing::FrontSharing;

/// Returns the known name nearest to `word`, if a name is near enough to be what was meant.
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
