//! A raw pagemap is the content of `/proc/PID/pagemap` of the Linux kernel, saved in a file.
//!
//! An entry has 8 bytes, little-endian. Bit 63 says that the page is in memory, bit 62 that it is swapped
//! out, and bits 0 to 54 are its frame. A second file, whose name has `.maps` appended, names the pages of
//! the entries. Its lines begin with `START-END` (hexadecimal), as in `/proc/PID/maps`. Blank lines and `#`
//! comments are skipped. A line `page_size N` before the first range gives a page size other than 4096 bytes.
//! The text behind a range is not read, because names of files need not be UTF-8. The length of a raw file
//! tells which of two forms it has:
//!
//! - the entries of each range, in the order of the maps, one range behind the other (this form may be packed);
//! - every entry at its position in the kernel's file, 8 × the page's number: a sparse file, as `dd skip=N seek=N`
//!   makes.
//!
//! Ranges of the kernel's half of the addresses (`[vsyscall]`) have no entry in the kernel's file, and need
//! none here. All pages belong to address space 0. A page that is not in memory is not in the map.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use binhop_base::{Problem, Result, counted};

use super::lines::{LONG_RULE, PAGE_RULE, USUAL_PAGE, hexadecimal, is_too_long, next_line};
use super::{Placements, Span};
use crate::disk::Steady;
use crate::input::Input;

/// The bytes of an entry.
const ENTRY: u64 = 8;

/// The bytes of entries that are read at once.
const BLOCK: usize = 8 << 10;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FRAME: u64 = (1 << 55) - 1;

/// The first address of the kernel's half.
const KERNEL: u64 = 1 << 63;

const REMEDY: &str =
    "save it again: examples/placement/pagemap.py PID FILE writes both files (docs/placement.md)";

/// `PageRange` is a range of consecutive pages.
#[derive(Clone, Copy, Debug)]
struct PageRange {
    /// The number of the first page.
    first: u64,
    pages: u64,
}

/// `MapsFile` is the content of a file of maps.
struct MapsFile {
    path: String,
    /// The bytes of a page, which are the same for all ranges. Ranges are kept as numbers of pages.
    page: u64,
    ranges: Vec<PageRange>,
    /// The number of pages in the kernel's half.
    kernels: u64,
}

/// Returns the path of the file of maps beside a raw pagemap, if that file exists.
pub(crate) fn maps_beside(path: &str) -> Option<String> {
    let maps = format!("{path}.maps");
    Path::new(&maps).exists().then_some(maps)
}

/// Reads a raw pagemap and the maps beside it.
///
/// # Errors
/// A file cannot be read, a line of the maps is no range, the length fits neither form, no page is in memory,
/// or the kernel hid all frames.
pub(crate) fn read(path: &str, maps: &str) -> Result<Placements> {
    let maps = MapsFile::read(maps)?;
    let mut pages = PagemapEntries { path: path.to_owned(), page: maps.page, ..PagemapEntries::default() };
    let bytes = std::fs::metadata(path).map(|file| file.len()).unwrap_or(0);
    if bytes > maps.with_the_kernels() && bytes >= maps.in_place() {
        pages.take_in_place(&maps)?;
    } else {
        pages.take_together(&maps)?;
    }
    pages.finish()
}

impl MapsFile {
    fn read(path: &str) -> Result<Self> {
        let mut maps = Self { path: path.to_owned(), page: USUAL_PAGE, ranges: Vec::new(), kernels: 0 };
        let mut text = BufReader::new(Input::open(path)?);
        let mut line = Vec::new();
        for number in 1_u64.. {
            next_line(&mut text, &mut line)?;
            if line.is_empty() {
                break;
            }
            maps.line(&line).map_err(|rule| {
                let shown: String = String::from_utf8_lossy(&line).trim().chars().take(60).collect();
                Problem::request(&format!("{shown:?}"), &format!("{path}: line {number}"), &rule, REMEDY)
            })?;
        }
        Ok(maps)
    }

    fn line(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        if is_too_long(line) {
            return Err(LONG_RULE.into());
        }
        let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let mut fields = text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let Some(range) = fields.next() else { return Ok(()) };
        // A field that is not UTF-8 is neither a range nor a size.
        let utf8 = |field| std::str::from_utf8(field).unwrap_or_default();
        let range = utf8(range);
        if range == "page_size" {
            if !self.ranges.is_empty() || self.kernels > 0 {
                return Err("page_size stands before the first range, and holds for all of them".into());
            }
            let size = fields.next().and_then(|size| utf8(size).parse().ok());
            self.page = size.filter(|size: &u64| size.is_power_of_two()).ok_or(PAGE_RULE)?;
            return Ok(());
        }
        let ends =
            range.split_once('-').and_then(|(start, end)| Some((hexadecimal(start)?, hexadecimal(end)?)));
        let (start, end) =
            ends.ok_or("a line of the maps begins with START-END, two hexadecimal addresses")?;
        if start >= end || !start.is_multiple_of(self.page) || !end.is_multiple_of(self.page) {
            return Err(format!("a range is of one or more whole pages, here of {} bytes", self.page));
        }
        let pages = (end - start) / self.page;
        if start < KERNEL {
            self.ranges.push(PageRange { first: start / self.page, pages });
        } else {
            self.kernels = self.kernels.saturating_add(pages);
        }
        Ok(())
    }

