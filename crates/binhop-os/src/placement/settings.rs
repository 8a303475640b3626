//! The settings that a policy is built from, and the keys under `placement` by which users give them.

use alloc::{format, string::ToString, sync::Arc};

use binhop_base::{PowerOfTwo, Problem, Result};

use super::recording::Recording;
use crate::{StateScope, frame::check_count};

/// A key under `placement` in a machine file.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key.
    pub name: &'static str,
    /// The thing that its value counts.
    pub unit: &'static str,
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
}

/// Memory, and everything that a policy can be told. Two lanes of one policy with equal settings and seeds
/// place alike.
///
/// ```
/// use binhop_base::PowerOfTwo;
/// use binhop_os::placement::{self, Settings};
///
/// let settings = Settings { bins: PowerOfTwo::from_log2(8), ..Settings::new(8192, 256) };
/// let frames = placement::policy("hierarchical").unwrap().frames(&settings, 1)?;
/// assert_eq!(frames.free(), Some(8192));
/// # Ok::<(), Box<binhop_base::Problem>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// P, the frames of memory.
    pub frames: u64,
    /// K, the frames a placement may choose from.
    pub pool: u64,
    /// The bins that pages are spread over.
    pub bins: PowerOfTwo,
    /// The colors that frames are divided into.
    pub colors: u64,
    /// The owner by which a policy keeps its state where address spaces share pages: a segment or an address space.
    pub sharing: StateScope,
    /// True if an address space's number enters into a page's color.
    pub pid_hash: bool,
    /// Percent of memory that holds older pages at the start.
    pub fragmentation: u32,
    /// The placement to repeat.
    pub recording: Arc<Recording>,
}

impl Settings {
    /// A memory of so many frames and a pool; one bin, one color, sharing by segment, nothing else.
    #[must_use]
    pub fn new(frames: u64, pool: u64) -> Self {
        let (bins, sharing, recording) = (PowerOfTwo::ONE, StateScope::Segment, Arc::default());
        Self { frames, pool, bins, colors: 1, sharing, pid_hash: false, fragmentation: 0, recording }
    }

    /// The most bins that may be told apart: a cache of 4 GiB in pages of 4 KiB.
    pub const MOST_BINS: PowerOfTwo = PowerOfTwo::from_log2(20);

    /// Checks that a policy can be built from them.
    ///
    /// # Errors
    /// There is no frame, or there are 2³² − 1 or more; the pool is empty or larger than memory; there are
    /// more than 2²⁰ bins; there is no color, or there are more colors than frames; more than 100 %.
    pub fn check(&self) -> Result<()> {
        check_count(self.frames)?;
        let wrong = |value: u64, key: &str, rule: &str, remedy: &str| {
            Err(Problem::request(&value.to_string(), &format!("placement.{key}"), rule, remedy))
        };
        let Self { frames, pool, bins, colors, .. } = *self;
        if pool == 0 || pool > frames {
            let rule = format!("the pool has at least one frame and at most all {frames} of memory");
            return wrong(pool, "pool", &rule, "change placement.pool or memory.size");
        }
        if bins > Self::MOST_BINS {
            let rule = format!("a policy tells at most {} bins apart", Self::MOST_BINS.bytes());
            return wrong(bins.bytes(), "bins", &rule, "take fewer");
        }
        if colors == 0 || colors > frames {
            let rule = format!("every color has a frame, and memory has {frames}: 1 to {frames} colors");
            return wrong(colors, "colors", &rule, "take fewer colors or a larger memory");
        }
        if self.fragmentation > 100 {
            let rule = "it is a share of memory in percent, 0 to 100";
            return wrong(self.fragmentation.into(), "fragmentation", rule, "take 100 or less");
        }
        Ok(())
    }
}

pub(super) const POOL: Parameter = Parameter {
    name: "pool",
    unit: "bytes",
    meaning: "The least recently used frames from which a placement chooses, even while all of memory is unused.",
};

pub(super) const BINS: Parameter =
    Parameter { name: "bins", unit: "bins", meaning: "How many bins pages are spread over, a power of two." };

pub(super) const TUNED_FOR: Parameter = Parameter {
    name: "tuned-for",
    unit: "a cache's name",
    meaning: "The cache whose bins (or as many colors) pages are spread over.",
};

pub(super) const SHARING: Parameter = Parameter {
    name: "sharing",
    unit: "segment or space",
    meaning: "By what state is kept where address spaces share pages: by segment, or by the space that faults.",
};

pub(super) const COLORS: Parameter =
    Parameter { name: "colors", unit: "colors", meaning: "How many lists of frames there are." };

pub(super) const PID_HASH: Parameter = Parameter {
    name: "pid-hash",
    unit: "true or false",
    meaning: "Whether a hash of the address space's number enters into a page's color.",
};

pub(super) const FRAGMENTATION: Parameter = Parameter {
    name: "fragmentation",
    unit: "percent of memory",
    meaning: "How much of memory is scattered with older pages at the start.",
};

pub(super) const FILE: Parameter = Parameter {
    name: "file",
    unit: "a path",
    meaning: "The placements to repeat, as --dump-placement writes them.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_no_memory_can_have_are_refused_with_value_and_key() {
        let good = Settings { fragmentation: 100, colors: 8, ..Settings::new(8, 8) };
        good.check().unwrap();
        for (settings, value, key) in [
            (Settings { frames: 0, ..good.clone() }, "0 frames", "memory.size"),
            (Settings { frames: u64::from(u32::MAX), ..good.clone() }, "4294967295 frames", "memory.size"),
            (Settings { pool: 0, ..good.clone() }, "0", "placement.pool"),
            (Settings { pool: 9, ..good.clone() }, "9", "placement.pool"),
            (Settings { bins: PowerOfTwo::from_log2(21), ..good.clone() }, "2097152", "placement.bins"),
            (Settings { colors: 0, ..good.clone() }, "0", "placement.colors"),
            (Settings { colors: 9, ..good.clone() }, "9", "placement.colors"),
            (Settings { fragmentation: 101, ..good.clone() }, "101", "placement.fragmentation"),
        ] {
            let problem = settings.check().unwrap_err();
            assert_eq!((&*problem.value, &*problem.place), (value, key), "{problem}");
            assert!(!problem.rule.is_empty() && !problem.remedy.is_empty(), "{problem}");
        }
    }
}
