//! The clocks of a machine: a [counter](CounterModel) with its errors, and the core's `Timekeeper`, which computes the
//! time from it.
//!
//! Events and cursors are in true time; the core sees the monotonic clock of the CPU that reads it
//! (`laboratory/docs/simulator.md`, "Clocks").
//!
//! # Changes
//!
//! A CPU executes ahead of the events to come, up to its cursor. A change of the clocks therefore counts from the
//! furthest cursor on, as if it had been made at that time. A CPU that executes before that time uses the old record,
//! and a CPU that executes after it uses the new record. All CPUs use the new record once the event of that time has
//! come. Until then two records exist.
//!
//! An update of the record works in the same way, because the updated record may have another rate. No event ends an
//! update: the old record is advanced when the next change comes. A change waits while some CPUs are before the change
//! that precedes it.

mod counter;
mod truth;

use std::cell::{Cell, RefCell};

use tickless_core::clock::{CounterId, Keeper, Offsets, SetSequence, Slept, Timekeeper};
use tickless_core::time::convert::Cycles;
use tickless_core::time::{Clock, Instant, NANOS_PER_SEC, Offset, Span};

use counter::Running;
pub use counter::{CounterModel, STAND_IN};
pub(crate) use counter::{PPM_MAX, RawCounter, ppm, read};
use truth::Truth;

use crate::model::current_cpu;
use crate::model::time::Picos;

/// The time of day when a run begins: 14 November 2023, 22:13:20 UTC.
pub(crate) const WALL_START: i64 = 1_700_000_000 * NANOS_PER_SEC;
/// The lead of international atomic time over the time of day.
const TAI_AHEAD: i64 = 37 * NANOS_PER_SEC;
/// The clock shows whole nanoseconds.
const CLOCK_STEP: Picos = Picos::from_nanos(1);
/// The largest number of steps; a conversion of a device's time finds its neighbourhood in fewer.
const STEPS_MAX: u32 = 8;

/// The counter that the clock goes by and coupled devices compare with.
pub(crate) const COUNTER: CounterId = CounterId(1);
/// The id of the counter that replaces it.
const SPARE: CounterId = CounterId(2);

/// A change of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The time of day is set, by this number of nanoseconds.
    Step(i64),
    /// A leap second: the time of day is set, and atomic time is not.
    Leap(i64),
    /// The rate changes by this number of parts per million.
    Steer(i32),
    /// The machine sleeps for this time.
    Sleep(Picos),
    /// The counter is about to stop: [`STAND_IN`] takes its place.
    Replace,
}

/// A record of the time, and the counter that it belongs to.
#[derive(Debug)]
struct Version {
    counter: RefCell<Running>,
    timekeeper: Timekeeper,
    keeper: RefCell<Keeper>,
}

impl Version {
    fn new(counter: Running) -> Self {
        let nominal = counter.model.nominal(COUNTER);
        let now = counter.read(current_cpu::NO_CPU, Picos::ZERO);
        let (timekeeper, mut keeper) = Timekeeper::new(nominal, now);
        let offsets = Offsets {
            realtime: Offset::from_nanos(WALL_START),
            tai: Offset::from_nanos(WALL_START + TAI_AHEAD),
            ..Offsets::default()
        };
        keeper.set_offsets(&timekeeper, offsets);
        Self {
            counter: RefCell::new(counter),
            timekeeper,
            keeper: RefCell::new(keeper),
        }
    }

    #[inline]
    fn shows(&self, cpu: u32, at: Picos) -> Instant {
        self.timekeeper.now(|| self.counter.borrow().read(cpu, at))
    }

    /// Returns the time for which the record may be read after an update.
    fn reach(&self) -> Picos {
        Picos::from_nanos(self.keeper.borrow().max_idle().as_nanos())
    }

    fn advance(&self, at: Picos) {
        let now = self.counter.borrow().read(current_cpu::NO_CPU, at);
        self.keeper.borrow_mut().advance(&self.timekeeper, now);
    }

    /// Announces the leap second `next` to the core if it is inserted: a deleted leap second makes no timer early (spec
    /// TIM-20).
    fn announce(&self, next: Option<&Leap>) {
        let inserted = next.filter(|leap| leap.nanos < 0).map(|leap| leap.at);
        let mut keeper = self.keeper.borrow_mut();
        keeper.set_next_leap(&self.timekeeper, inserted);
    }

