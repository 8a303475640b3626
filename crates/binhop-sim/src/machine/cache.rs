//! One section `[cache.NAME]`: its keys, and the rules that it alone can break.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, Next, Replacement, TagBy, WritePolicy, WritebackOrder};

use super::document::{Located, Section, Value};

/// A cache section as it was read; `serves` and `next` are names that are not resolved yet.
pub(super) struct Cache {
    pub(super) config: CacheConfig,
    pub(super) place: String,
    pub(super) serves: Option<(Serves, String)>,
    pub(super) next: (String, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    Fetch,
    Data,
    All,
}

const SERVES: [Serves; 3] = [Serves::Fetch, Serves::Data, Serves::All];

impl Serves {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Data => "data",
            Self::All => "all",
        }
    }
}

/// Line numbers of 64-bit addresses must leave room for what filters note beside them.
const LEAST_LINE: u64 = 8;

pub(super) fn read_cache(name: String, located: Located, page: PowerOfTwo) -> Result<Cache> {
    if name == "memory" || name.is_empty() || name.contains(['.', '<', '>']) {
        return Err(Problem::request(
            &name,
            &located.place,
            "a cache's name is part of every metric's name, and memory is taken",
            "use letters, digits and dashes",
        ));
    }
    let mut cache = Section::open("cache", located)?;
    let place = cache.place().to_string();
    let size = cache.size("size")?;
    let (size, size_place) = cache.required("size", size)?;
    let line = read_line(&mut cache, page)?;
    let ways = read_ways(&mut cache, size, &size_place, line)?;
    let serves = cache.choice("serves", &SERVES, Serves::name)?;
    let next = cache.text("next")?;
    let next = cache.required("next", next)?;
    let config = CacheConfig {
        name,
        size,
        line,
        ways,
        index: cache.choice_or("index", IndexBy::ALL, IndexBy::name, IndexBy::Physical)?,
        hashed: cache.boolean("hash")?.unwrap_or(false),
        tag: cache.choice_or("tag", TagBy::ALL, TagBy::name, TagBy::Physical)?,
        write: cache.choice_or("write", WritePolicy::ALL, WritePolicy::name, WritePolicy::Back)?,
        allocate: cache.boolean("allocate")?.unwrap_or(true),
        replacement: cache.choice_or("replacement", Replacement::ALL, Replacement::name, Replacement::Lru)?,
        writeback_order: cache.choice_or(
            "writeback-order",
            WritebackOrder::ALL,
            WritebackOrder::name,
            WritebackOrder::AfterFill,
        )?,
        inclusive: cache.boolean("inclusive")?.unwrap_or(false),
        write_buffer: None,
        cost: 0,
        next: Next::Memory,
    };
    cache.finish()?;
    check_choices(&config, &place)?;
    Ok(Cache { config, place, serves, next })
}

/// Checks the rules that two keys of one cache can break together.
fn check_choices(config: &CacheConfig, place: &str) -> Result<()> {
    if config.replacement == Replacement::Plru && !config.ways.is_power_of_two() {
        return Err(Problem::request(
            &config.ways.to_string(),
            &format!("{place}.ways"),
            "tree-PLRU needs a power of two of ways",
            "take a power of two, or another replacement",
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

/// The most lines of a page: enough for 1 GiB pages of 64-byte lines. Preparation numbers the lines of a page in as many bits.
pub(crate) const MOST_LINES: u64 = 1 << 24;

fn read_line(cache: &mut Section, page: PowerOfTwo) -> Result<PowerOfTwo> {
    let line = cache.size("line")?;
    let (size, place) = cache.required("line", line)?;
    let line = PowerOfTwo::check(size, "a line", &place)?;
    let wrong = |rule: &str, remedy: &str| Err(Problem::request(&size.to_string(), &place, rule, remedy));
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

fn read_ways(cache: &mut Section, size: Bytes, size_place: &str, line: PowerOfTwo) -> Result<u32> {
    let line = line.bytes();
    let wrong = |rule: &str, remedy: &str| Problem::request(&size.to_string(), size_place, rule, remedy);
    let ways = match cache.take("ways") {
        None => 1,
        Some(Located { value: Value::Text(text), .. }) if text == "full" => {
            if size.0 == 0 || !size.0.is_multiple_of(line) {
                return Err(wrong(
                    &format!("a fully associative cache holds a whole number of lines ({})", Bytes(line)),
                    "make its size a multiple of the line",
                ));
            }
            size.0 / line
        }
        Some(Located { value: Value::Integer(ways @ 1..), .. }) => ways as u64,
        Some(other) => {
            return Err(Problem::request(
                &other.value.shown(),
                &other.place,
                "ways is a whole number from 1, or \"full\"",
                "ways = 1 is direct-mapped",
            ));
        }
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

pub(super) fn position(caches: &[Cache], name: &str) -> Option<usize> {
    caches.iter().position(|cache| cache.config.name == name)
}

/// The refusal of a cache's name that is none.
pub(super) fn no_such_cache(name: &str, place: &str, caches: &[Cache], also: &str) -> Box<Problem> {
    let names: Vec<&str> = caches.iter().map(|cache| cache.config.name.as_str()).collect();
    let remedy = match crate::nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => "name one of them".to_string(),
    };
    Problem::request(
        name,
        place,
        &format!("no cache has this name; there are {}{also}", names.join(", ")),
        &remedy,
    )
}
