//! `check_translation` checks the sections `[translation]` and `[walk-cache.LEVEL]` against the rest of a machine.

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};
use binhop_hw::{MmuConfig, Rules, Tree, TreeConfig, WalkCacheConfig};
use binhop_os::page_table::{DisjunctLayout, PageTables, TableConfig, TableKind};
use binhop_os::placement::POLICIES;

use super::super::cache::Associativity;
use super::super::forms::{Named, UpTo};
use super::super::keys::At;
use super::super::memory::Memory;
use super::super::placement::PlacementConfig;
use super::super::softvm::{HANDLER_ALIGNMENT, SoftvmConfig, SoftvmKeys, check_softvm};
use super::super::tlb::TlbConfigs;
use super::{
    Refill, TablePlacement, Translates, TranslationConfig, TranslationKeys, WalkCacheKeys, WalkEntry,
};

/// `Around` holds the settings of the machine against which `[translation]` is checked.
pub(in crate::machine) struct Around<'a> {
    pub(in crate::machine) tlbs: Option<TlbConfigs>,
    pub(in crate::machine) tree: &'a TreeConfig,
    pub(in crate::machine) memory: &'a Memory,
    pub(in crate::machine) placement: &'a PlacementConfig,
    pub(in crate::machine) place: &'a str,
}

/// Checks the sections. Returns what a run simulates; `None` if translation is not active.
pub(in crate::machine) fn check_translation(
    keys: Option<&mut At<TranslationKeys>>,
    walk_caches: Option<&At<Named<WalkCacheKeys>>>,
    around: Around<'_>,
) -> Result<Option<Translates>> {
    let Some(At { value: keys, place: at }) = keys else {
        let also = walk_caches.map(|at| at.place.clone());
        return match also {
            Some(place) => Err(Problem::request(
                "missing",
                &format!("{place}: translation"),
                "walk caches keep entries of a page table",
                "add a section [translation], or leave the walk caches out",
            )),
            None => Ok(None),
        };
    };
    if keys.refill == Refill::CacheMiss || keys.table.value.0.name == DISJUNCT {
        let checked = check_at_misses(keys, at, walk_caches, &around)?;
        return Ok(checked.map(Translates::AtMisses));
    }
    let Around { tlbs, tree, memory, placement, place } = around;
    let Some(tlbs) = tlbs else {
        let rule = "translation needs a TLB: one [tlb.NAME] for each";
        return Err(Problem::request(
            "missing",
            &format!("{place}: tlb"),
            rule,
            "add a section like [tlb.dtlb]",
        ));
    };
    let page = tree.page;
    let reads = check_reads(keys, tree, at)?;
    let reserve = check_reserve(keys, page, at)?;
    let kind = check_table(keys, at)?;
    let walk_caches = check_walk_caches(walk_caches, kind, keys.refill)?;
    let frames = memory.frames.unwrap_or(0);
    let entry = keys.entry.as_ref().map_or(0, |at| at.value.0);
    let table = TableConfig { kind, page, entry: u32::try_from(entry).unwrap_or(u32::MAX), reserve, frames };
    let huge_log2 = keys.huge_pages.as_ref().map(|at| check_huge_size(at, page)).transpose()?;
    let handlers = (4 * u64::from(keys.handler.0)).next_multiple_of(HANDLER_ALIGNMENT);
    if handlers + 4 * u64::from(keys.root_handler.0) > page.bytes() {
        return Err(Problem::request(
            &format!("{} and {} instructions", keys.handler.0, keys.root_handler.0),
            &format!("{at}.handler"),
            &format!(
                "both handlers lie in one page of {}, with 4 bytes an instruction; the second begins at a multiple of {HANDLER_ALIGNMENT} bytes",
                Bytes(page.bytes())
            ),
            "make the handlers shorter",
        ));
    }
    let mut all = tlbs.all;
    if let Some(log2) = huge_log2.filter(|&log2| log2 > 0) {
        all.iter_mut().for_each(|tlb| tlb.pages.push(page.log2() + log2));
    }
    let config = TranslationConfig {
        mmu: MmuConfig {
            base_log2: page.log2(),
            tlbs: all,
            fetch: vec![tlbs.serving[0]],
            data: vec![tlbs.serving[1]],
            tagged: keys.tags,
            spaces: (keys.asids.0 > 0).then_some(keys.asids.0),
            walk_caches,
        },
        serving: tlbs.serving,
        table,
        refill: keys.refill,
        reads,
        handler: keys.handler.0.into(),
        root_handler: keys.root_handler.0.into(),
        second_level: keys.second_level.0.into(),
        placement: keys.placement,
        huge_log2,
    };
    if !keys.active {
        return Ok(None);
    }
    let tables = PageTables::new(&config.table).map_err(|mut problem| {
        problem.place = format!("{place}: {}", problem.place);
        problem
    })?;
    if tree.rules == Rules::Cachegrind {
        return Err(Problem::request(
            "cachegrind",
            &format!("{place}: rules"),
            "cachegrind's rules count what a program references, and know no TLB",
            "take rules = \"lines\", or translation.active = false",
        ));
    }
    if memory.frames.is_none() {
        return Err(Problem::request(
            "identity",
            &format!("{place}: placement.policy"),
            "with placement identity, physical = virtual: there are no frames for page tables",
            "give the machine a memory.size and another placement.policy, like --set memory.size=128MiB --set placement.policy=random",
        ));
    }
    if keys.placement == TablePlacement::Policy && placement.file.is_some() {
        return Err(Problem::request(
            "policy",
            &format!("{at}.placement"),
            &format!("placement {} repeats a recording, which places no page tables", placement.policy),
            "take placement = \"random\" or \"fixed\"",
        ));
    }
    if let (Some(huge), Some(_)) = (&keys.huge_pages, config.huge_log2()) {
        check_huge_pages(huge, &tables, placement, page)?;
    }
    Ok(Some(Translates::ByTlbs(config)))
}

