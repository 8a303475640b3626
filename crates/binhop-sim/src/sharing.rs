//! The planner: which stages the machines of a run share.
//!
//! A simulation is a chain of stages: decode, prepare, place, front, back. Machines that agree up to a stage
//! share it; each stage is done once for every group of machines that cannot be told apart by it, and (from
//! placement on) once for each seed. Whatever is shared, results are those of running each machine alone.
//!
//! - **decode**: once.
//! - **prepare**: once for machines that need the same of it ([`Needs`]: pages, and the lines, sets and write
//!   policy of the caches the processor asks). The pool may differ: the smallest number of frames outside a
//!   pool is safe for all, unless it is so small that no page is surely in memory. Policies that give a dead page's
//!   frame away at once (buddy, recorded) have a preparation of their own, so as not to end others' shared front.
//! - **front**: machines with equal fronts form a group. If no set of it depends on a frame and no victim on
//!   the seed, it is simulated once for all placements and seeds of the group, until a page may be evicted.
//! - **place**: once per seed for machines of one group whose memory and placement are equal: a lane.
//! - **back**: one for each machine of a lane, all behind the lane's front; where backs differ in ways only and
//!   replace the least recently used, one stack serves them all ([`LruStack`](binhop_hw::LruStack)).
//!
//! Nothing is shared behind a write buffer, below an inclusive cache or under cachegrind's rules: there each request
//! must be answered before the next access.
//!
//! Where units act ([`crate::unit`]), each machine has lanes of its own with one back, and nothing that knows what backs
//! hold works for several of them (no direct-mapped filter, known-hit filter or stack): what is injected into a back makes it differ from the others.
//! A front is shared until the first occasion at which a unit may touch level 1; not at all if units ask for misses.

use binhop_hw::{FastPath, FastPathSet, FastPaths, KnownHitFilter, LruStackShape, Rules, Tree};

use crate::machine::Machine;
use crate::occasion::Subscription;
use crate::prepare::Needs;

/// `FrontSharing` is the reason why first-level caches can, or cannot, be simulated once for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontSharing {
    /// Simulated once: no set of theirs depends on a frame, no victim on the seed, no count on time.
    Shared,
    /// There is one lane.
    OneLane,
    /// The plan asks for every lane by itself.
    Off,
    /// Some set depends on the frame.
    Placement,
    /// Some victim depends on the seed.
    Seed,
    /// A write buffer's stalls depend on when each lane's misses end.
    Time,
    /// Cachegrind's rules ask level 1 and what is behind it in one go.
    Rules,
    /// Units ask what level 1 does not hold, and act on it in each lane for itself.
    Units,
}

impl FrontSharing {
    /// Returns what a machine's tree allows for this many lanes, with units that ask for `subscription`, if there are any.
    #[must_use]
    pub fn of(tree: &Tree, lanes: usize, subscription: Option<&Subscription>) -> Self {
        if lanes == 1 {
            Self::OneLane
        } else if tree.config().rules == Rules::Cachegrind {
            Self::Rules
        } else if tree.front_depends_on_placement() {
            Self::Placement
        } else if tree.front_depends_on_seed() {
            Self::Seed
        } else if tree.has_write_buffer() {
            Self::Time
        } else if subscription.is_some_and(Subscription::wants_misses) {
            Self::Units
        } else {
            Self::Shared
        }
    }

    /// In a sentence.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Shared => "level 1 does not depend on placement: it is simulated once for all seeds",
            Self::OneLane => "one seed: nothing to share",
            Self::Off => "sharing is switched off: level 1 is simulated for each seed",
            Self::Placement => {
                "level 1 is indexed by physical address bits above the page offset: it is simulated for each seed"
            }
            Self::Seed => "level 1 draws random victims: it is simulated for each seed",
            Self::Time => {
                "a write buffer's stalls depend on each placement's misses: level 1 is simulated for each seed"
            }
            Self::Rules => {
                "cachegrind's rules ask for whole references at every level: level 1 is simulated for each seed"
            }
            Self::Units => {
                "units act where level 1 misses, in each placement for itself: level 1 is simulated for each seed"
            }
        }
    }
}

