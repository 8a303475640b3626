//! These tests check `Mmu`. They compare a caller that drops every reference that it may drop with the oracle, which
//! every reference asks: outcomes, counts and contents are equal after each event. Further tests follow tables of a
//! textbook.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use binhop_hw::{
    DATA_PORT, FETCH_PORT, GLOBAL_SPACE, LastUses, Mmu, MmuConfig, TlbConfig, TlbOutcome, TlbPage,
    TlbReplacement, WalkCacheConfig,
};
use binhop_oracle::tlb::{Lookup, MmuDesign, TlbDesign, VirtualPage};
use proptest::prelude::*;

const BASE: u32 = 12;
/// A big page has 4 base pages.
const BIG: u32 = BASE + 2;
/// The references of a space are to base pages below this number; every further page is a page of all spaces.
const OWN_PAGES: u64 = 28;
const PAGES: u64 = 32;
/// From this event on, the `Mmu` is told of every use.
const KNOWS_UNTIL: u64 = 150;
/// The root pages of a software refill lie here; each maps 8 base pages.
const ROOTS: u64 = 64;

fn tlb(entries: u32, ways: u32, replacement: TlbReplacement) -> TlbConfig {
    TlbConfig { name: "tlb".into(), entries, ways, replacement, wired: 0, pages: vec![BASE], next: None }
}

/// Makes one TLB for both ports.
fn unified(tlb: TlbConfig) -> MmuConfig {
    MmuConfig {
        base_log2: BASE,
        tlbs: vec![tlb],
        fetch: vec![0],
        data: vec![0],
        tagged: true,
        spaces: None,
        walk_caches: vec![],
    }
}

fn page(space: u32, number: u64) -> TlbPage {
    TlbPage { space, number, size_log2: BASE }
}

fn design_of(config: &MmuConfig) -> MmuDesign {
    let tlb = |tlb: &TlbConfig| TlbDesign {
        wired: tlb.wired as usize,
        sets: u64::from(tlb.entries / tlb.ways),
        ways: (tlb.ways - tlb.wired) as usize,
        replacement: tlb.replacement.name(),
        pages: tlb.pages.clone(),
        next: tlb.next,
    };
    let walk_cache = |cache: &WalkCacheConfig| {
        let (sets, ways) = (u64::from(cache.entries / cache.ways), cache.ways as usize);
        let design = TlbDesign { wired: 0, sets, ways, replacement: "lru", pages: vec![], next: None };
        (cache.level as usize, design)
    };
    MmuDesign {
        base_log2: config.base_log2,
        tlbs: config.tlbs.iter().map(tlb).collect(),
        ports: [config.fetch.clone(), config.data.clone()],
        tagged: config.tagged,
        spaces: config.spaces.map(|spaces| spaces as usize),
        walk_caches: config.walk_caches.iter().map(walk_cache).collect(),
    }
}

/// Returns every count that is not 0, under the oracle's names.
fn counts_of(mmu: &Mmu) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut count = |name: String, value: u64| {
        if value > 0 {
            all.insert(name, value);
        }
    };
    let counts = mmu.counts();
    for (tlb, of) in counts.tlbs.iter().enumerate() {
        for (port, name) in [(FETCH_PORT, "fetch"), (DATA_PORT, "data")] {
            of.ports[port].each(|info, _, value| count(format!("tlb {tlb} {name} {}", info.name), value));
        }
        of.entries.each(|info, _, value| count(format!("tlb {tlb} {}", info.name), value));
    }
    for (cache, of) in counts.walk_caches.iter().enumerate() {
        of.each(|info, _, value| count(format!("walk cache {cache} {}", info.name), value));
    }
    count("flushes".into(), counts.flushes);
    count("rollovers".into(), counts.rollovers);
    all
}

fn names(contents: Vec<Vec<Option<TlbPage>>>) -> Vec<Vec<Option<VirtualPage>>> {
    let name = |page: TlbPage| (page.space, page.number, page.size_log2);
    contents.into_iter().map(|slots| slots.into_iter().map(|slot| slot.map(name)).collect()).collect()
}

