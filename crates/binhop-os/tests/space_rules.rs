//! These tests check the rules of address spaces, case by case.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeMap;

use binhop_base::{Asid, Bytes, Class, PageId, PageNo, PowerOfTwo, VirtAddr};
use binhop_os::{Owner, SegmentId, Spaces, Touch};
use proptest::prelude::*;

const READ: u32 = 1;
const WRITE: u32 = 2;
const SHARED: u32 = 8;
const GROWS: u32 = 16;
const A: Asid = Asid(1);
const B: Asid = Asid(2);
const C: Asid = Asid(3);

fn spaces(page: u64) -> Spaces {
    Spaces::new(PowerOfTwo::new(Bytes(page)).unwrap(), Bytes(4096))
}

/// Maps `pages` pages of 4 KiB at page `at`, from page `from` of the segment on.
fn map(spaces: &mut Spaces, asid: Asid, at: u64, pages: u64, flags: u32, segment: Option<u64>, from: u64) {
    spaces.map(asid, VirtAddr(at << 12), pages, flags.into(), segment, from << 12).unwrap();
}

fn read(spaces: &mut Spaces, asid: Asid, page: u64) -> Touch {
    spaces.touch(asid, PageNo(page), false).unwrap()
}

fn write(spaces: &mut Spaces, asid: Asid, page: u64) -> Touch {
    spaces.touch(asid, PageNo(page), true).unwrap()
}

#[test]
fn a_shared_segments_page_is_one_page_in_every_space() {
    let mut spaces = spaces(4096);
    map(&mut spaces, A, 10, 4, READ | SHARED, Some(7), 0);
    map(&mut spaces, B, 99, 2, READ | WRITE | SHARED, Some(7), 2);
    let a = read(&mut spaces, A, 12);
    let b = write(&mut spaces, B, 99);
    assert_eq!((a.page, a.new_page), (PageId(0), true));
    assert_eq!((b.page, b.new_page, b.write_free), (PageId(0), false, true));
    assert_ne!(a.mapping, b.mapping);
    assert_eq!(spaces.mappings_of(a.page).collect::<Vec<_>>(), [b.mapping, a.mapping]);
    assert_eq!(spaces.global_page(a.page), PageNo(12)); // the number of the first mapping
    assert_eq!(spaces.owner_of(spaces.segment_of(a.page)), Owner::Named(7));
    assert_eq!((spaces.footprint(A), spaces.footprint(B), spaces.pages(), spaces.mappings()), (1, 1, 1, 2));
}

#[test]
fn a_private_mapping_reads_the_segment_and_writes_its_own() {
    let mut spaces = spaces(4096);
    for asid in [A, B] {
        map(&mut spaces, asid, 10, 1, READ | WRITE, Some(7), 0);
    }
    let shared = read(&mut spaces, A, 10);
    assert!(!shared.write_free);
    let own = write(&mut spaces, A, 10);
    assert!(own.new_page && own.write_free && own.page != shared.page && own.mapping != shared.mapping);
    assert_eq!(read(&mut spaces, A, 10).page, own.page);
    assert_eq!(spaces.owner_of(spaces.segment_of(own.page)), Owner::Space(A));
    assert_eq!(read(&mut spaces, B, 10).page, shared.page); // a write of A changes nothing for B
    assert!(!spaces.has_dead());
    let other = write(&mut spaces, B, 10);
    assert!(other.page != own.page && other.page != shared.page);
    assert_eq!(spaces.drain_dead(), [shared.page]); // no address space can reach the page any more
}

#[test]
fn after_a_fork_each_spaces_first_write_makes_a_page() {
    let mut spaces = spaces(4096);
    map(&mut spaces, A, 10, 2, READ | WRITE, None, 0);
    map(&mut spaces, A, 20, 1, READ | WRITE | SHARED, None, 0);
    let (before, shared) = (write(&mut spaces, A, 10), write(&mut spaces, A, 20));
    spaces.fork(B, A).unwrap();
    for asid in [A, B] {
        let touch = read(&mut spaces, asid, 10);
        assert_eq!((touch.page, touch.write_free), (before.page, false));
    }
    let parent = write(&mut spaces, A, 10);
    assert!(parent.new_page && !spaces.has_dead());
    let child = write(&mut spaces, B, 10);
    assert!(child.new_page && child.page != parent.page); // the child gets a copy, although it was the last holder of the original
    assert_eq!(spaces.drain_dead(), [before.page]);
    assert_eq!(write(&mut spaces, A, 10).page, parent.page); // only the first write makes a page
    for asid in [A, B] {
        assert_eq!(write(&mut spaces, asid, 20).page, shared.page); // a shared page stays shared
    }
    // A page that nobody had touched before the fork is not inherited.
    assert_ne!(read(&mut spaces, A, 11).page, read(&mut spaces, B, 11).page);
}

