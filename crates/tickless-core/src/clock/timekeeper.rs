//! The monotonic time out of a free-running counter.
//!
//! The published record says: at counter value `base_cycles` it was `base` nanoseconds and a residue, and since then
//! each cycle counts `mult / 2^shift` nanoseconds. Readers copy the record through a sequence lock, read the counter,
//! and do one multiplication (spec ). The [`Keeper`] is the one writer: it moves the base forward, steers the
//! factor, and changes the offsets of the other clocks.
//!
//! # What the counter may do
//!
//! - *Wrap*: differences are taken modulo its width (spec TIM-15).
//! - *Seem to run backwards* by a little, because another CPU's copy is behind: counts as no time passed.
//! - *Jump forward by more than the fast path can multiply*, because a virtual machine was stopped: the product is
//!   formed in 128 bits (B49). Both are found by one comparison on the fast path (spec TIM-16).
//!
//! # Ground rules
//!
//! Readers may run anywhere but on top of the writer: the host masks interrupts around [`Keeper`] calls. Cost of a
//! reading: eight loads, one multiplication, and the counter.

use tickless_link::seqlock::{SeqCell, Writer};

use super::{Offsets, SetSequence};
use crate::time::convert::{Cycles, Kilohertz, Reverse, Rounding, Scale};
use crate::time::{Instant, NANOS_PER_SEC, Offset, Span};

/// Which counter it is, so that a device that compares with a counter can ask whether it is the one that drives the
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterId(pub u32);

/// A free-running counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its identity.
    pub id: CounterId,
    /// Its nominal frequency.
    pub frequency: Kilohertz,
    /// How many bits count before it wraps, 1 to 64.
    pub bits: u32,
    /// Whether the host's inlined read gives the value of this very counter, so that the fast path of a guarded clock
    /// may be on while it drives the time (spec TIM-44).
    pub can_inline: bool,
}

impl Counter {
    const fn mask(&self) -> u64 {
        if self.bits >= 64 {
            u64::MAX
        } else {
            (1 << self.bits) - 1
        }
    }

    /// The forward scale for a range of ten minutes, or of the counter's own wrap if that is shorter (spec TIM-12).
    fn scale(&self) -> Scale {
        let hertz = u64::from(self.frequency.0) * 1000;
        let seconds = (self.mask() / hertz).max(1);
        let seconds = if seconds > 600 && self.bits > 32 {
            600
        } else {
            seconds
        };
        // In kilohertz and nanoseconds per millisecond the range counts in thousandths (spec CPL-1).
        let scale = Scale::for_range(
            self.frequency.0,
            1_000_000,
            seconds * 1000,
            Rounding::Nearest,
        );
        // Room for steering by 11 % (spec TIM-13).
        let mut mult = scale.mult();
        let mut shift = scale.shift();
        while mult.checked_add(mult / 100 * 11).is_none() {
            mult /= 2;
            shift -= 1;
        }
        Scale::from_parts(mult, shift)
    }
}

/// The record as readers get it, in words.
///
/// The first [`FAST`](Self::FAST) words are what a reading of the clock needs.
#[derive(Clone, Copy, Debug)]
struct Record {
    mask: u64,
    base_cycles: u64,
    /// Shift in the upper half, factor in the lower.
    scale: u64,
    residue: u64,
    base: i64,
    max_cycles: u64,
    counter: u64,
    sequence: u64,
    realtime: i64,
    boottime: i64,
    tai: i64,
    next_leap: i64,
    /// Like `scale`.
    reverse: u64,
}

impl Record {
    const WORDS: usize = 13;
    const FAST: usize = 6;

    const fn words(&self) -> [u64; Self::WORDS] {
        [
            self.mask,
            self.base_cycles,
            self.scale,
            self.residue,
            self.base.cast_unsigned(),
            self.max_cycles,
            self.counter,
            self.sequence,
            self.realtime.cast_unsigned(),
            self.boottime.cast_unsigned(),
            self.tai.cast_unsigned(),
            self.next_leap.cast_unsigned(),
            self.reverse,
        ]
    }
}

#[inline]
const fn pack(mult: u32, shift: u32) -> u64 {
    (shift as u64) << 32 | mult as u64
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "each half was packed from 32 bits"
)]
const fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Nanoseconds since the base of the record, for a counter that reads `now` (spec TIM-15).
#[inline]
fn elapsed([mask, base_cycles, scale, residue, _, max_cycles]: [u64; 6], now: Cycles) -> u64 {
    let (mult, shift) = unpack(scale);
    let delta = now.0.wrapping_sub(base_cycles) & mask;
    if delta <= max_cycles {
        return (delta * u64::from(mult) + residue) >> shift;
    }
    slowly_elapsed(delta, mask, Scale::from_parts(mult, shift), residue)
}

