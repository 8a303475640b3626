//! Draws machines, subscriptions of units, and streams. All are small, so that their accesses often conflict.

use std::collections::BTreeMap;

use binhop_base::{Agent, Bytes};
use binhop_hw::Replacement;
use binhop_sim::Machine;
use binhop_sim::occasion::{Lines, OccasionKind, Subscription, TouchedLines};
use binhop_trace::Op;
use proptest::prelude::*;

use super::synthetic::{OWNED, PAGE};
use crate::common::{Event, event};

/// `Raw` holds drawn choices, from which [`build`] makes a cache that fits into its tree.
#[derive(Clone, Debug)]
pub struct Raw {
    size: usize,
    wider: u32,
    ways: usize,
    /// True if the cache is indexed virtually, hashed, write-through, not allocating, writing back before the
    /// fill, and inclusive.
    flags: [bool; 6],
    tag: usize,
    /// True if virtual tags are global addresses; that of the first cache counts for all.
    global: bool,
    replacement: usize,
    buffer: Option<(u32, u32)>,
    cost: u32,
}

pub fn raw() -> impl Strategy<Value = Raw> {
    let often_not = || prop::bool::weighted(0.25);
    let flags = [any::<bool>().boxed(), often_not().boxed(), often_not().boxed(), often_not().boxed()];
    let [virtually, hashed, through, spare] = flags;
    let flags = (virtually, hashed, through, spare, any::<bool>(), prop::bool::weighted(0.15));
    let buffer = prop::option::weighted(0.7, (1u32..4, 0u32..12));
    let tag = (0usize..3, any::<bool>());
    (0usize..6, 0u32..3, 0usize..4, flags, tag, 0..Replacement::ALL.len(), buffer, 1u32..20).prop_map(
        |(size, wider, ways, (a, b, c, d, e, f), (tag, global), replacement, buffer, cost)| Raw {
            size,
            wider,
            ways,
            flags: [a, b, c, d, e, f],
            tag,
            global,
            replacement,
            buffer,
            cost,
        },
    )
}

