//! `explain` puts the sharing plan of a run into words: what its machines share, what they do not share and
//! why, and how many rounds the run takes.

use binhop_base::{Result, counted};
use binhop_hw::{FastPath, MOST_LANES};

use crate::machine::Machine;
use crate::occasion::{OccasionKind, Subscription};
use crate::options::RunOptions;
use crate::run::{WorstCase, apart, check_cost, check_machines, explain_rounds};
use crate::sharing::FrontSharing;
use crate::sharing::{FrontGroup, SharingPlan, StackedBacks};

/// The maximum number of machines that a line names.
const MOST_NAMED: usize = 3;

/// Returns the sharing plan of a run, one line for each fact. The text calls the machines by `names`, which tell
/// machines of the same name apart. `policy` is the name of a policy of the caller's own, in place of the machines'
/// policies.
///
/// # Errors
/// The options are wrong, or the machines do not suit them: the errors of
/// [`simulate_all`](crate::simulate_all).
pub fn explain(
    machines: &[Machine],
    names: &[String],
    options: &RunOptions,
    policy: Option<&str>,
) -> Result<Vec<String>> {
    options.check()?;
    check_machines(machines, policy.is_some())?;
    let options = &*options.with_kernel(machines)?;
    let machines = &*options.with_units(machines)?;
    let seeds = options.seeds.len();
    let sharing_plan = SharingPlan::of(
        machines,
        seeds,
        options.shares_stages(),
        options.subscription(),
        options.switched_off(),
    );
    let threads = if policy.is_some() { 1 } else { sharing_plan.threads_of_lane(seeds, options.threads) };
    let preparations = &sharing_plan.preparations;
    let times = times(preparations.len());
    let mut lines = vec![format!(
        "{} × {}: the trace is decoded once and prepared {times}",
        count(machines.len(), "machine"),
        count(seeds, "seed"),
    )];
    if let Some(policy) = policy {
        lines.push(format!("policy: {policy} places pages, in place of each machine's own policy"));
    }
    for (number, stream) in preparations.iter().enumerate() {
        if number > 0 {
            let of = count(stream.groups.iter().map(|group| group.machines().count()).sum(), "machine");
            let differences = preparations[0].needs.differences(&stream.needs).join("; ");
            let other = number + 1;
            lines.push(format!(
                "preparation {other}: {of} that preparation 1 does not suit. They differ in {differences}"
            ));
        }
        for (at, group) in stream.groups.iter().enumerate() {
            let apart = stream.groups[0].trees(machines)[0].front_differs(group.trees(machines)[0]);
            lines.push(format!(
                "front {} of preparation {}: {} ({}){}",
                at + 1,
                number + 1,
                count(group.machines().count(), "machine"),
                some(group.machines().map(|machine| names[machine].as_str())),
                apart.map_or_else(String::new, |why| format!(". It is not front 1: {why}")),
            ));
            let sharing =
                if group.sharing == FrontSharing::Off { options.no_front_is_shared() } else { group.sharing };
            group.explain(machines, seeds, (sharing, options.subscription()), &mut lines);
            let parts = group.parts_of_backs(threads);
            if parts > 1 {
                lines.push(format!(
                    "  threads: each of {parts} simulates a part of the backs, and places their pages"
                ));
            }
        }
    }
    lines.extend(explain_rounds(machines, options, policy.is_some()));
    Ok(lines)
}

