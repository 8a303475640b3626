//! `cache` declares the keys of a section `[cache.NAME]`, and checks the rules that concern one cache.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, Next, Replacement, TagBy, WritePolicy, WritebackOrder};

use super::document::{Located, Value};
use super::forms::{Named, choice};
use super::keys::{At, Form, Key, Resolved, keys};

keys! {
    /// The keys of one `[cache.NAME]`.
    CacheKeys of "cache" {
        serves: Option<At<Serves>> = "serves", absent "requests of other caches only",
            "the references of the processor that the cache serves";
        size: At<Bytes> = "size", form "a size, line × ways × a power of two",
            "bytes of data; size / (line × ways) is the number of sets. With ways = \"full\" any multiple of the line";
        line: At<Bytes> = "line", form "a size, a power of two, 8B to memory.page",
            "bytes of a line; a page holds at most 2^24 of them";
        ways: Associativity = "ways", absent "1", "lines in a set; only replacement = \"plru\" needs a power of two";
        index: IndexBy = "index", form "\"physical\" or \"virtual\"", absent "physical",
            "the address that selects the set";
        hash: bool = "hash", absent "false", "whether the upper address bits are folded into the index";
        tag: TagBy = "tag", absent "physical",
            "what identifies a line: its physical address, its virtual address with the address space, or its global virtual address";
        write: WritePolicy = "write", absent "back", "whether written data stays in the cache until its line is evicted, or goes to the next level at once";
        allocate: bool = "allocate", absent "true", "whether a write that misses allocates the line";
        replacement: Replacement = "replacement", absent "lru",
            "the policy that chooses the victim of a set";
        writeback_order: WritebackOrder = "writeback-order", absent "after-fill",
            "whether a dirty victim is written back before or after the new line is read";
        inclusive: bool = "inclusive", absent "false",
            "whether the eviction of a line also invalidates it in the caches above";
        next: At<String> = "next", form "a cache's name or \"memory\"", "the level that serves the misses";
    }
}

/// `Serves` states which references of the processor a cache answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    Fetch,
    Data,
    All,
}

impl Serves {
    const ALL: &'static [Self] = &[Self::Fetch, Self::Data, Self::All];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Data => "data",
            Self::All => "all",
        }
    }
}

choice!(Serves);

/// `Associativity` is the associativity of a cache, as typed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Associativity {
    Ways(u64),
    /// One set holds all lines of the cache.
    Full,
}

impl Form for Associativity {
    fn form() -> String {
        "a whole number or \"full\"".to_string()
    }

    fn read(located: Located, _: &Key) -> Result<Self> {
        match located.value {
            Value::Text(text) if text == "full" => Ok(Self::Full),
            Value::Integer(ways @ 1..) => Ok(Self::Ways(ways as u64)),
            other => Err(Problem::request(
                &other.shown(),
                &located.place,
                "ways is a whole number from 1, or \"full\"",
                "ways = 1 is direct-mapped",
            )),
        }
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        match self {
            Self::Ways(ways) => resolved.line(name, &ways.to_string()),
            Self::Full => resolved.line(name, "\"full\""),
        }
    }
}

/// `Cache` is a cache that keeps the rules of its section. `serves` and `next` are names that are not
/// resolved yet.
pub(super) struct Cache {
    pub(super) config: CacheConfig,
    pub(super) place: String,
    pub(super) serves: Option<At<Serves>>,
    pub(super) next: At<String>,
}

/// The maximum number of lines in a page: enough for 1 GiB pages of 64-byte lines. Preparation numbers the
/// lines of a page in 24 bits.
pub(crate) const MOST_LINES: u64 = 1 << 24;

/// The minimum size of a line in bytes. Line numbers then leave room for the bits that filters keep beside
/// them.
const LEAST_LINE: u64 = 8;

/// Checks all caches, and replaces `ways = "full"` by the number of lines.
pub(super) fn check_caches(caches: &mut At<Named<CacheKeys>>, page: PowerOfTwo) -> Result<Vec<Cache>> {
    let named = &mut caches.value.0;
    if named.is_empty() || named.len() > 255 {
        return Err(Problem::request(
            &named.len().to_string(),
            &caches.place,
            "a machine has 1 to 255 caches",
            "add a section like [cache.l1]",
        ));
    }
    named.iter_mut().map(|(name, keys)| check_cache(name, keys, page)).collect()
}

