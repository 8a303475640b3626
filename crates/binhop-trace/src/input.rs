//! Foreign text as bytes: from a file, a pipe or standard input, decompressed on the way.
//!
//! What the bytes are is told by their first few, never by the name: a pipe has none, and names lie.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use binhop_base::{Problem, Result};

/// Compressed bytes are read in pieces of this size.
const COMPRESSED_BUFFER: usize = 256 << 10;

/// The longest of the magic numbers below.
const LONGEST_MAGIC: usize = 6;

/// How the bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    /// What errors call it, and the command that checks such a file.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Packing::Plain => ("plain", "cat"),
            Packing::Gzip => ("gzip", "gzip -t"),
            Packing::Xz => ("xz", "xz -t"),
            Packing::Zstd => ("zstd", "zstd -t"),
        }
    }
}

/// Containers that are recognised only in order to be refused with a remedy: name, magic, unpacking command.
const REFUSED: &[(&str, &[u8], &str)] = &[
    ("bzip2", b"BZh", "bzip2 -dc"),
    ("lz4", &[0x04, 0x22, 0x4d, 0x18], "lz4 -dc"),
    ("zip", b"PK\x03\x04", "unzip -p"),
    ("Parquet", b"PAR1", ""),
];

/// A readable input: plain text behind whatever compression it came in.
///
/// Concatenated members (`cat a.gz b.gz`) read as one text.
pub struct Input {
    name: String,
    packing: Packing,
    reader: Box<dyn Read + Send>,
}

impl Input {
    /// Opens a file, a named pipe, or `-` for standard input.
    ///
    /// # Errors
    /// The path does not exist, is a directory, may not be read, holds nothing, or is packed in a way that is not read.
    pub fn open(path: &str) -> Result<Self> {
        if path == "-" {
            return Self::from_reader("standard input", io::stdin());
        }
        let file = File::open(path).map_err(|error| cannot_open(path, &error))?;
        if Path::new(path).is_dir() {
            return Err(Problem::request(
                path,
                "",
                "is a directory, and a trace in this format is one file",
                "name the file",
            ));
        }
        Self::from_reader(path, file)
    }

    /// Reads what `reader` gives, under the name that errors will use.
    ///
    /// Waits for the first bytes, since they say how the rest is packed.
    ///
    /// # Errors
    /// There is not one byte, reading fails, or the packing is one that is not read.
    pub fn from_reader(name: &str, mut reader: impl Read + Send + 'static) -> Result<Self> {
        let mut head = [0; LONGEST_MAGIC];
        let length = fill(&mut reader, &mut head).map_err(|error| cannot_read(name, &error))?;
        let head = &head[..length];
        if head.is_empty() {
            return Err(Problem::request(
                "0 bytes",
                name,
                "a trace holds at least one reference",
                "check the command that should have written it",
            ));
        }
        let packing = recognise(name, head)?;
        let whole = Cursor::new(head.to_vec()).chain(reader);
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_BUFFER, whole);
        let reader: Box<dyn Read + Send> = match packing {
            Packing::Plain => Box::new(whole),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(whole))),
            Packing::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(buffered(whole))),
            Packing::Zstd => Box::new(
                zstd::Decoder::with_buffer(buffered(whole)).map_err(|error| cannot_read(name, &error))?,
            ),
        };
        Ok(Self { name: name.to_string(), packing, reader })
    }

    /// The path, or `standard input`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills `buffer` as far as the input goes; less than its length means that the input has ended.
    ///
    /// How the bytes arrive (one at a time from a slow pipe, or all at once) does not show in the result.
    ///
    /// # Errors
    /// The input cannot be read on, or its compressed data is truncated or damaged.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fill(&mut self.reader, buffer).map_err(|error| self.broken(&error))
    }

    /// Tells a failing disk from damaged compressed data: only the first has an error number of the system.
    fn broken(&self, error: &io::Error) -> Box<Problem> {
        let (packing, check) = self.packing.names();
        if self.packing == Packing::Plain || error.raw_os_error().is_some() {
            return cannot_read(&self.name, error);
        }
        let rule = match error.kind() {
            io::ErrorKind::UnexpectedEof => "ends in the middle".to_string(),
            _ => format!("is damaged ({error})"),
        };
        let remedy = format!("`{check}` checks such a file; fetch it or make it again");
        Problem::request(&format!("{packing} data"), &self.name, &rule, &remedy)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// What the first bytes say.
fn recognise(name: &str, head: &[u8]) -> Result<Packing> {
    for (container, magic, unpack) in REFUSED {
        if head.starts_with(magic) {
            let remedy = if unpack.is_empty() {
                "give it to `binhop run` or `binhop inspect` as it is".to_string()
            } else {
                format!("unpack it in a pipe: `{unpack} FILE | binhop import --format FORMAT - -o OUT`")
            };
            let rule = format!("a {container} file is not one of gzip, xz, zstd or plain text");
            return Err(Problem::request(container, name, &rule, &remedy));
        }
    }
    Ok(match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Packing::Xz,
        // The second is zstd's skippable frame, which `zstd` and `pzstd` may write first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        _ => Packing::Plain,
    })
}

/// Reads until `buffer` is full or the reader has ended.
fn fill(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn cannot_open(path: &str, error: &io::Error) -> Box<Problem> {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "check the path; `-` reads standard input",
        io::ErrorKind::PermissionDenied => "make it readable for you",
        _ => "check the path and the disk",
    };
    Problem::request(path, "", &format!("cannot be opened ({error})"), remedy)
}

fn cannot_read(name: &str, error: &io::Error) -> Box<Problem> {
    Problem::request(
        name,
        "",
        &format!("cannot be read ({error})"),
        "check the disk, or the program that writes it",
    )
}
