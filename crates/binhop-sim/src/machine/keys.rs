//! Every key a machine description may hold. Checking, help, documentation and tests walk this list.

/// One key of a machine description.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section: `""` for the top level, `"cache"` for every `[cache.NAME]`, ….
    pub section: &'static str,
    /// Its name in that section.
    pub name: &'static str,
    /// The form of its value.
    pub form: &'static str,
    /// The value that holds when the key is absent; empty if the key must be given.
    pub default: &'static str,
    /// Its meaning, in words.
    pub meaning: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    form: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { section, name, form, default, meaning }
}

/// Every key, section by section.
pub const KEYS: &[Key] = &[
    key("", "name", "text", "the file's name", "what results call this machine"),
    key(
        "",
        "rules",
        "\"lines\" or \"cachegrind\"",
        "lines",
        "by what rules references become accesses; cachegrind: see below",
    ),
    key("", "memory", "a section", "", "physical memory and its pages"),
    key("", "placement", "a section", "{ policy = \"random\" }", "which frame a page gets"),
    key("", "cache", "sections", "", "the caches: one [cache.NAME] for each"),
    key(
        "",
        "write-buffer",
        "sections",
        "none",
        "write buffers: one [write-buffer.CACHE] behind a write-through cache",
    ),
    key("", "cost", "a section", "no CPI is reported", "cycles of an access, by the level that serves it"),
    key(
        "memory",
        "size",
        "a size",
        "must be given unless placement.policy is identity",
        "bytes of physical memory",
    ),
    key("memory", "page", "a size, a power of two", "", "bytes of a page, and of a frame"),
    key(
        "placement",
        "policy",
        "a policy's name",
        "random",
        "the rule that chooses the frame (binhop policies)",
    ),
    key(
        "placement",
        "pool",
        "a size, whole frames",
        "4MiB, or all of memory if that is less",
        "how much memory a placement may choose from: the least recently used frames",
    ),
    key(
        "placement",
        "bins",
        "a whole number, a power of two",
        "those of tuned-for; without it, the most that a physically indexed cache of this machine has",
        "how many bins a policy spreads pages over: the low bits of the frame number",
    ),
    key(
        "placement",
        "tuned-for",
        "a cache's name",
        "none",
        "the cache whose bins (size / (ways × page)) bins and colors are, where they are not given",
    ),
    key(
        "placement",
        "colors",
        "a whole number",
        "as many as bins would be, but no more than memory has frames",
        "how many lists of frames there are (colored-lists)",
    ),
    key(
        "placement",
        "pid-hash",
        "true or false",
        "false",
        "whether a hash of the address space's number enters into a page's color (colored-lists)",
    ),
    key(
        "placement",
        "sharing",
        "\"segment\" or \"space\"",
        "segment",
        "by what a policy keeps its state where address spaces share pages",
    ),
    key(
        "placement",
        "fragmentation",
        "a whole number from 0 to 100",
        "0: as after boot",
        "percent of memory scattered with older pages at the start (buddy)",
    ),
    key(
        "placement",
        "file",
        "a path",
        "must be given if placement.policy is recorded",
        "the placements that a recorded placement repeats: Parquet, or a map of addresses as text (placement.md)",
    ),
    key(
        "cache",
        "serves",
        "\"fetch\", \"data\" or \"all\"",
        "requests of other caches only",
        "which references of the processor it answers",
    ),
    key(
        "cache",
        "size",
        "a size, line × ways × a power of two",
        "",
        "bytes of data it holds; size / (line × ways) is the number of sets. With ways = \"full\" any multiple of the line",
    ),
    key(
        "cache",
        "line",
        "a size, a power of two, 8B to memory.page",
        "",
        "bytes of a line; a page holds at most 2^24 of them",
    ),
    key(
        "cache",
        "ways",
        "a whole number or \"full\"",
        "1",
        "lines in a set; need not be a power of two, but for replacement = \"plru\"",
    ),
    key("cache", "index", "\"physical\" or \"virtual\"", "physical", "which address chooses the set"),
    key(
        "cache",
        "hash",
        "true or false",
        "false",
        "whether the upper address bits are folded into the index",
    ),
    key(
        "cache",
        "tag",
        "\"physical\", \"asid\" or \"global\"",
        "physical",
        "what identifies a line: its physical address, its virtual address with the address space, or its global virtual address",
    ),
    key(
        "cache",
        "write",
        "\"back\" or \"through\"",
        "back",
        "whether a store waits in the cache until its line leaves",
    ),
    key("cache", "allocate", "true or false", "true", "whether a write that misses brings the line in"),
    key("cache", "replacement", "a replacement's name", "lru", "which line of a set leaves"),
    key(
        "cache",
        "writeback-order",
        "\"before-fill\" or \"after-fill\"",
        "after-fill",
        "whether a dirty victim is written before the new line is read",
    ),
    key(
        "cache",
        "inclusive",
        "true or false",
        "false",
        "whether a line that leaves is taken out of the caches above, too",
    ),
    key("cache", "next", "a cache's name or \"memory\"", "", "who is asked on a miss"),
    key("write-buffer", "entries", "a whole number", "", "writes it holds"),
    key("write-buffer", "drain", "cycles", "", "cycles that one entry takes to leave"),
    key(
        "cost",
        "mode",
        "\"total\" or \"add\"",
        "total",
        "whether a level's cycles stand for the whole access or are added to those of the levels passed",
    ),
    key(
        "cost",
        "LEVEL",
        "cycles",
        "",
        "cycles of a demand access that this level serves: a cache's name or memory",
    ),
];

/// The keys of one section, in order.
pub(crate) fn of(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}
