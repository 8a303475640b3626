//! `SchemeConfig` describes a scheme with its caches. [`SchemeConfig::check`] refuses what a machine cannot have.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};

use super::{SchemeKind, lines::LEAST_LINE};
use crate::{Replacement, WritePolicy};

/// `LastLevelConfig` describes the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastLevelConfig {
    /// The bytes of data that the cache holds. The number of sets must be a power of two.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// The rule that chooses a victim: [`Replacement::Random`] or [`Replacement::Lru`].
    pub replacement: Replacement,
    /// Cycles of an access.
    pub cycles: u64,
}

/// `DmaCacheConfig` describes the DMA cache of [`SchemeKind::Ddc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaCacheConfig {
    /// The bytes of data that the cache holds. The number of sets must be a power of two.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// Cycles of an access.
    pub cycles: u64,
}

/// `SchemeConfig` describes a scheme with its caches. A scheme ignores the settings of other schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeConfig {
    /// The scheme.
    pub kind: SchemeKind,
    /// Bytes of a line.
    pub line: PowerOfTwo,
    /// Bytes of a page. A prefetcher stays within the page of the line that a device read.
    pub page: PowerOfTwo,
    /// The last-level cache. Under [`SchemeKind::Flush`] it belongs to the front.
    pub last_level: LastLevelConfig,
    /// The write policy of device data that enter a cache (shared-cache, ddc, pbdc).
    pub write: WritePolicy,
    /// The DMA cache (ddc).
    pub dma_cache: DmaCacheConfig,
    /// The number of lines that are prefetched behind each line that a device reads (ddc, pbdc); 0 without a
    /// prefetcher.
    pub prefetch_degree: u32,
    /// The ways of the last-level cache for I/O data (pbdc): bit `w` stands for way `w`.
    pub io_ways: u64,
    /// The number of ways that writes of devices may bring lines into (ddio).
    pub ddio_ways: u32,
    /// The seed of random victims.
    pub seed: u64,
}

const KIB: u64 = 1 << 10;

impl SchemeConfig {
    /// The most cycles of an access to a cache, or to memory behind a front. With this limit, the cycles of ten
    /// billion references stay below the last cycle that a memory controller counts.
    pub const MOST_CYCLES: u32 = 1_000_000;

    /// Returns TB10's machine (Table 4) with a last-level cache of 2 MiB and 16 ways, under a scheme. The DMA cache
    /// has 256 KiB and 4 ways, and writes through; the prefetcher is on; PBDC has one way, and DDIO two.
    #[must_use]
    pub const fn tb10(kind: SchemeKind) -> Self {
        Self {
            kind,
            line: PowerOfTwo::from_log2(6),
            page: PowerOfTwo::from_log2(12),
            last_level: LastLevelConfig {
                size: Bytes(2048 * KIB),
                ways: 16,
                replacement: Replacement::Random,
                cycles: 20,
            },
            write: WritePolicy::Through,
            dma_cache: DmaCacheConfig { size: Bytes(256 * KIB), ways: 4, cycles: 20 },
            prefetch_degree: 4,
            io_ways: 1,
            ddio_ways: 2,
            seed: 0,
        }
    }

    /// Checks the settings that the scheme uses.
    ///
    /// # Errors
    /// A cache has no line, no way, or a number of sets that is not a power of two; the last-level cache does not
    /// offer the replacement; a line is larger than a page, or shorter than 32 bytes in a cache of the scheme; or device
    /// data have no way or all ways.
    pub fn check(&self) -> Result<()> {
        if self.line.bytes() > self.page.bytes() {
            return Err(Problem::request(
                &Bytes(self.line.bytes()).to_string(),
                "line",
                "a line must not be larger than a page",
                &format!("take at most {}", Bytes(self.page.bytes())),
            ));
        }
        if self.kind == SchemeKind::Flush {
            // The scheme has no cache of its own.
            return Ok(());
        }
        if self.line.bytes() < LEAST_LINE {
            return Err(Problem::request(
                &Bytes(self.line.bytes()).to_string(),
                "line",
                &format!("behind a front, a line has at least {LEAST_LINE} bytes"),
                &format!("take {} or more", Bytes(LEAST_LINE)),
            ));
        }
        let LastLevelConfig { size, ways, replacement, cycles } = self.last_level;
        check_cycles(cycles, "last-level.cycles")?;
        if self.kind == SchemeKind::Ddc {
            check_cycles(self.dma_cache.cycles, "dma-cache.cycles")?;
        }
        sets(size, ways, self.line, "last-level")?;
        if !matches!(replacement, Replacement::Random | Replacement::Lru) {
            return Err(Problem::request(
                replacement.name(),
                "last-level.replacement",
                "the last-level cache before device data replaces at random or by least recent use",
                "write random or lru",
            ));
        }
        match self.kind {
            SchemeKind::Ddc => {
                sets(self.dma_cache.size, self.dma_cache.ways, self.line, "dma-cache").map(drop)
            }
            SchemeKind::Pbdc => check_io_ways(self.io_ways, ways),
            SchemeKind::Ddio => check_ddio_ways(self.ddio_ways, ways),
            _ => Ok(()),
        }
    }