    /// Returns the length of a file with the ranges one behind the other.
    fn together(&self) -> u64 {
        let pages = self.ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.pages));
        pages.saturating_mul(ENTRY)
    }

    /// Returns the length of a file with the ranges one behind the other, if the kernel's half has entries,
    /// too.
    fn with_the_kernels(&self) -> u64 {
        self.together().saturating_add(self.kernels.saturating_mul(ENTRY))
    }

    /// Returns the least length of a file with every entry at its position in the kernel's file.
    fn in_place(&self) -> u64 {
        self.ranges.iter().map(|range| (range.first + range.pages).saturating_mul(ENTRY)).max().unwrap_or(0)
    }
}

/// `PagemapEntries` holds the pages whose entries were read.
#[derive(Default)]
struct PagemapEntries {
    path: String,
    page: u64,
    spans: Vec<Span>,
    /// The number of pages in memory whose frame is 0.
    in_frame_0: u64,
}

impl PagemapEntries {
    fn take_together(&mut self, maps: &MapsFile) -> Result<()> {
        let mut input = Input::open(&self.path)?;
        let mut bytes = 0;
        for range in &maps.ranges {
            bytes += self.take(range, &mut |block| input.fill(block))?;
        }
        let mut rest = vec![0; BLOCK];
        loop {
            match input.fill(&mut rest)? {
                0 => break,
                more => bytes += more as u64,
            }
        }
        if bytes == maps.together() || bytes == maps.with_the_kernels() {
            return Ok(());
        }
        let (entries, first, last) = (maps.together() / ENTRY, maps.together(), maps.in_place());
        Err(Problem::request(
            &format!("{bytes} bytes"),
            &self.path,
            &format!(
                "{} names {} of {} bytes: a raw pagemap has {first} bytes for that, or, with every entry in its \
                 place, {last} and more",
                maps.path,
                counted(entries, ["page", "pages"]),
                maps.page
            ),
            REMEDY,
        ))
    }

    fn take_in_place(&mut self, maps: &MapsFile) -> Result<()> {
        let unreadable = |path: &str, error: &std::io::Error| {
            let rule = format!("cannot be read ({error})");
            Problem::request(path, "", &rule, "check the path and the disk")
        };
        let path = self.path.clone();
        let file = File::open(&path).and_then(Steady::new).map_err(|error| unreadable(&path, &error))?;
        for range in &maps.ranges {
            let mut at = range.first * ENTRY;
            let mut fill = |block: &mut [u8]| {
                file.read_exact_at(block, at).map_err(|error| unreadable(&path, &error))?;
                at += block.len() as u64;
                Ok(block.len())
            };
            self.take(range, &mut fill)?;
        }
        file.check(&path)
    }

    /// Reads the entries of a range, as far as the file goes. Returns how many bytes were read.
    fn take(&mut self, range: &PageRange, fill: &mut dyn FnMut(&mut [u8]) -> Result<usize>) -> Result<u64> {
        let mut block = [0; BLOCK];
        let (mut page, mut left, mut bytes) = (range.first, range.pages, 0);
        while left > 0 {
            let wanted = left.min(BLOCK as u64 / ENTRY);
            let filled = fill(&mut block[..(wanted * ENTRY) as usize])?;
            for entry in block[..filled].chunks_exact(ENTRY as usize) {
                let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
                self.entry(page, entry)?;
                page += 1;
            }
            bytes += filled as u64;
            left -= wanted;
            if (filled as u64) < wanted * ENTRY {
                break;
            }
        }
        Ok(bytes)
    }

    fn entry(&mut self, page: u64, entry: u64) -> Result<()> {
        if entry & (PRESENT | SWAPPED) != PRESENT {
            return Ok(());
        }
        let (frame, bytes) = (entry & FRAME, self.page);
        self.in_frame_0 += u64::from(frame == 0);
        // The product is below the end of the range, which is a multiple of the page size.
        let virtual_address = page * bytes;
        let physical_address =
            frame.checked_mul(bytes).filter(|start| start.checked_add(bytes - 1).is_some());
        let Some(physical_address) = physical_address else {
            return Err(Problem::request(
                &format!("{entry:#018x}"),
                &format!("{}: the entry of {virtual_address:#x}", self.path),
                "a frame ends within 64 bits",
                REMEDY,
            ));
        };
        match self.spans.last_mut() {
            Some(last)
                if last.virtual_address + last.bytes == virtual_address
                    && last.physical_address.checked_add(last.bytes) == Some(physical_address) =>
            {
                last.bytes += bytes;
            }
            _ => self.spans.push(Span { asid: 0, virtual_address, physical_address, bytes }),
        }
        Ok(())
    }

    fn finish(self) -> Result<Placements> {
        if self.spans.is_empty() {
            return Err(Problem::request(
                "no page in memory",
                &self.path,
                "a map names at least one page",
                "save it while the program runs, and with the maps of the same moment",
            ));
        }
        if self.spans.iter().all(|span| span.physical_address == 0) {
            return Err(Problem::request(
                &counted(self.in_frame_0, ["page, which lies in frame 0", "pages, which all lie in frame 0"]),
                &self.path,
                "the kernel shows frames to processes with CAP_SYS_ADMIN only, and frame 0 to all others",
                "save the pagemap as root",
            ));
        }
        Ok(Placements::of_map(self.spans))
    }
}
