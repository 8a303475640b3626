//! Words of the recorder's pipe that the decoder once fell over, and small sound ones that fuzzing starts from.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod reader;

use std::path::Path;

#[test]
fn every_pipe_of_the_corpus_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/pipe");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        reader::read(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn the_pipe_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    assert!(targets.contains("name = \"pipe\""));
    assert!(fuzz.join("fuzz_targets/pipe.rs").exists());
}
