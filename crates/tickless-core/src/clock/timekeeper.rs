//! The monotonic time, computed from a free-running counter.
//!
//! The published record defines the time: at counter value `base_cycles` the time was `base` nanoseconds and a residue,
//! and each later cycle adds `mult / 2^shift` nanoseconds. Readers copy the record and read the counter in one section
//! of a sequence lock, and do one multiplication (spec ). The [`Keeper`] is the only writer: it moves the base
//! forward, steers the factor, and changes the offsets of the other clocks.
//!
//! # Behaviour of the counter
//!
//! - The counter may *wrap*: differences are taken modulo its width (spec TIM-15).
//! - It may *seem to run backwards* by a little, because another CPU's copy is behind: a reading before the base counts
//!   as no time passed.
//! - It may *jump forward by more than the fast path can multiply*, because a virtual machine was stopped: the product
//!   is then formed in 128 bits (B49). One comparison on the fast path detects this case and the previous one (spec
//!   TIM-16); both are counted.
//!
//! # Behaviour of the time
//!
//! - The time is *accumulated* in whole intervals of about a tick, and the intended length of an interval is compared
//!   with its real length (`accumulate`). The factor is changed up and down by one so that the difference approaches
//!   zero (spec TIM-24).
//! - The time is *steered* by its tick, its frequency, and an offset that is worked off exponentially (`steering`).
//! - The time *stands still* while the machine is suspended.
//!
//! The published base is the time of the last call of the keeper, not the end of an interval: for a CPU whose copy of
//! the counter lags the time must not step back. The counter is read within the read section of the record, and is read
//! again if the record changed meanwhile (TIM-17). `docs/clocks.md` has the reasons for both.
//!
//! # Two publications
//!
//! A reader of the sequence lock waits while the writer is inside. An interrupt handler that may have interrupted the
//! writer reads a second copy, in a latch (spec TIM-18): [`Timekeeper::now_on_top_of_writer`].
//!
//! # Ground rules
//!
//! Readers may run anywhere except in an interrupt of the writer, so the host masks interrupts around [`Keeper`] calls.
//! A reading costs eight loads, one multiplication, and a reading of the counter.

use tickless_link::latch::{LatchCell, LatchWriter};
use tickless_link::seqlock::{SeqCell, Writer};
use tickless_link::sync::{AtomicU64, Ordering};

use super::CounterId;
use super::counter::{BadCounter, Counter};
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
    /// The record for readers that may have interrupted the writer.
    latch: LatchCell<{ Record::WITH_COUNTER }>,
    /// The number of readings whose counter was before the base.
    behind: AtomicU64,
    /// The number of readings whose counter was further ahead of the base than the fast path can multiply.
    ahead: AtomicU64,
}

impl Timekeeper {
    /// Makes a clock that starts at monotonic zero when `counter` shows `now`, with all offsets zero. The intervals are
    /// those of a tick of 1 ms.
    ///
    /// # Panics
    ///
    /// For a counter that cannot drive the time; [`try_new`](Self::try_new) returns the reason instead.
    #[must_use]
    pub fn new(counter: Counter, now: Cycles) -> (Self, Keeper) {
        Self::try_new(counter, now, keeper::TICK).expect("a counter counts, in 2 to 64 bits")
    }

    /// Makes a clock as [`new`](Self::new) does, with intervals of about one `tick`, which is limited to 10 µs to 100
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

    /// Returns the monotonic time. `read` reads the counter, and is called again if the record changes meanwhile.
    ///
    /// The counter SHOULD be read before later instructions, as by `lfence; rdtsc; lfence`. If the processor reads it
    /// some tens of nanoseconds later, the time is off by the change of the rate in that time, which is negligible:
    /// 1000 ppm over a microsecond make a nanosecond.
    #[inline]
    pub fn now(&self, mut read: impl FnMut() -> Cycles) -> Instant {
        let (words, now) = self.cell.read_first_and(|_| read());
        self.from(words, now)
    }

    /// Returns the monotonic time. `read` reads the counter with the given identity. While no counter drives the time,
    /// no cycles are counted.
    #[inline]
    pub fn now_by(&self, mut read: impl FnMut(CounterId) -> Cycles) -> Instant {
        let sample = |words: &[u64; Record::WITH_COUNTER]| Record::sample(words, &mut read);
        let ([fast @ .., _], now) = self.cell.read_first_and(sample);
        self.from(fast, now)
    }

    /// Reads the clock as [`now_by`](Self::now_by) does, in contexts that may have interrupted the writer: interrupts
    /// that no CPU masks, signal handlers, debuggers (spec TIM-18, B38).
    ///
    /// While the keeper publishes, one such reading may use the old record, and another one the new record. The two
    /// records agree at the published base, so readings may run backwards by a few nanoseconds: by the difference of
    /// the rates over the time of a publication, which is 1 ns for 1000 ppm and a microsecond. On a CPU whose copy of
    /// the counter lags, they may run backwards by that lag. At other times the result is the same as that of `now`.
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
    /// still. These readings took longer, and their results are right.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        // Relaxed: see `notice`.
        self.ahead.load(Ordering::Relaxed)
    }

    /// Returns the monotonic time and, if the clocks were set since `seen`, the new offsets (spec TIM-20). `read` is
    /// called as in [`now_by`](Self::now_by).
    ///
    /// At and after a leap second that is not in the record yet, the returned offset of the time of day already
    /// includes this leap second, so that no timer fires a second early.
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
