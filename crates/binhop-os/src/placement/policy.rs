//! `Policy` describes a placement policy before a run: its texts, its parameters, and how its frames are
//! made.

use alloc::boxed::Box;

use binhop_base::{Result, Rng};

use super::settings::Settings;
use crate::frame::{lru::LruList, part_at_start};
use crate::{Allocator, Frames, PoolPolicy, StateScope};

/// `Policy` describes a placement policy before a run.
#[derive(Debug)]
pub struct Policy {
    /// The name that users write in `placement.policy`.
    pub name: &'static str,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// The origin of the rule: document and section, or "binhop".
    pub source: &'static str,
    /// The state that the policy keeps, and the cost of a decision (`mod.rs` tells the cost of a placement).
    pub cost: &'static str,
    /// The keys under `placement` that the policy uses. Other keys are legal and change nothing.
    pub parameters: &'static [&'static str],
    /// The mechanism by which the policy gets its frames.
    pub mechanism: Mechanism,
}

/// `LaneBytes` is the memory that the frames of one lane take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBytes {
    /// The bytes at the start.
    pub start: u64,
    /// The further bytes once `part` pages were placed.
    pub whole: u64,
    /// The number of pages until the order of all frames is kept.
    pub part: u64,
    /// The further bytes while the frames are made.
    pub making: u64,
    /// The bytes for each page that gets a frame.
    pub page: u64,
    /// The maximum number of bytes that all these pages take together.
    pub all_pages: u64,
    /// The bytes for each page that was ever placed, in a list that doubles.
    pub placed: u64,
    /// The further bytes once placements read recency.
    pub once: u64,
    /// The further bytes for each page in memory from then on.
    pub entry: u64,
    /// The maximum number of bytes that all entries take together.
    pub full: u64,
    /// The further bytes for each segment or address space, if a policy asks which frames they use.
    pub owner: u64,
}

/// The bytes of the ranks of few frames, and of the ranks that are expected.
const RANKS: u64 = 1 << 10;

/// `Mechanism` is the way in which a policy gets its frames.
#[derive(Clone, Copy, Debug)]
pub enum Mechanism {
    /// The policy picks from the pool of the least recently used frames.
    Pool(fn(&Settings) -> Box<dyn PoolPolicy>),
    /// The policy has free lists and victims of its own.
    Allocator(AllocatorPolicy),
    /// The frame is the virtual page number: [`Frames::identity`] and
    /// [`Spaces::identity`](crate::Spaces::identity).
    Identity,
}

/// `AllocatorPolicy` describes a policy with free lists and victims of its own.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorPolicy {
    /// Makes an instance for one lane.
    pub build: fn(&Settings, Rng) -> Box<dyn Allocator>,
    /// Returns what [`Policy::safe_frames`] returns.
    pub safe_frames: fn(&Settings) -> u64,
    /// The value that [`Policy::reuses_frames`] returns.
    pub reuses_frames: bool,
    /// The value that [`Policy::largest_run_log2`] returns.
    pub largest_run_log2: Option<u32>,
    /// The value that [`Policy::reads_recency`] returns.
    pub reads_recency: bool,
    /// Returns whether the seed changes anything.
    pub is_random: fn(&Settings) -> bool,
    /// True if the frames are in lists by last use. Otherwise each frame takes its memory from the start.
    pub has_lists: bool,
}

impl Policy {
    /// Makes the unused frames of one lane. Settings that the policy does not use change nothing.
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

    /// Makes an instance for one lane, if the policy picks from a pool.
    #[must_use]
    pub fn build(&self, settings: &Settings) -> Option<Box<dyn PoolPolicy>> {
        match self.mechanism {
            Mechanism::Pool(build) => Some(build(settings)),
            Mechanism::Allocator(_) | Mechanism::Identity => None,
        }
    }

    /// Returns the number of *safe frames* S. A page is evicted only after at least S other pages have been
    /// referenced since its last reference, and only after more than S pages have been placed. The page that
    /// takes the frame does not count. `None`: no page is ever evicted.
    ///
    /// With W [wired](crate::WiredKind) frames S is smaller by W, because wired frames are not in the list.
    /// References to wired pages and placements of wired pages do not count.
    #[must_use]
    pub fn safe_frames(&self, settings: &Settings) -> Option<u64> {
        match self.mechanism {
            Mechanism::Pool(_) => Some(settings.frames - settings.pool),
            Mechanism::Allocator(allocator) => Some((allocator.safe_frames)(settings)),
            Mechanism::Identity => None,
        }
    }

    /// Returns whether a placement may read the times of last references. A recording needs no such time.
    #[must_use]
    pub fn reads_recency(&self) -> bool {
        match self.mechanism {
            Mechanism::Pool(_) => true,
            Mechanism::Allocator(allocator) => allocator.reads_recency,
            Mechanism::Identity => false,
        }
    }

