//! Tests of the slice tick, rule by rule: with a fake timer, and with a run queue in virtual time.

use core::cell::{Cell, RefCell};
use core::pin::Pin;
use std::boxed::Box;
use std::vec::Vec;

use tickless_core::platform::NullPlatform;

use super::*;
use crate::amount::{Request, RunTime, Weight};
use crate::deadline::{Bandwidth, DeadlineQueue, Reservation};
use crate::fair::{Entity, FairQueue};
use crate::load::RunClock;

fn span(nanos: u64) -> Span {
    Span::from_nanos(nanos)
}

fn at(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

const fn slice(left: i64) -> Slice {
    Slice {
        weight: Weight::UNIT,
        left,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Start(Instant),
    Cancel,
    Kick,
    Flush(Flush),
    Settle,
}

/// A timer and a clock that are set by hand.
#[derive(Debug, Default)]
struct Hand {
    now: Cell<i64>,
    queued: Cell<Option<Instant>>,
    callback_runs: Cell<bool>,
    is_remote: Cell<bool>,
    comes_early: Cell<bool>,
    /// The time for which the device is armed.
    fires: Cell<Option<Instant>>,
    told: RefCell<Vec<Told>>,
}

impl Hand {
    fn told(&self) -> Vec<Told> {
        self.told.take()
    }

    fn queued_at(nanos: i64) -> Self {
        let hand = Self::default();
        hand.queued.set(Some(at(nanos)));
        hand
    }

    fn tell(&self, told: Told) {
        self.told.borrow_mut().push(told);
    }
}

impl SliceTimer for Hand {
    fn now(&self) -> Instant {
        at(self.now.get())
    }
    fn queued(&self) -> Option<Instant> {
        self.queued.get()
    }
    fn is_active(&self) -> bool {
        self.queued.get().is_some() || self.callback_runs.get()
    }
    fn comes_early(&self) -> bool {
        self.comes_early.get()
    }
    fn start(&self, at: Instant) {
        self.queued.set(Some(at));
        self.tell(Told::Start(at));
    }
    fn cancel(&self) {
        self.queued.set(None);
        self.tell(Told::Cancel);
    }
    fn is_local(&self) -> bool {
        !self.is_remote.get()
    }
    fn kick(&self) {
        self.tell(Told::Kick);
    }
    fn fires(&self) -> Option<Instant> {
        self.fires.get()
    }
    fn settle(&self) {
        self.tell(Told::Settle);
    }
    fn flush(&self, place: Flush) {
        self.tell(Told::Flush(place));
    }
}

fn tick() -> HrTick {
    HrTick::new(Switches::ON)
}

/// TICK-5, with the numbers of spec.
#[test]
fn tick_5_the_length_is_what_is_left_until_the_virtual_deadline() {
    let length = |slice, load| fair_length(slice, 2, Load::of_1024(load));
    let nanos = |nanos| Length::Left(span(nanos));
    assert_eq!(length(slice(2_800_000), 0), nanos(2_800_000));
    assert_eq!(length(slice(2_800_000), 256), nanos(3_732_421));
    for no_correction in [1_024, 1_025, u32::MAX] {
        assert_eq!(length(slice(2_800_000), no_correction), nanos(2_800_000));
    }
    let twice = Slice {
        weight: Weight::UNIT.times(2),
        left: 1_400_000,
    };
    assert_eq!(length(twice, 0), nanos(2_800_000));
    assert_eq!(length(slice(5), 0), nanos(5));
    assert_eq!(length(slice(0), 0), nanos(0));
    assert_eq!(length(slice(-1), 0), Length::Over);
}

#[test]
fn no_tick_is_needed_for_one_task() {
    for runnable in [0, 1] {
        assert_eq!(fair_length(slice(5), runnable, Load::NONE), Length::Nothing);
        assert_eq!(
            fair_length(slice(-5), runnable, Load::NONE),
            Length::Nothing
        );
        let timer = Hand::default();
        let outcome = tick().picked(slice(-5), runnable, Load::NONE, true, &timer);
        assert_eq!((outcome, timer.told()), (Reschedule::No, std::vec![]));
    }
}

/// LAZY-8: a device whose remaining time is within a sixteenth of the time by which it is armed too early is written by
/// the start before.
#[test]
fn a_device_is_settled_shortly_before_it_would_fire_for_nothing() {
    let told = |fires: i64, now: i64| {
        let hand = Hand::queued_at(fires);
        hand.now.set(now);
        hand.fires.set(Some(at(fires)));
        let mut tick = tick();
        tick.start(span(1_700_000), &hand);
        assert_eq!(
            tick.stats().settled,
            u64::from(hand.told().contains(&Told::Settle))
        );
        tick.stats().settled
    };
    // For a tick 1,600,000 later, with a sixteenth of that to go, and with a little more.
    assert_eq!(told(1_100_000, 1_000_000 - 17), 0, "not soon enough");
    assert_eq!(told(1_100_000, 1_000_000), 1);
    assert_eq!(told(1_100_000, 1_100_000), 0, "its interrupt is on its way");
    assert_eq!(told(1_000_000, 1_100_000), 0);
    assert_eq!(told(4_000_000, 1_000_000), 0, "armed for another timer");
}

/// LAZY-8 concerns only the executing CPU, and only timers that are started.
#[test]
fn neither_a_filtered_start_nor_a_kick_settles_the_device() {
    let hand = Hand::queued_at(2_700_000);
    hand.now.set(1_000_000);
    hand.fires.set(Some(at(1_000_001)));
    tick().start(span(1_700_000), &hand);
    hand.is_remote.set(true);
    tick().start(span(1_800_000), &hand);
    assert_eq!(hand.told(), [Told::Kick]);
}

/// TICK-10: neither a large weight nor a far deadline overflows (spec ).
#[test]
fn tick_10_lengths_saturate() {
    let far = Slice {
        weight: Weight::MAX,
        left: i64::MAX,
    };
    let length = fair_length(far, usize::MAX, Load::of_1024(1_023));
    assert_eq!(length, Length::Left(span(u64::MAX)));
    let timer = Hand::default();
    let outcome = tick().picked(far, 2, Load::of_1024(1_023), true, &timer);
    assert_eq!(outcome, Reschedule::No);
    assert_eq!(timer.told(), [Told::Start(Instant::LATEST)]);
}

/// TICK-6: the load of interrupts is the only load that the length depends on; the load of other classes is not used.
#[test]
fn tick_6_a_slice_is_stretched_by_the_load_of_interrupts() {
    let timer = Hand::default();
    let outcome = tick().picked(slice(1_000_000), 2, Load::of_1024(512), true, &timer);
    assert_eq!(
        (outcome, timer.told()),
        (Reschedule::No, std::vec![Told::Start(at(2_000_000))])
    );
}

/// B62: the time of one task is being spent while another runs in its place.
#[test]
fn b62_only_the_task_whose_time_is_spent_is_rescheduled() {
    let timer = Hand::default();
    assert_eq!(
        tick().picked(slice(-1), 2, Load::NONE, true, &timer),
        Reschedule::Hard
    );
    assert_eq!(
        tick().picked(slice(-1), 2, Load::NONE, false, &timer),
        Reschedule::No
    );
    assert_eq!(timer.told(), [], "and nothing is started");
}

/// TICK-15, B64.
#[test]
fn b64_no_tick_comes_within_ten_microseconds() {
    for delay in [0, 1, 9_999] {
        let timer = Hand::default();
        tick().start(span(delay), &timer);
        assert_eq!(timer.told(), [Told::Start(at(10_000))]);
        let mut tick = tick();
        tick.begin_batch(false);
        tick.start(span(delay), &timer);
        timer.queued.set(None);
        tick.end_batch(Decision::Keep, Flush::Switched, &timer);
        assert_eq!(timer.told(), [Told::Start(at(10_000))]);
        timer.queued.set(None);
        tick.end_batch(Decision::Start(span(delay)), Flush::Switched, &timer);
        assert_eq!(timer.told(), [Told::Start(at(10_000))]);
    }
}

/// TICK-16, with the numbers of spec.
#[test]
fn tick_16_small_differences_are_dropped() {
    for (new, is_started) in [
        (1_005_000, false),
        (1_005_001, true),
        (994_999, true),
        (995_000, false),
        (1_000_000, false),
    ] {
        let timer = Hand::queued_at(1_000_000);
        let mut tick = tick();
        tick.start(span(new), &timer);
        assert_eq!(timer.told().len(), usize::from(is_started), "{new}");
        assert_eq!(tick.stats().filtered, u64::from(!is_started));
        assert_eq!(tick.stats().started, u64::from(is_started));
    }
}

/// A timer that may fire early is moved only to earlier times.
#[test]
fn tick_16_a_timer_that_comes_early_stays_for_every_later_tick() {
    for (new, is_started) in [(9_000_000, false), (995_000, false), (994_999, true)] {
        let timer = Hand::queued_at(1_000_000);
        timer.comes_early.set(true);
        let mut tick = tick();
        tick.start(span(new), &timer);
        assert_eq!(timer.told().len(), usize::from(is_started), "{new}");
        assert_eq!(tick.stats().filtered, u64::from(!is_started));
    }
}

#[test]
fn without_the_filter_every_start_is_one() {
    for comes_early in [false, true] {
        let timer = Hand::queued_at(1_000_000);
        timer.comes_early.set(comes_early);
        let mut tick = HrTick::new(Switches {
            filter: false,
            ..Switches::ON
        });
        tick.start(span(1_000_000), &timer);
        assert_eq!(timer.told(), [Told::Start(at(1_000_000))]);
    }
}

/// A timer whose callback runs is not queued, so the filter has no deadline to compare a start with.
#[test]
fn tick_16_a_start_during_the_callback_is_never_dropped() {
    let timer = Hand::default();
    timer.callback_runs.set(true);
    let mut tick = tick();
    tick.start(span(20_000), &timer);
    assert_eq!(timer.told(), [Told::Start(at(20_000))]);
}

/// TICK-17.
#[test]
fn tick_17_the_filter_comes_before_the_kick_and_again_behind_it() {
    let timer = Hand::queued_at(1_000_000);
    timer.is_remote.set(true);
    let mut tick = tick();
    tick.start(span(1_004_000), &timer);
    assert_eq!(timer.told(), [], "no kick for so little");
    tick.start(span(2_000_000), &timer);
    assert_eq!(timer.told(), [Told::Kick], "and no start from afar (B61)");
    // Before the kick arrives its CPU starts the timer itself for nearly the same.
    timer.is_remote.set(false);
    timer.queued.set(Some(at(2_003_000)));
    tick.kicked(false, &timer);
    assert_eq!(timer.told(), []);
    assert_eq!(tick.stats().filtered_by_kick, 1);
    timer.queued.set(Some(at(1_000_000)));
    tick.kicked(false, &timer);
    assert_eq!(timer.told(), [Told::Start(at(2_000_000))]);
}

/// TICK-18, B63: of two remote starts one kick may be dropped, the handler starts the latest.
#[test]
fn b63_one_kick_serves_all_remote_starts() {
    let timer = Hand::default();
    timer.is_remote.set(true);
    let mut tick = tick();
    tick.start(span(3_000_000), &timer);
    tick.start(span(500_000), &timer);
    assert_eq!(tick.stats().kicks, 2);
    timer.told();
    timer.is_remote.set(false);
    tick.kicked(false, &timer);
    assert_eq!(timer.told(), [Told::Start(at(500_000))]);
    tick.kicked(false, &timer);
    assert_eq!(timer.told(), [], "the other one finds it done");
}

/// A kick that finds its CPU idle starts nothing (spec ).
#[test]
fn tick_18_a_kick_that_finds_its_cpu_idle_starts_nothing() {
    let timer = Hand::default();
    timer.is_remote.set(true);
    let mut tick = tick();
    tick.start(span(3_000_000), &timer);
    timer.told();
    tick.kicked(true, &timer);
    assert_eq!(timer.told(), []);
}

/// TICK-19: starts that each differ by little from the one before are compared with what is queued, so their sum
/// counts.
#[test]
fn tick_19_small_differences_do_not_add_up() {
    let timer = Hand::queued_at(1_000_000);
    let mut tick = tick();
    for step in 1..=3 {
        tick.start(span(1_000_000 + step * 2_000), &timer);
    }
    assert_eq!(timer.told(), [Told::Start(at(1_006_000))]);
}

/// TICK-20, TICK-22, TICK-23, TICK-24: a start inside of `schedule()` is done at its end, from then on.
#[test]
fn tick_23_of_all_starts_in_a_batch_the_last_one_counts() {
    let timer = Hand::queued_at(700_000);
    let mut tick = tick();
    tick.begin_batch(false);
    assert_eq!(timer.told(), [], "tick_20: what is queued stays queued");
    tick.start(span(1_000_000), &timer);
    // tick_24: another CPU asks, while the lock is dropped for balancing.
    timer.is_remote.set(true);
    tick.start(span(2_000_000), &timer);
    timer.is_remote.set(false);
    assert_eq!(timer.told(), [], "no start and no kick");
    timer.now.set(40_000);
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    assert_eq!(
        timer.told(),
        [Told::Start(at(2_040_000))],
        "tick_22: from the end on"
    );
    assert_eq!(tick.stats().replaced, 1);
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    assert_eq!(timer.told(), [], "the word is empty again");
}

/// TICK-20, TICK-21.
#[test]
fn tick_21_a_batch_without_a_start_leaves_the_timer_alone() {
    let timer = Hand::queued_at(700_000);
    let mut tick = tick();
    tick.begin_batch(false);
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    assert_eq!(timer.told(), []);
}

/// TICK-25, and spec: an idle CPU cancels the timer only if it is queued, whether its callback runs or not.
#[test]
fn tick_25_an_idle_cpu_cancels_what_is_queued() {
    let timer = Hand::queued_at(700_000);
    let mut tick = tick();
    tick.begin_batch(false);
    tick.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    assert_eq!(timer.told(), [Told::Cancel]);
    timer.callback_runs.set(true);
    tick.begin_batch(false);
    tick.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    assert_eq!(timer.told(), []);
    // A start wins over being idle.
    tick.begin_batch(false);
    tick.start(span(20_000), &timer);
    tick.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    assert_eq!(timer.told(), [Told::Start(at(20_000))]);
    assert_eq!(tick.stats().cancelled, 1);
}

/// TICK-26, FLUSH-5, spec: at both ends first the tick, then the device.
#[test]
fn tick_26_both_ends_settle_the_device_behind_the_tick() {
    for place in [Flush::Switched, Flush::SameTask] {
        let timer = Hand::default();
        let mut tick = tick();
        tick.begin_batch(true);
        tick.start(span(20_000), &timer);
        tick.end_batch(Decision::Keep, place, &timer);
        assert_eq!(timer.told(), [Told::Start(at(20_000)), Told::Flush(place)]);
        tick.begin_batch(true);
        tick.end_batch(Decision::CancelIfIdle, place, &timer);
        assert_eq!(timer.told(), [Told::Cancel, Told::Flush(place)]);
        tick.begin_batch(false);
        tick.end_batch(Decision::Keep, place, &timer);
        assert_eq!(timer.told(), [], "nothing is owed");
    }
}

/// TICK-27.
#[test]
fn tick_27_a_cpu_that_leaves_cancels_its_tick() {
    let timer = Hand::queued_at(700_000);
    let mut tick = tick();
    tick.offline(&timer);
    assert_eq!(timer.told(), [Told::Cancel]);
    assert!(!tick.fair_is_on() && !tick.deadline_is_on());
    let outcome = tick.picked(slice(50_000), 2, Load::NONE, true, &timer);
    assert_eq!((outcome, timer.told()), (Reschedule::No, std::vec![]));
    tick.online();
    assert!(tick.fair_is_on() && tick.deadline_is_on());
}

/// TICK-28: a scheduler that decides once passes its decision at the end of the batch, and needs no other call.
#[test]
fn tick_28_the_end_of_a_batch_takes_a_decision() {
    let timer = Hand::default();
    let mut tick = tick();
    tick.begin_batch(false);
    tick.end_batch(Decision::Start(span(30_000)), Flush::Switched, &timer);
    tick.begin_batch(false);
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    tick.begin_batch(false);
    tick.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    assert_eq!(timer.told(), [Told::Start(at(30_000)), Told::Cancel]);
}

/// TICK-2: a tick needs an active CPU, and its switch; all devices are precise here (decision 2).
#[test]
fn ticks_need_the_cpu_and_the_switch() {
    for (fair, deadline) in [(true, false), (false, true)] {
        let mut tick = HrTick::new(Switches {
            fair,
            deadline,
            ..Switches::ON
        });
        assert_eq!((tick.fair_is_on(), tick.deadline_is_on()), (fair, deadline));
        tick.offline(&Hand::default());
        assert!(!tick.fair_is_on() && !tick.deadline_is_on());
        tick.online();
        assert_eq!((tick.fair_is_on(), tick.deadline_is_on()), (fair, deadline));
    }
}

/// TICK-3.
#[test]
fn ticks_are_on_where_the_rearm_is_deferred() {
    assert_eq!(Switches::of::<NullPlatform>(), Switches::OFF);
}

/// TICK-4, TICK-9.
#[test]
fn tick_9_the_callback_asks_for_a_hard_reschedule_and_starts_nothing() {
    let mut tick = tick();
    assert_eq!(tick.fired(true), Reschedule::Hard);
    assert_eq!(
        tick.fired(false),
        Reschedule::No,
        "tick_21: another class runs by now"
    );
    assert_eq!(tick.stats().fired, 2);
    assert_eq!(tick.stats().asked, 0);
}

#[test]
fn an_enqueue_starts_the_tick_only_if_it_is_idle() {
    let enqueued = |timer: &Hand, running| {
        let outcome = tick().enqueued(running, 2, Load::NONE, timer);
        assert_eq!(outcome, Reschedule::No);
        timer.told()
    };
    let fair = Some(slice(50_000));
    assert_eq!(enqueued(&Hand::default(), fair), [Told::Start(at(50_000))]);
    assert_eq!(enqueued(&Hand::default(), None), [], "another class runs");
    assert_eq!(enqueued(&Hand::queued_at(900_000), fair), []);
    let firing = Hand::default();
    firing.callback_runs.set(true);
    assert_eq!(enqueued(&firing, fair), []);
    let mut off = HrTick::new(Switches::OFF);
    let timer = Hand::default();
    let outcome = off.enqueued(fair, 2, Load::NONE, &timer);
    assert_eq!((outcome, timer.told()), (Reschedule::No, std::vec![]));
}

/// A leftover slice tick: a task of the deadline class sleeps with most of its runtime left, and a task of the fair
/// class is alone.
#[test]
fn an_enqueue_brings_a_tick_forward_that_a_task_left_over() {
    let timer = Hand::queued_at(900_000);
    let mut tick = tick();
    let alone = |tick: &mut HrTick| {
        tick.begin_batch(false);
        let _ = tick.picked(slice(50_000), 1, Load::NONE, true, &timer);
        tick.end_batch(Decision::Keep, Flush::Switched, &timer);
        assert_eq!(timer.told(), [], "it is left where it is");
        assert!(!tick.is_current(&timer));
    };
    let enqueued = |tick: &mut HrTick, left| {
        let outcome = tick.enqueued(Some(slice(left)), 2, Load::NONE, &timer);
        (outcome, timer.told())
    };
    alone(&mut tick);
    assert_eq!(enqueued(&mut tick, 950_000), (Reschedule::No, std::vec![]));
    assert_eq!(enqueued(&mut tick, -1), (Reschedule::Hard, std::vec![]));
    let brought = std::vec![Told::Start(at(50_000))];
    assert_eq!(enqueued(&mut tick, 50_000), (Reschedule::No, brought));
    // Now it is that of the task which runs.
    assert!(tick.is_current(&timer));
    assert_eq!(enqueued(&mut tick, 20_000), (Reschedule::No, std::vec![]));
    // Of one whose callback runs a decision comes anyway.
    alone(&mut tick);
    timer.queued.set(None);
    timer.callback_runs.set(true);
    assert_eq!(enqueued(&mut tick, 20_000), (Reschedule::No, std::vec![]));
}

/// A leftover slice tick, where a task that sleeps hands its CPU over at once: the next task is alone.
#[test]
fn an_enqueue_brings_a_tick_forward_that_was_left_over_without_a_batch() {
    let timer = Hand::default();
    let mut tick = tick();
    let _ = tick.picked(slice(900_000), 2, Load::NONE, true, &timer);
    assert_eq!(timer.told(), [Told::Start(at(900_000))]);
    assert!(tick.is_current(&timer));
    tick.leave_over();
    let _ = tick.picked(slice(50_000), 1, Load::NONE, true, &timer);
    assert!(!tick.is_current(&timer));
    let outcome = tick.enqueued(Some(slice(40_000)), 2, Load::NONE, &timer);
    assert_eq!(outcome, Reschedule::No);
    assert_eq!(timer.told(), [Told::Start(at(40_000))]);
    // Where another one waits the task that is picked has a tick of its own.
    tick.leave_over();
    let _ = tick.picked(slice(30_000), 2, Load::NONE, true, &timer);
    assert!(tick.is_current(&timer));
}

/// FLUSH-7: the grant takes the place of the scheduler, so it settles the device, after its own start.
#[test]
fn flush_7_an_extension_starts_the_tick_and_settles_the_device() {
    let timer = Hand::default();
    let mut tick = tick();
    let mut extension = Extension::default();
    assert!(!extension.grant(true, &mut tick, &timer), "not asked for");
    extension.ask();
    assert!(
        !extension.grant(false, &mut tick, &timer),
        "nothing would end it"
    );
    assert!(extension.grant(true, &mut tick, &timer));
    let told = [Told::Start(at(20_000)), Told::Flush(Flush::SliceExtension)];
    assert_eq!(timer.told(), told);
    extension.ask();
    assert!(!extension.grant(true, &mut tick, &timer), "once");
    assert!(extension.withdraw(), "it makes room now");
    extension.picked();
    assert_eq!(extension, Extension::None);
    extension.ask();
    assert!(!extension.withdraw(), "its slice did not end meanwhile");
    assert!(!extension.grant(true, &mut tick, &timer));
}

/// A machine of one CPU: a fair queue of tasks that compute for ever, the tick, and interrupts that steal time.
struct Machine {
    queue: FairQueue<usize>,
    tasks: Vec<Pin<Box<Entity<usize>>>>,
    clock: RunClock,
    tick: HrTick,
    timer: Hand,
    running: usize,
    /// The time at which the running task was reconsidered last; the next field is the longest time between two such
    /// times.
    reconsidered: i64,
    longest: i64,
    /// Number of picks that chose the same task again.
    same: usize,
    /// True if the host starts the tick for a task that is picked again, as it has to.
    rearms: bool,
}

impl Machine {
    fn new(requests: &[u64], rearms: bool) -> Self {
        let tasks: Vec<_> = requests
            .iter()
            .map(|request| Request::clamped(span(*request)))
            .map(|request| Box::pin(Entity::new(Weight::UNIT, request)))
            .collect();
        let mut queue = FairQueue::default();
        for (number, task) in tasks.iter().enumerate() {
            let _joined = queue
                .enqueue(task.as_ref(), number, RunTime::ZERO)
                .expect("new");
        }
        let running = queue.pick(RunTime::ZERO).expect("one of them");
        let mut machine = Self {
            queue,
            tasks,
            clock: RunClock::new(at(0)),
            tick: tick(),
            timer: Hand::default(),
            running,
            reconsidered: 0,
            longest: 0,
            same: 0,
            rearms,
        };
        machine.start();
        machine
    }

    fn start(&mut self) {
        let slice = self.queue.slice().expect("one runs");
        let load = self.clock.load(self.timer.now());
        let runnable = self.queue.runnable();
        let outcome = self.tick.picked(slice, runnable, load, true, &self.timer);
        assert_eq!(outcome, Reschedule::No);
    }

    /// Executes `schedule()`, from the end of an interrupt.
    fn schedule(&mut self) {
        let now = self.clock.at(self.timer.now());
        self.tick.begin_batch(false);
        let due = self.queue.account(now).is_due();
        if due {
            let task = self.tasks[self.running].as_ref();
            let _back = self.queue.enqueue(task, self.running, now).expect("it ran");
            self.running = self.queue.pick(now).expect("it waits at least");
        } else {
            self.same += 1;
        }
        if due || self.rearms {
            self.start();
        }
        let place = if due {
            Flush::Switched
        } else {
            Flush::SameTask
        };
        self.tick.end_batch(Decision::Keep, place, &self.timer);
        self.longest = self.longest.max(self.timer.now.get() - self.reconsidered);
        self.reconsidered = self.timer.now.get();
    }

    /// Runs until `until`, with a periodic tick every `period`; of the time before each slice timer interrupts take one
    /// part in `steals`, if any.
    fn run(&mut self, until: i64, period: i64, steals: Option<i64>) {
        let mut next = period;
        while self.timer.now.get() < until {
            let fires = self.timer.queued.get().map_or(i64::MAX, Instant::as_nanos);
            if fires < next {
                let stolen = steals.map_or(0, |part| (fires - self.timer.now.get()) / part);
                self.clock.interrupt_begins(at(fires - stolen));
                self.timer.now.set(fires);
                self.clock.interrupt_ends(at(fires));
                self.timer.queued.set(None);
                assert_eq!(self.tick.fired(true), Reschedule::Hard);
                self.schedule();
            } else {
                self.timer.now.set(next);
                next += period;
                self.schedule();
            }
        }
    }
}

/// TICK-7, TICK-8, B8: interrupts make each tick come before its slice is over, so the same task is picked again and
/// again; as the task has a tick each time, no task runs for longer than a request. Without the tick it runs until the
/// periodic tick.
#[test]
fn tick_8_b8_the_same_task_picked_again_has_its_tick() {
    const MS: i64 = 1_000_000;
    let longest = |rearms| {
        let mut machine = Machine::new(&[3_000_000, 3_000_000], rearms);
        machine.run(2_000 * MS, 40 * MS, Some(20));
        assert!(machine.same > 10, "the case occurs: {}", machine.same);
        machine.longest
    };
    let with = longest(true);
    assert!(with <= 3_300_000, "{with} ns");
    let without = longest(false);
    assert!(without > 30 * MS, "{without} ns");
}

/// B9: a task with a short request runs in time although another task has a long request and slices are protected.
#[test]
fn b9_a_short_request_beside_a_long_one_is_served_in_time() {
    const MS: i64 = 1_000_000;
    let mut machine = Machine::new(&[100_000, 1_000_000], true);
    machine.run(100 * MS, 4 * MS, None);
    assert!(machine.longest <= 1_000_000, "{} ns", machine.longest);
    for task in &machine.tasks {
        let lag = machine
            .queue
            .lag(task.as_ref())
            .or(machine.queue.current_lag());
        let lag = lag.expect("it is here").unsigned_abs();
        assert!(lag <= 1_000_000, "{lag} ns");
    }
}

/// TICK-8, TICK-13: the deadline class also has a tick when the same task is picked again, for the runtime that is left
/// then.
#[test]
fn tick_13_a_server_picked_again_has_a_tick_for_what_is_left_by_then() {
    let mut queue = DeadlineQueue::new(Bandwidth::WHOLE);
    let [runtime, period] = [2, 10].map(Span::from_millis);
    let reservation = Reservation::new(runtime, period, period).expect("it makes sense");
    let server = Box::pin(queue.admit(reservation).expect("there is room"));
    queue
        .enqueue(server.as_ref(), (), RunTime::ZERO)
        .expect("idle");
    assert_eq!(queue.pick(RunTime::ZERO), Some(()));
    let timer = Hand::default();
    let mut tick = tick();
    for (now, left) in [(0, 2_000_000), (500_000, 1_500_000), (1_500_000, 500_000)] {
        timer.now.set(now);
        let account = queue.account(RunTime::from_nanos(now.unsigned_abs()));
        assert!(!account.is_due());
        timer.queued.set(None);
        let outcome = tick.picked_deadline(account.left(), &timer);
        assert_eq!(
            (outcome, timer.told()),
            (Reschedule::No, std::vec![Told::Start(at(now + left))])
        );
    }
    let account = queue.account(RunTime::from_nanos(2_000_000));
    assert!(account.is_due());
    assert_eq!(
        tick.picked_deadline(account.left(), &timer),
        Reschedule::Hard
    );
    let mut off = HrTick::new(Switches::OFF);
    assert_eq!(off.picked_deadline(account.left(), &timer), Reschedule::No);
    assert_eq!(timer.told(), []);
    queue.retire(RunTime::from_nanos(2_000_000));
}
