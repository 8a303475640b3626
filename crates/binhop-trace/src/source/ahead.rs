//! `Ahead` runs a source on a thread of its own, so that decoding and simulation overlap.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use binhop_base::{Problem, Result};

use crate::event::EventBatch;
use crate::source::Failure;
use crate::source::{Meta, ProcessMeta, Source};
use crate::wait::{Flag, STEP_MS, check};

/// The rows handed over at once. Waking a thread costs as much as decoding some ten thousand rows.
const TOGETHER: usize = 1 << 18;
/// The limit of bytes handed over at once: twice the bytes of [`TOGETHER`] rows.
const TOGETHER_BYTES: usize = TOGETHER * 2 * ROW_BYTES;
/// The bytes of a row without arguments.
const ROW_BYTES: usize = 17;
/// The bytes of a batch besides its columns, as measured of the batches of a Parquet file (1.6 KB with one
/// row).
const BATCH_BYTES: usize = 1600;
/// The number of handovers that may wait. Waiting handovers even out the cost of starting a row group.
const WAITING: usize = 2;

/// `Ahead` runs a source on a thread of its own, some batches ahead of its user. It yields the same batches
/// in the same order.
///
/// [`Source::meta`] is the source's initial metadata until the end is reached, then its final metadata. Its processes
/// are an exception: they are the processes that the source knew when it had read the last batches that were handed
/// over.
///
/// The thread that waits for a batch keeps checking for signals. Dropping an `Ahead` early does not wait for its
/// thread. The thread ends when its source next yields, or within a step of its wait for a pipe (see
/// [`crate::wait`]).
pub struct Ahead {
    name: String,
    meta: Meta,
    messages: Option<Receiver<Message>>,
    /// The batches that were handed over and not yet asked for. The next batch is the last element.
    ready: Vec<EventBatch>,
    thread: Option<JoinHandle<()>>,
    failed: Failure,
    /// Raised when nothing waits for the thread any more.
    unwanted: Flag,
}

enum Message {
    /// Batches, and the processes of the source, if it knows further processes.
    Batches(Vec<EventBatch>, Option<BTreeMap<u32, ProcessMeta>>),
    Failed(Box<Problem>),
    End(Box<Meta>),
}

impl Ahead {
    /// Starts the thread of the source.
    #[must_use]
    pub fn new(mut source: Box<dyn Source>) -> Self {
        let (name, meta) = (source.name().to_owned(), source.meta().clone());
        let (sender, messages) = sync_channel(WAITING);
        let unwanted = Flag::default();
        let flag = unwanted.clone();
        let mut known = meta.processes.len();
        let thread = thread::spawn(move || {
            flag.adopt();
            loop {
                let (batches, end) = gather(source.as_mut());
                let told = &source.meta().processes;
                let processes = (told.len() != known).then(|| told.clone());
                known = told.len();
                let sent = batches.is_empty() || sender.send(Message::Batches(batches, processes)).is_ok();
                if let Some(end) = end {
                    let _ = sender.send(end);
                    return;
                }
                if !sent {
                    return; // the receiver is gone
                }
            }
        });
        let (messages, thread) = (Some(messages), Some(thread));
        Self { name, meta, messages, ready: Vec::new(), thread, failed: Failure::default(), unwanted }
    }
}

/// Returns batches to hand over together, and the last message if the source ended.
fn gather(source: &mut dyn Source) -> (Vec<EventBatch>, Option<Message>) {
    let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while rows < TOGETHER && bytes < TOGETHER_BYTES {
        match source.next_batch() {
            Ok(Some(batch)) => {
                rows += batch.len();
                bytes += batch.memory() + BATCH_BYTES;
                batches.push(batch);
            }
            Ok(None) => return (batches, Some(Message::End(Box::new(source.meta().clone())))),
            Err(problem) => return (batches, Some(Message::Failed(problem))),
        }
    }
    (batches, None)
}