#[cold]
fn slowly_elapsed(delta: u64, mask: u64, scale: Scale, residue: u64) -> u64 {
    if delta > mask / 2 {
        // Behind the base: another CPU's counter lags. Time stands still rather than run backwards.
        return scale.cycles_to_nanos(Cycles(0), residue);
    }
    scale.cycles_to_nanos_wide(Cycles(delta), residue)
}

#[inline]
fn after(base: u64, nanos: u64) -> Instant {
    let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    Instant::from_nanos(base.cast_signed().saturating_add(nanos))
}

/// The published side: what any thread may read.
#[derive(Debug)]
pub struct Timekeeper {
    cell: SeqCell<{ Record::WORDS }>,
}

impl Timekeeper {
    /// Starts at monotonic zero with `counter` reading `now`, and all offsets zero.
    #[must_use]
    pub fn new(counter: Counter, now: Cycles) -> (Self, Keeper) {
        let mut keeper = Keeper {
            counter,
            scale: counter.scale(),
            reverse: Reverse::at_install(counter.frequency, counter.mask()),
            base_cycles: now,
            residue: 0,
            base: Instant::ZERO,
            sequence: SetSequence::START,
            offsets: Offsets::default(),
            next_leap: Instant::FOREVER,
            writer: None,
        };
        let (cell, writer) = SeqCell::new(keeper.record().words());
        keeper.writer = Some(writer);
        (Self { cell }, keeper)
    }

    /// The monotonic time, given how to read the counter.
    #[inline]
    pub fn now(&self, read: impl FnOnce() -> Cycles) -> Instant {
        let words = self.cell.read_first::<{ Record::FAST }>();
        after(words[4], elapsed(words, read()))
    }

    /// The monotonic time and, if the clocks were set since `seen`, the new offsets (spec TIM-20).
    ///
    /// At and after a leap second that the record does not know yet, the offset of the time of day is already the one
    /// behind it, so that no timer fires a second early.
    pub fn now_and_offsets(
        &self,
        seen: SetSequence,
        read: impl FnOnce() -> Cycles,
    ) -> (Instant, Option<(SetSequence, Offsets)>) {
        let words = self.cell.read();
        let [mask, base_cycles, scale, residue, base, max_cycles, ..] = words;
        let nanos = elapsed(
            [mask, base_cycles, scale, residue, base, max_cycles],
            read(),
        );
        let now = after(base, nanos);
        let [.., sequence, realtime, boottime, tai, next_leap, _reverse] = words;
        let sequence = SetSequence::from_word(sequence);
        let leap = now >= Instant::from_nanos(next_leap.cast_signed());
        if sequence == seen && !leap {
            return (now, None);
        }
        let pending = if leap { NANOS_PER_SEC } else { 0 };
        let offsets = Offsets {
            realtime: Offset::from_nanos(realtime.cast_signed() - pending),
            boottime: Offset::from_nanos(boottime.cast_signed()),
            tai: Offset::from_nanos(tai.cast_signed()),
        };
        (now, Some((sequence, offsets)))
    }

    /// The value of `counter` at which the clock reaches `when`, if that counter drives the clock (spec CPL-4). Reads
    /// no counter.
    pub fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        let words = self.cell.read();
        let [mask, base_cycles, scale, residue, base, _, id, .., reverse] = words;
        if id != u64::from(counter.0) {
            return None;
        }
        let (_, shift) = unpack(scale);
        let base = after(base, residue >> shift);
        let reverse = Reverse::from_words(unpack(reverse), mask);
        Some(reverse.cycles_at(when, base, Cycles(base_cycles), mask))
    }
}

/// The writing side: what the owner of the time may do.
///
/// Every call publishes at once. The host serialises the calls and masks what could read on top of them.
#[derive(Debug)]
pub struct Keeper {
    counter: Counter,
    scale: Scale,
    reverse: Reverse,
    base_cycles: Cycles,
    residue: u64,
    base: Instant,
    sequence: SetSequence,
    offsets: Offsets,
    next_leap: Instant,
    /// `None` only inside [`Timekeeper::new`].
    writer: Option<Writer>,
}

impl Keeper {
    fn record(&self) -> Record {
        Record {
            mask: self.counter.mask(),
            base_cycles: self.base_cycles.0,
            scale: pack(self.scale.mult(), self.scale.shift()),
            residue: self.residue,
            base: self.base.as_nanos(),
            max_cycles: self.max_cycles(),
            counter: u64::from(self.counter.id.0),
            sequence: self.sequence.word(),
            realtime: self.offsets.realtime.as_nanos(),
            boottime: self.offsets.boottime.as_nanos(),
            tai: self.offsets.tai.as_nanos(),
            next_leap: self.next_leap.as_nanos(),
            reverse: pack(self.reverse.mult(), self.reverse.shift()),
        }
    }

