//! `cost` declares the keys of the section `[cost]`: the cycles of an access, by the level that serves it.

use binhop_base::{Problem, Result};
use binhop_hw::CostRule;

use super::cache::{Cache, names, no_such_cache, position};
use super::document::{Located, Value};
use super::forms::Rest;
use super::keys::{At, Form, Key, Resolved, keys};

keys! {
    /// The keys of `[cost]`.
    CostKeys of "cost" {
        mode: CostRule = "mode", absent "total",
            "whether a level's cycles are those of the whole access, or are added to the cycles of the levels before it";
        level_1: Cycles = "level-1", absent "0",
            "cycles of a hit in level 1, if the cycles of the levels behind include them (with mode = \"total\"); they are those of the instruction itself";
        levels: Rest<Cycles> = "LEVEL", "cycles of a demand access that this level serves: a cache's name or memory";
    }
}

/// `Cycles` are the cycles of an access that a level serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycles(u64);

impl Form for Cycles {
    fn form() -> String {
        "cycles".to_string()
    }

    fn read(located: Located, _: &Key) -> Result<Self> {
        match located.value {
            Value::Integer(cycles @ 0..=1_000_000_000) => Ok(Self(cycles as u64)),
            other => Err(Problem::request(
                &other.shown(),
                &located.place,
                "a cost is a whole number of cycles, at most a billion",
                "write it like memory = 200",
            )),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &self.0.to_string());
    }
}

/// Returns the cycles that an access takes beyond a hit in level 1, if its cycles include such a hit.
fn beyond(hit: u64, cycles: u64, place: &str) -> Result<u64> {
    match cycles.checked_sub(hit) {
        Some(beyond) if beyond > 0 || hit == 0 => Ok(beyond),
        _ => Err(Problem::request(
            &cycles.to_string(),
            place,
            &format!("the cycles of a level include those of a hit in level 1 (level-1 = {hit}), and more"),
            "make them larger, or leave level-1 out: then they are the cycles beyond such a hit",
        )),
    }
}

/// Gives each level its cost, and sorts the costs in the order of the levels. Returns the rule and the cycles
/// of memory.
pub(super) fn add_costs(cost: &mut At<CostKeys>, caches: &mut [Cache]) -> Result<(CostRule, u64)> {
    let place = &cost.place;
    let CostKeys { mode, level_1: Cycles(level_1), levels } = &mut cost.value;
    let included = if *mode == CostRule::Total { *level_1 } else { 0 };
    let mut memory = None;
    for (name, At { value: Cycles(cycles), place }) in &levels.0 {
        match position(caches, name) {
            Some(cache) if caches[cache].serves.is_some() => {
                return Err(Problem::request(
                    name,
                    place,
                    "a level the processor asks serves within the instruction's own cycle",
                    "give costs to the levels behind it, and to memory",
                ));
            }
            Some(cache) => caches[cache].config.cost = beyond(included, *cycles, place)?,
            None if name == "memory" => memory = Some(beyond(included, *cycles, place)?),
            None => return Err(no_such_cache(name, place, &names(caches), ", memory; and the key mode")),
        }
    }
    let remedy =
        |name: &str| format!("add {name} = … (cycles), or leave [cost] out: then no CPI is reported");
    let is_free = |cache: &&Cache| cache.serves.is_none() && cache.config.cost == 0;
    if let Some(Cache { config, .. }) = caches.iter().find(is_free) {
        return Err(Problem::request(
            "missing",
            &format!("{place}: {}", config.name),
            "every level behind the first has a cost, or none has",
            &remedy(&config.name),
        ));
    }
    let memory = memory.ok_or_else(|| {
        let rule = "memory must be given: the cycles of a demand access that memory serves";
        Problem::request("missing", &format!("{place}: memory"), rule, &remedy("memory"))
    })?;
    levels.0.sort_by_key(|(name, _)| position(caches, name).unwrap_or(caches.len()));
    Ok((*mode, memory))
}
