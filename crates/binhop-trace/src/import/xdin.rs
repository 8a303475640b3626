//! `XdinGrammar` reads Dinero IV's extended "din": a letter, a hexadecimal address, a hexadecimal size, and a
//! comment.
//!
//! | letter | meaning | becomes |
//! |---|---|---|
//! | r, w | data read, data write | load, store |
//! | i | instruction fetch | fetch, joined into runs |
//! | m | miscellaneous | load, because Dinero IV counts it as a read; it is counted |
//! | c, v | copy back, invalidate | no event; they are counted |
//!
//! Sizes are exact. They are hexadecimal, as Dinero IV's own converters write them (`pixie32`: `%c %x %x`).

use super::Format;
use super::fields::{fields, hex_from, line_from, number};
use super::lines::{Fault, Grammar, LineImporter};
use super::rows::Rows;
use crate::event::Op;
use crate::input::Input;
use crate::source::Meta;
use binhop_base::counted_notes;

const EXAMPLE: &str = "r 7fffd8c7c 4";

/// The entry of the format in the list.
pub(super) const FORMAT: Format = Format {
    name: "xdin",
    what: "Dinero IV's text: letter (r read, w write, i fetch, m other, c copy back, v invalidate), hexadecimal address, hexadecimal size",
    example: EXAMPLE.as_bytes(),
    lost: "c and v are left out, m becomes a load; one process, no system events",
    extensions: &["xdin"],
    open: |input| Ok(open(input)),
    directory: None,
};

const RULE: &str = "an xdin line is one of r, w, i, m, c, v, then a hexadecimal address of at most 64 bits, then a hexadecimal size from 1 to ffffffff that stays within them";
const REMEDY: &str =
    "mend or delete the line, or name the right format with --format (din has digits for labels)";

fn open(input: Input) -> Box<LineImporter<XdinGrammar>> {
    let meta = Meta { sizes: Some("exact".into()), ..Meta::default() };
    Box::new(LineImporter::new(input, XdinGrammar { meta, others: 0, copybacks: 0, invalidates: 0 }))
}

struct XdinGrammar {
    meta: Meta,
    others: u64,
    copybacks: u64,
    invalidates: u64,
}

impl XdinGrammar {
    /// Reads a line that is more than letter, address, size, with one blank between them.
    #[cold]
    fn any_line(&mut self, line: &[u8], rows: &mut Rows) -> Option<()> {
        let mut fields = fields(line);
        let Some(label) = fields.next() else { return Some(()) };
        let [label] = *label else { return None };
        let addr = number(fields.next()?, 16)?;
        let size = number(fields.next()?, 16)?;
        self.reference(label, addr, u32::try_from(size).ok()?, rows)
    }

    #[inline]
    fn reference(&mut self, label: u8, addr: u64, size: u32, rows: &mut Rows) -> Option<()> {
        // A copy back or an invalidation of 0 bytes means the whole cache.
        if !matches!(label, b'c' | b'v') {
            addr.checked_add(u64::from(size.checked_sub(1)?))?;
        }
        match label {
            b'i' => rows.fetch(addr, size),
            b'r' => rows.data(Op::Load, addr, size),
            b'w' => rows.data(Op::Store, addr, size),
            b'm' => {
                self.others += 1;
                rows.data(Op::Load, addr, size);
            }
            b'c' => self.copybacks += 1,
            b'v' => self.invalidates += 1,
            _ => return None,
        }
        Some(())
    }
}

impl Grammar for XdinGrammar {
    const EXAMPLE: &'static str = EXAMPLE;

    fn block(&mut self, text: &[u8], rows: &mut Rows) -> Result<(), Fault> {
        let mut at = 0;
        while at < text.len() {
            let (line, next) = match short_line(text, at) {
                Some((label, addr, size, end)) if self.reference(label, addr, size, rows).is_some() => {
                    at = end + 1;
                    continue;
                }
                _ => line_from(text, at),
            };
            self.any_line(line, rows).ok_or_else(|| Fault {
                at,
                rule: RULE.into(),
                remedy: REMEDY.into(),
            })?;
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
        counted_notes([
            (
                self.others,
                ["line of label m (other) becomes a load", "lines of label m (other) become loads"],
                "of the same address",
            ),
            (
                self.copybacks,
                ["line of label c (copy back) is", "lines of label c (copy back) are"],
                "left out",
            ),
            (
                self.invalidates,
                ["line of label v (invalidate) is", "lines of label v (invalidate) are"],
                "left out, so lines stay where Dinero would drop them",
            ),
        ])
    }
}

/// Reads the usual line: letter, blank, address, blank, size, newline. The last value returned is the offset
/// of the newline.
#[inline]
fn short_line(text: &[u8], at: usize) -> Option<(u8, u64, u32, usize)> {
    let [label, b' ', ..] = text[at..] else { return None };
    let (addr, blank) = hex_from(text, at + 2);
    let (size, end) = hex_from(text, blank + 1);
    let plain = text.get(blank) == Some(&b' ') && text.get(end) == Some(&b'\n');
    let fits = (1..=16).contains(&(blank - at - 2)) && (1..=8).contains(&(end - blank - 1));
    (plain && fits).then_some((label, addr, size as u32, end))
}