#[derive(Clone, Debug)]
struct Machine {
    config: MmuConfig,
    /// True if some pages are big.
    big: bool,
    /// True if software refills: the handler looks up the root page, and its entries are wired.
    software: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Reference {
        port: usize,
        base_page: u64,
    },
    /// The port refers again to the page of its last reference.
    Again {
        port: usize,
    },
    Switch(u32),
    Invalidate {
        space: u32,
        first: u64,
        pages: u64,
    },
    InvalidateSpace(u32),
}

/// `NotedUses` holds for each entry the time of its last use of which the `Mmu` was not told.
#[derive(Default)]
struct NotedUses(BTreeMap<u32, u64>);

impl LastUses for NotedUses {
    fn later(&self, entry: u32, time: u64) -> Option<u64> {
        let last = *self.0.get(&entry)?;
        // Any later time is an answer.
        (last > time).then(|| if last > time + 2 { last - 1 } else { last })
    }

    fn all(&self, mut note: impl FnMut(u32, u64)) {
        self.0.iter().for_each(|(&entry, &time)| note(entry, time));
    }
}

/// `Pair` tells the same events to the oracle and to an `Mmu`, which is not told of every reference.
struct Pair<'a> {
    machine: &'a Machine,
    mmu: Mmu,
    oracle: binhop_oracle::tlb::Mmu,
    running: u32,
    now: u64,
    dropped: u64,
    last: [u64; 2],
    /// The entries of the pages that are known to be present, by port and base page; `None` if every use is told.
    known: Option<BTreeMap<(usize, u64), u32>>,
    uses: NotedUses,
    /// The uses that the `Mmu` does not count, under the oracle's names.
    noted: BTreeMap<String, u64>,
}

impl<'a> Pair<'a> {
    fn new(machine: &'a Machine, knows: bool) -> Self {
        let mut pair = Self {
            machine,
            mmu: Mmu::new(&machine.config),
            oracle: binhop_oracle::tlb::Mmu::new(&design_of(&machine.config)),
            running: 0,
            now: 0,
            dropped: 0,
            last: [0; 2],
            known: knows.then(BTreeMap::new),
            uses: NotedUses::default(),
            noted: BTreeMap::new(),
        };
        pair.mmu.report_left(knows);
        pair.event(Event::Switch(0));
        pair
    }

    fn page_of(&self, base_page: u64) -> TlbPage {
        let space = if base_page < OWN_PAGES { self.running } else { GLOBAL_SPACE };
        let is_big = self.machine.big && base_page / 4 % 3 == 1;
        let size_log2 = if is_big { BIG } else { BASE };
        TlbPage { space, number: base_page >> (size_log2 - BASE), size_log2 }
    }

    fn event(&mut self, event: Event) {
        self.now += 1;
        if self.known.is_some() && self.now == KNOWS_UNTIL {
            self.mmu.take_uses(&self.uses);
            self.mmu.report_left(false);
            self.mmu.forget_last_pages();
            self.known = None;
        }
        if let Some(known) = &mut self.known
            && !matches!(event, Event::Reference { .. } | Event::Again { .. })
        {
            known.clear();
            self.mmu.take_uses(&self.uses);
            if self.now.is_multiple_of(2) {
                self.uses.0.clear();
            }
        }
        match event {
            Event::Reference { port, base_page } => self.refer(port, base_page),
            Event::Again { port } => self.refer(port, self.last[port]),
            Event::Switch(space) => {
                self.running = space;
                self.mmu.switch(space);
                self.oracle.switch(space);
            }
            Event::Invalidate { space, first, pages } => {
                self.mmu.invalidate(space, first, first + pages);
                self.oracle.invalidate(space, first, first + pages);
            }
            Event::InvalidateSpace(space) => {
                self.mmu.invalidate_space(space);
                self.oracle.invalidate_space(space);
            }
        }
    }

    fn refer(&mut self, port: usize, base_page: u64) {
        self.last[port] = base_page;
        let page = self.page_of(base_page);
        if self.known.is_some() {
            self.refer_to_known(port, base_page, page);
            return;
        }
        if self.mmu.is_last(port, base_page) {
            self.dropped += 1;
            self.mmu.note_last_use(port, 1, self.now);
            let name = (page.space, page.number, page.size_log2);
            assert!(matches!(self.oracle.look_up(port, name), Lookup::First(_)), "{page:?} was dropped");
            return;
        }
        self.look_up_and_walk(port, base_page, page);
    }

