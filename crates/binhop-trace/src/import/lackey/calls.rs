//! `Calls` puts the system calls of lackey's text together from their pieces.
//!
//! The text of a call ends with its status: `--> [sync] Success(0x0)`, `Failure(0x2)` or `NoWriteResult`.
//! After `--> [async] ...` the thread waits, and a second line `... [async] --> Success(0x4c5)` brings the
//! result. In between, other threads may run, and pieces of the text may stand on lines of their own.
//!
//! No other trace format tells system calls as text: drmemtrace has no arguments, and the recorder writes
//! words.

use super::super::fields::{decimal_from, number};
use binhop_base::counted_notes;

/// The end of a fork's report of its child, before the child's pid.
const CREATED: &str = "created child ";

/// The system calls that make processes.
const FORKS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// The most bytes of the text of a call: two paths of 4096 bytes and the text around them. Longer text is no
/// call.
const LONGEST_TEXT: usize = 10_000;

/// The most calls without a result. Beyond this number the oldest call is dropped and counted.
const MOST_OPEN: usize = 1024;

/// `ThreadId` names a thread by the numbers of the recorded system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadId {
    pub(super) pid: u64,
    pub(super) tid: u32,
}

/// `CallResult` says how a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResult {
    Success(u64),
    Failure,
    /// The call returns to where a signal interrupted the thread.
    NoResult,
}

/// `Call` is a call whose result is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) thread: ThreadId,
    pub(super) number: u32,
    /// The name that Valgrind uses, without `sys_`: `read`, `mmap`, `exit_group`.
    pub(super) name: String,
    /// The text between the parentheses.
    pub(super) text: String,
    pub(super) outcome: CallResult,
}

impl Call {
    /// Returns the argument of an index as a number. Use it only if all arguments up to there are plain
    /// numbers.
    pub(super) fn arg(&self, index: usize) -> Option<u64> {
        let field = self.text.split(',').nth(index)?.trim();
        let field = field.split('(').next()?;
        match field.strip_prefix("0x") {
            Some(digits) => number(digits.as_bytes(), 16),
            None => number(field.as_bytes(), 10),
        }
    }

    /// Returns the path in parentheses behind a pointer: `0x4034bb0(/etc/ld.so.cache), 524288`.
    pub(super) fn path(&self) -> Option<&str> {
        let start = self.text.find('(')? + 1;
        let end = self.text.rfind(')').filter(|&end| end >= start)?;
        Some(&self.text[start..end])
    }
}

/// `OpenCall` is a call without a result.
#[derive(Debug)]
struct OpenCall {
    thread: ThreadId,
    number: u32,
    text: Vec<u8>,
    /// The length of the text of the call itself, if it was reported as `[async] ...`. Its thread then waits.
    waits: Option<usize>,
}

/// `Calls` holds the calls that have no result yet.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The open calls. The call that was written last comes last.
    open: Vec<OpenCall>,
    newest: Option<ThreadId>,
    result: Option<Call>,
    child: Option<(ThreadId, u64)>,
    /// The number of calls that never got a result.
    lost: u64,
    /// The number of pieces that belong to no call.
    stray: u64,
}

