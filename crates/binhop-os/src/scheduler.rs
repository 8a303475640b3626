//! `Scheduler` says which task has the one processor, for how long, and when those that left it may have it again.
//!
//! # Rules
//! - A task is *running*, *ready*, *asleep* until a time, *waiting* until it is woken, or it has ended.
//! - Time is a count that grows while a task runs, of whatever the caller counts: instructions of all tasks, or a lane's
//!   cycles. A quantum and a latency are in the same unit.
//! - A turn begins with a quantum and ends when the caller says so: at the first boundary at or after the quantum's end,
//!   or because the task gives up the processor. The scheduler never takes it away by itself.
//! - Sleepers whose time has come become ready when the next turn is given, in order of time, then of number: not earlier,
//!   so that a task that is preempted stands before them. If nobody is ready, time passes until the first sleeper is.
//! - Who is next among the ready is a matter of [`Order`].
//!
//! # Cost
//! O(log tasks) for each change of a task's state, and O(1) while a task runs. 64 B or so for each task.

use alloc::collections::{BTreeMap, BTreeSet};

/// `Order` decides which of the ready tasks is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The task that became ready first: a queue.
    Queue,
    /// The task whose last turn is longest ago, one without a turn before all; of several such the lowest number. A task
    /// that slept comes before those that ran meanwhile.
    LongestAgo,
}

/// Of tasks that may run, each with the ordinal of its last turn (0: none yet), the one whose last turn is longest ago.
#[must_use]
pub fn longest_ago(ready: impl IntoIterator<Item = (u32, u64)>) -> Option<u32> {
    ready.into_iter().min_by_key(|&(task, last_turn)| (last_turn, task)).map(|(task, _)| task)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Its rank among the ready: the lowest is next.
    Ready(u64),
    /// Until this time.
    Asleep(u64),
    Waiting,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    state: State,
    /// The ordinal of its last turn, from 1; 0 if it had none.
    last_turn: u64,
}

/// The scheduler of one processor. The rules stand at the top of the file.
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
    now: u64,
    tasks: BTreeMap<u32, Task>,
    /// Rank and number of those that are ready.
    ready: BTreeSet<(u64, u32)>,
    /// Time and number of those that are asleep.
    asleep: BTreeSet<(u64, u32)>,
    running: Option<u32>,
    /// The time at which the quantum of the turn under way ends.
    end: u64,
    /// Turns given so far.
    turns: u64,
    /// Tasks that became ready so far.
    joined: u64,
}

impl Scheduler {
    /// No task, at time 0.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        Self {
            order,
            now: 0,
            tasks: BTreeMap::new(),
            ready: BTreeSet::new(),
            asleep: BTreeSet::new(),
            running: None,
            end: 0,
            turns: 0,
            joined: 0,
        }
    }

    /// A task begins: it is ready.
    ///
    /// # Panics
    /// There is a task of this number.
    pub fn add(&mut self, task: u32) {
        let before = self.tasks.insert(task, Task { state: State::Waiting, last_turn: 0 });
        assert!(before.is_none(), "task {task} is there already");
        self.join(task);
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether every task has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The task whose turn it is.
    #[must_use]
    pub fn running(&self) -> Option<u32> {
        self.running
    }

    /// Returns the rest of the quantum of the turn under way.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.now)
    }

    /// The running task ran so long.
    pub fn ran(&mut self, time: u64) {
        debug_assert!(time == 0 || self.running.is_some(), "time passes while a task runs");
        self.now += time;
    }

    /// Lets the sleepers become ready whose time has come; if nobody is ready then, lets time pass until somebody is.
    /// Returns whether somebody is.
    pub fn wake_sleepers(&mut self) -> bool {
        if self.ready.is_empty()
            && let Some(&(first, _)) = self.asleep.first()
        {
            self.now = self.now.max(first);
        }
        while let Some(&(time, task)) = self.asleep.first().filter(|(time, _)| *time <= self.now) {
            self.asleep.remove(&(time, task));
            self.join(task);
        }
        !self.ready.is_empty()
    }

    /// Those that are ready, in order of their numbers, each with the ordinal of its last turn (0: none yet): for a caller
    /// that chooses by a rule of its own.
    pub fn ready(&self) -> impl Iterator<Item = (u32, u64)> {
        let ready = |(&task, known): (&u32, &Task)| {
            matches!(known.state, State::Ready(_)).then_some((task, known.last_turn))
        };
        self.tasks.iter().filter_map(ready)
    }

    /// Gives the next turn, of this quantum, to the task that is first by the order. `None`: nobody is ready, and nobody
    /// will be by itself.
    ///
    /// # Panics
    /// A turn is under way.
    pub fn next_turn(&mut self, quantum: u64) -> Option<u32> {
        self.wake_sleepers();
        let &(_, task) = self.ready.first()?;
        self.begin(task, quantum);
        Some(task)
    }

    /// Begins a turn of a task that is ready.
    ///
    /// # Panics
    /// A turn is under way, or the task is not ready.
    pub fn begin(&mut self, task: u32, quantum: u64) {
        assert!(self.running.is_none(), "one task runs at a time");
        let known = self.tasks.get_mut(&task).expect("a task that begins its turn is there");
        let State::Ready(rank) = known.state else { panic!("task {task} is not ready") };
        self.ready.remove(&(rank, task));
        self.turns += 1;
        *known = Task { state: State::Running, last_turn: self.turns };
        self.running = Some(task);
        self.end = self.now.saturating_add(quantum);
    }

    /// The running task's turn ends, and it is ready.
    ///
    /// # Panics
    /// No turn is under way; so for all that end one.
    pub fn preempt(&mut self) {
        let task = self.leave(State::Waiting);
        self.join(task);
    }

    /// The running task gives up the processor for so long.
    ///
    /// # Panics
    /// As [`preempt`](Self::preempt).
    pub fn sleep(&mut self, latency: u64) {
        let wakes = self.now.saturating_add(latency);
        let task = self.leave(State::Asleep(wakes));
        self.asleep.insert((wakes, task));
    }

    /// The running task gives up the processor until it is [woken](Self::wake).
    ///
    /// # Panics
    /// As [`preempt`](Self::preempt).
    pub fn wait(&mut self) {
        self.leave(State::Waiting);
    }

    /// A task that waits becomes ready.
    ///
    /// # Panics
    /// It does not wait.
    pub fn wake(&mut self, task: u32) {
        let waits = self.tasks.get(&task).is_some_and(|known| known.state == State::Waiting);
        assert!(waits, "task {task} does not wait");
        self.join(task);
    }

    /// The running task ends.
    ///
    /// # Panics
    /// As [`preempt`](Self::preempt).
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
        let task = self.running.take().expect("a turn is under way");
        self.tasks.get_mut(&task).expect("a running task is there").state = state;
        task
    }

    fn join(&mut self, task: u32) {
        let known = self.tasks.get_mut(&task).expect("a task that becomes ready is there");
        self.joined += 1;
        let rank = match self.order {
            Order::Queue => self.joined,
            Order::LongestAgo => known.last_turn,
        };
        known.state = State::Ready(rank);
        self.ready.insert((rank, task));
    }
}