/// The form of the table that software reads when the last level misses.
const DISJUNCT: &str = "disjunct";

/// Checks the sections of a machine without a TLB.
fn check_at_misses(
    keys: &mut TranslationKeys,
    at: &str,
    walk_caches: Option<&At<Named<WalkCacheKeys>>>,
    around: &Around<'_>,
) -> Result<Option<SoftvmConfig>> {
    let Around { tlbs, tree, memory, placement, place } = around;
    let form = keys.table.value.0;
    if keys.refill != Refill::CacheMiss || form.name != DISJUNCT {
        return Err(Problem::request(
            &format!("table {:?} and refill {:?}", form.name, keys.refill.name()),
            at,
            "the disjunct table is for software that translates when the last level misses, and such software reads no other",
            "take table = \"disjunct\" with refill = \"cache-miss\", or neither",
        ));
    }
    if tlbs.is_some() || walk_caches.is_some() {
        return Err(Problem::request(
            if tlbs.is_some() { "tlb" } else { "walk-cache" },
            place,
            "where software translates when the last level misses, there is neither a TLB nor a page walker",
            "leave these sections out, or take another refill",
        ));
    }
    check_table(keys, at)?;
    let huge_log2 = keys.huge_pages.as_ref().map(|huge| check_huge_size(huge, tree.page)).transpose()?;
    let huge_log2 = huge_log2.filter(|&log2| log2 > 0);
    let usual = form.kind(None).expect("the form has no levels");
    let TableKind::Disjunct { segments, regions } = usual else { unreachable!("the form makes its kind") };
    let segments = keys.segments.get_or_insert_with(|| At::derived(UpTo(segments))).value.0;
    let regions = keys.regions.get_or_insert_with(|| At::derived(UpTo(regions))).value.0;
    let layout = DisjunctLayout::new(tree.page.log2(), segments, regions)?;
    let entry = keys.entry.as_ref().map_or(0, |at| at.value.0);
    let table = TableConfig {
        kind: TableKind::Disjunct { segments, regions },
        page: tree.page,
        entry: u32::try_from(entry).unwrap_or(u32::MAX),
        reserve: layout.pages(),
        frames: memory.frames.unwrap_or(0),
    };
    if !keys.active {
        return Ok(None);
    }
    let tables = PageTables::new(&table).map_err(|mut problem| {
        problem.place = format!("{place}: {}", problem.place);
        problem
    })?;
    if let (Some(huge), Some(_)) = (&keys.huge_pages, huge_log2) {
        check_huge_pages(huge, &tables, placement, tree.page)?;
    }
    let handler = u64::from(keys.handler.0);
    let keys = SoftvmKeys {
        table,
        layout,
        handler,
        write_backs: keys.write_backs,
        sharing: keys.sharing,
        huge_log2,
        place,
    };
    check_softvm(keys, tree, memory).map(Some)
}

