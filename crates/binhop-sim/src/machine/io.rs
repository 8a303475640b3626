//! `io` declares the keys of the section `[io]`: the path of device data, and what stands behind the front where
//! schemes for device data are compared.

use std::num::{NonZeroU32, NonZeroU64};

use binhop_base::{Bytes, Problem, Result};
use binhop_hw::{
    CacheConfig, CostRule, DmaCacheConfig, FixedLatency, LastLevelConfig, Next, Rules, SchemeConfig,
    SchemeKind, TagBy, TreeConfig, WritePolicy,
};
use binhop_os::io::{FileWrites, IoConfig, MemoryRoom};
use binhop_os::placement::PageColors;
use binhop_trace::bounds::LARGEST_REFERENCE;

use super::DramSetup;
use super::forms::{UpTo, choice};
use super::keys::{At, keys};
use super::memory::Memory;
use super::placement::PlacementConfig;
use crate::io_path::kernel_pages;

choice!(FileWrites);

keys! {
    /// The keys of `[io]`.
    IoKeys of "io" {
        page_cache: Option<At<Bytes>> = "page-cache", absent "a quarter of memory; 256MiB without memory.size",
            "the most memory that pages of files take";
        read_ahead: Option<At<Bytes>> = "read-ahead", absent "128KiB, or half of the page cache or of the frames outside the pool if that is less",
            "the longest window that is read ahead of a sequential reader";
        request: Option<At<Bytes>> = "request", absent "512KiB, or what page cache, frames outside the pool and ring have room for",
            "the longest request to the disk";
        extent: Option<At<Bytes>> = "extent", absent "128MiB",
            "the bytes of a file that lie side by side on the disk; a request ends where they end";
        disk_rate: Option<At<Bytes>> = "disk-rate", absent "the disk reads at once",
            "the bytes that the disk reads into the page cache while the processor executes a million instructions";
        disk_write_rate: Option<At<Bytes>> = "disk-write-rate", absent "the disk writes at once",
            "the bytes that the disk writes from the page cache while the processor executes a million instructions";
        send_rate: Option<At<Bytes>> = "send-rate", absent "the network card sends at once",
            "the bytes that the network card sends from the kernel's buffers while the processor executes a million instructions";
        dirty: Option<At<Bytes>> = "dirty", absent "a fifth of the page cache",
            "the dirty file data that the flusher leaves alone";
        dirty_age: UpTo<{u32::MAX}> = "dirty-age", absent "2000000000", "the instructions after which a dirty page is written";
        ring: UpTo<65536, 1> = "ring", absent "256", "the descriptors in each ring";
        buffer: Option<At<Bytes>> = "buffer", absent "2KiB, or a page if that is less", "the buffer of a packet: a power of two, at most a page";
        packet: Bytes = "packet", absent "1500B", "the most bytes of a packet";
        coalesce: UpTo<65536, 1> = "coalesce", absent "1", "the packets between two interrupts";
        backlog: UpTo<65536> = "backlog", absent "0",
            "the packets of full length that wait in the receive ring before a call asks for them; 0: packets arrive when a call asks for them";
        file_writes: FileWrites = "file-writes", absent "cached",
            "the stores by which the kernel copies what a call writes to a file: past the caches, if non-temporal";
        last_level: Option<At<UpTo<{ SchemeConfig::MOST_CYCLES }>>> = "last-level", absent "the last level's key in [cost]; 20 without [cost]",
            "cycles of an access to the last level, and of PBDC's ways";
        memory: Option<At<UpTo<{ SchemeConfig::MOST_CYCLES }>>> = "memory",
            absent "what [cost] gives for memory beyond the last level; 200 without [cost]",
            "cycles that a demand read waits for memory";
        posted: Option<At<UpTo<64, 1>>> = "posted", absent "memory has room for all",
            "the writes and prefetches that may be under way to memory at once; with [dram], its queue counts instead";
        write: WritePolicy = "write", absent "through",
            "the write policy of device data in a cache: of shared-cache, ddc and pbdc";
        dma_cache: Bytes = "dma-cache", absent "256KiB", "bytes of the DMA cache (ddc)";
        dma_cache_ways: UpTo<64, 1> = "dma-cache-ways", absent "4", "lines in a set of the DMA cache (ddc)";
        dma_cache_cycles: UpTo<{ SchemeConfig::MOST_CYCLES }> = "dma-cache-cycles", absent "20", "cycles of an access to the DMA cache (ddc)";
        prefetch: UpTo<64> = "prefetch", absent "4",
            "the lines that are prefetched behind a line that a device reads (ddc, pbdc)";
        pbdc_ways: UpTo<63, 1> = "pbdc-ways", absent "1", "the ways of the last level that serve as the DMA cache (pbdc)";
        ddio_ways: UpTo<63, 1> = "ddio-ways", absent "2", "the ways of the last level that writes of devices fill (ddio)";
    }
}

