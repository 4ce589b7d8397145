//! The slice tick: a timer that fires when the slice of the running task is over.
//!
//! With it a slice is as long as it should be, at the price of a timer that is started at every switch. The timers make
//! these starts cheap (lazy, deferred, in place: spec X-4). This module does the scheduler's part (spec X-5):
//!
//! | rule | where |
//! |---|---|
//! | nothing for one task; until the virtual deadline; stretched for interrupts | [`fair_length`] |
//! | at least 10 µs, and no start for a difference of up to 5 µs | [`HrTick::start`] |
//! | inside of `schedule()` only the last start counts, carried out at the end | [`begin_batch`], [`end_batch`] |
//! | the callback asks for a hard reschedule and starts nothing | [`HrTick::fired`] |
//! | an enqueue starts it only if it is idle, or left over and late; a dequeue never touches it | [`HrTick::enqueued`], and no method for the other |
//! | the same task that is picked again is picked | [`HrTick::picked`] |
//! | a device that would soon fire without need is written before | [`HrTick::start`] |
//!
//! [`begin_batch`]: HrTick::begin_batch
//! [`end_batch`]: HrTick::end_batch
//!
//! # Who knows whom
//!
//! The scheduler knows timers, timers do not know the scheduler (TICK-28). The word, the filter and the minimum belong
//! to the scheduler and are part of this module. The timer is any type that implements [`SliceTimer`]: a
//! high-resolution timer of the core, a signal, a deadline that the task compares the clock with.
//!
//! # Ground rules
//!
//! Everything here belongs to the run queue and is accessed under its lock, by remote CPUs too. A CPU that starts the
//! tick of another CPU writes the time under that lock and then [kicks](SliceTimer::kick) the other CPU. The handler of
//! the kick acquires the lock and reads the latest time. So there is no atomic here, a start cannot be lost in a flag
//! of its own (B63), and a second kick while one is under way may be dropped (TICK-18). The expiry of a queued timer
//! changes only by a start, under the lock of its base (B61). Lock order: run queue, then base.

use core::fmt;

use tickless_core::event::Flush;
use tickless_core::platform::Platform;
use tickless_core::time::{Instant, Span};

use crate::deadline::RuntimeLeft;
use crate::fair::Slice;
use crate::load::Load;

mod extension;
mod length;
#[cfg(all(test, loom))]
mod model;
mod on_core;
#[cfg(all(test, not(loom)))]
mod tests;

pub use extension::{EXTENSION, Extension};
pub use length::{Length, fair_length};
pub use on_core::{CoreHost, CoreTimer, SETUP};

/// The shortest delay of a slice timer: 10 µs (TICK-15, B64).
pub const LEAST_DELAY: Span = Span::from_micros(10);

/// The largest change of time for which a queued timer is not moved: 5 µs (TICK-16).
pub const TOLERANCE: Span = Span::from_nanos(5_000);

/// The divisor that decides when a lazy device that is programmed too early is programmed again. That is done when the
/// device's remaining time is at most a sixteenth of the time by which it fires too early.
///
/// The useless interrupt would write the device too. So the number of writes is the same, without the interrupt, if a
/// decision is made in that time; otherwise there is at most a sixteenth more writes than there would be such
/// interrupts.
pub const SETTLED_BEFORE: u64 = 16;

/// The timer under a [`HrTick`], on the monotonic clock: absolute, pinned, hard, lazy.
///
/// All methods are called under the lock of the run queue, and MUST NOT take it. In a host on the core it is
/// [`CoreTimer`].
pub trait SliceTimer {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the deadline for which the timer is queued; `None` if the timer is not queued, even if its callback
    /// runs.
    fn queued(&self) -> Option<Instant>;

    /// Returns true if the timer is queued or its callback runs.
    fn is_active(&self) -> bool;

    /// Returns true if the timer stays as it is when a later tick is requested. The timer then fires early, and the
    /// decision that follows starts it again (TICK-7, TICK-8). This is for a timer whose restart costs more than that.
    fn comes_early(&self) -> bool {
        false
    }