#[test]
fn a_fork_of_a_fork_copies_again_and_an_ended_child_changes_nothing() {
    let mut spaces = spaces(4096);
    let first = write(&mut spaces, A, 5).page;
    spaces.fork(B, A).unwrap();
    spaces.fork(C, B).unwrap();
    assert_eq!(read(&mut spaces, C, 5).page, first);
    spaces.exit(C);
    spaces.exec(B);
    assert!(!spaces.has_dead());
    let second = write(&mut spaces, A, 5); // A is alone, but it has forked before
    assert!(second.new_page);
    assert_eq!(spaces.drain_dead(), [first]);
    spaces.fork(B, A).unwrap();
    let copy = write(&mut spaces, B, 5).page;
    spaces.fork(C, B).unwrap();
    assert_eq!(read(&mut spaces, C, 5).page, copy);
    assert_eq!(read(&mut spaces, A, 5).page, second.page);
}

#[test]
fn a_page_dies_with_its_last_mapping_and_comes_back_new() {
    let mut spaces = spaces(4096);
    for asid in [A, B] {
        map(&mut spaces, asid, 10, 2, READ, Some(7), 0);
    }
    let text = read(&mut spaces, A, 10);
    let stack = write(&mut spaces, A, 50);
    spaces.exit(A);
    assert_eq!(spaces.drain_dead(), [stack.page]); // B has the text mapped, although B never touched it
    assert_eq!(read(&mut spaces, B, 10).page, text.page);
    map(&mut spaces, B, 10, 2, READ, Some(7), 0); // the segment is mapped over itself in one step
    assert_eq!(read(&mut spaces, B, 10).page, text.page);
    spaces.unmap(B, VirtAddr(10 << 12), 1).unwrap();
    assert_eq!(spaces.drain_dead(), [text.page]);
    map(&mut spaces, B, 10, 2, READ, Some(7), 0);
    assert!(read(&mut spaces, B, 10).new_page);
    let again = write(&mut spaces, A, 50); // asid 1 comes again, as another address space
    assert!(again.new_page);
    assert_ne!(spaces.segment_of(again.page), spaces.segment_of(stack.page));
}

#[test]
fn a_map_over_a_live_range_replaces_it_and_protect_does_not() {
    let mut spaces = spaces(4096);
    map(&mut spaces, A, 10, 3, READ | WRITE, None, 0);
    let pages: Vec<PageId> = (10..13).map(|page| write(&mut spaces, A, page).page).collect();
    spaces.protect(A, VirtAddr(11 << 12), 1).unwrap();
    assert_eq!(write(&mut spaces, A, 11).page, pages[1]); // the trace says what happened
    map(&mut spaces, A, 11, 1, READ | WRITE, None, 0);
    assert_eq!(spaces.drain_dead(), [pages[1]]);
    assert!(read(&mut spaces, A, 11).new_page);
    assert_eq!(read(&mut spaces, A, 10).page, pages[0]);
    assert_eq!(read(&mut spaces, A, 12).page, pages[2]);
}

