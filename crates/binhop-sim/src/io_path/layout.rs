//! `KernelLayout` gives the kernel's memory addresses and segments.
//!
//! # Colors
//! Where pages have colors ([`MemoryRoom::colors`](binhop_os::io::MemoryRoom)), page n of a file, and page n of each
//! area, lies at a virtual page whose number is n mod colors. So a page that the kernel or a device touches first has
//! the color that the path knows. If the number of colors is a power of two up to 512, the addresses are the same as
//! without colors.

use std::collections::{BTreeMap, BTreeSet};

use binhop_os::io::{BufferPool, FileId, FilePage, IoConfig, Location, RingId};
use binhop_trace::Meta;
use binhop_trace::event::map_flags::{EXEC, READ, SHARED, WRITE};
use binhop_trace::source::SegmentMeta;

use super::HALF;
use super::file_numbers::FileNumbers;
use super::mappings::is_on_disk;

/// The bytes between two areas of the kernel, and the most bytes of an area.
const AREA: u64 = 1 << 36;
/// The first address of the page cache.
const PAGE_CACHE: u64 = HALF + (1 << 46);
/// The pages of a file that lie side by side in the page cache's addresses.
const CHUNK: u64 = 512;
/// The bytes of the kernel's text.
const TEXT: u64 = 64 << 10;

/// `KernelArea` is a part of the kernel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KernelArea {
    Text,
    Rings,
    Packets,
    Pipes,
}

impl KernelArea {
    const ALL: [Self; 4] = [Self::Text, Self::Rings, Self::Packets, Self::Pipes];

    const fn kind(self) -> &'static str {
        match self {
            Self::Text => "kernel text",
            Self::Rings => "descriptor rings",
            Self::Packets => "packet buffers",
            Self::Pipes => "pipe buffers",
        }
    }
}

/// `Period` is the number of bytes after which the colors of neighbouring pages repeat.
#[derive(Clone, Copy, Debug)]
struct Period(u64);

impl Period {
    /// Returns the first address of an area: a page of color 0.
    const fn area(self, area: KernelArea) -> u64 {
        HALF.next_multiple_of(self.0) + AREA.next_multiple_of(self.0) * area as u64
    }

    /// Returns the first address of a chunk of `bytes` bytes of the page cache, by its number among all chunks. Its
    /// first page has the color of byte `from` of its file.
    const fn chunk(self, number: u64, bytes: u64, from: u64) -> u64 {
        if bytes.is_multiple_of(self.0) {
            return PAGE_CACHE.next_multiple_of(self.0) + number * bytes;
        }
        PAGE_CACHE.next_multiple_of(self.0)
            + number * (bytes + self.0).next_multiple_of(self.0)
            + from % self.0
    }
}

/// `MapRow` holds the columns of a map row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapRow {
    pub(super) start: u64,
    pub(super) flags: u32,
    pub(super) pages: u32,
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// `Place` is a byte of the kernel's memory: its address, and its segment with the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) addr: u64,
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// `KernelLayout` records the addresses of the kernel's memory, and the parts that have been mapped.
#[derive(Debug)]
pub(super) struct KernelLayout {
    /// The bytes of a page of the path.
    page: u64,
    /// The bytes of a page of the trace, in which map rows count.
    trace_page: u64,
    buffer: u64,
    ring: u64,
    period: Period,
    /// The segment of the first area. The other areas follow.
    segments: u64,
    /// The segment of each file.
    files: BTreeMap<FileId, u64>,
    /// The first address of each chunk of a file.
    chunks: BTreeMap<(FileId, u64), u64>,
    /// The pages in chunks that have left the page cache since they were mapped.
    gone: BTreeSet<FilePage>,
    /// The areas that have been mapped up to an offset.
    mapped: BTreeMap<KernelArea, u64>,
}

impl KernelLayout {
    /// Makes the layout for a trace. Segments that the trace does not have are added to its metadata.
    pub(super) fn new(meta: &mut Meta, config: &IoConfig, trace_page: u64) -> Self {
        let by_path: BTreeMap<String, u64> = meta
            .segments
            .iter()
            .filter_map(|(&segment, known)| Some((known.file.clone()?, segment)))
            .collect();
        let segments = meta.segments.keys().last().map_or(0, |&last| last + 1);
        for (segment, area) in (segments..).zip(KernelArea::ALL) {
            meta.segments.insert(segment, SegmentMeta { file: None, kind: Some(area.kind().to_owned()) });
        }
        let mut next = segments + KernelArea::ALL.len() as u64;
        let mut files = BTreeMap::new();
        for (&id, path) in &meta.files {
            let segment = by_path.get(path).copied().unwrap_or_else(|| {
                let kind = Some("file".to_owned());
                meta.segments.insert(next, SegmentMeta { file: Some(path.clone()), kind });
                next += 1;
                next - 1
            });
            files.insert(FileId(id), segment);
        }
        Self {
            page: config.page,
            trace_page,
            buffer: config.buffer,
            ring: u64::from(config.ring),
            period: Period(config.page * config.memory.map_or(1, |room| room.colors.number)),
            segments,
            files,
            chunks: BTreeMap::new(),
            gone: BTreeSet::new(),
            mapped: BTreeMap::new(),
        }
    }

