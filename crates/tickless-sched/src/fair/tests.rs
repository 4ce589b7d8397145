//! Tests of the fair run queue, rule by rule.

use core::pin::Pin;
use std::boxed::Box;
use std::vec::Vec;

use super::*;
use crate::amount::Request;
use tickless_core::time::Span;

mod balance;
mod hand_over;
mod lag;

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> RunTime {
    RunTime::from_nanos(nanos)
}

fn entity(weight: Weight, request: u64) -> Pin<Box<Entity<u32>>> {
    let request = Request::new(Span::from_nanos(request)).expect("within bounds");
    Box::pin(Entity::new(weight, request))
}

/// Runs tasks that compute for ever, with a decision at each `tick`, for the given time. Returns the service of each
/// task.
fn serve(
    queue: &mut FairQueue<u32>,
    tasks: &[Pin<Box<Entity<u32>>>],
    from: u64,
    until: u64,
    tick: u64,
) -> Vec<u64> {
    let mut served = std::vec![0; tasks.len()];
    let mut now = from;
    let mut running = queue.pick(at(now)).expect("some wait") as usize;
    while now < until {
        now += tick;
        served[running] += tick;
        if queue.account(at(now)).is_due() {
            let enqueued = queue
                .enqueue(
                    tasks[running].as_ref(),
                    u32::try_from(running).unwrap(),
                    at(now),
                )
                .expect("it ran");
            assert!(enqueued.was_current);
            running = queue.pick(at(now)).expect("some wait") as usize;
        }
    }
    let _put_back = queue
        .enqueue(
            tasks[running].as_ref(),
            u32::try_from(running).unwrap(),
            at(now),
        )
        .expect("it ran");
    served
}

/// A queue, which is dropped before its tasks.
struct World {
    queue: FairQueue<u32>,
    tasks: Vec<Pin<Box<Entity<u32>>>>,
}

impl World {
    /// Creates tasks of unit weight with these requests in milliseconds. None of them is queued.
    fn new(requests: &[u64]) -> Self {
        Self {
            tasks: requests
                .iter()
                .map(|request| entity(Weight::UNIT, request * MS))
                .collect(),
            queue: FairQueue::default(),
        }
    }

    fn put(&mut self, task: u32, nanos: u64) -> Enqueued {
        let entity = self.tasks[task as usize].as_ref();
        self.queue
            .enqueue(entity, task, at(nanos))
            .expect("no queue has it")
    }

    fn sleep(&mut self, task: u32, nanos: u64) -> Sleep {
        let entity = self.tasks[task as usize].as_ref();
        self.queue.sleep(entity, at(nanos)).expect("it runs")
    }

    fn lag(&mut self, task: u32) -> Option<i64> {
        self.queue.lag(self.tasks[task as usize].as_ref())
    }
}

