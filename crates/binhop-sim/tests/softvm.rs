//! These tests compare software-managed translation with a slow model, in which the handlers' accesses are made one
//! after the other.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::common::{Event, Fixed, batch, cases, event, reference, run};
use crate::translation::model::SlowHugePages;
use crate::whole_engine::{Injection, Observer, Slow, World, apart, counts, sharing, stated_ids};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_base::{Asid, PageId, PageNo};
use binhop_oracle::cache_tree::CacheTree;
use binhop_oracle::placements::RunPlace;
use binhop_oracle::softvm::{Reference, SoftVm, SoftVmDesign};
use binhop_oracle::spaces::{Spaces, Touched};
use binhop_sim::{Machine, RunOptions, simulate, simulate_all};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

const PAGE: u64 = 4096;
/// The pages in a region of 256 MiB.
const REGION: u64 = 1 << 16;
/// The pages at which the parts of a trace begin. A part has 8 pages, and may reach a little further. The first three
/// lie in two regions each, the fourth in two pages of a root entry each.
const STARTS: [u64; 8] = [
    REGION - 4,
    3 * REGION - 8,
    5 * REGION - 1,
    17 * REGION + 1024 - 3,
    0,
    0x5_5555_5554,
    0x7_ffff_fff0,
    0xf_ffff_0000_0000,
];

/// `Side` describes the caches of instructions, or of data.
#[derive(Clone, Debug)]
struct Side {
    lines: [u64; 2],
    ways: [u64; 2],
    sets: [u64; 2],
    replacement: [&'static str; 2],
    orders: [&'static str; 2],
}

/// `Design` is a drawn machine.
#[derive(Clone, Debug)]
pub struct Design {
    sides: [Side; 2],
    memory: &'static str,
    policy: &'static str,
    /// The logarithm of the pages in a superpage.
    huge: Option<u32>,
    handler: u64,
    kept: bool,
    segments: u64,
    regions: u64,
    tag: &'static str,
    sharing: &'static str,
    /// The settings that state segment ids.
    ids: Vec<String>,
    lazy: bool,
    violations: &'static str,
    /// True if the costs of the levels add up; `None` if there are no costs.
    adds: Option<bool>,
    costs: [u64; 3],
}

fn order() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["after-fill", "before-fill"])
}

/// Draws the logarithm of the sets of a cache. Most caches are smaller than a page.
fn sets() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..6u32, 1 => 6..10u32]
}

prop_compose! {
    fn side()(
        line in 4..8u32,
        wider in 0..4u32,
        ways in [1..5u64, 1..5u64],
        sets in [sets(), sets()],
        orders in [order(), order()],
        other in prop::option::weighted(0.2, prop::sample::select(vec!["fifo", "random", "srrip"])),
    ) -> Side {
        Side {
            lines: [1 << line, 1 << (line + wider).min(7)],
            ways,
            sets: sets.map(|log2| 1 << log2),
            replacement: ["lru", other.unwrap_or("lru")],
            orders,
        }
    }
}

prop_compose! {
    pub fn design()(
        sides in [side(), side()],
        memory in prop::sample::select(vec!["96KiB", "128KiB", "1MiB"]),
        policy in prop::sample::select(vec!["random", "first"]),
        huge in prop::option::weighted(0.3, prop::sample::select(vec![1u32, 2, 4])),
        handler in prop_oneof![3 => Just(10u64), 1 => 1..100u64],
        kept in prop::bool::weighted(0.2),
        segments in prop::sample::select(vec![32u64, 40]),
        regions in prop::sample::select(vec![8u64, 8, 16]),
        tag in prop::sample::select(vec!["global", "asid"]),
        lazy in any::<bool>(),
        violations in prop::sample::select(vec!["count", "ignore"]),
        adds in prop::option::weighted(0.8, prop::bool::weighted(0.8)),
        costs in [1..40u64, 1..40u64, 40..200u64],
    ) -> Design {
        let policy = if huge.is_some() { "buddy" } else { policy };
        let sharing = "aliases";
        Design {
            sides, memory, policy, huge, handler, kept, segments, regions, tag, sharing, ids: Vec::new(), lazy,
            violations, adds, costs,
        }
    }
}

