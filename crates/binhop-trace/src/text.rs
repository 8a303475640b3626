//! `text` writes events as lines of text, for readers, grep, and `binhop import --format text`.
//!
//! ```text
//! # meta {"page_size":4096}
//! switch asid=3 tid=17 cpu=0 cause=system-call call=232
//! fetch 0x401000 size=12 count=3
//! load 0x7ffe0010 size=8
//! map 0x7f0000000000 pages=12 flags=r-x segment=5 offset=0x1000
//! ```
//!
//! A line holds the name of the operation, then its columns under the names that the operation gives them
//! (`SHAPES`). An address stands without a name. A column is left out if it has its usual value: 0, or 1 for
//! the count of a load, store or modify. A column that has no meaning for the operation is called as in the
//! file. Numbers are decimal, or hexadecimal behind `0x`. Lines that begin with `#` are comments, but `#
//! meta` introduces a part of the metadata as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use binhop_base::Result;
use binhop_base::escape::escaped_within_quotes;

use crate::bounds::check_ops;
use crate::event::{Cause, Event, Op, map_flags};
use crate::source::{Meta, Source};

/// `Style` says how a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// The address: hexadecimal, without a name.
    Address,
    Hex,
    Decimal,
    Flags,
    Cause,
}

/// The name of a column in the lines of an operation, and its style.
pub(crate) type Shown = (&'static str, Style);

/// `LineShape` names the columns of an operation: addr, size, count, arg0, arg1.
#[derive(Debug)]
pub(crate) struct LineShape {
    op: Op,
    pub(crate) columns: [Shown; 5],
    /// The usual value of `count`, which is left out.
    pub(crate) count: u32,
}

const AT: Shown = ("addr", Style::Address);
const ARG0: Shown = ("arg0", Style::Decimal);
const ARG1: Shown = ("arg1", Style::Decimal);
const SIZE: Shown = ("size", Style::Decimal);
const COUNT: Shown = ("count", Style::Decimal);

const fn decimal(name: &'static str) -> Shown {
    (name, Style::Decimal)
}

const fn shape(op: Op, columns: [Shown; 5]) -> LineShape {
    LineShape { op, columns, count: matches!(op, Op::Load | Op::Store | Op::Modify) as u32 }
}

/// The shape of each operation, in order of codes. [`Op::meaning`] says what the columns mean.
pub(crate) const SHAPES: &[LineShape] = &[
    shape(Op::Fetch, [AT, SIZE, COUNT, ARG0, ARG1]),
    shape(Op::Load, [AT, SIZE, COUNT, ARG0, ARG1]),
    shape(Op::Store, [AT, SIZE, COUNT, ARG0, ARG1]),
    shape(Op::Modify, [AT, SIZE, COUNT, ARG0, ARG1]),
    shape(
        Op::Switch,
        [decimal("asid"), decimal("tid"), decimal("cpu"), ("cause", Style::Cause), decimal("call")],
    ),
    shape(Op::Syscall, [AT, decimal("bytes"), decimal("call"), decimal("file"), ("offset", Style::Hex)]),
    shape(Op::Range, [AT, decimal("bytes"), COUNT, ARG0, ARG1]),
    shape(
        Op::Map,
        [AT, ("flags", Style::Flags), decimal("pages"), decimal("segment"), ("offset", Style::Hex)],
    ),
    shape(Op::Protect, [AT, ("flags", Style::Flags), decimal("pages"), ARG0, ARG1]),
    shape(Op::Unmap, [AT, SIZE, decimal("pages"), ARG0, ARG1]),
    shape(Op::Fork, [decimal("asid"), SIZE, COUNT, decimal("parent"), ARG1]),
    shape(Op::Exec, [decimal("asid"), SIZE, COUNT, ARG0, ARG1]),
    shape(Op::Exit, [decimal("asid"), SIZE, COUNT, ARG0, ARG1]),
    shape(Op::DmaRead, [AT, decimal("bytes"), decimal("device"), decimal("request"), ARG1]),
    shape(Op::DmaWrite, [AT, decimal("bytes"), decimal("device"), decimal("request"), ARG1]),
    shape(Op::Time, [decimal("ns"), SIZE, COUNT, ARG0, ARG1]),
    shape(Op::KernelEnter, [("addr", Style::Hex), SIZE, decimal("cause"), ARG0, ARG1]),
    shape(Op::KernelLeave, [("addr", Style::Hex), SIZE, COUNT, ARG0, ARG1]),
];

/// Returns a template of the lines of an operation: each column with a placeholder for its value.
#[must_use]
pub fn line_of(op: Op) -> String {
    let shown = |&(name, style): &Shown| match style {
        Style::Address => "0xADDR".to_owned(),
        Style::Hex => format!("{name}=0xN"),
        Style::Decimal => format!("{name}=N"),
        Style::Flags => format!("{name}=rwxsg"),
        Style::Cause => format!("{name}=CAUSE"),
    };
    let named = |&&(name, _): &&Shown| !matches!(name, "arg0" | "arg1");
    let columns = SHAPES[op as usize].columns.iter().filter(named).map(shown);
    std::iter::once(op.name().to_owned()).chain(columns).collect::<Vec<_>>().join(" ")
}

/// The flags of a mapping with their letters, in the letters' order. The boolean tells whether an absent
/// letter shows as `-`, or is left out.
pub const MAP_FLAGS: [(u32, char, &str, bool); 5] = [
    (map_flags::READ, 'r', "read", true),
    (map_flags::WRITE, 'w', "write", true),
    (map_flags::EXEC, 'x', "execute", true),
    (map_flags::SHARED, 's', "shared", false),
    (map_flags::GROWS, 'g', "grows", false),
];

/// `LineFormat` is the format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// Text, as the top of this file describes.
    Text,
    /// One JSON object for each event, with the columns as they are in the file.
    Json,
}

