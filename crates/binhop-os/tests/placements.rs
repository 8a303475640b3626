//! Every policy agrees with its oracle: in each choice, in each eviction, and in all of memory after each
//! step.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeMap;

use binhop_base::{Asid, Domain, PageId, PageNo, PowerOfTwo, Rng, Stream};
use binhop_oracle::cases::cases;
use binhop_oracle::placements::{self as oracle, Memory, Rule};
use binhop_os::placement::{POLICIES, Settings, policy};
use binhop_os::{Frames, PageRequest, Recency, RunPlace, SegmentId, StateScope, WiredKind};
use proptest::prelude::*;

/// Returns the oracle of a policy, if the policy chooses anything.
fn oracle_of(policy: &str, settings: &Settings, seed: u64) -> Option<Box<dyn Memory>> {
    let Settings { frames, pool, bins, colors, sharing, pid_hash, fragmentation, .. } = *settings;
    let settings = oracle::Settings {
        frames,
        pool: pool as usize,
        bins: bins.bytes(),
        colors,
        by_space: sharing == StateScope::Space,
        pid_hash,
        fragmentation: fragmentation.into(),
    };
    oracle::memory(policy, &settings, seed)
}

#[test]
fn every_policy_has_an_oracle() {
    for policy in POLICIES.iter().filter(|policy| !oracle::WITHOUT_CHOICE.contains(&policy.name)) {
        assert!(
            oracle_of(policy.name, &Settings::new(8, 2), 0).is_some(),
            "policy `{}` has no oracle: add a line to `rules!` at {}, and write its rule in `Pooled::choose` there; \
             a policy with free lists of its own is a `Memory` and a line of `memory` there",
            policy.name,
            oracle::LISTS_AT
        );
    }
}

fn request(asked: &oracle::PageRequest) -> PageRequest {
    let segments: Vec<SegmentId> = asked.segments.iter().copied().map(SegmentId).collect();
    PageRequest {
        page: asked.page,
        asid: Asid(asked.asid),
        page_no: PageNo(asked.page_no),
        segment: SegmentId(asked.segment),
        segments: segments.into(),
        run: asked.run.map(|run| RunPlace {
            run: run.number,
            index: run.index,
            frames_log2: run.frames_log2,
            begins: run.begins,
        }),
        in_kernel: asked.in_kernel,
    }
}

/// `Bench` drives the fast model and the oracle together.
struct Bench {
    frames: Frames,
    slow: Box<dyn Memory>,
    recency: Recency,
    now: u64,
    /// The number of distinct pages that were placed.
    placed: u64,
    /// The time of each page's last reference.
    last: BTreeMap<PageId, u64>,
    safe: u64,
    /// The wired pages.
    wired: Vec<(PageId, WiredKind)>,
    /// The number of pages that were ever wired.
    wirings: u64,
}

impl Bench {
    fn new(name: &str, settings: &Settings, seed: u64) -> Self {
        let policy = policy(name).unwrap();
        Self {
            frames: policy.frames(settings, seed).unwrap(),
            slow: oracle_of(name, settings, seed).unwrap(),
            recency: Recency::new(),
            now: 0,
            placed: 0,
            last: BTreeMap::new(),
            safe: policy.safe_frames(settings).unwrap(),
            wired: Vec::new(),
            wirings: 0,
        }
    }

    /// Notes a reference. Returns whether it evicted a page.
    fn touch(&mut self, asked: &oracle::PageRequest) -> bool {
        let page = asked.page;
        let frame = self.slow.frame_of(page);
        assert_eq!(self.frames.frame_of(page).map(|frame| frame.0), frame);
        let mut evicted = None;
        if frame.is_none() {
            if self.frames.needs_recency() {
                assert!(
                    self.placed + self.wirings > self.safe,
                    "asks for recency after {} placements",
                    self.placed
                );
            }
            let placed = self.frames.place(&request(asked), &self.recency).unwrap();
            assert_eq!((placed.frame.0, placed.evicted), self.slow.place(asked), "{asked:?}");
            evicted = placed.evicted;
            self.placed += u64::from(!self.last.contains_key(&page));
        }
        if let Some(evicted) = evicted {
            self.check_age(evicted, Some(page));
        }
        self.slow.touch(page);
        self.now += 1;
        self.recency.note(page, self.now);
        self.last.insert(page, self.now);
        evicted.is_some()
    }