/// Draws a machine of direct-mapped caches. Half of the machines have lines of one size and a last level that has at
/// least the sets of level 1: preparation knows lines of their last level even where lanes may flush pages.
pub fn direct_mapped() -> impl Strategy<Value = Design> {
    let sets = [(0..5u32, 0..6u32), (0..5u32, 0..6u32)];
    let kinds = (prop::bool::weighted(0.7), any::<bool>());
    (design(), sets, kinds).prop_map(|(mut design, sets, (large, known))| {
        for (side, (first, more)) in design.sides.iter_mut().zip(sets) {
            side.ways = [1, 1];
            side.sets = [1 << first, 1 << more];
            if known {
                side.lines[1] = side.lines[0];
                side.sets[1] <<= first;
            }
        }
        if large {
            design.memory = "1MiB";
        }
        design
    })
}

/// Draws a machine on which address spaces share the segments of whole regions, or of stated ids.
fn sharing_design() -> impl Strategy<Value = Design> {
    let ids = prop_oneof![Just(Vec::new()), stated_ids()];
    let sharing = prop::sample::select(vec!["segments", "segments", "aliases"]);
    (prop_oneof![design(), direct_mapped()], ids, sharing).prop_map(|(design, ids, sharing)| Design {
        sharing,
        ids,
        ..design
    })
}

impl Design {
    /// Returns the design with pages of one size.
    pub fn without_superpages(self) -> Self {
        let policy = if self.huge.is_some() { "random" } else { self.policy };
        Self { huge: None, policy, ..self }
    }

    pub fn machine(&self) -> Machine {
        let cache = |name: &str, serves: &str, next: &str, level: usize, side: &Side| {
            let (line, ways, sets) = (side.lines[level], side.ways[level], side.sets[level]);
            let serves = if level == 0 { format!("serves = \"{serves}\"\n") } else { String::new() };
            format!(
                "[cache.{name}]\n{serves}size = \"{}B\"\nline = \"{line}B\"\nways = {ways}\nreplacement = \"{}\"\n\
                 index = \"virtual\"\ntag = \"{}\"\nwriteback-order = \"{}\"\nnext = \"{next}\"\n",
                line * ways * sets,
                side.replacement[level],
                self.tag,
                side.orders[level]
            )
        };
        let [fetch, data] = &self.sides;
        let caches = [
            cache("l1i", "fetch", "l2i", 0, fetch),
            cache("l1d", "data", "l2d", 0, data),
            cache("l2i", "", "memory", 1, fetch),
            cache("l2d", "", "memory", 1, data),
        ]
        .concat();
        let cost = self.adds.map_or_else(String::new, |adds| {
            let [l2i, l2d, memory] = self.costs;
            let mode = if adds { "add" } else { "total" };
            format!("[cost]\nmode = \"{mode}\"\nl2i = {l2i}\nl2d = {l2d}\nmemory = {memory}\n")
        });
        let placement = if self.huge.is_some() { "fragmentation = 0" } else { "pool = \"32KiB\"" };
        let huge = self.huge.map_or_else(String::new, |log2| format!("huge-pages = \"{}KiB\"\n", 4 << log2));
        let toml = format!(
            "memory = {{ size = \"{}\", page = \"4KiB\" }}\nplacement = {{ policy = \"{}\", {placement} }}\n\
             {caches}{cost}[translation]\nactive = true\ntable = \"disjunct\"\nrefill = \"cache-miss\"\nhandler = {}\n\
             write-backs = \"{}\"\nsegments = {}\nregions = {}\nsharing = \"{}\"\n\
             protection-changes = \"{}\"\nprotection-violations = \"{}\"\n{huge}",
            self.memory,
            self.policy,
            self.handler,
            if self.kept { "kept" } else { "table" },
            self.segments,
            self.regions,
            self.sharing,
            if self.lazy { "lazy" } else { "eager" },
            self.violations,
        );
        Machine::parse(&toml, "softvm", &self.ids).unwrap_or_else(|problem| panic!("{toml}\n{problem}"))
    }

    fn slow(&self, machine: &Machine, seed: u64) -> Slow<SlowSoftVm> {
        // The handlers' code lies above memory, and the table lies behind the code.
        let above = machine.memory().frames.unwrap() * PAGE;
        let config = machine.tree().config();
        let design = SoftVmDesign {
            handler: self.handler,
            kept: self.kept,
            segments: self.segments,
            regions: self.regions,
            code: above,
            map: above + PAGE,
            pages_of_superpage: self.huge.map_or(1, |log2| 1 << log2),
            memory_cost: config.memory_cost,
        };
        let mut softvm = SoftVm::new(design, [config.fetch, config.data]);
        softvm.table.stated = machine.segments().ids().map(u64::from).collect();
        softvm.protection.lazy = self.lazy;
        softvm.protection.counts_violations = self.violations == "count";
        let huge = SlowHugePages::new(self.huge.unwrap_or(0));
        let observer = SlowSoftVm {
            softvm,
            huge,
            has_superpages: self.huge.is_some(),
            asid: Asid(0),
            before_measured: BTreeMap::new(),
        };
        Slow::new(machine, seed, observer)
    }
}

