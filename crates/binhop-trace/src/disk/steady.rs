//! `Steady` is a file that must not change while it is read.
//!
//! A file is opened once and read by position, so another file that takes its name changes nothing. A change
//! in place is noticed: after every read, the file's size and time of last change are compared with the
//! values at the opening. (Two states of equal size, written within the clock's resolution of a few
//! milliseconds, cannot be told apart.)

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use binhop_base::{Problem, Result};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// The size of the buffer that a page header is read through.
const HEADER: usize = 8 << 10;

/// `FileIdentity` identifies a file and its state. It is equal for two readings of an unchanged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl FileIdentity {
    /// Returns the identity that a file's metadata gives.
    #[must_use]
    pub fn of(file: &Metadata) -> Self {
        let changed = (file.mtime(), file.mtime_nsec());
        Self { device: file.dev(), inode: file.ino(), bytes: file.len(), changed }
    }

    /// Refuses the file if its identity has changed since it was opened.
    pub(crate) fn is_still(&self, now: &Self, place: &str) -> Result<()> {
        if now == self { Ok(()) } else { Err(changed(self, now, place)) }
    }
}

/// The text serves comparison only: device, inode, size, time of last change.
impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, bytes, changed: (seconds, nanoseconds) } = self;
        write!(f, "{device}:{inode}:{bytes}:{seconds}.{nanoseconds:09}")
    }
}

/// `Steady` is a regular file and the identity it had when it was opened. Clones read the same file
/// independently.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    file: Arc<File>,
    identity: FileIdentity,
}

impl Steady {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let identity = FileIdentity::of(&file.metadata()?);
        Ok(Self { file: Arc::new(file), identity })
    }

    pub(crate) fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// Fills the buffer with the bytes at a position.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    /// Refuses the file if it has been changed since it was opened. Call it after reading, before using the
    /// bytes.
    pub(crate) fn check(&self, place: &str) -> Result<()> {
        let now = self.file.metadata().map(|file| FileIdentity::of(&file));
        match now {
            Ok(now) => self.identity.is_still(&now, place),
            Err(error) => Err(Problem::request(
                &error.to_string(),
                place,
                "the file cannot be read on",
                "check the disk",
            )),
        }
    }
}

fn changed(before: &FileIdentity, now: &FileIdentity, place: &str) -> Box<Problem> {
    let value = match (before.bytes, now.bytes) {
        (then, now) if then == now => format!("{now} bytes, other than before"),
        (then, now) => format!("{now} bytes, {then} when it was opened"),
    };
    let remedy =
        "leave it in place until the command has ended: wait for the program that writes it, or read a copy";
    Problem::request(&value, place, "the file was changed while it was read", remedy)
}

/// `Forward` reads a file from front to end. A change of the file since it was opened is an error.
pub(crate) struct Forward {
    steady: Steady,
    place: String,
    at: u64,
}

impl Forward {
    pub(crate) fn new(steady: Steady, place: &str) -> Self {
        Self { steady, place: place.to_owned(), at: 0 }
    }
}

impl Read for Forward {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.steady.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        // A problem travels through decompressors as an `io::Error`. `Input` extracts it.
        self.steady.check(&self.place).map_err(io::Error::other)?;
        Ok(read)
    }
}

impl Length for Steady {
    fn len(&self) -> u64 {
        self.bytes()
    }
}

impl ChunkReader for Steady {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(HEADER, From { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} lie outside the file")));
        }
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// `From` reads a file from a position on.
pub(crate) struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