impl Calls {
    /// Takes a piece that starts with `SYSCALL[pid,tid](number)`.
    pub(super) fn begin(&mut self, piece: &[u8]) -> Option<()> {
        let (pid, comma) = decimal_from(piece, b"SYSCALL[".len());
        let (tid, bracket) = decimal_from(piece, comma + 1);
        let (number, end) = decimal_from(piece, bracket + 2);
        let marks = (piece.get(comma)?, piece.get(bracket..bracket + 2)?, piece.get(end)?);
        if marks != (&b',', b"](", &b')') || end == bracket + 2 {
            return None;
        }
        let thread = ThreadId { pid: u64::from(pid), tid };
        let text = piece[end + 1..].trim_ascii_start();
        self.newest = Some(thread);
        let before = self.open.iter().position(|open| open.thread == thread).map(|at| self.open.remove(at));
        let open = match before {
            Some(mut open) if text.starts_with(b"...") && open.number == number => {
                open.text.truncate(open.waits.unwrap_or(open.text.len()));
                open
            }
            before => {
                self.lost += u64::from(before.is_some());
                OpenCall { thread, number, text: Vec::new(), waits: None }
            }
        };
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
            self.lost += 1;
        }
        self.open.push(OpenCall { waits: None, ..open });
        self.append(text)
    }

    /// Takes a piece without a label. It continues the last open call that does not wait.
    ///
    /// Returns `Some(false)` if there is no such call and the piece is the result that a forked child reports
    /// a second time. Returns `None` if the text is no piece of a call.
    pub(super) fn go_on(&mut self, piece: &[u8]) -> Option<bool> {
        let Some(at) = self.open.iter().rposition(|open| open.waits.is_none()) else {
            let stray = piece.trim_ascii();
            self.stray += u64::from(!stray.is_empty());
            return (stray.is_empty() || stray.starts_with(b"-->") || stray.starts_with(b"["))
                .then_some(false);
        };
        let open = self.open.remove(at);
        self.newest = Some(open.thread);
        self.open.push(open);
        self.append(piece).map(|()| true)
    }

    /// Adds a piece to the last call. If the call is complete now, its result is set.
    fn append(&mut self, piece: &[u8]) -> Option<()> {
        let open = self.open.last_mut()?;
        if open.text.len() + piece.len() > LONGEST_TEXT {
            return None;
        }
        open.text.extend_from_slice(piece);
        let text = String::from_utf8_lossy(&open.text);
        if let Some((_, born)) = text.rsplit_once(CREATED) {
            let (child, end) = decimal_from(born.as_bytes(), 0);
            // The text before the arrow is complete once the arrow is there.
            if end > 0 && text.contains("-->") {
                self.child = Some((open.thread, u64::from(child)));
            }
        }
        let Some((call, status)) = text.rsplit_once("--> ") else { return Some(()) };
        let status = match status.strip_prefix('[') {
            Some(kind) => kind.split_once(']').map_or("", |(_, status)| status).trim_start(),
            None => status,
        };
        if status.starts_with("...") {
            open.waits = Some(call.len());
            return Some(());
        }
        let Some(outcome) = outcome(status) else { return Some(()) };
        let (name, text) = name_and_text(call);
        // The fork of a parent never returns 0, but the child may report its return before the parent names
        // the child.
        if FORKS.contains(&name.as_str()) && outcome == CallResult::Success(0) && !call.contains(CREATED) {
            let length = call.len();
            open.text.truncate(length);
            return Some(());
        }
        let call = Call { thread: open.thread, number: open.number, name, text, outcome };
        self.open.pop();
        self.result = Some(call);
        Some(())
    }

    /// Returns the thread of the call that the last piece belonged to.
    pub(super) fn newest(&self) -> Option<ThreadId> {
        self.newest
    }

    /// Returns whether the last piece belonged to an open call of this name.
    pub(super) fn enters(&self, name: &str) -> bool {
        let text = self.open.last().filter(|open| Some(open.thread) == self.newest).map(|open| &open.text);
        text.is_some_and(|text| text.strip_prefix(b"sys_").unwrap_or(text).starts_with(name.as_bytes()))
    }

    /// Takes the call that the last piece completed.
    pub(super) fn take_result(&mut self) -> Option<Call> {
        self.result.take()
    }

    /// Takes the parent and the pid of the child, if the last piece was a fork.
    pub(super) fn take_child(&mut self) -> Option<(ThreadId, u64)> {
        self.child.take()
    }

    /// Returns the number of the call that a thread is in.
    pub(super) fn inside(&self, thread: ThreadId) -> Option<u32> {
        self.open.iter().find(|open| open.thread == thread).map(|open| open.number)
    }

    /// Drops the open calls of a process that has begun a new program: its execve does not return.
    pub(super) fn forget(&mut self, pid: u64) {
        self.open.retain(|open| open.thread.pid != pid);
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let lost = self.lost + self.open.len() as u64;
        counted_notes([
            (
                lost,
                ["system call is", "system calls are"],
                "left out, because the text does not hold the result",
            ),
            (
                self.stray,
                ["piece of a system call is", "pieces of system calls are"],
                "left out, because the text does not hold the call",
            ),
        ])
    }
}

