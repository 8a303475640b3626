//! These tests compare lanes that are bits ([`LaneBits`], and backs whose lanes are bits) with a stepper for each lane.

use binhop_base::{Agent, Agents, Kind, LineAddr, PageId, Rng, Translation};
use binhop_hw::{
    Back, BitsAccess, By, CacheConfig, Computer, Counted, CountedCaches, Front, LaneBits, Level, MOST_LANES,
    MOST_MARKS, Replacement, Request, Resident, Tree, TreeConfig, WritebackOrder,
};

use super::{BackModel, Draw, Event, PAGE, Plain, assert_equal_backs, only, world};
use crate::common::{World, assert_counts_of_stepper, power, resize};

/// Makes a cache one that the frame indexes, and whose replacement ignores hits.
fn ignoring_hits(draw: &Draw, cache: &mut CacheConfig) {
    cache.hashed = false;
    if !cache.replacement.hits_are_neutral() {
        cache.replacement = if draw.add { Replacement::Fifo } else { Replacement::Random };
    }
}

/// Gives a cache so many sets that a way is no smaller than a page.
fn resize_to_page(cache: &mut CacheConfig) {
    let sets = cache.sets().max(PAGE / cache.line.bytes());
    resize(cache, cache.ways, sets);
}

/// Many lanes, each a bit, behind one front that does not depend on the placement: up to three levels, of which the
/// first may replace the least recently used line. At some event the sharing ends: then each lane goes on with a back
/// of its own, and pages are flushed.
pub(super) fn back_bits(draw: &Draw, events: &[Event]) {
    let (ways, sets) = draw.front;
    let draw = Draw { virtually: false, front: (ways, sets.min(PAGE / 16)), ..draw.clone() };
    let chain = |first: usize| {
        let levels = 1 + (draw.behind[3].5 as usize + first) % 3;
        let mut levels: Vec<CacheConfig> = (0..levels).map(|n| draw.level((first + n) % 4, |_| {})).collect();
        levels.sort_by_key(|level| level.line.bytes());
        for (number, cache) in levels.iter_mut().enumerate() {
            let replacement = cache.replacement;
            ignoring_hits(&draw, cache);
            if number == 0 && !replacement.hits_are_neutral() {
                cache.replacement = Replacement::Lru;
            }
            cache.line = if number == 0 { power(32) } else { cache.line.max(power(32)) };
            resize_to_page(cache);
        }
        levels
    };
    let mut trees = [draw.tree(&chain(0)), draw.tree(&chain(1))];
    // An agent beside the user asks level 1, or the first cache behind it.
    let agent = draw.evict_first.then_some(Agent::Walk);
    let agent_asks = draw.add;
    if let Some(agent) = agent {
        trees = trees.map(|tree| with_agent(&tree, agent));
    }
    let of_agent = |kind: Kind, page: u32| agent.filter(|_| page.is_multiple_of(5) && kind == Kind::Load);
    let lanes = if events.len().is_multiple_of(16) { MOST_LANES } else { 1 + events.len() % 5 };
    let seeds: Vec<Rng> = (0..lanes as u64).map(Rng::new).collect();
    assert!(trees.iter().all(|tree| LaneBits::takes_back(tree, true)));
    let mut bits = LaneBits::behind_shared_front(&trees.each_ref(), &seeds, agent_asks);
    let worlds: Vec<World> = (0..lanes as u64).map(world).collect();
    let mut placed = Placed::default();
    let computers = |tree: &Tree| seeds.iter().map(|&rng| Computer::new(tree, rng)).collect();
    let mut steppers: Vec<Vec<Computer>> = trees.iter().map(computers).collect();
    let mut front = Front::with(&trees[0], Rng::new(0), &only(&trees[0], None));
    let (data, first) = (trees[0].config().data, trees[0].config().data + 1);
    let access = |stepper: &mut Computer, kind: Kind, at: LineAddr, world: &World| match of_agent(kind, at.id)
    {
        None => stepper.access(Agent::User, kind, at, world, &mut ()),
        // Lines of the first cache behind level 1 have 32 bytes.
        Some(agent) if agent_asks => {
            stepper.ask(first, agent, kind, LineAddr { line: at.line / 2, ..at }, world, &mut ())
        }
        Some(agent) => stepper.ask(data, agent, kind, at, world, &mut ()),
    };
    let (mut rows, mut at): (Vec<(Kind, LineAddr)>, usize) = (Vec::new(), 0);
    while at <= events.len() {
        let event = events.get(at).copied().unwrap_or(Event::Replay);
        at += 1;
        match event {
            Event::Access(kind, page, offset) => {
                placed.place(page, &mut bits, &worlds);
                rows.push((kind, LineAddr { id: page, line: (offset / 16) as u32 }));
                continue;
            }
            Event::FlushPage(_) => continue,
            Event::Replay => {}
        }
        for (stepper, world) in steppers.iter_mut().flat_map(|lanes| lanes.iter_mut().zip(&worlds)) {
            for &(kind, at) in &rows {
                access(stepper, kind, at, world);
            }
        }
        let mut requests: Vec<BitsAccess> = Vec::new();
        for (kind, at) in rows.drain(..) {
            let mut passed: Vec<Request> = Vec::new();
            match of_agent(kind, at.id) {
                None => assert_eq!(front.access_all(&[(kind, at)], &worlds[0], &mut passed), 0),
                Some(_) if agent_asks => {
                    let (page, line) = (PageId(at.id), at.line / 2);
                    requests.push(BitsAccess { page, line, kind, by: By::Agent, is_part: false });
                }
                Some(agent) => {
                    assert_eq!(front.ask(data, agent, kind, at, 0, &worlds[0], &mut passed), 0);
                }
            }
            requests.extend(passed.iter().map(BitsAccess::of_request));
        }
        requests.iter().for_each(|&request| bits.wait(request));
        bits.access_waiting();
        assert_equal_bits(&trees, &steppers, &bits);
        if at > events.len() / 2 {
            break;
        }
    }
    for (number, tree) in trees.iter().enumerate() {
        for (lane, (stepper, mut world)) in
            steppers[number].iter_mut().zip(worlds.iter().cloned()).enumerate()
        {
            let back = Back::split_off(&bits, lane, number, seeds[lane], &only(tree, None));
            assert_equal_backs(tree, &back, stepper);
            let mut split = Computer::over(front.clone(), back, stepper.now);
            for event in &events[at.min(events.len())..] {
                match *event {
                    Event::Access(kind, page, offset) => {
                        let at = LineAddr { id: page, line: (offset / 16) as u32 };
                        access(stepper, kind, at, &world);
                        match of_agent(kind, page) {
                            None => split.access(Agent::User, kind, at, &world, &mut ()),
                            Some(agent) if agent_asks => {
                                let at = LineAddr { line: at.line / 2, ..at };
                                split.ask(first, agent, kind, at, &world, &mut ())
                            }
                            Some(agent) => split.ask(data, agent, kind, at, &world, &mut ()),
                        };
                    }
                    Event::FlushPage(page) => {
                        let mappings = world.mappings_of(page);
                        stepper.flush_page(Agent::User, PageId(page), &mappings, &world, &mut ());
                        split.flush_page(Agent::User, PageId(page), &mappings, &world, &mut ());
                        world.frames[page as usize] += 1000 + lane as u64;
                    }
                    Event::Replay => {}
                }
            }
            assert_equal_backs(tree, &split.back, stepper);
            assert_eq!(split.now, stepper.now);
        }
    }
}

