//! `FrontTap` notes what passes below the caches of a lane, line by line: the events that a scheme for device data
//! stands behind.

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Translation};
use binhop_hw::TapEvent;
use binhop_hw::{Back, Front, RemovedLine, Request, TagBy, Tree};

use crate::frame_map::LaneTranslation;
use crate::front_event::{DeviceRequest, FrontEvent};
use crate::io_path::NON_TEMPORAL;
use crate::occasion::Occasion;

/// `FrontTap` holds the events of a lane that were not taken yet. All caches of the lane have lines of one size.
#[derive(Debug)]
pub(crate) struct FrontTap {
    tree: Tree,
    line_log2: u32,
    /// True if pages are flushed before devices read or write them.
    flushes_pages: bool,
    /// The lines that left caches in the access or the occasion that is under way.
    pub(crate) removed: Vec<RemovedLine>,
    requests: Vec<Request>,
    /// The lines that have left in the access that is under way, or that have been cleaned at the occasion.
    told: Vec<u64>,
    events: Vec<FrontEvent>,
}

impl FrontTap {
    pub(crate) fn new(tree: &Tree) -> Self {
        Self {
            tree: tree.clone(),
            line_log2: tree.config().caches[0].line.log2(),
            flushes_pages: tree.config().has_virtual_tags(),
            removed: Vec::new(),
            requests: Vec::new(),
            told: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&mut self, out: &mut Vec<FrontEvent>) {
        out.append(&mut self.events);
    }

    /// Notes the events of an access, or of the departure of a page.
    pub(crate) fn note(&mut self, front: &Front, back: &mut Back, translation: &LaneTranslation<'_>) {
        self.requests.extend(back.tapped().map(|(request, _)| request));
        if self.requests.is_empty() && self.removed.is_empty() {
            return;
        }
        self.told.clear();
        for request in std::mem::take(&mut self.requests) {
            let page = PageId(request.at.id);
            let line = line(&self.tree, self.line_log2, request, translation);
            self.events.push(FrontEvent::Line(match request.kind {
                Kind::Fetch | Kind::Load | Kind::Fill => TapEvent::Read { line, store: false },
                Kind::Store => TapEvent::Read { line, store: true },
                Kind::Write => TapEvent::PartialStore { line },
                Kind::Writeback | Kind::System
                    if self.holds(page, request.at.line, front, back, translation) =>
                {
                    TapEvent::Cleaned { line }
                }
                Kind::Writeback | Kind::System => {
                    self.told.push(line);
                    TapEvent::WriteBack { line }
                }
            }));
        }
        for removed in std::mem::take(&mut self.removed) {
            let by_mapping = self.tree.config().caches[removed.cache].tag == TagBy::Asid;
            let id = removed.at.id;
            let page = if by_mapping { translation.page(MappingId(id)) } else { PageId(id) };
            let line = self.physical(page, removed.at.line, translation);
            if !removed.dirty
                && !self.told.contains(&line)
                && !self.holds(page, removed.at.line, front, back, translation)
            {
                self.told.push(line);
                self.events.push(FrontEvent::Line(TapEvent::CleanEviction { line }));
            }
        }
    }

    /// Notes what devices did at an occasion. A store of the processor past the caches is a write of the processor.
    pub(crate) fn note_device(
        &mut self,
        occasion: &Occasion,
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
        self.removed.clear();
        self.told.clear();
        let page = translation.frame(translation.page(mapping)).0 << self.tree.config().page.log2();
        self.requests.extend(back.tapped().map(|(request, _)| request));
        for asked in self.requests.drain(..) {
            debug_assert_eq!(asked.origin.agent(), Agent::Device);
            let line = line(&self.tree, self.line_log2, asked, translation);
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
                // Two caches may hold different ages of the line. The line is passed down once.
                _ if self.told.contains(&line) => continue,
                _ => {
                    self.told.push(line);
                    if writes || self.flushes_pages {
                        TapEvent::WriteBack { line }
                    } else {
                        TapEvent::Cleaned { line }
                    }
                }
            };
            self.events.push(FrontEvent::Line(event));
        }
    }

    /// Returns the physical number of a line of a page.
    fn physical(&self, page: PageId, line: u32, translation: &LaneTranslation<'_>) -> u64 {
        let in_page = self.tree.config().page.log2() - self.line_log2;
        (translation.frame(page).0 << in_page) + u64::from(line)
    }

    /// Returns whether a cache still holds a line of a page.
    fn holds(
        &self,
        page: PageId,
        line: u32,
        front: &Front,
        back: &Back,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        self.tree.config().caches.iter().enumerate().any(|(number, cache)| {
            let holds = |id| {
                let at = LineAddr { id, line };
                if self.tree.in_front(number) {
                    front.holds_line(number, at, translation)
                } else {
                    back.holds_line(number, at, translation)
                }
            };
            match cache.tag {
                TagBy::Asid => translation.tables.mappings_of(page).any(|mapping| holds(mapping.0)),
                _ => holds(page.0),
            }
        })
    }
}

/// Returns the physical number of the line that a request names.
fn line(tree: &Tree, line_log2: u32, request: Request, translation: &LaneTranslation<'_>) -> u64 {
    debug_assert_eq!(u32::from(request.origin.unit()), line_log2, "all caches have lines of one size");
    let in_page = tree.config().page.log2() - line_log2;
    (translation.frame(PageId(request.at.id)).0 << in_page) + u64::from(request.at.line)
}