/// The size of the page cache of a machine whose memory has no size.
const ROOMY: u64 = 256 << 20;
/// Linux reads 128 KiB ahead, and a request to a disk has 512 KiB at most there (its defaults); a packet's buffer has 2
/// KiB.
const READ_AHEAD: u64 = 128 << 10;
const REQUEST: u64 = 512 << 10;
const BUFFER: u64 = 2 << 10;
/// The longest extent of ext4 (Linux, `EXT_INIT_MAX_LEN` blocks of 4 KiB).
const EXTENT: u64 = 128 << 20;
/// The cycles of an access to the last level (TB10, Table 4), and the cycles of memory (our choice).
const LAST_LEVEL_CYCLES: u64 = 20;
const MEMORY_CYCLES: u64 = 200;

/// `SchemeKeys` are the settings of schemes that do not follow from the machine's caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemeKeys {
    last_level: Option<u64>,
    memory: Option<u64>,
    /// The places for posted requests, if their number is limited.
    pub(super) posted: Option<NonZeroU32>,
    write: WritePolicy,
    dma_cache: DmaCacheConfig,
    prefetch: u32,
    pbdc_ways: u32,
    ddio_ways: u32,
}

/// `SchemeSetup` is a scheme to compare: what results call it, its settings, and the memory behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeSetup {
    /// The name in results. No two schemes of a comparison have the same.
    pub name: String,
    /// The scheme.
    pub config: SchemeConfig,
    /// The memory behind the scheme, if it has no controller.
    pub fixed: FixedLatency,
    /// The places of the memory's queue of posted requests; `None` if the queue has room for all requests.
    pub posted: Option<NonZeroU32>,
    /// The memory with a controller.
    pub dram: Option<DramSetup>,
}

