//! `LackeyGrammar` reads the text of Valgrind's lackey (`--trace-mem=yes`), with system calls and schedule if
//! present.
//!
//! | line | becomes |
//! |---|---|
//! | `I  addr,size` | fetch, joined into runs |
//! | ` L addr,size`, ` S …`, ` M …` | load, store, modify |
//! | `SYSCALL[pid,tid](nr) …` (`--trace-syscalls=yes`) | syscall, map, protect, unmap, fork, exec, exit (see [`calls`], [`processes`]) |
//! | `--pid--   SCHED[tid]: …` (`--trace-sched=yes`) | switch, if another thread or process continues |
//! | `==pid== …`, `--pid-- …`, `**pid** …`, `SCHEDSETJMP…` | the command and the version, for the metadata |
//!
//! Sizes are exact. A reference does not name its thread: it belongs to the thread that last took Valgrind's
//! lock. If several processes run at once and write into one text, this rule is a guess, which is counted and
//! noted. Their lines may also cut each other in pieces. Lackey writes a reference at once and every other
//! line in parts. So a reference is looked for at the end of every line, and the rest of the line continues a
//! system call that has no result yet.

mod calls;
mod descriptors;
mod processes;

use self::calls::Calls;
use self::processes::Processes;
use super::Format;
use super::fields::{decimal_from, hex_from, line_from};
use super::lines::{Fault, Grammar, LineImporter};
use super::rows::Rows;
use crate::event::Op;
use crate::input::Input;
use crate::source::Meta;

const EXAMPLE: &str = " L 1ffefff3f8,8";

/// The entry of the format in the list.
pub(super) const FORMAT: Format = Format {
    name: "lackey",
    what: "Valgrind's `--tool=lackey --trace-mem=yes`, with the lines of --trace-syscalls=yes and --trace-sched=yes if present",
    example: EXAMPLE.as_bytes(),
    lost: "mappings made before the first instruction, iovecs, and whose a reference is while several processes run at once; user mode only",
    extensions: &["lackey"],
    open: |input| Ok(open(input)),
    directory: None,
};

const RULE: &str = "a line is a reference (`I  addr,size`, ` L addr,size`, ` S addr,size`, ` M addr,size`) or a message of Valgrind (`==pid==`, `--pid--`, SYSCALL[…])";
const REMEDY: &str =
    "keep the program's own output apart: valgrind --log-fd=9 … 9>&1 >/dev/null; or delete the line";

fn open(input: Input) -> Box<LineImporter<LackeyGrammar>> {
    Box::new(LineImporter::new(input, LackeyGrammar { processes: Processes::new(), calls: Calls::default() }))
}

struct LackeyGrammar {
    processes: Processes,
    calls: Calls,
}

/// `Reference` is a reference as its line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    op: Op,
    addr: u64,
    size: u32,
}

/// Returns the reference that starts at `at`, and the offset of its newline.
#[inline]
fn reference(text: &[u8], at: usize) -> Option<(Reference, usize)> {
    let op = match text.get(at..at + 3)? {
        b"I  " => Op::Fetch,
        b" L " => Op::Load,
        b" S " => Op::Store,
        b" M " => Op::Modify,
        _ => return None,
    };
    let (addr, comma) = hex_from(text, at + 3);
    let digits = comma - at - 3;
    if !(1..=16).contains(&digits) || text.get(comma) != Some(&b',') {
        return None;
    }
    let (size, end) = decimal_from(text, comma + 1);
    let whole = size > 0 && text.get(end) == Some(&b'\n') && addr.checked_add(u64::from(size) - 1).is_some();
    whole.then_some((Reference { op, addr, size }, end))
}

/// Returns a reference at the end of a line that another process began, and its offset. `line` ends in a
/// newline.
fn trailing_reference(line: &[u8]) -> Option<(usize, Reference)> {
    let comma = line.iter().rposition(|&byte| byte == b',')?;
    let digits = line[..comma].iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    // Lackey pads addresses to eight digits.
    let start = comma.checked_sub(digits + 3).filter(|_| digits >= 8)?;
    reference(line, start).map(|(reference, _)| (start, reference))
}