    /// Starts or restarts the timer.
    fn start(&self, at: Instant);

    /// Cancels the timer lazily: without a write of the device. MUST NOT wait for a callback (TICK-25).
    fn cancel(&self);

    /// Returns true if the caller executes on the CPU of the timer. If false, [`HrTick`] [kicks](Self::kick) the
    /// timer's CPU instead of starting the timer.
    fn is_local(&self) -> bool {
        true
    }

    /// Makes the CPU of the timer call [`HrTick::kicked`] soon. It is never called if [`is_local`](Self::is_local) is
    /// always true.
    fn kick(&self) {}

    /// Returns the time at which the device of the executing CPU fires, if laziness may have left it programmed too
    /// early; `None` if there is no such device, or it is not programmed.
    fn fires(&self) -> Option<Instant> {
        None
    }

    /// Programs the device of the executing CPU for its first timer. It is called with timer interrupts masked, if
    /// [`fires`](Self::fires) shows that the device would soon fire without need.
    fn settle(&self) {}

    /// Carries out the deferred rearm of the device, if the last interrupt left it to the scheduler (spec ).
    ///
    /// With [`Flush::SliceExtension`] this method is called with timer interrupts enabled, and MUST mask them around
    /// the flush (FLUSH-7, B6). With all other values they are masked already. Does nothing where the rearm is not
    /// deferred.
    fn flush(&self, place: Flush) {
        let _ = place;
    }
}

/// The switches of the ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Ticks for tasks of the fair class.
    pub fair: bool,
    /// Ticks for tasks of the deadline class.
    pub deadline: bool,
    /// True if a queued timer stays as it is when it would move by [`TOLERANCE`] at most. It is false for comparisons
    /// only.
    pub filter: bool,
}

impl Switches {
    /// The tick is on for both classes.
    pub const ON: Self = Self {
        fair: true,
        deadline: true,
        filter: true,
    };
    /// The tick is off for both classes.
    pub const OFF: Self = Self {
        fair: false,
        deadline: false,
        filter: true,
    };

    /// Returns the switches that pay on this platform: both on if the rearm of the device is deferred, else both off
    /// (TICK-3).
    ///
    /// Without a deferred rearm, a slice that ends costs two writes of the device.
    #[must_use]
    pub const fn of<P: Platform>() -> Self {
        if P::DEFERRED_REARM {
            Self::ON
        } else {
            Self::OFF
        }
    }
}

/// The result of `schedule()` as far as it concerns the tick (TICK-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tick stays as it is, or is started as requested in this batch.
    Keep,
    /// The timer is started, even if another start was requested before.
    Start(Span),
    /// The run queue is idle: a queued tick is cancelled, unless a start was requested.
    CancelIfIdle,
}

/// The reschedule that the running class requests when the tick fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reschedule {
    /// The slice ends at once, in whatever code the task executes. The reschedule never waits for the next periodic
    /// tick, which would be the end of a slice without slice ticks (TICK-9).
    Hard,
    /// No reschedule is needed.
    No,
}

/// Counters of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Starts that the scheduler requested.
    pub asked: u64,
    /// Starts that were replaced by a later one in the same batch.
    pub replaced: u64,
    /// Starts that were dropped because the timer was queued near enough.
    pub filtered: u64,
    /// Kicks that were sent for a start on another CPU.
    pub kicks: u64,
    /// Starts that were dropped by the handler of a kick.
    pub filtered_by_kick: u64,
    /// Starts of the timer.
    pub started: u64,
    /// Requests to program the device exactly, because it would soon have fired without need.
    pub settled: u64,
    /// Cancellations at idle.
    pub cancelled: u64,
    /// The number of ticks that fired.
    pub fired: u64,
}

/// The events inside of `schedule()`, in one word that is 0 outside of it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Word(u8);

impl Word {
    /// Starts are recorded.
    const DEFER: Self = Self(1);
    /// A start happened.
    const START: Self = Self(2);
    /// The device has to be settled at the end.
    const OWES: Self = Self(4);

