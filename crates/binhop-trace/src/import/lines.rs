//! `LineImporter` reads text formats: blocks of whole lines become batches of rows.
//!
//! A text format is a [`Grammar`], which turns a block of lines into rows. `LineImporter` cuts the input into
//! blocks, joins a line that two blocks share, finds the number of a wrong line, and cuts the rows into
//! batches. Blocks and batches depend on the text alone, and not on how a pipe delivers it.

use binhop_base::{Problem, Result, counted};

use super::Importer;
use super::rows::Rows;
use crate::event::EventBatch;
use crate::input::Input;
use crate::source::Failure;
use crate::source::{Meta, Source};

/// The size of the blocks in which text is parsed. A longer line is a block of its own.
const BLOCK: usize = 256 << 10;

/// The longest line that is accepted, with its newline. A recorder's log and binhop's metadata hold the whole
/// command in one line, and Linux passes a program some megabytes of arguments.
const LONGEST: usize = 16 << 20;

/// A batch is returned once it holds this many rows. The block that reaches the number is finished first.
const BATCH_ROWS: usize = 64 << 10;

/// The most bytes of a wrong line that an error shows.
const SHOWN: usize = 60;

/// `Fault` describes a line that breaks the grammar of its format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The offset in the block of any byte of the line.
    pub(super) at: usize,
    /// The rule that the line breaks.
    pub(super) rule: String,
    /// The remedy.
    pub(super) remedy: String,
}

/// `Grammar` turns the lines of a format into rows.
pub(super) trait Grammar: Send {
    /// An example of a line, which errors show.
    const EXAMPLE: &'static str;

    /// Parses a block of whole lines, each of which ends in a newline.
    fn block(&mut self, text: &[u8], rows: &mut Rows) -> std::result::Result<(), Fault>;
    /// Takes the end of the text.
    fn end(&mut self, rows: &mut Rows) -> std::result::Result<(), Fault>;
    /// Returns what is known about the trace by now.
    fn meta(&self) -> &Meta;
    /// Returns what was skipped or assumed so far.
    fn notes(&self) -> Vec<String>;
}

/// `LineImporter` reads a text format from an input.
pub(super) struct LineImporter<G> {
    input: Input,
    grammar: G,
    rows: Rows,
    /// The block. Its first `carried` bytes are left from the previous block: the start of a line that the
    /// previous block cut in two, or the bytes after a long line.
    block: Vec<u8>,
    carried: usize,
    /// The size of the next block. It exceeds [`BLOCK`] within a long line.
    size: usize,
    /// The number of lines in the blocks before.
    lines: u64,
    ended: bool,
    failed: Failure,
}

impl<G: Grammar> LineImporter<G> {
    pub(super) fn new(input: Input, grammar: G) -> Self {
        Self {
            input,
            grammar,
            rows: Rows::with_capacity(BATCH_ROWS),
            block: vec![0; BLOCK],
            carried: 0,
            size: BLOCK,
            lines: 0,
            ended: false,
            failed: Failure::default(),
        }
    }

    /// Parses blocks until there are rows for a batch or the text ends.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        while !self.ended && self.rows.len() < BATCH_ROWS {
            self.parse_block()?;
        }
        if self.ended && self.rows.references() == 0 {
            return Err(Problem::request(
                &counted(self.lines, ["line", "lines"]),
                self.input.name(),
                "a trace holds at least one reference",
                &format!("check the command that wrote it; a line of this format is `{}`", G::EXAMPLE),
            ));
        }
        Ok((!self.rows.is_empty()).then(|| self.rows.take(BATCH_ROWS)))
    }

    /// Parses the next block of whole lines. At the end of the text it also parses a line without a newline.
    fn parse_block(&mut self) -> Result<()> {
        // One byte stays free for the newline that the last line may lack.
        let room = self.size - 1;
        let filled = if self.carried < room {
            self.block.resize(self.size, 0);
            self.carried + self.input.fill(&mut self.block[self.carried..room])?
        } else {
            self.carried
        };
        self.ended = filled < room;
        let whole = if self.ended {
            let complete = filled == 0 || self.block[filled - 1] == b'\n';
            self.block[filled] = b'\n';
            filled + usize::from(!complete)
        } else {
            whole_lines(&self.block[..filled])
        };
        if whole == 0 && !self.ended && self.size < LONGEST {
            self.carried = filled;
            self.size *= 2;
            return Ok(());
        }
        self.size = BLOCK;
        if whole == 0 && !self.ended {
            let rule = format!("is longer than {room} bytes");
            let remedy = format!("this is no such trace: a line of this format is `{}`", G::EXAMPLE);
            return Err(self.problem(0, &rule, &remedy));
        }
        let parsed = self.grammar.block(&self.block[..whole], &mut self.rows);
        let parsed = match parsed {
            Ok(()) if self.ended => self.grammar.end(&mut self.rows),
            other => other,
        };
        if let Err(fault) = parsed {
            return Err(self.problem(fault.at, &fault.rule, &fault.remedy));
        }
        if self.ended {
            self.rows.end_run();
        }
        self.lines += newlines(&self.block[..whole]);
        self.block.copy_within(whole..filled.max(whole), 0);
        self.carried = filled.saturating_sub(whole);
        if self.block.len() > BLOCK && self.carried < BLOCK {
            self.block.truncate(BLOCK);
            self.block.shrink_to_fit();
        }
        Ok(())
    }

    fn problem(&self, at: usize, rule: &str, remedy: &str) -> Box<Problem> {
        let start = self.block[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let line = &self.block[start..];
        let line = &line[..line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len())];
        let number = self.lines + newlines(&self.block[..start]) + 1;
        Problem::request(&shown(line), &format!("{}: line {number}", self.input.name()), rule, remedy)
    }
}

impl<G: Grammar> Source for LineImporter<G> {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn meta(&self) -> &Meta {
        self.grammar.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

impl<G: Grammar> Importer for LineImporter<G> {
    fn notes(&self) -> Vec<String> {
        self.grammar.notes()
    }

    fn references(&self) -> u64 {
        self.rows.references()
    }

    fn identity(&self) -> Option<String> {
        self.input.identity().map(ToString::to_string)
    }
}

/// Returns the length of the whole lines at the start: as many lines as a block holds, or one longer line.
fn whole_lines(text: &[u8]) -> usize {
    let newline = |&byte: &u8| byte == b'\n';
    let (near, far) = text.split_at(text.len().min(BLOCK));
    match near.iter().rposition(newline) {
        Some(last) => last + 1,
        None => far.iter().position(newline).map_or(0, |end| near.len() + end + 1),
    }
}

fn newlines(text: &[u8]) -> u64 {
    // Newlines are counted in a `u8` over 255 bytes at a time, the most that a `u8` can count. Counting in a
    // `u64` would cost as much as parsing.
    let count = |some: &[u8]| some.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>();
    text.chunks(255).map(|some| u64::from(count(some))).sum()
}

/// Returns a line as an error shows it: quoted, clipped, and with control characters escaped.
fn shown(line: &[u8]) -> String {
    let clipped = &line[..line.len().min(SHOWN)];
    let dots = if line.len() > SHOWN { "…" } else { "" };
    format!("\"{}{dots}\"", clipped.escape_ascii())
}
