//! Tests of every fast path against the stepper: equal counts, contents and cycles, on trees that allow the path.
//!
//! The stepper (`Computer`) makes one access at a time. Beside it, a front that takes only the tested path, or no path,
//! records its requests. The tested path then replays the requests.
#![allow(missing_docs, clippy::unwrap_used)]

mod bits;
mod chain;
mod front_bits;
mod two_levels;

use crate::common::{World, assert_counts_of_stepper, plain, power, resize, tree};
use binhop_base::{Agent, Domain, Kind, LineAddr, PageId, PerKind, Rng, Stream};
use binhop_hw::{
    Back, CacheConfig, Computer, CostRule, Counted, CountedCaches, DirectMappedFilter, FastPath, FastPathSet,
    FastPaths, Front, IndexBy, KnownHitFilter, LruStack, LruStackShape, Next, Replacement, Request, TagBy,
    Tree, TreeConfig, WritebackOrder,
};
use binhop_oracle::cases::cases;
use proptest::prelude::*;

/// Bytes of a page, and the number of pages.
const PAGE: u64 = 256;
const PAGES: u32 = 24;

/// Switches off every path except `path`.
fn only(tree: &Tree, path: Option<FastPath>) -> FastPaths {
    let others = FastPath::ALL.iter().filter(|&&other| Some(other) != path);
    FastPath::of(tree).without(others.fold(FastPathSet::NONE, |off, &other| off.with(other)))
}

/// The choices from which a path's trees are made.
#[derive(Clone, Debug)]
struct Draw {
    split: bool,
    /// Ways and sets of level 1; its line is 16 bytes.
    front: (u32, u64),
    virtually: bool,
    /// Line, ways, sets, replacement, hashed index, and cost of each level behind level 1.
    behind: Vec<(u64, u32, u64, Replacement, bool, u64)>,
    evict_first: bool,
    add: bool,
}

fn draw() -> impl Strategy<Value = Draw> {
    let front =
        (prop::sample::select(vec![1u32, 2, 4, 8]), prop::sample::select(vec![1u64, 2, 4, 8, 16, 32, 64]));
    let level = (
        prop::sample::select(vec![16u64, 32, 64]),
        prop::sample::select(vec![1u32, 2, 4, 8, 16]),
        prop::sample::select(vec![1u64, 4, 8, 32]),
        prop::sample::select(Replacement::ALL),
        any::<bool>(),
        0u64..30,
    );
    (any::<bool>(), front, any::<bool>(), prop::collection::vec(level, 4), any::<bool>(), any::<bool>())
        .prop_map(|(split, front, virtually, behind, evict_first, add)| Draw {
            split,
            front,
            virtually,
            behind,
            evict_first,
            add,
        })
}

impl Draw {
    /// A tree with these levels behind level 1, the nearest first.
    fn tree(&self, behind: &[CacheConfig]) -> Tree {
        let (ways, sets) = self.front;
        let first = 1 + usize::from(self.split);
        let order = WritebackOrder::ALL[usize::from(self.evict_first)];
        let level1 = |name| CacheConfig {
            index: if self.virtually { IndexBy::Virtual } else { IndexBy::Physical },
            tag: if self.virtually { TagBy::Asid } else { TagBy::Physical },
            writeback_order: order,
            ..plain(name, u64::from(ways) * sets * 16, 16, ways, Next::Cache(first))
        };
        let mut caches = vec![level1("l1i")];
        caches.extend(self.split.then(|| level1("l1d")));
        let last = first + behind.len() - 1;
        caches.extend(behind.iter().enumerate().map(|(at, cache)| CacheConfig {
            writeback_order: order,
            next: if first + at == last { Next::Memory } else { Next::Cache(first + at + 1) },
            ..cache.clone()
        }));
        let cost_rule = if self.add { CostRule::Add } else { CostRule::Total };
        let config = tree(caches, PAGE, 0, first - 1);
        Tree::new(TreeConfig { memory_cost: 100, cost_rule, page: power(PAGE), ..config })
    }