/// The shapes of trees: for each cache its name, the references that it serves, and its next level.
pub const SHAPES: &[&[(&str, &str, &str)]] = &[
    &[("l1", "all", "memory")],
    &[("l1", "all", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "memory"), ("l1d", "data", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l2"), ("l2", "", "l3"), ("l3", "", "memory")],
    &[("l1i", "fetch", "l1d"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1i", "fetch", "l2"), ("l1d", "data", "l1i"), ("l2", "", "memory")],
    // The cache `m` stands between two caches that the processor accesses.
    &[("l1i", "fetch", "m"), ("m", "", "l1d"), ("l1d", "data", "l2"), ("l2", "", "memory")],
    &[("l1d", "data", "m"), ("m", "", "l1i"), ("l1i", "fetch", "memory")],
];

pub const MEMORIES: &[(Option<u64>, &str)] = &[
    (None, "policy = \"identity\""),
    (Some(512), "policy = \"random\", pool = \"256KiB\""),
    (Some(512), "policy = \"page-coloring-equal\", pool = \"512KiB\", bins = 8"),
    (Some(13), "policy = \"random\", pool = \"16KiB\""),
    (Some(11), "policy = \"first\", pool = \"4KiB\""),
    (Some(16), "policy = \"page-coloring-pid-hash\", pool = \"16KiB\", bins = 4"),
    (Some(30), "policy = \"random\", pool = \"32KiB\""),
    (Some(24), "policy = \"random\", pool = \"8KiB\""),
    (Some(20), "policy = \"first\", pool = \"8KiB\""),
    (Some(28), "policy = \"page-coloring-equal\", pool = \"16KiB\", bins = 4"),
    (Some(26), "policy = \"page-coloring-pid-hash\", pool = \"20KiB\", bins = 8"),
    (Some(32), "policy = \"bin-hopping\", pool = \"24KiB\", bins = 4"),
    (Some(12), "policy = \"random\", pool = \"40KiB\""),
    (Some(48), "policy = \"colored-lists\", colors = 4"),
    (Some(24), "policy = \"buddy\""),
    (Some(40), "policy = \"buddy\", fragmentation = 30"),
];

/// Returns the description of a machine of one of the shapes.
pub fn build(shape: usize, raws: &[Raw], memory: usize, add: bool) -> String {
    use std::fmt::Write;
    let (frames, placement) = MEMORIES[memory];
    let size = frames.map_or_else(String::new, |frames| format!("size = \"{}\", ", Bytes(frames * PAGE)));
    let mut text = format!("memory = {{ {size}page = \"4KiB\" }}\nplacement = {{ {placement} }}\n");
    let mut costs = format!("[cost]\nmode = \"{}\"\nmemory = 100\n", if add { "add" } else { "total" });
    let mut buffers = String::new();
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    // Tells whether all caches in front of a cache know mappings.
    let mut knows: BTreeMap<&str, bool> = BTreeMap::new();
    for ((name, serves, next), raw) in SHAPES[shape].iter().zip(raws) {
        let [virtually, hashed, through, spare, first, inclusive] = raw.flags;
        let first_level = !serves.is_empty();
        let knows_mapping = knows.get(name).copied().unwrap_or(true);
        let virtual_tag = if raws[0].global { "global" } else { "asid" };
        let tag = if knows_mapping && raw.tag > 0 { virtual_tag } else { "physical" };
        let index = if knows_mapping && (virtually || tag == "global") { "virtual" } else { "physical" };
        let ways = [1, 1, 2, 4][raw.ways];
        let line = (lines.get(name).copied().unwrap_or(16) << raw.wider).min(128);
        let bytes = [256u64, 512, 1024, 2048, 4096, 8192][raw.size] << if first_level { 0 } else { 2 };
        let bytes = bytes.max(u64::from(ways * line));
        let replacement = Replacement::ALL[raw.replacement].name();
        let serves = if first_level { format!("serves = \"{serves}\"\n") } else { String::new() };
        let write = if through { "through" } else { "back" };
        let order = if first { "before-fill" } else { "after-fill" };
        let allocate = !spare;
        writeln!(
            text,
            "[cache.{name}]\n{serves}size = \"{bytes}B\"\nline = \"{line}B\"\nways = {ways}\nindex = \"{index}\"\n\
             hash = {hashed}\ntag = \"{tag}\"\nwrite = \"{write}\"\nallocate = {allocate}\n\
             replacement = \"{replacement}\"\nwriteback-order = \"{order}\"\ninclusive = {inclusive}\nnext = \"{next}\""
        )
        .unwrap();
        if let (true, Some((entries, drain))) = (through, raw.buffer) {
            let (merge, stalls) = (entries % 2 == 0, drain % 5 != 4);
            writeln!(
                buffers,
                "[write-buffer.{name}]\nentries = {entries}\ndrain = {drain}\nmerge = {merge}\nstalls = {stalls}"
            )
            .unwrap();
        }
        if !first_level {
            writeln!(costs, "{name} = {}", raw.cost).unwrap();
        }
        let wide = lines.entry(next).or_insert(16);
        *wide = line.max(*wide);
        *knows.entry(next).or_insert(true) &= tag != "physical";
    }
    text + &buffers + &costs
}

pub fn machine() -> impl Strategy<Value = Machine> {
    (0..SHAPES.len(), prop::collection::vec(raw(), 4), 0..MEMORIES.len(), any::<bool>())
        .prop_filter_map("the machine is sound", |(shape, raws, memory, add)| {
            Machine::parse(&build(shape, &raws, memory, add), "drawn", &[]).ok()
        })
}

pub fn lines() -> impl Strategy<Value = Lines> {
    prop_oneof![
        1 => Just(Lines::None),
        2 => Just(Lines::All),
        2 => (0u64..8, 1u64..300).prop_map(|(start, bytes)| Lines::Bytes(start * 61..start * 61 + bytes)),
    ]
}

pub fn touched() -> impl Strategy<Value = TouchedLines> {
    prop_oneof![
        1 => Just(TouchedLines::NOTHING),
        1 => Just(TouchedLines::EVERYTHING),
        2 => (lines(), lines()).prop_map(|(fetch, data)| TouchedLines { fetch, data }),
        1 => lines().prop_map(|lines| TouchedLines { fetch: lines.clone(), data: lines }),
    ]
}

/// Draws kinds of occasions. System calls are always among them, so that the unit can read the caches at the end.
pub fn subscription() -> impl Strategy<Value = Subscription> {
    let each = prop::option::weighted(0.5, touched());
    prop::collection::vec(each, OccasionKind::ALL.len()).prop_map(|chosen| {
        let mut subscription = Subscription::new(OWNED, Agent::ALL);
        for (&kind, touched) in OccasionKind::ALL.iter().zip(chosen) {
            match (kind, touched) {
                // At system calls the unit always asks for lines of level 1, so that it may read the caches
                // there.
                (OccasionKind::Syscall, touched) => {
                    let touched = touched.filter(|touched| !touched.is_nothing());
                    subscription = subscription.at(kind, touched.unwrap_or(TouchedLines::EVERYTHING));
                }
                (OccasionKind::Device, None) => subscription = subscription.at(kind, TouchedLines::NOTHING),
                (_, Some(touched)) => subscription = subscription.at(kind, touched),
                (_, None) => {}
            }
        }
        subscription
    })
}

/// Draws references, the events between them, and requests of devices.
pub fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        24 => event(),
        12 => near(),
        2 => (0u8..4).prop_map(Event::Syscall),
        1 => (any::<bool>(), 0u8..40).prop_map(|(writes, page)| Event::Device { writes, page }),
        1 => Just(Event::Thread),
    ]
}

/// Draws references to few lines. Filters skip them unless a unit may touch the lines.
pub fn near() -> impl Strategy<Value = Event> {
    let op = prop_oneof![Just(Op::Load), Just(Op::Store), Just(Op::Modify)];
    prop_oneof![
        (0u8..2, 0u16..4, 1u8..4).prop_map(|(page, line, count)| Event::Fetch {
            page,
            offset: line * 16,
            count
        }),
        (op, 0u8..2, 0u16..4).prop_map(|(op, page, line)| Event::Data {
            op,
            page,
            offset: line * 16,
            size: 4
        }),
    ]
}

/// Draws references to few lines of many pages.
pub fn far() -> impl Strategy<Value = Event> {
    (0u8..30, 0u16..4).prop_map(|(page, line)| Event::Data { op: Op::Load, page, offset: line * 16, size: 4 })
}

/// Draws occasions of all kinds between references that hit.
pub fn occasion() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => near(),
        4 => far(),
        1 => Just(Event::Thread),
        1 => (0u8..4).prop_map(Event::Syscall),
        1 => (any::<bool>(), 0u8..40).prop_map(|(writes, page)| Event::Device { writes, page }),
    ]
}