/// Many lanes, each a bit, of trees whose level 1 depends on the placement. Pages are flushed in some lanes only. The
/// two caches of level 1 may differ in size, in lines, and in the order of their write-backs.
pub(super) fn lane_bits(draw: &Draw, events: &[Event]) {
    let (_, sets) = draw.front;
    let several = draw.virtually;
    let draw = Draw { virtually: false, front: (1, sets), ..draw.clone() };
    // The front asks every back for lines of one size.
    let line = power(draw.behind[0].0.max(32));
    let resized = |cache: &mut CacheConfig, ways: u32, sets: u64| {
        cache.line = line;
        resize(cache, ways, sets);
    };
    // A direct-mapped back, and one or two levels of any ways whose replacement ignores hits.
    let in_bits = |number: usize| {
        draw.level(number, |cache| {
            ignoring_hits(&draw, cache);
            let ways = if number == 0 { 1 } else { cache.ways };
            resized(cache, ways, cache.sets().max(PAGE / line.bytes()));
        })
    };
    // This back gets the requests of each lane.
    let asked = draw.level(2, |cache| resized(cache, cache.ways, cache.sets()));
    let tree = |behind: Vec<CacheConfig>| {
        let mut config = draw.tree(&behind).config().clone();
        if draw.add && draw.split {
            let cache = &mut config.caches[1];
            cache.line = power(32);
            resize(cache, 1, if draw.evict_first { 16 } else { 32 });
            cache.writeback_order = WritebackOrder::ALL[usize::from(!draw.evict_first)];
        }
        Tree::new(config)
    };
    let mut chain = vec![in_bits(1)];
    chain.extend(several.then(|| in_bits(3)));
    let trees = [vec![in_bits(0)], chain, vec![asked]].map(tree);
    let lanes = if events.len().is_multiple_of(16) { MOST_LANES } else { 1 + events.len() % 5 };
    let both: Vec<(&Tree, bool)> =
        trees.iter().enumerate().map(|(number, tree)| (tree, number < 2)).collect();
    assert!(trees[..2].iter().all(|tree| LaneBits::takes_back(tree, false)));
    let seeds: Vec<Rng> = (0..lanes as u64).map(Rng::new).collect();
    let mut bits = LaneBits::new(&both, &seeds);
    let mut others: Vec<Plain> = (0..lanes as u64).map(|lane| Plain::new(&trees[2..], lane, None)).collect();
    let mut worlds: Vec<World> = (0..lanes as u64).map(world).collect();
    let mut placed = Placed::default();
    let computers = |tree: &Tree| (0..lanes as u64).map(|lane| Computer::new(tree, Rng::new(lane))).collect();
    let mut steppers: Vec<Vec<Computer>> = trees.iter().map(computers).collect();
    let config = trees[0].config();
    let mut rows: Vec<(Kind, LineAddr)> = Vec::new();
    for &event in events.iter().chain(&[Event::Replay]) {
        match event {
            Event::Access(kind, page, offset) => {
                placed.place(page, &mut bits, &worlds);
                let cache = if kind == Kind::Fetch { config.fetch } else { config.data };
                let line = (offset / config.caches[cache].line.bytes()) as u32;
                rows.push((kind, LineAddr { id: page, line }));
            }
            Event::Replay | Event::FlushPage(_) => {
                for lanes in &mut steppers {
                    for (stepper, world) in lanes.iter_mut().zip(&worlds) {
                        for &(kind, at) in &rows {
                            stepper.access(Agent::User, kind, at, world, &mut ());
                        }
                    }
                }
                bits.access_all(&rows, PageId);
                rows.clear();
                for (lane, (other, world)) in others.iter_mut().zip(&worlds).enumerate() {
                    other.replay(&std::mem::take(bits.requests(lane)), world);
                }
            }
        }
        if let Event::FlushPage(page) = event {
            placed.place(page, &mut bits, &worlds);
            for (lane, world) in
                worlds.iter_mut().enumerate().filter(|(lane, _)| !(lane + page as usize).is_multiple_of(3))
            {
                let (mappings, page_id) = (world.mappings_of(page), PageId(page));
                for lanes in &mut steppers {
                    lanes[lane].flush_page(Agent::User, page_id, &mappings, world, &mut ());
                }
                bits.flush_page(lane, page_id);
                others[lane].replay(&std::mem::take(bits.requests(lane)), world);
                others[lane].flush_page(page_id, world);
                world.frames[page as usize] += 1000 + lane as u64;
                bits.put(lane, page_id, world.frame(page_id));
            }
        }
        if !matches!(event, Event::Access(..)) {
            assert_equal_bits(&trees[..2], &steppers, &bits);
            for (other, stepper) in others.iter().zip(&steppers[2]) {
                other.assert_equal(0, &trees[2], stepper, 0);
            }
        }
    }
}

