//! `Totals` and `ContentHash` sum up a trace: counts, and one number for its content.
//!
//! **Counting rules.** A fetch row counts as many references, and as many instructions, as its `count`.
//! A load, store or modify row counts as one reference. No other row counts as either.
//!
//! **Content hash.** Each column has an xxh3-64 over its values as a stream of little-endian bytes. A
//! nullable column is hashed as pairs of row number and value where a value is present, so an all-null column
//! costs nothing. The hash of the trace is the xxh3-64 of the number of rows and of the six digests. It
//! depends on the events alone, not on batches, row groups, encodings or metadata.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use arrow_array::{Array, UInt64Array};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::event::{EventBatch, Op};

// Columns are hashed as they lie in memory, and the definition says little-endian.
const _: () =
    assert!(cfg!(target_endian = "little"), "traces are read and written on little-endian machines");

/// `PerOp` holds one number for each operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerOp([u64; Op::ALL.len()]);

impl PerOp {
    /// Returns the sum over all operations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Op> for PerOp {
    type Output = u64;
    fn index(&self, op: Op) -> &u64 {
        &self.0[op as usize]
    }
}

impl IndexMut<Op> for PerOp {
    fn index_mut(&mut self, op: Op) -> &mut u64 {
        &mut self.0[op as usize]
    }
}

impl Serialize for PerOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Op::ALL.iter().map(|&op| (op.name(), self[op])))
    }
}

impl<'de> Deserialize<'de> for PerOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut events = Self::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let op = Op::ALL.iter().find(|op| op.name() == name);
            events[*op.ok_or_else(|| D::Error::custom(format!("{name} is no operation")))?] = count;
        }
        Ok(events)
    }
}

/// `Totals` counts the references, instructions and rows of a trace, or of its part so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Instructions fetched plus loads, stores and modifies.
    pub references: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// The number of rows of each operation.
    pub events: PerOp,
}

impl Totals {
    /// Adds a batch. A row with an unknown operation is not counted, because the reader of the row refuses
    /// it.
    pub fn add(&mut self, batch: &EventBatch) {
        let (mut instructions, mut rows) = (0u64, [0u64; 256]);
        for (&op, &count) in batch.op().iter().zip(batch.count()) {
            rows[usize::from(op)] += 1;
            instructions += if op == Op::Fetch as u8 { u64::from(count) } else { 0 };
        }
        for &op in Op::ALL {
            let rows = rows[op as usize];
            self.events[op] += rows;
            if op.is_reference() && op != Op::Fetch {
                self.references += rows;
            }
        }
        self.references += instructions;
        self.instructions += instructions;
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.events.total()
    }
}

/// `ContentHash` hashes the events of a trace, batch by batch, as the top of this file defines.
#[derive(Clone, Default)]
pub struct ContentHash {
    rows: u64,
    required: [Xxh3; 4],
    args: [Xxh3; 2],
}

impl ContentHash {
    /// Makes the hash of no events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a batch.
    pub fn add(&mut self, batch: &EventBatch) {
        for (hash, bytes) in self.required.iter_mut().zip(batch.required_bytes()) {
            hash.update(bytes);
        }
        for (hash, column) in self.args.iter_mut().zip([batch.arg0_column(), batch.arg1_column()]) {
            let Some(column) = column.filter(|column| column.null_count() < column.len()) else { continue };
            add_present(hash, column, self.rows);
        }
        self.rows += batch.len() as u64;
    }

    /// Returns the hash of all events added so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        let mut combined = self.rows.to_le_bytes().to_vec();
        for hash in self.required.iter().chain(&self.args) {
            combined.extend(hash.digest().to_le_bytes());
        }
        xxh3_64(&combined)
    }
}

impl std::fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ContentHash({:016x} after {} rows)", self.finish(), self.rows)
    }
}

fn add_present(hash: &mut Xxh3, column: &UInt64Array, first_row: u64) {
    for row in 0..column.len() {
        if column.is_valid(row) {
            hash.update(&(first_row + row as u64).to_le_bytes());
            hash.update(&column.value(row).to_le_bytes());
        }
    }
}