/// Slices are protected: neither a tick nor a wake-up ends one before its request is served.
#[test]
fn a_slice_that_began_goes_on_to_its_end() {
    let mut world = World::new(&[3, 3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    for nanos in [1, MS, 3 * MS - 1] {
        assert_eq!(
            world.queue.account(at(nanos)),
            SliceCheck::GoOn,
            "at {nanos}"
        );
    }
    assert_eq!(world.queue.account(at(3 * MS)), SliceCheck::Switch);
}

/// A slice is protected from tasks whose requests are as long. It is not protected from a task with a shorter request,
/// nor beyond the running task's share.
#[test]
fn a_short_request_that_wakes_up_preempts() {
    for (request, preempts) in [(10, false), (1, true)] {
        let mut world = World::new(&[10, request]);
        let _joined = world.put(0, 0);
        assert_eq!(world.queue.pick(at(0)), Some(0));
        // It joins with nothing owed, and has the earlier deadline in both cases.
        let joined = world.put(1, 0);
        assert_eq!(
            joined,
            Enqueued {
                preempts,
                was_current: false
            },
            "request {request}"
        );
    }
    // Beyond its share the running task is protected from none.
    let mut world = World::new(&[10, 10, 10]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert_eq!(world.queue.account(at(MS)), SliceCheck::GoOn);
    assert!(world.put(2, MS).preempts);
}

/// Delayed dequeue: a task that received too much service cannot get rid of the debt by sleeping.
#[test]
fn a_task_that_owes_time_sleeps_in_the_queue() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert_eq!(
        world.sleep(0, 2 * MS),
        Sleep::Delayed,
        "it had one too much"
    );
    assert_eq!(world.lag(0), Some(-1_000_000));
    assert_eq!(
        (
            world.queue.runnable(),
            world.queue.waiting(),
            world.queue.delayed()
        ),
        (1, 1, 1)
    );
    assert_eq!(world.queue.pick(at(2 * MS)), Some(1), "it is not run");
    // It wakes up when half of that is paid, and goes on as it was.
    let woken = world.put(0, 3 * MS);
    assert!(!woken.preempts);
    assert_eq!(world.lag(0), Some(-500_000));
    assert_eq!(world.queue.delayed(), 0);
    assert_eq!(world.queue.account(at(5 * MS)), SliceCheck::Switch);
    let _back = world.put(1, 5 * MS);
    assert_eq!(world.queue.pick(at(5 * MS)), Some(0));
    assert_eq!(
        world.queue.pick(at(5 * MS)),
        Some(1),
        "the other has finished"
    );
}

#[test]
fn a_task_that_has_paid_is_let_go_with_nothing_owed() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert_eq!(world.sleep(0, 2 * MS), Sleep::Delayed);
    assert_eq!(world.queue.pick(at(2 * MS)), Some(1));
    // Paid at 4 ms; the next decision comes at 5.
    assert_eq!(
        world.queue.account(at(5 * MS)),
        SliceCheck::GoOn,
        "there is no other"
    );
    assert_eq!((world.lag(0), world.queue.delayed()), (None, 0));
    assert!(!world.tasks[0].is_queued());
    let _woken = world.put(0, 6 * MS);
    assert_eq!(world.lag(0), Some(0));
}

/// The other task runs alone meanwhile, and no decision is made: the service that it received since then is not owed to
/// the sleeper.
#[test]
fn a_task_that_has_paid_and_was_not_let_go_is_owed_nothing() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert_eq!(world.sleep(0, 2 * MS), Sleep::Delayed);
    assert_eq!(world.queue.pick(at(2 * MS)), Some(1));
    let _woken = world.put(0, 40 * MS);
    assert_eq!((world.lag(0), world.queue.delayed()), (Some(0), 0));
    assert_eq!(world.queue.current_lag(), Some(0));
}

/// Two of them: the first that wakes up is not placed by the account of the other, which would be ahead when that goes.
#[test]
fn tasks_that_have_paid_do_not_place_each_other() {
    let mut world = World::new(&[3, 3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0), world.put(2, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert_eq!(world.sleep(0, 3 * MS), Sleep::Delayed);
    assert_eq!(world.queue.pick(at(3 * MS)), Some(1));
    assert_eq!(world.sleep(1, 6 * MS), Sleep::Delayed);
    assert_eq!(world.queue.pick(at(6 * MS)), Some(2));
    let _woken = (world.put(0, 40 * MS), world.put(1, 40 * MS));
    assert_eq!([0, 1].map(|task| world.lag(task)), [Some(0), Some(0)]);
}

#[test]
fn a_task_that_is_owed_time_takes_it_along_up_to_a_request() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    // Task 0 cannot be preempted and has 20 ms: 1 is owed 10, more than the 3 that it asks for at a time.
    assert_eq!(world.queue.account(at(20 * MS)), SliceCheck::Switch);
    assert_eq!(world.lag(1), Some(10_000_000));
    let task = world.tasks[1].as_ref();
    assert_eq!(world.queue.dequeue(task, at(20 * MS)), Some(Some(1)));
    assert_eq!(world.queue.dequeue(task, at(20 * MS)), None);
    let _woken = world.put(1, 30 * MS);
    assert_eq!(world.lag(1), Some(3_000_000));
}

/// A running task that is woken is enqueued again, by its own thread or by another one, which cannot detect that the
/// task runs.
#[test]
fn the_task_that_runs_may_be_enqueued_from_elsewhere() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    assert!(world.put(0, MS).was_current);
    assert!(!world.queue.is_running());
    assert_eq!(world.lag(0), Some(-500_000), "what it had is accounted");
    let slept = world.queue.sleep(world.tasks[0].as_ref(), at(MS));
    assert_eq!(slept, Err(Refusal::Elsewhere), "it waits by now");
}

