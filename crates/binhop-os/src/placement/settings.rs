//! `Settings` is what a policy is built from. Users set it by the keys under `placement` of a machine file.

use alloc::{format, string::ToString, sync::Arc};

use binhop_base::{PowerOfTwo, Problem, Result};

use super::recording::Recording;
use crate::{StateScope, frame::check_count};

/// `Settings` describes memory, and holds everything that a policy knows of a run. Two lanes of one policy with
/// equal settings and equal seeds make equal placements.
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
    /// P, the number of frames.
    pub frames: u64,
    /// K, the number of frames from which a placement may choose.
    pub pool: u64,
    /// The number of bins over which pages are spread.
    pub bins: PowerOfTwo,
    /// The number of colors into which frames are divided.
    pub colors: u64,
    /// The owner of a policy's state: a segment or an address space.
    pub sharing: StateScope,
    /// True if the address space's number enters into a page's color.
    pub pid_hash: bool,
    /// The percentage of memory that holds old pages at the start.
    pub fragmentation: u32,
    /// The placements to repeat.
    pub recording: Arc<Recording>,
}

impl Settings {
    /// Makes settings for a memory and a pool. There is one bin and one color, state is kept per segment, and
    /// the other settings are off.
    #[must_use]
    pub fn new(frames: u64, pool: u64) -> Self {
        let (bins, sharing, recording) = (PowerOfTwo::ONE, StateScope::Segment, Arc::default());
        Self { frames, pool, bins, colors: 1, sharing, pid_hash: false, fragmentation: 0, recording }
    }

    /// The largest number of bins: a cache of 4 GiB in pages of 4 KiB.
    pub const MOST_BINS: PowerOfTwo = PowerOfTwo::from_log2(20);

    /// Checks that a policy can be built from the settings.
    ///
    /// # Errors
    /// There is no frame, or there are 2³² − 1 frames or more; the pool is empty or larger than memory; there
    /// are more than 2²⁰ bins; there is no color, or there are more colors than frames; the fragmentation
    /// exceeds 100 %.
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
            return wrong(bins.bytes(), "bins", &rule, "set fewer bins");
        }
        if colors == 0 || colors > frames {
            let rule = format!("every color has a frame, and memory has {frames}: 1 to {frames} colors");
            return wrong(colors, "colors", &rule, "set fewer colors or a larger memory");
        }
        if self.fragmentation > 100 {
            let rule = "fragmentation is a share of memory in percent, 0 to 100";
            return wrong(self.fragmentation.into(), "fragmentation", rule, "set 100 or less");
        }
        Ok(())
    }
}

// The keys under `placement` that a policy may use. `binhop-sim` declares their forms and meanings
// (`machine/placement.rs`).
pub(super) const POOL: &str = "pool";
pub(super) const BINS: &str = "bins";
pub(super) const TUNED_FOR: &str = "tuned-for";
pub(super) const SHARING: &str = "sharing";
pub(super) const COLORS: &str = "colors";
pub(super) const PID_HASH: &str = "pid-hash";
pub(super) const FRAGMENTATION: &str = "fragmentation";
pub(super) const FILE: &str = "file";

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
