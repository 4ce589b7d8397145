//! Tests of tasks that their worker woke and has not enqueued yet, and of the tick of a task that is picked again.

use std::thread;

use tickless_core::time::Span;
use tickless_sched::hrtick::SliceTimer;
use tickless_sched::{Request, Weight};

use super::*;
use crate::executor::header;
use crate::executor::idle_task;
use crate::executor::shared::Shared;
use crate::executor::tick::TickTimer;
use crate::host::lifecycle;
use crate::host::thread::{now_lower, with_thread};

fn at(micros: i64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn scheduler() -> Scheduler {
    Scheduler::new(Switches::ON)
}

/// A task that is never polled, with a request of `micros` microseconds.
fn job(name: &'static str, micros: u64) -> Job {
    weighted(Some(name), micros, Weight::UNIT)
}

/// Works as [`job`], for a task of the weight `weight`, with or without a name.
fn weighted(name: Option<&'static str>, micros: u64, weight: Weight) -> Job {
    let request = Request::new(Span::from_micros(micros)).expect("within bounds");
    let entity = Entity::new(weight, request);
    idle_task::sharing(Shared::for_tests(1), 0, name, entity)
}

fn name(job: &Job) -> &str {
    let name = job.metadata().origin.name.as_deref();
    name.expect("all have one")
}

/// Another worker may have picked a task that is in the list of this worker, and may poll that task after the end of
/// this worker.
#[test]
fn a_closed_queue_keeps_the_wakers_of_tasks_that_are_not_over() {
    let mut scheduler = scheduler();
    let listed = job("listed", 3_000);
    let waker = listed.waker();
    scheduler.tasks.enlist(0, listed.metadata(), waker);
    assert!(scheduler.left_behind().is_empty(), "the queue is open");
    let (waited, _timer) = scheduler.close();
    assert!(waited.is_empty());
    for _ in 0..2 {
        assert_eq!(scheduler.left_behind().len(), 1);
    }
    let (_, slot) = listed.metadata().listing.place().expect("it is listed");
    assert!(scheduler.tasks.delist(slot).is_some());
    assert!(scheduler.left_behind().is_empty());
}

/// The drop of a timer waits for its callback, and a turn of another thread, in which the callback runs, may need the
/// lock of the queue.
#[test]
fn the_timer_of_a_closed_queue_is_dropped_by_who_closes_it() {
    let worker = crate::Worker::new().expect("the thread is free");
    let mut scheduler = scheduler();
    scheduler.open(TickTimer::new(worker.base()), at(1));
    let (_waited, timer) = scheduler.close();
    assert!(timer.is_some());
}

#[test]
fn what_arrived_counts_and_can_be_pulled() {
    let mut scheduler = scheduler();
    assert_eq!(scheduler.arrive(job("first", 3_000), || at(1)).waiting, 1);
    assert_eq!(scheduler.arrive(job("second", 3_000), || at(2)).waiting, 2);
    assert_eq!(
        [scheduler.queue.waiting(), scheduler.queue.waiting_for_any()],
        [2, 2]
    );
    assert!(scheduler.queue.has_work());
    for expected in ["first", "second"] {
        let given = scheduler.steal(at(3)).expect("it waits");
        assert_eq!(name(&given), expected);
    }
    assert!(!scheduler.queue.has_work());
}

#[test]
fn what_arrived_is_picked_in_its_turn() {
    let mut scheduler = scheduler();
    let _queued = scheduler.arrive(job("lone", 3_000), || at(1));
    let lone = scheduler.pick(at(1), false).expect("it waits");
    assert_eq!(name(&lone), "lone");
    let _queued = scheduler.arrive(job("long", 3_000), || at(2));
    let _queued = scheduler.arrive(job("short", 200), || at(2));
    scheduler.finish(at(3));
    let picked = scheduler.pick(at(3), false).expect("two wait");
    assert_eq!(name(&picked), "short");
    assert_eq!(scheduler.queue.waiting(), 1);
}

#[test]
fn a_task_that_is_more_urgent_asks_once() {
    let mut scheduler = scheduler();
    let _queued = scheduler.arrive(job("long", 3_000), || at(0));
    let _long = scheduler.pick(at(0), false).expect("it waits");
    assert!(!scheduler.check_preempt(), "there is none");
    let _queued = scheduler.arrive(job("as long", 3_000), || at(10));
    assert!(!scheduler.check_preempt(), "its slice is protected");
    let _queued = scheduler.arrive(job("short", 200), || at(20));
    assert!(scheduler.check_preempt());
    assert!(!scheduler.check_preempt(), "it was asked");
    // Another thread that looked at the queue before has enqueued it.
    let _queued = scheduler.arrive(job("shorter", 100), || at(30));
    let _queued = scheduler.wake(job("from afar", 3_000), at(30));
    let _queued = scheduler.arrive(job("shortest", 50), || at(30));
    let given = scheduler.steal(at(30)).expect("some wait");
    assert_eq!(name(&given), "shortest");
    assert!(
        scheduler.check_preempt(),
        "the other one that is short still waits"
    );
}

/// A task that computes for long after the wake-up owes for that time, no matter when the woken task is enqueued.
#[test]
fn what_arrived_waits_since_it_woke_up() {
    let lags = [true, false].map(|arrives| {
        let mut scheduler = scheduler();
        let _queued = scheduler.arrive(job("computes", 3_000), || at(0));
        let _computes = scheduler.pick(at(0), false).expect("it waits");
        let woken = job("woken", 3_000);
        if arrives {
            let _queued = scheduler.arrive(woken, || at(1_000));
        } else {
            let _queued = scheduler.wake(woken, at(1_000));
        }
        let _asks = scheduler.arrive(job("last", 3_000), || at(2_000));
        let _asks = scheduler.check_preempt();
        scheduler.queue.fair.current_lag()
    });
    assert_eq!(lags[0], lags[1]);
    assert!(lags[0].is_some_and(|lag| lag < 0), "{lags:?}");
}

/// No task is charged until the next known time, so the clock is not read.
#[test]
fn what_arrives_where_no_task_runs_is_filed_as_of_what_was_told_last() {
    let mut scheduler = scheduler();
    let unread = || -> Instant { unreachable!("no task runs") };
    let _queued = scheduler.arrive(job("first", 3_000), unread);
    let first = scheduler.pick(at(5), false).expect("it waits");
    assert_eq!(name(&first), "first");
    scheduler.finish(at(9));
    let _queued = scheduler.arrive(job("second", 3_000), unread);
    let _queued = scheduler.arrive(job("third", 3_000), unread);
    let second = scheduler.pick(at(2_000), false).expect("it waits");
    assert_eq!(name(&second), "second");
    let slice = scheduler.queue.fair.slice().expect("a task runs");
    assert_eq!(slice.left, 3_000_000, "it begins where it is picked");
    let _given = scheduler.steal(at(2_500));
    let slice = scheduler.queue.fair.slice().expect("a task runs");
    assert_eq!(slice.left, 2_500_000, "it is charged from there on");
}

/// A queue whose tick is a timer of this thread with a deadline hours ahead: the timer fires where the test says so.
fn ticking() -> Scheduler {
    let own = with_thread(lifecycle::enter).expect("there are bases enough");
    let mut scheduler = scheduler();
    scheduler.tick.timer = Some(TickTimer::new(own));
    scheduler
}

fn slice_timer(scheduler: &Scheduler) -> &TickTimer {
    scheduler.tick.timer.as_ref().expect("it has one")
}

/// Fires the tick: its callback requests a schedule, and the running task yields.
fn give_way(scheduler: &mut Scheduler, job: Job, now: Instant) {
    slice_timer(scheduler).cancel();
    let _pick_follows = scheduler.wake(job, now);
}

fn ticks_at(scheduler: &Scheduler) -> Option<Instant> {
    slice_timer(scheduler).queued()
}

/// A slice tick that was left over: the task for which it was started has been asleep for long.
#[test]
fn a_task_has_no_longer_because_one_before_it_had() {
    let test = thread::spawn(|| {
        let start = now_lower().saturating_add(Span::from_secs(3_600));
        let after = |millis: u64| start.saturating_add(Span::from_millis(millis));
        let mut scheduler = ticking();
        let _queued = scheduler.wake(job("long", 30_000), start);
        let long = scheduler.pick(start, false).expect("it waits");
        let _queued = scheduler.wake(job("short", 3_000), start);
        let _short = scheduler.steal(start).expect("it waits");
        assert_eq!(
            ticks_at(&scheduler),
            Some(after(30)),
            "that of the long one"
        );
        scheduler.finish(after(1));
        let _queued = scheduler.wake(job("short", 3_000), after(1));
        let short = scheduler.pick(after(1), false).expect("it waits");
        assert_eq!(ticks_at(&scheduler), Some(after(30)), "it is alone");
        let _queued = scheduler.wake(job("other", 3_000), after(2));
        assert_eq!(
            ticks_at(&scheduler),
            Some(after(4)),
            "it has 2 of 3 ms left"
        );
        let (waited, _) = scheduler.close();
        drop((long, short, waited));
    });
    test.join().expect("it does not panic");
}

/// The function by which a task sleeps and the next task is picked at once.
type Sleeps = fn(&mut Scheduler, &Job, Instant) -> Option<Job>;

/// A slice tick that was left over, where a task sleeps and the next task is picked at once. The slice of the next task
/// is a tenth of the sleeper's slice, and must end in time when a third task arrives.
#[test]
fn a_task_that_is_handed_the_worker_has_no_longer_because_the_sleeper_had() {
    let hands_over: Sleeps =
        |scheduler, job, now| scheduler.sleep_and_hand_over(header::entity(job), now);
    let picks: Sleeps = |scheduler, job, now| scheduler.sleep_and_pick(header::entity(job), now);
    for (how, heavy) in [(hands_over, 1), (picks, 1), (hands_over, 4), (picks, 4)] {
        let test = thread::spawn(move || {
            let start = now_lower().saturating_add(Span::from_secs(3_600));
            let after = |millis: u64| start.saturating_add(Span::from_millis(millis));
            let mut scheduler = ticking();
            scheduler.running.is_watched = true;
            let weight = Weight::new(heavy * Weight::UNIT.get()).expect("within bounds");
            let _queued = scheduler.wake(weighted(None, 30_000, weight), start);
            let long = scheduler.pick(start, false).expect("it waits");
            let _queued = scheduler.wake(job("short", 3_000), start);
            let short = scheduler.steal(start).expect("it waits");
            assert_eq!(
                ticks_at(&scheduler),
                Some(after(30)),
                "that of the long one"
            );
            let _queued = scheduler.arrive(short, || after(1));
            let short = how(&mut scheduler, &long, after(1)).expect("it waits");
            assert_eq!(name(&short), "short");
            assert_eq!(ticks_at(&scheduler), Some(after(30)), "none was started");
            let _queued = scheduler.wake(job("other", 3_000), after(2));
            assert_eq!(
                ticks_at(&scheduler),
                Some(after(4)),
                "it has 2 of 3 ms left"
            );
            let (waited, _) = scheduler.close();
            drop((long, short, waited));
        });
        test.join().expect("it does not panic");
    }
}

/// Two tasks alternate as in the test above, without a third task. The next task slept in debt and has paid.
#[test]
fn a_task_that_is_woken_from_debt_has_no_longer_because_the_sleeper_had() {
    let test = thread::spawn(|| {
        let start = now_lower().saturating_add(Span::from_secs(3_600));
        let after = |millis: u64| start.saturating_add(Span::from_millis(millis));
        let unnamed = |micros| weighted(None, micros, Weight::UNIT);
        let mut scheduler = ticking();
        scheduler.running.is_watched = true;
        let _queued = scheduler.wake(unnamed(3_000), start);
        let short = scheduler.pick(start, false).expect("it waits");
        let _queued = scheduler.wake(unnamed(30_000), start);
        scheduler.sleep(header::entity(&short), after(2));
        assert_eq!(
            scheduler.queue.fair.delayed(),
            1,
            "it had more than its share"
        );
        let long = scheduler.pick(after(2), false).expect("it waits");
        slice_timer(&scheduler).cancel();
        let _queued = scheduler.wake(job("other", 3_000), after(2));
        let other = scheduler.steal(after(2)).expect("it waits");
        let of_the_long_one = ticks_at(&scheduler).expect("it was not alone");
        assert!(of_the_long_one >= after(30), "{of_the_long_one:?}");
        let _queued = scheduler.arrive(short, || after(8));
        let handed = scheduler.try_sleep_and_hand_over_fast(header::entity(&long), after(9));
        let short = handed.expect("it has paid");
        assert_eq!(
            ticks_at(&scheduler),
            Some(of_the_long_one),
            "none was started"
        );
        let _queued = scheduler.wake(other, after(10));
        assert_eq!(
            ticks_at(&scheduler),
            Some(after(12)),
            "it has 2 of 3 ms left"
        );
        let (waited, _) = scheduler.close();
        drop((long, short, waited));
    });
    test.join().expect("it does not panic");
}

/// TICK-8: the tick fired before the end of the slice, and the same task is picked once more.
#[test]
fn a_task_that_is_picked_again_has_its_tick_again() {
    let test = thread::spawn(|| {
        let start = now_lower().saturating_add(Span::from_secs(3_600));
        let after = |millis: u64| start.saturating_add(Span::from_millis(millis));
        let mut scheduler = ticking();
        let _queued = scheduler.wake(job("has its share", 3_000), start);
        let first = scheduler.pick(start, false).expect("it waits");
        let _queued = scheduler.wake(job("is owed", 3_000), start);
        assert_eq!(ticks_at(&scheduler), Some(after(3)), "it is alone no more");
        give_way(&mut scheduler, first, after(3));
        let owed = scheduler.pick(after(3), false).expect("two wait");
        assert_eq!(name(&owed), "is owed");
        assert_eq!(ticks_at(&scheduler), Some(after(6)));
        give_way(&mut scheduler, owed, after(4));
        assert_eq!(ticks_at(&scheduler), None, "a schedule follows");
        let again = scheduler.pick(after(4), false).expect("two wait");
        assert_eq!(name(&again), "is owed", "it still is");
        assert_eq!(ticks_at(&scheduler), Some(after(6)), "for what is left");
        let (waited, _) = scheduler.close();
        drop((again, waited));
    });
    test.join().expect("it does not panic");
}

/// The pick enqueues the task that arrived while no task ran, as of the last known time. No slice begins at that time.
#[test]
fn the_tick_of_a_picked_task_begins_at_the_pick() {
    let test = thread::spawn(|| {
        let start = now_lower().saturating_add(Span::from_secs(3_600));
        let after = |millis: u64| start.saturating_add(Span::from_millis(millis));
        let mut scheduler = ticking();
        let _queued = scheduler.wake(job("waits", 3_000), start);
        let _queued = scheduler.arrive(job("arrives", 3_000), || unreachable!("no task runs"));
        let picked = scheduler.pick(after(2), false).expect("two wait");
        assert_eq!(ticks_at(&scheduler), Some(after(5)), "none of 3 ms is over");
        let (waited, _) = scheduler.close();
        drop((picked, waited));
    });
    test.join().expect("it does not panic");
}