    fn set(&self, realtime: i64, boottime: i64, tai: i64) {
        let mut keeper = self.keeper.borrow_mut();
        let before = keeper.offsets();
        let later = |offset: Offset, by: i64| Offset::from_nanos(offset.as_nanos() + by);
        let offsets = Offsets {
            realtime: later(before.realtime, realtime),
            boottime: later(before.boottime, boottime),
            tai: later(before.tai, tai),
        };
        keeper.set_offsets(&self.timekeeper, offsets);
    }

    fn steer(&self, at: Picos, ppm: i32) {
        let now = self.counter.borrow().read(current_cpu::NO_CPU, at);
        let mut keeper = self.keeper.borrow_mut();
        keeper.steer(&self.timekeeper, now, ppm * 1_000);
    }

    /// The stand-in drives the time from `at` on, at the rate to which the counter before was steered.
    fn replace(&self, at: Picos) {
        let mut counter = self.counter.borrow_mut();
        let old = counter.read(current_cpu::NO_CPU, at);
        *counter = Running::new(STAND_IN, 0, 0);
        let new = counter.read(current_cpu::NO_CPU, at);
        drop(counter);
        let mut keeper = self.keeper.borrow_mut();
        let nominal = STAND_IN.nominal(SPARE);
        let installed = keeper.switch_counter(&self.timekeeper, old, nominal, new);
        installed.expect("the stand-in counts");
    }

    /// The machine sleeps at `at` for `length`: the counter goes on, the monotonic clock does not.
    fn sleep(&self, at: Picos, length: Picos) {
        let mut counter = self.counter.borrow_mut();
        let old = counter.read(current_cpu::NO_CPU, at);
        counter.goes_on(length);
        let new = counter.read(current_cpu::NO_CPU, at);
        drop(counter);
        let mut keeper = self.keeper.borrow_mut();
        keeper.suspend(&self.timekeeper, old);
        let slept = Slept::Lasted(Span::from_nanos(length.as_nanos()));
        keeper.resume(&self.timekeeper, new, slept);
    }

    /// Makes `change` at `at`. After a leap second the record includes `next` at once: if `next` is over too, no CPU
    /// may read a time of day that has the first leap second and lacks the second.
    fn make(&self, change: Change, at: Picos, next: Option<&Leap>) {
        match change {
            Change::Step(nanos) => self.set(nanos, 0, nanos),
            Change::Leap(nanos) => {
                self.announce(next);
                self.set(nanos, 0, 0);
            }
            Change::Steer(ppm) => self.steer(at, ppm),
            Change::Sleep(length) => self.sleep(at, length),
            Change::Replace => self.replace(at),
        }
    }
}

fn nanos(time: Picos) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A leap second to come: when, and by how much the time of day is set then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leap {
    pub(crate) at: Instant,
    pub(crate) nanos: i64,
}

/// The clocks of a machine: the records of the time, and the changes to come.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// True if the counter is perfect and no fault touches its rate: the clock shows the true time. Reading it then
    /// costs the simulating machine less; the simulated cost is the same.
    is_true: bool,
    now: Version,
    /// The version for CPUs whose cursor has not reached `since`.
    before: Version,
    since: Cell<Picos>,
    /// The time at which `now` was advanced, if `before` was not advanced yet.
    advanced: Cell<Option<Picos>>,
    /// The time from which the last change by [`begin`](Self::begin) counts.
    changed_at: Cell<Picos>,
    /// The time at which the clocks were set last.
    set_at: Cell<Picos>,
    /// The change that `before` has not made yet.
    pending: Cell<Option<Change>>,
    /// The time of the next update of the records, and the interval between updates.
    next_update: Cell<Picos>,
    every: Picos,
    /// The next leap second, and those after it.
    leaps: RefCell<Vec<Leap>>,
    truth: RefCell<Truth>,
    skew: Picos,
    /// True if rates changed after devices were written, or if devices count at a rate of their own.
    is_loose: Cell<bool>,
}

