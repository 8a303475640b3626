//! `kernel` declares the keys of the sections `[kernel.OCCASION]`: what the kernel references and flushes at a
//! switch, a page fault and a system call.

use std::ops::Range;

use binhop_base::{Bytes, Problem, Result};
use binhop_hw::CacheConfig;

use super::cache::no_such_cache;
use super::document::unknown;
use super::forms::Named;
use super::keys::{At, keys};

keys! {
    /// The keys of one `[kernel.OCCASION]`.
    FootprintKeys of "kernel" {
        code: Bytes = "code", absent "0B", "bytes of code that the kernel fetches, line by line";
        code_at: Bytes = "code-at", absent "0B", "the place of the code in the kernel's text";
        data: Bytes = "data", absent "0B", "bytes that the kernel loads, line by line";
        data_at: Bytes = "data-at", absent "0B", "the place of the data in the kernel's data";
        stored: Bytes = "stored", absent "0B", "bytes that the kernel stores, from the place of the data on";
        flush: Option<At<String>> = "flush", absent "no cache",
            "the caches that the kernel flushes first: names with commas between them, or all";
    }
}

/// The word for all caches.
const ALL: &str = "all";
/// The largest kernel that is simulated: its text, and its data.
const MOST: u64 = 16 << 20;

/// `Footprint` is what the kernel references at an occasion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The bytes of the kernel's text that the kernel fetches.
    pub code: Range<u64>,
    /// The bytes of the kernel's data that the kernel loads.
    pub loaded: Range<u64>,
    /// The bytes of the kernel's data that the kernel stores.
    pub stored: Range<u64>,
    /// The caches that the kernel flushes first, by their index in the tree.
    pub flush: Vec<usize>,
}

/// `KernelConfig` says what the kernel references and flushes at each occasion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    /// At a switch, on behalf of the process that comes.
    pub switch: Option<Footprint>,
    /// When a page is placed, at its first touch or its return.
    pub fault: Option<Footprint>,
    /// At a system call.
    pub syscall: Option<Footprint>,
}

impl KernelConfig {
    /// Returns the footprints that there are.
    pub fn footprints(&self) -> impl Iterator<Item = &Footprint> {
        [&self.switch, &self.fault, &self.syscall].into_iter().flatten()
    }

    /// Returns the bytes of the kernel's text and of its data.
    #[must_use]
    pub fn extent(&self) -> [u64; 2] {
        let text = self.footprints().map(|footprint| footprint.code.end).max();
        let data = self.footprints().map(|footprint| footprint.loaded.end.max(footprint.stored.end)).max();
        [text.unwrap_or(0), data.unwrap_or(0)]
    }
}

/// Returns the caches that a key names.
fn flushed(key: Option<&At<String>>, caches: &[CacheConfig]) -> Result<Vec<usize>> {
    let Some(At { value, place }) = key else { return Ok(Vec::new()) };
    if value == ALL {
        return Ok((0..caches.len()).collect());
    }
    let known: Vec<&str> = caches.iter().map(|cache| cache.name.as_str()).collect();
    let mut named = value
        .split(',')
        .map(str::trim)
        .map(|name| {
            let also = "; \"all\" means all of them";
            let position = known.iter().position(|&cache| cache == name);
            position.ok_or_else(|| no_such_cache(name, place, &known, also))
        })
        .collect::<Result<Vec<usize>>>()?;
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

/// Checks the sections, for a machine with these caches.
pub(super) fn check_kernel(
    sections: Option<&At<Named<FootprintKeys>>>,
    caches: &[CacheConfig],
) -> Result<KernelConfig> {
    let mut kernel = KernelConfig::default();
    for (name, At { value: keys, place }) in sections.iter().flat_map(|sections| &sections.value.0) {
        let slot = match name.as_str() {
            "switch" => &mut kernel.switch,
            "fault" => &mut kernel.fault,
            "syscall" => &mut kernel.syscall,
            _ => {
                let rule = "the kernel acts at one of";
                return Err(unknown(name, place, rule, ["switch", "fault", "syscall"].into_iter()));
            }
        };
        let range = |at: Bytes, bytes: Bytes| at.0..at.0.saturating_add(bytes.0);
        let footprint = Footprint {
            code: range(keys.code_at, keys.code),
            loaded: range(keys.data_at, keys.data),
            stored: range(keys.data_at, keys.stored),
            flush: flushed(keys.flush.as_ref(), caches)?,
        };
        let end = footprint.code.end.max(footprint.loaded.end).max(footprint.stored.end);
        if end > MOST {
            return Err(Problem::request(
                &Bytes(end).to_string(),
                place,
                &format!("the kernel has at most {} of text, and as much data", Bytes(MOST)),
                "make the footprint smaller, or move it down",
            ));
        }
        *slot = Some(footprint);
    }
    Ok(kernel)
}
