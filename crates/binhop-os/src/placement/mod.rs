//! Placement: choosing the frame for a page. Each policy is one file of this module and one word in the
//! list below; names, help, parameters, documentation and tests derive from it.
//!
//! To add one: write `name.rs` with its rule, its source, its state and cost, its [`Policy`] and its tests,
//! and put its name into the list. A policy that looks at bins declares what it asks
//! ([`Placement::counts`]); the pool then keeps it up to date, and a decision costs what it reads. (A placement costs
//! more, to keep the pool exact, whatever the policy: see `frame/lru.rs`.) A policy with free lists and victims
//! of its own is an [`Allocator`].

use alloc::boxed::Box;

use binhop_base::{Domain, FrameNo, Result, Rng, Stream};

use crate::frame::lru::Lru;
use crate::{Allocator, Counts, Frames, Pool, Request, Sharing};

mod color;
mod settings;

pub use color::fibonacci;
pub use recorded::Recording;
pub use settings::{Parameter, Settings};

macro_rules! policies {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every placement policy, in the order in which they are shown.
        pub static POLICIES: &[&Policy] = &[$(&$module::POLICY),*];
    };
}

policies!(
    identity,
    first,
    random,
    page_coloring_equal,
    page_coloring_pid_hash,
    page_coloring_offset,
    bin_hopping,
    sequential,
    hierarchical,
    colored_lists,
    buddy,
    recorded,
);

/// A policy that picks from the pool. One instance serves one lane.
pub trait Placement: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Returns what it asks the pool about bins, if it does: that is kept up to date only then.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// The frame for a page: one of the pool. What it still holds is evicted.
    ///
    /// # Errors
    /// Whatever may go wrong in a policy that is not built in; the run stops.
    fn choose(&mut self, request: &Request, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo>;
}

/// The random numbers of one fault: functions of the lane's seed and of the fault's ordinal, so that
/// policies compared under one seed meet equal luck.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    rng: Rng,
    domain: Domain,
    fault: u64,
}

impl Draws {
    pub(crate) fn new(rng: Rng, fault: u64) -> Self {
        Self { rng, domain: Domain::Placement, fault }
    }

    /// Those of a wired page: of a stream of their own, by its ordinal among the wired pages.
    pub(crate) fn wired(rng: Rng, ordinal: u64) -> Self {
        Self { rng, domain: Domain::Wired, fault: ordinal }
    }

    /// The ordinal of the fault in its lane, from 0.
    #[must_use]
    pub fn fault(self) -> u64 {
        self.fault
    }

    /// A number below `n` (at least 1). `sub` tells apart the draws of one fault (a level of a tree, say).
    #[inline]
    #[must_use]
    pub fn below(self, sub: u64, n: u64) -> u64 {
        self.rng.below(Stream::new(self.domain, sub), self.fault, n)
    }

    /// 64 fair coins of this fault.
    #[inline]
    #[must_use]
    pub fn coins(self) -> u64 {
        self.rng.draw(Stream::new(self.domain, 0), self.fault)
    }

    /// A number below `n` (at least 1) that belongs to a thing, such as an address space, and stays its own
    /// from fault to fault.
    #[inline]
    #[must_use]
    pub fn of(self, thing: u32, n: u64) -> u64 {
        self.rng.below(Stream::new(Domain::PlacementOf, 0), thing.into(), n)
    }
}

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
    pub manner: Manner,
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
pub enum Manner {
    /// It picks from the pool of the least recently used.
    Pool(fn(&Settings) -> Box<dyn Placement>),
    /// It has free lists and victims of its own.
    Own(Own),
    /// Physical = virtual: [`Frames::identity`] and [`Spaces::identity`](crate::Spaces::identity).
    Identity,
}