    /// Refers to a page. If the page is known to be present, or is the port's last page, only the time is noted, unless
    /// the `Mmu` takes over what is noted.
    fn refer_to_known(&mut self, port: usize, base_page: u64, page: TlbPage) {
        let entry = self.known.as_ref().and_then(|known| known.get(&(port, base_page)).copied());
        let of_last = || self.mmu.is_last(port, base_page).then(|| self.mmu.entry_of_last(port)).flatten();
        if let Some(entry) = entry.or_else(of_last) {
            self.uses.0.insert(entry, self.now);
            if self.now.is_multiple_of(7) {
                self.mmu.take_uses(&self.uses);
                self.uses.0.clear();
            }
            self.dropped += 1;
            let name = (page.space, page.number, page.size_log2);
            let Lookup::First(tlb) = self.oracle.look_up(port, name) else { panic!("{page:?} was dropped") };
            let port = ["fetch", "data"][port];
            *self.noted.entry(format!("tlb {tlb} {port} accesses")).or_default() += 1;
            return;
        }
        self.mmu.advance(self.now);
        self.look_up_and_walk(port, base_page, page);
        let known = self.known.as_mut().unwrap();
        for left in self.mmu.take_left() {
            known.retain(|_, entry| *entry != left);
        }
        known.extend(self.mmu.entry_of_last(port).map(|entry| ((port, base_page), entry)));
    }

    fn look_up_and_walk(&mut self, port: usize, base_page: u64, page: TlbPage) {
        if !self.look_up(port, page, false) {
            return;
        }
        if self.machine.software {
            let root = TlbPage { space: page.space, number: ROOTS + base_page / 8, size_log2: BASE };
            if self.look_up(DATA_PORT, root, true) {
                self.fill(DATA_PORT, root, true);
            }
        } else {
            let shifts: &[u32] = if page.size_log2 == BIG { &[4, 2] } else { &[4, 2, 0] };
            let from = self.mmu.walk_from(page.space, base_page, shifts);
            self.mmu.fill_walk_caches(page.space, base_page, shifts, from);
            assert_eq!(from, self.oracle.walk(page.space, base_page, shifts));
        }
        self.fill(port, page, false);
    }

    /// Returns whether the look-up missed the page.
    fn look_up(&mut self, port: usize, page: TlbPage, of_table: bool) -> bool {
        let name = (page.space, page.number, page.size_log2);
        let expected =
            if of_table { self.oracle.look_up_wired(port, name) } else { self.oracle.look_up(port, name) };
        let outcome = match expected {
            Lookup::First(tlb) => TlbOutcome::First(tlb),
            Lookup::Second(tlb) => TlbOutcome::Second(tlb),
            Lookup::Nowhere => TlbOutcome::Miss,
        };
        let found = if of_table || self.known.is_some() {
            self.mmu.look_up_knowing(port, page, of_table, &self.uses)
        } else {
            self.mmu.look_up(port, page)
        };
        assert_eq!(found, outcome, "{page:?} at port {port}");
        outcome == TlbOutcome::Miss
    }

    fn fill(&mut self, port: usize, page: TlbPage, wired: bool) {
        if wired {
            self.mmu.fill_knowing(port, page, wired, &self.uses);
        } else if self.known.is_some() {
            self.mmu.fill_missed(port, page, &self.uses);
        } else {
            self.mmu.fill(port, page);
        }
        self.oracle.fill(port, (page.space, page.number, page.size_log2), wired);
    }

    fn compare(&self) {
        assert_eq!(names(self.mmu.contents()), self.oracle.contents());
        assert_eq!(names(self.mmu.walk_cache_contents()), self.oracle.walk_cache_contents());
        let mut counts = counts_of(&self.mmu);
        for (name, uses) in &self.noted {
            *counts.entry(name.clone()).or_default() += uses;
        }
        assert_eq!(counts, self.oracle.counts);
        let resident = |slots: &[Option<TlbPage>]| slots.iter().flatten().count() as u64;
        for (counts, slots) in self.mmu.counts().tlbs.iter().zip(self.mmu.contents()) {
            let of = &counts.entries;
            assert_eq!(of.fills, of.evictions + of.invalidated + of.flushed + resident(&slots));
        }
    }
}