/// Writes the events of a source, line by line. If `meta` is set, the metadata known at the start come first.
/// A closed pipe ends the writing, and is no error.
///
/// # Errors
/// The source fails, or the writer does. `failed` makes a problem of the writer's error.
pub fn write(
    source: &mut dyn Source,
    lines: LineFormat,
    meta: bool,
    out: &mut dyn Write,
    failed: &dyn Fn(&io::Error) -> Box<binhop_base::Problem>,
    progress: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut text = String::new();
    if meta && lines == LineFormat::Text {
        put_meta(&mut text, source.meta());
    }
    let mut row = 0;
    loop {
        let batch = source.next_batch()?;
        if let Some(batch) = &batch {
            check_ops(batch, row, source.name())?;
            row += batch.len() as u64;
            for row in 0..batch.len() {
                let event = Event::of(batch, row);
                match lines {
                    LineFormat::Text => put_line(&mut text, &event),
                    LineFormat::Json => put_json(&mut text, &event),
                }
                if text.len() >= 1 << 16 || row + 1 == batch.len() {
                    match out.write_all(text.as_bytes()) {
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                        written => written.map_err(|error| failed(&error))?,
                    }
                    text.clear();
                }
            }
        }
        progress()?;
        if batch.is_none() {
            return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(&error)),
                _ => Ok(()),
            };
        }
    }
}

/// Writes the metadata in short lines: first single values, then each process, segment and file. Names and
/// commands may hold any character, so control characters are escaped in the form that JSON reads back.
fn put_meta(text: &mut String, meta: &Meta) {
    let serde_json::Value::Object(all) = serde_json::to_value(meta).expect("metadata has string keys only")
    else {
        unreachable!("metadata are an object")
    };
    let mut once = serde_json::Map::new();
    let mut parts = Vec::new();
    for (key, value) in all {
        match value {
            serde_json::Value::Null => {}
            serde_json::Value::Object(entries) => {
                parts.extend(
                    entries
                        .into_iter()
                        .map(|(number, value)| serde_json::json!({ key.as_str(): { number: value } })),
                );
            }
            value => drop(once.insert(key, value)),
        }
    }
    let whole = (!once.is_empty()).then_some(serde_json::Value::Object(once));
    for part in whole.into_iter().chain(parts) {
        let _ = writeln!(text, "# meta {}", escaped_within_quotes(&part.to_string()));
    }
}

/// Writes an event as a line.
pub(crate) fn put_line(text: &mut String, event: &Event) {
    let shape = &SHAPES[event.op as usize];
    debug_assert_eq!(shape.op, event.op);
    text.push_str(event.op.name());
    let [addr, size, count, arg0, arg1] = shape.columns;
    let quiet = matches!(event.op, Op::KernelEnter | Op::KernelLeave) && event.addr == 0;
    if !quiet {
        put(text, addr, event.addr);
    }
    // The pages of a mapping come before its flags, as in the description of the operation.
    if event.count != shape.count && count.0 == "pages" {
        put(text, count, event.count.into());
    }
    if event.size != 0 {
        put(text, size, event.size.into());
    }
    if event.count != shape.count && count.0 != "pages" {
        put(text, count, event.count.into());
    }
    for (shown, value) in [(arg0, event.arg0), (arg1, event.arg1)] {
        if let Some(value) = value {
            put(text, shown, value);
        }
    }
    text.push('\n');
}

