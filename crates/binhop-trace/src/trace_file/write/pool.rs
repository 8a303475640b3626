//! `Encoders` encodes row groups on several threads and returns them in the order in which they were given.
//!
//! With T threads, T − 1 workers are started. The thread that writes encodes a row group itself while too
//! many row groups are waiting. Memory is bounded by [`Encoders::in_flight`] row groups.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parquet::errors::Result;
use parquet::schema::types::SchemaDescPtr;

use super::columns::{Encoded, encode};
use crate::event::EventBatch;

/// The most workers. More workers would idle: making a row takes about as long as encoding it.
const MOST_WORKERS: usize = 7;

/// The result of encoding a row group. A panic is passed on to the thread that writes.
type EncodeResult = thread::Result<Result<Encoded>>;

/// `Encoders` owns the workers.
pub(super) struct Encoders {
    schema: SchemaDescPtr,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The number of the next row group to be given, and of the next to be taken.
    given: u64,
    taken: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signals that there is work, or that no more work will come.
    work: Condvar,
    /// Signals that a row group is encoded.
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Vec<EventBatch>)>,
    done: BTreeMap<u64, EncodeResult>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoders {
    /// Makes encoders for `threads` threads (at least 1), including the caller's.
    pub(super) fn new(threads: usize, schema: SchemaDescPtr) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let workers = (0..threads.saturating_sub(1).min(MOST_WORKERS))
            .map(|_| {
                let (shared, schema) = (Arc::clone(&shared), Arc::clone(&schema));
                thread::spawn(move || work(&shared, &schema))
            })
            .collect();
        Self { schema, shared, workers, given: 0, taken: 0 }
    }

    /// Returns how many row groups may be given and not yet taken: one for each thread, and one that waits.
    fn in_flight(&self) -> u64 {
        if self.workers.is_empty() { 0 } else { self.workers.len() as u64 + 2 }
    }

    /// Takes the rows of the next row group.
    pub(super) fn give(&mut self, pieces: Vec<EventBatch>) {
        self.shared.lock().waiting.push_back((self.given, pieces));
        self.given += 1;
        self.shared.work.notify_one();
    }

    /// Returns the next row group in order, if it is encoded. If `all` is set, or if more than
    /// [`Encoders::in_flight`] row groups are given, this waits for the row group.
    pub(super) fn take(&mut self, all: bool) -> Option<Result<Encoded>> {
        if self.taken == self.given {
            return None;
        }
        let mut queue = self.shared.lock();
        loop {
            if let Some(outcome) = queue.done.remove(&self.taken) {
                self.taken += 1;
                return Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            if !all && self.given - self.taken <= self.in_flight() {
                return None;
            }
            if let Some((number, pieces)) = queue.waiting.pop_front() {
                drop(queue);
                let outcome = Ok(encode(&pieces, &self.schema));
                queue = self.shared.lock();
                queue.done.insert(number, outcome);
            } else {
                queue = self.shared.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // the panic of a worker is a result
        }
    }
}

/// Runs a worker.
fn work(shared: &Shared, schema: &SchemaDescPtr) {
    let mut queue = shared.lock();
    loop {
        if let Some((number, pieces)) = queue.waiting.pop_front() {
            drop(queue);
            let outcome = catch_unwind(AssertUnwindSafe(|| encode(&pieces, schema)));
            drop(pieces);
            queue = shared.lock();
            queue.done.insert(number, outcome);
            shared.done.notify_one();
        } else if queue.closed {
            return;
        } else {
            queue = shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
