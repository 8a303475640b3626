//! This test compares chains of two agents with the stepper: the counts of each agent, the cycles waited for each, and
//! the level that serves an access after a walk.

use binhop_base::{Agent, Kind, LineAddr, PageId, Rng};
use binhop_hw::{Access, Back, Computer, FastPath, Front, Level, ReplayedByAgent, Request};

use super::{Draw, Event, assert_equal_backs, chain_trees, only, world};
use crate::common::World;

/// `Row` is an access of an agent.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: Kind,
    at: LineAddr,
    agent: Agent,
    after_walk: bool,
}

impl Access for Row {
    fn kind(self) -> Kind {
        self.kind
    }

    fn at(self) -> LineAddr {
        self.at
    }

    fn agent(self) -> Agent {
        self.agent
    }

    fn is_after_walk(self) -> bool {
        self.after_walk
    }

    fn is_marked(self) -> bool {
        self.after_walk || self.agent != Agent::User
    }
}

/// Returns the access of an event. An agent other than the user reads some pages. The next access comes after a walk.
fn row(agent: Agent, kind: Kind, page: u32, offset: u64, before: Option<&Row>) -> Row {
    let by_agent = page.is_multiple_of(3) && kind != Kind::Store;
    Row {
        kind,
        at: LineAddr { id: page, line: (offset / 16) as u32 },
        agent: if by_agent { agent } else { Agent::User },
        after_walk: !by_agent && before.is_some_and(|before| before.agent != Agent::User),
    }
}

/// Makes an access in the stepper, and adds what it took to `expected`.
fn step(
    stepper: &mut Computer,
    row: Row,
    in_front: impl Fn(usize) -> bool,
    world: &World,
    expected: &mut ReplayedByAgent,
) {
    let answer = stepper.access(row.agent, row.kind, row.at, world, &mut ());
    match (row.agent, row.kind) {
        (Agent::User, _) => expected.user += answer.cycles,
        (_, Kind::Fetch) => expected.fetches += answer.cycles,
        _ => expected.others += answer.cycles,
    }
    if row.after_walk {
        match answer.served {
            Level::Memory => expected.in_memory[row.kind as usize] += 1,
            Level::Cache(cache) if !in_front(cache) => expected.behind[row.kind as usize] += 1,
            Level::Cache(_) => {}
        }
    }
}

/// A chain that replays requests of two agents, and a back without fast paths, leave what the stepper leaves.
pub(super) fn of_two_agents(draw: &Draw, events: &[Event]) {
    // The last level that is drawn is in no tree, so its shape decides what is left to choose.
    let (_, ways, sets, ..) = draw.behind[3];
    let (agent, is_watched) = (if ways.ilog2() % 2 == 0 { Agent::Walk } else { Agent::Handler }, sets > 4);
    let [tree] = &*chain_trees(draw, agent) else { unreachable!("there is one tree") };
    let mut world = world(1);
    let mut stepper = Computer::new(tree, Rng::new(1));
    let mut front = Front::with(tree, Rng::new(1), &only(tree, None));
    let mut backs =
        [Some(FastPath::Chain), None].map(|path| Back::with(tree, Rng::new(1), &only(tree, path)));
    let first = (0..tree.config().caches.len()).find(|&cache| !tree.in_front(cache)).unwrap();
    if is_watched {
        stepper.back.watch(first);
        backs.iter_mut().for_each(|back| back.watch(first));
    }
    let (mut rows, mut replayed): (Vec<Row>, _) = (Vec::new(), [ReplayedByAgent::default(); 2]);
    for &event in events.iter().chain(&[Event::Replay]) {
        let flushed = match event {
            Event::Access(kind, page, offset) => {
                rows.push(row(agent, kind, page, offset, rows.last()));
                continue;
            }
            Event::FlushPage(page) => Some(page),
            Event::Replay => None,
        };
        let (mut expected, mut requests) = (ReplayedByAgent::default(), Vec::new());
        for row in rows.drain(..) {
            step(&mut stepper, row, |cache| tree.in_front(cache), &world, &mut expected);
            let mut asked: Vec<Request> = Vec::new();
            assert_eq!(front.access_all(&[row], &world, &mut asked), 0);
            for request in asked.iter_mut().filter(|request| row.after_walk && request.kind.is_demand()) {
                request.origin = request.origin.after_walk();
            }
            requests.extend(asked);
        }
        for (back, replayed) in backs.iter_mut().zip(&mut replayed) {
            *replayed = back.replay_by_agent(&requests, &world);
            assert_eq!(*replayed, expected);
        }
        if let Some(page) = flushed {
            let mappings = world.mappings_of(page);
            stepper.flush_page(Agent::User, PageId(page), &mappings, &world, &mut ());
            let mut written: Vec<Request> = Vec::new();
            front.flush_page(PageId(page), &mappings, 0, &world, &mut written);
            for back in &mut backs {
                assert_eq!(back.replay(&written, &world), 0);
                back.flush_page(PageId(page), &mappings, 0, &world);
            }
            world.frames[page as usize] += 1000;
        }
        for back in &backs {
            assert_equal_backs(tree, back, &stepper);
            assert_eq!(back.repeats(first), stepper.back.repeats(first));
        }
    }
}