#[test]
fn a_task_is_queued_once() {
    let mut world = World::new(&[3]);
    let _joined = world.put(0, 0);
    let again = world
        .queue
        .enqueue(world.tasks[0].as_ref(), 7, at(0))
        .expect_err("it waits");
    assert_eq!((again.item, again.why), (7, Refusal::Queued));
    let mut other = FairQueue::default();
    let again = other
        .enqueue(world.tasks[0].as_ref(), 8, at(0))
        .expect_err("elsewhere");
    assert_eq!((again.item, again.why), (8, Refusal::Elsewhere));
    assert_eq!(
        other.sleep(world.tasks[0].as_ref(), at(0)),
        Err(Refusal::Elsewhere)
    );
    let refused = other.reweight(world.tasks[0].as_ref(), Weight::MAX, at(0));
    assert_eq!(refused, Err(Refusal::Elsewhere));
}

/// The task that runs belongs to no queue: it may be freed, and another task may be made in the same memory.
#[test]
fn a_task_may_be_freed_while_it_runs() {
    let mut world = World::new(&[3, 3]);
    let _joined = (world.put(0, 0), world.put(1, 0));
    assert_eq!(world.queue.pick(at(0)), Some(0));
    world.tasks[0] = entity(Weight::UNIT, 3 * MS);
    let newcomer = world.put(0, MS);
    assert!(!newcomer.was_current, "it is not the one that runs");
    assert_eq!(world.queue.runnable(), 3);
    assert_eq!(world.queue.pick(at(MS)), Some(1), "which has finished");
}

#[test]
fn an_idle_worker_pulls_what_would_be_picked_next() {
    let mut world = World::new(&[3, 1, 2]);
    for task in 0..3 {
        let _joined = world.put(task, 0);
    }
    assert_eq!(world.queue.pick(at(0)), Some(1));
    assert_eq!(world.queue.account(at(MS)), SliceCheck::Switch);
    assert_eq!(world.queue.pull(at(MS)), Some(2));
    let mut there = FairQueue::default();
    let pulled = there
        .enqueue(world.tasks[2].as_ref(), 2, at(0))
        .expect("let go");
    assert!(pulled.preempts, "nothing runs there");
    assert_eq!(there.pick(at(0)), Some(2));
    assert_eq!(world.queue.pull(at(MS)), Some(0));
    assert_eq!(world.queue.pull(at(MS)), None, "the one that runs stays");
    assert_eq!(world.queue.runnable(), 1);
}

/// A sleeper in debt has the earlier deadline, and is before the only waiting task.
#[test]
fn a_sleeper_in_debt_keeps_no_one_from_being_pulled() {
    let mut world = World::new(&[20, 10, 1]);
    let (computes, waits, sleeps) = (0, 1, 2);
    let _joined = (world.put(computes, 0), world.put(waits, 0));
    assert_eq!(world.queue.pick(at(0)), Some(1));
    let _back = world.put(waits, 3 * MS);
    let _joined = world.put(sleeps, 3 * MS);
    assert_eq!(world.queue.pick(at(3 * MS)), Some(2));
    assert_eq!(world.sleep(sleeps, 7 * MS), Sleep::Delayed);
    assert_eq!(world.queue.pick(at(7 * MS)), Some(0));
    assert_eq!(world.queue.waiting(), 1);
    assert_eq!(world.queue.pull(at(7 * MS)), Some(1));
}