impl Source for Ahead {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

impl Ahead {
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        if let Some(batch) = self.ready.pop() {
            return Ok(Some(batch));
        }
        let Some(messages) = &self.messages else { return Ok(None) };
        let message = loop {
            match messages.recv_timeout(Duration::from_millis(STEP_MS)) {
                Ok(message) => break Ok(message),
                Err(RecvTimeoutError::Timeout) => check()?,
                Err(RecvTimeoutError::Disconnected) => break Err(()),
            }
        };
        let last = match message {
            Ok(Message::Batches(batches, processes)) => {
                if let Some(processes) = processes {
                    self.meta.processes = processes;
                }
                self.ready = batches;
                self.ready.reverse();
                return Ok(self.ready.pop());
            }
            Ok(Message::Failed(problem)) => Err(problem),
            Ok(Message::End(meta)) => {
                self.meta = *meta;
                Ok(None)
            }
            // A thread that sends no last message has panicked. Its user panics with the same payload.
            Err(()) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => unreachable!("the thread says why it ends"),
            },
        };
        self.messages = None;
        last
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.unwanted.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::event::{EventBuilder, Op};

    /// `Counting` yields `good` batches of one load each, then its end. It reports to `dropped` when it is
    /// dropped.
    struct Counting {
        meta: Meta,
        next: u64,
        good: u64,
        end: fn() -> Result<Option<EventBatch>>,
        dropped: Sender<u64>,
    }

    impl Source for Counting {
        fn name(&self) -> &str {
            "counting"
        }
        fn meta(&self) -> &Meta {
            &self.meta
        }
        fn next_batch(&mut self) -> Result<Option<EventBatch>> {
            self.next += 1;
            if self.next > self.good {
                self.meta.page_size = Some(4096);
                return (self.end)();
            }
            if self.next <= 2 {
                self.meta.processes.insert(self.next as u32, ProcessMeta::default());
            }
            let mut batch = EventBuilder::default();
            batch.push(Op::Load, self.next, 1, 1);
            Ok(Some(batch.finish()))
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            let _ = self.dropped.send(self.next);
        }
    }

    fn ahead(good: u64, end: fn() -> Result<Option<EventBatch>>) -> (Ahead, Receiver<u64>) {
        let (dropped, gone) = channel();
        (Ahead::new(Box::new(Counting { meta: Meta::default(), next: 0, good, end, dropped })), gone)
    }

    fn addresses(source: &mut Ahead, batches: usize) -> Vec<u64> {
        (0..batches).map(|_| source.next_batch().unwrap().unwrap().addr()[0]).collect()
    }

    #[test]
    fn batches_keep_their_order_and_the_final_metadata_follows() {
        let (mut source, _gone) = ahead(100, || Ok(None));
        assert_eq!((source.name(), source.meta().page_size), ("counting", None));
        assert_eq!(addresses(&mut source, 100), (1..=100).collect::<Vec<_>>());
        assert!(source.next_batch().unwrap().is_none());
        assert_eq!(source.meta().page_size, Some(4096));
        assert!(source.next_batch().unwrap().is_none());
    }

    #[test]
    fn the_processes_are_known_before_the_end() {
        let (mut source, _gone) = ahead(u64::MAX - 1, || Ok(None));
        assert_eq!(addresses(&mut source, 2), [1, 2]);
        assert!(source.meta().processes.keys().eq(&[1, 2]));
    }

    #[test]
    fn an_error_follows_the_batches_before_it_and_is_repeated() {
        let (mut source, gone) = ahead(20, || Err(Problem::request("x", "y", "z", "w")));
        assert_eq!(addresses(&mut source, 20).len(), 20);
        for _ in 0..3 {
            assert_eq!(source.next_batch().unwrap_err().value, "x");
        }
        assert_eq!(gone.recv().unwrap(), 21);
    }

    #[test]
    fn an_ahead_dropped_early_stops_reading() {
        let (mut source, gone) = ahead(u64::MAX - 1, || Ok(None));
        assert_eq!(addresses(&mut source, 3), [1, 2, 3]);
        drop(source);
        let read = gone.recv().unwrap();
        // One handover is read, `WAITING` wait, one is being sent, and one is being gathered. Batches have
        // one row each.
        assert!(read <= (WAITING + 3) as u64 * TOGETHER as u64, "{read}");
    }

    #[test]
    #[should_panic(expected = "the source broke")]
    fn a_panic_of_the_source_reaches_its_user() {
        let (mut source, _gone) = ahead(2, || panic!("the source broke"));
        addresses(&mut source, 2);
        let _ = source.next_batch();
    }
}
