//! A zip archive as one stream: its entries, one behind another, in the order they lie in the file.
//!
//! Only the local headers are believed; the directory at the end is passed over: so an archive may come through a pipe.
//! Archives may follow each other. Entries are stored or deflated, with their sizes before or behind them (data
//! descriptors) and of 32 or 64 bits; each one's checksum and length are compared. A stored entry whose length is said
//! behind it has no end that could be seen, and is refused; so are encrypted entries and other methods, by name.
//! Memory does not depend on what a header claims. (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.9, 4.4, 4.5.3.)

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

/// What starts an archive that has an entry; one that has none starts with the end of its directory.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
pub(super) const EMPTY: &[u8] = b"PK\x05\x06";

const ENTRY: u32 = u32::from_le_bytes(*b"PK\x03\x04");
const DESCRIPTOR: u32 = u32::from_le_bytes(*b"PK\x07\x08");
/// What follows the last entry: its directory, a signature of it, the records that end it.
const DIRECTORY: u32 = u32::from_le_bytes(*b"PK\x01\x02");
const SIGNATURE: u32 = u32::from_le_bytes(*b"PK\x05\x05");
const END_64: u32 = u32::from_le_bytes(*b"PK\x06\x06");
const LOCATOR: u32 = u32::from_le_bytes(*b"PK\x06\x07");
const END: u32 = u32::from_le_bytes(*b"PK\x05\x06");

/// What another method is called (4.4.5).
const METHODS: &[(u16, &str)] =
    &[(1, "shrink"), (6, "implode"), (9, "deflate64"), (12, "bzip2"), (14, "LZMA"), (93, "zstd"), (95, "xz")];

const ENCRYPTED: u16 = 1;
const SIZES_BEHIND: u16 = 1 << 3;

/// Reads the entries of an archive as one stream.
pub(super) struct Zip<R> {
    from: R,
    at: Position,
    /// The method's state, used again for each entry.
    inflate: Decompress,
}

enum Position {
    /// In front of an entry, or of what follows the last.
    Between,
    /// Inside one.
    Inside(ZipEntry),
    /// Behind an archive, perhaps in front of another.
    Behind,
}

/// An entry, and how far it was read.
struct ZipEntry {
    deflated: bool,
    /// Its bytes are passed over: they are another system's notes about a file.
    ignored: bool,
    /// Checksum and lengths that its header gives; none if they are behind it.
    promised: Option<(u32, u64, u64)>,
    /// Whether lengths behind it have 64 bits.
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

    /// Reads the header in front, if there is one more entry.
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
                "entry {shown} is packed by method {method} ({named}), and stored and deflated ones are read"
            )));
        }
        let behind = flags & SIZES_BEHIND != 0;
        if behind && method == 0 && packed == 0 && !name.ends_with(b"/") {
            return Err(refused(format!(
                "entry {shown} is stored and its length only said behind it, so that its end cannot be seen"
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

    /// Reads past a record that is no entry.
    fn pass_over(&mut self, signature: u32) -> io::Result<Position> {
        // How long the fixed part is, and where in it stand the lengths of the others.
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

    /// Compares what was read of an entry with what is said of it.
    fn check(&mut self, entry: &ZipEntry) -> io::Result<()> {
        let is = (entry.crc.sum(), entry.packed, entry.length);
        let agrees = match entry.promised {
            // With the lengths before a stored entry, its checksum may still be behind it.
            Some(promised) => promised == is,
            None => self.descriptor(entry, is)?,
        };
        if agrees {
            Ok(())
        } else {
            Err(damaged("an entry's checksum or length is not what the archive says"))
        }
    }

    /// Reads what is said behind an entry: signature (or not), checksum, two lengths of 32 or 64 bits.
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
            // Without the flag some writers take 32 bits, and with it, too.
            length & !0xffff_ffff | u64::from(next)
        };
        Ok(said == crc && low == packed as u32 && rest == length)
    }
}

impl ZipEntry {
    /// Reads some of it into `out`; 0 once it has ended.
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
                            unreachable!("it is inside one")
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

/// Replaces lengths that do not fit 32 bits by those of the extra field; whether there is such a field.
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
