//! `Scheduler` keeps tasks in plain lists, and searches them from the front at every turn.

/// `Task` is a task that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The number of the task.
    pub number: u32,
    /// The ordinal of the task's last turn among all turns; 0 if it had no turn.
    pub last_turn: u64,
}

/// `NextTask` is the rule by which the next task is chosen among the ready tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextTask {
    /// The task that became ready first.
    #[default]
    First,
    /// The task whose last turn is longest ago; the lowest number decides a tie.
    LongestAgo,
    /// The first task that has been ready for this time. If there is no such task, the task with the latest turn;
    /// the lowest number decides a tie.
    Latest(u64),
}

/// `ReadyTask` is a task that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTask {
    /// The task.
    pub task: Task,
    /// The time at which the task became ready.
    pub since: u64,
    /// True if the task became ready because its wait was over.
    pub woken: bool,
}

/// `Scheduler` schedules one processor.
#[derive(Debug, Default)]
pub struct Scheduler {
    /// The rule by which the next task is chosen.
    pub rule: NextTask,
    /// True if a task whose wait is over takes the processor.
    pub wake_up_preempts: bool,
    /// The present time.
    pub now: u64,
    /// The ready tasks, in the order in which they became ready.
    pub ready: Vec<ReadyTask>,
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
        self.join(Task { number, last_turn: 0 }, false);
    }

    /// Appends a task to the ready tasks.
    pub fn join(&mut self, task: Task, woken: bool) {
        self.ready.push(ReadyTask { task, since: self.now, woken });
    }

    /// Returns the time at which the turn ends that began with this quantum at `began`, if no task is woken.
    #[must_use]
    pub fn end(&self, began: u64, quantum: u64) -> u64 {
        let mut end = began + quantum;
        for (wakes, _) in &self.asleep {
            if self.wake_up_preempts && *wakes < end {
                end = *wakes;
            }
        }
        end
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
        for (_, task) in due {
            self.join(task, true);
        }
        let next = self.choose();
        self.turns += 1;
        let task = Task { last_turn: self.turns, ..self.ready.remove(next).task };
        self.running = Some(task);
        Some(task.number)
    }

    /// Returns the place of the next task among the ready tasks.
    fn choose(&self) -> usize {
        if let NextTask::Latest(patience) = self.rule {
            for (at, ready) in self.ready.iter().enumerate() {
                if self.now - ready.since >= patience {
                    return at;
                }
            }
        }
        if self.wake_up_preempts
            && let Some(at) = self.ready.iter().position(|ready| ready.woken)
        {
            return at;
        }
        let mut next = 0;
        for (at, ready) in self.ready.iter().enumerate() {
            let (task, first) = (ready.task, self.ready[next].task);
            let before = match self.rule {
                NextTask::First => false,
                NextTask::LongestAgo => (task.last_turn, task.number) < (first.last_turn, first.number),
                NextTask::Latest(_) => {
                    task.last_turn > first.last_turn
                        || (task.last_turn == first.last_turn && task.number < first.number)
                }
            };
            if before {
                next = at;
            }
        }
        next
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
