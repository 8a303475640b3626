//! `SharedFront` simulates the first-level caches once for all lanes, where no placement changes them. Every
//! lane receives the requests that the shared front lets through.
//!
//! A page walk whose accesses all hit here is the same in every lane, and no lane is told of it. If the access behind
//! the walk misses, lanes are told to watch which level serves it.

use std::sync::Arc;

use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, Result, Rng, Translation};
use binhop_hw::{
    AgentCounters, CacheCounters, CommonCounts, DirectMappedFilter, FastPath, Front, Request, Tree,
};

use super::after_walks::AfterWalks;
use super::virtual_caches::VirtualCaches;
use crate::frame_map::{LaneTranslation, Tables};
use crate::machine::{Machine, TranslationConfig, WalkEntry};
use crate::occasion::Subscription;
use crate::options::RunOptions;
use crate::prepare::{
    Block, Control, EmitBlock, EndedFront, Entries, FrontCounts, Mapped, Mark, Row, StreamCounts,
};
use crate::results::tally::{add_dropped, add_hits};
use crate::sharing::FrontGroup;
use crate::synonyms::WatchedAccess;
use crate::translation::{
    Decision, ServedLevel, TranslationCause, TranslationCounts, Walk, accesses, handler_instructions,
};

/// `SharedFront` is the front that all lanes share.
pub(crate) struct SharedFront {
    /// The front; `None` once each lane has a front of its own.
    front: Option<Front>,
    direct_mapped: Option<DirectMappedFilter>,
    virtual_caches: VirtualCaches,
    /// The cycles waited within the front, for an inclusive cache behind level 1 that is part of the front.
    waited: u64,
    tables: Tables,
    fetch: usize,
    data: usize,
    tree: Tree,
    /// How addresses are translated, if they are, and the mapping of page 0 of the tables.
    translation: Option<(Arc<TranslationConfig>, MappingId)>,
    /// What was counted of walks of which no lane was told.
    walks: TranslationCounts,
    /// Room for the accesses of a walk.
    room: Vec<(Kind, MappingId, u64)>,
    /// The accesses after walks of the rows that are being simulated, which the back does not count.
    after_walks: AfterWalks,
}

impl SharedFront {
    /// Makes the front of the machines of a group.
    pub(crate) fn of(group: &FrontGroup, machines: &[Machine], options: &RunOptions) -> Self {
        let one = &machines[group.machines().next().expect("a group has a machine")];
        let (tree, paths) = (one.tree(), &group.paths);
        let first = MappingId(options.subscription().map_or(0, Subscription::owned));
        let config = tree.config();
        let direct_mapped =
            || DirectMappedFilter::new(tree).expect("the path is taken where all trees allow it");
        Self {
            // A front that draws random victims is not shared, so the seed does not matter.
            front: Some(Front::with(tree, Rng::new(options.seeds[0]), paths)),
            direct_mapped: paths.takes(FastPath::DirectMapped).then(direct_mapped),
            virtual_caches: VirtualCaches::of(tree),
            waited: 0,
            tables: Tables::default(),
            fetch: config.fetch,
            data: config.data,
            tree: tree.clone(),
            translation: one.translation().cloned().map(|config| (config, first)),
            walks: TranslationCounts::default(),
            room: Vec::new(),
            after_walks: AfterWalks::default(),
        }
    }

    /// Returns the front with the hits added that preparation skipped; `None` if each lane has a front of its
    /// own.
    pub(crate) fn finish(self, stream: StreamCounts) -> Option<Front> {
        let mut front = self.front?;
        add_hits(&mut front, stream, self.fetch, self.data);
        Some(front)
    }

