//! The crate links into a program without the standard library, and works there.

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_without_the_standard_library_places_pages() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-std");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/no-std/Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--manifest-path", manifest, "--target-dir"])
        .arg(&target)
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo runs");
    assert!(built.success());
    let program = target.join("debug").join("binhop-no-std");
    assert!(Command::new(program).status().expect("the program starts").success());
}
