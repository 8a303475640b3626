//! `record` runs a command and records it into a trace file. The merge and the file have a thread of their
//! own; the caller's thread handles signals and progress.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use binhop_base::{Problem, Result, counted};
use binhop_record::schedule::native::{Native, capture, obstacle};
use binhop_record::schedule::{BuiltIn, Schedule};
use binhop_record::{FetchRows, Merge, RecordOptions, Session, Window, exit_code};
use binhop_trace::Source;
use binhop_trace::{Kept, TraceWriter, Written};
use pyo3::prelude::*;

use crate::panic::caught;
use crate::problem::{OrRaise, raise};

/// The interval at which signals are checked and the callback is called.
const EVERY: Duration = Duration::from_millis(100);

/// `RecordProgress` says how far a recording is.
#[derive(Default)]
struct RecordProgress {
    references: AtomicU64,
    processes: AtomicU64,
    full: AtomicBool,
}

/// `TraceFile` is the file to write, and the part of the recording that the file keeps.
struct TraceFile {
    output: PathBuf,
    skip: u64,
    limit: Option<u64>,
    threads: usize,
}

/// Records a command into a trace file. `tell(pid, references, processes, over, writing)` is called ten times
/// a second: `over` says whether the command has ended, `writing` is the number of process images that still
/// run. If it returns true, the recording ends.
///
/// `schedule` is the text of an observed order between processes, and its source; without it the built-in
/// schedule is used. Returns the command's exit code, the totals as JSON, and notes.
#[pyfunction]
#[pyo3(signature = (command, output, *, valgrind, directory, only, fetch, schedule, seed, rate, skip, limit, threads, tell))]
#[expect(clippy::too_many_arguments, reason = "they are the command line's options")]
pub(crate) fn record(
    py: Python<'_>,
    command: Vec<OsString>,
    output: PathBuf,
    valgrind: PathBuf,
    directory: PathBuf,
    only: Option<String>,
    fetch: &str,
    schedule: Option<(String, String)>,
    seed: u64,
    rate: u64,
    skip: u64,
    limit: Option<u64>,
    threads: usize,
    tell: Py<PyAny>,
) -> PyResult<(i32, String, Vec<String>)> {
    let fetch = if fetch == "instruction" { FetchRows::Instruction } else { FetchRows::Run };
    let options = RecordOptions { command, valgrind, only, fetch, directory };
    let file = TraceFile { output, skip, limit, threads };
    let schedule: Box<dyn Schedule> = match schedule {
        Some((text, place)) => Box::new(Native::load(&text, &place).or_raise(py)?),
        None => Box::new(BuiltIn::new(seed, rate)),
    };
    let mut raised = None;
    let done = py.detach(|| run(&options, file, schedule, &tell, &mut raised));
    match (raised, done) {
        (Some(error), _) => Err(error),
        (None, Err(problem)) => Err(raise(py, &problem)),
        (None, Ok(done)) => Ok(done),
    }
}

fn run(
    options: &RecordOptions,
    file: TraceFile,
    schedule: Box<dyn Schedule>,
    tell: &Py<PyAny>,
    raised: &mut Option<PyErr>,
) -> Result<(i32, String, Vec<String>)> {
    // The file is created before the program runs, so that a wrong path costs nothing.
    let mut writer = TraceWriter::create(&file.output, &binhop_trace::Meta::default(), file.threads)?;
    writer.set_made_by("record");
    let mut session = Session::start(options)?;
    let merge = Merge::new(session.streams(), schedule, session.meta());
    let mut window = Window::new(merge, file.skip, file.limit);
    let progress = RecordProgress::default();
    let done = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let progress = &progress;
        scope.spawn(move || {
            let done = caught(|| {
                let failed = drain(&mut window, &mut writer, progress).err();
                progress.full.store(window.is_full(), Ordering::Relaxed);
                Ok((writer, window.meta().clone(), failed, window.source().notes()))
            });
            let _ = sender.send(done);
        });
        wait(&receiver, &mut session, progress, tell, raised)
    });
    let mut notes = Vec::new();
    if progress.full.load(Ordering::Relaxed) && !session.is_over() {
        notes.push("the limit was reached: the program ran on unrecorded".to_owned());
    }
    session.stop();
    let mut nothing = false;
    let kept = done.and_then(|(mut writer, mut meta, failed, said)| {
        notes.extend(said);
        session.add_catalog(&mut meta);
        writer.set_meta(&meta);
        nothing = writer.totals().rows() == 0;
        match (writer.finish_what_fits(), failed) {
            (Ok(Kept { written, lost: Some(lost) }), _) => {
                let rule = "the trace cannot grow further".to_owned();
                let remedy = "make room or set --limit, and record again".to_owned();
                Err(cut_short(Problem { rule, remedy, ..*lost }, &file.output, &written))
            }
            (Ok(Kept { written, .. }), Some(failed)) => Err(cut_short(*failed, &file.output, &written)),
            (Ok(Kept { written, .. }), None) => Ok(written),
            // The recording failed, and nothing can be kept. The failure of the recording is reported,
            // because it came first.
            (Err(_), Some(failed)) => {
                nothing = false;
                Err(failed)
            }
            (Err(unkept), None) => Err(unkept),
        }
    });
    notes.extend(session.gave_up());
    // The program runs to its end whatever became of the trace. Signals are handled meanwhile.
    while !session.is_over() {
        std::thread::sleep(EVERY);
        if let Err(error) = report_progress(&session, &progress, tell) {
            *raised = Some(error);
            break;
        }
    }
    let status = session.finish()?;
    notes.extend(session.complaints().into_iter().map(|line| format!("valgrind: {line}")));
    let written = match kept {
        Err(_) if nothing => return Err(nothing_recorded(options, status)),
        kept => kept?,
    };
    let summary = serde_json::json!({
        "totals": written.totals,
        "content_hash": format!("{:016x}", written.content_hash),
        "bytes": written.bytes,
    });
    Ok((exit_code(status), summary.to_string(), notes))
}