/// `SlowSoftVm` tells the slow model of accesses and of events.
struct SlowSoftVm {
    softvm: SoftVm,
    /// The superpages, if superpages have several pages.
    huge: SlowHugePages,
    has_superpages: bool,
    asid: Asid,
    /// The counts when the measured part began.
    before_measured: BTreeMap<String, u64>,
}

impl Observer for SlowSoftVm {
    fn touched(&mut self, at: (Asid, PageNo), touched: &Touched, spaces: &Spaces) {
        if self.has_superpages {
            self.huge.touched(at, touched, spaces);
        }
    }

    fn run_of(&mut self, page: PageId) -> Option<RunPlace> {
        self.huge.run_of(page)
    }

    fn inject(&mut self, next: &Injection, tree: &mut CacheTree, world: &mut World) {
        let &Injection { kind, page_no, segment, mapping, offset, .. } = next;
        let run = self.huge.mapped(self.asid, page_no);
        self.softvm.whole.clone_from(&world.whole);
        let next = Reference { kind, asid: self.asid, page_no, segment, mapping, offset, run };
        self.softvm.before(&next, tree, world);
    }

    fn injects_at_misses(&self) -> bool {
        true
    }

    fn follow(&mut self, tree: &mut CacheTree, world: &World) {
        self.softvm.after(tree, world);
    }

    fn measure(&mut self) {
        self.before_measured = self.softvm.all_counts();
    }

    fn protect(&mut self, events: &EventBatch, row: usize, tree: &mut CacheTree, world: &World) {
        let (first, count) = (events.addr()[row] / PAGE, u64::from(events.count()[row]));
        if count > 0 {
            let pages = [first, first + count - 1];
            self.softvm.protect(self.asid, pages, events.size()[row], tree, world);
        }
    }

    fn event(&mut self, events: &EventBatch, row: usize) {
        self.huge.event(self.asid, events, row);
        let (addr, count) = (events.addr()[row], u64::from(events.count()[row]));
        match Op::from_code(events.op()[row]).unwrap() {
            Op::Switch => self.asid = Asid(addr as u32),
            op @ (Op::Map | Op::Unmap) if count > 0 => {
                let first = addr / PAGE;
                let flags = (op == Op::Map).then_some(events.size()[row]);
                self.softvm.protection.map(self.asid, first, first + count - 1, flags);
                self.softvm.table.unmap(self.asid, PageNo(first), PageNo(first + count - 1));
            }
            Op::Fork => {
                let parent = events.arg0(row).map_or(self.asid, |parent| Asid(parent as u32));
                self.softvm.table.drop_space(Asid(addr as u32));
                self.softvm.protection.inherit(Asid(addr as u32), Some(parent));
            }
            Op::Exec | Op::Exit => {
                self.softvm.table.drop_space(Asid(addr as u32));
                self.softvm.protection.inherit(Asid(addr as u32), None);
            }
            _ => {}
        }
    }
}

/// Returns a trace with each part of 8 pages moved to its start, and with other flags of maps and changes of
/// protection. The flags follow from the row.
pub fn scatter(events: &EventBatch, starts: &[u64]) -> EventBatch {
    let mut rows = EventBuilder::default();
    for row in 0..events.len() {
        let op = Op::from_code(events.op()[row]).unwrap();
        let mut addr = events.addr()[row];
        if op as u8 <= Op::Modify as u8 || matches!(op, Op::Map | Op::Unmap | Op::Protect) {
            let page = addr / PAGE;
            let part = (page / 8).min(starts.len() as u64 - 1);
            addr = (starts[part as usize] + page - part * 8) * PAGE + addr % PAGE;
        }
        let (mut size, count) = (events.size()[row], events.count()[row]);
        match op {
            Op::Map => size = size & !7 | [3, 3, 7, 5, 1][row % 5],
            Op::Protect => size = [1, 3, 3, 5, 7, 0, 4, 2][row % 8],
            _ => {}
        }
        rows.push_args(op, addr, size, count, [events.arg0(row), events.arg1(row)]);
    }
    rows.finish()
}

/// Draws the starts of the parts.
pub fn starts() -> impl Strategy<Value = Vec<u64>> {
    prop::sample::subsequence(STARTS.to_vec(), 5).prop_shuffle()
}

