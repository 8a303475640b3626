//! `Subscription` lists the occasions for which a unit asks, and the lines that it may touch there.

use std::ops::Range;

use binhop_base::{Agent, Agents};

use super::{OccasionKind, Port};

/// `Lines` are lines of the level-1 cache behind a port, named by their place within pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// No line.
    #[default]
    None,
    /// The lines that hold one of these bytes of some page.
    Bytes(Range<u64>),
    /// Any line.
    All,
}

impl Lines {
    /// Returns the line numbers within a page, for lines of 2^`line_log2` bytes and `of` lines in a page.
    pub(crate) fn numbers(&self, line_log2: u32, of: u64) -> Range<u64> {
        match self {
            Self::None => 0..0,
            Self::Bytes(bytes) if bytes.is_empty() => 0..0,
            Self::Bytes(bytes) => {
                (bytes.start >> line_log2).min(of)..(((bytes.end - 1) >> line_log2) + 1).min(of)
            }
            Self::All => 0..of,
        }
    }

    /// Returns whether these lines include every line that holds one of these bytes, for lines of
    /// 2^`line_log2` bytes.
    pub(crate) fn cover(&self, bytes: &Range<u64>, line_log2: u32) -> bool {
        match self {
            Self::None => bytes.is_empty(),
            Self::All => true,
            Self::Bytes(_) => {
                let (mine, theirs) = (
                    self.numbers(line_log2, u64::MAX),
                    Self::Bytes(bytes.clone()).numbers(line_log2, u64::MAX),
                );
                theirs.is_empty() || mine.start <= theirs.start && theirs.end <= mine.end
            }
        }
    }
}

/// `TouchedLines` are the lines of level 1 that a unit may touch at an occasion: by accesses through a port,
/// and by invalidations, which concern both ports. Behind level 1 it may touch any line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedLines {
    /// The lines of the cache that serves instructions.
    pub fetch: Lines,
    /// The lines of the cache that serves data.
    pub data: Lines,
}

impl TouchedLines {
    /// No line: the unit hears of the occasion and may let the processor wait. It does not look at level 1,
    /// which lanes may share.
    pub const NOTHING: Self = Self { fetch: Lines::None, data: Lines::None };
    /// Any line of level 1.
    pub const EVERYTHING: Self = Self { fetch: Lines::All, data: Lines::All };

    /// Returns the lines behind a port.
    #[must_use]
    pub fn of(&self, port: Port) -> &Lines {
        match port {
            Port::Fetch => &self.fetch,
            Port::Data => &self.data,
        }
    }

    /// Returns whether there are no lines.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }
}

/// `Subscription` states for which occasions a unit asks, which lines it may touch at each occasion, as which
/// agents it acts, and how many pages it owns.
///
/// ```
/// use binhop_base::Agent;
/// use binhop_sim::occasion::{Lines, OccasionKind, Subscription, TouchedLines};
///
/// // A handler of 64 bytes of code reads an entry anywhere in one of four pages of tables.
/// let refill = TouchedLines { fetch: Lines::Bytes(0..64), data: Lines::All };
/// let subscription = Subscription::new(5, &[Agent::Handler])
///     .at(OccasionKind::PageChange, refill)
///     .at(OccasionKind::Switch, TouchedLines::NOTHING);
/// assert!(subscription.touched(OccasionKind::Switch).is_some_and(TouchedLines::is_nothing));
/// assert!(subscription.touched(OccasionKind::Syscall).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    at: [Option<TouchedLines>; OccasionKind::ALL.len()],
    pages: u32,
    agents: Agents,
}

impl Subscription {
    /// Makes a subscription without occasions, for a unit that owns `pages` pages and acts as these agents.
    #[must_use]
    pub fn new(pages: u32, agents: &[Agent]) -> Self {
        Self { at: Default::default(), pages, agents: agents.iter().copied().collect() }
    }

    /// Adds occasions of a kind.
    #[must_use]
    pub fn at(mut self, kind: OccasionKind, touched: TouchedLines) -> Self {
        self.at[kind as usize] = Some(touched);
        self
    }

    /// Returns the lines that the unit may touch at an occasion of a kind; `None` if it does not ask for the
    /// kind.
    #[must_use]
    pub fn touched(&self, kind: OccasionKind) -> Option<&TouchedLines> {
        self.at[kind as usize].as_ref()
    }

    /// Returns the number of pages that the unit owns.
    #[must_use]
    pub fn owned(&self) -> u32 {
        self.pages
    }

    /// Returns the agents as which the unit acts. The user is in every set of agents, but no unit acts as the
    /// user.
    #[must_use]
    pub fn agents(&self) -> Agents {
        self.agents
    }

    /// Returns whether the unit asks for misses. A lane must then know before each row whether level 1 holds
    /// the row's line.
    pub(crate) fn wants_misses(&self) -> bool {
        self.touched(OccasionKind::Miss).is_some()
    }

    /// Returns whether an occasion of this kind ends the sharing of a front.
    pub(crate) fn ends_sharing(&self, kind: OccasionKind) -> bool {
        self.touched(kind).is_some_and(|touched| !touched.is_nothing())
    }

    /// Returns the kinds of occasions for which the unit asks.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = OccasionKind> {
        OccasionKind::ALL.iter().copied().filter(|&kind| self.touched(kind).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_turned_into_the_lines_that_hold_them() {
        let lines = |start, end| Lines::Bytes(start..end).numbers(5, 128);
        assert_eq!([lines(0, 1), lines(0, 32), lines(31, 33), lines(32, 64)], [0..1, 0..1, 0..2, 1..2]);
        assert_eq!([lines(7, 7), lines(4064, 9999), lines(9999, 10_000)], [0..0, 127..128, 128..128]);
        assert_eq!((Lines::All.numbers(5, 128), Lines::None.numbers(5, 128)), (0..128, 0..0));
    }

    /// A unit that asked for a byte of a line may touch all of the line, and no byte of another line.
    #[test]
    fn lines_cover_whole_lines() {
        let lines = Lines::Bytes(40..70);
        for (bytes, covered) in
            [(32..96, true), (31..33, false), (95..97, false), (64..65, true), (500..500, true)]
        {
            assert_eq!(lines.cover(&bytes, 5), covered, "{bytes:?}");
        }
        assert!(Lines::All.cover(&(0..4096), 5) && !Lines::None.cover(&(0..1), 5));
    }
}
