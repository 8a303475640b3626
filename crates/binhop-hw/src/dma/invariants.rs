//! `check_scheme` checks the invariants that hold after every event. Resident lines are counted by looking at them, so
//! that an invariant can fail.

use std::collections::BTreeSet;

use binhop_base::{Problem, Result};

use super::{HeldLine, Scheme, SchemeConfig, SchemeKind, ServedBy, TapClass, counters::LineCounters};
use crate::WritePolicy;

/// Checks the invariants of a scheme that was made of this configuration.
///
/// # Errors
/// An invariant does not hold: the problem names the cache and the invariant.
pub fn check_scheme(config: &SchemeConfig, scheme: &dyn Scheme) -> Result<()> {
    let contents = scheme.contents();
    let (mut written_back, mut purged_dirty) = (0, 0);
    for cache in [ServedBy::LastLevel, ServedBy::DmaCache] {
        if let Some(counters) = scheme.line_counters(cache) {
            check_lines(cache, counters, &contents)?;
            written_back += counters.written_back;
            purged_dirty += counters.purged_dirty;
        }
    }
    let lines: BTreeSet<u64> = contents.iter().map(|held| held.line).collect();
    equal("caches", "a line is in one way of one cache", lines.len() as u64, &[contents.len() as u64])?;

    let counters = scheme.counters();
    let fates = counters.fates;
    let invariant = "lines that devices wrote = fates that ended + lines still unread + lines purged unread";
    equal("device data", invariant, fates.unread(), &[scheme.unread_lines(), fates.purged_unread])?;
    let writes = counters[TapClass::DmaWrite].references;
    equal("device data", "every device's write begins a fate", fates.written, &[writes])?;
    for &class in TapClass::ALL {
        let of = &counters[class];
        let hits = of.hits_last_level + of.hits_dma_cache;
        if hits > of.references {
            return Err(broken(class.name(), "hits ≤ references", hits, of.references));
        }
    }
    let writes_through = match config.kind {
        SchemeKind::Off | SchemeKind::SnoopingCache | SchemeKind::PrefetchHint | SchemeKind::Flush => true,
        SchemeKind::Ddio => false,
        SchemeKind::SharedCache | SchemeKind::Ddc | SchemeKind::Pbdc => config.write == WritePolicy::Through,
    };
    let written: u64 = counters.classes.iter().map(|class| class.memory_writes).sum();
    let invariant = "writes to memory = dirty lines written back + device data written through + dirty lines of the front";
    let through = if writes_through { writes } else { 0 };
    // Under `flush` there is no last-level cache here, and what the front passes down is written to memory.
    let passed_down =
        if config.kind == SchemeKind::Flush { counters[TapClass::CpuWrite].references } else { 0 };
    let data = counters.device_data;
    if purged_dirty > data.system_writes {
        let invariant = "dirty lines purged ≤ lines that the system wrote";
        return Err(broken("memory", invariant, purged_dirty, data.system_writes));
    }
    let of_front = data.system_writes - purged_dirty;
    equal("memory", invariant, written, &[written_back, through, passed_down, of_front])?;
    if matches!(config.kind, SchemeKind::Ddc | SchemeKind::Pbdc) {
        let crossed = data.cpu_lines_evicted + data.device_lines_evicted;
        equal("caches", "separated data do not evict each other", crossed, &[])?;
    }
    Ok(())
}

fn check_lines(cache: ServedBy, counters: &LineCounters, contents: &[HeldLine]) -> Result<()> {
    let place = if cache == ServedBy::DmaCache { "dma-cache" } else { "last-level" };
    let here = || contents.iter().filter(|held| held.cache == cache);
    let LineCounters { fills, evictions, invalidated, flushed, purged, .. } = *counters;
    let LineCounters { dirtied, written_back, passed_on, .. } = *counters;
    equal(
        place,
        "fills = evictions + invalidated + flushed + purged + resident",
        fills,
        &[evictions, invalidated, flushed, purged, here().count() as u64],
    )?;
    equal(
        place,
        "lines made dirty = written back + passed on + resident dirty",
        dirtied,
        &[written_back, passed_on, here().filter(|held| held.state.is_dirty()).count() as u64],
    )
}

fn equal(place: &str, invariant: &str, left: u64, right: &[u64]) -> Result<()> {
    let sum = right.iter().sum();
    if left == sum { Ok(()) } else { Err(broken(place, invariant, left, sum)) }
}

fn broken(place: &str, invariant: &str, left: u64, right: u64) -> Box<Problem> {
    Problem::run(
        &format!("{left} against {right}"),
        place,
        invariant,
        "this is a defect of binhop: please report it with the machine and the trace",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_policy_decides_what_devices_may_write_to_memory() {
        use crate::{FixedLatency, make_scheme};
        let mut memory = FixedLatency { cycles: 1 };
        for kind in [SchemeKind::SharedCache, SchemeKind::Ddc, SchemeKind::Pbdc] {
            let through = SchemeConfig::tb10(kind);
            let back = SchemeConfig { write: WritePolicy::Back, ..through };
            for (config, other) in [(through, back), (back, through)] {
                let mut scheme = make_scheme(&config).unwrap();
                scheme.device_write(1, true, &mut memory);
                check_scheme(&config, &*scheme).unwrap();
                let problem = check_scheme(&other, &*scheme).unwrap_err();
                assert!(problem.place == "memory" && problem.rule.contains("writes to memory"), "{problem}");
            }
        }
    }

    #[test]
    fn each_invariant_about_lines_can_fail_and_names_the_cache() {
        let sound = LineCounters {
            fills: 3,
            evictions: 2,
            dirtied: 2,
            written_back: 2,
            invalidated: 1,
            ..LineCounters::default()
        };
        check_lines(ServedBy::DmaCache, &sound, &[]).unwrap();
        let breaks = |change: fn(&mut LineCounters), invariant: &str| {
            let mut counters = sound;
            change(&mut counters);
            let problem = check_lines(ServedBy::DmaCache, &counters, &[]).unwrap_err();
            assert!(problem.rule.contains(invariant) && problem.place == "dma-cache", "{problem}");
        };
        breaks(|c| c.fills += 1, "fills");
        breaks(|c| c.evictions -= 1, "fills");
        breaks(|c| c.flushed += 1, "fills");
        breaks(|c| c.purged += 1, "fills");
        breaks(|c| c.dirtied += 1, "made dirty");
        breaks(|c| c.passed_on += 1, "made dirty");
        breaks(|c| c.written_back -= 1, "made dirty");
    }
}
