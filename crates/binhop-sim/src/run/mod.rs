//! A run takes a trace through preparation, shared fronts, lanes and backs, on several threads and in as
//! many rounds as the memory requires.

mod after_walks;
mod back_model;
mod bundle_walks;
mod clock;
mod engine;
mod feedback;
mod front_tap;
mod lane;
mod lane_bundle;
mod memory_estimate;
mod memory_stream;
mod passed_mark;
mod prepared;
mod private;
mod producer;
mod recency;
mod report;
mod rounds;
mod shared_front;
mod threads;
mod virtual_caches;
mod worker;
mod worst_case;

pub(crate) use engine::check_machines;
pub use feedback::{OpenSteered, simulate_steered};
pub(crate) use feedback::{apart, check_cost};
pub use memory_stream::{front_stream, memory_stream};
pub use prepared::Prepared;
pub(crate) use rounds::explain_rounds;
pub use rounds::{Reopen, TraceInput, estimated_memory, simulate, simulate_all, simulate_in_rounds};
pub use worker::PolicyMaker;
pub(crate) use worst_case::WorstCase;