fn put(text: &mut String, (name, style): Shown, value: u64) {
    let _ = match style {
        Style::Address => write!(text, " {value:#x}"),
        Style::Hex => write!(text, " {name}={value:#x}"),
        Style::Flags if value & !u64::from(map_flags::ALL) == 0 => {
            let letters = MAP_FLAGS.iter().filter_map(|&(flag, letter, _, always)| {
                let set = value & u64::from(flag) != 0;
                if set { Some(letter) } else { always.then_some('-') }
            });
            write!(text, " {name}={}", letters.collect::<String>())
        }
        Style::Cause => match Cause::from_code(value) {
            Some(cause) => write!(text, " {name}={}", cause.name()),
            None => write!(text, " {name}={value}"),
        },
        _ => write!(text, " {name}={value}"),
    };
}

/// Returns the value that a text means in a style; `None` if the text has no value in this style.
pub(crate) fn value_of(style: Style, text: &str) -> Option<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    };
    match style {
        Style::Cause => {
            number.or_else(|| Cause::ALL.iter().find(|cause| cause.name() == text).map(|&cause| cause as u64))
        }
        Style::Flags => number.or_else(|| {
            let mut left = text.chars().peekable();
            let mut flags = 0;
            for (flag, letter, _, always) in MAP_FLAGS {
                match left.peek() {
                    Some(&next) if next == letter => flags |= flag,
                    Some('-') if always => {}
                    _ if always => return None,
                    _ => continue,
                }
                left.next();
            }
            left.next().is_none().then_some(flags.into())
        }),
        _ => number,
    }
}

fn put_json(text: &mut String, event: &Event) {
    let Event { op, addr, size, count, arg0, arg1 } = event;
    let _ = write!(text, r#"{{"op":"{}","addr":{addr},"size":{size},"count":{count}"#, op.name());
    for (name, value) in [("arg0", arg0), ("arg1", arg1)] {
        if let Some(value) = value {
            let _ = write!(text, r#","{name}":{value}"#);
        }
    }
    text.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_shape() {
        for (code, shape) in SHAPES.iter().enumerate() {
            assert_eq!(shape.op as usize, code);
        }
        let missing = Op::ALL.get(SHAPES.len()).map(|op| op.name());
        assert_eq!(missing, None, "{}: `SHAPES` has no line for this event", file!());
    }

    #[test]
    fn lines_are_as_documented() {
        let event = |op, addr, size, count, arg0, arg1| Event { op, addr, size, count, arg0, arg1 };
        let lines = [
            (event(Op::Fetch, 0x40_1000, 12, 3, None, None), "fetch 0x401000 size=12 count=3"),
            (event(Op::Load, 0x7ffe_0010, 8, 1, None, None), "load 0x7ffe0010 size=8"),
            (event(Op::Store, 0, 0, 2, None, Some(7)), "store 0x0 count=2 arg1=7"),
            (
                event(Op::Switch, 3, 17, 0, Some(0), Some(232)),
                "switch asid=3 tid=17 cause=system-call call=232",
            ),
            (event(Op::Switch, 0, 0, 0, Some(9), None), "switch asid=0 cause=9"),
            (
                event(Op::Map, 0x7f00_0000_0000, 5, 12, Some(5), Some(0x1000)),
                "map 0x7f0000000000 pages=12 flags=r-x segment=5 offset=0x1000",
            ),
            (event(Op::Map, 0x1000, 27, 1, None, None), "map 0x1000 pages=1 flags=rw-sg"),
            (event(Op::Protect, 0x1000, 64, 1, None, None), "protect 0x1000 pages=1 flags=64"),
            (event(Op::Fork, 2, 0, 0, Some(1), None), "fork asid=2 parent=1"),
            (event(Op::Time, 12, 0, 0, None, None), "time ns=12"),
            (event(Op::KernelEnter, 0, 0, 14, None, None), "kernel-enter cause=14"),
            (event(Op::KernelLeave, 0, 0, 0, None, None), "kernel-leave"),
        ];
        for (event, line) in lines {
            let mut text = String::new();
            put_line(&mut text, &event);
            assert_eq!(text, format!("{line}\n"));
        }
    }
}
