//! Tests of the fair queue's rules and of its tick's rules, in times that the test chooses: no thread runs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::pin::Pin;

use tickless_core::event::Flush;
use tickless_core::time::{Instant, Span};
use tickless_sched::deadline::{Bandwidth, DeadlineQueue, Reservation};
use tickless_sched::fair::{Sleep, Slice};
use tickless_sched::hrtick::{Decision, Reschedule, SliceTimer, Switches};
use tickless_sched::load::Load;
use tickless_sched::{Entity, FairQueue, HrTick, Request, RunTime, Weight};

use super::fixture::{Verdict, ensure};
use crate::machine::Machine;
use crate::parameters::Parameters;

const MS: u64 = 1_000_000;

/// A queue, which is dropped before its tasks.
struct World {
    queue: FairQueue<usize>,
    tasks: Vec<Pin<Box<Entity<usize>>>>,
}

fn at(nanos: u64) -> RunTime {
    RunTime::from_nanos(nanos)
}

impl World {
    /// Makes tasks with these weights in units, and requests in milliseconds. The first of them is picked.
    fn new(tasks: &[(u32, u64)]) -> Self {
        let made = tasks.iter().map(|&(units, millis)| {
            let request = Request::clamped(Span::from_millis(millis));
            Box::pin(Entity::new(Weight::UNIT.times(units), request))
        });
        let mut world = Self {
            tasks: made.collect(),
            queue: FairQueue::default(),
        };
        world.put(0, 0);
        world.queue.pick(at(0));
        world
    }

    /// Enqueues a task, and returns true if it preempts the running one.
    fn put(&mut self, task: usize, nanos: u64) -> bool {
        let entity = self.tasks[task].as_ref();
        let queued = self.queue.enqueue(entity, task, at(nanos));
        queued.is_ok_and(|queued| queued.preempts)
    }

    fn lag(&mut self, task: usize) -> Option<i64> {
        self.queue.lag(self.tasks[task].as_ref())
    }

    fn sleep(&mut self, task: usize, nanos: u64) -> Option<Sleep> {
        let entity = self.tasks[task].as_ref();
        self.queue.sleep(entity, at(nanos)).ok()
    }
}

/// The rules of both classes and of the tick hold, one by one.
pub(super) fn rules(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    slices()?;
    sleepers()?;
    shares()?;
    reservations()?;
    ticks()
}

/// A slice goes on to its end, unless a task with a shorter request wakes up.
fn slices() -> Verdict {
    let mut world = World::new(&[(1, 10), (1, 1)]);
    ensure!(world.put(1, 0), "a short request waits");
    let mut world = World::new(&[(1, 3), (1, 3), (1, 1)]);
    world.put(1, 0);
    let ends = world.queue.account(at(2 * MS)).is_due();
    ensure!(!ends, "a slice ends before its request is served");
    world.put(2, 2 * MS);
    ensure!(world.queue.account(at(3 * MS)).is_due(), "no slice ends");
    // It has the earliest deadline again, and had more than its share.
    world.put(0, 3 * MS);
    world.queue.pick(at(3 * MS));
    world.put(2, 4 * MS);
    let next = world.queue.pick(at(4 * MS));
    ensure!(next == Some(1), "{next:?} had its share, and is picked");
    Ok(())
}

/// A task that sleeps pays what it owes first, and is owed nothing afterwards. One that is owed time keeps a request.
fn sleepers() -> Verdict {
    let mut world = World::new(&[(1, 3), (1, 3)]);
    world.put(1, 0);
    let slept = world.sleep(0, 2 * MS);
    ensure!(slept == Some(Sleep::Delayed), "a debt is left by sleeping");
    world.queue.pick(at(2 * MS));
    world.put(0, 40 * MS);
    let lag = world.lag(0);
    ensure!(lag == Some(0), "one that has paid is owed {lag:?} ns");

    let mut world = World::new(&[(1, 3), (1, 3)]);
    world.put(1, 0);
    let _due = world.queue.account(at(20 * MS));
    let _left = world.queue.dequeue(world.tasks[1].as_ref(), at(20 * MS));
    world.put(1, 30 * MS);
    let lag = world.lag(1);
    ensure!(lag == Some(3_000_000), "{lag:?} ns are kept of a credit");
    Ok(())
}

/// What is served in parts counts as if it were served at once; and of many tasks none is owed more than a request, and
/// each that is picked had no more than its share.
fn shares() -> Verdict {
    let mut world = World::new(&[(3, 3), (3, 3)]);
    world.put(1, 0);
    for nanos in 1..=3_000 {
        let _due = world.queue.account(at(nanos));
    }
    let lag = world.queue.current_lag();
    ensure!(lag == Some(-1_500), "lag {lag:?} after 3000 times 1 ns");

    let wants: Vec<_> = (0..40)
        .map(|task| (1 + task % 3, 1 + u64::from(task) * 7 % 11))
        .collect();
    let mut world = World::new(&wants);
    for task in 1..wants.len() {
        world.put(task, 0);
    }
    let (mut now, mut running) = (0, 0);
    for _ in 0..1_000 {
        now += wants[running].1 * MS;
        world.put(running, now);
        let lags: Vec<_> = (0..wants.len())
            .map(|task| world.lag(task).unwrap_or(i64::MIN))
            .collect();
        let (least, most) = (lags.iter().min(), lags.iter().max());
        let is_bounded = |lag: &i64| lag.unsigned_abs() <= 11 * MS + 1_000;
        ensure!(
            least.is_some_and(is_bounded) && most.is_some_and(is_bounded),
            "lags of {least:?} to {most:?} ns at {now} ns"
        );
        let Some(task) = world.queue.pick(at(now)) else {
            return Err("no task is picked".into());
        };
        let lag = lags[task];
        ensure!(lag > -1_000, "task {task} is picked with a lag of {lag} ns");
        running = task;
    }
    Ok(())
}