    const fn has(self, bit: Self) -> bool {
        self.0 & bit.0 != 0
    }

    const fn with(self, bit: Self) -> Self {
        Self(self.0 | bit.0)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_set()
            .entries(
                [
                    (Self::DEFER, "DEFER"),
                    (Self::START, "START"),
                    (Self::OWES, "OWES"),
                ]
                .into_iter()
                .filter_map(|(bit, name)| self.has(bit).then_some(name)),
            )
            .finish()
    }
}

/// The tick of one run queue.
///
/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct HrTick {
    switches: Switches,
    /// True if the CPU is online.
    active: bool,
    /// True if fair slices are on, derived from the conditions above for each pick.
    fair_is_on: bool,
    deadline_is_on: bool,
    word: Word,
    /// The delay of the recorded start, counted from the end of the batch (TICK-22).
    delay: Span,
    /// The time for which the tick was started last.
    time: Instant,
    /// True if no tick was started for the running task: a queued tick then belongs to a task that ran before. Set at
    /// each pick, and read by enqueues.
    is_left_over: bool,
    stats: Stats,
}

impl HrTick {
    /// Makes the tick of an online CPU, on a machine with precise devices.
    #[must_use]
    pub const fn new(switches: Switches) -> Self {
        Self {
            switches,
            active: true,
            fair_is_on: switches.fair,
            deadline_is_on: switches.deadline,
            word: Word(0),
            delay: Span::ZERO,
            time: Instant::ZERO,
            is_left_over: false,
            stats: Stats {
                asked: 0,
                replaced: 0,
                filtered: 0,
                kicks: 0,
                filtered_by_kick: 0,
                started: 0,
                settled: 0,
                cancelled: 0,
                fired: 0,
            },
        }
    }

    /// Records that a condition under which there are ticks changed.
    const fn switch(&mut self) {
        self.fair_is_on = self.switches.fair && self.active;
        self.deadline_is_on = self.switches.deadline && self.active;
    }

    /// Returns true if tasks of the fair class have ticks: the CPU is active, and the switch is on.
    #[must_use]
    pub const fn fair_is_on(&self) -> bool {
        self.fair_is_on
    }

    /// Returns true if tasks of the deadline class have ticks.
    #[must_use]
    pub const fn deadline_is_on(&self) -> bool {
        self.deadline_is_on
    }

    /// Returns the counters.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Notes that a task of the fair class was picked: another one, or the same again (TICK-8).
    ///
    /// `runnable` counts the tasks of the class that could run on this CPU, through all groups, the picked one
    /// included. A host without groups passes [that of its queue](crate::FairQueue::runnable). `spends` is true if the
    /// task is the one that is charged, and not one that runs in its place (B62).
    #[inline]
    pub fn picked(
        &mut self,
        slice: Slice,
        runnable: usize,
        interrupts: Load,
        spends: bool,
        timer: &impl SliceTimer,
    ) -> Reschedule {
        if !self.fair_is_on() {
            return Reschedule::No;
        }
        match fair_length(slice, runnable, interrupts) {
            Length::Nothing => Reschedule::No,
            Length::Over if spends => Reschedule::Hard,
            Length::Over => Reschedule::No,
            Length::Left(delay) => {
                self.start(delay, timer);
                Reschedule::No
            }
        }
    }

    /// Notes that a task was enqueued in the fair class, which makes `runnable` tasks. `running` is the slice of the
    /// task that is charged at present, if it is of the fair class.
    ///
    /// It starts the tick if it is not active, because the running task may have been alone when it was picked. A
    /// queued tick stays, unless it is left over from an earlier task and fires later than the running task's slice
    /// should end (`docs/scheduler.md`). There is no method for a task that leaves: the tick then fires without effect,
    /// which is cheaper than cancelling it.
    pub fn enqueued(
        &mut self,
        running: Option<Slice>,
        runnable: usize,
        interrupts: Load,
        timer: &impl SliceTimer,
    ) -> Reschedule {
        let Some(slice) = running.filter(|_| self.fair_is_on()) else {
            return Reschedule::No;
        };
        let stays = self.is_current(timer)
            || (timer.is_active() && !self.comes_late(slice, runnable, interrupts, timer));
        if stays {
            return Reschedule::No;
        }
        self.picked(slice, runnable, interrupts, true, timer)
    }

