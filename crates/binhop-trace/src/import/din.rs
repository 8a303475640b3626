//! `DinGrammar` reads Dinero's "din": a label, a hexadecimal address, and any text to the end of the line.
//!
//! | label | meaning | becomes |
//! |---|---|---|
//! | 0, 1 | data read, data write | load, store |
//! | 2 | instruction fetch | fetch, joined into runs |
//! | 3 | escape: unknown kind of access | no event; it is counted |
//! | 4 | escape: flush the cache | no event; it is counted |
//!
//! The format has no sizes. As in Dinero IV, a reference is one access of the aligned four-byte word at its
//! address (Dinero IV, NOTES: "forces all accesses to be 4-byte aligned and assumes a size of 4"), and the
//! trace is marked `sizes = "assumed"`. If the third field is a decimal number from 1 to 4096, it is the size
//! of the reference. Any other text there is a comment, as it is for Dinero.

use super::Format;
use super::fields::{fields, hex_from, line_from, number};
use super::lines::{Fault, Grammar, LineImporter};
use super::rows::Rows;
use crate::event::Op;
use crate::input::Input;
use crate::source::Meta;
use binhop_base::counted_notes;

const EXAMPLE: &str = "2 408ed4";

/// The entry of the format in the list.
pub(super) const FORMAT: Format = Format {
    name: "din",
    what: "Dinero III's text: label (0 read, 1 write, 2 fetch, 3 other, 4 flush) and hexadecimal address, perhaps a size",
    example: EXAMPLE.as_bytes(),
    lost: "a reference without a size is taken as the aligned 4-byte word at its address (sizes = \"assumed\"); labels 3 and 4 are left out; one process, no system events",
    extensions: &["din"],
    open: |input| Ok(open(input)),
    directory: None,
};

/// The largest third field that is a size. No instruction moves more bytes.
const LARGEST_SIZE: u64 = 4096;

const RULE: &str = "a din line is a label from 0 to 4, a blank and a hexadecimal address of at most 64 bits";
const REMEDY: &str = "mend or delete the line, or name the right format with --format";

fn open(input: Input) -> Box<LineImporter<DinGrammar>> {
    let meta = Meta { sizes: Some("assumed".into()), ..Meta::default() };
    Box::new(LineImporter::new(input, DinGrammar { meta, ..DinGrammar::default() }))
}

#[derive(Default)]
struct DinGrammar {
    meta: Meta,
    /// The number of references with a size, and without a size.
    sized: u64,
    assumed: u64,
    /// The number of lines whose text behind the address is no size.
    comments: u64,
    /// The number of lines of label 3, and of label 4.
    others: u64,
    flushes: u64,
}

impl DinGrammar {
    /// Reads a line that is more than label, blank, address.
    #[cold]
    fn any_line(&mut self, line: &[u8], rows: &mut Rows) -> Option<()> {
        let mut fields = fields(line);
        let Some(label) = fields.next() else { return Some(()) };
        let [label @ b'0'..=b'4'] = *label else { return None };
        let addr = number(fields.next()?, 16)?;
        let size = fields.next().and_then(|field| {
            let size = number(field, 10).filter(|size| (1..=LARGEST_SIZE).contains(size));
            self.comments += u64::from(size.is_none());
            size
        });
        match size {
            Some(size) if label < b'3' => {
                addr.checked_add(size - 1)?;
                self.sized += 1;
                match label {
                    b'0' => rows.data(Op::Load, addr, size as u32),
                    b'1' => rows.data(Op::Store, addr, size as u32),
                    _ => rows.fetch(addr, size as u32),
                }
            }
            _ => self.word(label, addr, rows),
        }
        Some(())
    }

    /// Reads a reference without a size.
    #[inline]
    fn word(&mut self, label: u8, addr: u64, rows: &mut Rows) {
        match label {
            b'2' => rows.fetch_word(addr),
            b'0' => rows.data_word(Op::Load, addr),
            b'1' => rows.data_word(Op::Store, addr),
            b'3' => {
                self.others += 1;
                return;
            }
            _ => {
                self.flushes += 1;
                return;
            }
        }
        self.assumed += 1;
    }
}

impl Grammar for DinGrammar {
    const EXAMPLE: &'static str = EXAMPLE;

    fn block(&mut self, text: &[u8], rows: &mut Rows) -> Result<(), Fault> {
        let mut at = 0;
        while at < text.len() {
            // Nearly every line is a label, one blank, digits, and a newline.
            if let [label @ b'0'..=b'4', b' ', ..] = text[at..] {
                let (addr, end) = hex_from(text, at + 2);
                if text.get(end) == Some(&b'\n') && (1..=16).contains(&(end - at - 2)) {
                    self.word(label, addr, rows);
                    at = end + 1;
                    continue;
                }
            }
            let (line, next) = line_from(text, at);
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
        if self.assumed == 0 {
            self.meta.sizes = Some("exact".into());
        }
        Ok(())
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn notes(&self) -> Vec<String> {
        counted_notes([
            (
                self.assumed,
                ["reference has", "references have"],
                "no size: a reference becomes the aligned 4-byte word at its address",
            ),
            (
                self.comments,
                ["line has", "lines have"],
                "text behind the address that is not a size from 1 to 4096; the text is ignored as a comment",
            ),
            (self.others, ["line of label 3 (other) is", "lines of label 3 (other) are"], "left out"),
            (
                self.flushes,
                ["line of label 4 (flush) is", "lines of label 4 (flush) are"],
                "left out, so caches stay warm where Dinero would empty them",
            ),
        ])
    }
}