    /// Simulates a block of rows and emits the requests that pass.
    pub(crate) fn pass(&mut self, block: Arc<Block>, emit: EmitBlock<'_>) -> Result<()> {
        self.tables.extend(&block.mappings);
        if self.front.is_none() {
            return emit(block);
        }
        let rows = block.rows();
        let mut passed = Passed { requests: Vec::with_capacity(rows.len() / 2), common_counts: Vec::new() };
        let mut controls = Vec::with_capacity(block.controls.len());
        let mappings = block.mappings.clone();
        let (mut at, mut before_walk) = (0, 0);
        // The number of requests before the access behind a walk of which no lane was told.
        let mut untold = None;
        for (index, (position, control)) in block.controls.iter().enumerate() {
            // Machines with physical tags may share the preparation with machines that look for synonyms.
            if matches!(control, Control::Watch(_)) && self.virtual_caches.is_empty() {
                continue;
            }
            let position = *position as usize;
            self.simulate(&rows[at..position], &mut passed);
            at = position;
            if !matches!(control, Control::AfterWalk(..))
                && let Some(requests) = untold.take()
            {
                controls.push((requests, Control::WalkPassed([0; 2])));
            }
            let control = match control {
                Control::Mark(mark, stream, _) => {
                    Control::Mark(*mark, stream.clone(), Some(Arc::new(self.counts(*mark, **stream))))
                }
                Control::Walk(walk) => {
                    let before = passed.requests.len() as u32;
                    let cycles = self.walk(walk, &mut passed);
                    let behind = passed.requests.len() as u32;
                    match cycles {
                        Some(cycles) if before == behind => {
                            self.count_walk(walk, cycles);
                            untold = Some(before);
                        }
                        Some(cycles) => {
                            controls.push((before, control.clone()));
                            controls.push((behind, Control::WalkPassed(cycles)));
                        }
                        None => controls.push((before, control.clone())),
                    }
                    before_walk = self.misses();
                    continue;
                }
                Control::AfterWalk(kind, _) => {
                    let missed = self.misses() > before_walk;
                    match untold.take() {
                        Some(_) if !missed => {
                            self.walks.served(*kind, ServedLevel::First);
                            continue;
                        }
                        Some(requests) => controls.push((requests, Control::WalkPassed([0; 2]))),
                        None => {}
                    }
                    Control::AfterWalk(*kind, Some(missed))
                }
                Control::Evictions | Control::Occasion { touches_front: true, .. } => {
                    emit(Arc::new(passed.block(controls, mappings)))?;
                    return emit(Arc::new(self.end(&rows[at..], at, &block.controls[index..])));
                }
                Control::Watch(access) => Control::Watch(Box::new(self.watch(access))),
                other => other.clone(),
            };
            controls.push((passed.requests.len() as u32, control));
        }
        self.simulate(&rows[at..], &mut passed);
        emit(Arc::new(passed.block(controls, mappings)))
    }

    /// Adds the copies that the front holds to an access that may leave two different copies.
    fn watch(&self, access: &WatchedAccess) -> WatchedAccess {
        let front = self.front.as_ref().expect("called while the front is shared");
        let translation = LaneTranslation { tables: &self.tables, frames: None };
        let copies = self.virtual_caches.in_front(front, access, &translation);
        WatchedAccess { of_front: Some(copies.into()), ..access.clone() }
    }

    /// Makes the accesses of rows.
    fn simulate(&mut self, rows: &[Row], passed: &mut Passed) {
        let front = self.front.as_mut().expect("called while the front is shared");
        let translation = LaneTranslation { tables: &self.tables, frames: None };
        let from = passed.requests.len();
        if self.translation.is_some() {
            let mut requests = self.after_walks.of(&mut passed.requests);
            self.waited += front.access_all(rows, &translation, &mut requests);
            self.after_walks.count(&mut self.walks);
        } else {
            self.waited += front.access_all(rows, &translation, &mut passed.requests);
        }
        if let Some(direct_mapped) = &mut self.direct_mapped {
            passed.common_counts.push(direct_mapped.filter(&mut passed.requests, from));
        }
    }

