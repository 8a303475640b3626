//! The tests of the whole engine are one program, and the files beside this file are its modules. `memory` and `growth`
//! are programs of their own, because they count the bytes of an allocator.
//!
//! Twenty programs took five times as long to compile: each compiled `common` and the engine's generic code again.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod bounds;
mod cachegrind;
/// The tests of the caches know how to give a tree to the oracle.
#[path = "../../binhop-hw/tests/common/mod.rs"]
mod caches;
mod common;
mod details;
mod device_data;
mod equal_lanes;
mod exact;
mod features_of_jm97;
mod feedback;
mod front_parts;
mod front_stream;
mod interrupt;
mod io_faults;
mod io_flush;
mod io_memory;
mod io_path;
mod kernel;
mod line_protection;
mod machine;
mod memory_stream;
mod meter;
#[path = "occasions/main.rs"]
mod occasions;
mod paging;
mod placements;
mod recorded;
mod reuse;
mod rounds;
mod rules;
mod segment_ids;
mod softvm;
mod switches;
#[path = "translation/main.rs"]
mod translation;
mod translation_by_hand;
mod units;
mod whole_engine;
