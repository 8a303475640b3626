//! This test walks the schedules. It names what a new schedule lacks, with file and line.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the Rust files under a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the name of a schedule in documents and metadata: `BuiltIn` is `built-in`.
fn name_of(schedule: &str) -> String {
    let mut name = String::new();
    for letter in schedule.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Returns the file and line at which `start` first begins a line, ignoring blanks.
fn line_of(path: &str, text: &str, start: &str) -> String {
    let line = text.lines().position(|line| line.trim_start().starts_with(start)).map_or(1, |line| line + 1);
    format!("{path}:{line}")
}

#[test]
fn every_schedule_is_tested_and_described() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_directory.ancestors().nth(2).unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (main, document) = ("crates/binhop-record/tests/merge/main.rs", "docs/order.md");
    let tests = read(main) + &read("crates/binhop-record/tests/merge/native.rs");
    let (mut missing, mut schedules) = (Vec::new(), 0);
    for path in sources(&crate_directory.join("src/schedule")) {
        let text = fs::read_to_string(&path).unwrap();
        for (line, schedule) in (1..)
            .zip(text.lines())
            .filter_map(|(line, text)| Some((line, text.strip_prefix("impl Schedule for ")?)))
        {
            schedules += 1;
            let schedule = schedule.trim_end_matches([' ', '{']);
            let at = format!("{}:{line}", path.strip_prefix(root).unwrap().display());
            if !tests.contains(&format!("{schedule}::new(")) {
                let list = line_of(main, &read(main), "fn a_merge_equals_the_slow_model");
                missing.push(format!("{at}: {list} does not compare `{schedule}` with the slow model"));
            }
            let name = name_of(schedule);
            if !read(document).contains(&format!("`{name}`")) {
                let section = line_of(document, &read(document), "## Recordings: what is chosen");
                missing.push(format!("{at}: {section} does not describe `{name}`"));
            }
        }
    }
    assert!(schedules >= 3, "the test finds the lines `impl Schedule for NAME`");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}
