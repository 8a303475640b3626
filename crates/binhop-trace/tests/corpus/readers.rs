//! Every reader of this crate is a function of bytes here. It reads or refuses the bytes, and does not panic,
//! overflow or ask for much memory. The fuzz targets under `fuzz/` and the test of the corpus call it.

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use binhop_base::{Problem, Result};
use binhop_trace::import::{FORMATS, format};
use binhop_trace::input::Input;
use binhop_trace::lint::lint;
use binhop_trace::placements::v2p;
use binhop_trace::{Source, TraceReader, read_placements};

/// A reader: the name of its corpus and of its fuzz target, and what it does with bytes.
type Reader = (&'static str, fn(&[u8]));

/// The readers besides the importers. Each foreign format is also a reader, under the format's name.
const OTHERS: &[Reader] =
    &[("packed", packed), ("map", map), ("pagemap", pagemap), ("trace", trace), ("placements", placements)];

/// The name of every reader.
#[allow(dead_code, reason = "the fuzz targets name their readers")]
pub fn readers() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name).chain(OTHERS.iter().map(|(name, _)| *name))
}

/// The number of rows, and of bytes, after which a reader is stopped: a few packed bytes may unpack to
/// gigabytes.
const ENOUGH_ROWS: u64 = 1 << 18;
const ENOUGH_BYTES: usize = 16 << 20;

/// Runs the reader of this name.
pub fn read(name: &str, bytes: &[u8]) {
    match OTHERS.iter().find(|(reader, _)| *reader == name) {
        Some((_, read)) => read(bytes),
        None => import(name, bytes),
    }
}

/// Checks that an error names a rule and a remedy.
fn well_put(problem: &Problem) {
    assert!(!problem.rule.is_empty() && !problem.remedy.is_empty(), "{problem}");
}

fn input(bytes: &[u8]) -> Option<Input> {
    Input::from_reader("bytes", Cursor::new(bytes.to_vec())).inspect_err(|problem| well_put(problem)).ok()
}

/// Reads a source to its end, or to [`ENOUGH_ROWS`], and checks its events as `binhop lint` does.
fn drain(source: &mut dyn Source) -> Result<()> {
    let mut enough = false;
    let read = lint(source, None, &mut |totals| {
        enough = totals.rows() > ENOUGH_ROWS;
        if enough { Err(Problem::interrupted()) } else { Ok(()) }
    });
    match read {
        Err(_) if enough => Ok(()),
        read => read.map(|_| ()),
    }
}

fn import(name: &str, bytes: &[u8]) {
    let Some(input) = input(bytes) else { return };
    let format = format(name).expect("a format of the list");
    let read = (format.open)(input).and_then(|mut importer| {
        drain(&mut *importer)?;
        assert!(importer.notes().iter().all(|note| !note.is_empty()));
        Ok(())
    });
    if let Err(problem) = read {
        well_put(&problem);
    }
}

fn packed(bytes: &[u8]) {
    let Some(mut input) = input(bytes) else { return };
    let (mut buffer, mut all) = (vec![0; 64 << 10], 0);
    while all < ENOUGH_BYTES {
        match input.fill(&mut buffer) {
            Ok(0) => return,
            Ok(some) => all += some,
            Err(problem) => return well_put(&problem),
        }
    }
    // Reading one byte at a time takes another path through the decoders.
    let _ = input.read(&mut buffer[..1]);
}

fn map(bytes: &[u8]) {
    let Some(input) = input(bytes) else { return };
    if let Err(problem) = v2p::read_from(input) {
        well_put(&problem);
    }
}

/// The maps stand before the first empty line, and the entries behind it.
fn pagemap(bytes: &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").map_or(0, |last| last + 2);
    let raw = Scratch::new(&bytes[end..]);
    let maps = PathBuf::from(format!("{}.maps", raw.0.display()));
    std::fs::write(&maps, &bytes[..end]).expect("the scratch file can be written");
    let maps = Scratch(maps);
    match read_placements(&raw.0.display().to_string(), "placement.file") {
        Ok(map) => drop(map.in_pages(4096, "bytes")),
        Err(problem) => well_put(&problem),
    }
    drop(maps);
}

/// `Scratch` is a file with bytes, because Parquet is read from its end. It is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let thread = std::thread::current().id();
        let path = place.join(format!("binhop-reader-{}-{thread:?}", std::process::id()));
        let write = std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
        write.expect("the scratch file can be written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn trace(bytes: &[u8]) {
    let file = Scratch::new(bytes);
    if let Err(problem) = TraceReader::open(&file.0).and_then(|mut reader| drain(&mut reader)) {
        well_put(&problem);
    }
}

fn placements(bytes: &[u8]) {
    let file = Scratch::new(bytes);
    if let Err(problem) = read_placements(&file.0.display().to_string(), "placement.file") {
        well_put(&problem);
    }
}
