//! The corpus: bytes that readers once fell over, and small sound inputs that fuzzing starts from.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod readers;

use std::path::{Path, PathBuf};

use binhop_trace::import::FORMATS;
use readers::{READERS, read};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    for (name, _) in READERS {
        let folder = corpus().join(name);
        let files =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has something to start from");
        for file in files {
            println!("{}", file.display());
            read(name, &std::fs::read(&file).unwrap());
        }
    }
}

#[test]
fn every_reader_has_a_fuzz_target_and_every_format_a_reader() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in READERS {
        assert!(targets.contains(&format!("name = \"{name}\"")), "{name}: not in fuzz/Cargo.toml");
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).exists(), "{name}");
    }
    for format in FORMATS {
        assert!(READERS.iter().any(|(name, _)| *name == format.name), "{}: no reader", format.name);
    }
}