/// Returns the plan of a run of a steered source ([`simulate_steered`](crate::simulate_steered)), one line for each
/// fact. `quantum` are the cycles of a quantum, if quanta are cycles; otherwise faults of a lane steer the source.
///
/// # Errors
/// The errors of [`explain`]; or quanta are cycles, and a machine has no `[cost]`.
pub fn explain_steered(
    machines: &[Machine],
    names: &[String],
    options: &RunOptions,
    policy: Option<&str>,
    quantum: Option<u64>,
) -> Result<Vec<String>> {
    options.check()?;
    check_machines(machines, policy.is_some())?;
    machines.iter().try_for_each(|machine| check_cost(machine, quantum))?;
    let (cells, seeds) = (machines.len(), options.seeds.len());
    let why = match quantum {
        Some(cycles) => format!("a quantum is {cycles} cycles of the machine's own shared caches"),
        None => {
            "every page fault blocks, also the fault of a page that the placement has evicted".to_string()
        }
    };
    let mut lines = vec![
        format!(
            "{} × {}: nothing is shared. The trace is mixed, prepared and simulated {}",
            count(cells, "machine"),
            count(seeds, "seed"),
            times(cells * seeds)
        ),
        format!("why: {why}, so the order of the processes differs from placement to placement"),
    ];
    if let Some(policy) = policy {
        lines.push(format!("policy: {policy} places pages, in place of each machine's own policy"));
    }
    for ((machine, options), name) in apart(machines, options)?.iter().zip(names) {
        lines.push(match WorstCase::of(machine, options.subscription()).of_an_access() {
            Some(cycles) => format!(
                "{name}: an access of a line waits at most {}. Rows go together as long as they surely end before \
                 the quantum, then one instruction at a time",
                count(cycles as usize, "cycle")
            ),
            None => format!("{name}: a unit may act at any reference, so one instruction goes at a time"),
        });
        let sharing_plan = SharingPlan::of(
            std::slice::from_ref(machine),
            1,
            options.shares_stages(),
            options.subscription(),
            options.switched_off(),
        );
        sharing_plan.preparations[0].groups[0].explain_fast_paths(&mut lines);
    }
    Ok(lines)
}

/// Returns the first names, and the number of the remaining names.
fn some<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut first: Vec<&str> = names.collect();
    let more = first.len().saturating_sub(MOST_NAMED);
    first.truncate(MOST_NAMED);
    let first = first.join("; ");
    if more == 0 { first } else { format!("{first}; and {more} more") }
}

