//! `Scheduler` decides which task has the one processor, for how long, and when a task that left may run
//! again.
//!
//! # Rules
//! - A task is *running*, *ready*, *asleep* until a time, *waiting* until it is woken, or it has ended.
//! - Time grows while a task runs. The caller chooses its unit: instructions of all tasks, or the cycles of a
//!   lane. Quanta and latencies have the same unit.
//! - A turn begins with a quantum, and ends when the caller ends it: at the first boundary at or after the
//!   end of the quantum, or because the task gives up the processor. The scheduler never ends a turn by
//!   itself.
//! - A sleeper whose time has come becomes ready when the next turn is given, and not earlier. So a task that
//!   is preempted stands before the sleepers. Sleepers become ready in order of time, then of number. If no
//!   task is ready, time passes until the first sleeper wakes.
//! - [`Order`] decides which of the ready tasks is next.
//! - With *wake-up preemption* ([`Scheduler::with_wake_up_preemption`]) a task whose wait is over takes the
//!   processor. The present turn ends when a sleeper's time comes or a task is woken: [`Scheduler::left`]
//!   counts up to then. Woken tasks run before the other ready tasks, in the order in which they woke. A task
//!   that wakes at the moment at which a turn begins does not end this turn. A preempted task is ready like a
//!   task whose quantum ended. 4.3BSD does the same: a process that slept returns to user mode with a better
//!   priority than a process that computes (Leffler et al., 4.3BSD, section 4.4).
//!
//! # Cost
//! Each change of a task's state costs O(log tasks). A running task costs O(1). Each task takes about 100 B.

use alloc::collections::{BTreeMap, BTreeSet};

/// `Order` decides which of the ready tasks is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The task that became ready first is next: a queue.
    Queue,
    /// The task whose last turn is longest ago is next. A task without a turn comes before all others, and
    /// the lowest number decides a tie. So a task that slept comes before the tasks that ran meanwhile.
    LongestAgo,
    /// The task that left the processor most recently is next, because the caches may still hold its lines.
    /// So a task whose quantum ended continues. Tasks without a turn come after all others, and the lowest
    /// number decides a tie. A task that has been ready for `patience` comes before all others, woken tasks
    /// included; among such tasks the task that has been ready longest is next. So no task starves. (MB90 §6
    /// suggests the order. The bound is ours.)
    Recent {
        /// The time for which a task may be ready before it is next, in the unit of the scheduler's time.
        patience: u64,
    },
}

/// The default patience of [`Order::Recent`], in quanta (ours: the document names no bound).
pub const PATIENCE_QUANTA: u64 = 8;

impl Order {
    /// Returns [`Order::Recent`] with the default patience: [`PATIENCE_QUANTA`] quanta.
    #[must_use]
    pub const fn recent(quantum: u64) -> Self {
        Self::Recent { patience: quantum.saturating_mul(PATIENCE_QUANTA) }
    }
}

/// Returns the task whose last turn is longest ago. `ready` gives the tasks that may run, each with the
/// ordinal of its last turn (0: no turn yet).
#[must_use]
pub fn longest_ago(ready: impl IntoIterator<Item = (u32, u64)>) -> Option<u32> {
    ready.into_iter().min_by_key(|&(task, last_turn)| (last_turn, task)).map(|(task, _)| task)
}

/// `Rank` is the place of a ready task among the ready tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// False for a woken task under wake-up preemption, which comes first.
    usual: bool,
    by_order: u64,
}

/// `Joined` is the moment at which a task became ready: its ordinal among such moments, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Joined {
    ordinal: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// The task is ready, and has this rank. The lowest rank is next.
    Ready(Rank, Joined),
    /// The task sleeps until this time.
    Asleep(u64),
    Waiting,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    state: State,
    /// The ordinal of the task's last turn, from 1; 0 if it had no turn.
    last_turn: u64,
}

