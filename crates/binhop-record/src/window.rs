//! `Window` skips a number of references at the start of a stream, and ends the stream after a number of
//! references.
//!
//! The skipped part keeps its state. Mappings, forks and switches stay, so that the rest finds the address
//! spaces as they were. System calls are skipped like references, because their ranges belong to the skipped
//! time.

use binhop_base::Result;
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Meta, Op, Source};

/// `Window` is a source without its first references, and without the references beyond a limit.
pub struct Window<S> {
    source: S,
    skip: u64,
    left: Option<u64>,
}

impl<S: Source> Window<S> {
    /// Skips `skip` references, to the end of the row in which the last one lies. Then passes at most `limit`
    /// references.
    pub fn new(source: S, skip: u64, limit: Option<u64>) -> Self {
        Self { source, skip, left: limit }
    }

    /// Returns whether the limit was reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Skips references from the start of a batch, and returns the rows that remain.
    fn without_skipped(&mut self, batch: &EventBatch) -> EventBatch {
        let mut kept = EventBuilder::default();
        let mut row = 0;
        while row < batch.len() && self.skip > 0 {
            let references = references(batch, row);
            self.skip = self.skip.saturating_sub(references);
            let op = batch.op()[row];
            if references == 0 && op != Op::Syscall as u8 && op != Op::Range as u8 {
                kept.append(&batch.slice(row, 1));
            }
            row += 1;
        }
        kept.append(&batch.slice(row, batch.len() - row));
        kept.finish()
    }

    /// Returns the rows of a batch before the limit.
    fn before_limit(&mut self, batch: EventBatch) -> EventBatch {
        let Some(left) = &mut self.left else { return batch };
        for row in 0..batch.len() {
            let references = references(&batch, row);
            if references > *left {
                *left = 0;
                return batch.slice(0, row);
            }
            *left -= references;
        }
        batch
    }
}

fn references(batch: &EventBatch, row: usize) -> u64 {
    match Op::from_code(batch.op()[row]) {
        Some(Op::Fetch) => u64::from(batch.count()[row]),
        Some(op) if op.is_reference() => 1,
        _ => 0,
    }
}

impl<S: Source> Source for Window<S> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        loop {
            if self.is_full() {
                return Ok(None);
            }
            let Some(mut batch) = self.source.next_batch()? else { return Ok(None) };
            if self.skip > 0 {
                batch = self.without_skipped(&batch);
            }
            let batch = self.before_limit(batch);
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Fixed` is a source of given batches.
    struct Fixed(Vec<EventBatch>, Meta);

    impl Source for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }
        fn meta(&self) -> &Meta {
            &self.1
        }
        fn next_batch(&mut self) -> Result<Option<EventBatch>> {
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }
    }

    fn rows(skip: u64, limit: Option<u64>, batch_rows: usize) -> Vec<(u8, u64)> {
        let mut all = EventBuilder::default();
        all.push(Op::Map, 0x1000, 3, 1);
        all.push(Op::Fetch, 0x1000, 12, 3);
        all.push(Op::Syscall, 0x2000, 8, 0);
        all.push(Op::Load, 0x2000, 8, 1);
        all.push_args(Op::Switch, 1, 1, 0, [Some(0), None]);
        all.push(Op::Store, 0x3000, 8, 1);
        all.push(Op::Fetch, 0x100c, 8, 2);
        let all = all.finish();
        let batches = (0..all.len())
            .step_by(batch_rows)
            .map(|at| all.slice(at, batch_rows.min(all.len() - at)))
            .collect();
        let mut window = Window::new(Fixed(batches, Meta::default()), skip, limit);
        let mut found = Vec::new();
        while let Some(batch) = window.next_batch().unwrap() {
            found.extend(batch.op().iter().copied().zip(batch.addr().iter().copied()));
        }
        found
    }

    #[test]
    fn skipped_references_leave_their_state() {
        let (map, fetch, load, switch, store) = (7, 0, 1, 4, 2);
        for batch_rows in 1..8 {
            assert_eq!(rows(0, None, batch_rows).len(), 7);
            let rest = [(map, 0x1000), (switch, 1), (store, 0x3000), (fetch, 0x100c)];
            assert_eq!(rows(4, None, batch_rows), rest);
            // The row in which the skipped references end is skipped completely.
            assert_eq!(
                rows(1, Some(2), batch_rows),
                [(map, 0x1000), (5, 0x2000), (load, 0x2000), (switch, 1), (store, 0x3000)]
            );
            assert_eq!(rows(0, Some(3), batch_rows)[..2], [(map, 0x1000), (fetch, 0x1000)]);
            assert_eq!(rows(100, None, batch_rows), [(map, 0x1000), (switch, 1)]);
        }
    }
}
