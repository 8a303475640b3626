//! `ObservedOrder` is the observed order of a native run. `TraceParser` reads it from the kernel's trace.

use std::collections::HashMap;

use binhop_trace::event::Cause;
use serde::{Deserialize, Serialize};

/// `ObservedOrder` is the order in which the processes of a command ran on one processor, without a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedOrder {
    /// The command.
    pub command: Vec<String>,
    /// The processes, the command's own first, in the order in which they were made.
    pub processes: Vec<ObservedProcess>,
    /// The turns, in order of time.
    #[serde(rename = "runs")]
    pub turns: Vec<ObservedTurn>,
    /// The number of events that the kernel lost.
    pub lost: u64,
}

/// `ObservedProcess` is a process of the native run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedProcess {
    /// The parent's place in the list of processes.
    pub parent: Option<usize>,
    /// The system calls, in order: the number, and the microseconds that the process ran since the call
    /// before returned.
    pub calls: Vec<(u32, u64)>,
}

/// `ObservedTurn` is a time in which one process had the processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTurn {
    /// The process's place in the list of processes.
    pub process: usize,
    /// The turn's start, in microseconds since the command began.
    pub start: u64,
    /// The number of system calls that the process had entered when it left.
    pub calls: usize,
    /// The microseconds that the process had run since its last call returned; 0 if it left inside the call.
    pub ran: u64,
    /// Why the process left the processor.
    pub end: TurnEnd,
}

/// `TurnEnd` says why a process left the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEnd {
    /// The process waited in the last call that it entered.
    SystemCall,
    /// The process waited outside a call, for a page.
    PageFault,
    /// The process could have run on.
    Involuntary,
    /// The process ended.
    Exit,
}

impl TurnEnd {
    /// Returns the cause that a trace's switch has.
    #[must_use]
    pub const fn cause(self) -> Cause {
        match self {
            Self::SystemCall => Cause::SystemCall,
            Self::PageFault => Cause::PageFault,
            Self::Involuntary => Cause::Involuntary,
            Self::Exit => Cause::Exit,
        }
    }
}

/// `Thread` is a thread of the command.
#[derive(Clone, Copy)]
struct Thread {
    process: usize,
    in_call: bool,
}

/// `TraceParser` reads the lines of the kernel's trace (`Documentation/trace/ftrace.rst`) of one processor.
#[derive(Default)]
pub(super) struct TraceParser {
    threads: HashMap<u32, Thread>,
    observed: ObservedOrder,
    /// The time at which the command's own program began, in microseconds.
    began: Option<u64>,
    /// The thread that runs, the start of its turn, and the time from which its run outside calls is counted.
    running: Option<u32>,
    turn_start: u64,
    since: u64,
    /// The microseconds that each process ran since its last call returned, without the time since `since`.
    ran: Vec<u64>,
}

/// `CLONE_THREAD` (`linux/sched.h`).
const CLONE_THREAD: u64 = 0x1_0000;

impl TraceParser {
    pub(super) fn line(&mut self, line: &str) {
        if let Some(lost) = line.trim_start().strip_prefix("CPU:") {
            let number = lost.split_once("[LOST ").and_then(|(_, rest)| rest.split(' ').next());
            self.observed.lost += number.and_then(|number| number.parse().ok()).unwrap_or(1);
        } else if let Some((pid, time, event, rest)) = split(line) {
            self.event(pid, time, event, rest);
        }
    }

    fn event(&mut self, pid: u32, time: u64, event: &str, rest: &str) {
        if self.began.is_none() {
            // The events before the command's own program belong to the shell that starts it.
            if event == "sched_process_exec" {
                self.began = Some(time);
                self.observed.processes.push(ObservedProcess::default());
                self.ran.push(0);
                self.threads.insert(pid, Thread { process: 0, in_call: true });
                (self.running, self.turn_start, self.since) = (Some(pid), time, time);
            }
            return;
        }
        match event {
            "sys_enter" => self.enter(pid, time, rest),
            "sys_exit" => {
                if let Some(thread) = self.threads.get_mut(&pid) {
                    thread.in_call = false;
                    self.ran[thread.process] = 0;
                    self.since = time;
                }
            }
            "task_newtask" => self.newtask(pid, rest),
            "sched_switch" => self.switch(time, rest),
            _ => {}
        }
    }