/// `Scheduler` schedules one processor. The top of the file has the rules.
///
/// ```
/// use binhop_os::scheduler::{Order, Scheduler};
///
/// let mut scheduler = Scheduler::new(Order::Queue);
/// scheduler.add(1);
/// scheduler.add(2);
/// assert_eq!(scheduler.next_turn(100), Some(1));
/// scheduler.ran(100);
/// assert_eq!(scheduler.left(), 0);
/// scheduler.preempt();
/// assert_eq!(scheduler.next_turn(100), Some(2));
/// scheduler.ran(30);
/// scheduler.sleep(1000); // a system call that takes 1000 instructions
/// assert_eq!(scheduler.next_turn(100), Some(1));
/// scheduler.exit();
/// assert_eq!((scheduler.next_turn(100), scheduler.now()), (Some(2), 1130));
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler {
    order: Order,
    wake_up_preempts: bool,
    now: u64,
    tasks: BTreeMap<u32, Task>,
    /// The rank and number of each ready task.
    ready: BTreeSet<(Rank, u32)>,
    /// The moment at which each ready task became ready, and the task's number. The set is empty except under
    /// [`Order::Recent`].
    patient: BTreeSet<(Joined, u32)>,
    /// The wake-up time and number of each sleeping task.
    asleep: BTreeSet<(u64, u32)>,
    running: Option<u32>,
    /// The time at which the present quantum ends.
    end: u64,
    /// The number of turns given so far.
    turns: u64,
    /// The number of times that a task became ready.
    joined: u64,
}

