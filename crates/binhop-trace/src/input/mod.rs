//! `Input` reads the bytes of a foreign trace from a file, a pipe or the standard input, and unpacks them.
//!
//! The first bytes of an input decide how it is packed. A name does not: a pipe has no name, and names lie.
//! The memory used does not depend on the unpacked size.

mod lz4;
pub(crate) mod open;
mod zip;

use std::io::{self, BufReader, Cursor, Read};

use binhop_base::{Problem, Result};

pub use open::{LONGEST_TEXT, read_text};

use crate::disk::FileIdentity;
use crate::wait;

/// The size of the buffer for compressed bytes.
const COMPRESSED_BUFFER: usize = 256 << 10;

/// The longest of the magic numbers below.
const LONGEST_MAGIC: usize = 10;

/// The first bytes of a file of Snappy frames: a chunk of type 255 and length 6 that names the format.
const SNAPPY: &[u8] = b"\xff\x06\x00\x00sNaPpY";

macro_rules! packings {
    ($($packing:ident $name:literal $extension:literal $check:literal;)*) => {
        /// `Packing` says how bytes are packed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Packing { Plain, $($packing,)* }

        impl Packing {
            /// Returns the name that errors use, and the command that checks such a file.
            fn names(self) -> (&'static str, &'static str) {
                match self {
                    Packing::Plain => ("plain", ""),
                    $(Packing::$packing => ($name, $check),)*
                }
            }
        }

        /// The packings that are read: the name of each, and the extension of its files.
        pub const PACKINGS: &[(&str, &str)] = &[$(($name, $extension),)*];
    };
}

packings! {
    Gzip "gzip" "gz" "`gzip -t`";
    Xz "xz" "xz" "`xz -t`";
    Zstd "zstd" "zst" "`zstd -t`";
    Bzip2 "bzip2" "bz2" "`bzip2 -t`";
    Lz4 "lz4" "lz4" "`lz4 -t`";
    Zip "zip" "zip" "`unzip -t`";
    Snappy "snappy" "sz" "`python3 -m snappy -d`";
}

/// Containers that are refused with a remedy: the name, the first bytes, and the command that unpacks it.
const REFUSED: &[(&str, &[u8], &str)] = &[
    ("compress", &[0x1f, 0x9d], "uncompress -c"),
    ("legacy lz4", &[0x02, 0x21, 0x4c, 0x18], "lz4 -dc"),
    ("lzip", b"LZIP", "lzip -dc"),
    ("lzma", &[0x5d, 0x00, 0x00], "xz --format=lzma -dc"),
    ("lzop", &[0x89, b'L', b'Z', b'O', 0x00], "lzop -dc"),
    ("7-Zip", b"7z\xbc\xaf\x27\x1c", "7z x -so"),
    ("RAR", b"Rar!\x1a\x07", "unrar p -inul"),
    ("empty zip", zip::EMPTY, ""),
    ("Parquet", b"PAR1", ""),
];

/// `Input` reads the unpacked bytes of an input.
///
/// Concatenated members (`cat a.gz b.gz`) and the entries of a zip archive are read as one stream.
pub struct Input {
    name: String,
    identity: Option<FileIdentity>,
    packing: Packing,
    reader: Box<dyn Read + Send>,
}

impl Input {
    /// Opens a file, a named pipe, or the standard input for `-`. A file that is changed while it is read is
    /// refused, and a wait for a pipe can be ended (see [`crate::wait`]).
    ///
    /// # Errors
    /// The path does not exist, is a directory, may not be read, holds nothing, or is packed in a way that is
    /// not read.
    pub fn open(path: &str) -> Result<Self> {
        let name = if path == "-" { "standard input" } else { path };
        let (reader, identity) = match path {
            "-" => open::standard_input().map_err(|error| cannot_read(name, &error))?,
            _ => open::open(path)?,
        };
        Ok(Self { identity, ..Self::from_reader(name, reader)? })
    }