/// Tells the events to a pair and, if uses of known pages may be noted, to a second pair, which notes them. Returns the
/// numbers of dropped references.
fn compare(machine: &Machine, events: &[Event]) -> [u64; 2] {
    let may_know = Mmu::new(&machine.config).uses_are_times();
    [false, true].map(|knows| {
        if knows && !may_know {
            return 0;
        }
        let mut pair = Pair::new(machine, knows);
        for &event in events {
            pair.event(event);
            pair.compare();
        }
        pair.dropped
    })
}

/// A TLB of a few sets of a few ways, with every replacement, and wired slots where there can be.
fn any_tlb(pages: Vec<u32>, next: Option<usize>) -> impl Strategy<Value = TlbConfig> {
    let replacement = prop::sample::select(TlbReplacement::ALL.to_vec());
    (replacement, 1u32..6, 1u32..7, 0u32..4).prop_map(move |(replacement, sets, ways, wired)| {
        let ways = if replacement == TlbReplacement::Plru { ways.next_power_of_two() } else { ways };
        let wired = if sets > 1 || replacement == TlbReplacement::Plru { 0 } else { wired };
        let ways = ways + wired;
        TlbConfig { wired, pages: pages.clone(), next, ..tlb(sets * ways, ways, replacement) }
    })
}