/// Returns lines in an order that does not depend on their places.
pub(super) fn sorted(lines: &mut dyn Iterator<Item = Resident>) -> Vec<(u32, u32, bool)> {
    let mut lines: Vec<_> = lines.map(|line| (line.at.id, line.at.line, line.dirty)).collect();
    lines.sort_unstable();
    lines
}

/// Returns the tree with an agent beside the user: one that executes instructions, or one that does not.
pub(super) fn with_agent(tree: &Tree, agent: Agent) -> Tree {
    Tree::new(TreeConfig { agents: Agents::USER.with(agent), ..tree.config().clone() })
}

/// Returns who makes an access: an agent reads some pages, and some of the user's accesses are said to follow a walk.
fn by(kind: Kind, page: u32, offset: u64) -> By {
    match page {
        0 | 5 | 6 if kind != Kind::Store => By::Agent,
        _ if offset.is_multiple_of(3) => By::UserAfterWalk,
        _ => By::User,
    }
}

/// The accesses of the user after walks that each level served, by kind: level 1, a cache behind, and memory.
type Served = [[u64; 3]; 3];

/// Makes an access in a stepper.
fn step(stepper: &mut Computer, agent: Agent, access: &BitsAccess, world: &World, served: &mut Served) {
    let BitsAccess { page, line, kind, by, .. } = *access;
    let agent = if by == By::Agent { agent } else { Agent::User };
    let answer = stepper.access(agent, kind, LineAddr { id: page.0, line }, world, &mut ());
    if by == By::UserAfterWalk {
        let level = match answer.served {
            Level::Cache(cache) => usize::from(!stepper.front.tree().in_front(cache)),
            Level::Memory => 2,
        };
        served[kind as usize][level] += 1;
    }
}

