//! Tests of tasks with deadlines together with other tasks in a run queue, in logical time.

use async_task::Task;
use tickless_core::time::Span;
use tickless_sched::hrtick::Switches;
use tickless_sched::{Request, Weight};

use super::super::header::{Entity, Terms};
use super::super::idle_task;
use super::super::scheduler::Scheduler;
use super::super::shared::Shared;
use super::*;

const MS: i64 = 1_000_000;

fn at(millis: i64) -> Instant {
    Instant::from_nanos(millis * MS)
}

fn reservation(runtime: u64, period: u64) -> Reservation {
    let [runtime, period] = [runtime, period].map(Span::from_millis);
    Reservation::new(runtime, period, period).expect("it makes sense")
}

fn scheduler() -> Scheduler {
    Scheduler::new(Switches::ON, Bandwidth::percent(95))
}

/// Makes a task with a name that is never polled.
fn job(name: &'static str, terms: Terms) -> Job {
    let (job, task) = with_handle(name, terms);
    task.detach();
    job
}

fn with_handle(name: &'static str, terms: Terms) -> (Job, Task<(), Header>) {
    let entity = Entity::new(Weight::UNIT, Request::DEFAULT);
    idle_task::with_handle(Shared::for_tests(1), 0, Some(name), entity, terms)
}

fn fair(name: &'static str) -> Job {
    job(name, Terms::Share)
}

fn reserved(scheduler: &mut Scheduler, name: &'static str, runtime: u64, period: u64) -> Job {
    let server = scheduler
        .queue
        .deadlines
        .admit(reservation(runtime, period));
    let server = Box::pin(server.expect("there is room"));
    job(name, Terms::Reservation(server))
}

fn name(job: &Job) -> &str {
    let name = job.metadata().origin.name.as_deref();
    name.expect("it has one")
}

#[test]
fn the_earliest_deadline_comes_first_and_the_fair_ones_behind_all() {
    let mut scheduler = scheduler();
    let late = reserved(&mut scheduler, "late", 1, 50);
    let early = reserved(&mut scheduler, "early", 1, 10);
    assert!(scheduler.wake(fair("fair"), at(0)).preempts, "none runs");
    scheduler.wake(late, at(0));
    assert_eq!(scheduler.wake(early, at(0)).waiting, 3);
    assert_eq!(
        scheduler.queue.waiting_for_any(),
        1,
        "deadlines stay on their worker"
    );
    for expected in ["early", "late", "fair"] {
        let job = scheduler.pick(at(0), false).expect("it waits");
        assert_eq!(name(&job), expected);
    }
    assert!(scheduler.pick(at(0), false).is_none());
}

#[test]
fn a_deadline_ends_a_fair_slice_and_no_fair_task_ends_its() {
    let mut scheduler = scheduler();
    let urgent = reserved(&mut scheduler, "urgent", 2, 10);
    let more_urgent = reserved(&mut scheduler, "more urgent", 1, 5);
    scheduler.wake(fair("one"), at(0));
    let one = scheduler.pick(at(0), false).expect("it waits");
    assert!(scheduler.wake(urgent, at(1)).preempts);
    scheduler.wake(one, at(1));
    let urgent = scheduler.pick(at(1), false).expect("it waits");
    assert_eq!(name(&urgent), "urgent");
    assert!(!scheduler.wake(fair("two"), at(2)).preempts);
    assert!(scheduler.wake(more_urgent, at(2)).preempts);
    // It gives way with a millisecond left, and has that afterwards.
    scheduler.wake(urgent, at(2));
    assert_eq!(
        name(&scheduler.pick(at(2), false).expect("it waits")),
        "more urgent"
    );
    assert_eq!(
        name(&scheduler.pick(at(3), false).expect("it waits")),
        "urgent"
    );
}

/// Lets the tasks compute until `end`, with a decision every `step`. Returns the time that each task had, in
/// nanoseconds.
fn compute(scheduler: &mut Scheduler, step: i64, end: i64) -> [i64; 3] {
    let mut had = [0; 3];
    let (mut now, mut runs) = (0, scheduler.pick(at(0), false));
    while now < end {
        now += step;
        if let Some(job) = runs.take() {
            let place = ["control", "one", "two"]
                .iter()
                .position(|known| *known == name(&job));
            had[place.expect("one of these")] += step;
            scheduler.wake(job, Instant::from_nanos(now));
        }
        runs = scheduler.pick(Instant::from_nanos(now), false);
    }
    had
}

#[test]
fn one_that_computes_has_its_runtime_in_each_period_and_the_others_share_the_rest() {
    let mut scheduler = scheduler();
    let control = reserved(&mut scheduler, "control", 2, 10);
    for job in [control, fair("one"), fair("two")] {
        scheduler.wake(job, at(0));
    }
    let end = 2_000 * MS;
    let [control, one, two] = compute(&mut scheduler, MS / 4, end);
    let within = |had: i64, part: i64| (had - end * part / 10).abs() <= 3 * MS;
    assert!(within(control, 2), "{control}");
    assert!(within(one, 4) && within(two, 4), "{one} {two}");
    assert_eq!(
        scheduler.queue.deadlines.throttles(),
        200,
        "once in each period"
    );
}

