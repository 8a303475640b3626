//! The sharing plan of a run states which machines share which stages.
//!
//! A simulation is a chain of stages: decode, prepare, place, front, back. Machines that agree up to a stage
//! share that stage. Each stage is simulated once for every group of machines that it cannot tell apart; from
//! placement on, once for each seed of the group. Each machine has the results that it would have alone.
//!
//! - **decode**: once.
//! - **prepare**: once for machines with equal needs ([`Needs`]: pages, and the lines, sets and write policy
//!   of the caches that the processor accesses). The pools may differ: the preparation uses the smallest
//!   number of frames outside a pool. Machines of which no page is surely in memory, because so few frames lie
//!   outside the pool, have a preparation of their own. So have policies that reuse a dead page's frame at once
//!   (buddy, recorded), because they would end the shared front of other machines.
//! - **front**: machines with equal fronts form a group. If no set of the front depends on a frame and no
//!   victim depends on the seed, the front is simulated once for all placements of the group, until a page
//!   may be evicted. Then level 1 of up to 64 lanes may continue together, one bit for each lane.
//! - **place**: once per seed for machines of one group with equal memory and placement. These machines are a
//!   lane.
//! - **back**: once for each machine of a lane, behind the lane's front. Backs that differ in ways only and
//!   replace the least recently used line are simulated by one stack ([`LruStack`](binhop_hw::LruStack)). Behind a
//!   shared front, up to 64 lanes of a machine are simulated together, one bit for each lane
//!   ([`LaneBits`](binhop_hw::LaneBits)), until the sharing ends.
//!
//! The backs of each lane are divided among the threads if threads outnumber the bundles of lanes. Each part of the
//! backs has lanes of its own.
//!
//! All lanes of a placement have equal caches, until a page may be evicted, if no set depends on a frame and nothing is
//! drawn. Then the first lane simulates front and back for all of them, and each lane places pages only.
//!
//! A machine with a write buffer or an inclusive cache, or under cachegrind's rules, has lanes of its own,
//! because each of its requests must be answered before the next access.
//!
//! Where units act ([`crate::unit`]), each machine has lanes of its own with one back each. The direct-mapped
//! filter, the known-hit filter and the stack are off, because what a unit injects into one back makes it
//! differ from other backs. A front is shared until the first occasion at which a unit may touch level 1. If a
//! unit asks for misses, no front is shared at all.

mod division;
mod equality;

use binhop_hw::{
    FastPath, FastPathSet, FastPaths, KnownHitFilter, LaneBits, LruStackShape, Next, Replacement, Rules, Tree,
};

use crate::machine::{Machine, WalkEntry};
use crate::occasion::Subscription;
use crate::prepare::Needs;
pub(crate) use division::FEWEST_LANES;
use equality::lanes_are_equal;

/// `FrontSharing` is the reason why the first-level caches can, or cannot, be simulated once for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontSharing {
    /// The front is shared: no set depends on a frame, no victim depends on the seed, and no count depends on
    /// time.
    Shared,
    /// No cache depends on placement, so the front is simulated with the levels behind it, in one lane for all seeds.
    Equal,
    /// The front has only one lane.
    OneLane,
    /// The options switch sharing off.
    Off,
    /// A set depends on the frame.
    Placement,
    /// A victim depends on the seed.
    Seed,
    /// A write buffer's stalls depend on when each lane's misses end.
    Time,
    /// Cachegrind's rules access level 1 and the levels behind it together.
    Rules,
    /// Private caches follow each row beside the lane's caches.
    Switches,
    /// Level 1 has stream buffers. What a shared front counts is the user's alone.
    Streams,
    /// Which entries of a page table a walk reads depends on each lane's frames.
    Tables,
    /// Handlers run in each lane where the last level misses, and their lines go through level 1.
    Handlers,
    /// Lines keep the protection of their pages, which each lane changes in the lines that its caches hold.
    Protection,
    /// A unit asks for misses of level 1, and acts on level 1 in each lane.
    Units,
}

