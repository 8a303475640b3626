//! `threads` simulates lanes on several threads. The calling thread reads, prepares and watches for
//! signals; each other thread simulates its lanes.
//!
//! The calling thread never waits long for another thread. When a queue is full, and at the end, it asks
//! repeatedly whether to go on. If the answer is no, the other threads stop within a block, and the blocks in
//! their queues are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use binhop_base::{Class, Problem, Result};

use super::producer::{GrowthCheck, Producer};
use super::worker::{GroupedLane, Worker};
use crate::prepare::Block;
use crate::progress::ProgressReporter;

/// The number of blocks that may wait for a worker.
pub(crate) const QUEUE: usize = 8;
/// The pause before another try to put a block into a full queue. A worker still has several blocks to
/// process meanwhile.
const PAUSE: Duration = Duration::from_micros(200);
/// The interval at which the calling thread asks whether to go on while it waits for the end.
const LISTEN: Duration = Duration::from_millis(50);

type Delivery = (usize, Arc<Block>);

/// Simulates each share of the lanes on a thread of its own. Returns the lanes in their final state.
pub(crate) fn simulate(
    producer: &mut Producer,
    shares: Vec<Vec<GroupedLane>>,
    check_growth: GrowthCheck<'_>,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<GroupedLane>> {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    std::thread::scope(|scope| {
        let mut queues: Vec<(Vec<bool>, SyncSender<Delivery>)> = Vec::new();
        let mut threads: Vec<ScopedJoinHandle<'_, Result<Vec<GroupedLane>>>> = Vec::new();
        let groups = producer.groups();
        let (done, ended) = channel::<()>();
        for share in shares {
            let (queue, blocks): (_, Receiver<Delivery>) = sync_channel(QUEUE);
            let mut worker = Worker::new(share);
            queues.push(((0..groups).map(|group| worker.serves(group)).collect(), queue));
            let done = done.clone();
            threads.push(scope.spawn(move || {
                let _done = done; // dropped when the thread ends, however it ends
                let check_interrupt =
                    || if stop.load(Ordering::Relaxed) { Err(Problem::interrupted()) } else { Ok(()) };
                for (group, block) in blocks {
                    worker.block(group, &block, &check_interrupt)?;
                }
                Ok(worker.into_lanes())
            }));
        }
        drop(done);
        let produced = producer.run(
            &mut |group, block| {
                let mut wanting = queues.iter().filter(|(serves, _)| serves[group]);
                wanting.try_for_each(|(_, queue)| hand_over(queue, (group, Arc::clone(&block)), reporter))
            },
            check_growth,
            reporter,
        );
        drop(queues);
        let produced = produced.and_then(|()| {
            while ended.recv_timeout(LISTEN) == Err(RecvTimeoutError::Timeout) {
                reporter.check_interrupt()?;
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let mut lanes = Vec::new();
        let (mut failed, mut stopped) = (None, None);
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => lanes.extend(part),
                Ok(Err(problem)) if problem.class == Class::Interrupted => stopped = Some(problem),
                Ok(Err(problem)) => failed = failed.or(Some(problem)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        // A worker that meets an error stops the other workers. That worker's error is reported.
        match failed {
            Some(problem) => Err(problem),
            None => produced.and_then(|()| stopped.map_or(Ok(lanes), Err)),
        }
    })
}

/// Puts a block into a worker's queue. A closed queue means that its worker has met an error.
fn hand_over(
    queue: &SyncSender<Delivery>,
    delivery: Delivery,
    reporter: &ProgressReporter<'_>,
) -> Result<()> {
    let mut delivery = delivery;
    loop {
        delivery = match queue.try_send(delivery) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(Problem::interrupted()),
            Err(TrySendError::Full(delivery)) => delivery,
        };
        reporter.check_interrupt()?;
        std::thread::sleep(PAUSE);
    }
}
