//! Decoding ahead: a source run on a thread of its own.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use binhop_base::{Problem, Result};

use crate::event::{EventBatch, Meta, Source};

/// Batches that may wait: enough to ride out the uneven cost of starting a row group, few enough to stay in cache.
const WAITING: usize = 8;

/// Runs a source on a thread of its own, some batches ahead of its user; itself a source with the same
/// batches, in the same order.
///
/// [`Source::meta`] is the source's at the start until the end is reached, then its final one. Dropped early, it
/// does not wait for the thread, which may itself be waiting for a pipe: the thread ends when its source next yields.
pub struct Ahead {
    name: String,
    meta: Meta,
    batches: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Batch(Box<EventBatch>),
    Failed(Box<Problem>),
    End(Meta),
}

impl Ahead {
    /// Starts the source's thread.
    #[must_use]
    pub fn new(mut source: Box<dyn Source>) -> Self {
        let (name, meta) = (source.name().to_owned(), source.meta().clone());
        let (sender, batches) = sync_channel(WAITING);
        let thread = thread::spawn(move || {
            loop {
                let message = match source.next_batch() {
                    Ok(Some(batch)) => Message::Batch(Box::new(batch)),
                    Ok(None) => Message::End(source.meta().clone()),
                    Err(problem) => Message::Failed(problem),
                };
                let last = !matches!(message, Message::Batch(_));
                if sender.send(message).is_err() || last {
                    return; // at the end, or nobody listens any more
                }
            }
        });
        Self { name, meta, batches: Some(batches), thread: Some(thread) }
    }
}

impl Source for Ahead {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let Some(batches) = &self.batches else { return Ok(None) };
        let last = match batches.recv() {
            Ok(Message::Batch(batch)) => return Ok(Some(*batch)),
            Ok(Message::Failed(problem)) => Err(problem),
            Ok(Message::End(meta)) => {
                self.meta = meta;
                Ok(None)
            }
            // Without a last word the thread can only have panicked: so does its user.
            Err(_) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => unreachable!("the thread says why it ends"),
            },
        };
        self.batches = None;
        last
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::event::{EventBuilder, Op};

    /// Yields `good` batches of one load each, then its end; tells `dropped` when it is gone.
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
    fn the_same_batches_in_the_same_order_then_the_final_metadata() {
        let (mut source, _gone) = ahead(100, || Ok(None));
        assert_eq!((source.name(), source.meta().page_size), ("counting", None));
        assert_eq!(addresses(&mut source, 100), (1..=100).collect::<Vec<_>>());
        assert!(source.next_batch().unwrap().is_none());
        assert_eq!(source.meta().page_size, Some(4096));
        assert!(source.next_batch().unwrap().is_none());
    }

    #[test]
    fn an_error_comes_after_the_batches_before_it() {
        let (mut source, gone) = ahead(20, || Err(Problem::request("x", "y", "z", "w")));
        assert_eq!(addresses(&mut source, 20).len(), 20);
        assert_eq!(source.next_batch().unwrap_err().value, "x");
        assert!(source.next_batch().unwrap().is_none());
        assert_eq!(gone.recv().unwrap(), 21);
    }

    #[test]
    fn dropped_early_it_stops_reading() {
        let (mut source, gone) = ahead(u64::MAX - 1, || Ok(None));
        assert_eq!(addresses(&mut source, 3), [1, 2, 3]);
        drop(source);
        let read = gone.recv().unwrap();
        assert!(read <= 3 + WAITING as u64 + 2, "{read}");
    }

    #[test]
    #[should_panic(expected = "the source broke")]
    fn a_panic_of_the_source_is_its_users() {
        let (mut source, _gone) = ahead(2, || panic!("the source broke"));
        addresses(&mut source, 2);
        let _ = source.next_batch();
    }
}
