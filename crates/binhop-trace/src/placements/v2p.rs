//! A map of virtual to physical addresses is the placement of a real machine, for the policy `recorded`.
//!
//! A map is text in one of three forms, and its content tells the form. Blank lines and `#` comments may
//! stand anywhere, and the file may be packed. (`pagemap.rs` reads raw pagemaps, which are recognized by a
//! second file beside them.)
//!
//! - **`v2p.textproto`**, as in Google's workload traces: `address_mapping_group { page_size: N address_mapping {
//!   virtual_address: V physical_address: P } … }`, with several groups if pages have several sizes. All
//!   pages belong to address space 0. Other fields and blocks are skipped.
//! - **`page-types`** of the Linux kernel (`tools/mm`), with `-p PID -l` or `-p PID -L`, run as root: the line
//!   `voffset offset [len] flags`, then hexadecimal numbers of pages of 4096 bytes. All pages belong to
//!   address space 0.
//! - **Lines** `[ASID:]VIRTUAL PHYSICAL`: the addresses of a page in hexadecimal, and the decimal number of its address
//!   space if it is not 0. A line `page_size N` (decimal) gives the size of the pages in the lines below it.
//!   Until then a page has 4096 bytes.
//!
//! A map names a page once. A page that the map does not name has no frame: a run that touches the page ends
//! with an error that names it.

use std::io::BufReader;

use binhop_base::{Problem, Result};

use super::lines::{LONG_RULE, LONGEST_LINE, PAGE_RULE, USUAL_PAGE, hexadecimal, is_too_long, next_line};
use super::{Placements, Span, pagemap};
use crate::input::Input;

const REMEDY: &str = "see docs/placement.md for the forms of text: v2p.textproto, the output of page-types, or lines `[ASID:]VIRTUAL PHYSICAL`";

/// Reads a map from a file, or a raw pagemap if its file of maps exists.
///
/// # Errors
/// The file cannot be read, a line has none of the forms, an address is no multiple of its page, or there is
/// no page.
pub fn read(path: &str) -> Result<Placements> {
    match pagemap::maps_beside(path) {
        Some(maps) => pagemap::read(path, &maps),
        None => read_from(Input::open(path)?),
    }
}

/// Reads a map from any input.
///
/// # Errors
/// The errors are those of [`read`].
pub fn read_from(input: Input) -> Result<Placements> {
    let mut map = Map { name: input.name().to_owned(), page: USUAL_PAGE, ..Map::default() };
    let mut text = BufReader::with_capacity(LONGEST_LINE as usize, input);
    let mut line = Vec::new();
    loop {
        next_line(&mut text, &mut line)?;
        if line.is_empty() {
            break;
        }
        map.number += 1;
        if line.contains(&0) {
            return Err(map.wrong(&line[..line.len().min(60)], RAW_RULE));
        }
        if is_too_long(&line) {
            return Err(map.wrong(&line[..60], LONG_RULE));
        }
        if !map.line(&line)? {
            break;
        }
    }
    map.finish()
}

/// Returns whether a file looks like a map: the file of maps of a raw pagemap exists, or the file begins as a
/// `v2p.textproto` or as output of `page-types`. (Lines of addresses look like many other files, and are not
/// recognized.) A pipe is no map and is not opened, because reading would wait for its writer and consume its
/// bytes.
#[must_use]
pub fn is_map(path: &str) -> bool {
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return false;
    }
    if pagemap::maps_beside(path).is_some() {
        return true;
    }
    let mut head = vec![0; 4 << 10];
    let Ok(length) = Input::open(path).and_then(|mut input| input.fill(&mut head)) else { return false };
    let head = String::from_utf8_lossy(&head[..length]);
    head.contains(GROUP) || head.starts_with("voffset")
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Proto,
    /// The flag tells whether a line has a length.
    PageTypes(bool),
    Lines,
}

#[derive(Debug, Default)]
struct Map {
    name: String,
    number: u64,
    form: Form,
    /// The size of the pages that follow.
    page: u64,
    spans: Vec<Span>,
    proto: Proto,
}

/// `Proto` is the position of the reader in a textproto.
#[derive(Debug, Default)]
struct Proto {
    /// The open blocks.
    blocks: Vec<String>,
    /// The field whose value follows.
    field: String,
    virtual_address: Option<u64>,
    physical_address: Option<u64>,
}

/// The names of the blocks that are read, and the deepest nesting.
const GROUP: &str = "address_mapping_group";
const MAPPING: &str = "address_mapping";
const DEEPEST: usize = 16;

impl Map {
    fn wrong(&self, line: &[u8], rule: &str) -> Box<Problem> {
        let shown = line.trim_ascii();
        let shown = shown[..shown.len().min(60)].escape_ascii();
        Problem::request(
            &format!("\"{shown}\""),
            &format!("{}: line {}", self.name, self.number),
            rule,
            REMEDY,
        )
    }

