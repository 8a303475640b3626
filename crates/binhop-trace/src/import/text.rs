//! `TextGrammar` reads events as text, as `binhop trace` writes them. [`crate::text`] describes the lines.
//!
//! Each line becomes a row as it is: no fetches are joined, and no value is assumed. Columns may stand in any
//! order, and may have the names of the file (`size`, `count`, `arg0`, `arg1`). A column that a line does not
//! name is 0 or absent; the count of a load, store or modify is 1. Lines that begin with `#` are comments. `#
//! meta` introduces a part of the metadata as JSON, which adds to earlier parts.

use super::Format;
use super::fields::{fields, line_from};
use super::lines::{Fault, Grammar, LineImporter};
use super::rows::Rows;
use crate::event::{Event, Op};
use crate::input::Input;
use crate::source::Meta;
use crate::text::{SHAPES, Style, value_of};

const EXAMPLE: &str = "load 0x7ffe0010 size=8";

/// The entry of the format in the list.
pub(super) const FORMAT: Format = Format {
    name: "text",
    what: "binhop's own lines, as `binhop trace cat` writes them: an event, its address, then columns as name=value",
    example: EXAMPLE.as_bytes(),
    lost: "nothing",
    extensions: &["events"],
    open: |input| Ok(open(input)),
    directory: None,
};

const REMEDY: &str = "mend or delete the line; docs/traces.md says how lines look";

fn open(input: Input) -> Box<LineImporter<TextGrammar>> {
    Box::new(LineImporter::new(input, TextGrammar { meta: Meta::default() }))
}

struct TextGrammar {
    meta: Meta,
}

impl TextGrammar {
    /// Reads a line that begins with `#`: a comment, or a part of the metadata.
    fn comment(&mut self, line: &str) -> std::result::Result<(), String> {
        let Some(part) = line.strip_prefix("# meta ") else { return Ok(()) };
        let part = serde_json::from_str(part)
            .map_err(|error| format!("behind `# meta` stands a part of the metadata as JSON: {error}"))?;
        let Meta {
            page_size,
            recorder,
            command,
            sizes,
            system_calls,
            describes_calls,
            schedule,
            mixed,
            processes,
            segments,
            files,
            file_bytes,
            direct_files,
        } = part;
        let meta = &mut self.meta;
        meta.page_size = page_size.or(meta.page_size);
        for (known, more) in [
            (&mut meta.recorder, recorder),
            (&mut meta.command, command),
            (&mut meta.sizes, sizes),
            (&mut meta.system_calls, system_calls),
            (&mut meta.schedule, schedule),
        ] {
            *known = more.or(known.take());
        }
        meta.describes_calls |= describes_calls;
        meta.mixed.extend(mixed);
        meta.processes.extend(processes);
        meta.segments.extend(segments);
        meta.files.extend(files);
        meta.file_bytes.extend(file_bytes);
        meta.direct_files.extend(direct_files);
        Ok(())
    }
}

/// Returns the event of a line. The error is the rule that the line breaks.
fn event(line: &str) -> std::result::Result<Event, String> {
    let mut fields = fields(line.as_bytes()).map(|field| str::from_utf8(field).expect("fields of a string"));
    let name = fields.next().unwrap_or_default();
    let Some(&op) = Op::ALL.iter().find(|op| op.name() == name) else {
        return Err("a line begins with the name of an event".to_owned());
    };
    let shape = &SHAPES[op as usize];
    let mut columns = [None; 5];
    for field in fields {
        let (column, style, text) = match field.split_once('=') {
            None => (0, Style::Address, field),
            Some((name, text)) => {
                let own = shape.columns.iter().position(|shown| shown.0 == name);
                let plain = ["addr", "size", "count", "arg0", "arg1"].iter().position(|&plain| plain == name);
                let column = own.or(plain).ok_or_else(|| format!("{} has no column {name}", op.name()))?;
                (column, shape.columns[column].1, text)
            }
        };
        let value =
            value_of(style, text).ok_or_else(|| format!("`{field}` holds no value of this column"))?;
        if columns[column].replace(value).is_some() {
            return Err(format!("`{field}` gives its column a second value"));
        }
    }
    let needs = matches!(shape.columns[0].1, Style::Address | Style::Decimal);
    if columns[0].is_none() && needs {
        return Err(format!("{} names {}", op.name(), shape.columns[0].0));
    }
    let small = |value: Option<u64>, usual: u32| match value {
        None => Ok(usual),
        Some(value) => u32::try_from(value).map_err(|_| format!("{value} does not fit into 32 bits")),
    };
    Ok(Event {
        op,
        addr: columns[0].unwrap_or(0),
        size: small(columns[1], 0)?,
        count: small(columns[2], shape.count)?,
        arg0: columns[3],
        arg1: columns[4],
    })
}

impl Grammar for TextGrammar {
    const EXAMPLE: &'static str = EXAMPLE;

    fn block(&mut self, text: &[u8], rows: &mut Rows) -> Result<(), Fault> {
        let mut at = 0;
        while at < text.len() {
            let (line, next) = line_from(text, at);
            let done = match str::from_utf8(line) {
                Err(_) => Err("a line is text in UTF-8".to_owned()),
                Ok(line) if line.starts_with('#') => self.comment(line),
                Ok(line) if fields(line.as_bytes()).next().is_none() => Ok(()),
                Ok(line) => event(line).map(|event| rows.row(&event)),
            };
            done.map_err(|rule| Fault { at, rule, remedy: REMEDY.into() })?;
            at = next;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Rows) -> Result<(), Fault> {
        Ok(())
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
