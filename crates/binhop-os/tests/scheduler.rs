//! The scheduler agrees with plain lists: in turn order, wake-ups and time, and no task is lost or present
//! twice.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use binhop_oracle::scheduler::{self as oracle, NextTask};
use binhop_os::scheduler::{Order, Scheduler, longest_ago};
use proptest::prelude::*;

/// `End` is what the running task does when its turn ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Preempted,
    Sleeps(u64),
    Waits,
    Exits,
}

/// `Turn` is the time that a task runs, whether a child is born, the waiting task that is woken, and the end
/// of the turn.
type Turn = (u64, bool, Option<u8>, End);

fn turn() -> impl Strategy<Value = Turn> {
    let end = prop_oneof![
        6 => Just(End::Preempted),
        4 => (0..60u64).prop_map(End::Sleeps),
        1 => Just(End::Sleeps(1 << 40)),
        2 => Just(End::Waits),
        1 => Just(End::Exits),
    ];
    (0..30u64, prop::bool::weighted(0.1), prop::option::weighted(0.3, any::<u8>()), end)
}

const QUANTUM: u64 = 20;

fn run(order: Order, wake_up_preempts: bool, tasks: u32, turns: &[Turn]) {
    let mut fast = Scheduler::new(order);
    if wake_up_preempts {
        fast = fast.with_wake_up_preemption();
    }
    let rule = match order {
        Order::Queue => NextTask::First,
        Order::LongestAgo => NextTask::LongestAgo,
        Order::Recent { patience } => NextTask::Latest(patience),
    };
    let mut slow = oracle::Scheduler { rule, wake_up_preempts, ..Default::default() };
    let mut born = 0;
    let mut add = |fast: &mut Scheduler, slow: &mut oracle::Scheduler| {
        // Numbers fall, so the order of numbers and the order of births differ.
        born += 1;
        fast.add(1000 - born);
        slow.add(1000 - born);
    };
    (0..tasks).for_each(|_| add(&mut fast, &mut slow));
    for (step, &(ran, child, wakes, end)) in turns.iter().enumerate() {
        let next = slow.next_turn();
        if order == Order::LongestAgo && !wake_up_preempts && next.is_some() {
            assert!(fast.wake_sleepers());
            assert_eq!(longest_ago(fast.ready()), next, "step {step}");
        }
        assert_eq!(fast.next_turn(QUANTUM), next, "step {step}");
        assert_eq!((fast.running(), fast.now()), (next, slow.now), "step {step}");
        if next.is_none() {
            // Only waiting tasks are left, and they wait for ever.
            assert_eq!(fast.len(), slow.waiting.len());
            return;
        }
        let turn_ends = slow.end(slow.now, QUANTUM);
        assert_eq!(fast.left(), turn_ends - slow.now);
        assert!(fast.left() > 0, "step {step}: each turn makes progress");
        fast.ran(ran);
        slow.now += ran;
        assert_eq!(fast.left(), turn_ends.saturating_sub(slow.now));
        if child {
            add(&mut fast, &mut slow);
        }
        if let Some(which) = wakes.filter(|_| !slow.waiting.is_empty()) {
            let at = usize::from(which) % slow.waiting.len();
            let task = slow.waiting.remove(at);
            assert!(fast.waits(task.number));
            fast.wake(task.number);
            slow.join(task, true);
            assert!(!wake_up_preempts || fast.left() == 0, "step {step}: the turn ends");
        }
        let task = slow.leave();
        match end {
            End::Preempted => {
                fast.preempt();
                slow.join(task, false);
            }
            End::Sleeps(latency) => {
                fast.sleep(latency);
                slow.asleep.push((slow.now.saturating_add(latency), task));
            }
            End::Waits => {
                fast.wait();
                slow.waiting.push(task);
            }
            End::Exits => fast.exit(),
        }
        let mut ready: Vec<(u32, u64)> =
            slow.ready.iter().map(|ready| (ready.task.number, ready.task.last_turn)).collect();
        ready.sort_unstable();
        assert_eq!(fast.ready().collect::<Vec<_>>(), ready, "step {step}");
        assert_eq!((fast.len(), fast.is_empty()), (slow.tasks(), slow.tasks() == 0), "step {step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn turns_and_wake_ups_equal_the_plain_lists(
        order in prop_oneof![
            Just(Order::Queue),
            Just(Order::LongestAgo),
            (0..200u64).prop_map(|patience| Order::Recent { patience }),
        ],
        wake_up_preempts in any::<bool>(),
        tasks in 1..8u32,
        turns in prop::collection::vec(turn(), 1..200),
    ) {
        run(order, wake_up_preempts, tasks, &turns);
    }

    /// A ready task runs after its patience, the rest of the turn under way, and a turn of each task that was
    /// ready before it.
    #[test]
    fn no_task_starves_under_the_recent_order(
        patience in 0..200u64,
        wake_up_preempts in any::<bool>(),
        tasks in 1..8u32,
        turns in prop::collection::vec((1..30u64, prop::option::weighted(0.4, 1..60u64)), 1..200),
    ) {
        let mut scheduler = Scheduler::new(Order::Recent { patience });
        if wake_up_preempts {
            scheduler = scheduler.with_wake_up_preemption();
        }
        (0..tasks).for_each(|task| scheduler.add(task));
        let mut since = vec![0; tasks as usize];
        for (ran, sleeps) in turns {
            let task = scheduler.next_turn(QUANTUM).unwrap();
            let waited = scheduler.now() - since[task as usize];
            prop_assert!(waited <= patience + 30 * u64::from(tasks), "task {task} was ready for {waited}");
            scheduler.ran(ran);
            if let Some(latency) = sleeps { scheduler.sleep(latency) } else { scheduler.preempt() }
            since[task as usize] = scheduler.now() + sleeps.unwrap_or(0);
        }
    }
}

/// Tasks 1 and 2 compute, with quanta of 10 and a patience of 25. Task 3 sleeps after each 5 for 10.
#[test]
fn the_recent_order_returns_to_the_task_that_left_last() {
    let mut scheduler = Scheduler::new(Order::Recent { patience: 25 });
    let mut seen = Vec::new();
    (1..=3).for_each(|task| scheduler.add(task));
    for _ in 0..9 {
        let task = scheduler.next_turn(10).unwrap();
        seen.push((task, scheduler.now()));
        if task == 3 {
            scheduler.ran(5);
            scheduler.sleep(10);
        } else {
            scheduler.ran(10);
            scheduler.preempt();
        }
    }
    // Task 1 runs until the others have been ready for 25, which is at the end of its third turn. Then task 2
    // has been ready longest, and task 3 after it. Task 3 wakes at 55, but task 1 has been ready since 30.
    let turns = [(1, 0), (1, 10), (1, 20), (2, 30), (3, 40), (2, 45), (1, 55), (1, 65), (1, 75)];
    assert_eq!(seen, turns);
}

/// Tasks 1 and 2 compute, with quanta of 100. Task 3 sleeps for 30 after each 5.
#[test]
fn a_task_whose_wait_is_over_takes_the_processor() {
    let mut scheduler = Scheduler::new(Order::Queue).with_wake_up_preemption();
    (1..=3).for_each(|task| scheduler.add(task));
    let mut seen = Vec::new();
    for _ in 0..8 {
        let task = scheduler.next_turn(100).unwrap();
        let turn = if task == 3 { 5 } else { scheduler.left() };
        seen.push((task, turn));
        scheduler.ran(turn);
        if task == 3 { scheduler.sleep(30) } else { scheduler.preempt() }
    }
    let turns = [(1, 100), (2, 100), (3, 5), (1, 30), (3, 5), (2, 30), (3, 5), (1, 30)];
    assert_eq!(seen, turns);
}

/// Three tasks have quanta of 10. Task 1 sleeps after its first turn.
#[test]
fn a_queue_and_the_longest_ago_differ_for_a_task_that_slept() {
    let turns = |order| {
        let mut scheduler = Scheduler::new(order);
        (1..=3).for_each(|task| scheduler.add(task));
        let mut seen = Vec::new();
        for turn in 0..6 {
            seen.push((scheduler.next_turn(10).unwrap(), scheduler.now()));
            scheduler.ran(10);
            if turn == 0 { scheduler.sleep(15) } else { scheduler.preempt() }
        }
        seen
    };
    // Task 1 wakes at 25. At 30 it stands behind the tasks in the queue, but its last turn is longest ago.
    assert_eq!(turns(Order::Queue), [(1, 0), (2, 10), (3, 20), (2, 30), (3, 40), (1, 50)]);
    assert_eq!(turns(Order::LongestAgo), [(1, 0), (2, 10), (3, 20), (1, 30), (2, 40), (3, 50)]);
}

#[test]
fn a_sleeper_wakes_exactly_at_its_time_and_not_earlier() {
    let mut scheduler = Scheduler::new(Order::Queue);
    scheduler.add(1);
    scheduler.add(2);
    scheduler.next_turn(10);
    scheduler.sleep(7);
    // At 7 task 2 is preempted, and stands before the sleeper that wakes at 7.
    for (ran, next, now) in [(6, 2, 0), (1, 2, 6), (0, 2, 7), (0, 1, 7)] {
        assert_eq!((scheduler.next_turn(10), scheduler.now()), (Some(next), now));
        scheduler.ran(ran);
        scheduler.preempt();
    }
    // If no task is ready, time passes. If there is no task, there is no turn.
    assert_eq!(scheduler.next_turn(10), Some(2));
    scheduler.exit();
    assert_eq!(scheduler.next_turn(10), Some(1));
    scheduler.sleep(1000);
    assert_eq!((scheduler.next_turn(10), scheduler.now()), (Some(1), 1007));
    scheduler.exit();
    assert!(scheduler.next_turn(10).is_none() && scheduler.is_empty());
}