impl LackeyGrammar {
    #[inline]
    fn push(&mut self, reference: Reference, rows: &mut Rows) {
        if self.processes.switch_is_due() {
            self.processes.switch(&self.calls, rows);
        }
        let Reference { op, addr, size } = reference;
        if op == Op::Fetch {
            rows.fetch(addr, size);
        } else {
            rows.data(op, addr, size);
        }
    }

    /// Reads a line that does not start with a reference.
    #[cold]
    fn other_line(&mut self, line: &[u8], rows: &mut Rows) -> Option<()> {
        if line.starts_with(b"==") || line.starts_with(b"**") {
            let (pid, text) = message(line)?;
            self.banner(pid, text, rows);
            return Some(());
        }
        if let Some((start, reference)) = trailing_reference(line) {
            // The text before the reference was written first.
            self.pieces(&line[..start], rows)?;
            self.push(reference, rows);
            return Some(());
        }
        self.pieces(line.strip_suffix(b"\n").unwrap_or(line), rows)
    }

    fn banner(&mut self, pid: u64, text: &[u8], rows: &mut Rows) {
        if self.processes.banner(pid, text, rows) {
            self.calls.forget(pid);
        }
    }

    /// Splits a line where a message begins behind a piece of another message.
    fn pieces(&mut self, line: &[u8], rows: &mut Rows) -> Option<()> {
        let mut rest = line;
        while !rest.is_empty() {
            let end = (1..rest.len()).find(|&at| starts_message(&rest[at..])).unwrap_or(rest.len());
            let (piece, behind) = rest.split_at(end);
            self.piece(piece, rows)?;
            rest = behind;
        }
        Some(())
    }

    fn piece(&mut self, piece: &[u8], rows: &mut Rows) -> Option<()> {
        if let Some((pid, text)) = message(piece) {
            if piece.starts_with(b"--") {
                self.processes.schedule(pid, text, rows);
            } else {
                self.banner(pid, text, rows);
            }
            return Some(());
        }
        if piece.starts_with(b"SCHEDSETJMP") {
            return Some(());
        }
        if piece.starts_with(b"SYSCALL[") {
            self.calls.begin(piece)?;
        } else if !self.calls.go_on(piece)? {
            return Some(());
        }
        if let Some(child) = self.calls.take_child() {
            self.processes.fork(child, rows);
        }
        let thread = self.calls.newest()?;
        self.processes.named(thread, rows);
        if self.calls.enters("execve") {
            self.processes.execs(thread);
        }
        if let Some(call) = self.calls.take_result() {
            self.processes.called(&call, &self.calls, rows);
        }
        Some(())
    }
}

/// Returns whether a labelled message of Valgrind begins here.
fn starts_message(text: &[u8]) -> bool {
    text.starts_with(b"SYSCALL[") || text.starts_with(b"SCHEDSETJMP") || message(text).is_some()
}

/// Returns the pid and the text of `==12== text`, `--12-- text` or `**12** text`.
fn message(text: &[u8]) -> Option<(u64, &[u8])> {
    let mark = [b"==", b"--", b"**"].into_iter().find(|mark| text.starts_with(*mark))?;
    let (pid, end) = decimal_from(text, 2);
    let rest = text[end..].strip_prefix(mark.as_slice()).filter(|_| end > 2)?;
    Some((u64::from(pid), rest.trim_ascii()))
}

impl Grammar for LackeyGrammar {
    const EXAMPLE: &'static str = EXAMPLE;

    fn block(&mut self, text: &[u8], rows: &mut Rows) -> Result<(), Fault> {
        let mut at = 0;
        while at < text.len() {
            if let Some((reference, end)) = reference(text, at) {
                self.push(reference, rows);
                at = end + 1;
                continue;
            }
            let (line, next) = line_from(text, at);
            if !line.trim_ascii().is_empty() {
                self.other_line(&text[at..next], rows).ok_or_else(|| Fault {
                    at,
                    rule: RULE.into(),
                    remedy: REMEDY.into(),
                })?;
            }
            at = next;
        }
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Fault> {
        self.processes.end(rows);
        Ok(())
    }

    fn meta(&self) -> &Meta {
        self.processes.meta()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.processes.notes();
        notes.extend(self.calls.notes());
        notes
    }
}