impl FrontGroup {
    /// Adds lines that say what is shared behind the preparation, and what is not.
    fn explain(
        &self,
        machines: &[Machine],
        seeds: usize,
        (sharing, subscription): (FrontSharing, Option<&Subscription>),
        lines: &mut Vec<String>,
    ) {
        let trees = self.trees(machines);
        let names = |kinds: &mut dyn Iterator<Item = OccasionKind>| -> String {
            kinds.map(OccasionKind::name).collect::<Vec<_>>().join(", ")
        };
        let until = match (sharing, subscription) {
            (FrontSharing::Shared, Some(subscription)) => {
                let ends = names(&mut subscription.kinds().filter(|&kind| subscription.ends_sharing(kind)));
                let or =
                    if ends.is_empty() { String::new() } else { format!(" or a unit may touch it ({ends})") };
                format!(", until a frame may change hands{or}")
            }
            (FrontSharing::Shared | FrontSharing::Equal, None) => {
                ", until a frame may change hands".to_string()
            }
            _ => String::new(),
        };
        lines.push(format!("  front: {}{until}", sharing.reason()));
        if let Some(subscription) = subscription {
            let at_once = subscription.wants_misses() || trees[0].answers_at_once();
            let rows = if at_once { "one by one" } else { "all at once" };
            let all = names(&mut subscription.kinds());
            lines.push(format!("  units act in each lane for itself, at occasions ({all}); rows between two are simulated {rows}"));
        }
        let mut translations = self.machines().filter_map(|machine| machines[machine].translation());
        if let Some(translation) = translations.next() {
            let tlbs = match translation.huge_log2() {
                None => {
                    "TLBs do not depend on placement: they are simulated once for all seeds, until a frame may change hands"
                }
                Some(_) => "huge pages need runs of frames: TLBs are simulated for each seed",
            };
            lines.push(format!("  {tlbs}"));
        }
        if self.machines().any(|machine| machines[machine].softvm().is_some()) {
            lines.push(
                "  rows are simulated one by one: a handler may run before each that the last level misses"
                    .to_string(),
            );
        }
        let most = self.lanes.iter().map(|cells| cells.machines.len()).max().unwrap_or(0);
        let each = match most {
            1 => "machine".to_string(),
            _ => format!("{} backs", spread(self.lanes.iter().map(|cells| cells.machines.len()))),
        };
        lines.push(format!(
            "  placements: {} (policy, pool, memory) × {} = {}; each page placement is made once for its {each}",
            count(self.lanes.len(), "kind"),
            count(seeds, "seed"),
            count(self.lanes.len() * seeds, "lane"),
        ));
        let are_equal = self.lanes.iter().filter(|cells| cells.are_equal).count();
        if are_equal > 0 {
            let of = if are_equal == self.lanes.len() { "" } else { " of some machines" };
            lines.push(format!(
                "  lanes: no cache{of} depends on placement, so one lane is simulated for up to {MOST_LANES}, until a \
                 frame may change hands"
            ));
        }
        if trees.iter().any(|tree| tree.answers_at_once()) {
            let why = self.paths.why_not(FastPath::Chain).unwrap_or_default();
            lines.push(format!("  backs: one for each lane: {why}"));
            self.explain_fast_paths(lines);
            return;
        }
        if self.has_bundles() {
            lines.push(format!("  lanes: up to {MOST_LANES} are simulated together, one bit for each"));
        }
        let (direct_mapped, known_hits) =
            (self.paths.takes(FastPath::DirectMapped), self.paths.takes(FastPath::KnownHits));
        if direct_mapped || known_hits {
            let whose = if direct_mapped { "all lanes" } else { "the backs of a lane" };
            lines.push(format!("  requests that change nothing in any of {whose} are removed once"));
        }
        let stacks: Vec<&StackedBacks> = self.lanes.iter().flat_map(|cells| &cells.stacks).collect();
        if !stacks.is_empty() {
            lines.push(format!(
                "  backs: {} of {} backs each: they differ in ways only and replace the least recently used",
                count(stacks.len() * seeds, "stack"),
                spread(stacks.iter().map(|stack| stack.machines.len()))
            ));
        } else if self.all_in_bits {
            // Lanes that translate leave the bits when each of them gets TLBs of its own.
            let mut cells = self.lanes.iter().flat_map(|cells| &cells.machines);
            let translates = cells.any(|&cell| machines[cell].translation().is_some());
            let until = if translates { ", until a frame may change hands" } else { until.as_str() };
            lines.push(format!("  backs: in the bits of their lanes{until}"));
        } else if let (true, Some(why)) = (most > 1, self.paths.why_not(FastPath::LruStack)) {
            lines.push(format!("  backs: each by itself, in no stack: {why}"));
        }
        self.explain_fast_paths(lines);
    }

    /// Adds a line for the fast paths that are taken, and a line with the reason for each path that is not
    /// taken.
    fn explain_fast_paths(&self, lines: &mut Vec<String>) {
        let taken = FastPath::ALL.iter().filter(|&&path| self.paths.takes(path));
        let taken: Vec<&str> = taken.map(|path| path.name()).collect();
        let taken = if taken.is_empty() { "none".to_string() } else { taken.join(", ") };
        lines.push(format!("  fast paths: {taken}"));
        for &path in FastPath::ALL {
            if let Some(why) = self.paths.why_not(path) {
                lines.push(format!("  fast path {} is not taken: {why}", path.name()));
            }
        }
    }
}

/// Returns a number with the noun that it counts.
fn count(n: usize, one: &str) -> String {
    counted(n as u64, [one, &format!("{one}s")])
}

/// Returns a number of times in words.
fn times(n: usize) -> String {
    if n == 1 { "once".to_string() } else { format!("{n} times") }
}

/// Returns the range of some counts in words.
fn spread(counts: impl Iterator<Item = usize> + Clone) -> String {
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
