//! The corpus holds machine descriptions on which the parser once failed, and the small valid descriptions
//! from which fuzzing starts.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod reader;
#[path = "../../../binhop-trace/tests/corpus/walk.rs"]
mod walk;

use binhop_sim::machine::BUNDLED;

#[test]
fn every_description_of_the_corpus_is_read_or_refused() {
    walk::every_file("machine", reader::read);
    BUNDLED.iter().for_each(|machine| reader::read(machine.toml.as_bytes()));
}

#[test]
fn the_parser_has_a_fuzz_target() {
    walk::is_fuzzed("machine");
}
