//! `Scheduler` keeps tasks in plain lists, and searches them from the front at every turn.

/// `Task` is a task that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The number of the task.
    pub number: u32,
    /// The ordinal of the task's last turn among all turns; 0 if it had no turn.
    pub last_turn: u64,
}

/// `Scheduler` schedules one processor.
#[derive(Debug, Default)]
pub struct Scheduler {
    /// True if the task that became ready first runs next; otherwise the task whose last turn is longest ago
    /// runs next.
    pub queue: bool,
    /// The present time.
    pub now: u64,
    /// The ready tasks, in the order in which they became ready.
    pub ready: Vec<Task>,
    /// The sleeping tasks, each with the time at which it wakes.
    pub asleep: Vec<(u64, Task)>,
    /// The tasks that wait to be woken.
    pub waiting: Vec<Task>,
    /// The task that runs.
    pub running: Option<Task>,
    /// The number of turns given so far.
    pub turns: u64,
}

impl Scheduler {
    /// Adds a task, which is ready.
    pub fn add(&mut self, number: u32) {
        self.ready.push(Task { number, last_turn: 0 });
    }

    /// Begins the next turn. Returns its task.
    pub fn next_turn(&mut self) -> Option<u32> {
        if self.ready.is_empty() {
            let first = self.asleep.iter().map(|(wakes, _)| *wakes).min()?;
            self.now = self.now.max(first);
        }
        let mut due: Vec<(u64, Task)> =
            self.asleep.iter().copied().filter(|(wakes, _)| *wakes <= self.now).collect();
        self.asleep.retain(|(wakes, _)| *wakes > self.now);
        due.sort_by_key(|(wakes, task)| (*wakes, task.number));
        self.ready.extend(due.into_iter().map(|(_, task)| task));
        let mut next = 0;
        if !self.queue {
            for (at, task) in self.ready.iter().enumerate() {
                let first = self.ready[next];
                if (task.last_turn, task.number) < (first.last_turn, first.number) {
                    next = at;
                }
            }
        }
        self.turns += 1;
        let task = Task { last_turn: self.turns, ..self.ready.remove(next) };
        self.running = Some(task);
        Some(task.number)
    }

    /// Takes the running task off the processor.
    ///
    /// # Panics
    /// No task is running.
    pub fn leave(&mut self) -> Task {
        self.running.take().expect("a task is running")
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.ready.len() + self.asleep.len() + self.waiting.len() + usize::from(self.running.is_some())
    }
}
