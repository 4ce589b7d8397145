//! Combined reads of a clock whose instants have 64 bits.
//!
//! Generation, lock and value share one word, so that no reader sees halves of two different values. The value has 61
//! bits. With a second word for the remaining bits, a reader would have to read the second word between two reads of
//! the first word, and a replaced holder could write its second word late (`docs/clocks.md`).

use tickless_link::const_unless_loom;

use super::{Combined, Patience, SlowCounter, Word};
use crate::time::convert::Cycles;
use crate::time::{ClockId, Instant, Monotonic};

/// The number of bits of an instant in the word of a [`CombinedClock`].
const CLOCK_BITS: u32 = Word::<1>::VALUE_BITS_MAX;
/// The value that stands for an instant that does not fit: the number whose negative cannot be represented.
pub(super) const NO_INSTANT: u64 = 1 << (CLOCK_BITS - 1);

/// A slow clock whose reads are combined, for example a clock that is read by a system call or through a file
/// descriptor.
///
/// The word has 61 bits for an instant. They count nanoseconds before or after a base, and so cover 36 years in both
/// directions. If the clock shows an instant beyond this range, each caller reads the clock directly; no caller gets a
/// wrong instant.
///
/// ```
/// use tickless_core::clock::combined::{CombinedClock, SlowCounter};
/// use tickless_core::time::{Instant, Realtime};
///
/// /// Stands for a system call.
/// struct TimeOfDay;
/// impl SlowCounter for TimeOfDay {
///     type Sample = Instant<Realtime>;
///     type Masked = ();
///     fn sample(&self) -> Instant<Realtime> {
///         Instant::from_nanos(1_795_000_000_000_000_000)
///     }
///     fn mask(&self) {}
///     fn unmask(&self, (): ()) {}
/// }
///
/// let clock = CombinedClock::new(TimeOfDay, TimeOfDay.sample());
/// assert_eq!(clock.read_joined(), TimeOfDay.sample());
/// ```
#[derive(Debug)]
pub struct CombinedClock<C, K: ClockId = Monotonic> {
    reads: Combined<FromBase<C, K>, CLOCK_BITS>,
}

impl<C: SlowCounter<Sample = Instant<K>>, K: ClockId> CombinedClock<C, K> {
    const_unless_loom! {
        /// Makes a clock that combines the reads of `clock`. `base` is a time near the time that the clock shows:
        /// [`Instant::ZERO`] for clocks that began with the machine, the present time for the time of day.
        #[must_use]
        pub const fn new(clock: C, base: Instant<K>) -> Self {
            Self {
                reads: Combined::new(FromBase { clock, base }),
            }
        }
    }

    /// Returns the clock whose reads are combined.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.reads.counter().clock
    }

    /// Returns the time: see [`Combined::read_joined`].
    #[inline]
    pub fn read_joined(&self) -> Instant<K> {
        let value = self.reads.read_joined();
        self.instant(value)
    }

    /// Returns the time, sampled within the call: see [`Combined::read_fresh`].
    #[inline]
    pub fn read_fresh(&self) -> Instant<K> {
        let value = self.reads.read_fresh();
        self.instant(value)
    }

    #[inline]
    fn instant(&self, value: Cycles) -> Instant<K> {
        let FromBase { clock, base } = self.reads.counter();
        decoded(*base, value.0).unwrap_or_else(|| clock.sample())
    }
}

/// A clock in the form of a counter of nanoseconds from a base.
#[derive(Debug)]
struct FromBase<C, K: ClockId> {
    clock: C,
    base: Instant<K>,
}

impl<C: SlowCounter<Sample = Instant<K>>, K: ClockId> SlowCounter for FromBase<C, K> {
    type Sample = Cycles;
    type Masked = C::Masked;

    #[inline]
    fn sample(&self) -> Cycles {
        Cycles(encoded(self.base, self.clock.sample()))
    }

    #[inline]
    fn mask(&self) -> C::Masked {
        self.clock.mask()
    }

    #[inline]
    fn unmask(&self, masked: C::Masked) {
        self.clock.unmask(masked);
    }

    #[inline]
    fn is_non_maskable(&self) -> bool {
        self.clock.is_non_maskable()
    }

    #[inline]
    fn is_alone(&self) -> bool {
        self.clock.is_alone()
    }

    #[inline]
    fn relax(&self, attempt: u32) -> Patience {
        self.clock.relax(attempt)
    }
}

/// Encodes `instant` as value bits of the word.
#[inline]
pub(super) const fn encoded<K: ClockId>(base: Instant<K>, instant: Instant<K>) -> u64 {
    let Some(nanos) = instant.as_nanos().checked_sub(base.as_nanos()) else {
        return NO_INSTANT;
    };
    if nanos.unsigned_abs() < NO_INSTANT {
        nanos.cast_unsigned() & Word::<CLOCK_BITS>::VALUE
    } else {
        NO_INSTANT
    }
}

/// Decodes value bits of the word to an instant; returns `None` if the instant did not fit.
#[inline]
const fn decoded<K: ClockId>(base: Instant<K>, value: u64) -> Option<Instant<K>> {
    if value == NO_INSTANT {
        return None;
    }
    // Its highest bit is the sign.
    let unused = u64::BITS - CLOCK_BITS;
    let nanos = (value << unused).cast_signed() >> unused;
    // It came from a subtraction, which this undoes.
    Some(Instant::from_nanos(base.as_nanos().wrapping_add(nanos)))
}
