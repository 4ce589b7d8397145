//! The monotonic time, computed from a free-running counter.
//!
//! The published record says: at counter value `base_cycles` it was `base` nanoseconds and a residue, and since then
//! each cycle counts `mult / 2^shift` nanoseconds. Readers copy the record and read the counter in one section of a
//! sequence lock, and do one multiplication (spec ). The [`Keeper`] is the one writer: it moves the base forward,
//! steers the factor, and changes the offsets of the other clocks.
//!
//! # What the counter may do
//!
//! - *Wrap*: differences are taken modulo its width (spec TIM-15).
//! - *Seem to run backwards* by a little, because another CPU's copy is behind: counts as no time passed.
//! - *Jump forward by more than the fast path can multiply*, because a virtual machine was stopped: the product is
//!   formed in 128 bits (B49). Both are found by one comparison on the fast path (spec TIM-16), and counted.
//!
//! # What the time does
//!
//! - It is *accumulated* in whole intervals of about a tick, and the length that an interval should have had is
//!   compared with its real length (`accumulate`). The factor goes up and down by one so that the difference goes to
//!   zero (spec TIM-24).
//! - It is *steered* by its tick, its frequency, and an offset that is worked off exponentially (`steering`).
//! - It *stands still* while the machine is suspended.
//!
//! The published base lies where the keeper was called last, not at the end of an interval. A CPU whose copy of the
//! counter lags gets the time of the base for all that is before it. If the base stayed behind while the factor changed
//! ahead of it, such a CPU would see the time step back: the line through the point of the change is another one on
//! both sides.
//!
//! The counter is read while the record stands, and again if that changed meanwhile (TIM-17). A thread that copied the
//! record, was preempted, and then read the counter would go by the line before for as long as it was away: where the
//! rate fell since, that is ahead of what it reads next.
//!
//! # Two publications
//!
//! A reader of the sequence lock waits while the writer is inside. An interrupt that may come while the writer is
//! inside reads a second copy, in a latch (spec TIM-18): [`Timekeeper::now_on_top_of_writer`].
//!
//! # Ground rules
//!
//! Readers may run anywhere but on top of the writer: the host masks interrupts around [`Keeper`] calls. Cost of a
//! reading: eight loads, one multiplication, and the counter.

use tickless_link::latch::{LatchCell, LatchWriter};
use tickless_link::seqlock::{SeqCell, Writer};
use tickless_link::sync::{AtomicU64, Ordering};

use super::counter::{BadCounter, Counter, CounterId};
use super::{Offsets, SetSequence};
use crate::time::convert::Cycles;
use crate::time::{Instant, NANOS_PER_SEC, Offset, Span};

mod accumulate;
mod keeper;
mod record;
mod steering;

pub use keeper::{Keeper, KeeperCounts, Slept};

use record::{Irregular, Record, after, cycles_at, elapsed};

/// The published record of the time, which any thread may read.
#[derive(Debug)]
pub struct Timekeeper {
    cell: SeqCell<{ Record::WORDS }>,
    /// Record for readings of the clock, for readers on top of the writer.
    latch: LatchCell<{ Record::WITH_COUNTER }>,
    /// Readings whose counter was behind the base.
    behind: AtomicU64,
    /// Readings whose counter was further ahead than the fast path can multiply.
    ahead: AtomicU64,
}

impl Timekeeper {
    /// Starts at monotonic zero with `counter` reading `now`, and all offsets zero. Intervals are those of a tick of
    /// 1 ms.
    ///
    /// # Panics
    ///
    /// For a counter that can drive no time; [`try_new`](Self::try_new) says what is wrong with it.
    #[must_use]
    pub fn new(counter: Counter, now: Cycles) -> (Self, Keeper) {
        Self::try_new(counter, now, keeper::TICK).expect("a counter counts, in 2 to 64 bits")
    }

    /// Makes a value as [`new`](Self::new) does, with intervals of about one `tick`, which is taken for 10 µs to 100
    /// ms.
    ///
    /// # Errors
    ///
    /// [`BadCounter`] for a counter that can drive no time.
    pub fn try_new(
        counter: Counter,
        now: Cycles,
        tick: Span,
    ) -> Result<(Self, Keeper), BadCounter> {
        let mut keeper = Keeper::begin(counter, now, tick)?;
        let record = keeper.record();
        let (cell, writer) = SeqCell::new(record.words());
        let (latch, latch_writer) = LatchCell::new(record.with_counter());
        keeper.may_write((writer, latch_writer));
        let timekeeper = Self {
            cell,
            latch,
            behind: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
        };
        Ok((timekeeper, keeper))
    }

    /// Returns the monotonic time. `read` reads the counter; it is called again if the record changes meanwhile.
    ///
    /// The counter SHOULD be read before later instructions, as by `lfence; rdtsc; lfence`. If the processor reads it
    /// some tens of nanoseconds later, the time is off by the change of the rate in that time, which is negligible:
    /// 1000 ppm over a microsecond make a nanosecond.
    #[inline]
    pub fn now(&self, mut read: impl FnMut() -> Cycles) -> Instant {
        let (words, now) = self.cell.read_first_and(|_| read());
        self.from(words, now)
    }