/// Returns the result in `Success(0x340)`, `Failure(0x2)` or `NoWriteResult`, if the text is complete.
fn outcome(status: &str) -> Option<CallResult> {
    if status.starts_with("NoWriteResult") {
        return Some(CallResult::NoResult);
    }
    let (kind, rest) = status.split_once("(0x")?;
    let (digits, _) = rest.split_once(')')?;
    let value = number(digits.as_bytes(), 16)?;
    match kind {
        "Success" => Some(CallResult::Success(value)),
        "Failure" => Some(CallResult::Failure),
        _ => None,
    }
}

/// Returns name and arguments: `read` and `3, 0x1ffe, 832` for `sys_read ( 3, 0x1ffe, 832 )[sync]`.
fn name_and_text(piece: &str) -> (String, String) {
    let name = piece.split([' ', '(', '[']).next().unwrap_or("");
    let inner = piece.get(name.len()..).unwrap_or("");
    let start = inner.find('(').map_or(inner.len(), |at| at + 1);
    // The report of a fork follows its arguments: `sys_clone ( 1200011, 0x0 ) clone(fork): process 1 created
    // child 2`.
    let arguments = inner.get(start..).unwrap_or("");
    let arguments = arguments.split("   clone(fork): ").next().unwrap_or(arguments);
    let end = arguments.rfind(')').unwrap_or(arguments.len());
    (name.trim_start_matches("sys_").to_string(), arguments[..end].trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ThreadId = ThreadId { pid: 7, tid: 1 };

    fn call(number: u32, name: &str, text: &str, outcome: CallResult) -> Option<Call> {
        Some(Call { thread: ONE, number, name: name.into(), text: text.into(), outcome })
    }

    #[test]
    fn calls_on_whole_lines_are_read() {
        let cases: [(&str, Option<Call>); 7] = [
            (
                "SYSCALL[7,1](3) sys_close ( 3 )[sync] --> Success(0x0) ",
                call(3, "close", "3", CallResult::Success(0)),
            ),
            (
                "SYSCALL[7,1](21) sys_access ( 0x402a2a0(/etc/ld.so.preload), 4 )[sync] --> Failure(0x2) ",
                call(21, "access", "0x402a2a0(/etc/ld.so.preload), 4", CallResult::Failure),
            ),
            (
                "SYSCALL[7,1](39) sys_getpid ()[sync] --> Success(0x1f48) ",
                call(39, "getpid", "", CallResult::Success(0x1f48)),
            ),
            (
                "SYSCALL[7,1](231) exit_group( 0 ) --> [pre-success] Success(0x0) ",
                call(231, "exit_group", "0", CallResult::Success(0)),
            ),
            (
                "SYSCALL[7,1](72) sys_fcntl[ARG3=='arg'] ( 1, 0, 10 )[sync] --> Success(0xb) ",
                call(72, "fcntl", "1, 0, 10", CallResult::Success(11)),
            ),
            (
                "SYSCALL[7,1](15) sys_rt_sigreturn ( ) --> [pre-success] NoWriteResult ",
                call(15, "rt_sigreturn", "", CallResult::NoResult),
            ),
            ("SYSCALL[7,1](0) sys_read ( 3, 0x1ffe, 832 ) --> [async] ... ", None),
        ];
        for (line, expected) in cases {
            let mut calls = Calls::default();
            calls.begin(line.as_bytes()).unwrap();
            assert_eq!((calls.newest(), calls.take_result()), (Some(ONE), expected), "{line}");
        }
    }

    #[test]
    fn other_calls_may_end_before_an_async_call() {
        let mut calls = Calls::default();
        calls.begin(b"SYSCALL[7,1](0) sys_read ( 3, 0x1ffe, 832 ) --> [async] ... ").unwrap();
        assert_eq!(calls.inside(ONE), Some(0));
        calls.begin(b"SYSCALL[7,2](3) sys_close ( 4 )[sync] --> Success(0x0) ").unwrap();
        assert_eq!(calls.take_result().map(|call| call.thread.tid), Some(2));
        calls.begin(b"SYSCALL[7,1](0) ... [async] --> Success(0x340) ").unwrap();
        assert_eq!(calls.take_result(), call(0, "read", "3, 0x1ffe, 832", CallResult::Success(0x340)));
        assert_eq!(calls.inside(ONE), None);
        assert!(calls.notes().is_empty());
    }

    #[test]
    fn a_call_in_pieces_is_put_together() {
        for pieces in [
            &["SYSCALL[7,1](0) ", "sys_read ( 3, 0x1ffe, 832 )", "[sync] --> Success(0x340)", " "][..],
            &["SYSCALL[7,1](0) sys_read ( 3, 0x1ffe", ", 832 )", " --> [pre-success] ", "Success(0x340)"],
            &[
                "SYSCALL[7,1](0) sys_read ( 3, 0x1ffe, 832 ) --> [async] ",
                "... ",
                "SYSCALL[7,1](0) ... [async] --> ",
                "Success(0x340) ",
            ],
        ] {
            let mut calls = Calls::default();
            let mut result = None;
            for piece in pieces {
                if piece.starts_with("SYSCALL") {
                    calls.begin(piece.as_bytes()).unwrap();
                } else {
                    calls.go_on(piece.as_bytes()).unwrap();
                }
                result = calls.take_result().or(result);
            }
            assert_eq!(result, call(0, "read", "3, 0x1ffe, 832", CallResult::Success(0x340)), "{pieces:?}");
        }
    }

    #[test]
    fn a_fork_names_its_child() {
        let mut calls = Calls::default();
        calls
            .begin(b"SYSCALL[7,1](56) sys_clone ( 1200011, 0x0, 0x0, 0x4a27a10, 0x0 )   clone(fork): process 7 created child 9")
            .unwrap();
        assert_eq!(calls.take_child(), None);
        assert_eq!(calls.go_on(b" --> [pre-success] Success(0x9) "), Some(true));
        assert_eq!(calls.take_child(), Some((ONE, 9)));
        let call = calls.take_result().unwrap();
        assert_eq!(
            (call.name.as_str(), call.arg(4), call.outcome),
            ("clone", Some(0), CallResult::Success(9))
        );
        // The child reports its own return, without a label.
        assert_eq!(calls.go_on(b" --> [pre-success] Success(0x0)"), Some(false));
    }

    #[test]
    fn a_child_may_report_before_its_parent_names_it() {
        for (name, report) in [("clone", "clone(fork)"), ("fork", "fork"), ("vfork", "fork")] {
            let mut calls = Calls::default();
            calls.begin(format!("SYSCALL[7,1](57) sys_{name} ( )").as_bytes()).unwrap();
            assert_eq!(calls.go_on(b" --> [pre-success] Success(0x0)"), Some(true));
            assert_eq!((calls.take_result(), calls.take_child()), (None, None));
            let created = format!("   {report}: process 7 created child 9");
            assert_eq!(calls.go_on(created.as_bytes()), Some(true));
            assert_eq!(calls.go_on(b" --> [pre-success] Success(0x9) "), Some(true));
            assert_eq!(calls.take_child(), Some((ONE, 9)));
            assert_eq!(calls.take_result(), call(57, name, "", CallResult::Success(9)), "{name}");
        }
    }

    #[test]
    fn arguments_and_paths_are_found() {
        let call = Call {
            thread: ONE,
            number: 257,
            name: "openat".into(),
            text: "4294967196, 0x1ffefffd50(/a (b), c/libc.so.6), 524288".into(),
            outcome: CallResult::Failure,
        };
        assert_eq!(
            (call.arg(0), call.arg(1), call.arg(9)),
            (Some(0xffff_ff9c), Some(0x001f_feff_fd50), None)
        );
        assert_eq!(call.path(), Some("/a (b), c/libc.so.6"));
    }

    #[test]
    fn text_that_is_no_call_is_refused() {
        for wrong in [
            "SYSCALL[",
            "SYSCALL[7]",
            "SYSCALL[7,1]",
            "SYSCALL[7,1](",
            "SYSCALL[7,1]()",
            "SYSCALL[7,1](x) sys",
        ] {
            assert_eq!(Calls::default().begin(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Calls::default().go_on(b"hello"), None);
        let mut calls = Calls::default();
        calls.begin(b"SYSCALL[7,1](0) sys_read ( 3").unwrap();
        assert_eq!(calls.go_on(&[b'x'; LONGEST_TEXT]), None);
    }
}
