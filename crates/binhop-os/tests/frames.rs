//! Frames against a plain list, and the rules of KH90 §4.1.2 one by one.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::sync::{Arc, Mutex};

use binhop_base::{Asid, Bin, Class, Domain, FrameNo, PageId, PageNo, PowerOfTwo, Result, Rng, Stream};
use binhop_oracle::frames as oracle;
use binhop_os::placement::{self, Recording, Settings};
use binhop_os::{
    BinCounts, Draws, Frames, Holdings, PageRequest, Pool, PoolPolicy, Recency, SegmentId, StateScope,
    WiredKind,
};
use proptest::prelude::*;

type Seen = Arc<Mutex<Vec<(u64, Option<PageId>)>>>;

/// For each bin: frames of the pool, the oldest of them, frames that each segment of the space uses.
type SeenBins = Arc<Mutex<Vec<(u32, Option<u64>, u32)>>>;

/// More than some of the memories have frames.
const BINS: PowerOfTwo = PowerOfTwo::from_log2(2);
const SEGMENTS: u32 = 3;

/// Tells what it was shown, and chooses a rank by a rule of its own.
struct Watching {
    seen: Seen,
    bins: SeenBins,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Random,
    First,
    Last,
    /// Whatever frame of memory, in the pool or not.
    Frame(u64),
}

impl Rule {
    fn rank(self, seed: u64, fault: u64, pool: usize) -> usize {
        match self {
            Rule::Random => {
                Rng::new(seed).below(Stream::new(Domain::Placement, 0), fault, pool as u64) as usize
            }
            Rule::Last => pool - 1,
            Rule::First | Rule::Frame(_) => 0,
        }
    }
}

impl PoolPolicy for Watching {
    fn name(&self) -> &str {
        "watching"
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: BINS, tree: false, used: Some(StateScope::Segment) })
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let used = |bin: usize| pool.used_parts().map(|part| part[bin]).sum();
        let oldest = |bin| pool.oldest_in(Bin(bin as u32)).map(|frame| frame.0);
        let ask = |bin| (pool.available()[bin], oldest(bin), used(bin));
        *self.bins.lock().unwrap() = (0..BINS.bytes() as usize).map(ask).collect();
        *self.seen.lock().unwrap() = pool.iter().map(|(frame, page)| (frame.0, page)).collect();
        Ok(match self.rule {
            Rule::Random => pool.frame(draws.below(0, pool.len() as u64) as usize),
            Rule::Frame(frame) => FrameNo(frame),
            rule => pool.frame(rule.rank(0, 0, pool.len())),
        })
    }
}

fn request(page: u32) -> PageRequest {
    let page_no = PageNo(u64::from(page) + 100);
    let segment = page % SEGMENTS;
    // Its own segment and the one after.
    let segments = [SegmentId(segment), SegmentId((segment + 1) % SEGMENTS)].into();
    PageRequest { page: PageId(page), asid: Asid(3), page_no, segment: SegmentId(segment), segments }
}

/// The fast model and the plain list, driven together.
struct Bench {
    frames: Frames,
    list: oracle::Frames,
    seen: Seen,
    bins: SeenBins,
    rule: Rule,
    seed: u64,
    pool: usize,
    recency: Recency,
    /// Times not told to `recency` until it is needed.
    times: Vec<u64>,
    now: u64,
    /// Whether the reference that faults is noted before its placement.
    note_first: bool,
    faults: u64,
}

impl Bench {
    fn new(size: u64, pool: u64, seed: u64, rule: Rule) -> Self {
        let mut order: Vec<u64> = (0..size).collect();
        Rng::new(seed).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
        let (seen, bins) = (Seen::default(), SeenBins::default());
        let policy = Watching { seen: Arc::clone(&seen), bins: Arc::clone(&bins), rule };
        Self {
            frames: Frames::new(size, pool, Box::new(policy), seed).unwrap(),
            list: oracle::Frames::new(&order, pool as usize),
            seen,
            bins,
            rule,
            seed,
            pool: pool as usize,
            recency: Recency::new(),
            times: Vec::new(),
            now: 0,
            note_first: false,
            faults: 0,
        }
    }

    fn note(&mut self, page: u32) {
        self.now += 1;
        self.times.resize(self.times.len().max(page as usize + 1), 0);
        self.times[page as usize] = self.now;
        if self.frames.needs_recency() {
            self.recency.note(PageId(page), self.now);
        }
    }

