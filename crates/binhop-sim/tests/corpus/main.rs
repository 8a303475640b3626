//! Machine descriptions that the parser once fell over, and the small sound ones that fuzzing starts from.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod reader;

use std::path::Path;

use binhop_sim::machine::BUNDLED;

#[test]
fn every_description_of_the_corpus_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/machine");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        reader::read(&std::fs::read(&file).unwrap());
    }
    BUNDLED.iter().for_each(|machine| reader::read(machine.toml.as_bytes()));
}