/// Returns the demand misses of each cache of a stepper that count in MPI.
fn misses_in_mpi(stepper: &Computer, agent: Agent) -> Vec<u64> {
    let of = |cache: usize| {
        let own = stepper.counters(cache).misses.demand();
        let of_agent = stepper.by_agent(cache)[0].misses.demand();
        own + if agent.counts_in_mpi() { of_agent } else { 0 }
    };
    (0..stepper.front.tree().config().caches.len()).map(of).collect()
}

/// Many lanes, each a bit, in which an agent makes accesses, too: level 1 and a chain behind it. At some event the
/// lanes leave the bits, and each goes on by itself.
pub(super) fn lane_bits_of_two_agents(draw: &Draw, events: &[Event]) {
    let (_, sets) = draw.front;
    let several = draw.virtually;
    let draw = Draw { virtually: false, front: (1, sets), ..draw.clone() };
    let line = power(draw.behind[0].0.max(32));
    let level = |number: usize| {
        draw.level(number, |cache| {
            ignoring_hits(&draw, cache);
            let sets = cache.sets().max(PAGE / line.bytes());
            cache.line = line;
            resize(cache, cache.ways, sets);
        })
    };
    let mut chain = vec![level(0)];
    chain.extend(several.then(|| level(3)));
    let agent = if draw.add { Agent::Walk } else { Agent::Handler };
    let tree = with_agent(&draw.tree(&chain), agent);
    assert!(LaneBits::takes_back(&tree, false));
    let lanes = if events.len().is_multiple_of(16) { MOST_LANES } else { 1 + events.len() % 5 };
    let seeds: Vec<Rng> = (0..lanes as u64).map(Rng::new).collect();
    let mut bits = LaneBits::new(&[(&tree, true)], &seeds);
    let worlds: Vec<World> = (0..lanes as u64).map(world).collect();
    let mut steppers: Vec<Computer> = seeds.iter().map(|&rng| Computer::new(&tree, rng)).collect();
    let mut served = vec![Served::default(); lanes];
    // Few accesses may wait, so that a full list is simulated between placements.
    bits.let_wait(1 + events.len() % 23);
    let (mut placed, mut waiting, mut at) = (Placed::default(), Vec::new(), 0);
    let (mut marks, mut at_marks) = (0, vec![Vec::new(); lanes]);
    while at <= events.len() {
        let event = events.get(at).copied().unwrap_or(Event::Replay);
        at += 1;
        match event {
            Event::Access(kind, page, offset) => {
                placed.place(page, &mut bits, &worlds);
                let (page_id, line) = (PageId(page), (offset / 16) as u32);
                let by = by(kind, page, offset);
                let access = BitsAccess { page: page_id, line, kind, by, is_part: false };
                waiting.push(Some(access));
                bits.wait(access);
                continue;
            }
            Event::FlushPage(_) => {
                // A mark stands here.
                if marks < MOST_MARKS {
                    marks += 1;
                    waiting.push(None);
                    bits.pass_mark();
                }
                continue;
            }
            Event::Replay => {}
        }
        let lanes = steppers.iter_mut().zip(&worlds).zip(&mut served).zip(&mut at_marks);
        for (((stepper, world), served), at_marks) in lanes {
            for access in &waiting {
                match access {
                    Some(access) => step(stepper, agent, access, world, served),
                    None => at_marks.push(misses_in_mpi(stepper, agent)),
                }
            }
        }
        bits.access_waiting();
        waiting.clear();
        for (lane, at_marks) in at_marks.iter_mut().enumerate() {
            for cache in 0..tree.config().caches.len() {
                let expected: Vec<u64> = at_marks.iter().map(|misses| misses[cache]).collect();
                let mut counted = vec![0; expected.len()];
                match tree.in_front(cache) {
                    true => bits.front_misses_at_marks(lane, cache, &mut counted),
                    false => bits.back_misses_at_marks(lane, 0, cache, &mut counted),
                }
                assert_eq!(counted, expected);
            }
            // Some marks are kept while further accesses are made.
            if at.is_multiple_of(2) {
                at_marks.clear();
            }
        }
        if at.is_multiple_of(2) {
            bits.forget_marks();
            marks = 0;
        }
        assert_equal_bits(std::slice::from_ref(&tree), std::slice::from_ref(&steppers), &bits);
        for (lane, served) in served.iter().enumerate() {
            let of = |kind| bits.served(lane, kind);
            assert_eq!([Kind::Fetch, Kind::Load, Kind::Store].map(of), *served);
        }
        if at > events.len() / 2 {
            break;
        }
    }
    for (lane, (stepper, world)) in steppers.iter_mut().zip(&worlds).enumerate() {
        let paths = only(&tree, None);
        let front = Front::split_off(&bits, lane, &tree, seeds[lane], &paths);
        let back = Back::split_off(&bits, lane, 0, seeds[lane], &paths);
        let mut split = Computer::over(front, back, stepper.now);
        let mut none = Served::default();
        for event in &events[at.min(events.len())..] {
            let Event::Access(kind, page, offset) = *event else { continue };
            let (page_id, line) = (PageId(page), (offset / 16) as u32);
            let access = BitsAccess { page: page_id, line, kind, by: by(kind, page, offset), is_part: false };
            step(stepper, agent, &access, world, &mut none);
            step(&mut split, agent, &access, world, &mut none);
        }
        for cache in 0..tree.config().caches.len() {
            assert_counts_of_stepper(split.counters(cache), stepper.counters(cache));
            assert_eq!(split.by_agent(cache), stepper.by_agent(cache));
            assert_eq!(split.contents(cache), stepper.contents(cache));
        }
        assert_eq!(split.back.memory(), stepper.back.memory());
        assert_eq!(split.back.memory_by_agent(), stepper.back.memory_by_agent());
        assert_eq!(split.now, stepper.now);
    }
}

