//! The writing side of the timekeeper: the operations that only the owner of the time may do.

use tickless_link::latch::LatchWriter;
use tickless_link::seqlock::Writer;

use super::Timekeeper;
use super::accumulate::Accumulated;
use super::record::Record;
use super::steering::Steering;
use crate::clock::counter::{BadCounter, Counter};
use crate::clock::{Offsets, SetSequence};
use crate::time::convert::{Cycles, Reverse};
use crate::time::{Instant, Offset, Realtime, Span};

/// The default tick of a [`Keeper`].
pub(super) const TICK: Span = Span::from_millis(1);
/// The shortest and the longest tick of a [`Keeper`], because the length of an interval is counted in `2^-32` ns.
const TICKS: (Span, Span) = (Span::from_micros(10), Span::from_millis(100));
/// The least number of intervals in the range of a narrow counter, so that several intervals fit into the half of the
/// range that does not count as a step back.
const INTERVALS_IN_WRAP: u64 = 16;

/// The length of a suspend (spec TIM-38, TIM-39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// The counter that drives the time continued to count during the sleep, so it shows the length of the sleep.
    ByCounter,
    /// The sleep had this length.
    Lasted(Span),
    /// The length is not known yet: [`Keeper::inject_sleep`] adds it later.
    Unknown,
}

impl Slept {
    /// Measures the suspend by a clock that continued to run: it showed `before`, and now shows `after`. If that clock
    /// was set back meanwhile, the length is zero.
    #[must_use]
    pub const fn by_persistent_clock(before: Instant<Realtime>, after: Instant<Realtime>) -> Self {
        Self::Lasted(after.saturating_since(before))
    }
}

/// The counters of a [`Keeper`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeeperCounts {
    /// Publications of the record.
    pub publications: u64,
    /// Changes of the factor, including those that spread an error over one step.
    pub rates: u64,
    /// The number of times that reverse factors were computed after a counter was installed (spec TIM-28).
    pub reverse_factors: u64,
    /// Updates at which the counter showed less than at the previous update, so that no time passed.
    pub behind: u64,
    /// Factors that were out of range, so that the clock was not steered to them (spec TIM-25).
    pub refused: u64,
}

/// The right to change the time, with the operations of its owner.
///
/// Every call publishes at once. The host serialises the calls and masks readers that could interrupt them, except
/// readers that call [`Timekeeper::now_on_top_of_writer`].
///
/// The argument `now` of a call is the value of the counter. A value before that of an earlier call counts as the
/// earlier value (spec TIM-15). The caller SHOULD read the counter right before the call, because another CPU that
/// reads the time between this reading and the publication uses the old record. That CPU may see the time step back: by
/// the time between the reading and the publication multiplied by the change of the rate, or by all of this time if the
/// clock is suspended. If the copies of the CPUs differ, `now` should be read from a copy that is behind no other copy.
/// Otherwise a CPU whose copy is ahead may see the time step back: by the lag times the change of the rate, or by the
/// lag itself if the clock is suspended or another counter takes over.
#[derive(Debug)]
pub struct Keeper {
    counter: Counter,
    steering: Steering,
    time: Accumulated,
    /// The reverse factors, which belong to the forward factor of `time`.
    reverse: Reverse,
    /// The counter value of the published base, which is the value at the last call.
    at: Cycles,
    is_suspended: bool,
    sequence: SetSequence,
    offsets: Offsets,
    next_leap: Instant,
    counts: KeeperCounts,
    writers: Option<(Writer, LatchWriter)>,
}

impl Keeper {
    pub(super) fn begin(counter: Counter, now: Cycles, tick: Span) -> Result<Self, BadCounter> {
        counter.check()?;
        let tick = tick.clamp(TICKS.0, TICKS.1);
        let interval = interval(&counter, tick);
        let mut steering = Steering::new(tick);
        steering.install(interval, counter.frequency.0);
        Ok(Self {
            counter,
            steering,
            time: Accumulated::new(counter.scale(), interval, now, Instant::ZERO),
            reverse: Reverse::at_install(counter.frequency, counter.mask()),
            at: now,
            is_suspended: false,
            sequence: SetSequence::START,
            offsets: Offsets::default(),
            next_leap: Instant::FOREVER,
            counts: KeeperCounts::default(),
            writers: None,
        })
    }

    pub(super) fn may_write(&mut self, writers: (Writer, LatchWriter)) {
        self.writers = Some(writers);
    }