    /// A level behind level 1.
    fn level(&self, number: usize, change: impl Fn(&mut CacheConfig)) -> CacheConfig {
        let (line, ways, sets, replacement, hashed, cost) = self.behind[number];
        let mut cache = CacheConfig {
            replacement,
            hashed,
            cost,
            ..plain(&format!("l{}", number + 2), line * u64::from(ways) * sets, line, ways, Next::Memory)
        };
        change(&mut cache);
        cache
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Access(Kind, u32, u64),
    /// A page's frame changes hands.
    FlushPage(u32),
    /// The requests recorded so far are replayed.
    Replay,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop::sample::select(vec![Kind::Fetch, Kind::Load, Kind::Store]);
    // Neighbours are common, so that a line of level 2 is asked for again.
    let page = prop_oneof![3 => 0..4u32, 2 => 0..PAGES];
    let event = prop_oneof![
        60 => (kind, page, 0..PAGE).prop_map(|(kind, page, offset)| Event::Access(kind, page, offset)),
        1 => (0..PAGES).prop_map(Event::FlushPage),
        2 => Just(Event::Replay),
    ];
    prop::collection::vec(event, 1..600)
}

/// The frames of the pages in one lane.
fn world(lane: u64) -> World {
    World {
        frames: (0..u64::from(PAGES)).map(|page| page * 5 + lane * 7).collect(),
        ..World::identity(PAGES)
    }
}

/// `BackModel` replays the requests of a recorded front in one lane, in place of the backs of the trees.
trait BackModel {
    /// Handles requests that the front let through.
    fn replay(&mut self, requests: &[Request], world: &World);
    fn flush_page(&mut self, page: PageId, world: &World);
    /// Checks that the back and the cycles equal those of the stepper of the tree with this number.
    fn assert_equal(&self, number: usize, tree: &Tree, stepper: &Computer, waited: u64);
}

/// `Lane` runs one stepper for each tree beside one recording front. The trees have equal fronts.
struct Lane<B> {
    trees: Vec<Tree>,
    world: World,
    steppers: Vec<Computer>,
    front: Front,
    /// Cycles that the processor waited for the recording front.
    waited: u64,
    behind: B,
}

impl<B: BackModel> Lane<B> {
    fn new(trees: Vec<Tree>, lane: u64, path: Option<FastPath>, behind: B) -> Self {
        let steppers = trees.iter().map(|tree| Computer::new(tree, Rng::new(lane))).collect();
        let front = Front::with(&trees[0], Rng::new(lane), &only(&trees[0], path));
        Self { trees, world: world(lane), steppers, front, waited: 0, behind }
    }

    fn run(&mut self, events: &[Event]) {
        let mut rows: Vec<(Kind, LineAddr)> = Vec::new();
        for &event in events.iter().chain(&[Event::Replay]) {
            match event {
                Event::Access(kind, page, offset) => {
                    let at = LineAddr { id: page, line: (offset / 16) as u32 };
                    rows.push((kind, at));
                    for stepper in &mut self.steppers {
                        stepper.access(Agent::User, kind, at, &self.world, &mut ());
                    }
                    continue;
                }
                Event::Replay => self.replay(&mut rows),
                Event::FlushPage(page) => {
                    self.replay(&mut rows);
                    let mappings = self.world.mappings_of(page);
                    let page_id = PageId(page);
                    for stepper in &mut self.steppers {
                        stepper.flush_page(Agent::User, page_id, &mappings, &self.world, &mut ());
                    }
                    let mut requests: Vec<Request> = Vec::new();
                    self.front.flush_page(page_id, &mappings, 0, &self.world, &mut requests);
                    self.behind.replay(&requests, &self.world);
                    self.behind.flush_page(page_id, &self.world);
                    self.world.frames[page as usize] += 1000;
                }
            }
            self.assert_equal();
        }
    }

    fn replay(&mut self, rows: &mut Vec<(Kind, LineAddr)>) {
        let mut requests: Vec<Request> = Vec::new();
        self.waited += self.front.access_all(rows, &self.world, &mut requests);
        self.behind.replay(&requests, &self.world);
        rows.clear();
    }

