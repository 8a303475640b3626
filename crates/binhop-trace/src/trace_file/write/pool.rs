//! Row groups encoded on several threads, handed on in the order they were given.
//!
//! The thread that writes takes part: with T threads T − 1 workers are started, and while too many row groups are
//! on their way it encodes one itself. Memory is bounded by [`Encoders::in_flight`] row groups.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parquet::errors::Result;
use parquet::schema::types::SchemaDescPtr;

use super::columns::{Encoded, encode};
use crate::event::EventBatch;

/// More than these are never busy: whatever makes rows needs about as long for a row as encoding it takes.
const MOST_WORKERS: usize = 7;

/// What encoding a row group came to; a panic is passed on to the thread that writes.
type EncodeResult = thread::Result<Result<Encoded>>;

/// The encoders.
pub(super) struct Encoders {
    schema: SchemaDescPtr,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Number of the next row group given, and of the next handed on.
    given: u64,
    taken: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is work, or no more will come.
    work: Condvar,
    /// A row group is done.
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
    /// Encoders for `threads` threads (at least 1), the caller's among them.
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

    /// Row groups that may be on their way: one for each thread, and one that waits.
    fn in_flight(&self) -> u64 {
        if self.workers.is_empty() { 0 } else { self.workers.len() as u64 + 2 }
    }

    /// Takes the rows of the next row group.
    pub(super) fn give(&mut self, pieces: Vec<EventBatch>) {
        self.shared.lock().waiting.push_back((self.given, pieces));
        self.given += 1;
        self.shared.work.notify_one();
    }

    /// The next row group in order, if it is done, or if it must be waited for: as `all` are, and whatever
    /// exceeds what may be on its way.
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
            let _ = worker.join(); // a worker's panics are handed on as outcomes
        }
    }
}

/// A worker's life.
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
