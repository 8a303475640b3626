//! The scheduler agrees with plain lists: in turn order, wake-ups and time, and no task is lost or present
//! twice.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use binhop_oracle::scheduler as oracle;
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

fn run(queue: bool, tasks: u32, turns: &[Turn]) {
    let order = if queue { Order::Queue } else { Order::LongestAgo };
    let mut fast = Scheduler::new(order);
    let mut slow = oracle::Scheduler { queue, ..Default::default() };
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
        if !queue && next.is_some() {
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
        assert_eq!(fast.left(), QUANTUM);
        fast.ran(ran);
        slow.now += ran;
        assert_eq!(fast.left(), QUANTUM.saturating_sub(ran));
        if child {
            add(&mut fast, &mut slow);
        }
        if let Some(which) = wakes.filter(|_| !slow.waiting.is_empty()) {
            let at = usize::from(which) % slow.waiting.len();
            let task = slow.waiting.remove(at);
            assert!(fast.waits(task.number));
            fast.wake(task.number);
            slow.ready.push(task);
        }
        let task = slow.leave();
        match end {
            End::Preempted => {
                fast.preempt();
                slow.ready.push(task);
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
            slow.ready.iter().map(|task| (task.number, task.last_turn)).collect();
        ready.sort_unstable();
        assert_eq!(fast.ready().collect::<Vec<_>>(), ready, "step {step}");
        assert_eq!((fast.len(), fast.is_empty()), (slow.tasks(), slow.tasks() == 0), "step {step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn turns_and_wake_ups_equal_the_plain_lists(
        queue in any::<bool>(),
        tasks in 1..8u32,
        turns in prop::collection::vec(turn(), 1..200),
    ) {
        run(queue, tasks, &turns);
    }
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
