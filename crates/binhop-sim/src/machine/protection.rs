//! `protection` checks the keys `line-protection`, `protection-violations` and `protection-changes` of `[translation]`
//! against the caches: which machines keep the protection of pages with the lines of virtual caches (JM97 §4.1, §5.4).

use binhop_base::{Problem, Result};
use binhop_hw::{Next, Rules, TreeConfig};

/// `ProtectionChanges` states when lines in the caches get the changed protection of their page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtectionChanges {
    /// The lines of the page are swept at once.
    Eager,
    /// A change that only adds rights updates a line at the first access that needs an added right.
    Lazy,
}

impl ProtectionChanges {
    pub(super) const ALL: &'static [Self] = &[Self::Eager, Self::Lazy];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Lazy => "lazy",
        }
    }
}

/// `ProtectionViolations` states what happens at an access that its page does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtectionViolations {
    /// The run stops with an error.
    Stop,
    /// The access is counted.
    Count,
    /// Nothing happens.
    Ignore,
}

impl ProtectionViolations {
    pub(super) const ALL: &'static [Self] = &[Self::Stop, Self::Count, Self::Ignore];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Count => "count",
            Self::Ignore => "ignore",
        }
    }
}

/// `ProtectionConfig` says how the lines of virtual caches keep the protection of their pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectionConfig {
    pub(crate) changes: ProtectionChanges,
    pub(crate) violations: ProtectionViolations,
    /// The caches that an instruction fetch asks in turn, and the caches that a load or store asks in turn.
    pub(crate) chains: [Vec<usize>; 2],
    /// For each cache, the logarithm of its lines' bytes.
    pub(crate) line_log2: Vec<u32>,
    pub(crate) page_log2: u32,
}

/// Returns the caches that an instruction fetch asks in turn, and the caches that a load or store asks in turn.
pub(super) fn chains(tree: &TreeConfig) -> [Vec<usize>; 2] {
    let chain = |first: usize| {
        let next = |&cache: &usize| match tree.caches[cache].next {
            Next::Cache(next) => Some(next),
            Next::Memory => None,
        };
        std::iter::successors(Some(first), next).collect()
    };
    [chain(tree.fetch), chain(tree.data)]
}

/// `ProtectionKeys` are the keys of `[translation]` that matter here, as read.
pub(super) struct ProtectionKeys<'a> {
    pub(super) changes: ProtectionChanges,
    pub(super) violations: ProtectionViolations,
    /// True if the description asks for the protection of lines where nothing translates.
    pub(super) line_protection: bool,
    /// The place of the section.
    pub(super) place: &'a str,
}

/// `ProtectedBy` states who translates on a machine, and so whether lines keep the protection of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtectedBy {
    /// Software translates at cache misses: lines keep the protection.
    Lines,
    /// A TLB is asked at every access.
    Tlb,
    /// Nothing translates.
    Nothing,
}

/// Checks the keys. Returns how lines keep protection, if they keep it: where software translates at cache misses, and
/// where the description asks for it.
pub(super) fn check_protection(
    keys: &ProtectionKeys<'_>,
    by: ProtectedBy,
    tree: &TreeConfig,
    has_frames: bool,
) -> Result<Option<ProtectionConfig>> {
    let chains = chains(tree);
    if by != ProtectedBy::Lines {
        if !keys.line_protection {
            return Ok(None);
        }
        let refused = |rule: &str, remedy: &str| {
            Err(Problem::request("true", &format!("{}.line-protection", keys.place), rule, remedy))
        };
        if by == ProtectedBy::Tlb {
            return refused(
                "binhop does not look for violations of protection behind a TLB, which is asked at every access",
                "leave the key out, or take --set translation=off",
            );
        }
        if tree.rules == Rules::Cachegrind || !has_frames {
            return refused(
                "lines keep the protection of pages on machines that count lines and whose pages have frames",
                "take rules = \"lines\" and a placement.policy with frames",
            );
        }
        if let Some(cache) = tree.caches.iter().find(|cache| !cache.keyed_by_mapping()) {
            let rule = format!(
                "lines keep the protection of pages where every cache has virtual tags, and {} has physical tags",
                cache.name
            );
            return refused(&rule, "take virtual tags for every cache, or leave the key out");
        }
        if let Some(&both) = chains[0].iter().find(|cache| chains[1].contains(cache)) {
            let rule = format!(
                "instructions and data have caches of their own at every level (JM97 §5.1), and {} serves both",
                tree.caches[both].name
            );
            return refused(&rule, "give each side its own last level, or leave the key out");
        }
        if let Some(cache) = tree.caches.iter().find(|cache| cache.streams.is_some()) {
            let rule =
                format!("nothing is prefetched where lines keep protection, and {} prefetches", cache.name);
            return refused(&rule, "leave the stream buffers or the key out");
        }
    }
    Ok(Some(ProtectionConfig {
        changes: keys.changes,
        violations: keys.violations,
        chains,
        line_log2: tree.caches.iter().map(|cache| cache.line.log2()).collect(),
        page_log2: tree.page.log2(),
    }))
}