/// Draws machines whose seeds share a front. Many have one direct-mapped level 2.
pub fn sharing() -> impl Strategy<Value = Machine> {
    let memory = 0..MEMORIES.len();
    (prop::collection::vec(raw(), 4), any::<bool>(), memory, any::<bool>(), any::<bool>()).prop_map(
        |(mut raws, split, memory, add, direct)| {
            for raw in &mut raws[..2 + usize::from(split)] {
                raw.size = raw.size.min(4);
                raw.buffer = None;
                raw.flags[5] = false;
                raw.flags[1] &= raw.size < 2;
                raw.tag = 0;
                if Replacement::ALL[raw.replacement].draws() {
                    raw.replacement = 0;
                }
            }
            if direct {
                let last = &mut raws[1 + usize::from(split)];
                (last.size, last.ways, last.flags) =
                    (2, 0, [false, false, false, false, last.flags[4], false]);
            }
            let text = build(if split { 3 } else { 1 }, &raws, memory, add);
            Machine::parse(&text, "sharing", &[]).unwrap_or_else(|problem| panic!("{text}\n{problem}"))
        },
    )
}

/// Draws kinds of occasions at which the unit touches no line of level 1. The front stays shared until the last look.
pub fn behind() -> impl Strategy<Value = Subscription> {
    prop::collection::vec(any::<bool>(), OccasionKind::ALL.len()).prop_map(|chosen| {
        let kinds = OccasionKind::ALL
            .iter()
            .zip(chosen)
            .filter(|&(&kind, chosen)| chosen && kind != OccasionKind::Miss);
        let subscription = kinds.fold(Subscription::new(OWNED, Agent::ALL), |subscription, (&kind, _)| {
            subscription.at(kind, TouchedLines::NOTHING)
        });
        let lines = TouchedLines { fetch: Lines::None, data: Lines::Bytes(0..1) };
        subscription.at(OccasionKind::Device, TouchedLines::NOTHING).at(OccasionKind::Syscall, lines)
    })
}
