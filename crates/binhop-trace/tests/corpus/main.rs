//! The corpus: bytes that readers once fell over, and small sound inputs that fuzzing starts from.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod readers;
mod walk;

use binhop_trace::import::FORMATS;
use readers::{READERS, read};

#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    for (name, _) in READERS {
        walk::every_file(name, |bytes| read(name, bytes));
    }
}

#[test]
fn every_reader_has_a_fuzz_target_and_every_format_a_reader() {
    READERS.iter().for_each(|(name, _)| walk::is_fuzzed(name));
    for format in FORMATS {
        assert!(READERS.iter().any(|(name, _)| *name == format.name), "{}: no reader", format.name);
    }
}
