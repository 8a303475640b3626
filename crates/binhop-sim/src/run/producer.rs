//! `Producer` reads the trace, prepares it, and simulates the fronts that lanes share.

use std::sync::Arc;

use binhop_base::{Bytes, Result};
use binhop_trace::Source;

use super::shared_front::SharedFront;
use crate::machine::Machine;
use crate::occasion::Subscription;
use crate::options::RunOptions;
use crate::prepare::{Block, Flow, Growth, Prepare, Setup};
use crate::progress::{Progress, ProgressReporter};
use crate::sharing::{FrontSharing, SharedPreparation, SharingPlan};

/// `Deliver` receives the blocks of front groups: it takes the group's number and a block.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(usize, Arc<Block>) -> Result<()>;

/// `GrowthCheck` hears after every batch what the trace has held so far. Its error ends the run.
pub(crate) type GrowthCheck<'a> = &'a mut dyn FnMut(Growth) -> Result<()>;

/// `Producer` reads the trace, prepares it, and simulates shared fronts.
pub(crate) struct Producer {
    pub(super) source: Box<dyn Source>,
    pub(super) preparations: Vec<PreparationFronts>,
    length: Option<u64>,
    instructions: Option<u64>,
}

/// `PreparationFronts` is one preparation with the fronts behind it.
pub(super) struct PreparationFronts {
    pub(super) prepare: Prepare,
    pub(super) fronts: Vec<GroupFront>,
}

/// `GroupFront` is a front group behind a preparation, with the front that its lanes share, if they share it.
pub(super) struct GroupFront {
    group: usize,
    pub(super) shared: Option<SharedFront>,
}

/// Makes the preparation of some machines.
pub(crate) fn preparation(
    stream: &SharedPreparation,
    options: &RunOptions,
    source: &dyn Source,
) -> Result<Prepare> {
    let mut needs = stream.needs.clone();
    if options.tap || options.front_tap {
        needs.keep_time();
    }
    let setup = Setup {
        needs,
        // The frames that are wired for a unit's pages have left the list of frames.
        safe: stream
            .safe
            .map(|safe| safe.saturating_sub(options.subscription().map_or(0, Subscription::owned).into())),
        lists_segments: stream.lists_segments,
        looks_for_synonyms: stream.looks_for_synonyms,
        keeps_two: stream.keeps_two,
        trace_page: Bytes(source.meta().page_size.unwrap_or(4096)),
        cuts: options.cuts(),
        subscription: options.subscription().cloned().map(Arc::new),
        collapse: options.share,
        shares_kernel_half: options.devices,
    };
    Prepare::new(&setup, source.name())
}

impl Producer {
    pub(super) fn new(
        machines: &[Machine],
        sharing_plan: &SharingPlan,
        source: Box<dyn Source>,
        options: &RunOptions,
    ) -> Result<Self> {
        let mut numbers = 0..;
        let preparation = |stream: &SharedPreparation| {
            Ok(PreparationFronts {
                prepare: preparation(stream, options, source.as_ref())?,
                fronts: stream
                    .groups
                    .iter()
                    .map(|group| GroupFront {
                        group: numbers.next().expect("numbers do not end"),
                        shared: (group.sharing == FrontSharing::Shared)
                            .then(|| SharedFront::of(group, machines, options)),
                    })
                    .collect(),
            })
        };
        let preparations = sharing_plan.preparations.iter().map(preparation).collect::<Result<_>>()?;
        Ok(Self { source, preparations, length: options.length, instructions: options.instructions })
    }

    pub(crate) fn run(
        &mut self,
        deliver: Deliver<'_>,
        check_growth: GrowthCheck<'_>,
        reporter: &ProgressReporter<'_>,
    ) -> Result<()> {
        while let Some(batch) = self.source.next_batch()? {
            let mut flow = Flow::Done;
            for PreparationFronts { prepare, fronts } in &mut self.preparations {
                if prepare.feed(&batch, &mut |block| pass(fronts, block, deliver))? == Flow::On {
                    flow = Flow::On;
                }
            }
            check_growth(self.growth())?;
            reporter.report(self.progress())?;
            if flow == Flow::Done {
                break;
            }
        }
        for PreparationFronts { prepare, fronts } in &mut self.preparations {
            prepare.finish(&mut |block| pass(fronts, block, deliver))?;
        }
        Ok(())
    }

    /// Returns what the trace has held so far: the maximum over all preparations.
    fn growth(&self) -> Growth {
        let of = |stream: &PreparationFronts| stream.prepare.growth();
        self.preparations.iter().map(of).fold(Growth::default(), Growth::max)
    }

    /// Returns the number of front groups behind all preparations.
    pub(crate) fn groups(&self) -> usize {
        self.preparations.iter().map(|stream| stream.fronts.len()).sum()
    }

    fn progress(&self) -> Progress {
        let stream = self.preparations[0].prepare.stream();
        let references = stream.references;
        let reckoned = self
            .instructions
            .filter(|_| stream.instructions > 0)
            .map(|all| (references as f64 * (all as f64 / stream.instructions as f64)) as u64);
        let of = [self.length, reckoned].into_iter().flatten().min();
        Progress { references, of: of.map(|of| of.max(references)) }
    }
}

/// Passes a block to every front group, through the group's shared front if it has one.
fn pass(fronts: &mut [GroupFront], block: Arc<Block>, deliver: Deliver<'_>) -> Result<()> {
    for GroupFront { group, shared } in fronts {
        match shared {
            Some(front) => front.pass(Arc::clone(&block), &mut |block| deliver(*group, block))?,
            None => deliver(*group, Arc::clone(&block))?,
        }
    }
    Ok(())
}