/// Checks the size of huge pages by itself. Returns the logarithm of the pages in a huge page.
fn check_huge_size(huge: &At<Bytes>, page: PowerOfTwo) -> Result<u32> {
    let size = PowerOfTwo::check(huge.value, "a huge page", &huge.place)?;
    size.log2().checked_sub(page.log2()).ok_or_else(|| {
        Problem::request(
            &huge.value.to_string(),
            &huge.place,
            &format!("a huge page is at least as large as a page, {}", Bytes(page.bytes())),
            "take a larger size, or leave huge-pages out",
        )
    })
}

/// Checks that the table can express huge pages, and that the placement has runs of frames for them.
fn check_huge_pages(
    huge: &At<Bytes>,
    tables: &PageTables,
    placement: &PlacementConfig,
    page: PowerOfTwo,
) -> Result<()> {
    let At { value: size, place } = huge;
    let refuse = |value: &str, rule: &str, remedy: &str| Err(Problem::request(value, place, rule, remedy));
    tables.check_size(size.0.ilog2()).map_err(|mut problem| {
        problem.place.clone_from(place);
        problem
    })?;
    let Some(most) = placement.policy().largest_run_log2() else {
        let with: Vec<&str> =
            POLICIES.iter().filter(|policy| policy.largest_run_log2().is_some()).map(|it| it.name).collect();
        return refuse(
            &format!("{size} under placement {}", placement.policy),
            "a huge page needs a run of neighbouring frames, and this placement has no runs",
            &format!("take placement.policy={}, or leave huge-pages out", with.join(" or ")),
        );
    };
    let largest = Bytes(page.bytes() << most);
    if *size > largest {
        let rule = format!("the largest run of frames of placement {} is {largest}", placement.policy);
        return refuse(&size.to_string(), &rule, "take smaller huge pages");
    }
    let memory = Bytes(placement.settings.frames * page.bytes());
    if *size > memory {
        let rule = format!("a huge page lies in memory, which has {memory}");
        return refuse(&size.to_string(), &rule, "take smaller huge pages, or make memory.size larger");
    }
    Ok(())
}

fn check_reads(keys: &TranslationKeys, tree: &TreeConfig, place: &str) -> Result<WalkEntry> {
    let Some(At { value: name, place: at }) = &keys.reads else { return Ok(WalkEntry::Data) };
    if keys.refill == Refill::Software {
        return Err(Problem::request(
            name,
            at,
            "a handler in software loads entries as every instruction does: from the cache that serves data",
            "leave reads out, or take refill = \"hardware\"",
        ));
    }
    if name == "memory" {
        return Ok(WalkEntry::Memory);
    }
    let names = || tree.caches.iter().map(|cache| cache.name.as_str());
    match tree.caches.iter().position(|cache| cache.name == *name) {
        Some(cache) if cache == tree.data => Ok(WalkEntry::Data),
        Some(cache) if Tree::new(tree.clone()).in_front(cache) => Err(Problem::request(
            name,
            at,
            "a page walker asks the cache that serves data, a cache behind level 1, or memory; level 1 and an inclusive cache belong together",
            "name the cache that serves data, leave reads out, or name a cache further behind",
        )),
        Some(cache) => Ok(WalkEntry::Cache(cache)),
        None => {
            let remedy = match crate::nearest(name, names()) {
                Some(near) => format!("did you mean {near}?"),
                None => "name one of them".to_string(),
            };
            let names: Vec<&str> = names().collect();
            let rule = format!("no cache has this name; there are {}, and memory", names.join(", "));
            Err(Problem::request(name, &format!("{place}.reads"), &rule, &remedy))
        }
    }
}