    /// Returns whether a placement reads the segments of the address space that faults
    /// ([`segments`](crate::PageRequest::segments)).
    #[must_use]
    pub fn reads_segments(&self, settings: &Settings) -> bool {
        let counts = self.build(settings).and_then(|policy| policy.bin_counts());
        counts.is_some_and(|counts| counts.used == Some(StateScope::Segment))
    }

    /// Returns whether the policy may reuse the frame of a page that died before more than
    /// [`safe_frames`](Self::safe_frames) pages have been placed. Otherwise the frame waits among the used
    /// frames.
    #[must_use]
    pub fn reuses_frames(&self) -> bool {
        matches!(self.mechanism, Mechanism::Allocator(AllocatorPolicy { reuses_frames: true, .. }))
    }

    /// Returns the logarithm of the frames in the largest run that the policy hands out as a whole; `None` if the
    /// policy has no runs of frames. A huge page needs a run.
    #[must_use]
    pub fn largest_run_log2(&self) -> Option<u32> {
        match self.mechanism {
            Mechanism::Allocator(allocator) => allocator.largest_run_log2,
            Mechanism::Pool(_) | Mechanism::Identity => None,
        }
    }

    /// Returns whether the seed changes anything. For a pool it changes at least the initial order of the
    /// frames.
    #[must_use]
    pub fn is_random(&self, settings: &Settings) -> bool {
        match self.mechanism {
            Mechanism::Pool(_) => true,
            Mechanism::Allocator(allocator) => (allocator.is_random)(settings),
            Mechanism::Identity => false,
        }
    }

    /// Returns an upper bound of the memory that the frames of one lane take. It is at most twice the true
    /// figure.
    #[must_use]
    pub fn lane_bytes(&self, settings: &Settings) -> LaneBytes {
        let frames = settings.frames;
        // Each frame has an entry of 16 B, in a list that grows by doubling.
        let entry = 32;
        let full = frames.saturating_mul(entry);
        // The used part of the pool has 1.5 places for each frame, with ranks, and a table of its pages. From then on
        // frames that were never used are sought by their numbers, too.
        let once = settings.pool.saturating_mul(25 + 22).saturating_add(frames.saturating_mul(4));
        // A policy with colors has a list for each color.
        let lists = |bytes: usize| settings.colors.saturating_mul(bytes as u64);
        // Contents are in a table that doubles, as long as few frames are used.
        let pages = LaneBytes { page: 64, all_pages: frames.saturating_mul(8), ..LaneBytes::default() };
        match self.mechanism {
            Mechanism::Identity => LaneBytes::default(),
            Mechanism::Allocator(AllocatorPolicy { has_lists, .. }) => LaneBytes {
                start: frames
                    .saturating_mul(if has_lists { 5 } else { 24 })
                    .saturating_add(lists(LruList::BYTES)),
                page: if has_lists { pages.page } else { 0 },
                all_pages: if has_lists { pages.all_pages } else { 0 },
                // A list whose frames were all used once seeks frames by their numbers from then on. It has 4 B for
                // each of its frames, and had as many pages.
                once: lists(LruList::BYTES_FOLLOWED).saturating_add(if has_lists {
                    0
                } else {
                    frames.saturating_mul(4)
                }),
                entry: 2 * entry + if has_lists { 4 } else { 0 },
                full: full.saturating_mul(2).saturating_add(if has_lists {
                    frames.saturating_mul(4)
                } else {
                    0
                }),
                // A list of the colors of all pages.
                placed: if self.uses("colors") && settings.colors > 1 { 4 } else { 0 },
                ..LaneBytes::default()
            },
            Mechanism::Pool(build) => {
                // Each frame in the order takes 4 B. The ranks of all frames take 5/32 B for each frame.
                let part = part_at_start(frames, settings.pool).unwrap_or(frames);
                let start = (frames / 4).saturating_add(part.saturating_mul(4)).saturating_add(RANKS);
                let whole = frames.saturating_sub(part).saturating_mul(4);
                let making = if part < frames { frames.saturating_mul(4) } else { 0 };
                let pages = LaneBytes { whole, making, part: part.saturating_sub(settings.pool), ..pages };
                let Some(counts) = build(settings).bin_counts() else {
                    return LaneBytes { start, once, entry, full, ..pages };
                };
                let bins = counts.bins.bytes();
                let start =
                    start.saturating_add(frames.saturating_mul(20)).saturating_add(bins.saturating_mul(20));
                let owner = counts.used.map_or(0, |_| bins.saturating_mul(8));
                LaneBytes { start, once, entry, full, owner, ..pages }
            }
        }
    }

    /// Returns whether a key under `placement` makes a difference to the policy.
    #[must_use]
    pub fn uses(&self, key: &str) -> bool {
        self.parameters.contains(&key)
    }
}
