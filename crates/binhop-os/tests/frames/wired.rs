//! These tests check the rules of wired frames, case by case.

use binhop_base::{Asid, Class, Domain, FrameNo, PageId, PageNo, Result, Rng, Stream};
use binhop_os::placement::{self, Recording, Settings};
use binhop_os::{Frames, Holdings, Recency, WiredKind};

use crate::harness::request;

fn wire(frames: &mut Frames, page: u32, kind: WiredKind) -> Result<(u64, Option<PageId>)> {
    let placed = frames.wire(PageId(page), PageNo(7), kind, &Recency::new())?;
    Ok((placed.frame.0, placed.evicted))
}

#[test]
fn wired_frames_are_counted_by_what_they_hold_and_never_chosen() {
    let policy = placement::policy("first").unwrap();
    let mut frames = policy.frames(&Settings::new(6, 2), 0).unwrap();
    for (page, kind) in
        [(100, WiredKind::Table), (101, WiredKind::Kernel), (102, WiredKind::Table), (103, WiredKind::Cache)]
    {
        assert_eq!(wire(&mut frames, page, kind).unwrap().1, None);
    }
    let mut recency = Recency::new();
    let mut evicted = Vec::new();
    for page in 0..8 {
        recency.note(PageId(page), u64::from(page) + 1);
        evicted.extend(frames.place(&request(page), &recency).unwrap().evicted);
    }
    // Two frames are left for eight pages. Each page after the second page evicts the oldest page, and no
    // wired page.
    assert_eq!(evicted, (0..6).map(PageId).collect::<Vec<_>>());
    assert_eq!(frames.holdings(), Holdings { user: 2, wired: [2, 1, 1], free: 0 });
    assert_eq!(frames.holdings().of(WiredKind::Kernel), 1);
    assert_eq!((frames.mapped(), frames.faults(), frames.evictions()), (6, 8, 6));
    assert!((100..104).all(|page| frames.frame_of(PageId(page)).is_some()));
    frames.check().unwrap();
}

#[test]
fn a_wired_page_takes_no_draw_of_a_fault() {
    // `pool` repeats the pool of four frames: a draw is a rank in it.
    let order = {
        let mut order: Vec<u64> = (0..10).collect();
        Rng::new(3).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
        order
    };
    let policy = placement::policy("random").unwrap();
    let mut frames = policy.frames(&Settings::new(10, 4), 3).unwrap();
    let draw = |domain, index, n| Rng::new(3).below(Stream::new(domain, 0), index, n) as usize;
    let mut pool = order[..4].to_vec();
    let mut rest = order[4..].iter();
    for number in 0..3 {
        let wired = pool.remove(draw(Domain::Wired, number, 4));
        pool.extend(rest.next());
        assert_eq!(wire(&mut frames, 100 + number as u32, WiredKind::Table).unwrap(), (wired, None));
        let chosen = pool.remove(draw(Domain::Placement, number, 4));
        pool.extend(rest.next());
        let placed = frames.place(&request(number as u32), &Recency::new()).unwrap();
        assert_eq!((placed.frame.0, placed.evicted), (chosen, None));
    }
}

#[test]
fn memory_that_is_wired_to_the_last_frame_holds_no_page() {
    for (name, colors) in
        [("random", 1), ("first", 1), ("hierarchical", 1), ("buddy", 1), ("colored-lists", 3)]
    {
        let settings = Settings { colors, ..Settings::new(6, 4) };
        let mut frames = placement::policy(name).unwrap().frames(&settings, 1).unwrap();
        let mut recency = Recency::new();
        recency.note(PageId(0), 1);
        frames.place(&request(0), &recency).unwrap();
        let evicted = (0..6).filter_map(|page| {
            let placed = frames.wire(PageId(100 + page), PageNo(0), WiredKind::Cache, &recency).unwrap();
            placed.evicted
        });
        assert_eq!(evicted.collect::<Vec<_>>(), [PageId(0)], "{name}");
        frames.check().unwrap();
        assert_eq!(frames.holdings(), Holdings { user: 0, wired: [0, 6, 0], free: 0 });
        for problem in [
            frames.place(&request(1), &recency).unwrap_err(),
            frames.wire(PageId(200), PageNo(0), WiredKind::Table, &recency).unwrap_err(),
        ] {
            assert_eq!((problem.class, &*problem.value), (Class::Run, "every frame is wired"), "{name}");
        }
        frames.check().unwrap();
    }
}

