//! `check` turns a description as typed into the configuration of a machine, and checks every rule once.

use binhop_base::{Agents, Picoseconds, Result};
use binhop_hw::{CostRule, Rules, TreeConfig};
use binhop_os::io::IoConfig;

use super::cache::{CacheKeys, check_caches};
use super::cachegrind;
use super::cost::{CostKeys, add_costs};
use super::document::{Located, Value};
use super::dram::{DramKeys, DramSetup, check_dram};
use super::forms::{Deferred, Given, Named};
use super::io::{IoKeys, SchemeKeys, check_io};
use super::kernel::{FootprintKeys, KernelConfig, check_kernel};
use super::keys::{At, Form, Key, Resolved, keys, of_name};
use super::link::link;
use super::memory::{Memory, MemoryKeys, check_page};
use super::placement::{PlacementConfig, PlacementKeys, check_placement};
use super::protection::{ProtectedBy, ProtectionConfig, ProtectionKeys, check_protection};
use super::segments::{SegmentLimits, StatedSegments, check_segments};
use super::softvm::Sharing;
use super::stream_buffers::{StreamBufferKeys, add_streams, check_streams};
use super::tlb::{TlbKeys, check_tlbs};
use super::translation::{
    Around, Translates, TranslationKeys, WalkCacheKeys, check_translation, sharing, states,
};
use super::write_buffer::{WriteBufferKeys, add_buffers};

keys! {
    /// The keys of the top level: a whole description.
    MachineKeys of "" {
        name: Option<At<String>> = "name", absent "the file's name", "the machine's name in results";
        rules: Rules = "rules", absent "lines",
            "the rules by which references become accesses; for cachegrind see below";
        cycle_time: Option<At<Picoseconds>> = "cycle-time", form "a time, like \"40ns\" or \"2.5ns\"",
            absent "results know cycles only", "the time of one cycle of the processor";
        memory: At<MemoryKeys> = "memory", "physical memory and its pages";
        placement: Given<PlacementKeys> = "placement", absent "{ policy = \"random\" }",
            "the rule that gives a page its frame";
        cache: At<Named<CacheKeys>> = "cache", "the caches: one [cache.NAME] for each";
        write_buffer: Option<At<Deferred<Named<WriteBufferKeys>>>> = "write-buffer", absent "none",
            "write buffers: one [write-buffer.CACHE] behind a write-through cache";
        stream_buffers: Option<At<Named<StreamBufferKeys>>> = "stream-buffers", absent "none",
            "stream buffers: one [stream-buffers.CACHE] for a cache whose misses they follow";
        tlb: Option<At<Named<TlbKeys>>> = "tlb", absent "none", "TLBs: one [tlb.NAME] for each";
        walk_cache: Option<At<Named<WalkCacheKeys>>> = "walk-cache", absent "none",
            "caches of a page walker: one [walk-cache.LEVEL] for a level of the page table; 0 is the root";
        translation: Option<At<TranslationKeys>> = "translation", absent "addresses are translated at no cost",
            "the page table, and how a TLB is refilled";
        kernel: Option<At<Named<FootprintKeys>>> = "kernel", absent "the kernel references nothing",
            "what the kernel references and flushes, where a run asks for it: [kernel.switch], [kernel.fault], [kernel.syscall]";
        io: Option<At<IoKeys>> = "io", absent "the keys of the section have their defaults",
            "the path of device data, and the settings of schemes for them";
        dram: Option<At<DramKeys>> = "dram", absent "memory has a fixed latency: see [io]",
            "memory with a controller, behind schemes for device data";
        cost: Option<At<CostKeys>> = "cost", absent "no CPI is reported",
            "cycles of an access, by the level that serves it";
    }
}

/// `DESCRIPTION` stands for a whole description, as if it were the value of a key.
const DESCRIPTION: Key = Key {
    section: "",
    name: "",
    form: MachineKeys::form,
    default: "",
    meaning: "a machine",
    keys: MachineKeys::KEYS,
};

/// Returns every key of a machine file: the keys of the top level, then the keys of each section, in order.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let top = DESCRIPTION.keys;
    top.iter().chain(top.iter().flat_map(|key| key.keys))
}

/// `Checked` is a resolved machine description that keeps every rule.
pub(super) struct Checked {
    pub(super) name: String,
    pub(super) memory: Memory,
    pub(super) placement: PlacementConfig,
    pub(super) tree: TreeConfig,
    pub(super) has_cost: bool,
    pub(super) cycle_time: Option<Picoseconds>,
    pub(super) kernel: KernelConfig,
    /// The way in which addresses are translated, if a run simulates translation.
    pub(super) translation: Option<Translates>,
    pub(super) sharing: Sharing,
    pub(super) segments: StatedSegments,
    /// The way in which lines keep the protection of their pages, if they keep it.
    pub(super) protection: Option<ProtectionConfig>,
    pub(super) io: IoConfig,
    pub(super) schemes: SchemeKeys,
    pub(super) dram: Option<DramSetup>,
    pub(super) notes: Vec<String>,
    /// The complete description, in which every key that was left out has its value.
    pub(super) resolved: String,
}