    fn enter(&mut self, pid: u32, time: u64, rest: &str) {
        let number =
            rest.strip_prefix("NR ").and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse().ok());
        let (Some(thread), Some(number)) = (self.threads.get_mut(&pid), number) else { return };
        thread.in_call = true;
        let ran = std::mem::take(&mut self.ran[thread.process]) + time.saturating_sub(self.since);
        self.observed.processes[thread.process].calls.push((number, ran));
        self.since = time;
    }

    fn newtask(&mut self, pid: u32, rest: &str) {
        let Some(&Thread { process: parent, .. }) = self.threads.get(&pid) else { return };
        let field = |name: &str| rest.split(' ').find_map(|word| word.strip_prefix(name));
        let Some(born) = field("pid=").and_then(|pid| pid.parse().ok()) else { return };
        let flags = field("clone_flags=").and_then(|flags| u64::from_str_radix(flags, 16).ok()).unwrap_or(0);
        let process = if flags & CLONE_THREAD == 0 {
            self.observed.processes.push(ObservedProcess { parent: Some(parent), calls: Vec::new() });
            self.ran.push(0);
            self.observed.processes.len() - 1
        } else {
            parent
        };
        // The new thread is in no call, but the trace may show its return from the call that made it.
        self.threads.insert(born, Thread { process, in_call: false });
    }

    fn switch(&mut self, time: u64, rest: &str) {
        let field = |name: &str| rest.split(' ').find_map(|word| word.strip_prefix(name));
        let number = |name: &str| field(name).and_then(|pid| pid.parse::<u32>().ok());
        if let Some((pid, thread)) = number("prev_pid=").and_then(|pid| Some((pid, *self.threads.get(&pid)?)))
            && self.running == Some(pid)
        {
            self.left(time, thread, field("prev_state=").unwrap_or("R"));
        }
        self.running = number("next_pid=").filter(|pid| self.threads.contains_key(pid));
        (self.turn_start, self.since) = (time, time);
    }

    fn left(&mut self, time: u64, thread: Thread, state: &str) {
        let Thread { process, in_call } = thread;
        if !in_call {
            self.ran[process] += time.saturating_sub(self.since);
        }
        let end = match state.as_bytes().first() {
            Some(b'R') => TurnEnd::Involuntary,
            Some(b'X' | b'Z') => TurnEnd::Exit,
            _ if in_call => TurnEnd::SystemCall,
            _ => TurnEnd::PageFault,
        };
        let turn = ObservedTurn {
            process,
            start: self.turn_start - self.began.unwrap_or(0).min(self.turn_start),
            calls: self.observed.processes[process].calls.len(),
            ran: if in_call { 0 } else { self.ran[process] },
            end,
        };
        // If a foreign process had the processor in between, the turn goes on.
        match self.observed.turns.last_mut() {
            Some(last) if last.process == process && last.end == TurnEnd::Involuntary => {
                *last = ObservedTurn { start: last.start, ..turn };
            }
            _ => self.observed.turns.push(turn),
        }
    }

    pub(super) fn finish(self, command: Vec<String>) -> ObservedOrder {
        ObservedOrder { command, ..self.observed }
    }
}

