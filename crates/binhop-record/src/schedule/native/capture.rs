//! A run of the command under the kernel's own tracing (`Documentation/trace/ftrace.rst`), on one processor.

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

/// Where the kernel's tracing is mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What must be seen; the last where the machine has it.
const EVENTS: [&str; 5] = [
    "sched/sched_switch",
    "sched/sched_process_exec",
    "task/task_newtask",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
];
/// `O_NONBLOCK` of Linux (`asm-generic/fcntl.h`): the kernel's pipe has no end to wait for.
const O_NONBLOCK: i32 = 0o4000;
/// Between two looks at a pipe that was empty: the buffer holds what a processor does in that time many times over.
const PAUSE: Duration = Duration::from_millis(2);
/// Room for events that have not been read yet: some 300,000.
const BUFFER_KIB: &str = "32768";

/// Why a native schedule cannot be observed here; `None`: it can.
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

/// Runs a command natively, on one processor, and observes who of its processes runs when. Its input and output are
/// ours. `started` is told its process id once it runs: requests to end are passed on to it.
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
    let follow = thread::spawn(move || follow(pipe, &seen));
    let ended = run(command, processor, &instance.path, started);
    let off = instance.write("tracing_on", "0");
    over.store(true, Ordering::Release);
    off.map_err(failed)?;
    let follower = follow.join().expect("lines are read without a panic");
    let status = ended.map_err(failed)?;
    Ok((follower.finish(command.to_vec()), status))
}

/// Reads the kernel's lines until there is none and the run is over.
fn follow(pipe: File, over: &AtomicBool) -> TraceParser {
    let (mut follower, mut lines, mut line) = (TraceParser::default(), BufReader::new(pipe), Vec::new());
    loop {
        let last = over.load(Ordering::Acquire);
        match lines.read_until(b'\n', &mut line) {
            Ok(bytes) if bytes > 0 => {
                // A program's name need not be text.
                follower.line(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
            _ if last => return follower,
            _ => thread::sleep(PAUSE), // nothing was traced lately
        }
    }
}

/// Runs the command on one processor. The shell that becomes the command says whom to trace, and starts it, so that
/// nothing before is seen.
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
    started(child.id()); // taskset and the shell become the command: its id stays
    child.wait()
}

fn mounted() -> Option<PathBuf> {
    TRACING.iter().map(PathBuf::from).find(|path| path.join("instances").is_dir())
}

/// The last processor this process may run on.
fn processor() -> std::io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let last = allowed.trim().rsplit([',', '-']).next().and_then(|last| last.parse().ok());
    Ok(last.unwrap_or(0))
}

/// A trace of our own beside whatever else is traced; removed in the end.
struct Instance {
    path: PathBuf,
}

impl Instance {
    fn create(tracing: &Path, purpose: &str) -> std::io::Result<Self> {
        // The name does not use the process's number. Numbers return, and an instance that a killed process
        // left would block this one.
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
        // What is left behind when it cannot be removed is an empty buffer.
        let _ = fs::remove_dir(&self.path);
    }
}