#[test]
fn a_wired_page_takes_the_lowest_frame_that_a_recording_does_not_use() {
    let recording = Recording::new([(Asid(3), PageNo(100), FrameNo(1))], false);
    let recording = recording.with_runs([(Asid(3), PageNo(200), FrameNo(3), 2)]).into();
    let settings = Settings { recording, ..Settings::new(6, 1) };
    let mut frames = placement::policy("recorded").unwrap().frames(&settings, 0).unwrap();
    let taken = (5..8).map(|page| wire(&mut frames, page, WiredKind::Table).unwrap());
    assert_eq!(taken.collect::<Vec<_>>(), [(0, None), (2, None), (5, None)]);
    let problem = wire(&mut frames, 8, WiredKind::Table).unwrap_err();
    assert_eq!((problem.class, &*problem.value), (Class::Request, "wired page 8"));
    assert_eq!(problem.place, "placement policy recorded");
    assert!(problem.remedy.contains("memory.size"), "{problem}");
    assert_eq!(
        frames.place(&request(0), &Recency::new()).unwrap().frame.0,
        1,
        "the page has its recorded frame"
    );
    frames.check().unwrap();
    assert_eq!(frames.unwire(PageId(6), WiredKind::Table).0, 2);
    assert_eq!(frames.holdings(), Holdings { user: 1, wired: [2, 0, 0], free: 3 });
    assert_eq!(wire(&mut frames, 9, WiredKind::Cache).unwrap(), (2, None));
    frames.check().unwrap();
}

/// There are three frames and a pool of one. The frame that is given back is the youngest frame, and is taken
/// last.
#[test]
fn a_frame_that_is_given_back_was_used_most_recently() {
    let mut frames = placement::policy("first").unwrap().frames(&Settings::new(3, 1), 0).unwrap();
    let mut recency = Recency::new();
    let mut now = 0;
    let mut note = |recency: &mut Recency, page: u32| {
        now += 1;
        recency.note(PageId(page), now);
    };
    let table = wire(&mut frames, 100, WiredKind::Table).unwrap().0;
    for page in 0..2 {
        frames.place(&request(page), &recency).unwrap();
        note(&mut recency, page);
    }
    assert_eq!(frames.unwire(PageId(100), WiredKind::Table).0, table);
    note(&mut recency, 100);
    assert_eq!(frames.holdings(), Holdings { user: 2, wired: [0; 3], free: 1 });
    frames.check().unwrap();
    let mut evicted = Vec::new();
    for page in 2..5 {
        let placed = frames.place(&request(page), &recency).unwrap();
        note(&mut recency, page);
        evicted.push((placed.evicted, placed.frame.0 == table));
    }
    // The two older pages are evicted first, although a frame is free.
    assert_eq!(evicted, [(Some(PageId(0)), false), (Some(PageId(1)), false), (None, true)]);
    frames.check().unwrap();
}

#[test]
#[should_panic(expected = "only a wired page is unwired")]
fn only_a_wired_page_is_unwired() {
    let mut frames = placement::policy("first").unwrap().frames(&Settings::new(6, 1), 0).unwrap();
    frames.place(&request(0), &Recency::new()).unwrap();
    frames.unwire(PageId(0), WiredKind::Table);
}

#[test]
fn where_physical_is_virtual_a_wired_page_lies_at_its_number() {
    let mut frames = Frames::identity();
    assert_eq!(wire(&mut frames, 5, WiredKind::Kernel).unwrap(), (7, None));
    assert_eq!(frames.holdings(), Holdings { user: 0, wired: [0, 0, 1], free: 0 });
    frames.check().unwrap();
}

#[test]
#[should_panic(expected = "a wired page does not die")]
fn a_wired_page_does_not_die() {
    let mut frames = placement::policy("first").unwrap().frames(&Settings::new(6, 1), 0).unwrap();
    wire(&mut frames, 5, WiredKind::Table).unwrap();
    frames.release(PageId(5));
}