#[test]
fn one_that_computes_alone_waits_for_its_period_all_the_same() {
    let mut scheduler = scheduler();
    let control = reserved(&mut scheduler, "control", 2, 10);
    scheduler.wake(control, at(0));
    let [control, ..] = compute(&mut scheduler, MS / 4, 1_000 * MS);
    assert!((199 * MS..=203 * MS).contains(&control), "{control}");
}

#[test]
fn one_that_is_aborted_does_not_wait_for_its_runtime() {
    let mut scheduler = scheduler();
    let hour = reservation(1, 3_600_000);
    let server = Box::pin(
        scheduler
            .queue
            .deadlines
            .admit(hour)
            .expect("there is room"),
    );
    let (job, task) = with_handle("throttled", Terms::Reservation(server));
    scheduler.wake(job, at(0));
    let job = scheduler.pick(at(0), false).expect("it waits");
    assert!(!scheduler.end(task.metadata(), at(1)), "it runs");
    assert_eq!(scheduler.wake(job, at(2)).waiting, 0);
    assert!(
        scheduler.pick(at(2), false).is_none(),
        "it used what it had"
    );
    task.metadata().listing.mark_aborted();
    assert!(scheduler.end(task.metadata(), at(3)), "it waits for more");
    assert!(scheduler.queue.has_work());
    let job = scheduler.pick(at(3), false).expect("at once");
    // As is one that is queued when it was aborted already.
    scheduler.wake(job, at(3));
    assert!(scheduler.pick(at(3), false).is_some());
    scheduler.finish(at(3));
    let server = task.metadata().server().expect("it has one");
    scheduler.queue.deadlines.dismiss(server);
    assert_eq!(scheduler.queue.deadlines.admitted(), Bandwidth::NONE);
    task.detach();
}

#[test]
fn the_timer_is_later_than_the_queue_s_clock_by_what_was_stolen() {
    let mut deadlines = Deadlines::new(Bandwidth::percent(95));
    let server = Box::pin(deadlines.admit(reservation(2, 10)).expect("there is room"));
    let job = job("control", Terms::Reservation(server));
    let shown = |millis: i64| RunTime::from_nanos((millis * MS).unsigned_abs());
    deadlines.enqueue(job, shown(0));
    let timer = deadlines.settle_timer(at(100), shown(0));
    assert_eq!(timer, None, "none is throttled");
    let (job, left) = deadlines.pick(shown(0)).expect("it waits");
    assert_eq!(left.map(RuntimeLeft::span), Some(Span::from_millis(2)));
    deadlines.enqueue(job, shown(2));
    assert!(deadlines.owes_timer(), "the worker has to start it");
    // 100 ms were stolen before the queue's clock showed 2.
    let timer = deadlines.settle_timer(at(102), shown(2));
    assert_eq!(timer, Some(at(110)));
    assert!(!deadlines.owes_timer());
    let timer = deadlines.settle_timer(at(105), shown(5));
    assert_eq!(timer, Some(at(110)), "it is the same time");
    // Three more are stolen: the timer comes too early, and is started again.
    assert!(deadlines.pick(shown(7)).is_none());
    let timer = deadlines.settle_timer(at(110), shown(7));
    assert_eq!(timer, Some(at(113)));
    assert!(deadlines.pick(shown(10)).is_some());
}

#[test]
fn a_worker_whose_timer_was_not_started_has_work() {
    let mut scheduler = scheduler();
    let control = reserved(&mut scheduler, "control", 1, 10);
    scheduler.wake(control, at(0));
    let control = scheduler.pick(at(0), false).expect("it waits");
    assert!(!scheduler.queue.has_work());
    // As a foreign thread does it.
    assert!(scheduler.wake(control, at(2)).preempts);
    assert!(scheduler.queue.has_work(), "to start the timer");
    assert_eq!(scheduler.queue.waiting(), 0, "none can run");
}

#[test]
fn a_queue_that_closes_gives_back_all_whether_they_had_runtime_or_not() {
    let mut scheduler = scheduler();
    let [one, two] = ["one", "two"].map(|name| reserved(&mut scheduler, name, 1, 10));
    scheduler.wake(one, at(0));
    let one = scheduler.pick(at(0), false).expect("it waits");
    scheduler.wake(one, at(5));
    scheduler.wake(two, at(5));
    scheduler.wake(fair("fair"), at(5));
    let (waited, _live) = scheduler.close();
    let mut names: Vec<_> = waited.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["fair", "one", "two"]);
    assert!(!scheduler.queue.has_work());
}
