//! The tables equal the oracle's after each of many random maps, unmaps and ends of address spaces: in what they
//! refuse, in the translations, in every read of every walk and in the pages in use.

use std::collections::BTreeSet;

use binhop_base::{Asid, PageId, PageNo, PowerOfTwo};
use binhop_oracle::page_table::{self as oracle, Read, TableDesign};
use binhop_os::page_table::{PageTables, Step, TableConfig, TableKind};
use proptest::prelude::*;

const SPACES: u32 = 3;

/// The addresses around which pages are mapped: neighbours in one table page, across table pages of each
/// level, in many regions, and in the upper half. The last address leaves room for 8 pages of 64 KiB.
const BASES: [u64; 12] = [
    0,
    0x0040_0000,
    0x1fff_d000,
    0x3fff_e000,
    0x5555_5565_4000,
    0x5555_5ffe_e000,
    0x7f00_0000_0000,
    0x7f80_ffff_c000,
    0x7fff_f7dd_0000,
    0x7fff_ffff_a000,
    0xffff_8000_0000_0000,
    0xffff_ffff_fff8_0000,
];

#[derive(Clone, Copy, Debug)]
struct Place {
    base: usize,
    offset: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Map { asid: u32, place: Place, page: u32, huge: bool },
    Unmap { asid: u32, place: Place, pages: u64 },
    UnmapBetween { asid: u32, from: Place, to: Place },
    Drop { asid: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    let asid = || 0..SPACES;
    let place = || (0..BASES.len(), 0..8u64).prop_map(|(base, offset)| Place { base, offset });
    prop_oneof![
        12 => (asid(), place(), 0..12u32, prop::bool::weighted(0.2))
            .prop_map(|(asid, place, page, huge)| Event::Map { asid, place, page, huge }),
        3 => (asid(), place(), 1..600u64).prop_map(|(asid, place, pages)| Event::Unmap { asid, place, pages }),
        1 => (asid(), place(), place()).prop_map(|(asid, from, to)| Event::UnmapBetween { asid, from, to }),
        1 => asid().prop_map(|asid| Event::Drop { asid }),
    ]
}

/// `Form` is a table of each form, with sizes that the form allows.
#[derive(Clone, Copy, Debug)]
struct Form {
    kind: TableKind,
    page_log2: u32,
    entry: u32,
}

fn forms() -> impl Strategy<Value = Form> {
    let form = |kind, page_log2, entry| Just(Form { kind, page_log2, entry });
    let radix = |levels| TableKind::Radix { levels };
    prop_oneof![
        form(TableKind::Mips, 12, 4),
        form(TableKind::Mips, 14, 4),
        form(TableKind::Mips, 16, 4),
        form(radix(2), 12, 4),
        form(radix(2), 14, 4),
        form(radix(2), 16, 4),
        form(radix(2), 12, 8),
        form(radix(3), 12, 8),
        form(radix(4), 12, 8),
        form(radix(4), 14, 8),
        form(radix(5), 12, 8),
        form(radix(5), 14, 8),
        form(TableKind::Hashed, 12, 16),
        form(TableKind::Hashed, 12, 2048),
        form(TableKind::Inverted, 12, 16),
        form(TableKind::Inverted, 12, 2048),
    ]
}

/// `Both` holds the tables and the oracle's tables.
struct Both {
    form: Form,
    fast: PageTables,
    slow: oracle::PageTables,
    most_used: u32,
}

impl Both {
    fn new(form: Form, reserve: u32, frames: u64) -> Option<Self> {
        let Form { kind, page_log2, entry } = form;
        let config = TableConfig { kind, page: PowerOfTwo::from_log2(page_log2), entry, reserve, frames };
        let slow_kind = match kind {
            TableKind::Mips => TableDesign::Mips,
            TableKind::Radix { levels } => TableDesign::Radix(levels),
            TableKind::Hashed => TableDesign::Hashed,
            TableKind::Inverted => TableDesign::Inverted,
            TableKind::Disjunct { .. } => unreachable!("the oracle of softvm has this table"),
        };
        let slow = oracle::PageTables::new(slow_kind, page_log2, entry, reserve, frames);
        let fast = PageTables::new(&config);
        assert_eq!(fast.is_ok(), slow.used() <= reserve);
        fast.ok().map(|fast| Both { form, fast, most_used: slow.used(), slow })
    }

