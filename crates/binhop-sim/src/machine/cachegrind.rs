//! Checks of machines with `rules = "cachegrind"`: what such a machine may not have, and why.

use binhop_base::{Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, Next, Replacement, TagBy, TreeConfig, WritePolicy, WritebackOrder};

use super::PlacementConfig;

/// A choice that the rules leave no room for: its key, the value, and what holds instead.
type Misfit = (&'static str, String, &'static str);

/// The first choice of a cache that the rules leave no room for.
fn misfit(cache: &CacheConfig) -> Option<Misfit> {
    const STORE: &str =
        "a store is looked up and brings its line in, as a load does, and leaves no dirty line";
    const ADDRESS: &str = "there is one kind of address, and a plain index: physical = virtual";
    let replaces = cache.replacement != Replacement::Lru;
    let before = cache.writeback_order == WritebackOrder::BeforeFill;
    [
        (cache.write == WritePolicy::Through, "write", cache.write.name(), STORE),
        (!cache.allocate, "allocate", "false", STORE),
        (before, "writeback-order", cache.writeback_order.name(), STORE),
        (replaces, "replacement", cache.replacement.name(), "the line used least recently leaves"),
        (cache.inclusive, "inclusive", "true", "no cache takes lines out of another"),
        (cache.hashed, "hash", "true", ADDRESS),
        (cache.index == IndexBy::Virtual, "index", cache.index.name(), ADDRESS),
        (cache.tag != TagBy::Physical, "tag", cache.tag.name(), ADDRESS),
    ]
    .into_iter()
    .find_map(|(is, key, value, rule)| is.then(|| (key, value.to_string(), rule)))
}

/// Refuses what the rules do not know. `places`: where each cache stands in the description, as `place` does of the
/// whole.
pub(super) fn check(
    tree: &TreeConfig,
    places: &[String],
    placement: &PlacementConfig,
    place: &str,
) -> Result<()> {
    for (cache, place) in tree.caches.iter().zip(places) {
        if let Some((key, value, rule)) = misfit(cache) {
            let remedy = format!("leave {key} out, or the rules");
            return Err(refused(&value, &format!("{place}.{key}"), rule, &remedy));
        }
    }
    let last = tree.caches[tree.fetch].next;
    let split = tree.fetch != tree.data && tree.caches[tree.data].next == last;
    let one_last = matches!(last, Next::Cache(last) if tree.caches[last].next == Next::Memory);
    if !split || !one_last || tree.caches.len() != 3 {
        let names: Vec<&str> = tree.caches.iter().map(|cache| cache.name.as_str()).collect();
        return Err(refused(
            &names.join(", "),
            &format!("{place}: cache"),
            "a machine has one cache for instructions, one for data, and one behind both, before memory",
            "describe these three, or leave the rules out",
        ));
    }
    if placement.policy != "identity" {
        return Err(refused(
            placement.policy,
            &format!("{place}: placement.policy"),
            "no page is placed: physical = virtual",
            "add placement = { policy = \"identity\" }, or leave the rules out",
        ));
    }
    Ok(())
}

/// The refusal of write buffers.
pub(super) fn no_buffers(place: &str) -> Box<Problem> {
    refused(
        "write-buffer",
        place,
        "nothing is written behind level 1, so that no write waits",
        "leave the write buffers out, or the rules",
    )
}

fn refused(value: &str, place: &str, rule: &str, remedy: &str) -> Box<Problem> {
    Problem::request(value, place, &format!("with rules = \"cachegrind\" {rule}"), remedy)
}
