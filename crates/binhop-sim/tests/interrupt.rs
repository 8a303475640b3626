//! These tests check that a stopped run ends before every lane has gone through a batch. The tests count placements,
//! not seconds.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::Fixed;
use binhop_base::{Class, FrameNo, Problem, Result};
use binhop_os::{Draws, PageRequest, Pool, PoolPolicy};
use binhop_sim::{Machine, RunOptions, simulate};
use binhop_trace::Op;
use binhop_trace::event::EventBuilder;

const LANES: u64 = 64;
const PAGES: u64 = 64;
const ROWS: u64 = 16_000;

static PLACED: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// `Counting` counts every page that any lane places. On a worker's thread each placement waits until the run
/// is stopped, and a little longer, so that the count does not depend on the threads' speeds.
struct Counting {
    waits: bool,
}

impl PoolPolicy for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, _: Draws) -> Result<FrameNo> {
        PLACED.fetch_add(1, Ordering::Relaxed);
        while self.waits && !STOPPED.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        if self.waits {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(pool.iter().next().unwrap().0)
    }
}

/// Returns the pages placed in all lanes when the run ends. The trace of one batch is stopped at the first
/// call after a placement.
fn placed_before_the_end(threads: usize) -> u64 {
    let mut builder = EventBuilder::default();
    for row in 0..ROWS {
        builder.push(Op::Load, row % PAGES * 4096 + row / PAGES % 16 * 64, 8, 1);
    }
    let machine = Machine::load("zen-4k", &[]).unwrap();
    let options = RunOptions { seeds: (0..LANES).collect(), threads, ..RunOptions::default() };
    PLACED.store(0, Ordering::Relaxed);
    STOPPED.store(false, Ordering::Relaxed);
    let maker = |_: u64| Box::new(Counting { waits: threads > 1 }) as Box<dyn PoolPolicy>;
    let source = Box::new(Fixed::new(builder.finish(), ROWS as usize));
    let stopped = simulate(&machine, source, &options, Some(&maker), &mut |_| {
        if PLACED.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        STOPPED.store(true, Ordering::Relaxed);
        Err(Problem::interrupted())
    });
    assert_eq!(stopped.unwrap_err().class, Class::Interrupted);
    PLACED.load(Ordering::Relaxed)
}

#[test]
fn a_run_that_is_stopped_does_not_go_through_all_lanes_first() {
    for threads in [1, 2, 4] {
        let placed = placed_before_the_end(threads);
        assert!(
            placed < LANES * PAGES / 2,
            "{placed} of {} placements with {threads} threads",
            LANES * PAGES
        );
    }
}