    /// Returns the identity of the file and of its state, if it is a regular file.
    #[must_use]
    pub fn identity(&self) -> Option<&FileIdentity> {
        self.identity.as_ref()
    }

    /// Makes an input of a reader. Errors will use `name`.
    ///
    /// This waits for the first bytes, because they say how the rest is packed.
    ///
    /// # Errors
    /// The input is empty, reading fails, or the packing is not supported.
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
            Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered(whole))),
            Packing::Lz4 => Box::new(lz4::Lz4::new(buffered(whole))),
            Packing::Zip => Box::new(zip::Zip::new(buffered(whole))),
            Packing::Snappy => Box::new(snap::read::FrameDecoder::new(buffered(whole))),
        };
        Ok(Self { name: name.to_string(), identity: None, packing, reader })
    }

    /// Returns the path, or `standard input`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills `buffer` and returns how many bytes it holds now. Fewer than its length means that the input has
    /// ended.
    ///
    /// The result does not depend on how the bytes arrive: one at a time from a slow pipe, or all at once.
    ///
    /// # Errors
    /// The input cannot be read on, or its compressed data is truncated or damaged.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fill(&mut self.reader, buffer).map_err(|error| self.failed(&error))
    }

    /// Returns the problem of a failed read. Only a failing disk has an error number of the system; other
    /// errors of packed inputs are damaged data.
    pub(crate) fn failed(&self, error: &io::Error) -> Box<Problem> {
        if let Some(problem) = wait::inner(error) {
            return problem;
        }
        let (packing, check) = self.packing.names();
        if self.packing == Packing::Plain || error.raw_os_error().is_some() {
            return cannot_read(&self.name, error);
        }
        let rule = match error.kind() {
            io::ErrorKind::UnexpectedEof => "ends in the middle".to_string(),
            io::ErrorKind::Unsupported => {
                let remedy = "unpack it in a pipe: `unzip -p FILE | binhop import --format FORMAT - -o OUT`";
                return Problem::request(&format!("{packing} data"), &self.name, &error.to_string(), remedy);
            }
            _ => format!("is damaged ({error})"),
        };
        let remedy = format!("{check} checks such a file; fetch it or make it again");
        Problem::request(&format!("{packing} data"), &self.name, &rule, &remedy)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// Returns the packing that the first bytes name.
fn recognise(name: &str, head: &[u8]) -> Result<Packing> {
    for (container, magic, unpack) in REFUSED {
        if head.starts_with(magic) {
            let remedy = match *container {
                "Parquet" => "give it to `binhop run` or `binhop inspect` as it is".to_string(),
                _ if unpack.is_empty() => "check the command that should have filled it".to_string(),
                _ => format!("unpack it in a pipe: `{unpack} FILE | binhop import --format FORMAT - -o OUT`"),
            };
            let read: Vec<&str> = PACKINGS.iter().map(|(name, _)| *name).collect();
            let rule = format!("an input is plain, or packed by one of {}", read.join(", "));
            return Err(Problem::request(container, name, &rule, &remedy));
        }
    }
    Ok(match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Packing::Xz,
        // The second pattern is zstd's skippable frame, which `zstd` and `pzstd` may write first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        // The fourth byte is the level. A block, or the end of an empty file, follows.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
        | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Packing::Bzip2,
        [0x04, 0x22, 0x4d, 0x18, ..] => Packing::Lz4,
        _ if head.starts_with(zip::MAGIC) => Packing::Zip,
        _ if head.starts_with(SNAPPY) => Packing::Snappy,
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

fn cannot_read(name: &str, error: &io::Error) -> Box<Problem> {
    if let Some(problem) = wait::inner(error) {
        return problem;
    }
    Problem::request(
        name,
        "",
        &format!("cannot be read ({error})"),
        "check the disk, or the program that writes it",
    )
}