fn check_cache(name: &str, keys: &mut At<CacheKeys>, page: PowerOfTwo) -> Result<Cache> {
    let place = &keys.place;
    if name == "memory" || name.is_empty() || name.contains(['.', '<', '>']) {
        return Err(Problem::request(
            name,
            place,
            "a cache's name is part of every metric's name, and memory is taken",
            "use letters, digits and dashes",
        ));
    }
    let line = check_line(&keys.value.line, page)?;
    let ways = count_ways(keys.value.ways, &keys.value.size, line)?;
    keys.value.ways = Associativity::Ways(ways.into());
    // There is no `..`, so a new key does not compile until it is used here.
    let CacheKeys {
        serves,
        size,
        line: _,
        ways: _,
        index,
        hash,
        tag,
        write,
        allocate,
        replacement,
        writeback_order,
        inclusive,
        next,
    } = keys.value.clone();
    let config = CacheConfig {
        name: name.to_string(),
        size: size.value,
        line,
        ways,
        index,
        hashed: hash,
        tag,
        write,
        allocate,
        replacement,
        writeback_order,
        inclusive,
        write_buffer: None,
        streams: None,
        cost: 0,
        next: Next::Memory,
    };
    check_choices(&config, place)?;
    Ok(Cache { config, place: place.clone(), serves, next })
}

/// Checks the rules between two keys of one cache.
fn check_choices(config: &CacheConfig, place: &str) -> Result<()> {
    if let Some(rule) = config.replacement.refuses(config.ways) {
        return Err(Problem::request(
            &config.ways.to_string(),
            &format!("{place}.ways"),
            rule,
            "take another number of ways, or another replacement",
        ));
    }
    if config.tag == TagBy::Global && config.index == IndexBy::Physical {
        return Err(Problem::request(
            "global",
            &format!("{place}.tag"),
            "a global tag goes with a virtual index",
            "add index = \"virtual\"",
        ));
    }
    Ok(())
}

fn check_line(typed: &At<Bytes>, page: PowerOfTwo) -> Result<PowerOfTwo> {
    let line = PowerOfTwo::check(typed.value, "a line", &typed.place)?;
    let wrong = |rule: &str, remedy: &str| {
        Err(Problem::request(&typed.value.to_string(), &typed.place, rule, remedy))
    };
    let shown = Bytes(page.bytes());
    if line.bytes() < LEAST_LINE {
        return wrong(&format!("a line has at least {LEAST_LINE} bytes"), "take \"8B\" or more");
    }
    if line > page {
        let rule = format!("a line is no larger than a page ({shown})");
        return wrong(&rule, "make the line smaller or memory.page larger");
    }
    if page.bytes() / line.bytes() > MOST_LINES {
        let rule = format!("a page ({shown}) holds at most {MOST_LINES} lines");
        return wrong(&rule, "make the line larger or memory.page smaller");
    }
    Ok(line)
}

/// Counts the ways, and checks that the number of sets is whole and a power of two.
fn count_ways(ways: Associativity, typed: &At<Bytes>, line: PowerOfTwo) -> Result<u32> {
    let (size, line) = (typed.value, line.bytes());
    let wrong = |rule: &str, remedy: &str| Problem::request(&size.to_string(), &typed.place, rule, remedy);
    let ways = match ways {
        Associativity::Ways(ways) => ways,
        Associativity::Full if size.0 == 0 || !size.0.is_multiple_of(line) => {
            return Err(wrong(
                &format!("a fully associative cache holds a whole number of lines ({})", Bytes(line)),
                "make its size a multiple of the line",
            ));
        }
        Associativity::Full => size.0 / line,
    };
    let least = ways.saturating_mul(line);
    if size.0 < least {
        return Err(wrong(
            &format!("a cache holds at least one set: ways × line = {}", Bytes(least)),
            "make the cache larger, or give it fewer ways",
        ));
    }
    if !size.0.is_multiple_of(least) || !(size.0 / least).is_power_of_two() {
        return Err(wrong(
            &format!(
                "size / (ways × line) is the number of sets, a power of two; ways × line = {}",
                Bytes(least)
            ),
            &format!(
                "take {} or {}",
                Bytes(least << (size.0 / least).ilog2()),
                Bytes(least << ((size.0 / least).ilog2() + 1))
            ),
        ));
    }
    u32::try_from(ways).map_err(|_| wrong("a set holds fewer than 2^32 lines", "give the cache fewer ways"))
}

pub(super) fn names(caches: &[Cache]) -> Vec<&str> {
    caches.iter().map(|cache| cache.config.name.as_str()).collect()
}

pub(super) fn position(caches: &[Cache], name: &str) -> Option<usize> {
    caches.iter().position(|cache| cache.config.name == name)
}

/// Returns the refusal of a name that no cache has.
pub(super) fn no_such_cache(name: &str, place: &str, caches: &[&str], also: &str) -> Box<Problem> {
    let remedy = match crate::nearest(name, caches.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => "name one of them".to_string(),
    };
    Problem::request(
        name,
        place,
        &format!("no cache has this name; there are {}{also}", caches.join(", ")),
        &remedy,
    )
}