#[test]
fn a_machine_page_belongs_to_a_segment_wholly_and_congruently_or_not_at_all() {
    let mut spaces = spaces(16384);
    let shared = READ | SHARED;
    map(&mut spaces, A, 0, 8, shared, Some(7), 4); // machine pages 0 and 1 are pages 1 and 2 of the segment
    map(&mut spaces, B, 4, 3, shared, Some(7), 8); // two pieces make one area
    map(&mut spaces, B, 7, 1, shared, Some(7), 11);
    let whole = read(&mut spaces, A, 1);
    assert_eq!(read(&mut spaces, B, 1).page, whole.page);
    assert_eq!(spaces.unaligned(), 0);
    map(&mut spaces, C, 4, 8, shared, Some(7), 9); // the area is not congruent
    assert_ne!(read(&mut spaces, C, 1).page, whole.page);
    map(&mut spaces, C, 12, 3, shared, Some(7), 8); // the area does not hold the whole page
    assert_ne!(read(&mut spaces, C, 3).page, whole.page);
    map(&mut spaces, C, 16, 3, READ | WRITE, None, 0); // the area is private in any case
    assert!(!write(&mut spaces, C, 4).outside);
    assert_eq!(spaces.unaligned(), 2);
    // A mapping from an address inside a page is never congruent. Its pages are private.
    spaces.map(B, VirtAddr(0x10_0010), 8, shared.into(), Some(7), 0).unwrap();
    assert!(read(&mut spaces, B, 0x10_0000 >> 14).new_page);
    assert_eq!(spaces.unaligned(), 3);
    // If half of a page is unmapped, the page is the address space's own from then on. The segment's page
    // lives in A.
    spaces.unmap(B, VirtAddr(4 << 12), 2).unwrap();
    assert!(read(&mut spaces, B, 1).new_page);
    assert!(!spaces.has_dead());
    spaces.unmap(A, VirtAddr(7 << 12), 1).unwrap();
    assert_eq!(spaces.drain_dead(), [whole.page]);
}

#[test]
fn a_smaller_machine_page_is_a_part_of_the_traces() {
    let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(16384));
    for (asid, at) in [(A, 0x10_0000), (B, 0x20_0000)] {
        spaces.map(asid, VirtAddr(at), 1, (READ | SHARED).into(), Some(1), 0).unwrap();
    }
    for part in 0..4 {
        assert_eq!(read(&mut spaces, A, 0x100 + part).page, read(&mut spaces, B, 0x200 + part).page);
    }
    assert!(read(&mut spaces, A, 0x104).outside);
    assert_eq!(spaces.unaligned(), 0);
}

#[test]
fn a_stack_grows_to_a_touch_at_most_8_mib_below_it() {
    let mut spaces = spaces(4096);
    let top = 0x7_ffff;
    map(&mut spaces, A, top, 1, READ | WRITE | GROWS, None, 0);
    map(&mut spaces, B, top, 1, READ | WRITE, None, 0);
    assert!(read(&mut spaces, A, top - 2049).outside);
    assert!(!read(&mut spaces, A, top - 2048).outside);
    assert!(!read(&mut spaces, A, top - 2048 - 1500).outside); // the distance counts from the new start
    assert!(!read(&mut spaces, A, top - 5).outside); // the area holds this page now
    assert!(read(&mut spaces, A, top + 1).outside); // the area never grows upward
    assert!(read(&mut spaces, B, top - 1).outside);
    // A named stack also shares its pages below its first byte.
    for asid in [A, B] {
        map(&mut spaces, asid, 100, 1, READ | WRITE | SHARED | GROWS, Some(3), 0);
    }
    assert_eq!(read(&mut spaces, A, 97).page, read(&mut spaces, B, 97).page);
    spaces.exit(A);
    let _ = spaces.drain_dead();
    let page = read(&mut spaces, B, 97).page;
    spaces.exit(B);
    assert!(spaces.drain_dead().contains(&page));
}

#[test]
fn memory_outside_every_map_is_private_and_reported() {
    let mut spaces = spaces(4096);
    let early = write(&mut spaces, A, 1);
    assert!(early.outside && early.write_free && !spaces.has_maps());
    map(&mut spaces, A, 10, 1, READ, None, 0);
    assert!(spaces.has_maps());
    assert!(!read(&mut spaces, A, 10).outside);
    assert!(read(&mut spaces, A, 1).outside && read(&mut spaces, A, 11).outside);
    assert_ne!(read(&mut spaces, B, 11).page, read(&mut spaces, A, 11).page);
    spaces.fork(C, A).unwrap();
    assert_eq!(
        read(&mut spaces, C, 1),
        Touch { mapping: read(&mut spaces, C, 1).mapping, ..read(&mut spaces, A, 1) }
    );
    spaces.unmap(A, VirtAddr(1 << 12), 1).unwrap();
    assert!(!spaces.has_dead()); // the child holds the page
    assert!(read(&mut spaces, A, 1).new_page);
    spaces.unmap(C, VirtAddr(1 << 12), 1).unwrap();
    assert_eq!(spaces.drain_dead(), [early.page]);
}