/// Draws events, with changes of protection among them.
pub fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    let protect = (0u8..40, 1u8..6).prop_map(|(page, pages)| Event::Protect { page, pages });
    prop::collection::vec(prop_oneof![20 => event(), 1 => protect], 1..most)
}

/// Compares a run with the slow model under two seeds.
fn compare(design: &Design, events: &EventBatch) {
    let machine = design.machine();
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 500));
    let fast = match simulate(&machine, source, &options, None, &mut |_| Ok(())) {
        Ok(fast) => fast,
        Err(problem) => {
            let mut slow = design.slow(&machine, 0);
            slow.run(events);
            assert!(slow.observer.softvm.table.conflict, "{problem}");
            let of_table = problem.place.starts_with("page table of address space");
            assert!(
                of_table || problem.place.ends_with("a global address") && slow.has_conflict(),
                "{problem}"
            );
            return;
        }
    };
    for seed in 0..2 {
        let mut slow = design.slow(&machine, seed);
        slow.run(events);
        let mut expected = slow.metrics();
        let runs = slow.run_counts();
        for (name, count) in [
            ("", runs.taken),
            (".fallbacks", runs.fallbacks),
            (".splits", runs.splits),
            (".lost", runs.most_unused * PAGE),
        ] {
            if design.huge.is_some() {
                expected.insert(format!("translation.huge-pages{name}"), count as f64);
            }
        }
        let SlowSoftVm { softvm, .. } = slow.observer;
        assert!(!softvm.table.conflict, "two regions of a segment have different pages");
        let (costs, all) = (machine.has_cost(), softvm.all_counts());
        let of_cycles = |name: &str| name.starts_with("translation.cycles.");
        let cycles: u64 = all.iter().filter(|(name, _)| of_cycles(name)).map(|(_, count)| count).sum();
        let of_sweeps = |name: &str| name == "translation.protection.cycles";
        let counted = all.iter().filter(|(name, _)| costs || !(of_cycles(name) || of_sweeps(name)));
        expected.extend(counted.map(|(name, &count)| (name.clone(), count as f64)));
        if costs {
            expected.insert("translation.cycles".into(), cycles as f64);
        }
        expected.insert("translation.tables".into(), softvm.table.most_used as f64 * PAGE as f64);
        expected.insert("translation.write-backs.most-waiting".into(), softvm.most_waiting as f64);
        expected.retain(|_, value| *value > 0.0);
        let mut fast = counts(&fast, seed as usize, 2);
        fast.remove("translation.cpi");
        // The slow model does not know what a mapping allows.
        fast.remove("translation.aliases.writable");
        for name in expected.keys().chain(fast.keys()) {
            assert_eq!(fast.get(name), expected.get(name), "{name}, seed {seed}");
        }
    }
    for other in [
        run(&machine, events, 7, &options),
        run(&machine, events, 500, &RunOptions { threads: 2, ..options.clone() }),
        run(&machine, events, 500, &RunOptions { share: false, ..options.clone() }),
        run(&machine, events, 500, &RunOptions { interval: Some(23), ..options.clone() }),
    ] {
        assert_eq!(other.results, fast.results);
    }
}

/// Compares the counts of the measured part of a run that has a warm-up, and ends before some instruction.
fn compare_part(design: &Design, events: &EventBatch, warmup: u64, instructions: u64) {
    let machine = design.machine();
    let options =
        RunOptions { seeds: vec![3], warmup, instructions: Some(instructions), ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 100));
    // The run may end within the warm-up.
    let Ok(outcome) = simulate(&machine, source, &options, None, &mut |_| Ok(())) else { return };
    let mut slow = design.slow(&machine, 3);
    (slow.warmup, slow.most_instructions) = (warmup, instructions);
    slow.run(events);
    let of_measured_synonyms =
        (slow.synonyms.as_ref().unwrap().synonyms - slow.synonyms_before_measured) as f64;
    let SlowSoftVm { softvm, before_measured, .. } = slow.observer;
    let results = &outcome.results;
    let column = |name: &str| results.column_by_name(name).unwrap().as_string::<i32>().clone();
    let (phases, names) = (column("phase"), column("metric"));
    let values = results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    let measured = |name: &str| {
        let row = (0..results.num_rows())
            .find(|&row| phases.value(row) == "measured" && names.value(row) == name)?;
        Some(values.value(row))
    };
    for (name, &count) in &softvm.all_counts() {
        let Some(value) = measured(name) else {
            assert!(!machine.has_cost() || count == 0, "{name}");
            continue;
        };
        let before = before_measured.get(name).copied().unwrap_or(0);
        assert_eq!(value, (count - before) as f64, "{name}");
    }
    assert_eq!(measured("translation.synonyms"), Some(of_measured_synonyms));
    let most_waiting = measured("translation.write-backs.most-waiting").unwrap_or(0.0);
    assert_eq!(most_waiting, softvm.most_waiting as f64);
}