impl Clocks {
    /// Makes clocks with `leaps`, in the order of their times. The records are updated after each interval `every`.
    pub(crate) fn new(
        model: CounterModel,
        is_steered: bool,
        (cpus, seed): (usize, u64),
        mut leaps: Vec<Leap>,
        every: Picos,
    ) -> Self {
        let counter = Running::new(model, cpus, seed);
        let is_true = model == CounterModel::IDEAL && !is_steered;
        let has_news = !is_true || !leaps.is_empty();
        leaps.reverse();
        let clocks = Self {
            is_true,
            now: Version::new(counter.clone()),
            before: Version::new(counter),
            since: Cell::new(Picos::ZERO),
            advanced: Cell::new(None),
            changed_at: Cell::new(Picos::ZERO),
            set_at: Cell::new(Picos::ZERO),
            pending: Cell::new(None),
            next_update: Cell::new(if has_news { every } else { Picos::FOREVER }),
            every,
            truth: RefCell::new(Truth::new(WALL_START, WALL_START + TAI_AHEAD)),
            skew: model.skew,
            is_loose: Cell::new(false),
            leaps: RefCell::new(leaps),
        };
        for leap in clocks.leaps.borrow().iter().rev() {
            let from = leap.at.as_nanos();
            clocks.truth.borrow_mut().changes(from, leap.nanos, 0, 0);
        }
        let next = clocks.leaps.borrow().last().copied();
        clocks.now.announce(next.as_ref());
        clocks.before.announce(next.as_ref());
        clocks
    }

    /// Notes that devices count at a rate of their own, independent of the rate of the clock.
    pub(crate) fn have_devices_of_their_own(&self) {
        self.is_loose.set(!self.is_true);
    }

    /// The leap second after the one that comes next.
    fn next_but_one(&self) -> Option<Leap> {
        self.leaps.borrow().iter().rev().nth(1).copied()
    }

    #[inline]
    fn version(&self, at: Picos) -> &Version {
        if at < self.since.get() {
            &self.before
        } else {
            &self.now
        }
    }

    /// Returns the monotonic clock of `cpu` at `at`.
    #[inline]
    pub(crate) fn shows(&self, cpu: u32, at: Picos) -> Instant {
        if self.is_true {
            return at.instant();
        }
        self.version(at).shows(cpu, at)
    }

    /// Returns the monotonic clock of `cpu` at `at`, as finely as it is known.
    #[inline]
    pub(crate) fn shows_picos(&self, cpu: u32, at: Picos) -> Picos {
        if self.is_true {
            return at;
        }
        Picos::of_instant(self.version(at).shows(cpu, at))
    }

    /// Returns the offsets of the other clocks as `cpu` reads them at `at`, if they differ from `seen`.
    pub(crate) fn news(
        &self,
        cpu: u32,
        at: Picos,
        seen: SetSequence,
    ) -> Option<(SetSequence, Offsets)> {
        let version = self.version(at);
        let read = |_| version.counter.borrow().read(cpu, at);
        version.timekeeper.now_and_offsets(seen, read).1
    }

    /// Returns the moment at which the clock of `cpu` shows `shown`, as [`moment`](Self::moment) does, but to the
    /// picosecond where the clock is the true time.
    pub(crate) fn moment_of(&self, cpu: u32, shown: Picos, now: Picos) -> Picos {
        if self.is_true || shown == Picos::FOREVER {
            return shown;
        }
        self.moment(cpu, shown.instant(), now)
    }