/// Returns the thread, the microseconds, the event and its text of a line such as
/// `  cc1-77  [001] d..2.  4728.026911: sys_exit: NR 3 = 0`.
fn split(line: &str) -> Option<(u32, u64, &str, &str)> {
    // A program's name may hold any character. The thread's number stands before the processor's number.
    let (pid, rest) = line.match_indices(" [").find_map(|(at, _)| {
        let (task, rest) = line.split_at(at);
        let processor = rest.get(2..6)?;
        let is_processor =
            processor.ends_with(']') && processor[..3].bytes().all(|byte| byte.is_ascii_digit());
        let pid = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
        is_processor.then_some((pid, rest))
    })?;
    let (_, rest) = rest.split_once("] ")?;
    let mut words = rest.trim_start().splitn(2, ' ');
    let (_, rest) = (words.next()?, words.next()?.trim_start());
    let (time, rest) = rest.split_once(": ")?;
    let (seconds, micros) = time.split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (event, rest) = rest.split_once(": ").unwrap_or((rest, ""));
    Some((pid, time, event, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
              sh-10      [001] .....    5.000000: sys_enter: NR 59 (1, 2, 3, 4, 5, 6)
              sh-10      [001] .....    5.000100: sched_process_exec: filename=/bin/sh pid=10 old_pid=10
              sh-10      [001] .....    5.000110: sys_exit: NR 59 = 0
              sh-10      [001] .....    5.000150: sys_enter: NR 56 (1200011, 0, 0, 0, 0, 0)
              sh-10      [001] .....    5.000160: task_newtask: pid=11 comm=a [001] b clone_flags=1200011 oom_score_adj=0
              sh-10      [001] .....    5.000170: sys_exit: NR 56 = 11
              sh-10      [001] d..2.    5.000200: sched_switch: prev_comm=sh prev_pid=10 prev_prio=120 prev_state=R ==> next_comm=other next_pid=99 next_prio=120
           other-99      [001] d..2.    5.000300: sched_switch: prev_comm=other prev_pid=99 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=10 next_prio=120
              sh-10      [001] .....    5.000320: sys_enter: NR 61 (ffff, 0, 0, 0, 0, 0)
              sh-10      [001] d..2.    5.000330: sched_switch: prev_comm=sh prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=a next_pid=11 next_prio=120
CPU:1 [LOST 12 EVENTS]
 a [001] b-11      [001] .....    5.000340: sys_exit: NR 56 = 0
 a [001] b-11      [001] d....    5.000350: page_fault_user: address=0x7f ip=0x7f error_code=0x6
 a [001] b-11      [001] d..2.    5.000360: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0       [001] d..2.    5.000400: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=11 next_prio=120
 a [001] b-11      [001] .....    5.000405: sys_enter: NR 231 (0, 0, 0, 0, 0, 0)
 a [001] b-11      [001] d..2.    5.000410: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=Z ==> next_comm=sh next_pid=10 next_prio=120
              sh-10      [001] .....    5.000420: sys_exit: NR 61 = 11
              sh-10      [001] d..2.    5.000430: sched_switch: prev_comm=sh prev_pid=10 prev_prio=120 prev_state=R+ ==> next_comm=a next_pid=11 next_prio=120
";

    #[test]
    fn the_kernels_lines_become_turns() {
        let mut parser = TraceParser::default();
        LINES.lines().for_each(|line| parser.line(line));
        let observed = parser.finish(vec!["sh".into()]);
        assert_eq!(observed.lost, 12);
        assert_eq!(observed.processes[0].calls, [(56, 40), (61, 50)]);
        assert_eq!(
            (observed.processes[1].parent, &observed.processes[1].calls[..]),
            (Some(0), &[(231, 25)][..])
        );
        let turn = |process, start, calls, ran, end| ObservedTurn { process, start, calls, ran, end };
        let expected = [
            turn(0, 0, 2, 0, TurnEnd::SystemCall), // a foreign program's turn in between is not shown
            turn(1, 230, 0, 20, TurnEnd::PageFault),
            turn(1, 300, 1, 0, TurnEnd::Exit),
            turn(0, 310, 2, 10, TurnEnd::Involuntary),
        ];
        assert_eq!(observed.turns, expected);
    }

    #[test]
    fn lines_of_another_form_are_ignored() {
        let mut parser = TraceParser::default();
        for line in
            ["", "# tracer: nop", "x-1 [001", "x-1 [001] d 1.2: a: b", "CPU:0 [LOST EVENTS]", "-[000] "]
        {
            parser.line(line);
        }
        let observed = parser.finish(Vec::new());
        assert_eq!((observed.turns.len(), observed.lost), (0, 1));
    }
}
