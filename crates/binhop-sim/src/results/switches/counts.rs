//! `Layout` says where each count stands in a row of numbers, which holds the counts of the segments of one kind.

use binhop_hw::TreeConfig;
use binhop_trace::event::Cause;

/// `CauseOfSegment` says why the life of a segment had left the processor before, or why it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum CauseOfSegment {
    /// No switch came before; or the measured part began within the segment.
    None,
    /// The life had never run.
    Start,
    SystemCall,
    PageFault,
    Involuntary,
    Exit,
    /// The trace does not say why.
    Unknown,
    /// The trace ended.
    End,
}

impl CauseOfSegment {
    /// Every cause, in the order of their discriminants, with its name in tables.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::None, "none"),
        (Self::Start, "start"),
        (Self::SystemCall, "system-call"),
        (Self::PageFault, "page-fault"),
        (Self::Involuntary, "involuntary"),
        (Self::Exit, "exit"),
        (Self::Unknown, "unknown"),
        (Self::End, "end"),
    ];

    pub(crate) fn of(cause: Option<Cause>) -> Self {
        match cause {
            Some(Cause::SystemCall) => Self::SystemCall,
            Some(Cause::PageFault) => Self::PageFault,
            Some(Cause::Involuntary) => Self::Involuntary,
            Some(Cause::Exit) => Self::Exit,
            None => Self::Unknown,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// `Side` tells the shared caches from the private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Side {
    Shared,
    Private,
}

/// Places of the counts that every machine has, at the beginning of a row.
pub(crate) const SEGMENTS: usize = 0;
pub(crate) const SHORT: usize = 1;
pub(crate) const TRUNCATED: usize = 2;
pub(crate) const SAME: usize = 3;
pub(crate) const INSTRUCTIONS: usize = 4;
pub(crate) const CYCLES: usize = 5;
pub(crate) const BUFFER: usize = 7;
pub(crate) const KERNEL: usize = 9;
const FIRST_LEVEL: usize = 11;
const OF_LEVEL: usize = 4;
const OF_CACHE: usize = 7;

/// Places of a cache's counts within its part of a row.
pub(crate) const MISSES: usize = 0;
pub(crate) const REPLACED: usize = 2;
pub(crate) const REORDERED: usize = 3;
pub(crate) const HELD: usize = 4;
pub(crate) const LOST: usize = 5;
pub(crate) const RESTORED: usize = 6;

/// `Layout` says where each count stands in a row of counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    caches: usize,
}

impl Layout {
    pub(crate) fn new(caches: usize) -> Self {
        Self { caches }
    }

    pub(crate) fn caches(self) -> usize {
        self.caches
    }

    /// Returns the number of counts in a row.
    pub(crate) fn width(self) -> usize {
        FIRST_LEVEL + OF_LEVEL * (self.caches + 1) + OF_CACHE * self.caches
    }

    /// Returns the place of the cycles waited for accesses that a level served. The level after all caches is
    /// memory.
    #[inline]
    pub(crate) fn wait(self, level: usize, data: bool, side: Side) -> usize {
        FIRST_LEVEL + OF_LEVEL * level + 2 * usize::from(data) + side as usize
    }

    /// Returns the place of a cache's count.
    #[inline]
    pub(crate) fn cache(self, cache: usize, count: usize) -> usize {
        FIRST_LEVEL + OF_LEVEL * (self.caches + 1) + OF_CACHE * cache + count
    }

    /// Returns the name of each count in tables, for a machine. A count without a name is always 0.
    pub(crate) fn names(self, config: &TreeConfig) -> Vec<Option<String>> {
        let sides = |what: &str| ["shared", "private"].map(|side| Some(format!("{what}.{side}")));
        let mut names: Vec<Option<String>> =
            ["segments", "segments.short", "segments.truncated", "switches.same", "instructions"]
                .map(|name| Some(name.to_string()))
                .into();
        names.extend(sides("cycles"));
        let buffered = config.caches.iter().any(|cache| cache.write_buffer.is_some());
        names.extend(if buffered { sides("write-buffer.cycles") } else { [None, None] });
        let kernel = config.agents.others().next().is_some();
        names.extend(if kernel { sides("kernel.cycles") } else { [None, None] });
        let serving = |cache: usize| cache == config.fetch || cache == config.data;
        let level = |level: usize| config.caches.get(level).map_or("memory", |cache| cache.name.as_str());
        for number in 0..=self.caches {
            for kind in ["fetch", "data"] {
                let what = format!("{}.{kind}.cycles", level(number));
                names.extend(if serving(number) { [None, None] } else { sides(&what) });
            }
        }
        for cache in &config.caches {
            let name = |what: &str| Some(format!("{}.{what}", cache.name));
            names
                .extend(["misses.shared", "misses.private", "misses.replaced", "misses.reordered"].map(name));
            names.extend(["lines.held", "lines.lost", "lines.restored"].map(name));
        }
        debug_assert_eq!(names.len(), self.width());
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_the_place_of_its_number() {
        for (place, (cause, name)) in CauseOfSegment::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, cause.name()), (place, name));
        }
    }

    #[test]
    fn no_two_counts_have_one_place() {
        let layout = Layout::new(3);
        let mut places = vec![SEGMENTS, SHORT, TRUNCATED, SAME, INSTRUCTIONS];
        places.extend([CYCLES, BUFFER, KERNEL].iter().flat_map(|&first| [first, first + 1]));
        for level in 0..4 {
            for data in [false, true] {
                places.extend([Side::Shared, Side::Private].map(|side| layout.wait(level, data, side)));
            }
        }
        for cache in 0..3 {
            places.extend(
                [MISSES, MISSES + 1, REPLACED, REORDERED, HELD, LOST, RESTORED]
                    .map(|count| layout.cache(cache, count)),
            );
        }
        assert_eq!(places, (0..layout.width()).collect::<Vec<_>>());
    }
}
