//! Events in columns: what everything that drives a simulation is made of.
//!
//! A recorder, an importer, a built-in workload, a Polars frame all produce record batches of these
//! columns; the engine consumes them without a copy. The meaning of each column for each operation is
//! the table in [`Op`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type, UInt32Type, UInt64Type};
use binhop_base::{Problem, Result};

macro_rules! ops {
    ($($name:ident = $code:literal $text:literal, $doc:literal;)*) => {
        /// What an event is: the `op` column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op { $(#[doc = $doc] $name = $code,)* }

        impl Op {
            /// Every operation, in order of its code.
            pub const ALL: &'static [Op] = &[$(Op::$name,)*];
            /// The name users see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => $text,)* }
            }
            /// What its columns hold.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Op::$name => $doc,)* }
            }
            /// The operation with this code.
            #[inline]
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Op::$name),)* _ => None }
            }
        }
    };
}

ops! {
    Fetch = 0 "fetch", "Instructions executed in sequence: addr first byte, size bytes, count instructions.";
    Load = 1 "load", "A load: addr first byte, size bytes, count 1.";
    Store = 2 "store", "A store: addr first byte, size bytes, count 1.";
    Modify = 3 "modify", "A load and a store of the same bytes by one instruction: addr first byte, size bytes, count 1.";
    Switch = 4 "switch", "Another thread runs from here: addr asid, size tid, count cpu, arg0 cause (see Cause), arg1 system call number.";
    Syscall = 5 "syscall", "A system call's main range: addr user buffer, size bytes moved, count number, arg0 file id, arg1 offset.";
    Range = 6 "range", "A further range of the call before it: addr start, size bytes.";
    Map = 7 "map", "Pages appear (over a live range they replace it): addr start, size flags, count pages, arg0 segment, arg1 first byte in the segment.";
    Protect = 8 "protect", "Protection changes: addr start, size flags, count pages.";
    Unmap = 9 "unmap", "Pages disappear: addr start, count pages.";
    Fork = 10 "fork", "An address space is born as a copy: addr new asid, arg0 parent asid.";
    Exec = 11 "exec", "An address space gets a new program; all its mappings end: addr asid.";
    Exit = 12 "exit", "An address space ends: addr asid.";
    DmaRead = 13 "dma-read", "A device reads memory (CPU to device): addr start, size bytes, count device, arg0 request id.";
    DmaWrite = 14 "dma-write", "A device writes memory (device to CPU): addr start, size bytes, count device, arg0 request id.";
    Time = 15 "time", "Wall time of the recorded program: addr nanoseconds since its start.";
    KernelEnter = 16 "kernel-enter", "References from here to kernel-leave are the kernel's: count cause.";
    KernelLeave = 17 "kernel-leave", "The kernel's references end.";
}

impl Op {
    /// Fetch, load, store or modify: a reference to memory.
    #[inline]
    #[must_use]
    pub const fn is_reference(self) -> bool {
        (self as u8) <= Op::Modify as u8
    }
}

/// Why the outgoing thread left the processor: `arg0` of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Cause {
    /// It gave up the processor in a system call.
    SystemCall = 0,
    /// It waits for a page.
    PageFault = 1,
    /// Its quantum ended, or another thread took precedence.
    Involuntary = 2,
    /// It ended.
    Exit = 3,
}

impl Cause {
    /// The cause that `arg0` of a switch names; `None` for a number without a meaning.
    #[must_use]
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::SystemCall),
            1 => Some(Self::PageFault),
            2 => Some(Self::Involuntary),
            3 => Some(Self::Exit),
            _ => None,
        }
    }
}

/// Flags of a map or protect event, in the `size` column.
pub mod map_flags {
    /// The pages may be read.
    pub const READ: u32 = 1;
    /// The pages may be written.
    pub const WRITE: u32 = 2;
    /// The pages may be executed.
    pub const EXEC: u32 = 4;
    /// Writes are seen by every sharer (otherwise private: copied on the first write).
    pub const SHARED: u32 = 8;
    /// The mapping grows when touched next to its start (a stack).
    pub const GROWS: u32 = 16;
    /// Every bit that has a meaning.
    pub const ALL: u32 = 31;
}

/// The columns of a trace, in order. The first four are required.
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

/// A batch of events: shared, immutable columns of equal length.
#[derive(Clone, Debug)]
pub struct EventBatch {
    op: UInt8Array,
    addr: UInt64Array,
    size: UInt32Array,
    count: UInt32Array,
    arg0: Option<UInt64Array>,
    arg1: Option<UInt64Array>,
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

    /// The batch as Arrow sees it, with the full schema; missing argument columns become nulls.
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

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether there is no event.
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

    /// The operations' codes. They may hold a code that is no [`Op`]: whoever reads them refuses it.
    #[must_use]
    pub fn op(&self) -> &[u8] {
        self.op.values()
    }

    /// The `addr` column.
    #[must_use]
    pub fn addr(&self) -> &[u64] {
        self.addr.values()
    }

    /// The `size` column.
    #[must_use]
    pub fn size(&self) -> &[u32] {
        self.size.values()
    }

    /// The `count` column.
    #[must_use]
    pub fn count(&self) -> &[u32] {
        self.count.values()
    }

    /// The first argument of an event, if it has one.
    #[must_use]
    pub fn arg0(&self, row: usize) -> Option<u64> {
        self.arg0.as_ref().filter(|a| a.is_valid(row)).map(|a| a.value(row))
    }