    fn assert_equal(&self) {
        for (number, (tree, stepper)) in self.trees.iter().zip(&self.steppers).enumerate() {
            for cache in (0..tree.config().caches.len()).filter(|&cache| tree.in_front(cache)) {
                assert_counts_of_stepper(self.front.counters(cache), stepper.counters(cache));
                assert_eq!(self.front.contents(cache), stepper.contents(cache));
            }
            self.behind.assert_equal(number, tree, stepper, self.waited);
        }
    }
}

fn assert_equal_backs(tree: &Tree, back: &Back, stepper: &Computer) {
    for cache in (0..tree.config().caches.len()).filter(|&cache| !tree.in_front(cache)) {
        assert_counts_of_stepper(back.counters(cache), stepper.counters(cache));
        assert_eq!(back.by_agent(cache), stepper.by_agent(cache));
        assert_eq!(back.contents(cache), stepper.contents(cache));
    }
    assert_eq!(back.memory(), stepper.back.memory());
    assert_eq!(back.memory_by_agent(), stepper.back.memory_by_agent());
}

/// Backs that take the tested path at most.
struct Plain(Vec<(Back, u64)>);

impl Plain {
    fn new(trees: &[Tree], lane: u64, path: Option<FastPath>) -> Self {
        let back = |tree: &Tree| (Back::with(tree, Rng::new(lane), &only(tree, path)), 0);
        Self(trees.iter().map(back).collect())
    }
}

impl BackModel for Plain {
    fn replay(&mut self, requests: &[Request], world: &World) {
        for (back, waited) in &mut self.0 {
            *waited += back.replay(requests, world);
        }
    }

    fn flush_page(&mut self, page: PageId, world: &World) {
        for (back, _) in &mut self.0 {
            back.flush_page(page, &world.mappings_of(page.0), 0, world);
        }
    }

    fn assert_equal(&self, number: usize, tree: &Tree, stepper: &Computer, waited: u64) {
        let (back, behind) = &self.0[number];
        assert_equal_backs(tree, back, stepper);
        assert_eq!(waited + behind, stepper.now);
    }
}

/// Backs behind a known-hit filter.
struct Filtered(KnownHitFilter, Plain);

impl BackModel for Filtered {
    fn replay(&mut self, requests: &[Request], world: &World) {
        let mut requests = requests.to_vec();
        let hits: PerKind<u64> = self.0.filter(&mut requests, world);
        for (back, waited) in &mut self.1.0 {
            *waited += back.add_hits(&hits);
        }
        self.1.replay(&requests, world);
    }

    fn flush_page(&mut self, page: PageId, world: &World) {
        self.1.flush_page(page, world);
        self.0.forget(page, world);
    }

    fn assert_equal(&self, number: usize, tree: &Tree, stepper: &Computer, waited: u64) {
        self.1.assert_equal(number, tree, stepper, waited);
    }
}

impl BackModel for LruStack {
    fn replay(&mut self, requests: &[Request], world: &World) {
        LruStack::replay(self, requests, world);
    }

    fn flush_page(&mut self, page: PageId, world: &World) {
        LruStack::flush_page(self, page, world);
    }

