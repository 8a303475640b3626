//! `SharedFront` simulates the first-level caches once for all lanes, where no placement changes them. Every
//! lane receives the requests that the shared front lets through.

use std::sync::Arc;

use binhop_base::{Result, Rng};
use binhop_hw::{CacheCounters, CommonCounts, DirectMappedFilter, FastPath, FastPaths, Front, Request, Tree};

use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{
    Block, Control, Emit, EndedFront, Entries, FrontCounts, Mapped, Mark, Row, StreamCounts,
};
use crate::results::tally::{add_dropped, add_hits};

/// `SharedFront` is the front that all lanes share.
pub(crate) struct SharedFront {
    /// The front; `None` once each lane has a front of its own.
    front: Option<Front>,
    direct_mapped: Option<DirectMappedFilter>,
    /// The cycles waited within the front, for an inclusive cache behind level 1 that is part of the front.
    waited: u64,
    tables: Tables,
    fetch: usize,
    data: usize,
    tree: Tree,
}

impl SharedFront {
    /// Makes the front of machines with equal fronts. `trees` are their trees, at least one; `paths` are the
    /// fast paths taken behind the front.
    pub(crate) fn new(trees: &[&Tree], seed: u64, paths: &FastPaths) -> Self {
        let tree = trees[0];
        let config = tree.config();
        let direct_mapped =
            || DirectMappedFilter::new(tree).expect("the path is taken where all trees allow it");
        Self {
            // A front that draws random victims is not shared, so the seed does not matter.
            front: Some(Front::with(tree, Rng::new(seed), paths)),
            direct_mapped: paths.takes(FastPath::DirectMapped).then(direct_mapped),
            waited: 0,
            tables: Tables::default(),
            fetch: config.fetch,
            data: config.data,
            tree: tree.clone(),
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
    pub(crate) fn pass(&mut self, block: Arc<Block>, emit: Emit<'_>) -> Result<()> {
        self.tables.extend(&block.mappings);
        if self.front.is_none() {
            return emit(block);
        }
        let rows = block.rows();
        let mut passed = Passed { requests: Vec::with_capacity(rows.len() / 2), common_counts: Vec::new() };
        let mut controls = Vec::with_capacity(block.controls.len());
        let mappings = block.mappings.clone();
        let mut at = 0;
        for (index, (position, control)) in block.controls.iter().enumerate() {
            let position = *position as usize;
            self.simulate(&rows[at..position], &mut passed);
            at = position;
            let control = match control {
                Control::Mark(mark, stream, _) => {
                    Control::Mark(*mark, *stream, Some(Arc::new(self.counts(*mark, *stream))))
                }
                Control::Evictions | Control::Occasion { touches_front: true, .. } => {
                    emit(Arc::new(passed.block(controls, mappings)))?;
                    return emit(Arc::new(self.end(&rows[at..], at, &block.controls[index..])));
                }
                other => other.clone(),
            };
            controls.push((passed.requests.len() as u32, control));
        }
        self.simulate(&rows[at..], &mut passed);
        emit(Arc::new(passed.block(controls, mappings)))
    }

    fn simulate(&mut self, rows: &[Row], passed: &mut Passed) {
        let front = self.front.as_mut().expect("called while the front is shared");
        let translation = LaneTranslation { tables: &self.tables, frames: None };
        let from = passed.requests.len();
        self.waited += front.access_all(rows, &translation, &mut passed.requests);
        if let Some(direct_mapped) = &mut self.direct_mapped {
            passed.common_counts.push(direct_mapped.filter(&mut passed.requests, from));
        }
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
        FrontCounts { misses, caches: every, waited: self.waited }
    }

    /// Ends the sharing: from here on each lane simulates a front of its own, which starts as a copy of the
    /// shared front.
    fn end(&mut self, rows: &[Row], start: usize, rest: &[(u32, Control)]) -> Block {
        let front = self.front.take().expect("called while the front is shared");
        let ended = EndedFront { front, direct_mapped: self.direct_mapped.take(), waited: self.waited };
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
