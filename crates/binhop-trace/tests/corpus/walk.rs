//! What the corpora of all crates share: every file is read, every reader is fuzzed.

use std::path::Path;

/// Hands over every file of the corpus that this crate has for a reader; there is at least one.
pub fn every_file(reader: &str, read: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(reader);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{reader} has something to start from");
    for file in files {
        println!("{}", file.display());
        read(&std::fs::read(&file).unwrap());
    }
}

/// A fuzz target of the reader's name exists, and cargo knows it.
pub fn is_fuzzed(reader: &str) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    assert!(targets.contains(&format!("name = \"{reader}\"")), "{reader}: not in fuzz/Cargo.toml");
    assert!(fuzz.join(format!("fuzz_targets/{reader}.rs")).exists(), "{reader}");
}