    /// Returns true if the tick is active and was started for the running task. Then an [`enqueued`](Self::enqueued)
    /// has no effect.
    #[must_use]
    #[inline]
    pub fn is_current(&self, timer: &impl SliceTimer) -> bool {
        timer.is_active() && !self.is_left_over
    }

    /// Returns true if a queued tick fires after the time at which the running task's slice should end.
    fn comes_late(
        &self,
        slice: Slice,
        runnable: usize,
        interrupts: Load,
        timer: &impl SliceTimer,
    ) -> bool {
        match fair_length(slice, runnable, interrupts) {
            Length::Nothing => false,
            Length::Over => true,
            Length::Left(delay) => {
                let at = timer.now().saturating_add(delay.max(LEAST_DELAY));
                // The callback of one that is not queued runs, and asks for a decision itself.
                timer.queued().is_some_and(|queued| queued > at)
            }
        }
    }

    /// Notes that a task of the fair class is picked outside of a batch. From now on a queued tick is that of an
    /// earlier task (`docs/scheduler.md`), unless a later call [starts](Self::picked) one.
    #[inline]
    pub fn leave_over(&mut self) {
        self.is_left_over = true;
    }

    /// Notes that a task of the deadline class was picked, or continues after its tick fired. The tick fires when its
    /// runtime is spent (TICK-13).
    ///
    /// The rest of its runtime is only known [up to date](crate::deadline::DeadlineQueue::account), so a task that is
    /// picked again has its tick too.
    pub fn picked_deadline(&mut self, left: RuntimeLeft, timer: &impl SliceTimer) -> Reschedule {
        if !self.deadline_is_on() {
            return Reschedule::No;
        }
        match left.span() {
            Span::ZERO => Reschedule::Hard,
            left => {
                self.start(left, timer);
                Reschedule::No
            }
        }
    }

    /// Notes that the tick fired. Its callback calls this, with the run queue locked and its accounts up to date.
    ///
    /// `fair` is true if the charged task is of the fair class. That task has to give way at once, or be picked again.
    /// No tick is started, because the next task is not known (TICK-4). The callback returns
    /// [`Restart::No`](tickless_core::hrtimer::Restart::No).
    pub const fn fired(&mut self, fair: bool) -> Reschedule {
        self.stats.fired += 1;
        if fair {
            Reschedule::Hard
        } else {
            Reschedule::No
        }
    }

    /// Requests a tick after `delay`, which is raised to [`LEAST_DELAY`].
    ///
    /// Inside of a batch the request is recorded, and the last one counts. Otherwise the timer is started, unless it is
    /// queued near enough; on another CPU a kick does so.
    #[inline]
    pub fn start(&mut self, delay: Span, timer: &impl SliceTimer) {
        self.stats.asked += 1;
        let delay = delay.max(LEAST_DELAY);
        if self.word != Word::default() {
            self.stats.replaced += u64::from(self.word.has(Word::START));
            self.word = self.word.with(Word::START);
            self.delay = delay;
            return;
        }
        self.is_left_over = false;
        self.start_after(delay, timer);
    }

    /// Handles the kick for a start from another CPU. Called on the CPU of the timer with the run queue locked.
    ///
    /// The requested time may have changed since, so the filter is applied again. A CPU that has become idle needs no
    /// tick.
    pub fn kicked(&mut self, is_idle: bool, timer: &impl SliceTimer) {
        let is_near = !self.needs_start(self.time, timer);
        if is_idle || is_near {
            self.stats.filtered_by_kick += 1;
            return;
        }
        self.stats.started += 1;
        timer.start(self.time);
    }

