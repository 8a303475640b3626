//! `EventBatch` holds events in columns. Arrow sees the same columns without a copy.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use binhop_base::{Problem, Result};

/// Returns the columns of a trace, in order. The first four columns are required.
#[must_use]
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("op", DataType::UInt8, false),
        Field::new("addr", DataType::UInt64, false),
        Field::new("size", DataType::UInt32, false),
        Field::new("count", DataType::UInt32, false),
        Field::new("arg0", DataType::UInt64, true),
        Field::new("arg1", DataType::UInt64, true),
    ]))
}

/// `EventBatch` holds events in shared, immutable columns of equal length.
#[derive(Clone, Debug)]
pub struct EventBatch {
    pub(super) op: UInt8Array,
    pub(super) addr: UInt64Array,
    pub(super) size: UInt32Array,
    pub(super) count: UInt32Array,
    pub(super) arg0: Option<UInt64Array>,
    pub(super) arg1: Option<UInt64Array>,
}

impl EventBatch {
    /// Takes the event columns of a record batch by name, without a copy. Further columns are ignored.
    ///
    /// # Errors
    /// A required column is missing, has another type, or holds a null. `place` names the trace.
    pub fn from_record_batch(batch: &RecordBatch, place: &str) -> Result<Self> {
        let column = |name: &str, want: DataType| -> Result<ArrayRef> {
            let remedy = format!(
                "a trace has the columns op (u8), addr (u64), size (u32), count (u32), and may have arg0 and arg1 (u64, nullable); cast {name} to {want}"
            );
            let array = batch.column_by_name(name).ok_or_else(|| {
                let has = batch.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
                Problem::request(&has.join(", "), place, &format!("the column {name} is missing"), &remedy)
            })?;
            if *array.data_type() != want {
                let rule = format!("the column {name} must be {want}");
                return Err(Problem::request(&array.data_type().to_string(), place, &rule, &remedy));
            }
            Ok(Arc::clone(array))
        };
        let required = |name: &str, want: DataType| -> Result<ArrayRef> {
            let array = column(name, want)?;
            let rows = if array.null_count() > 0 { 0..array.len() } else { 0..0 };
            match rows.into_iter().find(|&row| array.is_null(row)) {
                Some(row) => Err(Problem::request(
                    "null",
                    &format!("{place}: column {name}, row {row}"),
                    "op, addr, size and count are never null",
                    "fill the column or leave the row out",
                )),
                None => Ok(array),
            }
        };
        let optional = |name: &str| -> Result<Option<UInt64Array>> {
            if batch.column_by_name(name).is_none() {
                return Ok(None);
            }
            Ok(Some(column(name, DataType::UInt64)?.as_primitive::<UInt64Type>().clone()))
        };
        Ok(Self {
            op: required("op", DataType::UInt8)?.as_primitive::<UInt8Type>().clone(),
            addr: required("addr", DataType::UInt64)?.as_primitive::<UInt64Type>().clone(),
            size: required("size", DataType::UInt32)?.as_primitive::<UInt32Type>().clone(),
            count: required("count", DataType::UInt32)?.as_primitive::<UInt32Type>().clone(),
            arg0: optional("arg0")?,
            arg1: optional("arg1")?,
        })
    }

    /// Makes a batch of columns of equal length.
    ///
    /// # Panics
    /// The lengths of the columns differ.
    pub(crate) fn of_columns(
        op: UInt8Array,
        addr: UInt64Array,
        size: UInt32Array,
        count: UInt32Array,
        [arg0, arg1]: [Option<UInt64Array>; 2],
    ) -> Self {
        let args = [&arg0, &arg1].into_iter().flatten().map(Array::len);
        let lengths = [addr.len(), size.len(), count.len()].into_iter().chain(args);
        assert!(lengths.into_iter().all(|length| length == op.len()), "columns of one length");
        Self { op, addr, size, count, arg0, arg1 }
    }

    /// Returns the batch as Arrow sees it, with the full schema. Missing argument columns become nulls.
    #[must_use]
    pub fn to_record_batch(&self) -> RecordBatch {
        let args = |array: &Option<UInt64Array>| -> ArrayRef {
            Arc::new(array.clone().unwrap_or_else(|| UInt64Array::new_null(self.len())))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.op.clone()),
            Arc::new(self.addr.clone()),
            Arc::new(self.size.clone()),
            Arc::new(self.count.clone()),
            args(&self.arg0),
            args(&self.arg1),
        ];
        RecordBatch::try_new(schema(), columns).expect("columns of one batch agree in length and type")
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Returns whether the batch holds no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Returns the bytes that the batch's columns have allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        let args = [&self.arg0, &self.arg1].into_iter().flatten().map(Array::get_buffer_memory_size);
        self.op.get_buffer_memory_size()
            + self.addr.get_buffer_memory_size()
            + self.size.get_buffer_memory_size()
            + self.count.get_buffer_memory_size()
            + args.sum::<usize>()
    }

    /// Returns the `op` column. The column may hold numbers that are no [`Op`](super::Op). A function that
    /// reads such a row refuses the row.
    #[must_use]
    pub fn op(&self) -> &[u8] {
        self.op.values()
    }

    /// Returns the `addr` column.
    #[must_use]
    pub fn addr(&self) -> &[u64] {
        self.addr.values()
    }

    /// Returns the `size` column.
    #[must_use]
    pub fn size(&self) -> &[u32] {
        self.size.values()
    }

    /// Returns the `count` column.
    #[must_use]
    pub fn count(&self) -> &[u32] {
        self.count.values()
    }

    /// Returns the first argument of an event, if the event has a first argument.
    #[must_use]
    pub fn arg0(&self, row: usize) -> Option<u64> {
        self.arg0.as_ref().filter(|a| a.is_valid(row)).map(|a| a.value(row))
    }

    /// Returns the second argument of an event, if the event has a second argument.
    #[must_use]
    pub fn arg1(&self, row: usize) -> Option<u64> {
        self.arg1.as_ref().filter(|a| a.is_valid(row)).map(|a| a.value(row))
    }

    /// Returns the column of first arguments; `None` if no event of the batch has a first argument.
    #[must_use]
    pub fn arg0_column(&self) -> Option<&UInt64Array> {
        self.arg0.as_ref()
    }

    /// Returns the column of second arguments; `None` if no event of the batch has a second argument.
    #[must_use]
    pub fn arg1_column(&self) -> Option<&UInt64Array> {
        self.arg1.as_ref()
    }

    /// Returns the values of op, addr, size and count as they lie in memory.
    pub(crate) fn required_bytes(&self) -> [&[u8]; 4] {
        [
            self.op.values().inner().as_slice(),
            self.addr.values().inner().as_slice(),
            self.size.values().inner().as_slice(),
            self.count.values().inner().as_slice(),
        ]
    }

    /// Returns some consecutive rows of the batch, without a copy.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        Self {
            op: self.op.slice(start, len),
            addr: self.addr.slice(start, len),
            size: self.size.slice(start, len),
            count: self.count.slice(start, len),
            arg0: self.arg0.as_ref().map(|a| a.slice(start, len)),
            arg1: self.arg1.as_ref().map(|a| a.slice(start, len)),
        }
    }
}
