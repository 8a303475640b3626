//! These tests walk the list of formats.

use std::fs;
use std::path::Path;

use super::import_bytes;
use binhop_trace::import::{FORMATS, format, format_of_path, open};
use binhop_trace::input::PACKINGS;

#[test]
fn every_format_reads_its_own_example_and_names_its_losses() {
    for format in FORMATS {
        let one = import_bytes(format.name, format.example).unwrap();
        assert_eq!(one.rows.len(), 1, "{}", format.name);
        assert!(!format.what.is_empty() && !format.lost.is_empty());
    }
}

/// The tests that walk the list do not know the grammar of a format, so each format needs tests of its own.
#[test]
fn every_format_has_tests_of_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let shared = ["main.rs", "formats.rs", "properties.rs", "speed.rs"].map(|name| folder.join(name));
    let mut folders = vec![folder.clone()];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if !shared.contains(&entry) {
                texts.push(fs::read_to_string(entry).unwrap());
            }
        }
    }
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    let line = main.lines().position(|line| line.starts_with("mod ")).unwrap() + 1;
    for format in FORMATS {
        let name = format!("{:?}", format.name);
        assert!(
            texts.iter().any(|text| text.contains(&name)),
            "crates/binhop-trace/tests/import/main.rs:{line}: add a module that tests {name}: every branch of its \
             grammar, block boundaries, cuts at every byte, and a slow reader to compare with"
        );
    }
}

#[test]
fn every_format_is_found_by_name_and_by_extension() {
    for known in FORMATS {
        assert_eq!(format(known.name).unwrap().name, known.name);
        for extension in known.extensions {
            for packed in [""].into_iter().chain(PACKINGS.iter().map(|(_, extension)| *extension)) {
                let path = format!("/some.dir/trace.{extension}.{packed}");
                let path = path.trim_end_matches('.');
                assert_eq!(format_of_path(path).map(|format| format.name), Some(known.name), "{path}");
            }
        }
    }
}

#[test]
fn a_name_without_a_known_extension_is_refused() {
    assert!(
        format_of_path("-").is_none() && format_of_path("a.txt").is_none() && format_of_path("din").is_none()
    );
    assert!(format_of_path("x.din/trace").is_none());
    let names = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    assert!(open("a.txt", None).err().unwrap().rule.starts_with("cannot be opened (No such file"));
    let there = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_eq!(
        open(there, None).err().unwrap().to_string(),
        format!("{there}: its name does not tell the format; say --format, one of {names}")
    );
    assert_eq!(
        open("a.txt", Some("dim")).err().unwrap().to_string(),
        format!("--format: dim: there is no such format; take one of {names}")
    );
}
