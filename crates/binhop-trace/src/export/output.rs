//! `PackedOutput` takes the bytes of an export: a file that appears complete or not at all, or the standard
//! output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;

use binhop_base::{Problem, Result};

use crate::disk::Temporary;
use crate::input::PACKINGS;

/// Starts packing into a sink.
type Pack = fn(Sink) -> io::Result<Packer>;

/// The endings of file names for which an export is packed, and the packer of each ending.
const PACKED: &[(&str, Pack)] = &[
    ("gz", |sink| Ok(Packer::Gz(flate2::write::GzEncoder::new(sink, flate2::Compression::new(6))))),
    ("xz", |sink| Ok(Packer::Xz(liblzma::write::XzEncoder::new(sink, 3)))),
    ("zst", |sink| Ok(Packer::Zst(zstd::Encoder::new(sink, 3)?))),
];

/// Endings of packings that binhop neither reads nor writes. [`PACKINGS`] lists the packings that binhop
/// reads.
const OTHERS: &[&str] = &["z", "lz", "lzma", "lzo", "7z", "rar", "br", "tgz", "tar"];

/// `PackedOutput` is a file or the standard output, packed as the name says.
pub(super) struct PackedOutput {
    // Field order: the file is closed before it is removed.
    packer: Packer,
    /// The file; `None` for the standard output.
    temporary: Option<Temporary>,
    reader_closed: bool,
}

enum Packer {
    Plain(Sink),
    Gz(flate2::write::GzEncoder<Sink>),
    Xz(liblzma::write::XzEncoder<Sink>),
    Zst(zstd::Encoder<'static, Sink>),
}

/// `Sink` counts the bytes that it writes.
struct Sink {
    to: Box<dyn Write + Send>,
    bytes: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Packer {
    fn of(path: &Path, to: Box<dyn Write + Send>) -> io::Result<Self> {
        let sink = Sink { to, bytes: 0 };
        match pack_of(&ending(path)) {
            Some(pack) => pack(sink),
            None => Ok(Self::Plain(sink)),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(to) => to,
            Self::Gz(to) => to,
            Self::Xz(to) => to,
            Self::Zst(to) => to,
        }
    }

    fn finish(self) -> io::Result<u64> {
        let mut sink = match self {
            Self::Plain(sink) => sink,
            Self::Gz(to) => to.finish()?,
            Self::Xz(to) => to.finish()?,
            Self::Zst(to) => to.finish()?,
        };
        sink.flush()?;
        Ok(sink.bytes)
    }
}

/// Returns the ending of a name behind its last dot, in small letters.
fn ending(path: &Path) -> String {
    path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Returns the packer for names with this ending, if there is one.
fn pack_of(ending: &str) -> Option<Pack> {
    PACKED.iter().find(|(packed, _)| *packed == ending).map(|&(_, pack)| pack)
}

/// Refuses a name whose ending promises a packing that is not written.
fn check_ending(path: &Path) -> Result<()> {
    let ending = ending(path);
    let packings = || PACKINGS.iter().map(|(_, ending)| ending).chain(OTHERS);
    if pack_of(&ending).is_some() || !packings().any(|packing| *packing == ending) {
        return Ok(());
    }
    let packed: Vec<&str> = PACKED.iter().map(|(ending, _)| *ending).collect();
    let rule = format!(
        "an export is packed if its name ends in .{}, and in no other way: this file would be plain",
        packed.join(", .")
    );
    let remedy = "take one of these endings, or pack it in a pipe: `binhop export … -o - | bzip2 > FILE`";
    Err(Problem::request(&path.display().to_string(), "-o", &rule, remedy))
}

/// Returns the standard output as a file without a buffer. Writing to a closed standard output fails. (Rust's
/// own handle would take the bytes and write nothing.)
///
/// # Errors
/// The system has no file descriptor left, or the standard output is closed.
pub fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

impl PackedOutput {
    pub(super) fn create(path: &Path) -> Result<Self> {
        check_ending(path)?;
        if path.as_os_str() == "-" {
            let out = standard_output().map_err(|error| problem(None, &error))?;
            let packer = Packer::of(path, Box::new(out)).expect("plain output needs no encoder");
            return Ok(Self { packer, temporary: None, reader_closed: false });
        }
        let (temporary, file): (Temporary, File) = Temporary::create(path, "an export")?;
        let packer = Packer::of(path, Box::new(BufWriter::with_capacity(1 << 18, file)))
            .map_err(|error| temporary.cannot_write(&error.to_string()))?;
        Ok(Self { packer, temporary: Some(temporary), reader_closed: false })
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.reader_closed {
            return Ok(());
        }
        self.packer.writer().write_all(bytes).or_else(|error| self.failed(&error))
    }

    /// Returns whether the reader of the standard output has closed it, which is no error.
    pub(super) fn reader_has_closed(&self) -> bool {
        self.reader_closed
    }

    /// Completes the output and returns its size.
    pub(super) fn finish(self) -> Result<u64> {
        let Self { packer, temporary, reader_closed } = self;
        if reader_closed {
            return Ok(0);
        }
        match (packer.finish(), temporary) {
            (Ok(bytes), Some(temporary)) => temporary.take_place().map(|()| bytes),
            (Ok(bytes), None) => Ok(bytes),
            (Err(error), None) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            (Err(error), temporary) => Err(problem(temporary.as_ref(), &error)),
        }
    }

    fn failed(&mut self, error: &io::Error) -> Result<()> {
        self.reader_closed = self.temporary.is_none() && error.kind() == io::ErrorKind::BrokenPipe;
        if self.reader_closed { Ok(()) } else { Err(problem(self.temporary.as_ref(), error)) }
    }
}

fn problem(temporary: Option<&Temporary>, error: &io::Error) -> Box<binhop_base::Problem> {
    match temporary {
        Some(temporary) => temporary.cannot_write(&error.to_string()),
        None => Problem::request(
            &error.to_string(),
            "standard output",
            "it takes no more, and what it took is no whole export",
            "open it, make room behind it, or name a file (-o FILE)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// `/dev/full` takes no byte, and fails as a full disk behind the standard output does.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_standard_output_has_a_message_of_its_own() {
        for (name, bytes) in [("x.din", 1), ("x.din.zst", 1 << 22)] {
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            let packer = Packer::of(Path::new(name), Box::new(full)).unwrap();
            let mut output = PackedOutput { packer, temporary: None, reader_closed: false };
            let noise: Vec<u8> =
                (0..bytes).map(|byte: u32| (byte.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
            let problem = output.put(&noise).and_then(|()| output.finish().map(drop)).unwrap_err();
            assert_eq!(
                problem.to_string(),
                "standard output: No space left on device (os error 28): it takes no more, and what it took is no whole \
                 export; open it, make room behind it, or name a file (-o FILE)"
            );
        }
    }
}
