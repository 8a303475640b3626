//! Address spaces agree with the oracle on random events.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, VirtAddr};
use binhop_oracle::spaces as oracle;
use binhop_os::{MapFlags, Owner, Spaces};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Touch { asid: u32, page: u64, write: bool },
    Map { asid: u32, start: u64, pages: u64, flags: u32, segment: Option<(u64, u64)> },
    Unmap { asid: u32, start: u64, pages: u64 },
    Protect { asid: u32, start: u64, pages: u64 },
    Fork { child: u32, parent: u32 },
    End { asid: u32 },
    Kernel { page: u64 },
}

const SPACES: u32 = 4;
/// The number of pages of 4 KiB.
const PAGES: u64 = 24;

fn event() -> impl Strategy<Value = Event> {
    let asid = || 0..SPACES;
    let start = || 0..PAGES;
    let segment = proptest::option::weighted(0.7, (0..2u64, 0..5u64));
    prop_oneof![
        12 => (asid(), 0..PAGES + 8, any::<bool>()).prop_map(|(asid, page, write)| Event::Touch { asid, page, write }),
        4 => (asid(), start(), 0..9u64, 0..32u32, segment)
            .prop_map(|(asid, start, pages, flags, segment)| Event::Map { asid, start, pages, flags, segment }),
        2 => (asid(), start(), 1..9u64).prop_map(|(asid, start, pages)| Event::Unmap { asid, start, pages }),
        1 => (asid(), start(), 1..9u64).prop_map(|(asid, start, pages)| Event::Protect { asid, start, pages }),
        2 => (asid(), 1..SPACES).prop_map(|(parent, by)| Event::Fork { child: (parent + by) % SPACES, parent }),
        1 => asid().prop_map(|asid| Event::End { asid }),
        2 => (0..PAGES).prop_map(|page| Event::Kernel { page }),
    ]
}

/// Draws the sizes of a machine page and a trace page, in bytes.
fn sizes() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![3 => Just((4096, 4096)), 2 => Just((16384, 4096)), 1 => Just((8192, 4096)), 1 => Just((4096, 8192))]
}

fn run(machine: u64, trace: u64, shared_from: Option<u64>, events: &[Event]) {
    let page = PowerOfTwo::new(Bytes(machine)).unwrap();
    let mut fast = Spaces::new(page, Bytes(trace));
    let mut slow = oracle::Spaces::new(machine, trace, 8 << 20);
    let shared_from = shared_from.map(|page| page * machine);
    if let Some(first) = shared_from {
        fast.share_from(VirtAddr(first)).unwrap();
        slow.shared_from = Some(first / machine);
    }
    let is_shared = |start: u64| shared_from.is_some_and(|first| start / machine >= first / machine);
    // A range across the border is refused, and changes nothing.
    let crosses =
        |start: u64, pages: u64| pages > 0 && is_shared(start) != is_shared(start + pages * trace - 1);
    for (step, event) in events.iter().enumerate() {
        match *event {
            Event::Touch { asid, page, write } => {
                let page = PageNo(page * 4096 / machine);
                let found = fast.touch(Asid(asid), page, write).unwrap();
                let expected = slow.touch(Asid(asid), page, write);
                let found_parts =
                    (found.mapping, found.page, found.new_page, found.write_free, found.outside);
                let oracle::Touched { mapping, page: behind, new_page, write_free, outside } = expected;
                assert_eq!(found_parts, (mapping, behind, new_page, write_free, outside), "step {step}");
                assert_eq!(fast.page_of(mapping), behind);
                assert_eq!(fast.virtual_page(mapping), page);
                let owner = (!is_shared(page.0 * machine)).then_some(Asid(asid));
                assert_eq!(fast.asid_of(mapping), owner, "step {step}");
                assert!(fast.mappings_of(behind).any(|m| m == mapping));
                // A second touch gives the same answer.
                let again = fast.touch(Asid(asid), page, write).unwrap();
                assert_eq!((again.mapping, again.new_page), (mapping, false));
            }
            Event::Map { asid, start, pages, flags, segment } => {
                let (start, flags) = (start * 4096, MapFlags::from(flags));
                let segment = segment.map(|(name, offset)| (name, offset * 4096));
                let (name, offset) = segment.unzip();
                let mapped = fast.map(Asid(asid), VirtAddr(start), pages, flags, name, offset.unwrap_or(0));
                assert_eq!(mapped.is_err(), crosses(start, pages), "step {step}");
                if mapped.is_err() {
                    continue;
                }
                slow.map(Asid(asid), start, pages, (flags.shared(), flags.grows()), segment);
            }
            Event::Unmap { asid, start, pages } => {
                let unmapped = fast.unmap(Asid(asid), VirtAddr(start * 4096), pages);
                assert_eq!(unmapped.is_err(), crosses(start * 4096, pages), "step {step}");
                if unmapped.is_err() {
                    continue;
                }
                slow.unmap(Asid(asid), start * 4096, pages);
            }
            Event::Protect { asid, start, pages } => {
                let protected = fast.protect(Asid(asid), VirtAddr(start * 4096), pages);
                assert_eq!(protected.is_err(), crosses(start * 4096, pages), "step {step}");
            }
            Event::Fork { child, parent } => {
                fast.fork(Asid(child), Asid(parent)).unwrap();
                slow.fork(Asid(child), Asid(parent));
            }
            Event::Kernel { page } => {
                let found = fast.touch_kernel(PageNo(page)).unwrap();
                let expected = slow.touch_kernel(PageNo(page));
                assert_eq!((found.page, found.mapping, found.new_page), expected, "step {step}");
                assert!(found.write_free && !found.outside);
                assert_eq!(fast.asid_of(found.mapping), None);
                assert_eq!(fast.virtual_page(found.mapping), PageNo(page));
                assert_eq!(fast.owner_of(fast.segment_of(found.page)), Owner::Kernel);
                assert_eq!(fast.mappings_of(found.page).collect::<Vec<_>>(), [found.mapping]);
            }
            Event::End { asid } => {
                if step % 2 == 0 {
                    fast.exec(Asid(asid));
                } else {
                    fast.exit(Asid(asid));
                }
                slow.end(Asid(asid));
            }
        }
        assert_eq!(fast.drain_dead(), slow.dead(), "step {step}");
        assert_eq!(fast.unaligned(), slow.unaligned, "step {step}");
        for asid in (0..SPACES).map(Asid) {
            let pages = fast.pages_of_space(asid);
            assert!(slow.pages_of_space(asid).iter().eq(&pages), "step {step}, asid {asid}: {pages:?}");
            let segments = fast.segments_of_space(asid);
            assert!(segments.is_sorted_by(|a, b| a < b), "step {step}: {segments:?}");
            let stray = pages.iter().find(|page| !segments.contains(&fast.segment_of(**page)));
            assert_eq!(stray, None, "step {step}, asid {asid}: a page in none of its segments");
            assert_eq!(*fast.shared_segments(asid), *segments, "step {step}, asid {asid}");
            for page in [0, PAGES - 1] {
                let maps = fast.maps_anything(asid, PageNo(page));
                assert_eq!(maps, slow.maps_anything(asid, page), "step {step}, asid {asid}, page {page}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn sharing_and_deaths_equal_the_reference(
        (machine, trace) in sizes(),
        shared_from in proptest::option::weighted(0.3, 0..8u64),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        run(machine, trace, shared_from, &events);
    }
}