    /// The second argument of an event, if it has one.
    #[must_use]
    pub fn arg1(&self, row: usize) -> Option<u64> {
        self.arg1.as_ref().filter(|a| a.is_valid(row)).map(|a| a.value(row))
    }

    /// The whole first argument column; `None` if no event of the batch has one.
    #[must_use]
    pub fn arg0_column(&self) -> Option<&UInt64Array> {
        self.arg0.as_ref()
    }

    /// The whole second argument column; `None` if no event of the batch has one.
    #[must_use]
    pub fn arg1_column(&self) -> Option<&UInt64Array> {
        self.arg1.as_ref()
    }

    /// The values of op, addr, size and count as they lie in memory.
    pub(crate) fn required_bytes(&self) -> [&[u8]; 4] {
        [
            self.op.values().inner().as_slice(),
            self.addr.values().inner().as_slice(),
            self.size.values().inner().as_slice(),
            self.count.values().inner().as_slice(),
        ]
    }

    /// A part of the batch, without a copy.
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

/// The row of an event, and its arguments.
type Args = (usize, Option<u64>, Option<u64>);

/// Grows a batch event by event, for importers, workloads and tests.
#[derive(Clone, Debug, Default)]
pub struct EventBuilder {
    op: Vec<u8>,
    addr: Vec<u64>,
    size: Vec<u32>,
    count: Vec<u32>,
    /// The rare events that have arguments.
    args: Vec<Args>,
}

impl EventBuilder {
    /// An empty builder with room for `capacity` events.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            op: Vec::with_capacity(capacity),
            addr: Vec::with_capacity(capacity),
            size: Vec::with_capacity(capacity),
            count: Vec::with_capacity(capacity),
            args: Vec::new(),
        }
    }

    /// Appends an event without arguments.
    #[inline]
    pub fn push(&mut self, op: Op, addr: u64, size: u32, count: u32) {
        self.op.push(op as u8);
        self.addr.push(addr);
        self.size.push(size);
        self.count.push(count);
    }

    /// Appends an event with arguments.
    pub fn push_args(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        self.args.push((self.op.len(), args[0], args[1]));
        self.push(op, addr, size, count);
    }

    /// Appends a whole batch.
    pub fn append(&mut self, batch: &EventBatch) {
        let first = self.op.len();
        if batch.arg0.is_some() || batch.arg1.is_some() {
            let rows = (0..batch.len()).map(|row| (first + row, batch.arg0(row), batch.arg1(row)));
            self.args.extend(rows.filter(|(_, arg0, arg1)| arg0.is_some() || arg1.is_some()));
        }
        self.op.extend_from_slice(batch.op());
        self.addr.extend_from_slice(batch.addr());
        self.size.extend_from_slice(batch.size());
        self.count.extend_from_slice(batch.count());
    }

    /// Number of events so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether there is no event yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// The batch; the builder is empty afterwards.
    #[must_use]
    pub fn finish(&mut self) -> EventBatch {
        let rows = self.op.len();
        let args = std::mem::take(&mut self.args);
        let column = |pick: fn(&Args) -> Option<u64>| {
            // Few rows have one: what the others cost is zeroed memory.
            let mut values = vec![0; rows];
            let mut present = BooleanBufferBuilder::new(rows);
            present.append_n(rows, false);
            for entry in &args {
                if let Some(value) = pick(entry) {
                    values[entry.0] = value;
                    present.set_bit(entry.0, true);
                }
            }
            UInt64Array::new(values.into(), Some(NullBuffer::new(present.finish())))
        };
        let (arg0, arg1) =
            if args.is_empty() { (None, None) } else { (Some(column(|a| a.1)), Some(column(|a| a.2))) };
        EventBatch {
            op: std::mem::take(&mut self.op).into(),
            addr: std::mem::take(&mut self.addr).into(),
            size: std::mem::take(&mut self.size).into(),
            count: std::mem::take(&mut self.count).into(),
            arg0,
            arg1,
        }
    }
}

/// What is known about a trace as a whole: the key-value metadata of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Page size of the machine it was made on, in bytes, if known.
    pub page_size: Option<u64>,
    /// What made it: program and version.
    pub recorder: Option<String>,
    /// The command that was recorded.
    pub command: Option<String>,
    /// `"exact"` or `"assumed"`: whether access sizes were recorded or filled in by an importer.
    pub sizes: Option<String>,
    /// What decided the order between processes, if something of ours did: `"built-in"`, `"native"`, `"round-robin"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// asid → (pid, command).
    pub processes: std::collections::BTreeMap<u32, Process>,
    /// segment → (file, kind).
    pub segments: std::collections::BTreeMap<u64, Segment>,
    /// file id → path.
    pub files: std::collections::BTreeMap<u64, String>,
}

/// The process behind an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Process {
    /// Process id when it was recorded.
    pub pid: Option<u64>,
    /// Its command.
    pub command: Option<String>,
    /// The address space that forked it, if one of the trace did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
}

/// A sharable unit of an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Segment {
    /// The file it maps, if any.
    pub file: Option<String>,
    /// text, data, stack, heap, library, …
    pub kind: Option<String>,
}

/// Where events come from: a file, a pipe, an Arrow stream, a workload.
pub trait Source: Send {
    /// What errors call it.
    fn name(&self) -> &str;
    /// What is known about the whole.
    fn meta(&self) -> &Meta;
    /// The next events in program order; `None` at the end. Batches may have any length.
    ///
    /// # Errors
    /// The input is damaged or cannot be read. A source that has failed never returns `None`: what it returned
    /// until then is no whole trace.
    fn next_batch(&mut self) -> Result<Option<EventBatch>>;
}