/// Checks the section of a machine at `machine`. What the section leaves out is fitted to the machine.
pub(super) fn check_io(
    keys: &IoKeys,
    memory: &Memory,
    placement: &PlacementConfig,
    machine: &str,
) -> Result<(IoConfig, SchemeKeys)> {
    let page = memory.page.bytes();
    let pages = |bytes: u64| bytes.div_ceil(page);
    let cache = match (&keys.page_cache, memory.frames) {
        (Some(at), _) => at.value.0,
        (None, Some(frames)) => frames * page / 4,
        (None, None) => ROOMY,
    };
    let least = if keys.page_cache.is_some() { 0 } else { 2 };
    let cache_pages = (cache / page).max(least);
    let fitted = |key: &Option<At<Bytes>>, otherwise: u64, room: u64| match key {
        Some(at) => pages(at.value.0),
        None => pages(otherwise).min(room).max(1),
    };
    let room = memory_room(placement, page, keys.ring.0);
    let half = room.map_or(cache_pages, |room| cache_pages.min(room.pages)) / 2;
    let posted = keys.posted.as_ref().and_then(|at| NonZeroU32::new(at.value.0));
    let config = IoConfig {
        page,
        cache_pages,
        read_ahead: fitted(&keys.read_ahead, READ_AHEAD, half),
        request_pages: fitted(&keys.request, REQUEST, half.min(u64::from(keys.ring.0))),
        dirty_pages: keys.dirty.as_ref().map_or(cache_pages / 5, |at| at.value.0 / page),
        dirty_age: u64::from(keys.dirty_age.0),
        ring: keys.ring.0,
        buffer: keys.buffer.as_ref().map_or(BUFFER.min(page), |at| at.value.0),
        packet: keys.packet.0,
        coalesce: keys.coalesce.0,
        backlog: keys.backlog.0,
        extent_pages: keys.extent.as_ref().map_or(EXTENT.div_ceil(page), |at| at.value.0 / page),
        disk_rate: rate(&keys.disk_rate)?,
        disk_write_rate: rate(&keys.disk_write_rate)?,
        send_rate: rate(&keys.send_rate)?,
        file_writes: keys.file_writes,
        memory: room,
    };
    config.check().map_err(|mut problem| {
        problem.place = format!("{machine}: io.{}", problem.place);
        problem
    })?;
    let cycles =
        |key: &Option<At<UpTo<{ SchemeConfig::MOST_CYCLES }>>>| key.as_ref().map(|at| u64::from(at.value.0));
    let schemes = SchemeKeys {
        last_level: cycles(&keys.last_level),
        memory: cycles(&keys.memory),
        posted,
        write: keys.write,
        dma_cache: DmaCacheConfig {
            size: keys.dma_cache,
            ways: keys.dma_cache_ways.0,
            cycles: u64::from(keys.dma_cache_cycles.0),
        },
        prefetch: keys.prefetch.0,
        pbdc_ways: keys.pbdc_ways.0,
        ddio_ways: keys.ddio_ways.0,
    };
    Ok((config, schemes))
}

/// Returns the bytes that a device moves in a million instructions, if it does not move them at once.
fn rate(key: &Option<At<Bytes>>) -> Result<Option<NonZeroU64>> {
    let bytes = key.as_ref().map(|at| NonZeroU64::new(at.value.0).ok_or(at)).transpose();
    bytes.map_err(|at| {
        let rule = "a device moves some bytes in a million instructions";
        Problem::request("0B", &at.place, rule, "leave it out for a device that works at once")
    })
}

/// Returns the fewest pages that compete for memory: twice as many as the longest reference touches, so that a window
/// that is read for one page of the reference does not push out the other pages.
fn least_room(page: u64) -> u64 {
    2 * (u64::from(LARGEST_REFERENCE).div_ceil(page) + 1)
}

/// Returns the memory for which the page cache competes: the number of most recent pages of each color that no
/// placement evicts, without the pages of the kernel's rings and text. `None`: no page is ever evicted, or
/// [`check_room`] refuses.
fn memory_room(placement: &PlacementConfig, page: u64, ring: u32) -> Option<MemoryRoom> {
    let (policy, settings) = (placement.policy(), &placement.settings);
    let colors = PageColors { number: settings.colors, pid_hash: settings.pid_hash };
    let kernel = kernel_pages(page, ring.into(), colors.number);
    let pages = policy.safe_frames(settings)?.saturating_sub(kernel);
    (pages >= least_room(page)).then_some(MemoryRoom { pages, colors, reuses_frames: policy.reuses_frames() })
}

