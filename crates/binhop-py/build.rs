//! This script copies the recorder's sources into the wheel (pyproject.toml, `include`), because an installed binhop
//! builds the recorder.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let from = Path::new("../../recorder");
    let to = Path::new(&env::var_os("OUT_DIR").expect("cargo says where")).join("_recorder");
    println!("cargo::rerun-if-changed={}", from.display());
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