    fn max_cycles(&self) -> u64 {
        self.scale.max_input().min(self.counter.mask() / 2)
    }

    fn publish(&mut self, timekeeper: &Timekeeper) {
        let words = self.record().words();
        if let Some(writer) = &mut self.writer {
            timekeeper.cell.publish(writer, words);
        }
    }

    /// The longest time that may pass between two calls of [`advance`](Keeper::advance) (spec TIM-14, TIM-21): half of
    /// what the fast path can multiply.
    #[must_use]
    pub fn max_idle(&self) -> Span {
        Span::from_nanos(self.scale.cycles_to_nanos(Cycles(self.max_cycles()), 0) / 2)
    }

    /// The offsets as published last.
    #[must_use]
    pub const fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// Moves the base of the record to the counter value `now`.
    pub fn advance(&mut self, timekeeper: &Timekeeper, now: Cycles) {
        self.accumulate(now);
        self.publish(timekeeper);
    }

    fn accumulate(&mut self, now: Cycles) {
        let delta = now.0.wrapping_sub(self.base_cycles.0) & self.counter.mask();
        if delta > self.counter.mask() / 2 {
            return;
        }
        let sum = u128::from(delta) * u128::from(self.scale.mult()) + u128::from(self.residue);
        let nanos = u64::try_from(sum >> self.scale.shift()).unwrap_or(u64::MAX);
        self.residue = u64::try_from(sum & ((1 << self.scale.shift()) - 1)).unwrap_or(0);
        self.base = after(self.base.as_nanos().cast_unsigned(), nanos);
        self.base_cycles = now;
    }

    /// Lets the time run at another rate from the counter value `now` on. Time does not jump (spec TIM-25).
    pub fn steer(&mut self, timekeeper: &Timekeeper, now: Cycles, parts_per_billion: i32) {
        self.accumulate(now);
        self.scale = self.counter.scale().steered(parts_per_billion);
        self.reverse = self.reverse.follow(self.scale, self.counter.mask());
        self.publish(timekeeper);
    }

    /// Sets the offsets of the other clocks: the host set the time of day, or the machine slept (spec TIM-29).
    ///
    /// The caller then tells the timers, through [`Timers::clock_was_set`](crate::base::Timers::clock_was_set).
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