/// `Own` describes a policy with free lists and victims of its own.
#[derive(Clone, Copy, Debug)]
pub struct Own {
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
        if !matches!(self.manner, Manner::Identity) {
            settings.check()?;
        }
        match self.manner {
            Manner::Pool(build) => Frames::new(settings.frames, settings.pool, build(settings), seed),
            Manner::Own(own) => Ok(Frames::with((own.build)(settings, Rng::new(seed)), seed)),
            Manner::Identity => Ok(Frames::identity()),
        }
    }

    /// An instance for one lane, if it picks from a pool.
    #[must_use]
    pub fn build(&self, settings: &Settings) -> Option<Box<dyn Placement>> {
        match self.manner {
            Manner::Pool(build) => Some(build(settings)),
            Manner::Own(_) | Manner::Identity => None,
        }
    }

    /// A page is evicted only when at least so many other pages have been referenced since it was, not
    /// counting the one that takes its frame; and no page is evicted before more than so many have been placed.
    /// `None`: none is ever evicted.
    ///
    /// With W frames [wired](crate::Wired), W fewer: they are out of the list, so that so many fewer pages stand between the
    /// most recent page and the pool. Wired pages do not count among those referenced or placed.
    #[must_use]
    pub fn safe_frames(&self, settings: &Settings) -> Option<u64> {
        match self.manner {
            Manner::Pool(_) => Some(settings.frames - settings.pool),
            Manner::Own(own) => Some((own.safe_frames)(settings)),
            Manner::Identity => None,
        }
    }

    /// Returns whether a placement may ask when pages were referenced last. A recording says it all, and does not ask.
    #[must_use]
    pub fn reads_recency(&self) -> bool {
        match self.manner {
            Manner::Pool(_) => true,
            Manner::Own(own) => own.reads_recency,
            Manner::Identity => false,
        }
    }

    /// Returns whether a placement reads the segments of the space that faults ([`Request::segments`]).
    #[must_use]
    pub fn reads_segments(&self, settings: &Settings) -> bool {
        let counts = self.build(settings).and_then(|policy| policy.counts());
        counts.is_some_and(|counts| counts.used == Some(Sharing::Segment))
    }

    /// Returns whether the frame of a page that died may be given away before more than
    /// [`safe_frames`](Self::safe_frames) pages have been placed. Otherwise it waits its turn among the used ones.
    #[must_use]
    pub fn reuses_frames(&self) -> bool {
        matches!(self.manner, Manner::Own(Own { reuses_frames: true, .. }))
    }

    /// Returns whether the seed changes anything: at least the order in which the list of frames starts.
    #[must_use]
    pub fn is_random(&self, settings: &Settings) -> bool {
        match self.manner {
            Manner::Pool(_) => true,
            Manner::Own(own) => (own.is_random)(settings),
            Manner::Identity => false,
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
        match self.manner {
            Manner::Identity => LaneBytes::default(),
            Manner::Own(_) => LaneBytes {
                start: frames.saturating_mul(24).saturating_add(lists(Lru::BYTES)),
                once: lists(Lru::BYTES_FOLLOWED),
                entry: 2 * entry,
                full: full.saturating_mul(2),
                ..LaneBytes::default()
            },
            Manner::Pool(build) => {
                let start = frames.saturating_mul(17);
                let Some(counts) = build(settings).counts() else {
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

/// The policy of this name.
#[must_use]
pub fn policy(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_list_is_found_described_and_called_by_its_name() {
        for listed in POLICIES {
            assert!(
                core::ptr::eq(policy(listed.name).unwrap(), *listed),
                "two policies named {}",
                listed.name
            );
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(!listed.name.is_empty() && listed.name.chars().all(kebab), "{}", listed.name);
            for text in [listed.rule, listed.source, listed.cost] {
                assert!(text.len() >= 6, "{}: {text:?} says nothing", listed.name);
            }
            assert!(listed.rule.ends_with('.') && listed.cost.ends_with('.'), "{}", listed.name);
            for parameter in listed.parameters {
                assert!(!parameter.unit.is_empty() && parameter.meaning.ends_with('.'), "{parameter:?}");
            }
            let settings = Settings::new(64, 8);
            if let Some(instance) = listed.build(&settings) {
                assert_eq!(instance.name(), listed.name);
                let asks = instance.counts();
                assert_eq!(
                    asks.is_some_and(|asks| asks.used.is_some()),
                    listed.uses("sharing") && listed.name != "page-coloring-offset"
                );
                assert_eq!(asks.is_some(), listed.uses("bins"), "{}", listed.name);
                let by_space = Settings { sharing: Sharing::Space, ..settings.clone() };
                assert_eq!(listed.reads_segments(&settings), asks.is_some_and(|asks| asks.used.is_some()));
                assert!(!listed.reads_segments(&by_space), "{}", listed.name);
            }
            let frames = listed.frames(&settings, 0).unwrap();
            assert_eq!(frames.frames(), (listed.name != "identity").then_some(64));
        }
        assert!(policy("randon").is_none());
    }
}