    /// A reference; the page it evicted.
    fn touch(&mut self, page: u32) -> Option<PageId> {
        if self.list.frame_of(PageId(page)).is_some() {
            self.note(page);
            self.list.touch(PageId(page));
            return None;
        }
        if self.note_first {
            self.note(page);
        }
        let unused = self.list.list.len() as u64 - self.faults.min(self.list.list.len() as u64);
        if self.frames.evictions() == 0 && !self.has_released() {
            assert_eq!(self.frames.needs_recency(), unused < self.pool as u64, "fault {}", self.faults);
        }
        if !self.frames.needs_recency() {
            self.recency = Recency::new(); // it must not be asked
        }
        let placed = self.frames.place(&request(page), &self.recency).unwrap();
        let shown = self.list.pool().iter().map(|frame| (frame.number, frame.page)).collect::<Vec<_>>();
        assert_eq!(*self.seen.lock().unwrap(), shown, "pool at fault {}", self.faults);
        self.check_bins(&request(page));
        let rank = self.rule.rank(self.seed, self.faults, self.pool);
        assert_eq!(placed.frame.0, shown[rank].0);
        assert_eq!(placed.evicted, self.list.place(PageId(page), rank));
        self.list.touch(PageId(page));
        self.faults += 1;
        if self.frames.needs_recency() && self.recency.last(PageId(page)) == 0 {
            // From here on it is asked: all that was kept back.
            for (page, &time) in self.times.iter().enumerate().filter(|(_, time)| **time > 0) {
                self.recency.note(PageId(page as u32), time);
            }
        }
        if !self.note_first {
            self.note(page);
        }
        placed.evicted
    }

    /// The bins as the policy was shown them, counted in the plain list.
    fn check_bins(&self, request: &PageRequest) {
        for (bin, &(available, oldest, used)) in (0..).zip(&*self.bins.lock().unwrap()) {
            let inside = |frame: &&oracle::Frame| frame.number % BINS.bytes() == bin;
            let count = self.list.pool().iter().filter(inside).count();
            assert_eq!(available as usize, count, "bin {bin}");
            assert_eq!(oldest, self.list.pool().iter().find(inside).map(|frame| frame.number), "bin {bin}");
            let pages = self.list.list.iter().filter(inside).filter_map(|frame| frame.page);
            let count = pages.filter(|page| request.segments.contains(&SegmentId(page.0 % SEGMENTS))).count();
            assert_eq!(used as usize, count, "bin {bin}");
        }
    }

    fn has_released(&self) -> bool {
        self.faults != self.frames.evictions() + self.frames.mapped()
    }

    fn release(&mut self, page: u32) {
        let frame = self.frames.release(PageId(page)).map(|frame| frame.0);
        assert_eq!(frame, self.list.frame_of(PageId(page)));
        self.list.release(PageId(page));
    }