    /// Reads a line. Returns whether the map continues behind it.
    fn line(&mut self, line: &[u8]) -> Result<bool> {
        let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(self.wrong(line, "a map is text"));
        };
        let mut fields = text.split_ascii_whitespace();
        let Some(first) = fields.next() else { return Ok(true) };
        if self.form == Form::Unknown {
            self.form = match first {
                "voffset" => {
                    self.form = Form::PageTypes(fields.any(|field| field == "len"));
                    return Ok(true);
                }
                // The name of a field or a block is a word, and a hexadecimal number is not.
                "page_size" => Form::Lines,
                _ if first.contains('_') || first.contains('{') => Form::Proto,
                _ => Form::Lines,
            };
        }
        let read = match self.form {
            Form::Proto => self.proto_line(text),
            // A table follows the list of pages.
            Form::PageTypes(_) if first == "flags" => return Ok(false),
            Form::PageTypes(runs) => self.page_types_line(text, runs),
            Form::Lines | Form::Unknown => self.plain_line(text),
        };
        read.map(|()| true).map_err(|rule| self.wrong(line, &rule))
    }

    fn plain_line(&mut self, text: &str) -> std::result::Result<(), String> {
        let grammar = "a line of a map is `[ASID:]VIRTUAL PHYSICAL`, hexadecimal addresses, or `page_size N`";
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [first, second] = fields[..] else { return Err(grammar.into()) };
        if first == "page_size" {
            self.page = second.parse().ok().filter(|size: &u64| size.is_power_of_two()).ok_or(PAGE_RULE)?;
            return Ok(());
        }
        let (asid, address) = match first.split_once(':') {
            None => (0, first),
            Some((asid, address)) => (asid.parse().map_err(|_| grammar)?, address),
        };
        let virtual_address = hexadecimal(address).ok_or(grammar)?;
        let physical_address = hexadecimal(second).ok_or(grammar)?;
        self.page_at(asid, virtual_address, physical_address, self.page)
    }

    fn page_types_line(&mut self, text: &str, runs: bool) -> std::result::Result<(), String> {
        let mut numbers = text.split_ascii_whitespace().map(hexadecimal);
        let mut next = || numbers.next().flatten().and_then(|pages| pages.checked_mul(USUAL_PAGE));
        let length = |next: &mut dyn FnMut() -> Option<u64>| if runs { next() } else { Some(USUAL_PAGE) };
        match (next(), next(), length(&mut next)) {
            (Some(virtual_address), Some(physical_address), Some(bytes)) if bytes > 0 => {
                self.page_at(0, virtual_address, physical_address, bytes)
            }
            _ => Err("a line of page-types is virtual page, frame, length (with -l) and flags: hexadecimal numbers of pages".into()),
        }
    }

    fn proto_line(&mut self, text: &str) -> std::result::Result<(), String> {
        let mut rest = text;
        while let Some(start) =
            rest.find(|letter: char| !letter.is_ascii_whitespace() && !matches!(letter, ',' | ';'))
        {
            rest = &rest[start..];
            let length = match rest.as_bytes()[0] {
                b'{' | b'}' | b':' => 1,
                quote @ (b'"' | b'\'') => {
                    rest[1..].find(char::from(quote)).ok_or("a text ends with the quote it starts with")? + 2
                }
                _ => rest
                    .find(|letter: char| letter.is_ascii_whitespace() || "{}:,;\"'".contains(letter))
                    .unwrap_or(rest.len()),
            };
            let (token, behind) = rest.split_at(length);
            self.proto_token(token)?;
            rest = behind;
        }
        Ok(())
    }

    fn proto_token(&mut self, token: &str) -> std::result::Result<(), String> {
        match token {
            ":" => {}
            "{" => {
                if self.proto.blocks.len() == DEEPEST {
                    return Err(format!("blocks stand at most {DEEPEST} deep"));
                }
                self.proto.blocks.push(std::mem::take(&mut self.proto.field));
            }
            "}" => {
                let block = self.proto.blocks.pop().ok_or("a block that ends has begun")?;
                if block == MAPPING {
                    let proto = &mut self.proto;
                    let (Some(from), Some(to)) =
                        (proto.virtual_address.take(), proto.physical_address.take())
                    else {
                        return Err("an address_mapping has a virtual_address and a physical_address".into());
                    };
                    self.page_at(0, from, to, self.page)?;
                }
                self.proto.field.clear();
            }
            name if self.proto.field.is_empty() => name.clone_into(&mut self.proto.field),
            value => {
                let field = std::mem::take(&mut self.proto.field);
                self.proto_field(&field, value)?;
            }
        }
        Ok(())
    }

    fn proto_field(&mut self, field: &str, value: &str) -> std::result::Result<(), String> {
        let number = || {
            let number = value.strip_prefix("0x").map_or_else(|| value.parse().ok(), hexadecimal);
            number.ok_or_else(|| format!("{field} is a number of at most 64 bits"))
        };
        match (self.proto.blocks.last().map(String::as_str), field) {
            (Some(GROUP), "page_size") => {
                self.page = Some(number()?).filter(|size| size.is_power_of_two()).ok_or(PAGE_RULE)?;
            }
            (Some(MAPPING), "virtual_address") => self.proto.virtual_address = Some(number()?),
            (Some(MAPPING), "physical_address") => self.proto.physical_address = Some(number()?),
            _ => {}
        }
        Ok(())
    }

    fn page_at(
        &mut self,
        asid: u32,
        virtual_address: u64,
        physical_address: u64,
        bytes: u64,
    ) -> std::result::Result<(), String> {
        let unit = bytes.min(self.page);
        if !virtual_address.is_multiple_of(unit) || !physical_address.is_multiple_of(unit) {
            return Err(format!("a page of {unit} bytes lies at a multiple of its size, in both memories"));
        }
        let last = bytes - 1;
        if virtual_address.checked_add(last).is_none() || physical_address.checked_add(last).is_none() {
            return Err("a page ends within 64 bits".into());
        }
        self.spans.push(Span { asid, virtual_address, physical_address, bytes });
        Ok(())
    }

    fn finish(self) -> Result<Placements> {
        if let Some(block) = self.proto.blocks.last() {
            return Err(self.wrong(block.as_bytes(), "a block ends with }: the map ends inside this block"));
        }
        if self.spans.is_empty() {
            return Err(self.wrong(b"", "a map names at least one page"));
        }
        Ok(Placements::of_map(self.spans))
    }
}

const RAW_RULE: &str = "a map is text; a raw pagemap has its maps beside it, in a file of its name and .maps";