#[test]
fn where_physical_is_virtual_spaces_alias_and_events_change_nothing() {
    let mut spaces = Spaces::identity(PowerOfTwo::from_log2(14));
    let a = write(&mut spaces, A, 5);
    map(&mut spaces, B, 20, 4, READ, Some(7), 0);
    let b = write(&mut spaces, B, 5);
    assert_eq!((a.page, b.page), (PageId(0), PageId(0)));
    assert_ne!(a.mapping, b.mapping);
    assert_eq!(spaces.global_page(a.page), PageNo(5));
    spaces.fork(C, A).unwrap();
    spaces.unmap(A, VirtAddr(0), 1000).unwrap();
    spaces.protect(A, VirtAddr(0), 1000).unwrap();
    spaces.exit(A);
    spaces.exec(B);
    for asid in [A, B, C] {
        assert_eq!(write(&mut spaces, asid, 5), Touch { mapping: write(&mut spaces, asid, 5).mapping, ..b });
    }
    assert_eq!(write(&mut spaces, A, 5).mapping, a.mapping);
    assert!(!spaces.has_dead() && !spaces.has_maps());
    assert_eq!(spaces.footprints().collect::<Vec<_>>(), [(A, 1), (B, 1), (C, 1)]);
    assert_eq!(spaces.owner_of(spaces.segment_of(a.page)), Owner::Memory);
}

#[test]
fn impossible_events_are_refused_by_name() {
    let mut spaces = spaces(4096);
    let problem = spaces.fork(A, A).unwrap_err();
    assert_eq!((problem.class, &*problem.value), (Class::Request, "fork of asid 1 into itself"));
    let problem = spaces.map(A, VirtAddr(u64::MAX - 4094), 1, READ.into(), None, 0).unwrap_err();
    assert_eq!(problem.value, "map in asid 1 at address 0xfffffffffffff001: 1 page of 4096 B");
    for pages in [1 << 52, u64::MAX] {
        assert!(spaces.unmap(A, VirtAddr(1 << 12), pages).is_err());
        assert!(spaces.protect(A, VirtAddr(1 << 12), pages).is_err());
    }
    // The last page of the address space can be mapped. An empty range changes nothing.
    map(&mut spaces, A, (1 << 52) - 1, 1, READ | SHARED, Some(1), 0);
    assert!(!read(&mut spaces, A, (1 << 52) - 1).outside);
    spaces.unmap(A, VirtAddr(u64::MAX), 0).unwrap();
    assert!(!spaces.has_dead());
}

