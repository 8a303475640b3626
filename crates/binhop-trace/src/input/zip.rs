//! `Zip` reads the entries of a zip archive as one stream, in the order in which they lie in the file.
//!
//! It uses the local headers and skips the directory at the end, so an archive may come through a pipe.
//! Archives may follow each other. An entry is stored or deflated. Its sizes stand before it, or behind it in
//! a data descriptor, and have 32 or 64 bits. The checksum and the lengths of each entry are compared. A
//! stored entry is refused if only a data descriptor gives its length, because its end cannot be recognized.
//! Encrypted entries and other methods are refused by name. The memory used does not depend on the header's
//! values. (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.9, 4.4, 4.5.3.)

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

/// The first bytes of an archive with an entry. An archive without an entry starts with the end of its
/// directory.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
pub(super) const EMPTY: &[u8] = b"PK\x05\x06";

const ENTRY: u32 = u32::from_le_bytes(*b"PK\x03\x04");
const DESCRIPTOR: u32 = u32::from_le_bytes(*b"PK\x07\x08");
/// The records behind the last entry: the directory, its signature, and the records that end it.
const DIRECTORY: u32 = u32::from_le_bytes(*b"PK\x01\x02");
const SIGNATURE: u32 = u32::from_le_bytes(*b"PK\x05\x05");
const END_64: u32 = u32::from_le_bytes(*b"PK\x06\x06");
const LOCATOR: u32 = u32::from_le_bytes(*b"PK\x06\x07");
const END: u32 = u32::from_le_bytes(*b"PK\x05\x06");

/// The names of the methods that are refused (4.4.5).
const METHODS: &[(u16, &str)] =
    &[(1, "shrink"), (6, "implode"), (9, "deflate64"), (12, "bzip2"), (14, "LZMA"), (93, "zstd"), (95, "xz")];

const ENCRYPTED: u16 = 1;
const SIZES_BEHIND: u16 = 1 << 3;

/// `Zip` reads the entries of an archive as one stream.
pub(super) struct Zip<R> {
    from: R,
    at: Position,
    /// The decoder, which all entries use in turn.
    inflate: Decompress,
}

enum Position {
    /// The reader is before an entry, or before the records behind the last entry.
    Between,
    /// The reader is inside an entry.
    Inside(ZipEntry),
    /// The reader is behind an archive. Another archive may follow.
    Behind,
}

/// `ZipEntry` is an entry, and how far it has been read.
struct ZipEntry {
    deflated: bool,
    /// True if the bytes of the entry are skipped, because they are another system's notes about a file.
    ignored: bool,
    /// The checksum and the lengths that the header gives; `None` if a data descriptor gives them.
    promised: Option<(u32, u64, u64)>,
    /// True if the lengths in the data descriptor have 64 bits.
    large: bool,
    crc: Crc,
    packed: u64,
    length: u64,
    ended: bool,
}