    fn page_no(&self, place: Place) -> u64 {
        (BASES[place.base] >> self.form.page_log2) + place.offset
    }

    /// Returns the logarithm of the base pages in the smallest huge page; 0 if the form has no huge pages.
    fn huge_log2(&self) -> u32 {
        let bits = self.form.page_log2 - self.form.entry.ilog2();
        if matches!(self.form.kind, TableKind::Radix { .. }) { bits } else { 0 }
    }

    fn apply(&mut self, event: Event) {
        let mut unmap = |asid, first: u64, last: u64| {
            self.fast.unmap(Asid(asid), PageNo(first), PageNo(last));
            self.slow.unmap(Asid(asid), first, last);
        };
        let number = |place: Place| (BASES[place.base] >> self.form.page_log2) + place.offset;
        match event {
            Event::Map { asid, place, page, huge } => {
                let huge_log2 = if huge { self.huge_log2() } else { 0 };
                let page_no = self.page_no(place) >> huge_log2 << huge_log2;
                let size_log2 = self.form.page_log2 + huge_log2;
                let mapped = self.fast.map(Asid(asid), PageNo(page_no), PageId(page), size_log2);
                let expected = self.slow.map(Asid(asid), page_no, PageId(page), size_log2);
                assert_eq!(mapped.is_ok(), expected, "{mapped:?}");
            }
            Event::Unmap { asid, place, pages } => {
                unmap(asid, number(place), number(place) + pages - 1);
            }
            Event::UnmapBetween { asid, from, to } => unmap(asid, number(from), number(to)),
            Event::Drop { asid } => {
                self.fast.drop_space(Asid(asid));
                self.slow.unmap(Asid(asid), 0, u64::MAX);
            }
        }
        self.most_used = self.most_used.max(self.slow.used());
        assert_eq!((self.fast.used(), self.fast.most_used()), (self.slow.used(), self.most_used));
        assert_eq!(self.fast.entries(), self.slow.entries());
        self.fast.check().unwrap();
    }

    /// Compares the walks of all pages that events name.
    fn compare_walks(&self) {
        let mut last_reads = BTreeSet::new();
        let mut translations = BTreeSet::new();
        for asid in (0..SPACES).map(Asid) {
            for place in (0..BASES.len()).flat_map(|base| (0..8).map(move |offset| Place { base, offset })) {
                let page_no = self.page_no(place);
                let mut steps = vec![];
                let found = self.fast.walk(asid, PageNo(page_no), &mut steps);
                let found = found.map(|found| (found.page, found.size_log2));
                let reads: Vec<Read> = steps.iter().map(read).collect();
                assert_eq!((found, reads), self.slow.walk(asid, page_no), "{asid} {page_no:#x}");
                if let Some((_, size_log2)) = found {
                    last_reads.insert(steps[steps.len() - 1]);
                    translations.insert((asid, page_no >> (size_log2 - self.form.page_log2), size_log2));
                }
            }
        }
        assert_eq!(last_reads.len(), translations.len(), "each translation has an entry of its own");
    }
}

fn read(step: &Step) -> Read {
    match *step {
        Step::Entry { table, offset, level } => Read::Entry(table, offset, level),
        Step::Frame { page, base } => Read::Frame(page, base),
    }
}

fn run(form: Form, reserve: u32, frames: u64, events: &[Event]) {
    let Some(mut both) = Both::new(form, reserve, frames) else { return };
    for event in events {
        both.apply(*event);
        both.compare_walks();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn tables_equal_the_reference(
        form in forms(),
        reserve in prop_oneof![Just(1000u32), 8..40u32],
        frames in 1..20u64,
        events in proptest::collection::vec(event(), 1..60),
    ) {
        run(form, reserve, frames, &events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes minutes"]
    fn tables_equal_the_reference_at_length(
        form in forms(),
        reserve in prop_oneof![Just(1000u32), 8..60u32],
        frames in 1..40u64,
        events in proptest::collection::vec(event(), 1..200),
    ) {
        run(form, reserve, frames, &events);
    }
}