    fn assert_equal(&self, _number: usize, tree: &Tree, stepper: &Computer, waited: u64) {
        let cache = tree.config().caches.len() - 1;
        let member = self.member(tree.config().caches[cache].ways, tree);
        assert_counts_of_stepper(member.counters(cache), stepper.counters(cache));
        assert_eq!(member.memory(), stepper.back.memory());
        assert_eq!(member.resident(cache), stepper.back.resident(cache));
        assert_eq!(waited + member.waited(), stepper.now);
    }
}

fn two_phase(draw: &Draw, events: &[Event]) {
    let tree = draw.tree(&[draw.level(0, |_| {})]);
    let differ_in_ways = draw.split.then(|| {
        let mut config = tree.config().clone();
        let (_, _, sets, ..) = draw.behind[3];
        resize(&mut config.caches[0], 8, draw.front.1.min(PAGE / 16));
        resize(&mut config.caches[1], 9 + draw.behind[3].5 as u32 % 8, sets.min(PAGE / 16));
        Tree::new(config)
    });
    for tree in [Some(tree), differ_in_ways].into_iter().flatten() {
        assert_eq!(FastPath::of(&tree).why_not(FastPath::TwoPhase), None);
        let trees = vec![tree];
        let behind = Plain::new(&trees, 1, None);
        Lane::new(trees, 1, Some(FastPath::TwoPhase), behind).run(events);
    }
}

/// Returns a tree whose back is a chain, of which an agent makes accesses, too.
fn chain_trees(draw: &Draw, agent: Agent) -> Vec<Tree> {
    let mut levels: Vec<CacheConfig> =
        (0..1 + draw.behind[3].5 as usize % 3).map(|n| draw.level(n, |_| {})).collect();
    // Lines grow on the way to memory. A virtually tagged level 1 names mappings, and allows no chain.
    levels.sort_by_key(|level| level.line.bytes());
    let draw = Draw { virtually: false, ..draw.clone() };
    let tree = bits::with_agent(&draw.tree(&levels), agent);
    assert_eq!(FastPath::of(&tree).why_not(FastPath::Chain), None);
    vec![tree]
}

fn chain(draw: &Draw, events: &[Event]) {
    let trees = chain_trees(draw, Agent::User);
    let behind = Plain::new(&trees, 1, Some(FastPath::Chain));
    Lane::new(trees, 1, None, behind).run(events);
}

/// A chain chooses by the misses of the requests before how it replays the next requests. So the stream is long, and
/// parts of it in which every request hits alternate with parts in which many requests miss.
#[test]
fn a_chain_equals_the_stepper_whether_misses_can_be_predicted_or_not() {
    let rng = Rng::new(5);
    let at = |index: u64, which: u64, below: u64| rng.below(Stream::new(Domain::Test, which), index, below);
    let kind = |index| [Kind::Fetch, Kind::Load, Kind::Store][at(index, 0, 3) as usize];
    let event = |index: u64| {
        let pages = if (index / 1500).is_multiple_of(2) { 2 } else { u64::from(PAGES) };
        Event::Access(kind(index), at(index, 1, pages) as u32, at(index, 2, PAGE))
    };
    let events: Vec<Event> = (0..6000).map(event).collect();
    // The last number is the cost, which also says how many levels there are.
    let levels = [(1, 3), (2, 3), (4, 3), (8, 3), (12, 3), (16, 3), (16, 4), (1, 4)];
    for (&replacement, (ways, cost)) in
        Replacement::ALL.iter().flat_map(|replacement| levels.map(|level| (replacement, level)))
    {
        if replacement.refuses(ways).is_none() {
            let draw = Draw {
                split: false,
                front: (1, 1),
                virtually: false,
                behind: vec![(16, ways, 16, replacement, false, cost); 4],
                evict_first: ways == 16,
                add: false,
            };
            chain(&draw, &events);
            chain::of_two_agents(&draw, &events);
        }
    }
}

fn known_hits(draw: &Draw, events: &[Event]) {
    let draw = Draw { virtually: false, ..draw.clone() };
    let line = draw.behind[0].0;
    let level = |number| {
        draw.level(number, |cache| {
            cache.hashed = false;
            let sets = cache.sets();
            cache.line = power(line);
            if !cache.replacement.rehit_is_neutral() {
                cache.replacement = Replacement::Plru;
            }
            resize(cache, cache.ways, sets);
        })
    };
    let trees: Vec<Tree> = (0..4).map(|number| draw.tree(&[level(number)])).collect();
    for tree in &trees {
        assert_eq!(FastPath::of(tree).why_not(FastPath::KnownHits), None);
    }
    let known_hits = KnownHitFilter::new(&trees.iter().collect::<Vec<_>>()).unwrap();
    let behind = Filtered(known_hits, Plain::new(&trees, 1, None));
    Lane::new(trees, 1, None, behind).run(events);
}

fn lru_stack(draw: &Draw, events: &[Event]) {
    let draw = Draw { virtually: false, ..draw.clone() };
    let (_, _, sets, ..) = draw.behind[0];
    let level = |ways| {
        draw.level(0, |cache| {
            (cache.hashed, cache.replacement) = (false, Replacement::Lru);
            resize(cache, ways, sets);
        })
    };
    let trees: Vec<Tree> = [1, 2, 3, 4, 8].map(|ways| draw.tree(&[level(ways)])).into();
    let shape = LruStackShape::of(&trees[0]).unwrap();
    assert!(trees.iter().all(|tree| LruStackShape::of(tree) == Ok(shape)));
    Lane::new(trees, 1, None, LruStack::new(shape, 8)).run(events);
}

/// One direct-mapped filter serves three lanes behind one front, as behind a shared front: level 1 does not depend on
/// the placement, and no page is flushed.
fn direct_mapped(draw: &Draw, events: &[Event]) {
    let (ways, sets) = draw.front;
    let draw = Draw { virtually: false, front: (ways, sets.min(PAGE / 16)), ..draw.clone() };
    let level = draw.level(0, |cache| {
        cache.hashed = false;
        let least = PAGE / cache.line.bytes();
        let sets = cache.sets().max(least);
        resize(cache, 1, sets);
    });
    let tree = draw.tree(&[level]);
    assert_eq!(FastPath::of(&tree).why_not(FastPath::DirectMapped), None);
    assert!(!tree.front_depends_on_placement());
    let mut direct_mapped = DirectMappedFilter::new(&tree).unwrap();
    let mut front = Front::with(&tree, Rng::new(0), &only(&tree, None));
    let lanes = [1, 2, 3];
    let mut steppers = lanes.map(|lane| (Computer::new(&tree, Rng::new(lane)), world(lane)));
    let mut backs = lanes.map(|lane| (Back::with(&tree, Rng::new(lane), &only(&tree, None)), 0));
    let (mut rows, mut waited): (Vec<(Kind, LineAddr)>, u64) = (Vec::new(), 0);
    for (step, &event) in events.iter().chain(&[Event::Replay]).enumerate() {
        match event {
            Event::Access(kind, page, offset) => {
                let at = LineAddr { id: page, line: (offset / 16) as u32 };
                rows.push((kind, at));
                for (stepper, world) in &mut steppers {
                    stepper.access(Agent::User, kind, at, world, &mut ());
                }
                continue;
            }
            Event::FlushPage(_) => continue,
            Event::Replay => {}
        }
        let mut requests: Vec<Request> = Vec::new();
        waited += front.access_all(&rows, &world(0), &mut requests);
        rows.clear();
        let common_counts = direct_mapped.filter(&mut requests, 0);
        // Sharing ends here at the latest. Then the backs continue alone.
        let ends = step > events.len() / 2;
        for ((back, behind), (stepper, world)) in backs.iter_mut().zip(&steppers) {
            *behind += back.replay_common(&requests, &common_counts, world);
            if ends {
                back.continue_alone(&direct_mapped);
            }
            assert_equal_backs(&tree, back, stepper);
            assert_eq!(waited + *behind, stepper.now);
        }
        if ends {
            let rest = &events[(step + 1).min(events.len())..];
            for (at, &event) in rest.iter().enumerate() {
                let Event::Access(kind, page, offset) = event else { continue };
                let line = LineAddr { id: page, line: (offset / 16) as u32 };
                let cache = if kind == Kind::Fetch { tree.config().fetch } else { tree.config().data };
                for (lane, ((back, behind), (stepper, world))) in
                    backs.iter_mut().zip(&mut steppers).enumerate()
                {
                    stepper.access(Agent::User, kind, line, world, &mut ());
                    let mut requests: Vec<Request> = Vec::new();
                    let mut own = front.clone();
                    let cycles = own.access(cache, kind, line, 0, world, &mut requests);
                    *behind += cycles + back.replay(&requests, world);
                    if lane + 1 == lanes.len() {
                        front = own;
                    }
                    if at % 16 == 0 || at + 1 == rest.len() {
                        assert_equal_backs(&tree, back, stepper);
                        assert_eq!(waited + *behind, stepper.now);
                    }
                }
            }
            return;
        }
    }
}

/// Says which path failed, because the counts of all paths are compared by the same lines.
struct NamedIfItFails(FastPath);

impl Drop for NamedIfItFails {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = self.0.name().replace('-', "_");
            eprintln!("the fast path that differs from the stepper: crates/binhop-hw/src/fast/{path}");
        }
    }
}

fn check(path: FastPath, draw: &Draw, events: &[Event]) {
    let _named = NamedIfItFails(path);
    match path {
        FastPath::TwoPhase => two_phase(draw, events),
        FastPath::Chain => {
            chain(draw, events);
            chain::of_two_agents(draw, events);
        }
        FastPath::DirectMapped => direct_mapped(draw, events),
        FastPath::KnownHits => known_hits(draw, events),
        FastPath::LruStack => lru_stack(draw, events),
        FastPath::LaneBits => {
            bits::lane_bits(draw, events);
            bits::lane_bits_of_two_agents(draw, events);
        }
        FastPath::BackBits => bits::back_bits(draw, events),
        FastPath::FrontBits => front_bits::front_bits(draw, events),
        FastPath::TwoLevels => two_levels::two_levels(draw, events),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(150, 400)))]

    #[test]
    fn every_fast_path_leaves_what_the_stepper_leaves(draw in draw(), events in events()) {
        FastPath::ALL.iter().for_each(|&path| check(path, &draw, &events));
    }
}