/// Returns for each touch of three address spaces the first touch that led to the same page. `order` is the
/// order in which the touches are interleaved; the result must not depend on it.
fn partition(setup: &[(u32, u32)], touches: &[Vec<(u64, bool)>; 3], order: &[usize]) -> Vec<usize> {
    let mut spaces = spaces(4096);
    for asid in [A, B] {
        map(&mut spaces, asid, 0, 3, READ | WRITE, Some(1), 0);
        map(&mut spaces, asid, 3, 2, READ | WRITE | SHARED, Some(2), 0);
        map(&mut spaces, asid, 5, 2, READ | WRITE, None, 0);
    }
    for &(page, kind) in setup {
        match kind {
            0 => spaces.fork(C, A).unwrap(),
            1 => spaces.fork(B, A).unwrap(),
            2 => spaces.fork(C, B).unwrap(),
            kind => {
                spaces.touch([A, B][(kind % 2) as usize], PageNo(page.into()), kind > 4).unwrap();
            }
        }
    }
    let mut next = [0; 3];
    let mut pages: BTreeMap<(usize, usize), PageId> = BTreeMap::new();
    let rest = (0..3).flat_map(|space| std::iter::repeat_n(space, touches[space].len()));
    for space in order.iter().copied().chain(rest) {
        if let Some(&(page, write)) = touches[space].get(next[space]) {
            let found = spaces.touch([A, B, C][space], PageNo(page), write).unwrap();
            pages.insert((space, next[space]), found.page);
            next[space] += 1;
        }
    }
    // Touches are numbered by (address space, number in the address space).
    let pages: Vec<PageId> = pages.into_values().collect();
    pages.iter().map(|page| pages.iter().position(|other| other == page).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn which_touches_share_a_page_does_not_depend_on_the_schedule(
        setup in proptest::collection::vec((0..8u32, 0..9u32), 0..30),
        touches in proptest::array::uniform3(proptest::collection::vec((0..8u64, any::<bool>()), 0..20)),
        orders in proptest::array::uniform2(proptest::collection::vec(0..3usize, 60)),
    ) {
        prop_assert_eq!(partition(&setup, &touches, &orders[0]), partition(&setup, &touches, &orders[1]));
    }
}

#[test]
fn pages_of_the_kernel_shift_no_segment() {
    let segments = |kernel: bool| {
        let mut spaces = spaces(4096);
        if kernel {
            let page = spaces.touch_kernel(PageNo(5)).unwrap().page;
            assert_eq!(spaces.owner_of(spaces.segment_of(page)), Owner::Kernel);
        }
        [A, B].map(|asid| {
            let page = write(&mut spaces, asid, 5).page;
            spaces.segment_of(page)
        })
    };
    assert_eq!(segments(true), segments(false));
    assert_eq!(segments(false), [SegmentId(0), SegmentId(1)]);
}

#[test]
fn the_kernel_has_one_page_whichever_process_runs() {
    let mut spaces = spaces(4096);
    let user = write(&mut spaces, A, 5);
    let kernel = spaces.touch_kernel(PageNo(5)).unwrap();
    assert!(kernel.new_page && kernel.page != user.page && kernel.mapping != user.mapping);
    spaces.exit(A);
    spaces.exec(B);
    assert_eq!(spaces.touch_kernel(PageNo(5)).unwrap(), Touch { new_page: false, ..kernel });
    assert_eq!(spaces.drain_dead(), [user.page]);
    assert_eq!(spaces.segments_of_space(B), []);
    assert_eq!((spaces.footprint(A), spaces.footprint(B)), (1, 0));
    // If physical = virtual, the kernel's page is the page of the same number, under a mapping of its own.
    let mut identity = Spaces::identity(PowerOfTwo::new(Bytes(4096)).unwrap());
    let user = write(&mut identity, A, 5);
    let kernel = identity.touch_kernel(PageNo(5)).unwrap();
    assert!(kernel.page == user.page && kernel.mapping != user.mapping && !kernel.new_page);
}

/// The page of a file in the kernel's half outlives the process that mapped it there. It is the page that processes
/// map.
#[test]
fn the_kernels_half_is_one_for_all_processes() {
    const HALF: u64 = 0xffff_8000_0000_0000;
    let (page, file) = (PageNo(HALF >> 12), Some(7));
    let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
    spaces.share_from(VirtAddr(HALF)).unwrap();
    let shared = SHARED.into();
    spaces.map(Asid(1), VirtAddr(HALF), 4, shared, file, 0).unwrap();
    let cached = spaces.touch(Asid(1), page, true).unwrap();
    assert_eq!(spaces.asid_of(cached.mapping), None);
    assert_eq!(spaces.touch(Asid(2), page, false).unwrap(), Touch { new_page: false, ..cached });
    spaces.exit(Asid(1));
    spaces.map(Asid(3), VirtAddr(0x5000), 1, shared, file, 0).unwrap();
    let mapped = spaces.touch(Asid(3), PageNo(5), false).unwrap();
    assert_eq!((mapped.page, mapped.new_page), (cached.page, false));
    // The cache drops the page, and the process still maps it; then nobody does.
    spaces.unmap(Asid(2), VirtAddr(HALF), 1).unwrap();
    assert_eq!(spaces.drain_dead(), []);
    spaces.exit(Asid(3));
    assert_eq!(spaces.drain_dead(), [cached.page]);
    let problem = spaces.map(Asid(2), VirtAddr(HALF - 4096), 2, shared, file, 0).unwrap_err();
    assert!(problem.rule.contains("0xffff800000000000"), "{problem:?}");
}