/// A queue that is dropped also drops the items that it would hand out: a task that keeps itself alive is not leaked.
#[test]
fn a_queue_that_is_dropped_drops_what_it_would_hand_out() {
    use std::sync::Arc;
    let item = Arc::new(());
    let entity = Box::pin(Entity::default());
    let mut queue = FairQueue::default();
    let _joined = queue
        .enqueue(entity.as_ref(), Arc::clone(&item), at(0))
        .expect("new");
    drop(queue);
    assert_eq!(Arc::strong_count(&item), 1);
    assert!(!entity.is_queued());
}

/// Days of service at once, a clock that goes back, the smallest beside the largest: nothing overflows.
#[test]
fn extremes_overflow_nothing() {
    let mut world = World::new(&[100, 100]);
    world.tasks[0] = entity(Weight::MIN, 100 * MS);
    world.tasks[1] = entity(Weight::MAX, 10_000);
    let _joined = (world.put(0, 0), world.put(1, 0));
    let mut now = 0_u64;
    for step in 0..2_000_u64 {
        // An hour each, the clock goes back in between, and years at the end.
        now = now.saturating_add(if step < 1_900 {
            3_600_000 * MS
        } else {
            u64::MAX / 200
        });
        let running = world.queue.pick(at(now)).expect("both can run");
        let _verdict = world.queue.account(at(now / 2));
        let _verdict = world.queue.account(at(now.saturating_add(3_600_000 * MS)));
        let _back = world.put(running, now);
        world.queue.tree.assert_valid();
    }
    assert_eq!(world.queue.runnable(), 2);
}

/// Each weight's share is within 2 % of what it is entitled to over 10 s, for 1, 10 and 1,000 tasks.
#[test]
fn shares_over_ten_seconds_are_within_two_percent() {
    for (count, request) in [(1_u64, 3 * MS), (10, 3 * MS), (1_000, MS)] {
        let weights = (0..count).map(|number| 1 + number % 3);
        let whole: u64 = weights.clone().sum();
        let tasks: Vec<_> = weights
            .clone()
            .map(|times| entity(Weight::UNIT.times(u32::try_from(times).unwrap()), request))
            .collect();
        let mut queue = FairQueue::default();
        for (number, task) in (0..).zip(&tasks) {
            let _joined = queue.enqueue(task.as_ref(), number, at(0)).expect("new");
        }
        let span = 10_000 * MS;
        let served = serve(&mut queue, &tasks, 0, span, MS / 2);
        let mut by_weight = [(0_u64, 0_u64); 4];
        for (served, times) in served.iter().zip(weights) {
            let all = &mut by_weight[usize::try_from(times).unwrap()];
            *all = (all.0 + served, all.1 + span / whole * times);
        }
        for (served, entitled) in by_weight {
            let apart = served.abs_diff(entitled) * 100;
            assert!(
                apart <= 2 * entitled,
                "{served} of {entitled} ns, {count} tasks"
            );
        }
    }
}

/// A million tasks, of which half leave: each is served once before one is served twice. Fewer where the checks of
/// debug builds would take seconds.
#[test]
fn a_million_tasks_are_served() {
    let count = if cfg!(debug_assertions) {
        100_000_u32
    } else {
        1_000_000
    };
    let tasks: Vec<_> = (0..count)
        .map(|number| entity(Weight::UNIT.times(1 + number % 2), MS))
        .collect();
    let mut queue = FairQueue::default();
    for (number, task) in (0..).zip(&tasks) {
        let _joined = queue.enqueue(task.as_ref(), number, at(0)).expect("new");
    }
    for task in tasks.iter().step_by(2) {
        assert!(queue.dequeue(task.as_ref(), at(0)).is_some());
    }
    assert_eq!(queue.runnable(), tasks.len() / 2);
    // All that are left have weight 2; each of these is served a different one.
    let mut seen = std::collections::BTreeSet::new();
    for step in 1..=1_000 {
        let task = queue.pick(at((step - 1) * MS)).expect("some wait");
        assert!(
            seen.insert(task),
            "no task is served twice before the others"
        );
        let _verdict = queue.account(at(step * MS));
        let _back = queue
            .enqueue(tasks[task as usize].as_ref(), task, at(step * MS))
            .expect("it ran");
    }
    queue.tree.assert_valid();
}