    /// Returns the monotonic time. `read` reads the counter with the given identity; while no counter drives the time,
    /// zero cycles count.
    #[inline]
    pub fn now_by(&self, mut read: impl FnMut(CounterId) -> Cycles) -> Instant {
        let sample = |words: &[u64; Record::WITH_COUNTER]| Record::sample(words, &mut read);
        let ([fast @ .., _], now) = self.cell.read_first_and(sample);
        self.from(fast, now)
    }

    /// Reads the clock as [`now_by`](Self::now_by) does, in contexts that may have interrupted the writer: interrupts
    /// that no CPU masks, signal handlers, debuggers (spec TIM-18, B38).
    ///
    /// While the keeper publishes, one such reading may use the record before, and another one the record after. The
    /// two records agree at the published base, so readings may run backwards by a few nanoseconds: by the difference
    /// of the rates over the time of a publication, which is 1 ns for 1000 ppm and a microsecond, and on a CPU whose
    /// copy of the counter lags, by that lag. At other times the result is that of `now`.
    #[inline]
    pub fn now_on_top_of_writer(&self, mut read: impl FnMut(CounterId) -> Cycles) -> Instant {
        let ([fast @ .., _], now) = self
            .latch
            .read_and(|words| Record::sample(words, &mut read));
        self.from(fast, now)
    }

    #[inline(always)]
    fn from(&self, words: [u64; Record::FAST], now: Cycles) -> Instant {
        let nanos = elapsed(words, now, |what| self.notice(what));
        after(words[4], nanos)
    }

    #[cold]
    fn notice(&self, what: Irregular) {
        let count = match what {
            Irregular::Behind => &self.behind,
            Irregular::Ahead => &self.ahead,
        };
        // Relaxed: nothing depends on it.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of readings whose counter value was before the base of the record, because a CPU's copy lags
    /// or the counter stepped back. They returned the time of the base.
    #[must_use]
    pub fn behind(&self) -> u64 {
        // Relaxed: see `notice`.
        self.behind.load(Ordering::Relaxed)
    }

    /// Returns the number of readings whose counter value was beyond the reach of the record, because the machine stood
    /// still. They took longer and are right.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        // Relaxed: see `notice`.
        self.ahead.load(Ordering::Relaxed)
    }

    /// Returns the monotonic time and, if the clocks were set since `seen`, the new offsets (spec TIM-20). `read` is
    /// called as in [`now_by`](Self::now_by).
    ///
    /// At and after a leap second that is not in the record yet, the offset of the time of day is already the one after
    /// it, so that no timer fires a second early.
    pub fn now_and_offsets(
        &self,
        seen: SetSequence,
        mut read: impl FnMut(CounterId) -> Cycles,
    ) -> (Instant, Option<(SetSequence, Offsets)>) {
        let sample = |words: &[u64; Record::WORDS]| {
            let first = words.first_chunk().expect("a record names its counter");
            Record::sample(first, &mut read)
        };
        let (words, now) = self.cell.read_first_and(sample);
        let [mask, base_cycles, scale, residue, base, max_cycles, ..] = words;
        let now = self.from([mask, base_cycles, scale, residue, base, max_cycles], now);
        let [.., sequence, realtime, boottime, tai, next_leap] = words;
        let sequence = SetSequence::from_word(sequence);
        let leap = now >= Instant::from_nanos(next_leap.cast_signed());
        if sequence == seen && !leap {
            return (now, None);
        }
        let pending = if leap { NANOS_PER_SEC } else { 0 };
        let offsets = Offsets {
            realtime: Offset::from_nanos(realtime.cast_signed().saturating_sub(pending)),
            boottime: Offset::from_nanos(boottime.cast_signed()),
            tai: Offset::from_nanos(tai.cast_signed()),
        };
        (now, Some((sequence, offsets)))
    }

    /// Returns the counter that drives the time; `None` while the machine is suspended.
    #[must_use]
    pub fn counter(&self) -> Option<CounterId> {
        let words = self.cell.read_first::<{ Record::WITH_COUNTER }>();
        u32::try_from(words[Record::COUNTER]).ok().map(CounterId)
    }

    /// Returns the value of `counter` at which the clock reaches `when`, if that counter drives the clock (spec CPL-4).
    /// Reads no counter.
    ///
    /// The counter is checked before the record is read as a whole, and again on the copy. If it changes in between, a
    /// device is programmed once without coupling.
    #[inline]
    pub fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        if self.cell.peek::<{ Record::COUNTER }>() != u64::from(counter.0) {
            return None;
        }
        let words = self.cell.read_first::<{ Record::COUPLED }>();
        cycles_at(words, counter, when)
    }

    fn publish(&self, (writer, latch_writer): &mut (Writer, LatchWriter), record: &Record) {
        self.cell.publish(writer, record.words());
        self.latch.publish(latch_writer, record.with_counter());
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