    fn check(&self, pages: u32) {
        self.frames.check().unwrap();
        assert_eq!(self.frames.mapped(), self.list.mapped() as u64);
        assert_eq!(self.frames.free().unwrap() + self.frames.mapped(), self.frames.frames().unwrap());
        assert_eq!(self.frames.faults(), self.faults);
        for page in (0..pages).map(PageId) {
            assert_eq!(
                self.frames.frame_of(page).map(|frame| frame.0),
                self.list.frame_of(page),
                "page {page}"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Touch(u32),
    /// The page dies; its number never comes back, so the next touch of its place is a new page.
    Die(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![20 => (0..40u32).prop_map(Step::Touch), 1 => (0..40u32).prop_map(Step::Die)];
    // Footprints from a few pages to many times memory.
    (1..40u32, proptest::collection::vec(step, 1..400)).prop_map(|(footprint, mut steps)| {
        for step in &mut steps {
            let (Step::Touch(page) | Step::Die(page)) = step;
            *page %= footprint;
        }
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn placements_evictions_and_pools_equal_the_plain_list(
        (size, pool) in prop_oneof![3 => 1..20u64, 1 => 20..40u64]
            .prop_flat_map(|size| (Just(size), prop_oneof![1..=size, Just(size), Just(1)])),
        rule in prop_oneof![Just(Rule::Random), Just(Rule::First), Just(Rule::Last)],
        seed in 0..1000u64,
        note_first in any::<bool>(),
        steps in steps(),
    ) {
        let mut bench = Bench::new(size, pool, seed, rule);
        bench.note_first = note_first;
        let mut number: Vec<u32> = (0..40).collect();
        let mut pages = 40;
        for step in steps {
            match step {
                Step::Touch(place) => {
                    bench.touch(number[place as usize]);
                }
                Step::Die(place) => {
                    bench.release(number[place as usize]);
                    number[place as usize] = pages;
                    pages += 1;
                }
            }
            bench.check(pages);
        }
    }
}

#[test]
fn the_pool_has_k_frames_even_when_all_memory_is_unused() {
    let mut bench = Bench::new(100, 7, 0, Rule::Last);
    bench.touch(0);
    let mut order: Vec<u64> = (0..100).collect();
    Rng::new(0).shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
    let frames: Vec<u64> = bench.seen.lock().unwrap().iter().map(|(frame, _)| *frame).collect();
    assert_eq!(frames, order[..7]);
    assert_eq!(bench.frames.frame_of(PageId(0)), Some(FrameNo(order[6])));
    // The frame taken has left, the eighth has come.
    bench.touch(1);
    let frames: Vec<u64> = bench.seen.lock().unwrap().iter().map(|(frame, _)| *frame).collect();
    assert_eq!(frames, [&order[..6], &order[7..8]].concat());
}

/// Four frames, a pool of two, the oldest first: what is in memory after each reference, and what left.
#[test]
fn least_recently_used_as_in_the_textbook() {
    let mut bench = Bench::new(4, 2, 0, Rule::First);
    let table: &[(u32, Option<u32>, [u32; 4])] = &[
        // touch, evicted, pages from least to most recently used at the end of the line
        (4, Some(0), [1, 2, 3, 4]),
        (1, None, [2, 3, 4, 1]),    // a touch takes a page out of the pool
        (5, Some(2), [3, 4, 1, 5]), // so 2 leaves, not 1
        (3, None, [4, 1, 5, 3]),
        (0, Some(4), [1, 5, 3, 0]), // 0 returns
        (0, None, [1, 5, 3, 0]),
        (4, Some(1), [5, 3, 0, 4]),
    ];
    for page in 0..4 {
        assert_eq!(bench.touch(page), None);
    }
    for (line, &(page, evicted, after)) in table.iter().enumerate() {
        assert_eq!(bench.touch(page), evicted.map(PageId), "line {line}");
        let list: Vec<u32> =
            bench.list.list.iter().filter_map(|frame| frame.page).map(|page| page.0).collect();
        assert_eq!(list, after, "line {line}");
        bench.check(6);
    }
    assert_eq!(bench.frames.evictions(), 4);
}

#[test]
fn a_page_in_the_pool_stays_mapped_until_its_frame_is_chosen() {
    let mut bench = Bench::new(3, 3, 5, Rule::First);
    for page in 0..3 {
        bench.touch(page);
    }
    assert_eq!(bench.frames.mapped(), 3);
    bench.touch(1);
    assert_eq!(bench.touch(3), Some(PageId(0)));
    let pool: Vec<Option<PageId>> = bench.seen.lock().unwrap().iter().map(|(_, page)| *page).collect();
    assert_eq!(pool, [Some(PageId(0)), Some(PageId(2)), Some(PageId(1))]);
    assert_eq!((bench.frames.mapped(), bench.frames.free()), (3, Some(0)));
    assert_eq!(bench.frames.frame_of(PageId(0)), None);
    assert!(bench.frames.frame_of(PageId(2)).is_some());
}

#[test]
fn the_frame_of_a_dead_page_keeps_its_place_in_the_list() {
    let mut bench = Bench::new(3, 1, 5, Rule::First);
    for page in 0..3 {
        bench.touch(page);
    }
    bench.release(1);
    assert_eq!(bench.frames.free(), Some(1));
    assert_eq!(bench.touch(3), Some(PageId(0))); // the older page leaves, though a frame is free
    assert_eq!(bench.touch(4), None); // now the free frame is the oldest
    assert_eq!(bench.frames.free(), Some(0));
}

#[test]
fn built_in_policies_choose_as_they_say() {
    let (size, pool, seed) = (50, 9, 11);
    for (name, rule) in [("random", Rule::Random), ("first", Rule::First)] {
        let mut bench = Bench::new(size, pool, seed, rule);
        let policy = placement::policy(name).unwrap().build(&Settings::new(size, pool)).unwrap();
        let mut frames = Frames::new(size, pool, policy, seed).unwrap();
        let mut recency = Recency::new();
        for step in 0..2000u64 {
            let page = Rng::new(1).below(Stream::new(Domain::Test, 0), step, 80) as u32;
            recency.note(PageId(page), step + 1);
            bench.touch(page);
            if frames.frame_of(PageId(page)).is_none() {
                frames.place(&request(page), &recency).unwrap();
            }
            assert_eq!(
                frames.frame_of(PageId(page)),
                bench.frames.frame_of(PageId(page)),
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
    // Two frames are left for eight pages: each page after the second evicts the oldest, never a wired page.
    assert_eq!(evicted, (0..6).map(PageId).collect::<Vec<_>>());
    assert_eq!(frames.holdings(), Holdings { user: 2, wired: [2, 1, 1], free: 0 });
    assert_eq!(frames.holdings().of(WiredKind::Kernel), 1);
    assert_eq!((frames.mapped(), frames.faults(), frames.evictions()), (6, 8, 6));
    assert!((100..104).all(|page| frames.frame_of(PageId(page)).is_some()));
    frames.check().unwrap();
}

#[test]
fn a_wired_page_takes_no_draw_of_a_fault() {
    // The pool is all of memory: a fault's draw is a rank among the frames that are left.
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
    assert_eq!(frames.place(&request(0), &Recency::new()).unwrap().frame.0, 1, "as recorded");
    frames.check().unwrap();
    assert_eq!(frames.unwire(PageId(6), WiredKind::Table).0, 2);
    assert_eq!(frames.holdings(), Holdings { user: 1, wired: [2, 0, 0], free: 3 });
    assert_eq!(wire(&mut frames, 9, WiredKind::Cache).unwrap(), (2, None));
    frames.check().unwrap();
}

/// Three frames, a pool of one: the frame that is given back is the youngest, and is taken when its turn has come.
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
    // The two pages that are older leave first, though a frame is free.
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
