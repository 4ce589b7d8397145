//! The clocks of the C interface, and the conversion of their times to unsigned nanoseconds.

use std::ffi::c_int;

use tickless::hrtimer::{Clock, Instant, Monotonic};

use crate::errno::{Errno, answer};

/// The version of the interface: the first number of the name of the shared library.
pub const TICKLESS_ABI_VERSION: u32 = 0;
/// The number of the clock of the time of day; the numbers of clocks are those of Linux.
pub const TICKLESS_CLOCK_REALTIME: u32 = 0;
/// Time since the machine started, without suspension.
pub const TICKLESS_CLOCK_MONOTONIC: u32 = 1;
/// Time since the machine started.
pub const TICKLESS_CLOCK_BOOTTIME: u32 = 7;
/// International atomic time.
pub const TICKLESS_CLOCK_TAI: u32 = 11;

/// Returns the clock with this number.
pub(crate) fn clock_of(number: u32) -> Result<Clock, Errno> {
    match number {
        TICKLESS_CLOCK_REALTIME => Ok(Clock::Realtime),
        TICKLESS_CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        TICKLESS_CLOCK_BOOTTIME => Ok(Clock::Boottime),
        TICKLESS_CLOCK_TAI => Ok(Clock::Tai),
        _ => Err(Errno::INVAL),
    }
}

/// Returns the number of a clock.
pub(crate) fn number_of(clock: Clock) -> u32 {
    match clock {
        Clock::Realtime => TICKLESS_CLOCK_REALTIME,
        Clock::Monotonic => TICKLESS_CLOCK_MONOTONIC,
        Clock::Boottime => TICKLESS_CLOCK_BOOTTIME,
        Clock::Tai => TICKLESS_CLOCK_TAI,
    }
}

/// Returns the time of a clock. Takes no lock, because a signal handler may call this function and may have interrupted
/// a reading.
pub(crate) fn shown(clock: Clock) -> u64 {
    if clock == Clock::Monotonic {
        let now = Instant::<Monotonic>::from(tickless::time::Instant::now());
        now.as_nanos().max(0).cast_unsigned()
    } else {
        shown_by_kernel(clock)
    }
}

/// Returns the time of a clock as programs and the kernel's timers see it; the library's clock may be a little behind.
pub(crate) fn shown_by_kernel(clock: Clock) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it may be written.
    unsafe { libc::clock_gettime(number_of(clock).cast_signed(), &raw mut time) };
    let (seconds, nanos) = (i128::from(time.tv_sec), i128::from(time.tv_nsec));
    u64::try_from((seconds * 1_000_000_000 + nanos).max(0)).unwrap_or(u64::MAX)
}

/// Converts an instant of the library to nanoseconds of the monotonic clock, by the time from now to the instant.
pub(crate) fn monotonic(instant: tickless::time::Instant) -> u64 {
    let left = instant
        .saturating_duration_since(tickless::time::Instant::now())
        .as_nanos();
    shown(Clock::Monotonic).saturating_add(u64::try_from(left).unwrap_or(u64::MAX))
}

/// The latest time for which a timer can be started.
pub(crate) const LATEST: u64 = Instant::<Monotonic>::LATEST.as_nanos().cast_unsigned();

/// Checks a delay or an interval. Returns `EINVAL` for a negative number that C converted to an unsigned number.
pub(crate) fn span(nanos: u64) -> Result<u64, Errno> {
    i64::try_from(nanos).map_err(|_| Errno::INVAL)?;
    Ok(nanos)
}

/// Checks a time for which a timer is to be started. Returns `EOVERFLOW` if it is beyond the latest time.
pub(crate) fn deadline(nanos: u64) -> Result<u64, Errno> {
    span(nanos)?;
    if nanos > LATEST {
        return Err(Errno::OVERFLOW);
    }
    Ok(nanos)
}

/// Returns the time that is `delay` after `start`.
pub(crate) fn after(start: u64, delay: u64) -> Result<u64, Errno> {
    deadline(start.checked_add(delay).ok_or(Errno::OVERFLOW)?).map_err(|_| Errno::OVERFLOW)
}

/// Returns the version of the interface of this library.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_abi_version() -> u32 {
    TICKLESS_ABI_VERSION
}

/// Writes the present time of a clock.
///
/// # Safety
///
/// `now_ns` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_clock_now(clock: u32, now_ns: *mut u64) -> c_int {
    answer(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the caller says so.
        unsafe { put(now_ns, shown(clock)) }
    })
}

/// Writes a result to `place`.
///
/// # Safety
///
/// `place` is null, or may be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Result<c_int, Errno> {
    if place.is_null() || !place.is_aligned() {
        return Err(Errno::INVAL);
    }
    // SAFETY: neither null nor misaligned; the caller says the rest.
    unsafe { place.write(value) };
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::{after, deadline, span};
    use crate::errno::Errno;

    #[test]
    fn times_beyond_the_end_are_refused() {
        assert_eq!(span(u64::MAX), Err(Errno::INVAL));
        assert_eq!(span(0), Ok(0));
        assert_eq!(deadline(i64::MAX.cast_unsigned()), Err(Errno::OVERFLOW));
        assert_eq!(after(1, i64::MAX.cast_unsigned()), Err(Errno::OVERFLOW));
        assert_eq!(after(u64::MAX, 1), Err(Errno::OVERFLOW));
        assert_eq!(after(1, 2), Ok(3));
    }
}