/// Machines by the stages they share. Numbers are places in the list of machines.
#[derive(Debug)]
pub(crate) struct SharingPlan {
    pub(crate) preparations: Vec<SharedPreparation>,
}

/// Machines that share a preparation.
#[derive(Debug)]
pub(crate) struct SharedPreparation {
    pub(crate) needs: Needs,
    /// Frames that no placement of these machines may choose: the fewest.
    pub(crate) safe: Option<u64>,
    /// True if some placement asks for the segments of the space that faults: they are listed only then.
    pub(crate) lists_segments: bool,
    pub(crate) groups: Vec<FrontGroup>,
}

/// Machines with equal fronts.
#[derive(Debug)]
pub(crate) struct FrontGroup {
    /// The reason why one front serves all lanes, or why not.
    pub(crate) sharing: FrontSharing,
    /// Machines of equal placement: one lane for each seed.
    pub(crate) lanes: Vec<LaneCells>,
    /// The fast paths that are taken, each where the trees allow it, and why the others are not.
    pub(crate) paths: FastPaths,
}

/// The cells of a lane: machines of equal placement behind one front.
#[derive(Debug)]
pub(crate) struct LaneCells {
    pub(crate) machines: Vec<usize>,
    pub(crate) stacks: Vec<StackedBacks>,
}

/// Machines whose backs differ in ways only.
#[derive(Debug)]
pub(crate) struct StackedBacks {
    pub(crate) shape: LruStackShape,
    /// The most ways of any.
    pub(crate) ways: u32,
    pub(crate) machines: Vec<usize>,
}

impl LaneCells {
    fn of(machines: &[Machine], cells: Vec<usize>, may_stack: bool) -> Self {
        let shape = |cell: usize| LruStackShape::of(machines[cell].tree()).ok().filter(|_| may_stack);
        let able: Vec<usize> = cells.iter().copied().filter(|&cell| shape(cell).is_some()).collect();
        let stacked = |riders: Vec<usize>| {
            let shape = shape(riders[0]).filter(|_| riders.len() > 1)?;
            let ways = riders.iter().map(|&cell| ways(&machines[cell])).max()?;
            Some(StackedBacks { shape, ways, machines: riders })
        };
        let stacks = group(&able, |a, b| shape(a) == shape(b)).into_iter().filter_map(stacked).collect();
        Self { machines: cells, stacks }
    }

    /// The trees of its machines.
    pub(crate) fn trees<'a>(&self, machines: &'a [Machine]) -> Vec<&'a Tree> {
        trees(machines, &self.machines)
    }

    /// The stack a machine's back is in, and its ways there.
    pub(crate) fn stack_of(&self, cell: usize, machines: &[Machine]) -> Option<(usize, u32)> {
        let stack = self.stacks.iter().position(|stack| stack.machines.contains(&cell))?;
        Some((stack, ways(&machines[cell])))
    }
}

/// The trees of machines by their numbers.
fn trees<'a>(machines: &'a [Machine], numbers: &[usize]) -> Vec<&'a Tree> {
    numbers.iter().map(|&machine| machines[machine].tree()).collect()
}

/// The ways of the only cache behind a front.
fn ways(machine: &Machine) -> u32 {
    let tree = machine.tree();
    let mut caches = tree.config().caches.iter().enumerate();
    let back = caches.find(|&(number, _)| !tree.in_front(number));
    back.expect("a stack is of caches behind a front").1.ways
}

impl SharingPlan {
    /// `subscription`: what units ask for, if any act. `off`: the fast paths that are switched off.
    pub(crate) fn of(
        machines: &[Machine],
        seeds: usize,
        share: bool,
        subscription: Option<&Subscription>,
        off: FastPathSet,
    ) -> Self {
        let needs: Vec<Needs> = machines.iter().map(Needs::of).collect();
        let all: Vec<usize> = (0..machines.len()).collect();
        let stream = |cells: Vec<usize>| SharedPreparation {
            needs: needs[cells[0]].clone(),
            safe: cells.iter().filter_map(|&cell| machines[cell].safe_frames()).min(),
            lists_segments: cells.iter().any(|&cell| machines[cell].placement().reads_segments()),
            groups: group(&cells, |a, b| {
                share && machines[a].tree().front_differs(machines[b].tree()).is_none()
            })
            .into_iter()
            .map(|cells| FrontGroup::of(machines, &cells, seeds, share, subscription, off))
            .collect(),
        };
        let preparations = group(&all, |a, b| needs[a] == needs[b]).into_iter().map(stream).collect();
        Self { preparations }
    }