fn check_reserve(keys: &TranslationKeys, page: PowerOfTwo, place: &str) -> Result<u32> {
    let Bytes(bytes) = keys.reserve;
    let most = 1 << 18;
    let pages = bytes / page.bytes();
    if !bytes.is_multiple_of(page.bytes()) || pages == 0 || pages > most {
        return Err(Problem::request(
            &keys.reserve.to_string(),
            &format!("{place}.reserve"),
            &format!("the reserve holds 1 to {most} whole pages of {}", Bytes(page.bytes())),
            "write it like reserve = \"4MiB\"",
        ));
    }
    Ok(pages as u32)
}

/// Finds the table. Where the description leaves out levels or the size of an entry, the form states them.
fn check_table(keys: &mut TranslationKeys, place: &str) -> Result<TableKind> {
    let form = keys.table.value.0;
    if form.has_levels {
        keys.levels.get_or_insert_with(|| At::derived(UpTo(4)));
    }
    let located = |mut problem: Box<Problem>| {
        problem.place = format!("{place}.levels");
        problem
    };
    let kind = form.kind(keys.levels.as_ref().map(|at| at.value.0)).map_err(located)?;
    if let (TableKind::Radix { levels }, Some(at)) = (kind, &keys.levels)
        && ![2, 4, 5].contains(&levels)
    {
        return Err(Problem::request(
            &levels.to_string(),
            &at.place,
            "a radix table has 2, 4 or 5 levels",
            "write it like levels = 4",
        ));
    }
    keys.entry.get_or_insert_with(|| At::derived(Bytes(form.usual_entry(kind).into())));
    Ok(kind)
}

fn check_walk_caches(
    sections: Option<&At<Named<WalkCacheKeys>>>,
    kind: TableKind,
    refill: Refill,
) -> Result<Vec<WalkCacheConfig>> {
    let Some(At { value: Named(sections), place }) = sections else { return Ok(Vec::new()) };
    let (TableKind::Radix { levels }, Refill::Hardware) = (kind, refill) else {
        return Err(Problem::request(
            "walk-cache",
            place,
            "walk caches keep the upper entries of a radix table, for a page walker",
            "leave them out, or take table = \"radix\" and refill = \"hardware\"",
        ));
    };
    let mut all = Vec::new();
    for (name, At { value: keys, place }) in sections {
        let wrong = |value: &str, at: &str, rule: &str, remedy: &str| {
            Err(Problem::request(value, &format!("{place}{at}"), rule, remedy))
        };
        let last = levels - 1;
        let Some(level) =
            name.parse::<u32>().ok().filter(|&level| level < last && level.to_string() == *name)
        else {
            let rule = format!(
                "the levels of a walk are numbered from 0, the root; the entries of the last of {levels} levels go into the TLB"
            );
            return wrong(name, "", &rule, &format!("name a level from 0 to {}", last - 1));
        };
        let entries = keys.entries.value.0;
        let ways = match keys.ways {
            Associativity::Full => u64::from(entries),
            Associativity::Ways(ways) => ways,
        };
        if entries == 0 || ways > u64::from(entries) || !u64::from(entries).is_multiple_of(ways) {
            let rule = "entries / ways is the number of sets, a whole number from 1";
            return wrong(&entries.to_string(), ".entries", rule, "take a multiple of the ways");
        }
        all.push(WalkCacheConfig { level, entries, ways: ways as u32 });
    }
    all.sort_by_key(|cache| cache.level);
    Ok(all)
}