impl FrontSharing {
    /// Returns what a machine allows for `lanes` lanes, with units that ask for `subscription`.
    #[must_use]
    pub fn of(machine: &Machine, lanes: usize, subscription: Option<&Subscription>) -> Self {
        let tree = machine.tree();
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
        } else if tree.front_has_streams() {
            Self::Streams
        } else if subscription.is_some_and(Subscription::wants_misses) {
            Self::Units
        } else if machine.softvm().is_some() {
            Self::Handlers
        } else if machine.protection().is_some() {
            Self::Protection
        } else {
            Self::Shared
        }
    }

    /// Returns the sharing of a front that is not shared by itself, on machines whose lanes may be equal.
    fn with_lanes(self, are_equal: bool) -> Self {
        match self {
            Self::Shared | Self::OneLane | Self::Off => self,
            _ if are_equal => Self::Equal,
            _ => self,
        }
    }

    /// Returns what a machine that is simulated alone under these seeds allows, if stages may be shared.
    #[must_use]
    pub(crate) fn alone(machine: &Machine, seeds: usize, subscription: Option<&Subscription>) -> Self {
        let are_equal = lanes_are_equal(machine, seeds, true, subscription);
        Self::of(machine, seeds, subscription).with_lanes(are_equal)
    }

    /// Returns the reason as a sentence.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Shared => "level 1 does not depend on placement: it is simulated once for all seeds",
            Self::Equal => "no cache depends on placement: all levels are simulated once for all seeds",
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
            Self::Switches => {
                "private caches of each process follow every access beside the shared caches: level 1 is simulated \
                 for each seed"
            }
            Self::Streams => {
                "level 1 has stream buffers, whose prefetches are counted apart: level 1 is simulated for each seed"
            }
            Self::Tables => {
                "each placement's frames decide which entries a walk reads (an inverted page table, or huge pages): \
                 level 1 is simulated for each seed"
            }
            Self::Handlers => {
                "software translates where the last level misses, in each placement for itself: level 1 is simulated \
                 for each seed"
            }
            Self::Protection => {
                "lines keep the protection of their pages, in each placement for itself: level 1 is simulated for \
                 each seed"
            }
            Self::Units => {
                "units act where level 1 misses, in each placement for itself: level 1 is simulated for each seed"
            }
        }
    }
}

/// The reason why no path for backs is taken where every back is simulated in the bits of its bundle.
const EVERY_BACK_IN_BITS: &str = "every back is simulated in bits";

/// The reason why lanes are no bits where one lane stands for all of them.
const EQUAL_LANES: &str = "the lanes of all seeds are equal, and one is simulated for all";

/// Behind a shared front, fewer seeds are not worth being simulated in bits.
pub(crate) const FEWEST_SEEDS_IN_BITS: usize = 3;

/// `SharingPlan` groups machines by the stages that they share. A machine's number is its place in the list
/// of machines.
#[derive(Debug)]
pub(crate) struct SharingPlan {
    pub(crate) preparations: Vec<SharedPreparation>,
}

/// `SharedPreparation` holds the machines that share a preparation.
#[derive(Debug)]
pub(crate) struct SharedPreparation {
    pub(crate) needs: Needs,
    /// The number of frames that no placement of these machines may choose: the smallest of all machines.
    pub(crate) safe: Option<u64>,
    /// True if some placement reads the segments of the address space that faults. Only then does preparation
    /// list segments.
    pub(crate) lists_segments: bool,
    /// True if some machine looks for synonyms.
    pub(crate) looks_for_synonyms: bool,
    /// True if the cache that serves data keeps the two lines that were accessed last in a set, on each machine.
    pub(crate) keeps_two: bool,
    pub(crate) groups: Vec<FrontGroup>,
}