/// Checks that the order of pages tells which page of the page cache leaves memory, whatever the placement.
///
/// # Errors
/// It does not.
pub(super) fn check_room(
    config: &IoConfig,
    memory: &Memory,
    placement: &PlacementConfig,
    machine: &str,
) -> Result<()> {
    let (Some(frames), None) = (memory.frames, config.memory) else { return Ok(()) };
    let refused = |value: &str, key: &str, rule: &str, remedy: &str| {
        Err(Problem::request(value, &format!("machine {machine}: {key}"), rule, remedy))
    };
    let settings = &placement.settings;
    if placement.policy().uses("file") && placement.policy().safe_frames(settings) == Some(0) {
        return refused(
            placement.policy,
            "placement.policy",
            "the page cache competes with all pages for frames, and this recording decides which pages leave memory",
            "take a recording without evictions, or another policy",
        );
    }
    let (page, colors) = (config.page, settings.colors);
    let kernel = kernel_pages(page, config.ring.into(), colors);
    let least = Bytes((least_room(page) + kernel) * page);
    let outside = placement.policy().safe_frames(settings).unwrap_or(frames);
    if colors > 1 {
        return refused(
            &colors.to_string(),
            "placement.colors",
            &format!(
                "the page cache competes for the frames of each color but one, which the kernel's rings and text share: \
                 {least} at least, and here {}",
                Bytes(outside * page)
            ),
            "take fewer colors, make memory.size larger, or io.ring smaller",
        );
    }
    refused(
        &Bytes(outside * page).to_string(),
        "memory.size less placement.pool",
        &format!(
            "the page cache competes for the frames outside the pool, which the kernel's rings and text share: {least} at least"
        ),
        "make memory.size larger, or placement.pool or io.ring smaller",
    )
}

impl SchemeKeys {
    /// Returns a scheme whose last level is `last`, without a seed.
    pub(super) fn scheme(
        &self,
        kind: SchemeKind,
        last: &CacheConfig,
        tree: &TreeConfig,
        has_cost: bool,
    ) -> SchemeConfig {
        let cycles = self.last_level.unwrap_or(if has_cost { last.cost } else { LAST_LEVEL_CYCLES });
        SchemeConfig {
            kind,
            line: last.line,
            page: tree.page,
            last_level: LastLevelConfig {
                size: last.size,
                ways: last.ways,
                replacement: last.replacement,
                cycles,
            },
            write: self.write,
            dma_cache: self.dma_cache,
            prefetch_degree: self.prefetch,
            io_ways: (1 << self.pbdc_ways) - 1,
            ddio_ways: self.ddio_ways,
            seed: 0,
        }
    }

    /// Returns the memory behind every scheme.
    pub(super) fn memory(&self, last: &CacheConfig, tree: &TreeConfig, has_cost: bool) -> FixedLatency {
        let beyond = match tree.cost_rule {
            CostRule::Total => tree.memory_cost.saturating_sub(last.cost),
            CostRule::Add => tree.memory_cost,
        };
        FixedLatency { cycles: self.memory.unwrap_or(if has_cost { beyond } else { MEMORY_CYCLES }) }
    }
}