    pub(super) fn last_level_sets(&self) -> Result<u64> {
        sets(self.last_level.size, self.last_level.ways, self.line, "last-level")
    }

    pub(super) fn dma_cache_sets(&self) -> Result<u64> {
        sets(self.dma_cache.size, self.dma_cache.ways, self.line, "dma-cache")
    }
}

/// Checks the cycles of an access.
///
/// # Errors
/// The number of cycles is too large.
pub fn check_cycles(cycles: u64, place: &str) -> Result<()> {
    if cycles <= u64::from(SchemeConfig::MOST_CYCLES) {
        return Ok(());
    }
    Err(Problem::request(
        &cycles.to_string(),
        place,
        &format!("behind a front, an access takes at most {} cycles", SchemeConfig::MOST_CYCLES),
        "give the cycles of one access",
    ))
}

/// Checks a mask of the ways for I/O data.
pub(super) fn check_io_ways(mask: u64, ways: u32) -> Result<()> {
    let all = u64::MAX >> (64 - ways);
    let rule = if mask & !all != 0 {
        "the mask must not name ways that the last-level cache lacks"
    } else if mask == 0 {
        "I/O data need at least one way"
    } else if mask == all {
        "the processor's data need at least one way"
    } else {
        return Ok(());
    };
    let remedy = format!("set some, and not all, of the lowest {ways} bits");
    Err(Problem::request(&format!("{mask:#x}"), "io-ways", rule, &remedy))
}

/// Checks the number of ways that writes of devices may bring lines into.
fn check_ddio_ways(count: u32, ways: u32) -> Result<()> {
    let rule = if count == 0 {
        "writes of devices need at least one way"
    } else if count > ways {
        "the last-level cache has fewer ways"
    } else if count == ways {
        "writes of devices must not take all ways: some are the processor's alone"
    } else {
        return Ok(());
    };
    let remedy = match ways {
        1 => "give the last-level cache at least 2 ways".to_owned(),
        2 => "take 1".to_owned(),
        _ => format!("take 1 to {}", ways - 1),
    };
    Err(Problem::request(&count.to_string(), "ddio-ways", rule, &remedy))
}