    /// Counts a walk of which no lane is told. Its fetches and its loads took so many cycles.
    fn count_walk(&mut self, walk: &Walk, [fetches, loads]: [u64; 2]) {
        let (Some((config, _)), Some(Decision::Walk { spared, root, second })) =
            (&self.translation, walk.decision)
        else {
            unreachable!("the walk has been made")
        };
        let instructions = handler_instructions(config, root);
        self.walks.walked(walk.kind, spared, root);
        self.walks.read(self.room.iter().filter(|(kind, ..)| *kind == Kind::Load).count() as u64);
        self.walks.waited(TranslationCause::Handler, instructions);
        self.walks.waited(TranslationCause::HandlerFetch, fetches);
        self.walks.waited(TranslationCause::Entries, loads);
        let second_level = if second { config.second_level } else { 0 };
        self.walks.waited(TranslationCause::SecondLevel, second_level);
        self.waited += instructions + second_level;
    }

    /// Makes the accesses of a walk, if they go through level 1. Returns the cycles that its fetches and
    /// its loads took within the front; `None` if the walk does not go through level 1.
    fn walk(&mut self, walk: &Walk, passed: &mut Passed) -> Option<[u64; 2]> {
        let Some((config, first)) = &self.translation else {
            unreachable!("walks are for machines that translate")
        };
        let Some(Decision::Walk { spared, root, .. }) = walk.decision else { return None };
        let agent = config.agent();
        if agent == Agent::Walk && config.reads != WalkEntry::Data {
            return None;
        }
        let mut all = [0; 2];
        let front = self.front.as_mut().expect("called while the front is shared");
        let translation = LaneTranslation { tables: &self.tables, frames: None };
        let tree = self.tree.config();
        let line = tree.caches[self.fetch].line.bytes();
        let no_frame = |_| unreachable!("a table that is read by frame shares no front");
        accesses(config, *first, walk.steps(), (spared, root), line, no_frame, &mut self.room);
        for &(kind, mapping, byte) in &self.room {
            let cache = if kind == Kind::Fetch { self.fetch } else { self.data };
            let id = if self.tree.takes_mapping(cache) { mapping.0 } else { translation.page(mapping).0 };
            let at = LineAddr { id, line: (byte >> tree.caches[cache].line.log2()) as u32 };
            let cycles = front.ask(cache, agent, kind, at, 0, &translation, &mut passed.requests);
            self.waited += cycles;
            all[usize::from(kind != Kind::Fetch)] += cycles;
        }
        Some(all)
    }

    /// Returns the user's demand misses of level 1.
    fn misses(&self) -> u64 {
        let Some(front) = &self.front else { return 0 };
        let of = |cache: usize| front.counters(cache).misses.demand();
        if self.fetch == self.data { of(self.fetch) } else { of(self.fetch) + of(self.data) }
    }

    fn counts(&self, mark: Mark, stream: StreamCounts) -> FrontCounts {
        let front = self.front.as_ref().expect("called while the front is shared");
        let caches = 0..self.tree.config().caches.len();
        let of =
            |cache| if self.tree.in_front(cache) { *front.counters(cache) } else { CacheCounters::default() };
        let misses = caches
            .clone()
            .map(|cache| if self.tree.in_front(cache) { front.counters(cache).misses.demand() } else { 0 });
        let misses = misses.collect();
        let mut every: Vec<CacheCounters> = Vec::new();
        if matches!(mark, Mark::Measured | Mark::End) {
            every = caches.map(of).collect();
            add_dropped(&mut every, stream, self.fetch, self.data);
        }
        let agents = match self.tree.config().agents {
            Agents::USER => Vec::new(),
            agents => {
                let none = vec![AgentCounters::default(); agents.others().count()];
                let of = |cache| {
                    if self.tree.in_front(cache) { front.by_agent(cache).to_vec() } else { none.clone() }
                };
                (0..self.tree.config().caches.len()).map(of).collect()
            }
        };
        FrontCounts { misses, caches: every, waited: self.waited, agents, translation: self.walks }
    }