/// The result of the thread that reads and writes: the file so far, its metadata, the failure that ended it,
/// and notes on the order.
type Done = Result<(TraceWriter, binhop_trace::Meta, Option<Box<Problem>>, Vec<String>)>;

/// Writes the stream into the file.
fn drain(window: &mut Window<Merge>, writer: &mut TraceWriter, progress: &RecordProgress) -> Result<()> {
    while let Some(batch) = window.next_batch()? {
        writer.push(&batch)?;
        progress.references.store(writer.totals().references, Ordering::Relaxed);
        progress.processes.store(window.source().live() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the problem of a recording that failed although the trace so far is valid. It says what the trace
/// holds.
fn cut_short(failed: Problem, output: &Path, written: &Written) -> Box<Problem> {
    let (references, bytes) = (written.totals.references, written.bytes);
    let references = counted(references, ["reference", "references"]);
    let kept = format!("{} holds the first {references} in {bytes} bytes and is valid", output.display());
    Box::new(Problem { rule: format!("{}, so the recording ended; {kept}", failed.rule), ..failed })
}

/// Returns the problem of a program that ended before its first instruction was recorded: the command is no
/// program, or it was killed while it started.
fn nothing_recorded(options: &RecordOptions, status: ExitStatus) -> Box<Problem> {
    let command = options.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    Problem::request(
        &status.to_string(),
        &command,
        "the program ended before anything of it was recorded, so there is no trace",
        "see what Valgrind said of it above; a program for x86-64 Linux that ran a moment leaves a trace",
    )
}

fn wait(
    receiver: &Receiver<Done>,
    session: &mut Session,
    progress: &RecordProgress,
    tell: &Py<PyAny>,
    raised: &mut Option<PyErr>,
) -> Done {
    loop {
        match receiver.recv_timeout(EVERY) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Problem::run(
                    "no answer",
                    "the recording",
                    "its thread has ended",
                    "report this",
                ));
            }
        }
        match report_progress(session, progress, tell) {
            Ok(false) => {}
            Ok(true) => session.stop(),
            Err(error) => {
                *raised = Some(error);
                session.stop();
            }
        }
    }
}

/// Checks signals and reports how far the recording is. Returns whether the recording must end.
fn report_progress(session: &Session, progress: &RecordProgress, tell: &Py<PyAny>) -> PyResult<bool> {
    Python::attach(|py| {
        py.check_signals()?;
        let counts = (
            session.pid(),
            progress.references.load(Ordering::Relaxed),
            progress.processes.load(Ordering::Relaxed),
            session.is_over(),
            session.images().1,
        );
        tell.call1(py, counts)?.is_truthy(py)
    })
}

/// Returns the reason why this process may not observe the kernel's scheduling; None if it may.
#[pyfunction]
pub(crate) fn tracing_refused() -> Option<String> {
    obstacle()
}

/// Runs a command natively, once, and observes the order between its processes. Returns the order as text for
/// `record`, and the exit code. `started(pid)` is called once the command runs. Signals are handled
/// meanwhile; an exception of a handler is raised at the end.
#[pyfunction]
pub(crate) fn observe(py: Python<'_>, command: Vec<String>, started: Py<PyAny>) -> PyResult<(String, i32)> {
    let mut raised = None;
    let done = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            // The sender lives as long as the run. When it is dropped, the run is over.
            let run = scope.spawn(move || caught(|| capture(&command, |pid| _ = sender.send(pid))));
            loop {
                let pid = match receiver.recv_timeout(EVERY) {
                    Ok(pid) => Some(pid),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let heard = Python::attach(|py| {
                    py.check_signals()?;
                    pid.map_or(Ok(()), |pid| started.call1(py, (pid,)).map(drop))
                });
                raised = raised.take().or(heard.err());
            }
            run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    match raised {
        Some(error) => Err(error),
        None => done.or_raise(py).map(|(observed, status)| (Native::save(&observed), exit_code(status))),
    }
}