/// The pages that have a frame in every lane. As in a run, a page gets its frames when it is touched first, while lines
/// of other pages lie in its bin.
#[derive(Default)]
struct Placed(std::collections::BTreeSet<u32>);

impl Placed {
    fn place(&mut self, page: u32, bits: &mut LaneBits, worlds: &[World]) {
        if self.0.insert(page) {
            for (lane, world) in worlds.iter().enumerate() {
                bits.put(lane, PageId(page), world.frame(PageId(page)));
            }
        }
    }
}

fn assert_equal_bits(trees: &[Tree], steppers: &[Vec<Computer>], bits: &LaneBits) {
    let fronts = bits.fronts();
    let has_fronts = bits.has_fronts();
    for (number, (tree, lanes)) in trees.iter().zip(steppers).enumerate() {
        let backs = bits.backs(number);
        for (lane, stepper) in lanes.iter().enumerate() {
            let (memory, waited) = (bits.memory(lane, number), bits.waited(lane, number));
            for cache in (0..tree.config().caches.len()).filter(|&cache| has_fronts || !tree.in_front(cache))
            {
                let (counts, contents, misses) = if tree.in_front(cache) {
                    (&fronts[lane], bits.front_contents(lane, cache), bits.front_misses(lane, cache))
                } else {
                    assert_eq!(&bits.back_counters(lane, number, cache), backs[lane].counters(cache));
                    let contents = bits.back_contents(lane, number, cache);
                    (&backs[lane], contents, bits.back_misses(lane, number, cache))
                };
                let counters = stepper.counters(cache);
                assert_counts_of_stepper(counts.counters(cache), counters);
                assert_eq!(misses, counters.misses.demand());
                assert_eq!(counts.by_agent(cache), stepper.by_agent(cache));
                let held = stepper.contents(cache);
                let held = sorted(&mut held.into_iter().flatten().flatten());
                assert_eq!(sorted(&mut contents.into_iter()), held);
                let dirty = held.iter().filter(|(_, _, dirty)| *dirty).count() as u64;
                assert_eq!(counts.resident(cache), (held.len() as u64, dirty));
            }
            assert_eq!((backs[lane].memory(), &memory), (stepper.back.memory(), stepper.back.memory()));
            assert_eq!(backs[lane].memory_by_agent(), stepper.back.memory_by_agent());
            assert_eq!(waited, stepper.now);
        }
    }
}