/// Checks a description. `stem` is the machine's name if the description gives none.
pub(super) fn check(root: Located, stem: &str) -> Result<Checked> {
    let place = root.place.clone();
    let mut keys = MachineKeys::read(root, &DESCRIPTION)?;
    let rules = keys.rules;
    let name = keys.name.get_or_insert_with(|| At::derived(stem.to_string())).value.clone();
    let page = check_page(&keys.memory.value.page)?;
    let mut caches = check_caches(&mut keys.cache, page)?;
    if let Some(buffers) = &mut keys.write_buffer {
        if rules == Rules::Cachegrind {
            return Err(cachegrind::no_buffers(&buffers.place));
        }
        add_buffers(&mut buffers.value, &mut caches)?;
    }
    if let Some(streams) = &mut keys.stream_buffers {
        if rules == Rules::Cachegrind {
            return Err(cachegrind::no_streams(&streams.place));
        }
        add_streams(streams, &mut caches)?;
    }
    let (cost_rule, memory_cost) = match &mut keys.cost {
        Some(cost) => add_costs(cost, &mut caches)?,
        None => (CostRule::Total, 0),
    };
    let places = caches.iter().map(|cache| cache.place.clone()).collect::<Vec<_>>();
    let mut tree = link(caches, rules, page, &place, cost_rule, memory_cost)?;
    if let Some(streams) = &keys.stream_buffers {
        check_streams(streams, &tree)?;
    }
    let (placement, memory, mut notes) =
        check_placement(&mut keys.placement, &keys.memory.value, page, &tree, &place)?;
    if rules == Rules::Cachegrind {
        cachegrind::check(&tree, &places, &placement, &place)?;
    }
    let has_cost = keys.cost.is_some();
    let cycle_time = keys.cycle_time.as_ref().map(|at| at.value);
    let kernel = check_kernel(keys.kernel.as_ref(), &tree.caches)?;
    let taken: Vec<&str> = tree.caches.iter().map(|cache| cache.name.as_str()).collect();
    let tlbs = check_tlbs(keys.tlb.as_ref(), &taken, page)?;
    let around = Around { tlbs, tree: &tree, memory: &memory, placement: &placement, place: &place };
    let translation = check_translation(keys.translation.as_mut(), keys.walk_cache.as_ref(), around)?;
    if let Some(translation) = &translation {
        tree.agents = translation.agents().others().fold(tree.agents, Agents::with);
    }
    let room = match &translation {
        Some(Translates::AtMisses(config)) => config.segments(),
        _ => None,
    };
    let of_segments = keys.translation.as_ref().map(|at| &at.value);
    let (segments, unused) = check_segments(
        of_segments.and_then(|keys| keys.segment_ids.as_ref()),
        of_segments.and_then(|keys| keys.shared_segments.as_ref()),
        &SegmentLimits { tree: &tree, room, identity: memory.frames.is_none() },
    )?;
    notes.extend(unused);
    let protected_by = match &translation {
        Some(Translates::AtMisses(_)) => ProtectedBy::Lines,
        Some(Translates::ByTlbs(_)) => ProtectedBy::Tlb,
        None => ProtectedBy::Nothing,
    };
    let protection = match &keys.translation {
        Some(At { value: keys, place }) => {
            let keys = ProtectionKeys {
                changes: keys.protection_changes,
                violations: keys.protection_violations,
                line_protection: keys.line_protection,
                place,
            };
            check_protection(&keys, protected_by, &tree, memory.frames.is_some())?
        }
        None => None,
    };
    let nothing = Located { place: String::new(), value: Value::Table(Vec::new()) };
    let defaults = IoKeys::read(nothing, of_name(MachineKeys::KEYS, "io"))?;
    let (io, schemes) =
        check_io(keys.io.as_ref().map_or(&defaults, |at| &at.value), &memory, &placement, &place)?;
    let dram = keys.dram.as_ref().map(|at| check_dram(&at.value, cycle_time, &place)).transpose()?.flatten();
    let posted = keys.io.as_ref().and_then(|at| at.value.posted.as_ref()).filter(|_| dram.is_some());
    notes.extend(posted.map(|At { value, place: at }| {
        format!(
            "{at}: {} has no effect: with [dram], writes and prefetches wait in the controller's queues; set dram.queue \
             instead, or take memory of fixed latency: --set dram=off",
            value.0
        )
    }));
    let resolved = Resolved::text(&keys, &|key| match key.section {
        "memory" => key.name != "size" || memory.frames.is_some(),
        "placement" => placement.states(key.name, &memory),
        "cache" => rules == Rules::Lines || !cachegrind::decides(key.name),
        "translation" => states(keys.translation.as_ref(), key.name),
        _ => true,
    });
    Ok(Checked {
        name,
        memory,
        placement,
        tree,
        has_cost,
        cycle_time,
        kernel,
        translation,
        sharing: sharing(keys.translation.as_ref()),
        segments,
        protection,
        io,
        schemes,
        dram,
        notes,
        resolved,
    })
}