    /// Returns the file behind each segment that is a file on the disk. A file that no call names gets a number.
    pub(super) fn mapped_files(&mut self, meta: &Meta, numbers: &FileNumbers) -> BTreeMap<u64, FileId> {
        let named: BTreeMap<u64, FileId> =
            self.files.iter().map(|(&file, &segment)| (segment, numbers.file(file.0))).collect();
        let mut next = self.files.keys().last().map_or(0, |last| last.0 + 1);
        let mut files = BTreeMap::new();
        for (&segment, known) in &meta.segments {
            if known.file.as_deref().is_some_and(is_on_disk) {
                let file = named.get(&segment).copied().unwrap_or_else(|| {
                    next += 1;
                    FileId(next - 1)
                });
                self.files.insert(file, segment);
                files.insert(segment, file);
            }
        }
        files
    }

    /// Returns the place of a byte of the kernel's memory; `None` for the user's memory. Pages that were not mapped are
    /// mapped by the rows that `map` takes.
    ///
    /// # Panics
    /// The trace does not have the file.
    pub(super) fn place(&mut self, at: Location, map: &mut dyn FnMut(MapRow)) -> Option<Place> {
        let (area, offset) = match at {
            Location::User(_) => return None,
            Location::File(file, byte) => return Some(self.file_place(file, byte, map)),
            Location::Buffer(BufferPool::Packets, number, byte) => {
                (KernelArea::Packets, u64::from(number) * self.buffer + byte)
            }
            Location::Buffer(BufferPool::Pipes, number, byte) => {
                (KernelArea::Pipes, u64::from(number) * self.page + byte)
            }
            Location::Descriptor(ring, slot) => {
                let ring = match ring {
                    RingId::Disk => 0,
                    RingId::Receive => 1,
                    RingId::Send => 2,
                };
                let bytes = (self.ring * IoConfig::DESCRIPTOR).next_multiple_of(self.page);
                (KernelArea::Rings, ring * bytes + u64::from(slot) * IoConfig::DESCRIPTOR)
            }
        };
        Some(self.area_place(area, offset, map))
    }

    /// Returns the place of a byte of the kernel's text.
    pub(super) fn text(&mut self, offset: u64, map: &mut dyn FnMut(MapRow)) -> Place {
        debug_assert!(offset < TEXT, "the kernel's text has {TEXT} bytes");
        self.area_place(KernelArea::Text, offset, map)
    }

    fn area_place(&mut self, area: KernelArea, offset: u64, map: &mut dyn FnMut(MapRow)) -> Place {
        assert!(offset < AREA, "an area of the kernel holds {AREA} bytes");
        let segment = self.segments + area as u64;
        let mapped = self.mapped.entry(area).or_insert(0);
        if offset >= *mapped {
            // Areas grow by large steps, because after each map row preparation must look pages up again.
            let end = (offset + 1).next_power_of_two().max(TEXT).next_multiple_of(self.trace_page);
            map(MapRow {
                start: self.period.area(area) + *mapped,
                flags: READ | SHARED | if area == KernelArea::Text { EXEC } else { WRITE },
                pages: ((end - *mapped) / self.trace_page) as u32,
                segment,
                offset: *mapped,
            });
            *mapped = end;
        }
        Place { addr: self.period.area(area) + offset, segment, offset }
    }

    fn file_place(&mut self, file: FileId, byte: u64, map: &mut dyn FnMut(MapRow)) -> Place {
        let segment = self.files[&file];
        let page = FilePage { file, page: byte / self.page };
        let (chunk, number) = ((file, page.page / CHUNK), self.chunks.len() as u64);
        let bytes = (CHUNK * self.page).next_multiple_of(self.trace_page);
        let mut row = |start: u64, pages: u64, offset: u64| {
            let pages = (pages * self.page).div_ceil(self.trace_page) as u32;
            map(MapRow { start, flags: READ | WRITE | SHARED, pages, segment, offset });
        };
        let start = *self.chunks.entry(chunk).or_insert_with(|| {
            let from = chunk.1 * CHUNK * self.page;
            let start = self.period.chunk(number, bytes, from);
            row(start, CHUNK, from);
            start
        });
        let in_chunk = byte - chunk.1 * CHUNK * self.page;
        if self.gone.remove(&page) {
            row(start + in_chunk / self.page * self.page, 1, page.page * self.page);
        }
        Place { addr: start + in_chunk, segment, offset: byte }
    }

    /// Returns the address and the trace's pages of a page that leaves the page cache; `None` if it was never
    /// mapped.
    pub(super) fn drop_page(&mut self, page: FilePage) -> Option<(u64, u32)> {
        let start = *self.chunks.get(&(page.file, page.page / CHUNK))?;
        let addr = start + page.page % CHUNK * self.page;
        self.gone.insert(page).then(|| (addr, self.page.div_ceil(self.trace_page) as u32))
    }
}
