//! The conversion of POSIX times to unsigned nanoseconds.

use std::ffi::c_int;

use tickless::hrtimer::{Clock, Instant, Monotonic};

use crate::clock::shown_by_kernel;
use crate::errno::Errno;
use crate::posix::arm::Arm;

const SECOND: u64 = 1_000_000_000;
/// The latest time for which a timer is enqueued: 292 years after the clock began.
const LATEST: u64 = Instant::<Monotonic>::LATEST.as_nanos().cast_unsigned();

/// Returns `time` in nanoseconds; `EINVAL` if it is negative or its field of nanoseconds is a second or more. A time
/// beyond the end of the clock becomes the end of the clock.
pub(super) fn nanos(time: &libc::timespec) -> Result<u64, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u64::try_from(time.tv_nsec).map_err(|_| Errno::INVAL)?;
    if nanos >= SECOND {
        return Err(Errno::INVAL);
    }
    Ok(seconds
        .saturating_mul(SECOND)
        .saturating_add(nanos)
        .min(LATEST))
}

/// Returns `nanos` as a `timespec`.
pub(super) fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / SECOND).cast_signed(),
        tv_nsec: (nanos % SECOND).cast_signed(),
    }
}

/// Returns the clock with this POSIX number; `ENOTSUP` for clocks of processor time and other clocks without timers,
/// `EINVAL` for numbers that are no clock.
pub(super) fn clock(number: libc::clockid_t) -> Result<Clock, Errno> {
    match number {
        libc::CLOCK_REALTIME => Ok(Clock::Realtime),
        libc::CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        libc::CLOCK_BOOTTIME => Ok(Clock::Boottime),
        libc::CLOCK_TAI => Ok(Clock::Tai),
        // Those of processes and threads are negative: so says the interface of `clock_getcpuclockid`.
        libc::CLOCK_PROCESS_CPUTIME_ID..=libc::CLOCK_BOOTTIME_ALARM | c_int::MIN..0 => {
            Err(Errno::NOTSUP)
        }
        _ => Err(Errno::INVAL),
    }
}

/// Returns the setting that `value` describes for a timer of `clock`. A relative time on the time of day does not
/// change when this clock is set, so it becomes a time on the monotonic clock.
pub(super) fn arm(clock: Clock, is_absolute: bool, value: &libc::itimerspec) -> Result<Arm, Errno> {
    let (time, interval) = (nanos(&value.it_value)?, nanos(&value.it_interval)?);
    if time == 0 {
        return Ok(Arm::DISARMED);
    }
    let clock = if is_absolute || clock != Clock::Realtime {
        clock
    } else {
        Clock::Monotonic
    };
    let start = if is_absolute {
        time
    } else {
        shown_by_kernel(clock).saturating_add(time).min(LATEST)
    };
    Ok(Arm {
        start,
        interval,
        clock,
    })
}

/// Returns the time that is left for `arm`, and its interval.
pub(super) fn left(arm: &Arm) -> libc::itimerspec {
    let now = shown_by_kernel(arm.clock);
    let left = arm.next(now).map_or(0, |next| next - now);
    libc::itimerspec {
        it_value: timespec(left),
        it_interval: timespec(arm.interval),
    }
}

#[cfg(test)]
mod tests {
    use tickless::hrtimer::Clock;

    use super::{arm, clock, nanos, timespec};
    use crate::errno::Errno;
    use crate::posix::arm::Arm;

    #[test]
    fn times_that_are_none_are_refused() {
        let of = |tv_sec, tv_nsec| nanos(&libc::timespec { tv_sec, tv_nsec });
        assert_eq!(of(1, 5), Ok(1_000_000_005));
        assert_eq!(of(-1, 0), Err(Errno::INVAL));
        assert_eq!(of(0, -1), Err(Errno::INVAL));
        assert_eq!(of(0, 1_000_000_000), Err(Errno::INVAL));
        assert_eq!(of(i64::MAX, 0), of(i64::MAX - 1, 0));
    }

    #[test]
    fn clocks_have_timers_or_an_error() {
        assert_eq!(clock(libc::CLOCK_MONOTONIC), Ok(Clock::Monotonic));
        assert_eq!(clock(libc::CLOCK_PROCESS_CPUTIME_ID), Err(Errno::NOTSUP));
        assert_eq!(clock(-6), Err(Errno::NOTSUP));
        assert_eq!(clock(100), Err(Errno::INVAL));
    }

    #[test]
    fn relative_times_do_not_follow_the_time_of_day() {
        let zero = timespec(0);
        let value = libc::itimerspec {
            it_value: timespec(5),
            it_interval: zero,
        };
        assert_eq!(
            arm(Clock::Realtime, false, &value).unwrap().clock,
            Clock::Monotonic
        );
        assert_eq!(
            arm(Clock::Realtime, true, &value).unwrap().clock,
            Clock::Realtime
        );
        let off = libc::itimerspec {
            it_value: zero,
            it_interval: timespec(5),
        };
        assert_eq!(arm(Clock::Realtime, true, &off), Ok(Arm::DISARMED));
    }
}