/// Compares what the caches hold after a run: one further access to a page must find what it finds in the slow model.
/// Every page is tried, each in a run of its own.
fn compare_contents(design: &Design, events: &[Event], starts: &[u64]) {
    for page in 0..12 {
        let offset = 64 * u16::from(page % 3);
        let load = Event::Data { op: Op::Load, page, offset, size: 4 };
        let fetch = Event::Fetch { page, offset, count: 1 };
        let probe = if page % 4 == 3 { fetch } else { load };
        compare(design, &scatter(&batch(&[events, &[probe]].concat()), starts));
    }
}

proptest! {
    #![proptest_config(cases(16, 64))]

    #[test]
    fn softvm_is_that_of_handlers_run_at_every_miss(
        design in design(),
        starts in starts(),
        events in events(400),
    ) {
        compare(&design, &scatter(&batch(&events), &starts));
    }

    #[test]
    fn softvm_over_direct_mapped_caches(
        design in direct_mapped(),
        starts in starts(),
        events in events(600),
    ) {
        compare(&design, &scatter(&batch(&events), &starts));
    }

    #[test]
    fn softvm_of_spaces_that_share_segments(design in sharing_design(), events in sharing(500)) {
        compare(&design, &apart(&events));
    }

    #[test]
    fn softvm_behind_a_warm_up_and_before_a_cut(
        design in design(),
        starts in starts(),
        events in events(400),
        warmup in 0..300u64,
        instructions in 0..2000u64,
    ) {
        compare_part(&design, &scatter(&batch(&events), &starts), warmup, instructions);
    }

    #[test]
    fn softvm_under_scarce_memory(
        design in design(),
        starts in starts(),
        events in prop::collection::vec(reference(), 1..600),
    ) {
        compare(&Design { memory: "96KiB", ..design }, &scatter(&batch(&events), &starts));
    }
}

/// Checks that machines that are simulated together count what each machine counts alone. The machines are the design
/// with other costs, handlers, write-backs and last levels, and without translation.
fn compare_together(design: &Design, other: &Design, events: &EventBatch) {
    let [fetch, data] = design.sides.clone();
    let longer = |mut side: Side| {
        side.sets[1] *= 2;
        side
    };
    let machine = design.machine();
    let off = Machine::parse(&machine.resolved(), "off", &["translation=off".to_string()]).unwrap();
    let machines = [
        machine,
        Design { kept: !design.kept, ..design.clone() }.machine(),
        Design { handler: other.handler, costs: other.costs, ..design.clone() }.machine(),
        Design { sides: [longer(fetch), longer(data)], ..design.clone() }.machine(),
        off,
        other.machine(),
    ];
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    for threads in [1, 2] {
        let options = RunOptions { threads, ..options.clone() };
        let source = Box::new(Fixed::new(events.clone(), 100));
        let together = simulate_all(&machines, source, &options, None, &mut |_| Ok(())).unwrap();
        for (machine, together) in machines.iter().zip(together) {
            assert_eq!(together.results, run(machine, events, 100, &options).results, "{}", machine.name());
        }
    }
}

proptest! {
    #![proptest_config(cases(3, 12))]

    #[test]
    fn softvm_leaves_what_handlers_run_at_every_miss_leave(
        design in design(),
        starts in starts(),
        events in events(300),
    ) {
        compare_contents(&design, &events, &starts);
    }

    #[test]
    fn softvm_of_several_machines_is_that_of_each_alone(
        design in design(),
        other in design(),
        starts in starts(),
        events in events(400),
    ) {
        compare_together(&design, &other, &scatter(&batch(&events), &starts));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn softvm_is_that_of_handlers_run_at_every_miss_in_many_cases(
        design in design(),
        starts in starts(),
        events in events(600),
    ) {
        compare(&design, &scatter(&batch(&events), &starts));
    }

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn softvm_of_spaces_that_share_segments_in_many_cases(design in sharing_design(), events in sharing(900)) {
        compare(&design, &apart(&events));
    }

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn softvm_over_direct_mapped_caches_in_many_cases(
        design in direct_mapped(),
        starts in starts(),
        events in events(1000),
    ) {
        compare(&design, &scatter(&batch(&events), &starts));
    }
}
