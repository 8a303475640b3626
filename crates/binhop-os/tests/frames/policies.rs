//! Policies choose as they say, and memories and choices that are impossible are refused.

use binhop_base::{Class, Domain, PageId, PageNo, Rng, Stream};
use binhop_os::placement::{self, Settings};
use binhop_os::{Frames, PageRequest, Recency};

use crate::harness::{Harness, Rule, Seen, SeenBins, Watching, request};

#[test]
fn built_in_policies_choose_as_they_say() {
    let (size, pool, seed) = (50, 9, 11);
    for (name, rule) in [("random", Rule::Random), ("first", Rule::First)] {
        let mut harness = Harness::new(size, pool, seed, rule);
        let policy = placement::policy(name).unwrap().build(&Settings::new(size, pool)).unwrap();
        let mut frames = Frames::new(size, pool, policy, seed).unwrap();
        let mut recency = Recency::new();
        for step in 0..2000u64 {
            let page = Rng::new(1).below(Stream::new(Domain::Test, 0), step, 80) as u32;
            recency.note(PageId(page), step + 1);
            harness.touch(page);
            if frames.frame_of(PageId(page)).is_none() {
                frames.place(&request(page), &recency).unwrap();
            }
            assert_eq!(
                frames.frame_of(PageId(page)),
                harness.frames.frame_of(PageId(page)),
                "{name}, step {step}"
            );
        }
        assert!(frames.evictions() > 100);
    }
}

#[test]
fn the_size_of_the_pool_makes_no_difference_to_first() {
    let run = |pool| {
        let policy = placement::policy("first").unwrap().build(&Settings::new(16, pool)).unwrap();
        let mut frames = Frames::new(16, pool, policy, 3).unwrap();
        let mut recency = Recency::new();
        let place = |step: u64| {
            let page = Rng::new(2).below(Stream::new(Domain::Test, 0), step, 30) as u32;
            recency.note(PageId(page), step + 1);
            let resident = frames.frame_of(PageId(page)).is_some();
            if resident { None } else { Some(frames.place(&request(page), &recency).unwrap()) }
        };
        (0..500).map(place).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(16));
    assert_eq!(run(1), run(5));
}

#[test]
fn identity_is_the_page_number_and_never_evicts() {
    let mut frames = Frames::identity();
    let recency = Recency::new();
    for page in 0..100 {
        let request = PageRequest {
            page_no: PageNo(u64::MAX >> 12).min(PageNo(u64::from(page) << 40)),
            ..request(page)
        };
        assert!(!frames.needs_recency());
        let placed = frames.place(&request, &recency).unwrap();
        assert_eq!((placed.frame.0, placed.evicted), (request.page_no.0, None));
    }
    assert_eq!((frames.frames(), frames.free(), frames.mapped(), frames.faults()), (None, None, 100, 100));
    frames.release(PageId(7));
    assert_eq!(frames.frame_of(PageId(7)), None);
    assert_eq!(frames.mapped(), 99);
    frames.check().unwrap();
}

#[test]
fn a_policy_that_leaves_the_pool_is_named_with_its_choice_and_the_request() {
    let mut order: Vec<u64> = (0..10).collect();
    Rng::new(0).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
    for wrong in [order[4], 10, 1 << 32, u64::MAX] {
        let policy = Watching { seen: Seen::default(), bins: SeenBins::default(), rule: Rule::Frame(wrong) };
        let mut frames = Frames::new(10, 4, Box::new(policy), 0).unwrap();
        let problem = frames.place(&request(0), &Recency::new()).unwrap_err();
        assert_eq!(problem.class, Class::Run);
        assert_eq!(problem.value, format!("frame {wrong}"));
        assert_eq!(problem.place, "placement policy watching, fault 0: page 0, virtual page 100 of asid 3");
        assert!(problem.rule.contains("4 frames"), "{problem}");
        frames.check().unwrap();
        assert_eq!((frames.mapped(), frames.faults()), (0, 0));
    }
    let policy = Watching { seen: Seen::default(), bins: SeenBins::default(), rule: Rule::Frame(order[3]) };
    let mut frames = Frames::new(10, 4, Box::new(policy), 0).unwrap();
    assert_eq!(frames.place(&request(0), &Recency::new()).unwrap().frame.0, order[3]);
}

#[test]
fn impossible_memories_are_refused() {
    let build = |frames, pool| {
        let policy = placement::policy("random").unwrap().build(&Settings::new(frames, pool)).unwrap();
        Frames::new(frames, pool, policy, 0).map(|_| ()).unwrap_err()
    };
    for (frames, pool, value, place) in [
        (0, 1, "0 frames", "memory.size"),
        (1 << 32, 1, "4294967296 frames", "memory.size"),
        (4, 5, "5 frames", "placement.pool"),
        (4, 0, "0 frames", "placement.pool"),
    ] {
        let problem = build(frames, pool);
        assert_eq!((problem.class, &*problem.value, &*problem.place), (Class::Request, value, place));
    }
}
