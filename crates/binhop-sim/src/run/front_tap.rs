//! `FrontTap` notes what passes below the caches of a lane, line by line. A scheme for device data takes these events.

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, PowerOfTwo, Translation};
use binhop_hw::TapEvent;
use binhop_hw::{Back, Front, Next, Request, Tree, WritePolicy};

use crate::frame_map::LaneTranslation;
use crate::front_event::{DeviceRequest, FrontEvent};
use crate::io_path::NON_TEMPORAL;
use crate::occasion::Occasion;
use crate::unit::{LeftLine, LeftLines};

/// `FrontTap` holds the events of a lane that were not taken yet. The lines of events are as long as the longest line
/// of the whole machine. A cache with shorter lines holds parts of a line ([`TapEvent`]).
#[derive(Debug)]
pub(crate) struct FrontTap {
    tree: Tree,
    line_log2: u32,
    /// True if a line that is read for a store becomes dirty as a whole: no part of it, and in a cache that writes
    /// back.
    stores_lines: bool,
    /// True if pages are flushed before devices read or write them.
    flushes_pages: bool,
    /// The lines that left in the access or the occasion that is under way.
    pub(crate) left: LeftLines,
    requests: Vec<Request>,
    /// The lines that have left in the access that is under way.
    told: Vec<u64>,
    /// The first byte and the logarithm of the length of each piece that was passed down at the occasion.
    passed: Vec<(u64, u32)>,
    events: Vec<FrontEvent>,
}

