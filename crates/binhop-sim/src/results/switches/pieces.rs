//! `batch` makes the table of pieces, which has one row for each seed, segment and interval after the switch.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use binhop_base::Result;

use super::counts::CauseOfSegment;
use super::readings::SegmentKey;
use super::tally::PIECE_RECORD;
use crate::results::spill::Records;

/// Returns the columns.
pub(crate) fn schema() -> SchemaRef {
    let field =
        |&(name, ref kind, nullable): &(&str, DataType, bool)| Field::new(name, kind.clone(), nullable);
    let columns = [
        ("workload", DataType::Utf8, false),
        ("machine", DataType::Utf8, false),
        ("seed", DataType::UInt64, false),
        ("switch", DataType::UInt64, false),
        ("asid", DataType::UInt32, false),
        ("life", DataType::UInt32, false),
        ("cause", DataType::Utf8, false),
        ("syscall", DataType::UInt64, true),
        ("ended", DataType::Utf8, false),
        ("interval", DataType::UInt32, false),
        ("since", DataType::UInt64, false),
        ("instructions", DataType::UInt64, false),
        ("cycles_shared", DataType::UInt64, false),
        ("cycles_private", DataType::UInt64, false),
    ];
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Makes the next rows of a seed, `most` at most. `names` are the names of the workload and of the machine.
pub(crate) fn batch(
    names: [&str; 2],
    seed: u64,
    records: &mut Records,
    most: usize,
) -> Result<Option<Vec<ArrayRef>>> {
    let (mut rows, mut record) = (Vec::new(), [0; PIECE_RECORD]);
    while rows.len() < most && records.next(&mut record)? {
        rows.push(record);
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let keys: Vec<SegmentKey> = rows.iter().map(|row| SegmentKey::of_record(&row[1..5])).collect();
    let numbers = |place: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(row[place])).collect::<UInt64Array>())
    };
    let text = |text: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows.len())))
    };
    let ended = rows.iter().map(|row| CauseOfSegment::ALL[row[5] as usize].1);
    Ok(Some(vec![
        text(names[0]),
        text(names[1]),
        Arc::new(UInt64Array::from(vec![seed; rows.len()])),
        numbers(0),
        Arc::new(keys.iter().map(|key| Some(key.asid.0)).collect::<UInt32Array>()),
        Arc::new(keys.iter().map(|key| Some(key.life)).collect::<UInt32Array>()),
        Arc::new(StringArray::from_iter_values(keys.iter().map(|key| key.cause.name()))),
        Arc::new(keys.iter().map(|key| key.syscall).collect::<UInt64Array>()),
        Arc::new(StringArray::from_iter_values(ended)),
        Arc::new(rows.iter().map(|row| Some(row[6] as u32)).collect::<UInt32Array>()),
        numbers(7),
        numbers(8),
        numbers(9),
        numbers(10),
    ]))
}
