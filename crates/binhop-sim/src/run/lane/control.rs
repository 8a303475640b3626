//! This part of a lane carries out controls.

use binhop_base::Result;
use binhop_hw::{LaneBits, Request};

use super::Lane;
use crate::frame_map::{LaneTranslation, Tables};
use crate::occasion::Occasion;
use crate::prepare::{Control, Mark};
use crate::run::back_model::Common;
use crate::run::bundle_walks::BundleWalks;
use crate::run::recency::BlockRecency;
use crate::synonyms::WatchedAccess;

/// The cost of a control in one lane, in entries: most controls place a page, which takes up to a microsecond.
pub(crate) const CONTROL: usize = 256;

/// Returns whether a led lane carries out a control, too. It has no caches, so it needs to know of its pages and of
/// marks alone.
pub(super) fn concerns_led_lanes(control: &Control) -> bool {
    matches!(control, Control::Place { .. } | Control::Died(_) | Control::Footprint(..) | Control::Mark(..))
}

/// `Here` is the place of a control in its block, with the parts of the block that all lanes read alike.
pub(super) struct Here<'a> {
    /// All controls of the block.
    pub(super) controls: &'a [(u32, Control)],
    /// The number of the control among them.
    pub(super) number: usize,
    pub(super) tables: &'a Tables,
    pub(super) recency: &'a mut BlockRecency,
    /// The caches of all lanes of the bundle and the lane's number among them, if lanes are bits.
    pub(super) bits: Option<(&'a LaneBits, usize)>,
    /// The walks of the bundle with their counts, if addresses are translated.
    pub(super) walks: Option<&'a BundleWalks>,
    /// The lane whose caches stand for the caches of this lane, if the lane is led.
    pub(super) leader: Option<&'a Lane>,
}

impl Lane {
    /// Carries out a control. `passed` is room for the requests that a flush of level 1 lets through.
    pub(super) fn control(
        &mut self,
        control: &Control,
        here: Here<'_>,
        passed: &mut Vec<Request>,
    ) -> Result<()> {
        match control {
            Control::Recency(_) | Control::Evictions => {}
            Control::Piece { since, instructions } => {
                if let Some(private) = &mut self.private {
                    private.piece(*since, *instructions);
                }
            }
            Control::SameLife => self.private.iter_mut().for_each(|private| private.same_life()),
            Control::LifeEnded(asid, life) => {
                self.private.iter_mut().try_for_each(|private| private.life_ended(*asid, *life))?;
            }
            Control::Occasion { occasion, instructions, .. } => {
                self.clock.reach(*instructions);
                self.private.iter_mut().for_each(|private| private.reach(*instructions));
                let is_fault = match occasion {
                    Occasion::Return { .. } => self.placed,
                    Occasion::FirstTouch { .. } => !self.joined,
                    _ => true,
                };
                if is_fault {
                    self.act(occasion, here.tables)?;
                }
            }
            Control::Walk(walk) => {
                self.clock.reach(walk.instructions);
                self.translate(walk, here.tables)?;
            }
            Control::WalkPassed(cycles) => {
                if let Some(translator) = &mut self.translator {
                    translator.passed(*cycles);
                }
                self.note_before_access();
            }
            Control::AfterWalk(kind, missed) => self.after_walk(*kind, *missed),
            Control::Entries(mapping, entries) => {
                if let Some(handlers) = &mut self.miss_handlers {
                    handlers.told(*mapping, **entries);
                }
            }
            Control::Watch(access) => self.watch(access, here.tables),
            Control::Protect(changes) => self.protect(changes, here.tables),
            Control::Tlb(event) => {
                if let Some(translator) = &mut self.translator {
                    translator.event(event);
                }
            }
            Control::Place { request, fault } => {
                self.placed = self.frames.frame_of(request.page).is_none();
                self.joined = false;
                if self.placed {
                    self.place(request, here, passed)?;
                }
                if let (Some(cause), Some(translator), false) = (fault, &mut self.translator, self.joined) {
                    translator.faulted(*cause);
                }
            }
            Control::Died(page) => {
                if let Some(frame) = self.frames.release(*page) {
                    self.frame_map.died(*page, frame);
                    self.note_splits();
                }
            }
            Control::Footprint(asid, pages) => {
                let resident =
                    pages.iter().filter_map(|&(page, shared)| Some((self.frames.frame_of(page)?, shared)));
                let (frames, shared): (Vec<_>, Vec<bool>) = resident.unzip();
                let shared = shared.into_iter().filter(|&shared| shared).count() as u64;
                for back in &mut self.backs {
                    back.footprint(*asid, &frames, shared)?;
                }
            }
            Control::Unshare(ended) => {
                // If the lane is in a bundle, its level 1 continues there.
                if self.bits.is_none() {
                    self.front = Some(ended.front.clone());
                }
                self.waited += ended.waited;
                self.translator.iter_mut().for_each(|translator| translator.add(ended.translation));
                if let Some(direct_mapped) = &ended.direct_mapped {
                    self.backs.iter_mut().for_each(|back| back.continue_alone(direct_mapped));
                }
            }
            Control::Mark(mark, stream, shared) => {
                self.clock.reach(stream.instructions);
                let mut backs = std::mem::take(&mut self.backs);
                // The lane with the caches of this lane.
                let caches = here.leader.unwrap_or(self);
                let common = Common {
                    front: caches.front.as_ref(),
                    shared: shared.as_deref(),
                    leading: here.leader.map(|leader| &*leader.backs),
                    stacks: &caches.stacks,
                    bits: here.bits,
                    stream: **stream,
                    translation: caches.translator.as_ref().map(|translator| {
                        let of_front =
                            shared.as_ref().map_or_else(Default::default, |shared| shared.translation);
                        // Processes and intervals count no walks.
                        let is_read = matches!(mark, Mark::Measured | Mark::End);
                        let bundle = here.walks.zip(here.bits).filter(|_| is_read);
                        let of_bundle = bundle.map(|(walks, (bits, lane))| walks.counts(bits, lane));
                        translator.counts() + of_front + of_bundle.unwrap_or_default()
                    }),
                    at_misses: caches.miss_handlers.as_ref().map(|handlers| handlers.counts()),
                    sweeps: caches.line_protection().map(|protection| protection.counts),
                    faults: self.frames.faults(),
                    evictions: self.frames.evictions(),
                    runs: self.frames.run_counts(),
                    waited: caches.waited
                        + shared.as_ref().map_or(0, |shared| shared.waited)
                        + here.walks.map_or(0, BundleWalks::waited),
                };
                let marked = backs.iter_mut().try_for_each(|back| back.mark(*mark, &common));
                self.backs = backs;
                marked?;
                if let Some(private) = &mut self.private {
                    match mark {
                        Mark::Process(turn) => private.turn(turn, stream.instructions)?,
                        Mark::Measured => private.measure(stream.instructions),
                        Mark::End => private.end(stream)?,
                        Mark::Interval(_) => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks for two different copies before or after an access, in caches with virtual tags.
    fn watch(&mut self, access: &WatchedAccess, tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let own = self.front.as_ref().filter(|_| access.of_front.is_none());
        let own = own.map(|front| self.backs[0].copies_in_front(front, access, &translation));
        let of_front = access.of_front.as_deref().or(own.as_deref());
        let of_front =
            of_front.expect("a front is shared, or the lane's own, where caches have virtual tags");
        for back in &mut self.backs {
            back.watch(access, of_front, &translation);
        }
    }
}