fn sets(size: Bytes, ways: u32, line: PowerOfTwo, cache: &str) -> Result<u64> {
    const MOST_WAYS: u32 = 64;
    if ways == 0 || ways > MOST_WAYS {
        return Err(Problem::request(
            &ways.to_string(),
            &format!("{cache}.ways"),
            "a cache for device data has at least one way and at most 64",
            "take 1 to 64",
        ));
    }
    let set = u64::from(ways) * line.bytes();
    if size.0 == 0 || !size.0.is_multiple_of(set) || !(size.0 / set).is_power_of_two() {
        return Err(Problem::request(
            &size.to_string(),
            &format!("{cache}.size"),
            "size / (ways × line) is the number of sets, which must be a power of two",
            &format!("take a power of two times {} (ways × line)", Bytes(set)),
        ));
    }
    if size.0 / line.bytes() > 1 << 32 {
        return Err(Problem::request(
            &size.to_string(),
            &format!("{cache}.size"),
            "a cache for device data has at most 2³² lines",
            &format!("take at most {}", Bytes(line.bytes() << 32)),
        ));
    }
    Ok(size.0 / set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_a_machine_that_is_accepted() {
        for &kind in SchemeKind::ALL {
            SchemeConfig::tb10(kind).check().unwrap();
            assert_eq!(SchemeKind::parse(kind.name(), "scheme").unwrap(), kind);
        }
        let problem = SchemeKind::parse("dca", "io.scheme").unwrap_err();
        assert!(problem.place == "io.scheme" && problem.remedy.contains("pbdc"), "{problem}");
    }

    #[test]
    fn each_wrong_setting_is_refused_at_its_place() {
        let refuses = |kind, change: fn(&mut SchemeConfig), place: &str, value: &str| {
            let mut config = SchemeConfig::tb10(kind);
            change(&mut config);
            let problem = config.check().unwrap_err();
            assert_eq!((problem.place.as_str(), problem.value.as_str()), (place, value), "{problem}");
        };
        use SchemeKind::{Ddc, Ddio, Pbdc, SnoopingCache};
        refuses(SnoopingCache, |c| c.last_level.size = Bytes(3 << 20), "last-level.size", "3MiB");
        refuses(SnoopingCache, |c| c.last_level.size = Bytes(0), "last-level.size", "0B");
        refuses(SnoopingCache, |c| c.last_level.ways = 0, "last-level.ways", "0");
        refuses(SnoopingCache, |c| c.last_level.ways = 65, "last-level.ways", "65");
        refuses(
            SnoopingCache,
            |c| c.last_level.replacement = Replacement::Fifo,
            "last-level.replacement",
            "fifo",
        );
        refuses(SnoopingCache, |c| c.line = PowerOfTwo::from_log2(13), "line", "8KiB");
        refuses(SnoopingCache, |c| c.line = PowerOfTwo::from_log2(4), "line", "16B");
        refuses(Ddc, |c| c.dma_cache.size = Bytes(96 << 10), "dma-cache.size", "96KiB");
        refuses(Ddc, |c| c.dma_cache.size = Bytes(1 << 60), "dma-cache.size", "1048576TiB");
        refuses(SnoopingCache, |c| c.last_level.cycles = 1_000_001, "last-level.cycles", "1000001");
        refuses(Ddc, |c| c.dma_cache.cycles = 1_000_001, "dma-cache.cycles", "1000001");
        refuses(Ddc, |c| c.dma_cache.ways = 0, "dma-cache.ways", "0");
        refuses(Pbdc, |c| c.io_ways = 0, "io-ways", "0x0");
        refuses(Pbdc, |c| c.io_ways = 0xffff, "io-ways", "0xffff");
        refuses(Pbdc, |c| c.io_ways = 0x1_0000, "io-ways", "0x10000");
        refuses(Ddio, |c| c.ddio_ways = 0, "ddio-ways", "0");
        refuses(Ddio, |c| c.ddio_ways = 16, "ddio-ways", "16");
        refuses(Ddio, |c| c.ddio_ways = 17, "ddio-ways", "17");
    }

    /// `flush` has no cache of its own: its caches belong to the front, which takes lines of any length.
    #[test]
    fn lines_below_32_bytes_are_refused_where_a_scheme_has_a_cache() {
        for &kind in SchemeKind::ALL {
            let with = |log2| SchemeConfig { line: PowerOfTwo::from_log2(log2), ..SchemeConfig::tb10(kind) };
            with(5).check().unwrap();
            match with(4).check() {
                Ok(()) => assert_eq!(kind, SchemeKind::Flush),
                Err(problem) => {
                    assert_ne!(kind, SchemeKind::Flush);
                    assert!(problem.rule.contains("at least 32 bytes"), "{problem}");
                    assert_eq!(problem.remedy, "take 32B or more");
                }
            }
        }
    }

    #[test]
    fn all_ways_for_ddio_are_refused_with_the_ways_that_there_are() {
        let refused = |ways: u32| {
            let mut config = SchemeConfig::tb10(SchemeKind::Ddio);
            (config.last_level.ways, config.ddio_ways) = (ways, ways);
            config.check().unwrap_err()
        };
        let problem = refused(16);
        assert!(problem.rule.contains("all ways") && problem.remedy == "take 1 to 15", "{problem}");
        assert_eq!(refused(2).remedy, "take 1");
        assert_eq!(refused(1).remedy, "give the last-level cache at least 2 ways");
        let mut config = SchemeConfig::tb10(SchemeKind::Ddio);
        config.ddio_ways = 15;
        config.check().unwrap();
    }
}
