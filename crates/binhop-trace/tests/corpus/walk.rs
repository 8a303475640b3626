//! These checks hold for the corpora of all crates: every file is read, and every reader is fuzzed.

use std::fs::{read, read_dir, read_to_string};
use std::path::Path;

/// Calls `read_file` with every file of the corpus of a reader. There must be a file.
pub fn every_file(reader: &str, read_file: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(reader);
    let files = read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{}: fuzzing starts from a small sound input", folder.display());
    for file in files {
        println!("{}", file.display());
        read_file(&read(&file).unwrap());
    }
}

/// Checks that a reader has a corpus, a fuzz target, and an entry in cargo's list of targets. The error names
/// everything that is missing.
pub fn is_fuzzed(reader: &str) {
    let mut missing = Vec::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(reader);
    if !read_dir(&corpus).is_ok_and(|mut files| files.next().is_some()) {
        let name = concat!("crates/", env!("CARGO_PKG_NAME"), "/tests/corpus");
        missing.push(format!("{name}/{reader}/: put a small sound input here, and fuzzing starts from it"));
    }
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    if !fuzz.join(format!("fuzz_targets/{reader}.rs")).exists() {
        missing.push(format!(
            "fuzz/fuzz_targets/{reader}.rs: copy fuzz/fuzz_targets/din.rs, and write {reader} in place of din"
        ));
    }
    let targets = read_to_string(fuzz.join("Cargo.toml")).unwrap();
    if !targets.contains(&format!("name = \"{reader}\"")) {
        let line = targets.lines().count() + 1;
        missing.push(format!("fuzz/Cargo.toml:{line}: append a [[bin]] with the name and path of {reader}"));
    }
    assert!(missing.is_empty(), "the reader {reader} lacks:\n{}", missing.join("\n"));
}