    /// Notes that `schedule()` begins, with interrupts off and the run queue locked. `owes` is true if the interrupt
    /// before deferred its rearm.
    pub fn begin_batch(&mut self, owes: bool) {
        self.word = if owes {
            Word::DEFER.with(Word::OWES)
        } else {
            Word::DEFER
        };
    }

    /// Returns true if `schedule()` began and has not ended.
    #[must_use]
    pub const fn in_batch(&self) -> bool {
        self.word.0 != 0
    }

    /// Notes that `schedule()` ends, after balancing and right before the run queue is unlocked. It is called at both
    /// ends of `schedule()`: by the task that was switched to, also when it runs for the first time, and where the same
    /// task continues ([`Flush::Switched`], [`Flush::SameTask`]).
    ///
    /// The tick comes first, then the device: it is written once, for the first timer by then.
    pub fn end_batch(&mut self, decision: Decision, place: Flush, timer: &impl SliceTimer) {
        let word = core::mem::take(&mut self.word);
        let delay = match decision {
            Decision::Start(delay) => Some(delay.max(LEAST_DELAY)),
            Decision::Keep | Decision::CancelIfIdle => word.has(Word::START).then_some(self.delay),
        };
        self.is_left_over = delay.is_none();
        if let Some(delay) = delay {
            self.start_after(delay, timer);
        } else if decision == Decision::CancelIfIdle {
            self.cancel(timer);
        }
        if word.has(Word::OWES) {
            timer.flush(place);
        }
    }

    /// Notes that the CPU goes online.
    pub const fn online(&mut self) {
        self.active = true;
        self.switch();
    }

    /// Notes that the CPU goes offline: a queued tick is cancelled (TICK-27).
    pub fn offline(&mut self, timer: &impl SliceTimer) {
        self.active = false;
        self.switch();
        self.word = Word::default();
        self.cancel(timer);
    }

    fn cancel(&mut self, timer: &impl SliceTimer) {
        if timer.queued().is_some() {
            self.stats.cancelled += 1;
            timer.cancel();
        }
    }

    #[inline]
    fn start_after(&mut self, delay: Span, timer: &impl SliceTimer) {
        let now = timer.now();
        let at = now.saturating_add(delay);
        self.time = at;
        if !self.needs_start(at, timer) {
            self.stats.filtered += 1;
            return;
        }
        self.start_at(at, now, timer);
    }

    #[inline(never)]
    fn start_at(&mut self, at: Instant, now: Instant, timer: &impl SliceTimer) {
        if timer.is_local() {
            self.stats.started += 1;
            timer.start(at);
            self.settle(now, timer);
        } else {
            self.stats.kicks += 1;
            timer.kick();
        }
    }

    /// Arms the device exactly if it would fire soon, and long before the tick that was started (LAZY-8).
    fn settle(&mut self, now: Instant, timer: &impl SliceTimer) {
        let Some(fires) = timer.fires() else {
            return;
        };
        let left = fires.saturating_since(now).as_nanos();
        let too_early = self.time.saturating_since(fires).as_nanos();
        // Of one that fires at this moment the interrupt is on its way.
        let is_soon = left > 0 && left.saturating_mul(SETTLED_BEFORE) <= too_early;
        if is_soon {
            self.stats.settled += 1;
            timer.settle();
        }
    }

    /// Applies the filter: returns true if the timer has to be started for `at`. The filter compares with the deadline
    /// for which the timer is queued, never with the armed value of the device, so that small differences do not add up
    /// (TICK-19).
    #[inline]
    fn needs_start(&self, at: Instant, timer: &impl SliceTimer) -> bool {
        let Some(queued) = timer.queued() else {
            return true;
        };
        if !self.switches.filter {
            return true;
        }
        if queued <= at && timer.comes_early() {
            return false;
        }
        let distance = at.saturating_since(queued).max(queued.saturating_since(at));
        distance > TOLERANCE
    }
}
