//! The corpus holds bytes on which readers once failed, and small sound inputs that fuzzing starts from.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod readers;
mod walk;

use readers::{read, readers};

#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    for name in readers() {
        walk::every_file(name, |bytes| read(name, bytes));
    }
}

#[test]
fn every_reader_has_a_corpus_and_a_fuzz_target() {
    readers().for_each(walk::is_fuzzed);
}