    /// Returns the number of safe frames: one less for each wired frame.
    fn safe(&self) -> u64 {
        self.safe - self.wired.len() as u64
    }

    /// Checks the age of a page that was evicted for `page`, or for a page of the operating system.
    fn check_age(&self, evicted: PageId, page: Option<PageId>) {
        let then = self.last[&evicted];
        let newer = |(other, time): &(&PageId, &u64)| **time > then && Some(**other) != page;
        let others = self.last.iter().filter(newer).count() as u64;
        assert!(others >= self.safe(), "evicted after {others} other pages, {} are safe", self.safe());
    }

    /// Wires a page of the operating system, unless no frame would be safe afterwards.
    fn wire(&mut self, page: PageId, kind: WiredKind) {
        if self.safe() == 0 {
            return;
        }
        let ordinal = self.wirings;
        self.wired.push((page, kind));
        self.wirings += 1;
        let placed = self.frames.wire(page, PageNo(0), kind, &self.recency).unwrap();
        assert_eq!((placed.frame.0, placed.evicted), self.slow.wire(page, ordinal), "wired {page}");
        if let Some(evicted) = placed.evicted {
            self.check_age(evicted, None);
        }
    }

    /// Lets a wired page die. Its release counts as a reference to the page.
    fn unwire(&mut self, which: usize) {
        if self.wired.is_empty() {
            return;
        }
        let (page, kind) = self.wired.swap_remove(which % self.wired.len());
        let frame = self.slow.frame_of(page);
        assert_eq!(Some(self.frames.unwire(page, kind).0), frame);
        self.slow.unwire(page);
        self.now += 1;
        self.recency.note(page, self.now);
        self.last.insert(page, self.now);
    }

    fn release(&mut self, page: PageId) {
        assert_eq!(self.frames.release(page).map(|frame| frame.0), self.slow.frame_of(page));
        self.slow.release(page);
    }

    fn check(&self, pages: u32) {
        self.frames.check().unwrap();
        let holdings = self.frames.holdings();
        let of = |kind| self.wired.iter().filter(|&&(_, other)| other == kind).count() as u64;
        assert!(WiredKind::ALL.iter().all(|&kind| holdings.of(kind) == of(kind)));
        assert_eq!(Some(holdings.user + holdings.all_wired() + holdings.free), self.frames.frames());
        for page in (0..pages).map(PageId) {
            let frame = self.frames.frame_of(page).map(|frame| frame.0);
            assert_eq!(frame, self.slow.frame_of(page), "page {page}");
        }
    }
}

/// Returns the segments of an address space. Address spaces 0 to 3 have their own segments 0 to 3 and share
/// segment 4. The odd address spaces also share segment 5.
fn segments_of(space: u32) -> Vec<u32> {
    if space % 2 == 1 { vec![space, 4, 5] } else { vec![space, 4] }
}

/// `World` holds the pages by (segment, index in the segment). When a page dies, its index gets another page.
#[derive(Default)]
struct World {
    pages: BTreeMap<(u32, u64), PageId>,
    next: u32,
}