    /// Replaces the counter that drives the time: `old` and `new` are what both read at the same moment (spec TIM-43).
    /// Time does not jump.
    pub fn switch_counter(
        &mut self,
        timekeeper: &Timekeeper,
        old: Cycles,
        counter: Counter,
        new: Cycles,
    ) {
        self.accumulate(old);
        let carried = self.scale.cycles_to_nanos(Cycles(0), self.residue);
        self.base = after(self.base.as_nanos().cast_unsigned(), carried);
        self.residue = 0;
        self.counter = counter;
        self.scale = counter.scale();
        self.reverse = Reverse::at_install(counter.frequency, counter.mask());
        self.base_cycles = new;
        self.publish(timekeeper);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TSC: Counter = Counter {
        id: CounterId(1),
        frequency: Kilohertz(2_000_000),
        bits: 64,
        can_inline: true,
    };
    const NARROW: Counter = Counter {
        id: CounterId(2),
        frequency: Kilohertz(24_000),
        bits: 32,
        can_inline: false,
    };

    /// TIM-15.
    #[test]
    fn time_passes_with_the_counter() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(1_000));
        assert_eq!(timekeeper.now(|| Cycles(1_000)).as_nanos(), 0);
        assert_eq!(timekeeper.now(|| Cycles(3_000)).as_nanos(), 1_000);
        keeper.advance(&timekeeper, Cycles(2_001_000));
        assert_eq!(timekeeper.now(|| Cycles(2_003_000)).as_nanos(), 1_001_000);
    }

    #[test]
    fn a_counter_that_lags_behind_stops_time_instead_of_turning_it_back() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        keeper.advance(&timekeeper, Cycles(2_000_000));
        assert_eq!(timekeeper.now(|| Cycles(1_999_000)).as_nanos(), 1_000_000);
    }

    #[test]
    fn b49_a_machine_stopped_for_days_is_not_set_back() {
        let (timekeeper, _keeper) = Timekeeper::new(TSC, Cycles(0));
        let week = 7 * 24 * 3600 * 2_000_000_000_u64;
        let now = timekeeper.now(|| Cycles(week)).as_nanos();
        let exact = 7 * 24 * 3600 * NANOS_PER_SEC;
        assert!((now - exact).abs() < 1_000_000, "{now}");
    }

    #[test]
    fn a_narrow_counter_wraps_without_a_jump() {
        let (timekeeper, mut keeper) = Timekeeper::new(NARROW, Cycles(0xFFFF_FF00));
        assert!(timekeeper.now(|| Cycles(0x100)).as_nanos() > 0);
        keeper.advance(&timekeeper, Cycles(0x100));
        let wrapped = timekeeper.now(|| Cycles(0x100 + 24_000)).as_nanos();
        let exact = 1_000_000 + 512 * 1_000_000 / 24_000;
        assert!((wrapped - exact).abs() <= 2, "{wrapped} against {exact}");
    }

    /// TIM-25.
    #[test]
    fn steering_changes_the_rate_but_not_the_time() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let before = timekeeper.now(|| Cycles(2_000_000_000));
        keeper.steer(&timekeeper, Cycles(2_000_000_000), 500_000);
        let after = timekeeper.now(|| Cycles(2_000_000_000));
        assert!((after.as_nanos() - before.as_nanos()).abs() <= 1);
        let later = timekeeper.now(|| Cycles(4_000_000_000));
        let gained = later.as_nanos() - after.as_nanos() - NANOS_PER_SEC;
        assert!(
            (gained - 500_000).abs() <= 200,
            "500 ppm fast, gained {gained}"
        );
    }

    #[test]
    fn offsets_are_copied_only_when_they_changed() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let (_, none) = timekeeper.now_and_offsets(SetSequence::START, || Cycles(0));
        assert_eq!(none, None);
        let offsets = Offsets {
            realtime: Offset::from_nanos(5),
            ..Offsets::default()
        };
        keeper.set_offsets(&timekeeper, offsets);
        let (_, some) = timekeeper.now_and_offsets(SetSequence::START, || Cycles(0));
        let (sequence, copied) = some.expect("they changed");
        assert_eq!(copied, offsets);
        assert_eq!(timekeeper.now_and_offsets(sequence, || Cycles(0)).1, None);
    }

    #[test]
    fn b43_a_leap_second_is_seen_before_the_record_knows_it() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let wall = Offsets {
            realtime: Offset::from_nanos(100 * NANOS_PER_SEC),
            ..Offsets::default()
        };
        keeper.set_offsets(&timekeeper, wall);
        keeper.set_next_leap(&timekeeper, Some(Instant::from_nanos(1_000)));
        let seen = SetSequence::START.next();
        assert_eq!(timekeeper.now_and_offsets(seen, || Cycles(1_998)).1, None);
        let (_, leaping) = timekeeper.now_and_offsets(seen, || Cycles(2_000));
        assert_eq!(
            leaping.expect("the leap").1.realtime.as_nanos(),
            99 * NANOS_PER_SEC
        );
    }

    #[test]
    fn the_coupled_conversion_is_refused_for_another_counter() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let when = Instant::from_nanos(1_000);
        assert_eq!(timekeeper.cycles_at(TSC.id, when), Some(Cycles(2_000)));
        assert_eq!(timekeeper.cycles_at(NARROW.id, when), None);
        keeper.switch_counter(&timekeeper, Cycles(2_000), NARROW, Cycles(0));
        assert_eq!(timekeeper.cycles_at(TSC.id, when), None);
        assert!(
            timekeeper
                .cycles_at(NARROW.id, Instant::from_nanos(2_000_000))
                .is_some()
        );
    }

    #[test]
    fn b1_a_counter_with_the_same_factors_still_has_a_range() {
        let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
        let twin = Counter {
            id: CounterId(9),
            ..TSC
        };
        keeper.switch_counter(&timekeeper, Cycles(0), twin, Cycles(0));
        let hour = Instant::from_nanos(3600 * NANOS_PER_SEC);
        assert_eq!(
            timekeeper.cycles_at(twin.id, hour),
            Some(Cycles(7_200_000_000_000))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// ORACLE-10: Time never runs backwards, whatever the keeper does between two readings.
        #[test]
        fn time_is_monotonic(
            steps in proptest::collection::vec((0_u64..10_000_000_000, 0_u8..4, -500_000_i32..=500_000), 1..60)
        ) {
            let (timekeeper, mut keeper) = Timekeeper::new(TSC, Cycles(0));
            let mut cycles = 0;
            let mut last = Instant::ZERO;
            for (step, action, parts_per_billion) in steps {
                cycles += step;
                let now = timekeeper.now(|| Cycles(cycles));
                prop_assert!(now >= last);
                last = now;
                match action {
                    0 => keeper.advance(&timekeeper, Cycles(cycles)),
                    1 => keeper.steer(&timekeeper, Cycles(cycles), parts_per_billion),
                    2 => keeper.switch_counter(&timekeeper, Cycles(cycles), TSC, Cycles(cycles)),
                    _ => keeper.set_offsets(&timekeeper, Offsets::default()),
                }
                let now = timekeeper.now(|| Cycles(cycles));
                prop_assert!(now >= last);
                last = now;
            }
        }
    }
}
