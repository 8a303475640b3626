//! These tests check the rules of the list of frames (KH90 §4.1.2), case by case.

use binhop_base::{Domain, FrameNo, PageId, Rng, Stream};

use crate::harness::{Harness, Rule};

#[test]
fn the_pool_has_k_frames_even_when_all_memory_is_unused() {
    let mut harness = Harness::new(100, 7, 0, Rule::Last);
    harness.touch(0);
    let mut order: Vec<u64> = (0..100).collect();
    Rng::new(0).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
    let frames: Vec<u64> = harness.seen.lock().unwrap().iter().map(|(frame, _)| *frame).collect();
    assert_eq!(frames, order[..7]);
    assert_eq!(harness.frames.frame_of(PageId(0)), Some(FrameNo(order[6])));
    // The frame that was taken has left the pool, and the eighth frame has entered it.
    harness.touch(1);
    let frames: Vec<u64> = harness.seen.lock().unwrap().iter().map(|(frame, _)| *frame).collect();
    assert_eq!(frames, [&order[..6], &order[7..8]].concat());
}

/// There are four frames and a pool of two; the oldest frame is chosen. Each line has the pages in memory
/// after a reference, and the page that was evicted.
#[test]
fn least_recently_used_as_in_the_textbook() {
    let mut harness = Harness::new(4, 2, 0, Rule::First);
    let table: &[(u32, Option<u32>, [u32; 4])] = &[
        // page touched, page evicted, pages in memory from least to most recently used
        (4, Some(0), [1, 2, 3, 4]),
        (1, None, [2, 3, 4, 1]),    // the touch takes page 1 out of the pool
        (5, Some(2), [3, 4, 1, 5]), // so page 2 is evicted, not page 1
        (3, None, [4, 1, 5, 3]),
        (0, Some(4), [1, 5, 3, 0]), // page 0 returns
        (0, None, [1, 5, 3, 0]),
        (4, Some(1), [5, 3, 0, 4]),
    ];
    for page in 0..4 {
        assert_eq!(harness.touch(page), None);
    }
    for (line, &(page, evicted, after)) in table.iter().enumerate() {
        assert_eq!(harness.touch(page), evicted.map(PageId), "line {line}");
        let list: Vec<u32> =
            harness.list.list.iter().filter_map(|frame| frame.page).map(|page| page.0).collect();
        assert_eq!(list, after, "line {line}");
        harness.check(6);
    }
    assert_eq!(harness.frames.evictions(), 4);
}

#[test]
fn a_page_in_the_pool_stays_mapped_until_its_frame_is_chosen() {
    let mut harness = Harness::new(3, 3, 5, Rule::First);
    for page in 0..3 {
        harness.touch(page);
    }
    assert_eq!(harness.frames.mapped(), 3);
    harness.touch(1);
    assert_eq!(harness.touch(3), Some(PageId(0)));
    let pool: Vec<Option<PageId>> = harness.seen.lock().unwrap().iter().map(|(_, page)| *page).collect();
    assert_eq!(pool, [Some(PageId(0)), Some(PageId(2)), Some(PageId(1))]);
    assert_eq!((harness.frames.mapped(), harness.frames.free()), (3, Some(0)));
    assert_eq!(harness.frames.frame_of(PageId(0)), None);
    assert!(harness.frames.frame_of(PageId(2)).is_some());
}

#[test]
fn the_frame_of_a_dead_page_keeps_its_place_in_the_list() {
    let mut harness = Harness::new(3, 1, 5, Rule::First);
    for page in 0..3 {
        harness.touch(page);
    }
    harness.release(1);
    assert_eq!(harness.frames.free(), Some(1));
    assert_eq!(harness.touch(3), Some(PageId(0))); // the older page is evicted, although a frame is free
    assert_eq!(harness.touch(4), None); // now the free frame is the oldest frame
    assert_eq!(harness.frames.free(), Some(0));
}