/// A server that wakes up before its deadline has what its density gives until then, and one that ran for too long has
/// the rest of the periods that pay for it.
fn reservations() -> Verdict {
    // Sleeps until 2 ms without a debt, or runs for 5 ms in place of 2; with what is left of the runtime then.
    for (deadline, ran, wakes, runs) in [(4, 0, 2, 2), (10, 5, 6, 20)] {
        let [runtime, deadline, period] = [2, deadline, 10].map(Span::from_millis);
        let mut queue = DeadlineQueue::new(Bandwidth::percent(95));
        let reservation = Reservation::new(runtime, deadline, period);
        let server = reservation.ok().and_then(|of| queue.admit(of).ok());
        let Some(server) = server.map(Box::pin) else {
            return Err("a reservation is refused".into());
        };
        let _throttled = queue.enqueue(server.as_ref(), 0, at(0));
        queue.pick(at(0));
        let _slept = queue.sleep(server.as_ref(), at(ran * MS));
        let _throttled = queue.enqueue(server.as_ref(), 0, at(wakes * MS));
        queue.replenish(at(runs * MS));
        queue.pick(at(runs * MS));
        let left = queue.account(at(runs * MS)).left().span();
        // It may hold the server.
        drop(queue);
        ensure!(left == Span::from_millis(1), "{left:?} left at {runs} ms");
    }
    Ok(())
}

/// A timer that is set by hand.
#[derive(Default)]
struct Hand {
    now: Cell<i64>,
    queued: Cell<Option<i64>>,
    /// The time for which the device is armed.
    fires: Cell<Option<i64>>,
    settled: Cell<bool>,
}

impl SliceTimer for Hand {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }
    fn queued(&self) -> Option<Instant> {
        self.queued.get().map(Instant::from_nanos)
    }
    fn is_active(&self) -> bool {
        self.queued.get().is_some()
    }
    fn start(&self, at: Instant) {
        self.queued.set(Some(at.as_nanos()));
    }
    fn cancel(&self) {
        self.queued.set(None);
    }
    fn fires(&self) -> Option<Instant> {
        self.fires.get().map(Instant::from_nanos)
    }
    fn settle(&self) {
        self.settled.set(true);
    }
}

/// Returns a timer that is queued for `nanos`.
fn hand(nanos: impl Into<Option<i64>>) -> Hand {
    let hand = Hand::default();
    hand.queued.set(nanos.into());
    hand
}

/// A tick is started no sooner than it pays, stays where it is for a small difference, and is that of the task that
/// runs.
fn ticks() -> Verdict {
    let tick = || HrTick::new(Switches::ON);
    let slice = |left| Slice {
        weight: Weight::UNIT,
        left,
    };
    let start = |timer: &Hand, nanos| {
        tick().start(Span::from_nanos(nanos), timer);
        timer.queued.get()
    };
    let began = start(&hand(None), 1);
    ensure!(began == Some(10_000), "a tick at {began:?} (TICK-15)");
    let kept = start(&hand(1_000_000), 1_005_000);
    ensure!(kept == Some(1_000_000), "moved to {kept:?} (TICK-16)");
    let timer = hand(1_100_000);
    timer.now.set(1_000_000);
    timer.fires.set(Some(1_100_000));
    start(&timer, 1_700_000);
    ensure!(timer.settled.get(), "a device fires for nothing (LAZY-8)");

    let (mut batch, timer) = (tick(), hand(700_000));
    batch.begin_batch(false);
    for millis in [1, 2] {
        batch.start(Span::from_millis(millis), &timer);
    }
    batch.end_batch(Decision::Keep, Flush::Switched, &timer);
    let last = timer.queued.get();
    ensure!(last == Some(2_000_000), "a tick at {last:?} (TICK-23)");
    batch.begin_batch(false);
    batch.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    ensure!(!timer.is_active(), "a tick of an idle CPU (TICK-25)");

    let picked = |runnable, load| {
        let timer = hand(None);
        let _later = tick().picked(slice(1_000_000), runnable, load, true, &timer);
        timer.queued.get()
    };
    let alone = picked(1, Load::NONE);
    ensure!(alone.is_none(), "a tick at {alone:?} for one task");
    let long = picked(2, Load::of_1024(512));
    ensure!(long == Some(2_000_000), "half of {long:?} (TICK-6)");
    let spent = tick().picked(slice(-1), 2, Load::NONE, false, &timer);
    ensure!(spent == Reschedule::No, "another task pays (B62)");
    let enqueue = |tick: &mut HrTick, timer: &Hand| {
        let _later = tick.enqueued(Some(slice(50_000)), 2, Load::NONE, timer);
        timer.queued.get()
    };
    let timer = hand(900_000);
    let kept = enqueue(&mut tick(), &timer);
    ensure!(kept == Some(900_000), "an enqueue moves it to {kept:?}");
    let mut alone = tick();
    alone.begin_batch(false);
    let _goes_on = alone.picked(slice(50_000), 1, Load::NONE, true, &timer);
    alone.end_batch(Decision::Keep, Flush::Switched, &timer);
    let brought = enqueue(&mut alone, &timer);
    ensure!(brought == Some(50_000), "a left over tick: {brought:?}");
    let (mut left, timer) = (tick(), hand(None));
    let _goes_on = left.picked(slice(900_000), 2, Load::NONE, true, &timer);
    left.leave_over();
    let brought = enqueue(&mut left, &timer);
    ensure!(brought == Some(50_000), "a sleeper's tick: {brought:?}");
    Ok(())
}