impl World {
    fn asked(&mut self, space: u32, which: usize, index: u64) -> oracle::PageRequest {
        let segments = segments_of(space);
        let segment = segments[which % segments.len()];
        let page = *self.pages.entry((segment, index)).or_insert_with(|| {
            self.next += 1;
            PageId(self.next - 1)
        });
        // A shared segment lies at another address in each address space. Segment 5 lies in the kernel's half.
        let page_no = (u64::from(segment) << 8) + index + u64::from(space * (segment / 4));
        let in_kernel = segment == 5;
        oracle::PageRequest { page, asid: space * 1000 + 7, page_no, segment, segments, run: None, in_kernel }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Touch {
        space: u32,
        which: usize,
        index: u64,
    },
    Die {
        space: u32,
        which: usize,
        index: u64,
    },
    /// All pages of an address space's own segment die.
    Exit {
        space: u32,
    },
    Wire(WiredKind),
    Unwire(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..4u32, 0..3usize, 0..24u64);
    let step = prop_oneof![
        30 => place().prop_map(|(space, which, index)| Step::Touch { space, which, index }),
        2 => place().prop_map(|(space, which, index)| Step::Die { space, which, index }),
        1 => (0..4u32).prop_map(|space| Step::Exit { space }),
        2 => proptest::sample::select(WiredKind::ALL).prop_map(Step::Wire),
        1 => any::<usize>().prop_map(Step::Unwire),
    ];
    // Footprints reach from a few pages for each segment to more than memory.
    (1..24u64, proptest::collection::vec(step, 1..250)).prop_map(|(footprint, mut steps)| {
        for step in &mut steps {
            if let Step::Touch { index, .. } | Step::Die { index, .. } = step {
                *index %= footprint;
            }
        }
        steps
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let frames = prop_oneof![3 => 1..50u64, 1 => 50..130u64];
    let fragmentation = prop_oneof![Just(0), Just(30), Just(100)];
    (frames, 0..5u32, any::<bool>(), any::<bool>(), fragmentation).prop_flat_map(
        |(frames, bins, by_space, pid_hash, fragmentation)| {
            let sharing = if by_space { StateScope::Space } else { StateScope::Segment };
            let bins = PowerOfTwo::from_log2(bins);
            let pool = prop_oneof![3 => 1..=frames, 1 => Just(1), 1 => Just(frames)];
            (pool, 1..=frames.min(9)).prop_map(move |(pool, colors)| Settings {
                bins,
                colors,
                sharing,
                pid_hash,
                fragmentation,
                ..Settings::new(frames, pool)
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(80, 250)))]

    #[test]
    fn every_policy_places_and_evicts_as_its_oracle(
        settings in settings(),
        seed in 0..1000u64,
        steps in steps(),
    ) {
        for policy in POLICIES.iter().filter(|policy| oracle_of(policy.name, &settings, seed).is_some()) {
            let mut bench = Bench::new(policy.name, &settings, seed);
            let mut world = World::default();
            for step in &steps {
                match *step {
                    Step::Touch { space, which, index } => {
                        let asked = world.asked(space, which, index);
                        bench.touch(&asked);
                    }
                    Step::Die { space, which, index } => {
                        let asked = world.asked(space, which, index);
                        bench.release(asked.page);
                        world.pages.remove(&(asked.segment, index));
                    }
                    Step::Wire(kind) => {
                        bench.wire(PageId(world.next), kind);
                        world.next += 1;
                    }
                    Step::Unwire(which) => bench.unwire(which),
                    Step::Exit { space } => {
                        let gone: Vec<_> = world.pages.extract_if(.., |(segment, _), _| *segment == space).collect();
                        gone.into_iter().for_each(|(_, page)| bench.release(page));
                    }
                }
                bench.check(world.next);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20, 60)))]

    /// Hundreds of pages are born and die at once, so that blocks of all orders split and join, and the
    /// processor's list overflows.
    #[test]
    fn buddies_split_and_join_as_in_the_oracle(
        frames in prop_oneof![Just(64u64), 600..800u64, 2000..2200u64],
        fragmentation in prop_oneof![Just(0u32), Just(10), Just(60), Just(100)],
        seed in 0..1000u64,
        bursts in proptest::collection::vec((any::<bool>(), 1..400u32), 1..25),
    ) {
        let settings = Settings { fragmentation, ..Settings::new(frames, 1) };
        let mut bench = Bench::new("buddy", &settings, seed);
        let (mut alive, mut next): (Vec<oracle::PageRequest>, u32) = (Vec::new(), 0);
        for (born, count) in bursts {
            for i in 0..count {
                if born {
                    let asked = oracle::PageRequest { page: PageId(next), asid: 1, page_no: 0, segment: 1, segments: vec![1], run: None, in_kernel: false };
                    bench.touch(&asked);
                    alive.push(asked);
                    next += 1;
                } else if !alive.is_empty() {
                    let at = Rng::new(seed).below(Stream::new(Domain::Test, next.into()), i.into(), alive.len() as u64);
                    bench.release(alive.swap_remove(at as usize).page);
                }
            }
            bench.check(next);
        }
    }

    /// Huge pages take runs, are split by deaths, evictions and scarce memory, and fall back where no run is free.
    #[test]
    fn runs_of_frames_are_those_of_the_oracle(
        frames in prop_oneof![Just(16u64), 30..70u64, 200..300u64, Just(1500)],
        frames_log2 in 1..6u32,
        fragmentation in prop_oneof![3 => Just(0u32), 1 => Just(10), 1 => Just(60)],
        seed in 0..1000u64,
        steps in proptest::collection::vec((0..20u32, 0..12u32, any::<u32>(), 1..40u32), 1..120),
    ) {
        let settings = Settings { fragmentation, ..Settings::new(frames, 1) };
        let mut bench = Bench::new("buddy", &settings, seed);
        // For each huge page the number of its run, and its live pages by their place.
        let mut huge: BTreeMap<u32, (u32, BTreeMap<u32, PageId>)> = BTreeMap::new();
        let (mut next, mut runs, mut reported) = (0, 0, 0);
        for (what, number, index, count) in steps {
            for index in (index % 64..).take(count as usize).map(|index| index % (1 << frames_log2)) {
                let (run, pages) = huge.entry(number).or_default();
                let begins = pages.is_empty();
                if what < 3 {
                    if let Some(page) = pages.remove(&index) {
                        bench.release(page);
                    }
                } else {
                    if begins {
                        *run = runs;
                        runs += 1;
                    }
                    let fresh = !pages.contains_key(&index);
                    let page = *pages.entry(index).or_insert(PageId(next));
                    next += u32::from(fresh);
                    // One huge page in twelve has no run: its pages are placed one by one.
                    let place = oracle::RunPlace { number: *run, index, frames_log2, begins };
                    let run = (fresh && number > 0).then_some(place);
                    bench.touch(&oracle::PageRequest { page, asid: 1, page_no: 0, segment: 1, segments: vec![1], run, in_kernel: false });
                }
            }
            bench.check(next);
            let split = bench.frames.take_split();
            assert_eq!(split, &bench.slow.splits()[reported..]);
            reported += split.len();
            let counts = bench.frames.run_counts();
            let slow = bench.slow.run_counts();
            assert_eq!(
                (counts.taken, counts.fallbacks, counts.splits, counts.most_unused),
                (slow.taken, slow.fallbacks, slow.splits, slow.most_unused)
            );
            assert!((0..runs).all(|run| bench.frames.holds_run(run) == bench.slow.holds_run(run)));
        }
    }

    /// In one decision (KH90 §3.1.4), from one state, a tree of fewer bins chooses the low bits of the bin
    /// that the tree of 1024 bins chooses.
    #[test]
    fn a_smaller_tree_decides_the_lowest_bits_of_a_larger_tree(
        // One memory is never full, and the other is full nearly all the time.
        (size, pool) in prop_oneof![Just(1500), 40..300u64].prop_flat_map(|size| (Just(size), 1..=size)),
        by_space in any::<bool>(),
        seed in 0..1000u64,
        touches in proptest::collection::vec((0..4u32, 0..3usize, 0..60u64), 200),
    ) {
        let sharing = if by_space { StateScope::Space } else { StateScope::Segment };
        let settings = Settings { bins: PowerOfTwo::from_log2(10), sharing, ..Settings::new(size, pool) };
        let mut frames = policy("hierarchical").unwrap().frames(&settings, seed).unwrap();
        let mut slow = oracle::Pooled::new(Rule::Hierarchical, size, pool as usize, 1024, by_space, seed);
        let (mut world, mut recency) = (World::default(), Recency::new());
        for (now, (space, which, index)) in (1..).zip(touches) {
            let asked = world.asked(space, which, index);
            if frames.frame_of(asked.page).is_none() {
                let smaller: Vec<u64> = (0..10).map(|j| slow.hierarchical(&asked, 1 << j)).collect();
                let frame = frames.place(&request(&asked), &recency).unwrap().frame.0;
                for (j, bin) in smaller.into_iter().enumerate() {
                    prop_assert_eq!(bin, frame % (1 << j), "a tree of {} bins", 1 << j);
                }
                slow.place(&asked);
            }
            slow.touch(asked.page);
            recency.note(asked.page, now);
        }
    }

    /// Over a whole run, trees of all sizes use equally many frames of each coarse bin, as long as no mapped
    /// page is evicted. Pages die, but their frames are not reused, because memory is never used up.
    #[test]
    fn over_a_run_trees_of_all_sizes_use_equally_many_frames_of_each_coarse_bin(
        pool in 1..800u64,
        by_space in any::<bool>(),
        seed in 0..1000u64,
        touches in proptest::collection::vec((0..4u32, 0..3usize, 0..150u64, 0..12u8), 300),
    ) {
        let sharing = if by_space { StateScope::Space } else { StateScope::Segment };
        // The run has at most 300 placements, and 300 frames lie outside the pool.
        let size = 300 + pool;
        let settings = |log2| Settings { bins: PowerOfTwo::from_log2(log2), sharing, ..Settings::new(size, pool) };
        let hierarchical = policy("hierarchical").unwrap();
        let mut all: Vec<Frames> =
            (0..=10).map(|log2| hierarchical.frames(&settings(log2), seed).unwrap()).collect();
        let mut world = World::default();
        let mut alive: BTreeMap<PageId, oracle::PageRequest> = BTreeMap::new();
        for (space, which, index, dies) in touches {
            let asked = world.asked(space, which, index);
            for frames in &mut all {
                if frames.frame_of(asked.page).is_none() {
                    assert_eq!(frames.place(&request(&asked), &Recency::new()).unwrap().evicted, None);
                }
            }
            alive.entry(asked.page).or_insert_with(|| asked.clone());
            if dies == 0 {
                for frames in &mut all {
                    frames.release(asked.page);
                }
                alive.remove(&asked.page);
                world.pages.remove(&(asked.segment, index));
            }
            let used = |frames: &Frames, log2: usize| {
                let mut counts: BTreeMap<(u32, u64), u32> = BTreeMap::new();
                for (page, asked) in &alive {
                    let owner = if by_space { asked.asid } else { asked.segment };
                    let bin = frames.frame_of(*page).unwrap().0 % (1 << log2);
                    *counts.entry((owner, bin)).or_default() += 1;
                }
                counts
            };
            for log2 in 1..10 {
                let coarse = used(&all[log2], log2);
                prop_assert_eq!(&used(&all[10], log2), &coarse, "{} bins", 1 << log2);
            }
        }
    }
}

/// Which free frame a color hands out first changes neither how often pages fault nor how full memory gets
/// before a color runs out (LF91 §2).
#[test]
fn the_initial_order_of_colored_lists_changes_neither_faults_nor_utilization() {
    let run = |seed: u64, colors: u64| {
        let settings = Settings { colors, ..Settings::new(256, 1) };
        let mut frames = policy("colored-lists").unwrap().frames(&settings, seed).unwrap();
        let (mut recency, mut faults, mut full) = (Recency::new(), 0, None);
        for now in 1..20_000u64 {
            // Every other touch sweeps over 300 pages; the other touches have a working set of their own.
            let page = if now % 2 == 0 { now / 2 % 300 } else { 400 + now * now % 61 };
            let asked = oracle::PageRequest {
                page: PageId(page as u32),
                asid: 1,
                page_no: page * page,
                segment: 1,
                segments: vec![1],
                run: None,
                in_kernel: false,
            };
            if frames.frame_of(asked.page).is_none() {
                let placed = frames.place(&request(&asked), &recency).unwrap();
                faults += 1;
                if placed.evicted.is_some() && full.is_none() {
                    full = Some(frames.mapped());
                }
            }
            recency.note(asked.page, now);
        }
        (faults, full, frames.frame_of(PageId(400)))
    };
    for colors in [1, 2, 16, 64] {
        let (faults, full, _) = run(0, colors);
        assert!(faults > 1000 && full.is_some());
        for seed in 1..8 {
            assert_eq!((faults, full), (run(seed, colors).0, run(seed, colors).1), "{colors} colors");
        }
        let places: Vec<_> = (0..8).map(|seed| run(seed, colors).2).collect();
        assert!(colors == 64 || places.iter().any(|place| place != &places[0]), "the initial orders differ");
    }
}

/// One color is conventional memory: `first` makes the same placements and evictions.
#[test]
fn one_color_is_the_naive_policy() {
    let settings = Settings::new(64, 1);
    let frames = |name: &str| policy(name).unwrap().frames(&settings, 3).unwrap();
    let (mut one, mut other) = (frames("colored-lists"), frames("first"));
    let mut recency = Recency::new();
    for now in 1..3000u64 {
        let page = Rng::new(5).below(Stream::new(Domain::Test, 0), now, 100);
        let asked = oracle::PageRequest {
            page: PageId(page as u32),
            asid: 1,
            page_no: page,
            segment: 1,
            segments: vec![1],
            run: None,
            in_kernel: false,
        };
        if one.frame_of(asked.page).is_none() {
            let placed = one.place(&request(&asked), &recency).unwrap();
            assert_eq!(placed, other.place(&request(&asked), &recency).unwrap());
        }
        recency.note(asked.page, now);
    }
    assert!(one.evictions() > 500);
}