    /// Ends the sharing: from here on each lane simulates a front of its own, which starts as a copy of the
    /// shared front.
    fn end(&mut self, rows: &[Row], start: usize, rest: &[(u32, Control)]) -> Block {
        let front = self.front.take().expect("called while the front is shared");
        let ended = EndedFront {
            front,
            direct_mapped: self.direct_mapped.take(),
            waited: self.waited,
            translation: self.walks,
        };
        let mut controls = vec![(0, Control::Unshare(Arc::new(ended)))];
        controls.extend(rest.iter().map(|(position, control)| (position - start as u32, control.clone())));
        Block {
            entries: Entries::Rows(rows.to_vec()),
            controls,
            mappings: Vec::new(),
            gaps: Vec::new(),
            common_counts: Vec::new(),
        }
    }
}

/// `Passed` holds the requests of a block that the front has let through so far.
struct Passed {
    requests: Vec<Request>,
    common_counts: Vec<CommonCounts>,
}

impl Passed {
    fn block(self, controls: Vec<(u32, Control)>, mappings: Vec<Mapped>) -> Block {
        Block {
            entries: Entries::Requests(self.requests),
            controls,
            mappings,
            gaps: Vec::new(),
            common_counts: self.common_counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use binhop_hw::FastPathSet;
    use binhop_trace::Op;
    use binhop_trace::event::{EventBuilder, map_flags};

    use super::*;
    use crate::prepare::{Cuts, Prepare, Setup};
    use crate::sharing::SharingPlan;

    const MACHINE: &str = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "random", pool = "64KiB" }
[cache.l1]
serves = "all"
size = "8KiB"
line = "32B"
index = "virtual"
tag = "asid"
next = "l2"
[cache.l2]
size = "64KiB"
line = "32B"
index = "virtual"
tag = "asid"
next = "memory"
"#;

    #[test]
    fn a_front_stays_shared_where_caches_behind_it_have_virtual_tags() {
        let machines = [Machine::parse(MACHINE, "virtual", &[]).unwrap()];
        let plan = SharingPlan::of(&machines, 4, true, None, FastPathSet::NONE);
        let stream = &plan.preparations[0];
        let options = RunOptions { seeds: vec![0, 1, 2, 3], ..RunOptions::default() };
        let mut front = SharedFront::of(&stream.groups[0], &machines, &options);
        let setup = Setup {
            needs: stream.needs.clone(),
            safe: stream.safe,
            lists_segments: stream.lists_segments,
            looks_for_synonyms: stream.looks_for_synonyms,
            keeps_two: stream.keeps_two,
            trace_page: binhop_base::Bytes(4096),
            cuts: Cuts::default(),
            subscription: None,
            collapse: true,
            shares_kernel_half: false,
        };
        let mut prepare = Prepare::new(&setup, "test trace").unwrap();
        let mut events = EventBuilder::default();
        let flags = map_flags::READ | map_flags::WRITE | map_flags::SHARED;
        for at in [0x10000, 0x21000] {
            events.push_args(Op::Map, at, flags, 1, [Some(7), Some(0)]);
        }
        events.push(Op::Store, 0x10000, 4, 1);
        events.push(Op::Load, 0x21000, 4, 1);
        let mut copies = Vec::new();
        let mut look = |block: Arc<Block>| {
            front.pass(block, &mut |passed| {
                copies.extend(passed.controls.iter().filter_map(|(_, control)| match control {
                    Control::Watch(access) => {
                        let held = access.of_front.as_deref().unwrap();
                        Some((access.is_made, held.iter().map(|copy| copy.dirty).collect::<Vec<_>>()))
                    }
                    _ => None,
                }));
                Ok(())
            })
        };
        prepare.feed(&events.finish(), &mut look).unwrap();
        prepare.finish(&mut look).unwrap();
        // The newest name comes first.
        assert_eq!(copies, [(false, vec![true]), (true, vec![false, true])]);
        assert!(front.front.is_some());
    }
}