/// The TLBs of the ports, and whether pages may be big: unified, split, a small TLB of fetches before the TLB of
/// data, split before a second level, and a TLB for each size before a second level that holds base pages only.
fn tlbs() -> impl Strategy<Value = (Vec<TlbConfig>, Vec<usize>, Vec<usize>, bool)> {
    let (small, both) = (|| vec![BASE], || vec![BASE, BIG]);
    let [unified, split, before_data, two_levels] = [
        (vec![(both(), None)], vec![0], vec![0], true),
        (vec![(both(), None), (both(), None)], vec![0], vec![1], true),
        (vec![(both(), Some(1)), (both(), None)], vec![0], vec![1], true),
        (vec![(small(), Some(2)), (small(), Some(2)), (small(), None)], vec![0], vec![1], false),
    ];
    let by_size = vec![(both(), Some(3)), (small(), Some(3)), (vec![BIG], Some(3)), (small(), None)];
    let by_size = (by_size, vec![0], vec![1, 2], true);
    let unified_by_size = (vec![(small(), None), (vec![BIG], None)], vec![0, 1], vec![1, 0], true);
    let layouts = vec![unified, split, before_data, two_levels, by_size, unified_by_size];
    prop::sample::select(layouts).prop_flat_map(|(tlbs, fetch, data, big)| {
        let tlbs: Vec<_> = tlbs.into_iter().map(|(pages, next)| any_tlb(pages, next)).collect();
        (tlbs, Just(fetch), Just(data), Just(big))
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let walk_cache = |level| {
        (1u32..3, 1u32..4).prop_map(move |(sets, ways)| WalkCacheConfig { level, entries: sets * ways, ways })
    };
    let walk_caches = prop_oneof![
        1 => Just(vec![]),
        1 => walk_cache(1).prop_map(|cache| vec![cache]),
        2 => (walk_cache(0), walk_cache(1)).prop_map(|(root, middle)| vec![root, middle]),
    ];
    let spaces = prop_oneof![1 => Just(None), 2 => (1u32..4).prop_map(Some)];
    (tlbs(), any::<bool>(), spaces, walk_caches, any::<bool>(), any::<bool>()).prop_map(
        |((tlbs, fetch, data, may_be_big), tagged, spaces, walk_caches, big, software)| Machine {
            config: MmuConfig { base_log2: BASE, tlbs, fetch, data, tagged, spaces, walk_caches },
            big: may_be_big && big,
            software,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let port = || prop::sample::select(vec![FETCH_PORT, DATA_PORT]);
    let space = || prop_oneof![4 => 0u32..4, 1 => Just(GLOBAL_SPACE)];
    // References stay among few pages for a while, so that there are hits of every kind.
    let base_page = prop_oneof![3 => 0..8u64, 1 => 0..PAGES];
    prop_oneof![
        20 => (port(), base_page).prop_map(|(port, base_page)| Event::Reference { port, base_page }),
        20 => port().prop_map(|port| Event::Again { port }),
        2 => (0u32..4).prop_map(Event::Switch),
        1 => (space(), 0..PAGES, 0..6u64)
            .prop_map(|(space, first, pages)| Event::Invalidate { space, first, pages }),
        1 => (space(), ROOTS..ROOTS + 4, 0..1u64)
            .prop_map(|(space, first, pages)| Event::Invalidate { space, first, pages }),
        1 => space().prop_map(Event::InvalidateSpace),
    ]
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn dropped_references_change_nothing(
        machine in machine(),
        events in prop::collection::vec(event(), 1..250),
    ) {
        compare(&machine, &events);
    }
}

proptest! {
    #![proptest_config(cases(100_000))]

    #[test]
    #[ignore = "takes minutes: 100,000 cases"]
    fn dropped_references_change_nothing_in_long_runs(
        machine in machine(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        compare(&machine, &events);
    }
}

fn refer(port: usize, base_page: u64) -> Event {
    Event::Reference { port, base_page }
}

#[test]
fn a_reference_is_dropped_unless_its_entry_has_left() {
    let dropped = |config: MmuConfig, events: &[Event]| {
        compare(&Machine { config, big: false, software: false }, events)
    };
    let two = || unified(tlb(2, 2, TlbReplacement::Lru));
    let [fetch, data] = [FETCH_PORT, DATA_PORT].map(|port| move |page| refer(port, page));
    assert_eq!(dropped(two(), &[data(1), data(1), data(1)]), [2, 2]);
    assert_eq!(dropped(two(), &[data(1), fetch(2), data(1), fetch(2)]), [2, 2]);
    assert_eq!(dropped(two(), &[data(1), data(2), data(1)]), [0, 1]);
    // The fetch of page 3 evicts page 1, which data used last before page 2 was fetched.
    assert_eq!(dropped(two(), &[data(1), fetch(2), fetch(3), data(1)]), [0, 0]);
    // The dropped use of page 1 is noted before page 3 comes, so page 2 leaves.
    assert_eq!(dropped(two(), &[data(1), fetch(2), data(1), fetch(3), data(1)]), [2, 2]);
    assert_eq!(dropped(two(), &[data(1), Event::Switch(1), data(1)]), [0, 0]);
    assert_eq!(
        dropped(two(), &[data(1), Event::Invalidate { space: 0, first: 1, pages: 0 }, data(1)]),
        [0, 0]
    );
    assert_eq!(
        dropped(two(), &[data(1), Event::Invalidate { space: 0, first: 2, pages: 9 }, data(1)]),
        [1, 1]
    );
}

/// Refers to pages of space 0 at the data port, and returns the slots after each reference.
fn slots(config: &MmuConfig, pages: &[u64]) -> Vec<Vec<u64>> {
    let mut mmu = Mmu::new(config);
    mmu.switch(0);
    let refer = |&number| {
        if mmu.look_up(DATA_PORT, page(0, number)) == TlbOutcome::Miss {
            mmu.fill(DATA_PORT, page(0, number));
        }
        mmu.contents()[0].iter().map(|slot| slot.map_or(0, |page| page.number)).collect()
    };
    pages.iter().map(refer).collect()
}

#[test]
fn the_textbooks_table_of_lru_and_fifo() {
    // Silberschatz, Galvin, Gagne: Operating System Concepts, §9.4: the reference string over three frames.
    let string = [7, 8, 1, 2, 8, 3, 8, 4];
    let lru = slots(&unified(tlb(3, 3, TlbReplacement::Lru)), &string);
    assert_eq!(lru[3..], [[2, 8, 1], [2, 8, 1], [2, 8, 3], [2, 8, 3], [4, 8, 3]]);
    let fifo = slots(&unified(tlb(3, 3, TlbReplacement::Fifo)), &string);
    assert_eq!(fifo[3..], [[2, 8, 1], [2, 8, 1], [2, 3, 1], [2, 3, 8], [4, 3, 8]]);
}

#[test]
fn sets_need_not_be_a_power_of_two() {
    let table = slots(&unified(tlb(6, 2, TlbReplacement::Lru)), &[3, 4, 6, 9, 10]);
    assert_eq!(table[4], [9, 6, 4, 10, 0, 0]);
}

#[test]
fn wired_slots_hold_wired_fills_only() {
    let config = unified(TlbConfig { wired: 2, ..tlb(4, 4, TlbReplacement::Fifo) });
    let mut mmu = Mmu::new(&config);
    mmu.switch(0);
    for number in [1, 2, 3] {
        mmu.fill(DATA_PORT, page(0, number));
    }
    for number in [11, 12, 13] {
        mmu.fill_knowing(DATA_PORT, page(0, number), true, &());
    }
    let numbers: Vec<u64> = mmu.contents()[0].iter().map(|slot| slot.unwrap().number).collect();
    assert_eq!(numbers, [13, 12, 3, 2]);
}

#[test]
fn a_flush_spares_wired_and_global_entries_and_a_rollover_global_entries() {
    let left = |tagged, spaces| {
        let config =
            MmuConfig { tagged, spaces, ..unified(TlbConfig { wired: 1, ..tlb(4, 4, TlbReplacement::Lru) }) };
        let mut mmu = Mmu::new(&config);
        mmu.switch(0);
        mmu.fill(DATA_PORT, page(0, 1));
        mmu.fill(DATA_PORT, page(GLOBAL_SPACE, 2));
        mmu.fill_knowing(DATA_PORT, page(0, 3), true, &());
        mmu.switch(1);
        let left: Vec<u64> = mmu.contents()[0].iter().flatten().map(|page| page.number).collect();
        (left, mmu.counts().flushes, mmu.counts().rollovers)
    };
    assert_eq!(left(true, None), (vec![3, 1, 2], 0, 0));
    assert_eq!(left(true, Some(2)), (vec![3, 1, 2], 0, 0));
    assert_eq!(left(true, Some(1)), (vec![2], 0, 1));
    assert_eq!(left(false, None), (vec![3, 2], 1, 0));
}

#[test]
fn a_walk_begins_behind_the_deepest_entry_that_is_cached() {
    let cache = |level| WalkCacheConfig { level, entries: 4, ways: 4 };
    let config =
        MmuConfig { walk_caches: vec![cache(0), cache(2)], ..unified(tlb(4, 4, TlbReplacement::Lru)) };
    let mut mmu = Mmu::new(&config);
    // The tables of x86-64: nine bits for each level.
    let shifts = [27, 18, 9, 0];
    let mut walk = |base_page| {
        let from = mmu.walk_from(0, base_page, &shifts);
        mmu.fill_walk_caches(0, base_page, &shifts, from);
        from
    };
    assert_eq!([walk(0), walk(1), walk(1 << 9), walk(1 << 27)], [0, 3, 1, 0]);
    // The walk of a page of 2 MiB ends at level 2, whose entry is the page's own.
    assert_eq!(mmu.walk_from(0, 1, &shifts[..3]), 1);
}

#[test]
fn a_description_that_breaks_a_rule_is_refused() {
    let good = || TlbConfig { wired: 8, ..tlb(64, 64, TlbReplacement::Random) };
    assert_eq!(unified(good()).broken_rule(), None);
    let refused = |change: fn(&mut TlbConfig)| {
        let mut tlb = good();
        change(&mut tlb);
        unified(tlb).broken_rule().expect("a broken rule").1
    };
    assert!(refused(|tlb| tlb.wired = 64).contains("more entries than wired slots"));
    assert!(refused(|tlb| tlb.ways = 16).contains("fully associative"));
    assert!(refused(|tlb| tlb.ways = 48).contains("multiple of its ways"));
    assert!(refused(|tlb| tlb.entries = 0).contains("at least one"));
    assert!(refused(|tlb| tlb.replacement = TlbReplacement::Plru).contains("leave out wired"));
    assert!(refused(|tlb| tlb.pages = vec![]).contains("one size at least"));
    assert!(refused(|tlb| tlb.pages = vec![11]).contains("smaller than the base page"));
    assert!(refused(|tlb| tlb.next = Some(0)).contains("two levels"));
}