/// `FrontGroup` holds machines with equal fronts.
#[derive(Debug)]
pub(crate) struct FrontGroup {
    /// The reason why one front serves all lanes, or why it does not.
    pub(crate) sharing: FrontSharing,
    /// Machines of equal placement. Each entry has one lane for each seed.
    pub(crate) lanes: Vec<LaneCells>,
    /// The fast paths that are taken, and for each other path the reason why it is not taken.
    pub(crate) paths: FastPaths,
    /// True if every back is simulated in bits.
    pub(crate) all_in_bits: bool,
}

/// `LaneCells` are the cells of a lane: machines of equal placement behind one front.
#[derive(Debug)]
pub(crate) struct LaneCells {
    pub(crate) machines: Vec<usize>,
    pub(crate) stacks: Vec<StackedBacks>,
    /// True if the lanes are simulated in bundles: their level 1 in bits or, behind a shared front, a back at least.
    pub(crate) bundled: bool,
    /// True if the lanes of all seeds have equal caches until a page may be evicted. The first lane simulates them.
    pub(crate) are_equal: bool,
}

/// `StackedBacks` are machines whose backs differ in ways only.
#[derive(Debug)]
pub(crate) struct StackedBacks {
    pub(crate) shape: LruStackShape,
    /// The largest number of ways of these backs.
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
        Self { machines: cells, stacks, bundled: false, are_equal: false }
    }

    /// Returns the trees of the machines.
    pub(crate) fn trees<'a>(&self, machines: &'a [Machine]) -> Vec<&'a Tree> {
        trees(machines, &self.machines)
    }

    /// Returns the number of the stack that simulates a machine's back, and the machine's ways in it.
    pub(crate) fn stack_of(&self, cell: usize, machines: &[Machine]) -> Option<(usize, u32)> {
        let stack = self.stacks.iter().position(|stack| stack.machines.contains(&cell))?;
        Some((stack, ways(&machines[cell])))
    }
}

/// Returns the reason why the walks of these machines, which translate in one way, keep lanes from being bits.
fn walks_refuse_bits(machines: &[Machine], cells: &[usize], shared_front: bool) -> Option<&'static str> {
    let translation = machines[cells[0]].translation()?;
    if translation.depends_on_frames() {
        return Some("each placement's frames decide which entries a walk reads");
    }
    // The level is counted that serves the access after a walk.
    if !shared_front && !cells.iter().all(|&cell| LaneBits::takes_back(machines[cell].tree(), false)) {
        return Some("page tables are walked, and a back is not simulated in bits");
    }
    if translation.reads_level_1() {
        return None;
    }
    let asks_first = |&cell: &usize| {
        let config = machines[cell].tree().config();
        let Next::Cache(first) = config.caches[config.data].next else { return false };
        translation.reads == WalkEntry::Cache(first)
    };
    let in_order = shared_front && cells.iter().all(asks_first);
    let why = match shared_front {
        true => "walks begin at memory, or at a cache that level 1 does not ask",
        false => "walks begin behind level 1, which would be simulated in bits",
    };
    (!in_order).then_some(why)
}

/// Returns the trees of machines by their numbers.
fn trees<'a>(machines: &'a [Machine], numbers: &[usize]) -> Vec<&'a Tree> {
    numbers.iter().map(|&machine| machines[machine].tree()).collect()
}

/// Returns whether the cache that serves data surely holds the two lines that were accessed last in a set, and another
/// access to each of them, in the same order, changes nothing.
fn keeps_two(tree: &Tree) -> bool {
    let data = &tree.config().caches[tree.config().data];
    data.ways > 1 && matches!(data.replacement, Replacement::Lru | Replacement::Plru)
}

/// Returns the ways of the only cache behind a machine's front.
fn ways(machine: &Machine) -> u32 {
    let tree = machine.tree();
    let mut caches = tree.config().caches.iter().enumerate();
    let back = caches.find(|&(number, _)| !tree.in_front(number));
    back.expect("a stack is of caches behind a front").1.ways
}