impl<R: BufRead> Zip<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, at: Position::Between, inflate: Decompress::new(false) }
    }

    /// Reads the next header: of an entry, or of a record behind the last entry.
    fn next_entry(&mut self) -> io::Result<Position> {
        let signature = self.u32()?;
        if signature != ENTRY {
            return self.pass_over(signature);
        }
        let mut head = [0; 26];
        self.from.read_exact(&mut head)?;
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (flags, method) = (short(2), short(4));
        let mut name = vec![0; short(22).into()];
        self.from.read_exact(&mut name)?;
        let mut extra = vec![0; short(24).into()];
        self.from.read_exact(&mut extra)?;
        let (mut packed, mut length) = (u64::from(long(14)), u64::from(long(18)));
        let large = sizes_of_64_bits(&extra, &mut packed, &mut length);
        let shown = name.escape_ascii();
        if flags & ENCRYPTED != 0 {
            return Err(refused(format!("entry {shown} is encrypted")));
        }
        if method != 0 && method != 8 {
            let named =
                METHODS.iter().find(|(number, _)| *number == method).map_or("unknown", |found| found.1);
            return Err(refused(format!(
                "entry {shown} is packed by method {method} ({named}); only stored and deflated entries are read"
            )));
        }
        let behind = flags & SIZES_BEHIND != 0;
        if behind && method == 0 && packed == 0 && !name.ends_with(b"/") {
            return Err(refused(format!(
                "entry {shown} is stored, and its length stands only behind it, so its end cannot be found"
            )));
        }
        self.inflate.reset(false);
        Ok(Position::Inside(ZipEntry {
            deflated: method == 8,
            ignored: name.starts_with(b"__MACOSX/"),
            promised: (!behind || method == 0).then_some((long(10), packed, length)),
            large,
            crc: Crc::new(),
            packed: 0,
            length: 0,
            ended: false,
        }))
    }

    /// Skips a record that is no entry.
    fn pass_over(&mut self, signature: u32) -> io::Result<Position> {
        // The length of the fixed part, and the offsets in it of the lengths of the variable parts.
        let (fixed, lengths): (usize, &[usize]) = match signature {
            DIRECTORY => (42, &[24, 26, 28]),
            SIGNATURE => (2, &[0]),
            END_64 => (8, &[]),
            LOCATOR => (16, &[]),
            END => (18, &[16]),
            _ => return Err(damaged("an entry does not start where the one before it ends")),
        };
        let mut head = [0; 42];
        self.from.read_exact(&mut head[..fixed])?;
        let mut rest: u64 =
            lengths.iter().map(|&at| u64::from(u16::from_le_bytes([head[at], head[at + 1]]))).sum();
        if signature == END_64 {
            rest =
                u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
        }
        if io::copy(&mut self.from.by_ref().take(rest), &mut io::sink())? < rest {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(if signature == END { Position::Behind } else { Position::Between })
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.from.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Compares the checksum and the lengths of an entry with the values in the archive.
    fn check(&mut self, entry: &ZipEntry) -> io::Result<()> {
        let is = (entry.crc.sum(), entry.packed, entry.length);
        let agrees = match entry.promised {
            Some(promised) => promised == is,
            None => self.descriptor(entry, is)?,
        };
        if agrees {
            Ok(())
        } else {
            Err(damaged("an entry's checksum or length is not what the archive says"))
        }
    }

    /// Reads a data descriptor: an optional signature, the checksum, and two lengths of 32 or 64 bits.
    fn descriptor(&mut self, entry: &ZipEntry, (crc, packed, length): (u32, u64, u64)) -> io::Result<bool> {
        let mut said = self.u32()?;
        if said == DESCRIPTOR {
            said = self.u32()?;
        }
        let (low, next) = (self.u32()?, self.u32()?);
        let (high, wide) = ((packed >> 32) as u32, next != length as u32 || entry.large);
        let rest = if wide && next == high {
            u64::from(self.u32()?) | u64::from(self.u32()?) << 32
        } else {
            // Some writers use 32 bits whether the flag is set or not.
            length & !0xffff_ffff | u64::from(next)
        };
        Ok(said == crc && low == packed as u32 && rest == length)
    }
}

impl ZipEntry {
    /// Reads some bytes of the entry into `out`. Returns 0 once the entry has ended.
    fn read(
        &mut self,
        from: &mut impl BufRead,
        inflate: &mut Decompress,
        out: &mut [u8],
    ) -> io::Result<usize> {
        while !self.ended {
            if !self.deflated && self.promised.is_some_and(|(_, packed, _)| packed == self.packed) {
                self.ended = true;
                break;
            }
            let held = from.fill_buf()?;
            if held.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let (taken, given) = if self.deflated {
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(held, out, FlushDecompress::None)
                    .map_err(|_| damaged("deflated data is broken"))?;
                self.ended = status == Status::StreamEnd;
                ((inflate.total_in() - before.0) as usize, (inflate.total_out() - before.1) as usize)
            } else {
                let left = self.promised.map_or(0, |(_, packed, _)| packed - self.packed);
                let taken = (held.len().min(out.len()) as u64).min(left) as usize;
                out[..taken].copy_from_slice(&held[..taken]);
                (taken, taken)
            };
            from.consume(taken);
            self.packed += taken as u64;
            self.length += given as u64;
            self.crc.update(&out[..given]);
            if given > 0 {
                return Ok(given);
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Zip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.at {
                Position::Behind if self.from.fill_buf()?.is_empty() => return Ok(0),
                Position::Behind | Position::Between => self.at = self.next_entry()?,
                Position::Inside(entry) => {
                    let given = entry.read(&mut self.from, &mut self.inflate, out)?;
                    if given == 0 {
                        let Position::Inside(entry) = std::mem::replace(&mut self.at, Position::Between)
                        else {
                            unreachable!("the reader is inside an entry")
                        };
                        self.check(&entry)?;
                    } else if !entry.ignored {
                        return Ok(given);
                    }
                }
            }
        }
    }
}

/// Replaces lengths that do not fit into 32 bits by the lengths in the extra field. Returns whether the extra
/// field holds lengths.
fn sizes_of_64_bits(mut extra: &[u8], packed: &mut u64, length: &mut u64) -> bool {
    while let [id0, id1, size0, size1, rest @ ..] = extra {
        let (id, size) =
            (u16::from_le_bytes([*id0, *id1]), usize::from(u16::from_le_bytes([*size0, *size1])));
        let Some((field, behind)) = rest.split_at_checked(size) else { return false };
        if id == 1 {
            let mut values =
                field.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
            for size in [length, packed] {
                if *size == u64::from(u32::MAX) {
                    *size = values.next().unwrap_or(*size);
                }
            }
            return true;
        }
        extra = behind;
    }
    false
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn refused(what: String) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, what)
}