    pub(super) fn record(&self) -> Record {
        let (base, residue) = self.time.at(self.ahead());
        let is_running = !self.is_suspended;
        Record {
            mask: if is_running { self.counter.mask() } else { 0 },
            base_cycles: self.at,
            scale: self.time.scale,
            residue,
            base,
            max_cycles: self.max_cycles(),
            counter: is_running.then_some(self.counter.id),
            reverse: self.reverse,
            sequence: self.sequence.word(),
            realtime: self.offsets.realtime.as_nanos(),
            boottime: self.offsets.boottime.as_nanos(),
            tai: self.offsets.tai.as_nanos(),
            next_leap: self.next_leap,
        }
    }

    /// Returns the cycles from the end of the last whole interval to the published base.
    fn ahead(&self) -> u64 {
        self.at.0.wrapping_sub(self.time.origin().0) & self.counter.mask()
    }

    fn max_cycles(&self) -> u64 {
        self.time.scale.max_input().min(self.counter.mask() / 2)
    }

    fn publish(&mut self, timekeeper: &Timekeeper) {
        let record = self.record();
        self.counts.publications += 1;
        if let Some(writers) = &mut self.writers {
            timekeeper.publish(writers, &record);
        }
    }

    /// Returns the longest time that may pass between two calls of [`advance`](Keeper::advance) (spec TIM-14, TIM-21):
    /// half of the range that the fast path can multiply.
    #[must_use]
    pub fn max_idle(&self) -> Span {
        let cycles = Cycles(self.max_cycles());
        Span::from_nanos(self.time.scale.cycles_to_nanos(cycles, 0) / 2)
    }

    /// Returns the offsets that were published last.
    #[must_use]
    pub const fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// Returns the counter that drives the time.
    #[must_use]
    pub const fn counter(&self) -> Counter {
        self.counter
    }

    /// Returns the counters of the keeper.
    #[must_use]
    pub const fn counts(&self) -> KeeperCounts {
        self.counts
    }

    /// Returns the distance of the clock behind its steered time, in `2^-32` ns. If the clock is advanced at each tick,
    /// the distance is less than the time that one step of the factor gains in a tick.
    #[must_use]
    pub const fn error(&self) -> i64 {
        self.time.error()
    }

    /// Moves the base of the record to the counter value `now`, and chooses the factor for the following interval.
    pub fn advance(&mut self, timekeeper: &Timekeeper, now: Cycles) {
        self.accumulate(now);
        self.steer_to_wanted();
        self.publish(timekeeper);
    }

    fn accumulate(&mut self, now: Cycles) {
        let mask = self.counter.mask();
        if self.is_suspended {
            return;
        }
        if now.0.wrapping_sub(self.at.0) & mask > mask / 2 {
            self.counts.behind += 1;
            return;
        }
        self.at = Cycles(now.0 & mask);
        let ahead = self.ahead();
        self.time.take(ahead, mask, self.steering.wanted());
    }

    /// Changes the factor to the value that the steering requires, from the published base on (spec TIM-24, TIM-25).
    fn steer_to_wanted(&mut self) {
        let Some(mult) = self.time.desired_mult(self.steering.wanted()) else {
            self.counts.refused += 1;
            return;
        };
        if mult == self.time.scale.mult() {
            return;
        }
        self.counts.rates += 1;
        self.time.change_mult(mult, self.ahead());
        self.counts.reverse_factors += 1;
        self.reverse = self.reverse.follow(self.time.scale, self.counter.mask());
    }

    /// Changes the rate of the time from the counter value `now` on, by 500 ppm at most (spec TIM-27). Time does not
    /// jump (spec TIM-25).
    pub fn steer(&mut self, timekeeper: &Timekeeper, now: Cycles, parts_per_billion: i32) {
        self.change(timekeeper, now, |steering| {
            steering.set_frequency(parts_per_billion);
        });
    }

    /// Makes a tick last `tick` from the counter value `now` on; `tick` may differ by a tenth from the nominal tick
    /// (spec TIM-27). Time does not jump.
    pub fn set_tick(&mut self, timekeeper: &Timekeeper, now: Cycles, tick: Span) {
        self.change(timekeeper, now, |steering| steering.set_tick(tick));
    }

    /// Returns the frequency by which the clock is steered, in parts per billion.
    #[must_use]
    pub const fn frequency(&self) -> i32 {
        self.steering.frequency()
    }

    /// Returns the steered length of a tick.
    #[must_use]
    pub const fn tick(&self) -> Span {
        self.steering.steered_tick()
    }

    fn change(&mut self, timekeeper: &Timekeeper, now: Cycles, how: impl FnOnce(&mut Steering)) {
        self.accumulate(now);
        how(&mut self.steering);
        self.steer_to_wanted();
        self.publish(timekeeper);
    }

    /// Sets the offsets of the other clocks: the host set the time of day, or the machine slept (spec TIM-29).
    ///
    /// The caller then notifies the timers, through [`Timers::clock_was_set`](crate::base::Timers::clock_was_set).
    pub fn set_offsets(&mut self, timekeeper: &Timekeeper, offsets: Offsets) {
        self.offsets = offsets;
        self.sequence = self.sequence.next();
        self.publish(timekeeper);
    }

