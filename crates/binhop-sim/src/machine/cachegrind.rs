//! `check` refuses the settings that contradict `rules = "cachegrind"`, with the reason.

use binhop_base::{Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, Next, Replacement, TagBy, TreeConfig, WritePolicy, WritebackOrder};

use super::placement::PlacementConfig;

/// Returns the rule by which cachegrind decides a key of a cache; `None` if the user may choose.
fn rule_for(key: &str) -> Option<&'static str> {
    match key {
        "write" | "allocate" | "writeback-order" => {
            Some("a store is looked up and brings its line in, as a load does, and leaves no dirty line")
        }
        "replacement" => Some("a cache evicts the least recently used line"),
        "inclusive" => Some("no cache invalidates lines of another cache"),
        "index" | "hash" | "tag" => {
            Some("there is one kind of address, and a plain index: physical = virtual")
        }
        "serves" | "size" | "line" | "ways" | "next" => None,
        other => unreachable!("cachegrind.rs does not tell whether its rules decide cache.{other}"),
    }
}

/// Returns whether the rules decide this key of a cache.
pub(super) fn decides(key: &str) -> bool {
    rule_for(key).is_some()
}

/// Returns the first key of a cache whose value the rules contradict, and this value.
fn misfit(cache: &CacheConfig) -> Option<(&'static str, &'static str)> {
    // There is no `..`, so a new choice of a cache does not compile until it is decided here.
    let CacheConfig {
        name: _,
        size: _,
        line: _,
        ways: _,
        index,
        hashed,
        tag,
        write,
        allocate,
        replacement,
        writeback_order,
        inclusive,
        write_buffer: _,
        streams: _,
        cost: _,
        next: _,
    } = cache;
    [
        (*write == WritePolicy::Through, "write", write.name()),
        (!allocate, "allocate", "false"),
        (*writeback_order == WritebackOrder::BeforeFill, "writeback-order", writeback_order.name()),
        (*replacement != Replacement::Lru, "replacement", replacement.name()),
        (*inclusive, "inclusive", "true"),
        (*hashed, "hash", "true"),
        (*index == IndexBy::Virtual, "index", index.name()),
        (*tag != TagBy::Physical, "tag", tag.name()),
    ]
    .into_iter()
    .find_map(|(contradicts, key, value)| contradicts.then_some((key, value)))
}

/// Refuses a machine that contradicts the rules. `places` are the places of the caches in the description, and
/// `place` is the place of the description itself.
pub(super) fn check(
    tree: &TreeConfig,
    places: &[String],
    placement: &PlacementConfig,
    place: &str,
) -> Result<()> {
    for (cache, place) in tree.caches.iter().zip(places) {
        if let Some((key, value)) = misfit(cache) {
            let rule = rule_for(key).expect("the rules decide a key that they contradict");
            let remedy = format!("leave {key} out, or the rules");
            return Err(refused(value, &format!("{place}.{key}"), rule, &remedy));
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

/// Returns the refusal of write buffers.
pub(super) fn no_buffers(place: &str) -> Box<Problem> {
    refused(
        "write-buffer",
        place,
        "nothing is written behind level 1, so that no write waits",
        "leave the write buffers out, or the rules",
    )
}

/// Returns the refusal of stream buffers.
pub(super) fn no_streams(place: &str) -> Box<Problem> {
    refused("stream-buffers", place, "nothing is fetched ahead", "leave the stream buffers out, or the rules")
}

fn refused(value: &str, place: &str, rule: &str, remedy: &str) -> Box<Problem> {
    Problem::request(value, place, &format!("with rules = \"cachegrind\" {rule}"), remedy)
}
