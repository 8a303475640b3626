//! `Needs` is what preparation must know of a machine.

use std::sync::Arc;

use binhop_base::PowerOfTwo;
use binhop_hw::{Next, Rules, TagBy};

use super::filter::Shape;
use super::residency::is_tight;
use crate::machine::{Machine, ProtectionConfig, Sharing, SoftvmConfig, StatedSegments, TranslationConfig};

/// `Needs` is what preparation must know of a machine. Machines of equal needs share one preparation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(super) page: PowerOfTwo,
    /// True if physical = virtual.
    identity: bool,
    /// The shapes of the caches that serve instructions and data; twice the same shape, where one cache
    /// serves both.
    pub(super) shapes: [Shape; 2],
    pub(super) split: bool,
    /// True if the instructions between rows matter.
    pub(super) timed: bool,
    /// For each filter, true if what the filter knows holds for its cache.
    pub(super) trusted: [bool; 2],
    /// True if a dead page's frame goes to the next page. Then lanes differ in what their caches lose from
    /// the first death on.
    pub(super) reuses: bool,
    /// True if so few frames lie outside the pool that no page is surely resident. Then no filter is
    /// trusted.
    pub(super) tight: bool,
    /// True if a placement may ask when pages were referenced last.
    pub(super) follows: bool,
    /// Under cachegrind's rules, the bytes of the longest reference: the size of the smallest line.
    pub(super) longest_reference: Option<u64>,
    /// The way in which TLBs translate addresses, if a run simulates TLBs.
    pub(super) translation: Option<Arc<TranslationConfig>>,
    /// How software translates when the last level misses, if a run simulates translation by software.
    pub(super) softvm: Option<Arc<SoftvmConfig>>,
    /// The way in which lines keep the protection of their pages, if they keep it.
    pub(super) protection: Option<Arc<ProtectionConfig>>,
    /// The part of the machine that needs the segments that address spaces share, if any part needs them.
    pub(super) segments: Option<SegmentNeeds>,
}

/// `SegmentNeeds` says what needs the segments that address spaces share: caches with global tags, or a page table
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentNeeds {
    /// True if caches have global tags.
    pub(super) of_tags: bool,
    /// True if regions that address spaces share as a whole have one segment.
    pub(super) of_whole_regions: bool,
    /// The segment ids that the user gives to regions.
    pub(super) stated: Arc<StatedSegments>,
}

impl SegmentNeeds {
    pub(crate) fn of(machine: &Machine) -> Option<Self> {
        let of_tags = machine.tree().config().caches.iter().any(|cache| cache.tag == TagBy::Global);
        let needed = of_tags || machine.softvm().is_some();
        let of_whole_regions = machine.sharing() == Sharing::Segments;
        let stated = Arc::clone(machine.segments());
        (needed && (of_whole_regions || !stated.is_empty())).then_some(Self {
            of_tags,
            of_whole_regions,
            stated,
        })
    }
}

impl Needs {
    pub(crate) fn of(machine: &Machine) -> Self {
        let (tree, placement) = (machine.tree(), machine.placement().policy());
        let config = tree.config();
        let caches = [config.fetch, config.data];
        // An inclusive cache may invalidate lines above it, so filters in front of it are off. The same holds
        // for a cache that both the processor and another cache access.
        let inclusive = config.caches.iter().any(|cache| cache.inclusive);
        let asked = |front: usize| config.caches.iter().any(|cache| cache.next == Next::Cache(front));
        let identity = machine.memory().frames.is_none();
        Self {
            page: config.page,
            identity,
            shapes: caches.map(|cache| Shape::of(&config.caches[cache], config.page, identity)),
            split: config.fetch != config.data,
            timed: tree.has_write_buffer(),
            trusted: caches.map(|front| !inclusive && !asked(front)),
            reuses: placement.reuses_frames(),
            tight: machine.safe_frames().is_some_and(is_tight),
            follows: placement.reads_recency(),
            longest_reference: (config.rules == Rules::Cachegrind)
                .then(|| config.caches.iter().map(|cache| cache.line.bytes()).min().unwrap_or(1)),
            translation: machine.translation().cloned(),
            softvm: machine.softvm().cloned(),
            protection: machine.protection().cloned(),
            segments: SegmentNeeds::of(machine),
        }
    }

    /// Keeps the instructions between rows although no write buffer needs them, because the caller needs
    /// times.
    pub(crate) fn keep_time(&mut self) {
        self.timed = true;
    }

    /// Returns the settings that force two machines to be prepared separately; empty if they can share a
    /// preparation.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let level1 = (self.shapes, self.split) != (other.shapes, other.split);
        [
            (self.page != other.page, "the size of pages"),
            (self.identity != other.identity, "whether physical = virtual"),
            (level1, "the lines, sets or write policy of the caches that the processor asks"),
            (self.timed != other.timed, "whether there is a write buffer"),
            (
                self.trusted != other.trusted,
                "whether a cache is inclusive, or asked by the processor and by another cache",
            ),
            (self.reuses != other.reuses, "whether a dead page's frame goes to the next page"),
            (self.tight != other.tight, "whether any page is surely in memory"),
            (self.follows != other.follows, "whether placements ask when pages were referenced"),
            (
                self.longest_reference != other.longest_reference,
                "the rules of counting, or the longest reference they know",
            ),
            (
                self.translation != other.translation || self.softvm != other.softvm,
                "how addresses are translated",
            ),
            (self.protection != other.protection, "how lines keep the protection of their pages"),
            (
                self.segments != other.segments,
                "whether caches have tags of global addresses, or the segments of regions",
            ),
        ]
        .into_iter()
        .filter_map(|(differs, what)| differs.then_some(what))
        .collect()
    }
}
