//! From a description as typed to a machine that can be built: every rule is checked here, once.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{CostRule, Rules, TreeConfig, WriteBufferConfig, WritePolicy};

use super::cache::{Cache, no_such_cache, position, read_cache};
use super::cachegrind;
use super::document::{Located, Section, Value};
use super::link::link;
use super::placement::read_placement;
use super::{Memory, PlacementConfig};

/// Everything a description resolves to.
pub(super) struct Checked {
    pub(super) name: Option<String>,
    pub(super) memory: Memory,
    pub(super) placement: PlacementConfig,
    pub(super) tree: TreeConfig,
    pub(super) has_cost: bool,
    pub(super) notes: Vec<String>,
}

pub(super) fn check(root: Located) -> Result<Checked> {
    let mut top = Section::open("", root)?;
    let name = top.text("name")?.map(|(name, _)| name);
    let rules = top.choice_or("rules", Rules::ALL, Rules::name, Rules::Lines)?;
    let memory = top.take("memory");
    let memory = Section::open("memory", top.required("memory", memory)?)?;
    let placement = top.take("placement");
    let caches = top.take("cache");
    let caches = top.required("cache", caches)?;
    let buffers = top.take("write-buffer");
    let cost = top.take("cost");
    let place = top.place().to_string();
    top.finish()?;

    let (page, size) = read_memory(memory)?;
    let mut caches = read_caches(caches, page)?;
    if let (Some(buffers), Rules::Cachegrind) = (&buffers, rules) {
        return Err(cachegrind::no_buffers(&buffers.place));
    }
    if let Some(buffers) = buffers {
        read_buffers(buffers, &mut caches)?;
    }
    let has_cost = cost.is_some();
    let (cost_rule, memory_cost) = match cost {
        Some(cost) => read_cost(cost, &mut caches)?,
        None => (CostRule::Total, 0),
    };
    let places = caches.iter().map(|cache| cache.place.clone()).collect::<Vec<_>>();
    let tree = link(caches, rules, page, &place, cost_rule, memory_cost)?;
    let (placement, memory, notes) = read_placement(placement, page, size, &tree, &place)?;
    if rules == Rules::Cachegrind {
        cachegrind::check(&tree, &places, &placement, &place)?;
    }
    Ok(Checked { name, memory, placement, tree, has_cost, notes })
}

fn read_memory(mut memory: Section) -> Result<(PowerOfTwo, Option<(Bytes, String)>)> {
    let page = memory.size("page")?;
    let (page, page_place) = memory.required("page", page)?;
    let page = PowerOfTwo::check(page, "a page", &page_place)?;
    let size = memory.size("size")?;
    memory.finish()?;
    Ok((page, size))
}

fn read_caches(caches: Located, page: PowerOfTwo) -> Result<Vec<Cache>> {
    let place = caches.place.clone();
    let mut section = Section::open("cache", caches)?;
    let named = section.named();
    if named.is_empty() || named.len() > 255 {
        return Err(Problem::request(
            &named.len().to_string(),
            &place,
            "a machine has 1 to 255 caches",
            "add a section like [cache.l1]",
        ));
    }
    named.into_iter().map(|(name, located)| read_cache(name, located, page)).collect()
}

fn read_buffers(buffers: Located, caches: &mut [Cache]) -> Result<()> {
    let mut section = Section::open("write-buffer", buffers)?;
    for (name, located) in section.named() {
        let Some(behind) = position(caches, &name) else {
            return Err(no_such_cache(&name, &located.place, caches, ""));
        };
        let mut buffer = Section::open("write-buffer", located)?;
        let place = buffer.place().to_string();
        let entries = buffer.number("entries", 1 << 20)?;
        let (entries, entries_place) = buffer.required("entries", entries)?;
        let drain = buffer.number("drain", 1 << 30)?;
        let (drain, _) = buffer.required("drain", drain)?;
        buffer.finish()?;
        if entries == 0 {
            let remedy = "give it an entry, or leave the buffer out";
            return Err(Problem::request(
                "0",
                &entries_place,
                "a write buffer holds at least one write",
                remedy,
            ));
        }
        let config = &mut caches[behind].config;
        if config.write != WritePolicy::Through {
            return Err(Problem::request(
                &name,
                &place,
                "a write buffer stands behind a write-through cache",
                &format!("add write = \"through\" to [cache.{name}], or leave the buffer out"),
            ));
        }
        config.write_buffer = Some(WriteBufferConfig { entries, drain_cycles: u64::from(drain) });
    }
    Ok(())
}

fn read_cost(cost: Located, caches: &mut [Cache]) -> Result<(CostRule, u64)> {
    let mut section = Section::open("cost", cost)?;
    let place = section.place().to_string();
    let rule = section.choice_or("mode", CostRule::ALL, CostRule::name, CostRule::Total)?;
    let mut memory = None;
    for (name, located) in section.named() {
        let Value::Integer(cycles @ 0..=1_000_000_000) = located.value else {
            return Err(Problem::request(
                &located.value.shown(),
                &located.place,
                "a cost is a whole number of cycles, at most a billion",
                "write it like memory = 200",
            ));
        };
        match position(caches, &name) {
            Some(cache) if caches[cache].serves.is_some() => {
                return Err(Problem::request(
                    &name,
                    &located.place,
                    "a level the processor asks serves within the instruction's own cycle",
                    "give costs to the levels behind it, and to memory",
                ));
            }
            Some(cache) => caches[cache].config.cost = cycles as u64,
            None if name == "memory" => memory = Some(cycles as u64),
            None => return Err(no_such_cache(&name, &located.place, caches, ", memory; and the key mode")),
        }
    }
    let free = |cache: &&Cache| cache.serves.is_none() && cache.config.cost == 0;
    if let Some(cache) = caches.iter().find(|cache| free(cache)) {
        let name = &cache.config.name;
        return Err(Problem::request(
            "missing",
            &format!("{place}: {name}"),
            "every level behind the first has a cost, or none has",
            &format!("add {name} = … (cycles), or leave [cost] out: then no CPI is reported"),
        ));
    }
    let memory = section.required("LEVEL", memory).map_err(|mut problem| {
        problem.place = format!("{place}: memory");
        problem.remedy = "add memory = … (cycles), or leave [cost] out: then no CPI is reported".to_string();
        problem
    })?;
    Ok((rule, memory))
}
