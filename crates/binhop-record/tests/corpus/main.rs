//! The corpus of the recorder's pipe: words on which the decoder once failed, and small valid streams from
//! which fuzzing starts.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod reader;
#[path = "../../../binhop-trace/tests/corpus/walk.rs"]
mod walk;

#[test]
fn every_pipe_of_the_corpus_is_read_or_refused() {
    walk::every_file("pipe", reader::read);
}

#[test]
fn the_pipe_has_a_fuzz_target() {
    walk::is_fuzzed("pipe");
}
