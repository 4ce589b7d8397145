//! Virtual time, and its average over a queue, from which each task's lag is computed.

use core::cmp::Ordering;

use crate::amount::{Request, Weight};

/// Service divided by weight: nanoseconds for a task of [unit](Weight::UNIT) weight.
///
/// Virtual time wraps. Two virtual times are compared by their difference, so their order is right if they are less
/// than 2^63 apart: 292 years for a task of unit weight. [`FairQueue`](super::FairQueue) keeps all virtual times of a
/// queue within 2^61.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Virtual(i64);

impl Virtual {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the distance from `earlier` to this time; negative if this comes before it.
    #[inline]
    pub(crate) const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0)
    }

    #[inline]
    #[must_use]
    pub(crate) const fn after(self, distance: i64) -> Self {
        Self(self.0.wrapping_add(distance))
    }
}

/// Returns the middle between two virtual times, rounded down: the average of two tasks of the same weight.
#[inline]
pub(crate) fn halfway(from: Virtual, to: Virtual) -> Virtual {
    from.after(to.since(from) >> 1)
}

impl PartialOrd for Virtual {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Virtual {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.since(*other).cmp(&0)
    }
}

/// Returns the virtual length of a request: its length divided by the weight, rounded up.
#[inline]
pub(crate) fn virtual_length(request: Request, weight: Weight) -> i64 {
    let nanos = request.nanos();
    let length = if weight == Weight::UNIT {
        nanos
    } else {
        // At most 10^8 * 2^20 / 2^10, so it fits.
        (nanos * Weight::UNIT.get()).div_ceil(weight.get())
    };
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// The average of the virtual times of all competing tasks, by their weights: the virtual time of the queue.
///
/// Its lead over a task's own virtual time, multiplied by the weight of the task, is the service that the task is owed:
/// its *lag*. The sum of all lags is zero, which makes the average the virtual time of Stoica and Abdel-Wahab (their
/// section 2, equation 5, with the corrections of section 3 when a task joins or leaves).
///
/// The average is kept as a sum relative to a base that moves with it, so that the sum neither overflows nor loses
/// precision. The sum is exact, and the average is rounded down when it is read. All virtual times are whole, so a task
/// is at or before the average exactly when it is at or before the average rounded down.
#[derive(Clone, Debug)]
pub(crate) struct Average {
    base: Virtual,
    /// The sum over all of weight times distance from the base.
    sum: i128,
    /// The sum of the weights.
    weight: u64,
}

impl Average {
    pub(crate) const fn new() -> Self {
        Self {
            base: Virtual::ZERO,
            sum: 0,
            weight: 0,
        }
    }

    #[inline]
    pub(crate) const fn of_one(weight: Weight, at: Virtual) -> Self {
        Self {
            base: at,
            sum: 0,
            weight: weight.get(),
        }
    }

    /// Creates the average of two tasks of unit weight, relative to the first.
    #[inline]
    pub(crate) fn of_pair(first: Virtual, second: Virtual) -> Self {
        let unit = Weight::UNIT.get();
        Self {
            base: first,
            sum: i128::from(second.since(first)) * i128::from(unit),
            weight: 2 * unit,
        }
    }

    /// Creates the average of a pair as [`of_pair`](Self::of_pair) does; the second is ahead of the first, by less than
    /// 2^43.
    #[inline]
    pub(crate) fn of_near_pair(first: Virtual, second: Virtual) -> Self {
        let ahead = second.since(first).cast_unsigned();
        debug_assert!(ahead < 1 << 43);
        let unit = Weight::UNIT.get();
        Self {
            base: first,
            sum: i128::from(ahead * unit),
            weight: 2 * unit,
        }
    }

    /// Returns true if hours of additions to `at` stay within half the counter's range.
    #[inline]
    pub(crate) const fn is_near(&self, at: Virtual) -> bool {
        // Between minus and plus that: one comparison of what is never negative.
        let half = FARTHEST / 2;
        at.since(self.base).wrapping_add(half).cast_unsigned() < FARTHEST.unsigned_abs()
    }

    #[inline]
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the average, rounded down; if no task competes, the last average.
    #[inline]
    pub(crate) fn value(&self) -> Virtual {
        self.base.after(self.offset())
    }

    /// Returns true if `at` is so far ahead that differences would soon wrap.
    #[inline]
    pub(crate) const fn is_out_of_reach(&self, at: Virtual) -> bool {
        at.since(self.base) > FARTHEST
    }

    /// Returns the average, and moves the base there.
    #[inline]
    pub(crate) fn settle(&mut self) -> Virtual {
        let (offset, rest) = self.divided();
        self.base = self.base.after(offset);
        self.sum = rest;
        self.base
    }

    #[inline]
    pub(crate) fn add(&mut self, weight: Weight, at: Virtual) {
        self.sum += i128::from(weight.get()) * i128::from(at.since(self.base));
        self.weight += weight.get();
    }

    #[inline]
    pub(crate) fn remove(&mut self, weight: Weight, at: Virtual) {
        self.sum -= i128::from(weight.get()) * i128::from(at.since(self.base));
        self.weight -= weight.get();
        if self.weight == 0 {
            // The last one leaves the queue where it was itself.
            self.base = at;
            self.sum = 0;
        }
    }

    /// Replaces the weight or the virtual time of one task.
    pub(crate) fn exchange(&mut self, before: (Weight, Virtual), after: (Weight, Virtual)) {
        self.add(after.0, after.1);
        self.remove(before.0, before.1);
    }

    #[inline]
    pub(crate) fn advance(&mut self, weight: Weight, distance: i64) {
        self.sum += i128::from(weight.get()) * i128::from(distance);
    }

    /// Returns where a task of this weight has to join so that the average is ahead of it by `lag`, in virtual time,
    /// *afterwards*.
    ///
    /// The task pulls the average towards itself, so it has to join farther away, by its part of the total weight.
    pub(crate) fn place(&self, weight: Weight, lag: i64) -> Virtual {
        if self.weight == 0 {
            return self.base;
        }
        if lag == 0 {
            return self.value();
        }
        let own = weight.get();
        let whole = self.weight + own;
        // As in `divided`.
        if let Some(product) = i64::try_from(whole).ok().and_then(|w| lag.checked_mul(w))
            && let Ok(weight) = i64::try_from(self.weight)
        {
            return self.value().after(-product.div_euclid(weight));
        }
        let distance = (i128::from(lag) * i128::from(whole)).div_euclid(i128::from(self.weight));
        self.value()
            .after(i64::try_from(-distance).unwrap_or(if lag < 0 { FARTHEST } else { -FARTHEST }))
    }

    #[inline]
    fn offset(&self) -> i64 {
        self.divided().0
    }

    /// Returns the distance of the average from the base, rounded down, and the remainder of the sum.
    #[inline]
    fn divided(&self) -> (i64, i128) {
        // While the base follows, the sum fits into 64 bits, and dividing those is several times cheaper.
        if let (Ok(sum), Ok(weight)) = (i64::try_from(self.sum), i64::try_from(self.weight)) {
            if weight == 0 {
                return (0, self.sum);
            }
            let offset = sum.div_euclid(weight);
            return (offset, i128::from(sum - offset * weight));
        }
        self.divided_widely()
    }

    #[cold]
    fn divided_widely(&self) -> (i64, i128) {
        let weight = i128::from(self.weight);
        let offset = self.sum.div_euclid(weight);
        let offset = i64::try_from(offset).unwrap_or(if offset < 0 { -FARTHEST } else { FARTHEST });
        (offset, self.sum - i128::from(offset) * weight)
    }
}

/// Largest distance between virtual times of one queue: 73 years of a task of unit weight.
pub(crate) const FARTHEST: i64 = 1 << 61;