    /// Announces a leap second to be inserted at `when`, or none.
    pub fn set_next_leap(&mut self, timekeeper: &Timekeeper, when: Option<Instant>) {
        self.next_leap = when.unwrap_or(Instant::FOREVER);
        self.publish(timekeeper);
    }

    /// Replaces the counter that drives the time: `old` and `new` are the values of both at the same moment (spec
    /// TIM-43). Time does not jump. The clock keeps its settings: tick and frequency.
    ///
    /// # Errors
    ///
    /// [`BadCounter`] if the new counter cannot drive the time; the old counter then continues to drive the time.
    pub fn switch_counter(
        &mut self,
        timekeeper: &Timekeeper,
        old: Cycles,
        counter: Counter,
        new: Cycles,
    ) -> Result<(), BadCounter> {
        counter.check()?;
        self.accumulate(old);
        let ahead = self.ahead();
        let interval = interval(&counter, self.steering.nominal_tick());
        let new = Cycles(new.0 & counter.mask());
        self.time = self.time.moved_to(ahead, counter.scale(), interval, new);
        self.steering.install(interval, counter.frequency.0);
        self.counter = counter;
        self.at = new;
        // Unconditionally: factors that are the same as before have a range all the same (spec CPL-3, B1).
        self.reverse = Reverse::at_install(counter.frequency, counter.mask());
        if self.steering.is_steered() {
            self.steer_to_wanted();
        }
        self.publish(timekeeper);
        Ok(())
    }

    /// Stops the monotonic clock at the counter value `now`: the machine goes to sleep (spec TIM-37). Until
    /// [`resume`](Self::resume) all readers get the time of the stop, and no counter drives the time.
    pub fn suspend(&mut self, timekeeper: &Timekeeper, now: Cycles) {
        self.accumulate(now);
        self.is_suspended = true;
        self.publish(timekeeper);
    }

    /// Starts the stopped clock again: the machine woke up after `slept`, and the counter shows `now` (spec TIM-38).
    /// The monotonic clock continues where it stopped; the other clocks jump forward by the length of the sleep.
    /// Returns the length of the sleep; zero if the clock was not suspended, and then nothing changes.
    ///
    /// The caller then makes each CPU check its queues, through [`Timers::resume`](crate::base::Timers::resume), and
    /// notifies the timers on the clocks of [`ClockSet::SLEEP`](crate::clock::ClockSet::SLEEP).
    pub fn resume(&mut self, timekeeper: &Timekeeper, now: Cycles, slept: Slept) -> Span {
        if !self.is_suspended {
            return Span::ZERO;
        }
        self.is_suspended = false;
        let mask = self.counter.mask();
        let there = self.time.at(self.ahead());
        let slept = match slept {
            Slept::ByCounter => {
                let delta = now.0.wrapping_sub(self.at.0) & mask;
                let delta = if delta > mask / 2 { 0 } else { delta };
                let scale = self.time.scale;
                // The gap may be longer than the fast path can multiply (spec TIM-39).
                Span::from_nanos(scale.cycles_to_nanos_wide(Cycles(delta), 0))
            }
            Slept::Lasted(slept) => slept,
            Slept::Unknown => Span::ZERO,
        };
        self.at = Cycles(now.0 & mask);
        self.time.goes_on_at(there, self.at);
        self.time.clear_error();
        self.add_sleep(slept);
        self.publish(timekeeper);
        slept
    }

    /// Adds the length of the machine's sleep after the resume, if it is known only then (spec TIM-38).
    pub fn inject_sleep(&mut self, timekeeper: &Timekeeper, slept: Span) {
        self.add_sleep(slept);
        self.publish(timekeeper);
    }

    fn add_sleep(&mut self, slept: Span) {
        let nanos = i64::try_from(slept.as_nanos()).unwrap_or(i64::MAX);
        let later = |offset: Offset| Offset::from_nanos(offset.as_nanos().saturating_add(nanos));
        self.offsets = Offsets {
            realtime: later(self.offsets.realtime),
            boottime: later(self.offsets.boottime),
            tai: later(self.offsets.tai),
        };
        self.sequence = self.sequence.next();
    }
}

/// Returns the cycles of `counter` in an interval of about one `tick`, rounded to the nearest.
fn interval(counter: &Counter, tick: Span) -> u64 {
    let cycles = u128::from(tick.as_nanos()) * u128::from(counter.frequency.0);
    let cycles = u64::try_from((cycles + 500_000) / 1_000_000).unwrap_or(u64::MAX);
    cycles.clamp(1, (counter.mask() / INTERVALS_IN_WRAP).max(1))
}
