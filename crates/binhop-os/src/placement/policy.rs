//! `Policy` describes a placement policy before a run: its texts, its parameters, and how its frames are made.

use alloc::boxed::Box;

use binhop_base::{Result, Rng};

use super::settings::{Parameter, Settings};
use crate::frame::lru::LruList;
use crate::{Allocator, Frames, PoolPolicy, StateScope};

/// `Policy` describes a placement policy before a run.
#[derive(Debug)]
pub struct Policy {
    /// The name that users write in `placement.policy`.
    pub name: &'static str,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// Its origin: document and section, or "binhop".
    pub source: &'static str,
    /// The state it keeps and what one decision costs (see the top for what a placement costs).
    pub cost: &'static str,
    /// The keys under `placement` that it uses; others are legal and change nothing.
    pub parameters: &'static [Parameter],
    /// The way in which it gets its frames.
    pub mechanism: Mechanism,
}

/// The memory that the frames of one lane take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBytes {
    /// From the start.
    pub start: u64,
    /// More, once so many pages were placed that recency is read.
    pub once: u64,
    /// More for each page in memory from then on.
    pub entry: u64,
    /// The most that all entries take together.
    pub full: u64,
    /// More for each segment or address space, where a policy asks what they use.
    pub owner: u64,
}

/// The way in which a policy gets its frames.
#[derive(Clone, Copy, Debug)]
pub enum Mechanism {
    /// It picks from the pool of the least recently used.
    Pool(fn(&Settings) -> Box<dyn PoolPolicy>),
    /// It has free lists and victims of its own.
    Allocator(AllocatorPolicy),
    /// Physical = virtual: [`Frames::identity`] and [`Spaces::identity`](crate::Spaces::identity).
    Identity,
}

/// `AllocatorPolicy` describes a policy with free lists and victims of its own.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorPolicy {
    /// An instance for one lane.
    pub build: fn(&Settings, Rng) -> Box<dyn Allocator>,
    /// As [`Policy::safe_frames`].
    pub safe_frames: fn(&Settings) -> u64,
    /// As [`Policy::reuses_frames`].
    pub reuses_frames: bool,
    /// As [`Policy::reads_recency`].
    pub reads_recency: bool,
    /// Tells whether the seed changes anything.
    pub is_random: fn(&Settings) -> bool,
}

impl Policy {
    /// The frames of one lane, none used. The settings that the policy does not use change nothing.
    ///
    /// # Errors
    /// The settings break a rule ([`Settings::check`]).
    pub fn frames(&self, settings: &Settings, seed: u64) -> Result<Frames> {
        if !matches!(self.mechanism, Mechanism::Identity) {
            settings.check()?;
        }
        match self.mechanism {
            Mechanism::Pool(build) => Frames::new(settings.frames, settings.pool, build(settings), seed),
            Mechanism::Allocator(allocator) => {
                Ok(Frames::with((allocator.build)(settings, Rng::new(seed)), seed))
            }
            Mechanism::Identity => Ok(Frames::identity()),
        }
    }

    /// An instance for one lane, if it picks from a pool.
    #[must_use]
    pub fn build(&self, settings: &Settings) -> Option<Box<dyn PoolPolicy>> {
        match self.mechanism {
            Mechanism::Pool(build) => Some(build(settings)),
            Mechanism::Allocator(_) | Mechanism::Identity => None,
        }
    }

    /// A page is evicted only when at least so many other pages have been referenced since it was, not
    /// counting the one that takes its frame; and no page is evicted before more than so many have been placed.
    /// `None`: none is ever evicted.
    ///
    /// With W frames [wired](crate::WiredKind), W fewer: they are out of the list, so that so many fewer pages stand between the
    /// most recent page and the pool. Wired pages do not count among those referenced or placed.
    #[must_use]
    pub fn safe_frames(&self, settings: &Settings) -> Option<u64> {
        match self.mechanism {
            Mechanism::Pool(_) => Some(settings.frames - settings.pool),
            Mechanism::Allocator(allocator) => Some((allocator.safe_frames)(settings)),
            Mechanism::Identity => None,
        }
    }

    /// Returns whether a placement may ask when pages were referenced last. A recording says it all, and does not ask.
    #[must_use]
    pub fn reads_recency(&self) -> bool {
        match self.mechanism {
            Mechanism::Pool(_) => true,
            Mechanism::Allocator(allocator) => allocator.reads_recency,
            Mechanism::Identity => false,
        }
    }

    /// Returns whether a placement reads the segments of the space that faults ([`PageRequest::segments`]).
    #[must_use]
    pub fn reads_segments(&self, settings: &Settings) -> bool {
        let counts = self.build(settings).and_then(|policy| policy.bin_counts());
        counts.is_some_and(|counts| counts.used == Some(StateScope::Segment))
    }

    /// Returns whether the frame of a page that died may be given away before more than
    /// [`safe_frames`](Self::safe_frames) pages have been placed. Otherwise it waits its turn among the used ones.
    #[must_use]
    pub fn reuses_frames(&self) -> bool {
        matches!(self.mechanism, Mechanism::Allocator(AllocatorPolicy { reuses_frames: true, .. }))
    }

    /// Returns whether the seed changes anything: at least the order in which the list of frames starts.
    #[must_use]
    pub fn is_random(&self, settings: &Settings) -> bool {
        match self.mechanism {
            Mechanism::Pool(_) => true,
            Mechanism::Allocator(allocator) => (allocator.is_random)(settings),
            Mechanism::Identity => false,
        }
    }

    /// Returns the memory that the frames of one lane take: an upper bound, at most twice the true figure.
    #[must_use]
    pub fn lane_bytes(&self, settings: &Settings) -> LaneBytes {
        let frames = settings.frames;
        // An entry of 16 B for each frame, in a list that grows by doubling.
        let entry = 32;
        let full = frames.saturating_mul(entry);
        // The used part of the pool has half as many places more than frames, with ranks, and a table of its pages.
        let once = settings.pool.saturating_mul(25 + 22);
        // A policy of colors has a list for each.
        let lists = |bytes: usize| settings.colors.saturating_mul(bytes as u64);
        match self.mechanism {
            Mechanism::Identity => LaneBytes::default(),
            Mechanism::Allocator(_) => LaneBytes {
                start: frames.saturating_mul(24).saturating_add(lists(LruList::BYTES)),
                once: lists(LruList::BYTES_FOLLOWED),
                entry: 2 * entry,
                full: full.saturating_mul(2),
                ..LaneBytes::default()
            },
            Mechanism::Pool(build) => {
                let start = frames.saturating_mul(17);
                let Some(counts) = build(settings).bin_counts() else {
                    return LaneBytes { start, once, entry, full, owner: 0 };
                };
                let bins = counts.bins.bytes();
                let start = frames.saturating_mul(33).saturating_add(bins.saturating_mul(20));
                let owner = counts.used.map_or(0, |_| bins.saturating_mul(8));
                LaneBytes { start, once, entry, full, owner }
            }
        }
    }

    /// Returns whether a key under `placement` makes a difference to it.
    #[must_use]
    pub fn uses(&self, key: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == key)
    }
}
