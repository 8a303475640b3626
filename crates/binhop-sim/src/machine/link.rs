//! `link` makes a tree of the caches that name each other, and checks the rules between caches.

use binhop_base::{Agent, Agents, Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{CostRule, IndexBy, Next, Rules, TagBy, TreeConfig};

use super::cache::{Cache, Serves, names, no_such_cache, position};
use super::keys::At;

/// Resolves the names into a tree, and checks the rules between caches.
pub(super) fn link(
    mut caches: Vec<Cache>,
    rules: Rules,
    page: PowerOfTwo,
    place: &str,
    cost_rule: CostRule,
    memory_cost: u64,
) -> Result<TreeConfig> {
    for index in 0..caches.len() {
        let At { value: next, place: at } = caches[index].next.clone();
        if next == "memory" {
            continue;
        }
        let Some(target) = position(&caches, &next) else {
            return Err(no_such_cache(&next, &at, &names(&caches), " and memory"));
        };
        let (line, below) = (caches[index].config.line.bytes(), caches[target].config.line.bytes());
        if line > below {
            return Err(Problem::request(
                &next,
                &at,
                &format!("its line ({}) is smaller than this cache's ({})", Bytes(below), Bytes(line)),
                "lines grow, or stay, on the way to memory",
            ));
        }
        caches[index].config.next = Next::Cache(target);
    }
    refuse_cycles(&caches)?;
    let fetch = serving(&caches, Serves::Fetch, place)?;
    let data = serving(&caches, Serves::Data, place)?;
    for (index, cache) in caches.iter().enumerate() {
        let asked = caches.iter().any(|sender| sender.config.next == Next::Cache(index));
        if cache.serves.is_none() && !asked {
            return Err(Problem::request(
                &cache.config.name,
                &cache.place,
                "this level serves nobody: no cache names it as next, and it serves no reference",
                "give it serves = …, name it as another cache's next, or leave it out",
            ));
        }
    }
    refuse_virtual_behind_physical(&caches)?;
    refuse_two_virtual_tags(&caches)?;
    let prefetches = caches.iter().any(|cache| cache.config.streams.is_some());
    Ok(TreeConfig {
        rules,
        caches: caches.into_iter().map(|cache| cache.config).collect(),
        page,
        fetch,
        data,
        memory_cost,
        cost_rule,
        agents: if prefetches { Agents::USER.with(Agent::Prefetch) } else { Agents::USER },
    })
}

fn refuse_cycles(caches: &[Cache]) -> Result<()> {
    for start in caches {
        let mut at = start.config.next;
        let mut path = vec![start.config.name.as_str()];
        while let Next::Cache(index) = at {
            path.push(&caches[index].config.name);
            if path.len() > caches.len() {
                return Err(Problem::request(
                    &path.join(" → "),
                    &start.next.place,
                    "the caches form a cycle; every chain of next ends at memory",
                    "let the last level have next = \"memory\"",
                ));
            }
            at = caches[index].config.next;
        }
    }
    Ok(())
}

/// Finds the cache that serves fetches, or data. Exactly one cache must.
fn serving(caches: &[Cache], what: Serves, place: &str) -> Result<usize> {
    let does = |cache: &Cache| {
        cache.serves.as_ref().is_some_and(|serves| [what, Serves::All].contains(&serves.value))
    };
    let mut found = caches.iter().enumerate().filter(|(_, cache)| does(cache));
    let Some((first, cache)) = found.next() else {
        return Err(Problem::request(
            what.name(),
            &format!("{place}: cache"),
            "no cache serves these references",
            &format!("give one cache serves = \"{}\" or \"all\"", what.name()),
        ));
    };
    match found.next() {
        None => Ok(first),
        Some((_, second)) => Err(Problem::request(
            &second.config.name,
            second.serves.as_ref().map_or("", |serves| &serves.place),
            &format!("{} already serves {}", cache.config.name, what.name()),
            "let each kind of reference be served by one cache",
        )),
    }
}

/// Refuses tags by address space beside tags of global addresses: a line has one name in all caches.
fn refuse_two_virtual_tags(caches: &[Cache]) -> Result<()> {
    let tagged = |tag: TagBy| caches.iter().find(|cache| cache.config.tag == tag);
    let (Some(by_space), Some(global)) = (tagged(TagBy::Asid), tagged(TagBy::Global)) else { return Ok(()) };
    Err(Problem::request(
        TagBy::Global.name(),
        &format!("{}.tag", global.place),
        &format!(
            "{} has tags by asid, and the virtual tags of a machine are of one kind",
            by_space.config.name
        ),
        "take tag = \"asid\" or tag = \"global\" for all caches with virtual tags",
    ))
}

fn refuse_virtual_behind_physical(caches: &[Cache]) -> Result<()> {
    for cache in caches {
        let needs_space = cache.config.index == IndexBy::Virtual || cache.config.tag != TagBy::Physical;
        let asks = |sender: &&Cache| {
            sender.config.next == position(caches, &cache.config.name).map_or(Next::Memory, Next::Cache)
        };
        if let Some(sender) = caches.iter().filter(asks).find(|sender| sender.config.tag == TagBy::Physical)
            && needs_space
        {
            return Err(Problem::request(
                &cache.config.name,
                &cache.place,
                &format!(
                    "it needs virtual addresses, and {} above it keeps {} tags: the virtual address of a victim is not known there",
                    sender.config.name,
                    sender.config.tag.name()
                ),
                &format!(
                    "give {} a virtual tag, or index and tag {} by physical addresses",
                    sender.config.name, cache.config.name
                ),
            ));
        }
    }
    Ok(())
}
