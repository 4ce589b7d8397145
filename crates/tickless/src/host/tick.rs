//! The tick of coarse timers: a millisecond of the monotonic clock. Ticks are calculated from the clock's beginning, so
//! that no thread has to count them.

use tickless_core::coarse::{AskedFor, Tick};
use tickless_core::time::{Instant, Span};
use tickless_core::wheel::idle::TickTime;

use super::registry::timers;
use super::thread::{self, ThreadBase, core_now_lower, now_lower};

/// The length of a tick, in nanoseconds.
pub(crate) const TICK: u64 = 1_000_000;

/// Returns the tick in progress at `when`.
#[inline]
pub(crate) fn tick_of(when: Instant) -> Tick {
    Tick(when.as_nanos().max(0).cast_unsigned() / TICK)
}

/// Returns the tick in progress, or the tick before if that ended a moment ago. No timer fires early by this.
#[inline]
pub(crate) fn now() -> Tick {
    tick_of(now_lower())
}

/// Works as [`now`], by the clock of the base for which this thread acts.
#[inline]
pub(crate) fn core_now() -> Tick {
    tick_of(core_now_lower())
}

/// Returns the tick of this thread's last clock reading, see [`thread::asked_last`]. Each wheel calls it once within
/// one line of the clock.
#[inline(always)]
pub(crate) fn asked_last() -> AskedFor<impl Fn() -> Tick + Copy> {
    AskedFor(|| tick_of(thread::asked_last()))
}

/// Returns the instant at which `tick` begins.
#[inline]
pub(crate) fn instant_of(tick: Tick) -> Instant {
    /// The last tick that the clock can represent.
    const LAST: u64 = i64::MAX.cast_unsigned() / TICK;
    if tick.0 > LAST {
        return Instant::FOREVER;
    }
    Instant::from_nanos((tick.0 * TICK).cast_signed())
}

/// Converts `now` to the pair of the tick and its beginning that the code for idle CPUs needs.
pub(crate) fn tick_time(now: Instant) -> TickTime {
    let tick = tick_of(now);
    TickTime {
        tick,
        began: instant_of(tick),
        period: Span::from_nanos(TICK),
    }
}

/// Returns the time at which the first timer on the wheels of `base` is due, or an earlier time; [`Instant::FOREVER`]
/// if the wheels are empty. Lock-free.
#[inline]
pub(crate) fn first_due(base: &ThreadBase) -> Instant {
    base.wheel_first_due().map_or(Instant::FOREVER, instant_of)
}

/// Returns [`first_due`] for this thread's own base. The time is exact: timers that were due and were cancelled no
/// longer count.
pub(crate) fn settle_first_due(base: &ThreadBase) -> Instant {
    let next = timers().wheel_next(base.cpu(), core_now());
    let due = |tick: Option<Tick>| tick.map_or(Instant::FOREVER, instant_of);
    due(next.local).min(due(next.global))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_begins_on_the_clock_or_never() {
        let last = i64::MAX / 1_000_000;
        assert_eq!(instant_of(Tick(7)), Instant::from_nanos(7_000_000));
        assert_eq!(
            instant_of(Tick(last.cast_unsigned())),
            Instant::from_nanos(last * 1_000_000)
        );
        for never in [last.cast_unsigned() + 1, u64::MAX] {
            assert_eq!(instant_of(Tick(never)), Instant::FOREVER);
        }
    }
}
