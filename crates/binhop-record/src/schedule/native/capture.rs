//! `capture` captures a run of the command with the kernel's tracing (`Documentation/trace/ftrace.rst`), on one
//! processor.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use binhop_base::{Problem, Result};

use super::observed::{ObservedOrder, TraceParser};

/// The directories at which the kernel's tracing may be mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The events that are traced.
const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_process_exec",
    "task/task_newtask",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
];
/// `O_NONBLOCK` of Linux (`asm-generic/fcntl.h`). The kernel's pipe never ends, so a read must not wait.
const O_NONBLOCK: i32 = 0o4000;
/// The pause after the pipe was empty. The buffer holds many times what a processor does in this time.
const PAUSE: Duration = Duration::from_millis(2);
/// The size of the buffer: room for about 300,000 unread events.
const BUFFER_KIB: &str = "32768";

/// Returns why a native schedule cannot be observed here; `None` if it can.
#[must_use]
pub fn obstacle() -> Option<String> {
    let Some(tracing) = mounted() else {
        return Some(
            "the kernel's tracing is not mounted at /sys/kernel/tracing, or may not be read: be root".into(),
        );
    };
    match Instance::create(&tracing, "probe") {
        Ok(_) => None,
        Err(error) => Some(format!("{}/instances cannot be written ({error}): be root", tracing.display())),
    }
}

/// Runs a command natively, on one processor, and observes which of its processes runs when. The command's
/// input and output are this process's. `started` gets the command's process id once the command runs, so
/// that signals can be passed on.
///
/// # Errors
/// Tracing is not permitted; the command cannot be started.
pub fn capture(command: &[String], started: impl FnOnce(u32)) -> Result<(ObservedOrder, ExitStatus)> {
    let refused = |what: &str| {
        let remedy = "be root, with tracefs mounted; or leave the order to --schedule built-in";
        Problem::request(what, "--schedule native", "the command is observed by the kernel's tracing", remedy)
    };
    let tracing = mounted().ok_or_else(|| refused("no permission"))?;
    let failed = |error: std::io::Error| refused(&error.to_string());
    let processor = processor().map_err(failed)?;
    let instance = Instance::create(&tracing, "run").map_err(failed)?;
    instance.prepare().map_err(failed)?;
    let pipe = instance.path.join(format!("per_cpu/cpu{processor}/trace_pipe"));
    let pipe = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(pipe).map_err(failed)?;
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let reader = thread::spawn(move || read_trace(pipe, &seen));
    let ended = run(command, processor, &instance.path, started);
    let off = instance.write("tracing_on", "0");
    over.store(true, Ordering::Release);
    off.map_err(failed)?;
    let parser = reader.join().expect("the reader does not panic");
    let status = ended.map_err(failed)?;
    Ok((parser.finish(command.to_vec()), status))
}

/// Reads the kernel's lines until the run is over and no line is left.
fn read_trace(pipe: File, over: &AtomicBool) -> TraceParser {
    let (mut parser, mut lines, mut line) = (TraceParser::default(), BufReader::new(pipe), Vec::new());
    loop {
        let last = over.load(Ordering::Acquire);
        match lines.read_until(b'\n', &mut line) {
            Ok(bytes) if bytes > 0 => {
                // A program's name may hold any bytes.
                parser.line(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
            _ if last => return parser,
            _ => thread::sleep(PAUSE), // the pipe is empty
        }
    }
}

/// Runs the command on one processor. A shell sets its own process as the process to trace, starts the
/// tracing, and becomes the command, so that nothing before the command is traced.
fn run(
    command: &[String],
    processor: u32,
    instance: &Path,
    started: impl FnOnce(u32),
) -> std::io::Result<ExitStatus> {
    let script = "echo $$ > \"$1/set_event_pid\" && echo 1 > \"$1/tracing_on\" && shift && exec \"$@\"";
    let mut child = Command::new("taskset");
    child.args(["-c", &processor.to_string(), "sh", "-c", script, "sh"]).arg(instance).args(command);
    let mut child = child.spawn()?;
    started(child.id()); // taskset and the shell become the command, and the id stays
    child.wait()
}

fn mounted() -> Option<PathBuf> {
    TRACING.iter().map(PathBuf::from).find(|path| path.join("instances").is_dir())
}

/// Returns the last processor on which this process may run.
fn processor() -> std::io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let last = allowed.trim().rsplit([',', '-']).next().and_then(|last| last.parse().ok());
    Ok(last.unwrap_or(0))
}

/// `Instance` is a separate instance of the kernel's tracing. It is removed at the end.
struct Instance {
    path: PathBuf,
}

impl Instance {
    fn create(tracing: &Path, purpose: &str) -> std::io::Result<Self> {
        // The name does not use the process's number. A process number is used again, so an instance that a killed
        // process left would block a new instance.
        let random = RandomState::new().hash_one(purpose);
        let path = tracing.join("instances").join(format!("binhop-{random:016x}-{purpose}"));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(self.path.join(file), text)
    }

    fn prepare(&self) -> std::io::Result<()> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", BUFFER_KIB)?;
        self.write("options/event-fork", "1")?;
        EVENTS.iter().try_for_each(|event| self.write(&format!("events/{event}/enable"), "1"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If the instance cannot be removed, an empty buffer stays behind.
        let _ = fs::remove_dir(&self.path);
    }
}