    /// The same, with policies of the caller's own, which may ask for anything, in place of the machines'.
    pub(crate) fn with_own_policies(mut self, own: bool) -> Self {
        self.preparations.iter_mut().for_each(|stream| stream.lists_segments |= own);
        self
    }
}

impl FrontGroup {
    fn of(
        machines: &[Machine],
        cells: &[usize],
        seeds: usize,
        share: bool,
        subscription: Option<&Subscription>,
        off: FastPathSet,
    ) -> Self {
        let tree = machines[cells[0]].tree();
        let equal = |a: usize, b: usize| {
            share
                && subscription.is_none()
                && !tree.answers_at_once()
                && machines[a].memory() == machines[b].memory()
                && machines[a].placement() == machines[b].placement()
        };
        let lanes = group(cells, equal);
        let sharing =
            if share { FrontSharing::of(tree, lanes.len() * seeds, subscription) } else { FrontSharing::Off };
        let allowed: Vec<FastPaths> = cells.iter().map(|&cell| FastPath::of(machines[cell].tree())).collect();
        // Level 1 is the same for all. A back takes the chain by itself; one front's direct-mapped filter must suit every back.
        let by_any = |path| allowed.iter().find(|tree| tree.takes(path)).unwrap_or(&allowed[0]).why_not(path);
        let by_all = |path| allowed.iter().find_map(|tree| tree.why_not(path));
        let sifted = |cells: &Vec<usize>| KnownHitFilter::new(&trees(machines, cells)).is_some();
        let paths = FastPaths::decide(|path| match path {
            FastPath::TwoPhase => allowed[0].why_not(path),
            FastPath::Chain | FastPath::LruStack => by_any(path),
            FastPath::DirectMapped if sharing != FrontSharing::Shared => Some("no front is shared"),
            FastPath::DirectMapped if subscription.is_some() => Some("units act in each lane for itself"),
            FastPath::DirectMapped => by_all(path),
            FastPath::KnownHits if lanes.iter().any(sifted) => None,
            FastPath::KnownHits if lanes.iter().all(|cells| cells.len() == 1) => {
                Some("each lane has one back")
            }
            FastPath::KnownHits => by_all(path).or(Some("the backs of a lane differ in lines")),
        });
        let paths = paths.without(off);
        // A direct-mapped filter works for backs that are simulated each by itself.
        let may_stack = paths.takes(FastPath::LruStack) && !paths.takes(FastPath::DirectMapped);
        let lanes: Vec<LaneCells> =
            lanes.into_iter().map(|cells| LaneCells::of(machines, cells, may_stack)).collect();
        let paths = FastPaths::decide(|path| match path {
            FastPath::LruStack if lanes.iter().any(|cells| !cells.stacks.is_empty()) => None,
            FastPath::LruStack => paths.why_not(path).or(Some(if paths.takes(FastPath::DirectMapped) {
                "the direct-mapped backs are replayed without a branch"
            } else if lanes.iter().all(|cells| cells.machines.len() == 1) {
                "each lane has one back"
            } else {
                "the sets of the backs differ"
            })),
            _ => paths.why_not(path),
        });
        Self { sharing, lanes, paths }
    }

    /// Its machines, in order.
    pub(crate) fn machines(&self) -> impl Iterator<Item = usize> {
        self.lanes.iter().flat_map(|cells| cells.machines.iter().copied())
    }

    /// Their trees.
    pub(crate) fn trees<'a>(&self, machines: &'a [Machine]) -> Vec<&'a Tree> {
        self.machines().map(|machine| machines[machine].tree()).collect()
    }
}

/// Numbers in groups of equals, both in order of appearance. `equal` must be an equivalence.
fn group(numbers: &[usize], equal: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &number in numbers {
        match groups.iter_mut().find(|group| equal(group[0], number)) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups
}