/// Checks that a scheme is for the tags of the caches. A device's physical address finds no line under a virtual tag,
/// so software flushes the pages under virtual tags.
///
/// # Errors
/// It is not.
pub(super) fn check_tags(kind: SchemeKind, tree: &TreeConfig, machine: &str) -> Result<()> {
    let virtually = tree.caches.iter().find(|cache| cache.tag != TagBy::Physical);
    match virtually {
        Some(cache) if !kind.is_for_virtual_tags() => Err(Problem::request(
            kind.name(),
            &format!("machine {machine}: cache.{}.tag={}", cache.name, cache.tag.name()),
            "a device's physical address does not find lines with virtual tags, so the pages of a transfer are flushed before it",
            "take the scheme flush, or caches with physical tags",
        )),
        None if kind.is_for_virtual_tags() => {
            let first = &tree.caches[tree.data];
            Err(Problem::request(
                kind.name(),
                &format!("machine {machine}: cache.{}.tag=physical", first.name),
                "this scheme is for caches with virtual tags, of which a device's physical address finds no line",
                &format!(
                    "take another scheme, such as snooping-cache, or --set cache.{0}.index=virtual --set cache.{0}.tag=asid",
                    first.name
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// Checks that lines, and not cachegrind's rules, decide what passes below the caches of a machine at `place`.
fn check_rules(tree: &TreeConfig, place: &str) -> Result<()> {
    if tree.rules != Rules::Cachegrind {
        return Ok(());
    }
    Err(Problem::request(
        "cachegrind",
        &format!("{place}: rules"),
        "schemes for device data take the place of the last level, and by cachegrind's rules every level counts for itself",
        "take another machine, or --set rules=lines",
    ))
}

/// Returns all caches of a machine at `place`, as a front before memory.
pub(super) fn whole_front(tree: &TreeConfig, place: &str) -> Result<TreeConfig> {
    check_rules(tree, place)?;
    Ok(tree.clone())
}

/// Returns the caches in front of the last level `last`, as a tree of their own. `place` is the place of the machine.
pub(super) fn front_of(tree: &TreeConfig, last: usize, place: &str) -> Result<TreeConfig> {
    let refused = |value: &str, place: &str, rule: &str, remedy: &str| {
        Err(Problem::request(value, place, rule, remedy))
    };
    check_rules(tree, place)?;
    let name = &tree.caches[last].name;
    if let Some(other) =
        tree.caches.iter().enumerate().find(|(number, cache)| *number != last && cache.next == Next::Memory)
    {
        return refused(
            &other.1.name,
            &format!("{place}: cache.{}.next", other.1.name),
            "schemes for device data share one last level before memory",
            &format!("take a machine with one last level, or let both lead to {name}"),
        );
    }
    if tree.fetch == last || tree.data == last {
        return refused(
            name,
            &format!("{place}: cache.{name}"),
            "schemes for device data stand in place of the last level, and the processor asks a cache before it",
            "take a machine with two levels or more",
        );
    }
    let without = |number: usize| if number > last { number - 1 } else { number };
    let caches = tree.caches.iter().enumerate().filter(|&(number, _)| number != last);
    let next = |next: Next| match next {
        Next::Cache(number) if number == last => Next::Memory,
        Next::Cache(number) => Next::Cache(without(number)),
        Next::Memory => Next::Memory,
    };
    Ok(TreeConfig {
        caches: caches.map(|(_, cache)| CacheConfig { next: next(cache.next), ..cache.clone() }).collect(),
        fetch: without(tree.fetch),
        data: without(tree.data),
        ..tree.clone()
    })
}

/// Returns a problem of a scheme with the machine's key, value and remedy.
pub(super) fn named(
    mut problem: Box<Problem>,
    config: &SchemeConfig,
    machine: &str,
    last: &str,
) -> Box<Problem> {
    if problem.place == "io-ways" {
        // The key is a number of ways, and not the mask of the ways.
        let (given, ways) = (config.io_ways.count_ones(), config.last_level.ways);
        problem.value = given.to_string();
        if given > ways {
            problem.rule = "the last-level cache has fewer ways".to_owned();
        }
        problem.remedy = format!("take 1 to {}", ways.saturating_sub(1));
    }
    problem.place = place_of(&problem.place, machine, last);
    problem
}

/// Returns the key of a machine that a rule of [`SchemeConfig`] is about.
fn place_of(place: &str, machine: &str, last: &str) -> String {
    let key = match place {
        "io-ways" => "io.pbdc-ways".to_owned(),
        "dma-cache.size" => "io.dma-cache".to_owned(),
        "dma-cache.ways" => "io.dma-cache-ways".to_owned(),
        "ddio-ways" => "io.ddio-ways".to_owned(),
        "line" => format!("cache.{last}.line"),
        // The keys of [io] are smaller, so the cycles are those of [cost].
        "last-level.cycles" => format!("cost.{last}"),
        other => match other.strip_prefix("last-level.") {
            Some(key) => format!("cache.{last}.{key}"),
            None => other.to_owned(),
        },
    };
    format!("machine {machine}: {key}")
}
