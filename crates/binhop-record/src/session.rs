//! `Session` runs a command under the recorder. The processes of the command can be read as streams while it
//! runs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use binhop_base::{Problem, Result};
use binhop_trace::Meta;

use crate::catalog::Catalog;
use crate::code_blocks::FetchRows;
use crate::decode::PAGE;
use crate::piece::ProcessStreams;
use crate::pipes::{MAX_IMAGES, Pipes};
use crate::recorded::RecordedProcesses;
use crate::spool::Spools;

/// `RecordOptions` says what to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The `valgrind` command. `VALGRIND_LIB` in this process's environment names the directory of the
    /// recorder.
    pub valgrind: PathBuf,
    /// The name of the programs whose references are recorded; `None`: all programs.
    pub only: Option<String>,
    /// The instructions that a fetch row stands for.
    pub fetch: FetchRows,
    /// The directory for the recording's pipes and temporary files. The session makes it, and removes it at
    /// the end.
    pub directory: PathBuf,
}

/// `Session` is a command that runs under the recorder.
pub struct Session {
    directory: PathBuf,
    pipes: Option<Pipes>,
    spools: Arc<Spools>,
    catalog: Arc<Mutex<Catalog>>,
    over: Arc<AtomicBool>,
    pid: u32,
    waiter: Option<JoinHandle<std::io::Result<ExitStatus>>>,
    fetch: FetchRows,
    command: String,
}

impl Session {
    /// Starts the command.
    ///
    /// # Errors
    /// The directory cannot be made, or Valgrind cannot be started.
    pub fn start(options: &RecordOptions) -> Result<Self> {
        let directory = options.directory.clone();
        fs::create_dir(&directory).map_err(|error| {
            let remedy = "set TMPDIR to a directory of yours with room";
            Problem::request(&error.to_string(), &directory.display().to_string(), "cannot be made", remedy)
        })?;
        let spools = Arc::new(Spools::new(&directory));
        let pipes = Pipes::listen(&directory, Arc::clone(&spools), MAX_IMAGES);
        let child = pipes.and_then(|pipes| Ok((pipes, launch(options)?)));
        let (pipes, mut child) = child.inspect_err(|_| drop(fs::remove_dir_all(&directory)))?;
        let over = Arc::new(AtomicBool::new(false));
        let pid = child.id();
        let waiter = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || wait(&mut child, &over))
        };
        let words: Vec<_> = options.command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Self {
            directory,
            pipes: Some(pipes),
            spools,
            catalog: Arc::default(),
            over,
            pid,
            waiter: Some(waiter),
            fetch: options.fetch,
            command: words.join(" "),
        })
    }

    /// Returns the streams of the command's processes. Call it once.
    #[must_use]
    pub fn streams(&self) -> Box<dyn ProcessStreams> {
        let (spools, catalog) = (Arc::clone(&self.spools), Arc::clone(&self.catalog));
        Box::new(RecordedProcesses::new(spools, catalog, self.fetch, Arc::clone(&self.over)))
    }

    /// Returns the metadata that are known at the start.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta {
            page_size: Some(PAGE),
            recorder: Some(concat!("binhop record ", env!("CARGO_PKG_VERSION")).to_owned()),
            command: Some(self.command.clone()),
            sizes: Some("exact".to_owned()),
            describes_calls: true,
            ..Meta::default()
        }
    }

    /// Adds the segments and files that the processes have named so far.
    pub fn add_catalog(&self, meta: &mut Meta) {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner).write_to(meta);
    }

    /// Returns the process id of the command.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether the command has ended. Processes that it left behind may still run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns the number of process images so far, and the number of images that still write.
    #[must_use]
    pub fn images(&self) -> (usize, usize) {
        self.spools.images()
    }

    /// Returns why the recording ended before the programs did, if it was given up. The programs run on
    /// unrecorded.
    #[must_use]
    pub fn gave_up(&self) -> Option<String> {
        self.spools.gave_up()
    }

    /// Reads no more: streams end with what has come so far, and programs run on unrecorded.
    pub fn stop(&mut self) {
        self.pipes = None;
    }

    /// Ends the recording, waits for the command's end, and returns how the command ended. Call it once.
    ///
    /// # Errors
    /// The system does not say how the command ended.
    pub fn finish(&mut self) -> Result<ExitStatus> {
        self.stop();
        let waiter = self.waiter.take().expect("a session is finished once");
        let status = waiter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        status.map_err(|error| {
            let rule = "how the command ended is not known";
            Problem::run(&error.to_string(), &self.command, rule, "the trace is complete up to there")
        })
    }

    /// Returns Valgrind's messages about the programs, without its marks: unknown instructions, for example.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        complaints(&self.directory)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn launch(options: &RecordOptions) -> Result<Child> {
    let mut command = Command::new(&options.valgrind);
    // This option comes first. It turns off default options from .valgrindrc here and at home, and from
    // VALGRIND_OPTS.
    command.args([
        "--command-line-only=yes",
        "--tool=binhop",
        "--trace-children=yes",
        "--fair-sched=try",
        "--vgdb=no",
        "-q",
    ]);
    let with = |option: &str, value: &Path| {
        let mut word = OsString::from(option);
        word.push(value);
        word
    };
    command.arg(with("--log-file=", &log_file(&options.directory)));
    command.arg(with("--to=", &options.directory));
    if let Some(only) = &options.only {
        command.arg(format!("--only={only}"));
    }
    // The environment stays as it is. `Command` would sort a changed environment, and programs search their
    // environment in order.
    command.arg("--").args(&options.command);
    command.spawn().map_err(|error| {
        let rule = "Valgrind cannot be started";
        let remedy = "`binhop doctor` says what is missing";
        Problem::request(&error.to_string(), &options.valgrind.display().to_string(), rule, remedy)
    })
}

/// Returns the name of Valgrind's log, one file for each process. A percent sign is doubled, because Valgrind
/// expands a single percent sign.
fn log_file(directory: &Path) -> PathBuf {
    let mut name = Vec::new();
    for &byte in directory.as_os_str().as_bytes() {
        name.extend(if byte == b'%' { &b"%%"[..] } else { std::slice::from_ref(&byte) });
    }
    PathBuf::from(OsString::from_vec(name)).join("valgrind.%p.log")
}

fn wait(child: &mut Child, over: &AtomicBool) -> std::io::Result<ExitStatus> {
    let status = child.wait();
    over.store(true, Ordering::Release);
    status
}

/// Returns the exit code as a shell reports it: the status, or 128 plus the number of the signal.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn complaints(directory: &Path) -> Vec<String> {
    let mut lines = std::collections::BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            let text = fs::read(entry.path()).unwrap_or_default();
            for line in String::from_utf8_lossy(&text).lines() {
                let said =
                    line.trim_start_matches(|c: char| c == '=' || c == '-' || c.is_ascii_digit()).trim();
                if !said.is_empty() {
                    lines.insert(said.to_owned());
                }
            }
        }
    }
    lines.into_iter().take(MAX_COMPLAINTS).collect()
}

/// The most lines of messages that are reported.
const MAX_COMPLAINTS: usize = 20;
