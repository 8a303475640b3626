//! The planner: which stages the machines of a run share.
//!
//! A simulation is a chain of stages: decode, prepare, place, front, back. Machines that agree up to a stage
//! share it; each stage is done once for every group of machines that cannot be told apart by it, and (from
//! placement on) once for each seed. Whatever is shared, results are those of running each machine alone.
//!
//! - **decode**: once.
//! - **prepare**: once for machines that need the same of it ([`Needs`]: pages, and the lines, sets and write
//!   policy of the caches the processor asks). The pool may differ: the smallest number of frames outside a
//!   pool is safe for all.
//! - **front**: machines with equal fronts form a group. If no set of it depends on a frame and no victim on
//!   the seed, it is simulated once for all placements and seeds of the group, until a page may be evicted.
//! - **place**: once per seed for machines of one group whose memory and placement are equal: a lane.
//! - **back**: one for each machine of a lane, all behind the lane's front.
//!
//! Nothing is shared behind a write buffer or below an inclusive cache: there each request must be answered
//! before the next access.

use binhop_hw::Tree;

use crate::front::Sharing;
use crate::machine::Machine;
use crate::prepare::Needs;

/// Machines by the stages they share. Numbers are places in the list of machines.
#[derive(Debug)]
pub(crate) struct Stages {
    pub(crate) streams: Vec<Stream>,
}

/// Machines that share a preparation.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) needs: Needs,
    /// Frames that no placement of these machines may choose: the fewest.
    pub(crate) safe: Option<u64>,
    pub(crate) groups: Vec<Group>,
}

/// Machines with equal fronts.
#[derive(Debug)]
pub(crate) struct Group {
    /// Whether one front serves all lanes, or why not.
    pub(crate) sharing: Sharing,
    /// Machines of equal placement: the cells of one lane for each seed.
    pub(crate) lanes: Vec<Vec<usize>>,
}

impl Stages {
    pub(crate) fn of(machines: &[Machine], seeds: usize, share: bool) -> Self {
        let needs: Vec<Needs> =
            machines.iter().map(|m| Needs::of(m.tree(), m.memory().frames.is_none())).collect();
        let all: Vec<usize> = (0..machines.len()).collect();
        let stream = |cells: Vec<usize>| Stream {
            needs: needs[cells[0]].clone(),
            safe: cells.iter().filter_map(|&cell| machines[cell].safe_frames()).min(),
            groups: group(&cells, |a, b| share && machines[a].tree().has_front_of(machines[b].tree()))
                .into_iter()
                .map(|cells| Group::of(machines, &cells, seeds, share))
                .collect(),
        };
        let streams = group(&all, |a, b| needs[a] == needs[b]).into_iter().map(stream).collect();
        Self { streams }
    }
}

impl Group {
    fn of(machines: &[Machine], cells: &[usize], seeds: usize, share: bool) -> Self {
        let tree = machines[cells[0]].tree();
        let equal = |a: usize, b: usize| {
            share
                && !tree.answers_at_once()
                && machines[a].memory() == machines[b].memory()
                && machines[a].placement() == machines[b].placement()
        };
        let lanes = group(cells, equal);
        let sharing = if share { Sharing::of(tree, lanes.len() * seeds) } else { Sharing::Off };
        Self { sharing, lanes }
    }

    /// Its machines, in order.
    pub(crate) fn machines(&self) -> impl Iterator<Item = usize> {
        self.lanes.iter().flatten().copied()
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

/// The plan of a run, for its reader: what is shared, what is not and why, a line each.
#[must_use]
pub fn explain(machines: &[Machine], seeds: usize, share: bool) -> Vec<String> {
    let stages = Stages::of(machines, seeds, share);
    let count = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let mut lines = vec![format!(
        "{} × {}: the trace is decoded once and prepared {}",
        count(machines.len(), "machine"),
        count(seeds, "seed"),
        if stages.streams.len() == 1 {
            "once".to_string()
        } else {
            format!(
                "{} times: pages, or the lines, sets or write policy of level 1, differ",
                stages.streams.len()
            )
        }
    )];
    for (number, stream) in stages.streams.iter().enumerate() {
        for (at, group) in stream.groups.iter().enumerate() {
            let (lanes, backs) = (group.lanes.len(), group.machines().count());
            let names: Vec<&str> = group.machines().map(|machine| machines[machine].name()).collect();
            let mut named = names.clone();
            named.dedup();
            lines.push(format!(
                "preparation {}, front {}: {} ({})",
                number + 1,
                at + 1,
                count(backs, "machine"),
                named.join(", ")
            ));
            lines.push(format!("  front: {}", group.sharing.reason()));
            lines.push(format!(
                "  placements: {} × {} = {}; each page placement is made once for its {}",
                count(lanes, "policy or memory").replace("memorys", "memories"),
                count(seeds, "seed"),
                count(lanes * seeds, "lane"),
                if lanes == backs {
                    "machine".to_string()
                } else {
                    format!("{} backs", spread(group.lanes.iter().map(Vec::len)))
                }
            ));
            if group.trees(machines).iter().any(|tree| tree.answers_at_once()) {
                lines.push(
                    "  backs: one for each lane: a write buffer or an inclusive cache answers every request before the next access"
                        .to_string(),
                );
            }
        }
    }
    lines
}

/// The range of some counts.
fn spread(counts: impl Iterator<Item = usize> + Clone) -> String {
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
