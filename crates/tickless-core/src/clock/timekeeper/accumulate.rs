//! The accumulation of time in whole intervals: the move of the base, the fraction of a nanosecond, and the correction
//! that is still owed.
//!
//! An interval is a fixed number of cycles, about one tick. Its intended length is known to `2^-32` ns. Its real length
//! is an integer factor times its cycles. The difference is the *error* (spec TIM-22). The factor is chosen so that the
//! error returns to zero: the largest factor that is not too fast, plus one while the clock is behind (spec TIM-24). So
//! the clock is right on average, to much less than one step of the factor.
//!
//! This module does arithmetic on its arguments only; it reads no clock.

use crate::clock::counter::headroom;
use crate::time::Instant;
use crate::time::convert::{Cycles, Scale};

/// The number of fraction bits in the intended length of an interval, equal to the largest shift.
pub(super) const FINE: u32 = 32;

/// The accumulated time, up to the end of the last whole interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accumulated {
    /// The present factor.
    pub(super) scale: Scale,
    /// The factor without steering.
    nominal: Scale,
    /// The number of cycles in an interval.
    interval: u64,
    /// The counter value at the end of the last whole interval.
    origin: Cycles,
    /// The time at the origin: whole nanoseconds, and the rest in units of `2^-shift` ns.
    base: i64,
    residue: u64,
    /// The distance of the clock behind its intended time, in `2^-32` ns.
    error: i64,
}

impl Accumulated {
    /// Makes an accumulated time that is `base` at the counter value `origin`.
    pub(super) const fn new(nominal: Scale, interval: u64, origin: Cycles, base: Instant) -> Self {
        Self {
            scale: nominal,
            nominal,
            interval,
            origin,
            base: base.as_nanos(),
            residue: 0,
            error: 0,
        }
    }

    /// Returns the length of an interval at a factor of one, in `2^-32` ns.
    const fn unit(&self) -> u64 {
        // Below 2^63: an interval lasts a tenth of a second at most, and the factor counts 2^-32 at least.
        self.interval << (FINE - self.scale.shift())
    }

    /// Returns the distance of the clock behind its intended time, in `2^-32` ns.
    pub(super) const fn error(&self) -> i64 {
        self.error
    }

    /// Sets the error to zero (spec TIM-38).
    pub(super) const fn clear_error(&mut self) {
        self.error = 0;
    }

    /// Accumulates the whole intervals in the `delta` cycles since the origin; each should have lasted `wanted`
    /// (spec TIM-22, TIM-23).
    ///
    /// Each step takes a power of two of intervals, the largest first. So there are at most 64 steps, for any time
    /// since the last call. All products are formed in 128 bits, so no step has to be limited.
    pub(super) fn take(&mut self, delta: u64, mask: u64, wanted: i64) {
        let mut left = delta;
        while left >= self.interval {
            let mut doublings = left.ilog2() - self.interval.ilog2();
            if self.interval << doublings > left {
                doublings -= 1;
            }
            let cycles = self.interval << doublings;
            self.step(cycles, doublings, wanted);
            self.origin = Cycles(self.origin.0.wrapping_add(cycles) & mask);
            left -= cycles;
        }
    }

    fn step(&mut self, cycles: u64, doublings: u32, wanted: i64) {
        let mult = u128::from(self.scale.mult());
        let sum = u128::from(cycles) * mult + u128::from(self.residue);
        self.set(i128::try_from(sum).unwrap_or(i128::MAX));
        let given = i128::from(self.unit()) * i128::from(self.scale.mult());
        let owed = (i128::from(wanted) - given) << doublings;
        let error = i128::from(self.error) + owed;
        self.error = i64::try_from(error).unwrap_or(if owed < 0 { i64::MIN } else { i64::MAX });
    }

    /// Moves the base by the whole nanoseconds of `sum`, which is in `2^-shift` ns, and sets the residue to the rest.
    /// Rounds down, so that a negative rest is borrowed from the base (spec TIM-26).
    fn set(&mut self, sum: i128) {
        let shift = self.scale.shift();
        let nanos = sum >> shift;
        let nanos = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
        self.base = self.base.saturating_add(nanos);
        self.residue = u64::try_from(sum & ((1 << shift) - 1)).unwrap_or(0);
    }

    /// Returns the factor for intervals that should last `wanted` (spec TIM-24); `None` if the clock may not be steered
    /// so far (spec TIM-13, TIM-25).
    pub(super) fn desired_mult(&self, wanted: i64) -> Option<u32> {
        // Rounds down: with one more while the clock is behind, the error crosses zero again and again.
        let whole = u64::try_from(wanted).ok()? / self.unit();
        let mult = u32::try_from(whole + u64::from(self.error > 0)).ok()?;
        let nominal = self.nominal.mult();
        (u64::from(mult.abs_diff(nominal)) <= headroom(nominal).max(1)).then_some(mult)
    }

    /// Changes the factor to `mult` from the point `ahead` cycles after the origin on. The time at that point does not
    /// change (spec TIM-25).
    pub(super) fn change_mult(&mut self, mult: u32, ahead: u64) {
        let by = i128::from(mult) - i128::from(self.scale.mult());
        let residue = i128::from(self.residue) - i128::from(ahead) * by;
        self.set(residue);
        self.scale = Scale::from_parts(mult, self.scale.shift());
    }

    /// Returns the time `ahead` cycles after the origin, and the rest below a nanosecond.
    pub(super) fn at(&self, ahead: u64) -> (Instant, u64) {
        let mut there = *self;
        let sum = u128::from(ahead) * u128::from(self.scale.mult()) + u128::from(self.residue);
        there.set(i128::try_from(sum).unwrap_or(i128::MAX));
        (Instant::from_nanos(there.base), there.residue)
    }

    /// Returns the counter value at the end of the last whole interval.
    pub(super) const fn origin(&self) -> Cycles {
        self.origin
    }

    /// Returns this time moved to another counter, or to another value of the same counter, at the point `ahead` cycles
    /// after the origin. The time at that point and the owed correction do not change.
    pub(super) fn moved_to(&self, ahead: u64, nominal: Scale, interval: u64, now: Cycles) -> Self {
        let (base, residue) = self.at(ahead);
        let (old, new) = (self.scale.shift(), nominal.shift());
        Self {
            // Rounds down, by less than what a reader sees.
            residue: residue << new >> old,
            error: self.error,
            ..Self::new(nominal, interval, now, base)
        }
    }

    /// Continues at `now` of the same counter, with the time `base` and its `residue`.
    pub(super) fn goes_on_at(&mut self, (base, residue): (Instant, u64), now: Cycles) {
        self.origin = now;
        self.base = base.as_nanos();
        self.residue = residue;
    }
}