    /// Returns the first moment at which the monotonic clock of `cpu` shows `when`, as far as is known at `now`; `now`
    /// at the earliest, where the clock is not the true time.
    pub(crate) fn moment(&self, cpu: u32, when: Instant, now: Picos) -> Picos {
        if self.is_true || when.is_forever() {
            return Picos::of_instant(when);
        }
        let version = self.version(now);
        let shows = |at: Picos| version.shows(cpu, at).as_nanos();
        let when = when.as_nanos();
        if shows(now) >= when {
            return now;
        }
        let reach = version.reach();
        let ahead = when - shows(now);
        if Picos::from_nanos(ahead.unsigned_abs()) > reach {
            // The record does not go so far. At the same rate on average, which is right to a few nanoseconds.
            let shown = shows(now + reach) - shows(now);
            return now + reach.scaled(ahead.unsigned_abs(), shown.unsigned_abs());
        }
        // The clock is a staircase that is straight on the whole: somewhere near, and then the edge of the step.
        let mut guess = now;
        for _ in 0..STEPS_MAX {
            let missing = when - shows(guess);
            let by = Picos::from_nanos(missing.unsigned_abs());
            guess = if missing < 0 { guess - by } else { guess + by };
            if missing.unsigned_abs() <= 1 {
                break;
            }
        }
        let step = version.counter.borrow().model.period() + Picos(2_000);
        let (mut low, mut high) = ((guess - step).max(now), guess + step);
        while shows(high) < when {
            low = high;
            high += step;
        }
        while shows(low) >= when {
            high = low;
            low = (low - step).max(now);
        }
        // `low` is too soon, and `high` is not.
        while high.0 - low.0 > 1 {
            let middle = Picos(low.0.midpoint(high.0));
            if shows(middle) < when {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Returns the value of `counter` at which the clock shows `when`, by the record of a CPU whose cursor is at `at`.
    /// Returns `None` if another counter drives the clock at that time, or if the clock shows the true time, which has
    /// no counter.
    pub(crate) fn cycles_at(&self, counter: CounterId, when: Instant, at: Picos) -> Option<Cycles> {
        if self.is_true {
            return None;
        }
        self.version(at).timekeeper.cycles_at(counter, when)
    }

    /// Returns the time at which the counter of `cpu` reads `cycles`, `now` at the earliest; `None` where the clock
    /// shows the true time. The counter is the one that drove the clock at `asked`, because the device does not compare
    /// with a later one.
    pub(crate) fn reaches(
        &self,
        cpu: u32,
        cycles: Cycles,
        (asked, now): (Picos, Picos),
    ) -> Option<Picos> {
        if self.is_true {
            return None;
        }
        let counter = self.version(asked).counter.borrow();
        Some(counter.reaches(cpu, cycles, now))
    }

    /// Returns true if a comparator on the counter of `cpu` may fire before its clock shows `when`, which is further
    /// ahead at `now` than the counter surely reaches.
    pub(crate) fn is_out_of_reach(&self, cpu: u32, when: Instant, now: Picos) -> bool {
        let ahead = when.saturating_since(self.shows(cpu, now));
        !self.is_true && Picos::from_nanos(ahead.as_nanos()) > self.version(now).reach()
    }

    /// Returns true if the clocks were set, steered, stopped or replaced since `at`.
    pub(crate) fn changed_since(&self, at: Picos) -> bool {
        at < self.changed_at.get()
    }

    /// Returns true if the clock shows the true time, and has no counter.
    pub(crate) const fn is_true(&self) -> bool {
        self.is_true
    }

    /// Returns the longest time for which the clock shows one value, at the nominal rate of its counter.
    pub(crate) fn step(&self) -> Picos {
        if self.is_true {
            return Picos::ZERO;
        }
        let step = |version: &Version| version.counter.borrow().model.period();
        step(&self.now).max(step(&self.before))
    }

    /// Returns the largest error of a device that was written `ahead` of its time, from changes of the clock since
    /// then.
    pub(crate) fn slop(&self, ahead: Picos) -> Picos {
        // The clock of a copy that is behind jumps to that of the others when the record is brought forward.
        let skew = self.skew;
        // Where the record does not reach, or hardly, one conversion is right to the nanosecond and another is not.
        let far = ahead * 2 > self.now.reach();
        if !self.is_loose.get() && !far {
            // The factor goes up and down by one step, and that of a comparator is rounded down: 1 ppm each at most.
            // That may be a count.
            let steps = if self.is_true {
                Picos::ZERO
            } else {
                self.step() + CLOCK_STEP + Picos(ahead.0 >> 19)
            };
            return skew + steps;
        }
        // From one end of what steering may do to the other, and what the stand-in shows in steps.
        skew + Picos::from_micros(1) + ahead.scaled(u64::from(PPM_MAX * 4), 1_000_000)
    }

    /// Returns the time by which all CPUs knew of the last clock set; zero if there was none.
    pub(crate) fn settled_at(&self) -> Picos {
        match self.set_at.get() {
            Picos::ZERO => Picos::ZERO,
            at => at + self.every,
        }
    }

    /// Returns the longest time that may pass before a CPU has to read the clock (spec TIM-21).
    pub(crate) fn max_idle(&self) -> Span {
        self.now.keeper.borrow().max_idle()
    }

    pub(crate) fn stops_when_deep(&self) -> bool {
        self.now.counter.borrow().model.stops_in_deep_idle
            || self.before.counter.borrow().model.stops_in_deep_idle
    }

    /// Returns true if the records are due for an update at `at`, and no CPU is before the last change.
    #[inline]
    pub(crate) fn is_due(&self, at: Picos) -> bool {
        at >= self.next_update.get() && !self.is_changing(at)
    }

    /// Handles an interrupt that came at `at`. Returns the change if a leap second is over that the records do not
    /// include. Otherwise updates the records if an update is due, for all CPUs that are past `from`, the furthest
    /// cursor.
    pub(crate) fn update(&self, at: Picos, from: Picos) -> Option<Change> {
        if !self.is_due(at) {
            return None;
        }
        self.next_update.set(at + self.every);
        self.catch_up();
        let over = |leap: &Leap| self.before.shows(current_cpu::NO_CPU, at) >= leap.at;
        if let Some(leap) = self.leaps.borrow().last().copied().filter(over) {
            return Some(Change::Leap(leap.nanos));
        }
        self.now.advance(from);
        self.advanced.set(Some(from));
        self.since.set(from);
        None
    }

    /// Returns true if a leap second due before the true time `at` has not been made for all CPUs.
    pub(crate) fn has_leap_before(&self, at: Picos) -> bool {
        let leap = self.leaps.borrow().last().copied();
        leap.is_some_and(|leap| leap.at <= at.instant())
    }

    /// Returns true if a change is under way at `at`: changes are made one at a time.
    pub(crate) fn is_changing(&self, at: Picos) -> bool {
        self.pending.get().is_some() || at < self.since.get()
    }

    /// Advances `before` to the time of `now`, which all CPUs have reached.
    fn catch_up(&self) {
        if let Some(advanced) = self.advanced.take() {
            self.before.advance(advanced);
        }
    }

    /// Makes `change` for all CPUs that are past `from`, the furthest cursor, while no other one is under way.
    pub(crate) fn begin(&self, change: Change, from: Picos) {
        debug_assert!(!self.is_changing(from), "one at a time");
        self.catch_up();
        let shown = self.before.shows(current_cpu::NO_CPU, from).as_nanos();
        let mut truth = self.truth.borrow_mut();
        match change {
            Change::Step(nanos) => truth.changes(shown, nanos, 0, nanos),
            Change::Sleep(length) => {
                let nanos = nanos(length);
                truth.changes(shown, nanos, nanos, nanos);
            }
            // That was true from its moment on, whichever CPU knew of it.
            Change::Leap(_) => {}
            Change::Steer(_) | Change::Replace => self.is_loose.set(true),
        }
        if !matches!(change, Change::Steer(_)) {
            self.set_at.set(from);
        }
        self.now.make(change, from, self.next_but_one().as_ref());
        self.since.set(from);
        self.changed_at.set(from);
        self.pending.set(Some(change));
    }

    /// Completes a change, at the moment from which the change counts.
    pub(crate) fn finish(&self) -> Option<Change> {
        let change = self.pending.take()?;
        let next = self.next_but_one();
        self.before.make(change, self.since.get(), next.as_ref());
        if let Change::Leap(_) = change {
            self.leaps.borrow_mut().pop();
        }
        Some(change)
    }

    /// Returns the true time of a deadline, see [`Truth::due_for`].
    pub(crate) fn due_for(&self, clock: Clock, deadline: i64, now: Instant) -> Option<u64> {
        self.truth.borrow().due_for(clock, deadline, now.as_nanos())
    }

    /// Returns the latest value that `clock` should show where the monotonic clock of a CPU shows `now`. A copy that
    /// lags by the skew includes a change already that the other CPUs date later.
    pub(crate) fn truly_shows(&self, clock: Clock, now: Instant) -> i64 {
        let truth = self.truth.borrow();
        let (now, skew) = (now.as_nanos(), nanos(self.skew));
        let shows = truth.shows(clock, now);
        shows.max(truth.shows(clock, now + skew) - skew)
    }
}

#[cfg(test)]
mod tests;