impl Scheduler {
    /// Makes a scheduler without tasks, at time 0.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        Self {
            order,
            wake_up_preempts: false,
            now: 0,
            tasks: BTreeMap::new(),
            ready: BTreeSet::new(),
            patient: BTreeSet::new(),
            asleep: BTreeSet::new(),
            running: None,
            end: 0,
            turns: 0,
            joined: 0,
        }
    }

    /// Lets a task whose wait is over take the processor from the running task. The top of the file has the
    /// rules.
    ///
    /// ```
    /// use binhop_os::scheduler::{Order, Scheduler};
    ///
    /// let mut scheduler = Scheduler::new(Order::Queue).with_wake_up_preemption();
    /// (1..=3).for_each(|task| scheduler.add(task));
    /// assert_eq!(scheduler.next_turn(100), Some(1));
    /// scheduler.sleep(40); // task 1 sleeps until 40
    /// assert_eq!(scheduler.next_turn(100), Some(2));
    /// assert_eq!(scheduler.left(), 40);
    /// scheduler.ran(40);
    /// scheduler.preempt();
    /// assert_eq!(scheduler.next_turn(100), Some(1)); // before task 3, which has been ready from the start
    /// ```
    #[must_use]
    pub const fn with_wake_up_preemption(mut self) -> Self {
        self.wake_up_preempts = true;
        self
    }

    /// Adds a task, which is ready.
    ///
    /// # Panics
    /// A task has this number already.
    pub fn add(&mut self, task: u32) {
        let before = self.tasks.insert(task, Task { state: State::Waiting, last_turn: 0 });
        assert!(before.is_none(), "a task has the number {task} already");
        self.join(task, false);
    }

    /// Returns the number of tasks that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether every task has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the task that runs.
    #[must_use]
    pub fn running(&self) -> Option<u32> {
        self.running
    }

    /// Returns the rest of the present turn: until the end of the quantum or, with wake-up preemption, until
    /// the first sleeper wakes.
    #[must_use]
    pub fn left(&self) -> u64 {
        let wakes = self.asleep.first().filter(|_| self.wake_up_preempts);
        wakes.map_or(self.end, |&(time, _)| self.end.min(time)).saturating_sub(self.now)
    }

    /// Lets `time` pass, in which the running task runs.
    pub fn ran(&mut self, time: u64) {
        debug_assert!(time == 0 || self.running.is_some(), "time passes while a task runs");
        self.now += time;
    }

    /// Makes the sleepers ready whose time has come. If no task is ready then, lets time pass until the first
    /// sleeper wakes. Returns whether a task is ready.
    pub fn wake_sleepers(&mut self) -> bool {
        if self.ready.is_empty()
            && let Some(&(first, _)) = self.asleep.first()
        {
            self.now = self.now.max(first);
        }
        while let Some(&(time, task)) = self.asleep.first().filter(|(time, _)| *time <= self.now) {
            self.asleep.remove(&(time, task));
            self.join(task, true);
        }
        !self.ready.is_empty()
    }

    /// Returns the ready tasks in order of their numbers, each with the ordinal of its last turn (0: no turn
    /// yet). The function serves callers that choose by a rule of their own.
    pub fn ready(&self) -> impl Iterator<Item = (u32, u64)> {
        let ready = |(&task, known): (&u32, &Task)| {
            matches!(known.state, State::Ready(..)).then_some((task, known.last_turn))
        };
        self.tasks.iter().filter_map(ready)
    }

    /// Gives the next turn to the first task by the order, for this quantum. Returns `None` if no task is
    /// ready and no task sleeps.
    ///
    /// # Panics
    /// A task is running.
    pub fn next_turn(&mut self, quantum: u64) -> Option<u32> {
        self.wake_sleepers();
        let task = self.first()?;
        self.begin(task, quantum);
        Some(task)
    }

    /// Returns the ready task that is next.
    fn first(&self) -> Option<u32> {
        if let Order::Recent { patience } = self.order
            && let Some(&(joined, task)) = self.patient.first()
            && self.now - joined.at >= patience
        {
            return Some(task);
        }
        self.ready.first().map(|&(_, task)| task)
    }

    /// Begins a turn of a ready task.
    ///
    /// # Panics
    /// A task is running, or `task` is not ready.
    pub fn begin(&mut self, task: u32, quantum: u64) {
        assert!(self.running.is_none(), "one task runs at a time");
        let known = self.tasks.get_mut(&task).expect("the task exists");
        let State::Ready(rank, joined) = known.state else { panic!("task {task} is not ready") };
        self.ready.remove(&(rank, task));
        self.patient.remove(&(joined, task));
        self.turns += 1;
        *known = Task { state: State::Running, last_turn: self.turns };
        self.running = Some(task);
        self.end = self.now.saturating_add(quantum);
    }

    /// Ends the turn of the running task, which is ready again.
    ///
    /// # Panics
    /// No task is running.
    pub fn preempt(&mut self) {
        let task = self.leave(State::Waiting);
        self.join(task, false);
    }

    /// Ends the turn of the running task, which sleeps for `latency`.
    ///
    /// # Panics
    /// No task is running.
    pub fn sleep(&mut self, latency: u64) {
        let wakes = self.now.saturating_add(latency);
        let task = self.leave(State::Asleep(wakes));
        self.asleep.insert((wakes, task));
    }

    /// Ends the turn of the running task, which waits until it is [woken](Self::wake).
    ///
    /// # Panics
    /// No task is running.
    pub fn wait(&mut self) {
        self.leave(State::Waiting);
    }

    /// Makes a waiting task ready.
    ///
    /// # Panics
    /// The task does not wait.
    pub fn wake(&mut self, task: u32) {
        let waits = self.tasks.get(&task).is_some_and(|known| known.state == State::Waiting);
        assert!(waits, "task {task} does not wait");
        self.join(task, true);
        if self.wake_up_preempts {
            self.end = self.end.min(self.now);
        }
    }

    /// Ends the running task.
    ///
    /// # Panics
    /// No task is running.
    pub fn exit(&mut self) {
        let task = self.leave(State::Waiting);
        self.tasks.remove(&task);
    }

    /// Returns whether a task waits to be woken.
    #[must_use]
    pub fn waits(&self, task: u32) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.state == State::Waiting)
    }

    fn leave(&mut self, state: State) -> u32 {
        let task = self.running.take().expect("a task is running");
        self.tasks.get_mut(&task).expect("the running task exists").state = state;
        task
    }

    /// Makes a task ready. `woken` says whether the task's wait is over.
    fn join(&mut self, task: u32, woken: bool) {
        let known = self.tasks.get_mut(&task).expect("the task exists");
        self.joined += 1;
        let woken = woken && self.wake_up_preempts;
        let by_order = match self.order {
            Order::LongestAgo if !woken => known.last_turn,
            // Turns do not overlap, so the task of the last turn is the task that left last.
            Order::Recent { .. } if !woken => u64::MAX - known.last_turn,
            _ => self.joined,
        };
        let rank = Rank { usual: !woken, by_order };
        let joined = Joined { ordinal: self.joined, at: self.now };
        known.state = State::Ready(rank, joined);
        self.ready.insert((rank, task));
        if matches!(self.order, Order::Recent { .. }) {
            self.patient.insert((joined, task));
        }
    }
}