impl FrontTap {
    pub(crate) fn new(tree: &Tree, line: PowerOfTwo) -> Self {
        let config = tree.config();
        let behind = |&cache: &usize| match config.caches[cache].next {
            Next::Cache(next) => Some(next),
            Next::Memory => None,
        };
        let mut way = std::iter::successors(Some(config.data), behind);
        // The data cache takes the store with the line. A cache behind takes the store later: the lines that stream
        // buffers read meanwhile may push the line out, and the rest of a line that a device wrote would be lost.
        let reads_ahead = way.clone().any(|cache| config.caches[cache].streams.is_some());
        let writes_back = |cache: usize| config.caches[cache].write == WritePolicy::Back;
        let is_kept = writes_back(config.data) || (!reads_ahead && way.any(writes_back));
        Self {
            tree: tree.clone(),
            line_log2: line.log2(),
            stores_lines: config.caches[config.data].line == line && is_kept,
            flushes_pages: config.has_virtual_tags(),
            left: LeftLines::default(),
            requests: Vec::new(),
            told: Vec::new(),
            passed: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&mut self, out: &mut Vec<FrontEvent>) {
        out.append(&mut self.events);
    }

    /// Notes the events of an access.
    pub(crate) fn note(&mut self, front: &Front, back: &mut Back, translation: &LaneTranslation<'_>) {
        self.requests.extend(back.tapped().map(|(request, _)| request));
        if self.requests.is_empty() && self.left.0.is_empty() {
            return;
        }
        self.told.clear();
        for request in std::mem::take(&mut self.requests) {
            let page = PageId(request.at.id);
            let unit = u32::from(request.origin.unit());
            let in_page = u64::from(request.at.line) << unit >> self.line_log2;
            let line = self.physical(page, in_page, translation);
            // A cache that does not allocate passes on what it gets, which may be shorter than its own lines.
            let is_part = u32::from(request.data) < self.line_log2;
            self.events.push(FrontEvent::Line(match request.kind {
                Kind::Fetch | Kind::Load | Kind::Fill => TapEvent::Read { line, store: false },
                Kind::Store => TapEvent::Read { line, store: self.stores_lines },
                Kind::Write => TapEvent::PartialStore { line },
                Kind::Writeback if is_part => TapEvent::PartialStore { line },
                Kind::Writeback if self.holds(page, in_page, front, back, translation) => {
                    TapEvent::Cleaned { line }
                }
                Kind::System => unreachable!("an access of the processor writes nothing for the system"),
                Kind::Writeback => {
                    self.told.push(line);
                    TapEvent::WriteBack { line }
                }
            }));
        }
        for left in std::mem::take(&mut self.left.0) {
            self.note_left(left, front, back, translation);
        }
    }

    /// Notes that the frame of a page changes hands. The lines of the page have left every cache of the front. Caches
    /// behind the front may still hold lines that left the front long ago, so all lines of the page are reported.
    pub(crate) fn note_flush(&mut self, page: PageId, back: &mut Back, translation: &LaneTranslation<'_>) {
        self.left.0.clear();
        let lines = 1_u64 << (self.tree.config().page.log2() - self.line_log2);
        let first = self.physical(page, 0, translation);
        let flushed = (first..first + lines).map(|line| FrontEvent::Line(TapEvent::Flushed { line }));
        self.events.extend(flushed);
        for (request, _) in back.tapped() {
            debug_assert_eq!(request.kind, Kind::System);
            let in_page = u64::from(request.at.line) << request.origin.unit() >> self.line_log2;
            self.events.push(FrontEvent::Line(TapEvent::SystemWrite { line: first + in_page }));
        }
    }

    /// Notes that a line has left a cache or a stream buffer, if it has left the front.
    fn note_left(&mut self, left: LeftLine, front: &Front, back: &Back, translation: &LaneTranslation<'_>) {
        let cache = &self.tree.config().caches[left.cache];
        let id = left.at.id;
        let page = if cache.keyed_by_mapping() { translation.page(MappingId(id)) } else { PageId(id) };
        // A stream buffer discards its lines, so nothing can return from there.
        let whole = cache.line.log2() == self.line_log2 && !left.was_buffered;
        let in_page = u64::from(left.at.line) << cache.line.log2() >> self.line_log2;
        let line = self.physical(page, in_page, translation);
        // The dirty data of a whole line have been noted before, and the dirty data of a part leave the line where it
        // is.
        if (!left.dirty || !whole)
            && !self.told.contains(&line)
            && !self.holds(page, in_page, front, back, translation)
        {
            self.told.push(line);
            self.events.push(FrontEvent::Line(TapEvent::CleanEviction { line, whole }));
        }
    }

    /// Notes what devices did at an occasion. A store of the processor that bypasses the caches is a write of the
    /// processor.
    pub(crate) fn note_device(
        &mut self,
        occasion: &Occasion,
        front: &Front,
        back: &mut Back,
        translation: &LaneTranslation<'_>,
    ) {
        let Occasion::Device { device, writes, request: number, mapping, offset, bytes, total } = *occasion
        else {
            unreachable!("only devices act in a run that taps the front")
        };
        let request = number as u32;
        let by_processor = device == NON_TEMPORAL;
        if let Some(bytes) = total.filter(|_| !by_processor) {
            self.events.push(FrontEvent::Request(DeviceRequest { number, device, writes, bytes }));
        }
        self.passed.clear();
        self.told.clear();
        let page = translation.frame(translation.page(mapping)).0 << self.tree.config().page.log2();
        self.requests.extend(back.tapped().map(|(request, _)| request));
        // Two caches may hold different ages of the same bytes, which are passed down once: with the longest line.
        let piece = |asked: &Request| {
            let unit = u32::from(asked.origin.unit());
            (page + (u64::from(asked.at.line) << unit), unit)
        };
        let passes = |asked: &&Request| !matches!(asked.kind, Kind::Load | Kind::Write);
        self.passed.extend(self.requests.iter().filter(passes).map(piece));
        self.passed.sort_unstable_by_key(|&(start, unit)| (std::cmp::Reverse(unit), start));
        self.passed.dedup();
        let mut covered = Vec::new();
        self.passed.retain(|&(start, unit)| {
            let is_covered =
                covered.iter().any(|&(first, log2)| first <= start && start < first + (1_u64 << log2));
            covered.extend((!is_covered).then_some((start, unit)));
            !is_covered
        });
        for asked in self.requests.drain(..) {
            debug_assert_eq!(asked.origin.agent(), Agent::Device);
            let (start, unit) = piece(&asked);
            let line = start >> self.line_log2;
            let event = match asked.kind {
                Kind::Load => TapEvent::DeviceRead { line, request },
                Kind::Write => {
                    let first = (line << self.line_log2) - page;
                    let whole = offset <= first && first + (1 << self.line_log2) <= offset + bytes;
                    match (by_processor, whole) {
                        (false, _) => TapEvent::DeviceWrite { line, whole, request },
                        (true, true) => TapEvent::WriteBack { line },
                        (true, false) => TapEvent::PartialStore { line },
                    }
                }
                _ => {
                    let Some(place) = self.passed.iter().position(|&of| of == (start, unit)) else {
                        continue;
                    };
                    self.passed.swap_remove(place);
                    if unit < self.line_log2 {
                        TapEvent::PartialStore { line }
                    } else if writes || self.flushes_pages {
                        TapEvent::WriteBack { line }
                    } else {
                        TapEvent::Cleaned { line }
                    }
                }
            };
            self.events.push(FrontEvent::Line(event));
            if matches!((asked.kind, event), (Kind::Write, TapEvent::PartialStore { .. })) {
                // All copies of the line have left before the store.
                self.events.push(FrontEvent::Line(TapEvent::CleanEviction { line, whole: false }));
            }
        }
        // Stream buffers have lost the whole page, and not only the lines of the transfer.
        let buffered = std::mem::take(&mut self.left.0).into_iter().filter(|left| left.was_buffered);
        if self.flushes_pages && !by_processor {
            return;
        }
        self.told.extend((page + offset) >> self.line_log2..=(page + offset + bytes - 1) >> self.line_log2);
        for left in buffered {
            self.note_left(left, front, back, translation);
        }
    }

    /// Returns the physical number of a line of a page.
    fn physical(&self, page: PageId, line: u64, translation: &LaneTranslation<'_>) -> u64 {
        let in_page = self.tree.config().page.log2() - self.line_log2;
        (translation.frame(page).0 << in_page) + line
    }

    /// Returns whether a cache or a stream buffer still holds a part of a line of a page.
    fn holds(
        &self,
        page: PageId,
        line: u64,
        front: &Front,
        back: &Back,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        self.tree.config().caches.iter().enumerate().any(|(number, cache)| {
            let shorter = self.line_log2 - cache.line.log2();
            let parts = (line << shorter) as u32..((line + 1) << shorter) as u32;
            let holds = |id| {
                parts.clone().any(|line| {
                    let at = LineAddr { id, line };
                    if self.tree.in_front(number) {
                        front.holds_line(number, at, translation) || front.buffers_line(number, at)
                    } else {
                        back.holds_line(number, at, translation) || back.buffers_line(number, at)
                    }
                })
            };
            if cache.keyed_by_mapping() {
                translation.tables.mappings_of(page).any(|mapping| holds(mapping.0))
            } else {
                holds(page.0)
            }
        })
    }
}