impl SharingPlan {
    /// Groups machines. `subscription` is what the units ask for, if there are units. `off` are the fast
    /// paths that are switched off.
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
            looks_for_synonyms: cells.iter().any(|&cell| machines[cell].looks_for_synonyms()),
            keeps_two: cells.iter().all(|&cell| keeps_two(machines[cell].tree())),
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

    /// Returns the same plan for policies of the caller's own. Such a policy may read the segments of any
    /// address space.
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
        // What a unit or a walk does in one back makes it differ from other backs.
        let first = &machines[cells[0]];
        let injects = subscription.is_some() || first.translation().is_some() || first.protection().is_some();
        let are_equal = |cell: usize| lanes_are_equal(&machines[cell], seeds, share, subscription);
        let equal = |a: usize, b: usize| {
            share
                && !injects
                && are_equal(a) == are_equal(b)
                && !tree.answers_at_once()
                && machines[a].memory() == machines[b].memory()
                && machines[a].placement() == machines[b].placement()
        };
        let lanes = group(cells, equal);
        let by_frame =
            machines[cells[0]].translation().is_some_and(|translation| translation.reads_by_frame());
        let sharing = match FrontSharing::of(first, lanes.len() * seeds, subscription) {
            _ if !share => FrontSharing::Off,
            FrontSharing::Shared if by_frame => FrontSharing::Tables,
            sharing => sharing.with_lanes(cells.iter().all(|&cell| are_equal(cell))),
        };
        let allowed: Vec<FastPaths> = cells.iter().map(|&cell| FastPath::of(machines[cell].tree())).collect();
        // Level 1 is the same for all machines. Each back takes the chain by itself. The direct-mapped filter
        // of a front must suit every back.
        let by_any = |path| allowed.iter().find(|tree| tree.takes(path)).unwrap_or(&allowed[0]).why_not(path);
        let by_all = |path| allowed.iter().find_map(|tree| tree.why_not(path));
        let sifted = |cells: &Vec<usize>| KnownHitFilter::new(&trees(machines, cells)).is_some();
        let paths = FastPaths::decide(|path| match path {
            FastPath::LaneBits | FastPath::BackBits | FastPath::FrontBits
                if cells.iter().all(|&cell| are_equal(cell)) =>
            {
                Some(EQUAL_LANES)
            }
            FastPath::TwoPhase => allowed[0].why_not(path),
            FastPath::TwoLevels if first.softvm().is_none() && first.protection().is_none() => {
                Some("rows are simulated many at once")
            }
            FastPath::TwoLevels => by_all(path),
            FastPath::Chain | FastPath::LruStack => by_any(path),
            FastPath::DirectMapped if sharing != FrontSharing::Shared => Some("no front is shared"),
            FastPath::DirectMapped if subscription.is_some() => Some("units act in each lane for itself"),
            FastPath::DirectMapped if injects => Some("page tables are walked"),
            FastPath::DirectMapped => by_all(path),
            FastPath::LaneBits if sharing != FrontSharing::Placement => {
                Some("level 1 is not simulated for several placements")
            }
            FastPath::LaneBits if subscription.is_some() => Some("units act in each lane for itself"),
            FastPath::LaneBits if first.softvm().is_some() => {
                Some("software translates where the last level misses, in each placement for itself")
            }
            FastPath::LaneBits if first.protection().is_some() => {
                Some("lines keep the protection of their pages, in each placement for itself")
            }
            FastPath::LaneBits if injects && cells.iter().any(|&cell| machines[cell].reuses_frames()) => {
                Some("page tables are walked, and frames of dead pages are used again at once")
            }
            FastPath::LaneBits if seeds == 1 => Some("each placement has one lane"),
            FastPath::LaneBits => by_all(path).or_else(|| walks_refuse_bits(machines, cells, false)),
            FastPath::BackBits if sharing != FrontSharing::Shared => Some("no front is shared"),
            FastPath::BackBits if subscription.is_some() => Some("units act in each lane for itself"),
            FastPath::BackBits if cells.iter().any(|&cell| machines[cell].reuses_frames()) => {
                Some("frames of dead pages are used again at once, which ends the sharing of the front")
            }
            FastPath::BackBits if seeds < FEWEST_SEEDS_IN_BITS => Some("each placement has one or two lanes"),
            FastPath::BackBits => by_any(path).or_else(|| walks_refuse_bits(machines, cells, true)),
            FastPath::FrontBits if sharing != FrontSharing::Shared => Some("no front is shared"),
            FastPath::FrontBits if subscription.is_some() => Some("units act in each lane for itself"),
            FastPath::FrontBits if injects => Some("page tables are walked"),
            FastPath::FrontBits if seeds < FEWEST_SEEDS_IN_BITS => {
                Some("each placement has one or two lanes")
            }
            FastPath::FrontBits => by_all(path),
            FastPath::KnownHits if lanes.iter().any(sifted) => None,
            FastPath::KnownHits if lanes.iter().all(|cells| cells.len() == 1) => {
                Some("each lane has one back")
            }
            FastPath::KnownHits => by_all(path).or(Some("the backs of a lane differ in lines")),
        });
        let paths = paths.without(off);
        // Where lanes are bits, no lane has a front of its own.
        let bits = paths.takes(FastPath::LaneBits);
        let shared_front = paths.takes(FastPath::BackBits);
        // If bits hold the caches of some lanes, they hold the caches of all lanes of the group.
        let are_equal = |cell: usize| are_equal(cell) && !bits;
        let in_bits =
            |cell: usize| LaneBits::takes_back(machines[cell].tree(), shared_front) && !are_equal(cell);
        let all_in_bits = (bits || shared_front) && cells.iter().all(|&cell| in_bits(cell));
        let paths = FastPaths::decide(|path| {
            let replaced = match path {
                FastPath::LaneBits | FastPath::BackBits | FastPath::FrontBits => None,
                // Where addresses are translated, the bundle ends before the first eviction.
                FastPath::TwoPhase if bits && !injects => Some("level 1 is simulated in bits"),
                FastPath::TwoPhase => None,
                // When the sharing ends, each back continues by itself.
                FastPath::Chain | FastPath::KnownHits if shared_front => None,
                FastPath::LruStack | FastPath::DirectMapped if shared_front && !all_in_bits => {
                    Some("some backs are simulated in bits")
                }
                _ => all_in_bits.then_some(EVERY_BACK_IN_BITS),
            };
            paths.why_not(path).or(replaced)
        });
        // A direct-mapped filter works for backs that are simulated one by one.
        let may_stack = paths.takes(FastPath::LruStack) && !paths.takes(FastPath::DirectMapped);
        let lane_cells = |cells: Vec<usize>| {
            let bundled = bits || shared_front && cells.iter().any(|&cell| in_bits(cell));
            let are_equal = are_equal(cells[0]);
            LaneCells { bundled, are_equal, ..LaneCells::of(machines, cells, may_stack) }
        };
        let lanes: Vec<LaneCells> = lanes.into_iter().map(lane_cells).collect();
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
        Self { sharing, lanes, paths, all_in_bits }
    }

    /// Returns whether some lanes are simulated in bundles.
    pub(crate) fn has_bundles(&self) -> bool {
        self.lanes.iter().any(|cells| cells.bundled)
    }

    /// Returns the machines of the group, in order.
    pub(crate) fn machines(&self) -> impl Iterator<Item = usize> {
        self.lanes.iter().flat_map(|cells| cells.machines.iter().copied())
    }

    /// Returns the trees of the group's machines.
    pub(crate) fn trees<'a>(&self, machines: &'a [Machine]) -> Vec<&'a Tree> {
        self.machines().map(|machine| machines[machine].tree()).collect()
    }
}

/// Returns the numbers in groups of equals, both in order of appearance. `equal` must be an equivalence.
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
