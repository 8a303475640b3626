//! Tests of the two-levels path against the stepper, one access at a time.

use binhop_base::{Agent, Agents, Kind, LineAddr, PageId, Rng};
use binhop_hw::{
    Back, CacheConfig, Computer, FastPath, Front, IndexBy, Level, MissedLine, RemovedLine, TagBy, Tree,
    TreeConfig, Witness,
};

use super::{Draw, Event, assert_equal_backs, only, world};
use crate::common::assert_counts_of_stepper;

/// `Told` lists what a witness is told, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told(Vec<String>);

impl Witness for Told {
    fn missed(&mut self, line: MissedLine) {
        self.0.push(format!("{line:?}"));
    }
    fn filled(&mut self, cache: usize, at: LineAddr) {
        self.0.push(format!("{cache} {at:?}"));
    }
    fn removed(&mut self, line: RemovedLine) {
        self.0.push(format!("{line:?}"));
    }
    fn served(&mut self, by: Level) {
        self.0.push(format!("{by:?}"));
    }
}

/// Returns a tree of two direct-mapped levels, with two agents. The levels may be virtual.
fn tree(draw: &Draw) -> Tree {
    let draw = Draw { front: (1, draw.front.1), ..draw.clone() };
    let is_virtual = draw.virtually && draw.behind[1].4;
    let level = |number: usize| {
        draw.level(number, |cache: &mut CacheConfig| {
            cache.size.0 /= u64::from(cache.ways);
            (cache.ways, cache.hashed) = (1, false);
            if is_virtual {
                (cache.index, cache.tag) = (IndexBy::Virtual, TagBy::Asid);
            }
        })
    };
    let config = draw.tree(&[level(0)]).config().clone();
    Tree::new(TreeConfig { agents: Agents::USER.with(Agent::Handler), ..config })
}

pub(super) fn two_levels(draw: &Draw, events: &[Event]) {
    let tree = tree(draw);
    assert_eq!(FastPath::of(&tree).why_not(FastPath::TwoLevels), None);
    let mut world = world(1);
    let paths = only(&tree, Some(FastPath::TwoLevels));
    let mut fast = Computer::over(Front::with(&tree, Rng::new(1), &paths), Back::new(&tree, Rng::new(1)), 0);
    let mut stepper = Computer::new(&tree, Rng::new(1));
    for (number, &event) in events.iter().enumerate() {
        match event {
            Event::Access(kind, page, offset) => {
                let agent = if page % 3 == 2 { Agent::Handler } else { Agent::User };
                let kind = if agent == Agent::Handler && kind == Kind::Store { Kind::Load } else { kind };
                let at = LineAddr { id: page, line: (offset / 16) as u32 };
                let first = if kind == Kind::Fetch { tree.config().fetch } else { tree.config().data };
                // The world has one mapping for each page, and both have one number.
                let (last, log2) = (tree.config().caches.len() - 1, tree.config().caches[0].line.log2());
                let line = at.line >> (tree.config().caches[last].line.log2() - log2);
                let behind = LineAddr { id: page, line };
                let (mut told, mut told_of_stepper) = (Told::default(), Told::default());
                let mut levels = fast.two_levels().expect("the front takes the path");
                let holds = levels.holds(kind, at, &world);
                let holds_behind = levels.holds_behind(kind, at, &world);
                let answer = levels.access(agent, kind, at, &world, &mut told);
                fast.now = levels.now;
                assert_eq!(holds, stepper.front.holds(first, at, &world));
                assert_eq!(holds_behind, stepper.back.holds_line(last, behind, &world));
                let expected = stepper.access(agent, kind, at, &world, &mut told_of_stepper);
                assert_eq!(answer, expected);
                assert_eq!(told, told_of_stepper);
            }
            Event::FlushPage(page) => {
                for computer in [&mut fast, &mut stepper] {
                    let mappings = world.mappings_of(page);
                    computer.flush_page(Agent::User, PageId(page), &mappings, &world, &mut ());
                }
                world.frames[page as usize] += 1000;
            }
            Event::Replay => {}
        }
        if number % 16 == 0 || number + 1 == events.len() {
            assert_equal(&tree, &fast, &stepper);
        }
    }
}

fn assert_equal(tree: &Tree, fast: &Computer, stepper: &Computer) {
    for cache in (0..tree.config().caches.len()).filter(|&cache| tree.in_front(cache)) {
        assert_counts_of_stepper(fast.front.counters(cache), stepper.front.counters(cache));
        assert_eq!(fast.front.by_agent(cache), stepper.front.by_agent(cache));
        assert_eq!(fast.front.contents(cache), stepper.front.contents(cache));
    }
    assert_equal_backs(tree, &fast.back, stepper);
    assert_eq!(fast.now, stepper.now);
    fast.check().unwrap();
}

/// Without the path, and where requests to memory are kept, the computer takes the general path.
#[test]
fn two_levels_serve_a_front_that_takes_the_path() {
    let draw = Draw {
        split: true,
        front: (1, 4),
        virtually: true,
        behind: vec![(16, 1, 8, binhop_hw::Replacement::Lru, true, 5); 4],
        evict_first: false,
        add: true,
    };
    let tree = tree(&draw);
    let computer = |path| {
        let front = Front::with(&tree, Rng::new(1), &only(&tree, path));
        Computer::over(front, Back::new(&tree, Rng::new(1)), 0)
    };
    assert!(computer(Some(FastPath::TwoLevels)).two_levels().is_some());
    assert!(computer(None).two_levels().is_none());
    let mut tapped = computer(Some(FastPath::TwoLevels));
    tapped.back.tap();
    assert!(tapped.two_levels().is_none());
}
