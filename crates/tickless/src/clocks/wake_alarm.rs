//! Timers that wake a suspended machine.

use std::io;
use std::marker::PhantomData;

use tickless_core::time::Boottime;

use super::point::Point;
use crate::host::sys::descriptors::{AsFd, OwnedFd, make_alarm, set_timer};
use crate::host::sys::{AlarmClock, Until};

/// An alarm that wakes the machine from a suspend when the clock `C` shows a time:
/// [`boottime::WakeAlarm`](crate::boottime::WakeAlarm) and [`realtime::WakeAlarm`](crate::realtime::WakeAlarm).
///
/// The timers of this library fire while the machine is awake. One that is due during a suspend fires after the resume,
/// which may be hours later. An alarm for the same time ends the suspend, so that the timer fires in time:
///
/// ```no_run
/// use std::time::Duration;
/// use tickless::boottime::{Instant, WakeAlarm, sleep_until};
///
/// # futures::executor::block_on(async {
/// let deadline = Instant::now() + Duration::from_secs(8 * 3600);
/// // Without the right, the sleep ends when somebody wakes the machine.
/// let alarm = WakeAlarm::new().ok();
/// if let Some(alarm) = &alarm {
///     alarm.set(deadline);
/// }
/// sleep_until(deadline).await;
/// # });
/// ```
///
/// The alarm itself calls nothing and wakes no thread. It is cleared by its drop. On a machine that is awake, and in a
/// runtime whose clock is [paused](crate::time::pause), it does nothing. A child of a fork shares the alarm.
///
/// # Rights
///
/// Linux, with the capability `CAP_WAKE_ALARM` (capabilities(7)). `sudo setcap cap_wake_alarm+ep PROGRAM` gives it to a
/// program, `AmbientCapabilities=CAP_WAKE_ALARM` to a service of systemd. The machine needs a real-time clock that can
/// ring while it is suspended.
///
/// # Cost
///
/// One descriptor; a system call for each call.
#[derive(Debug)]
pub struct WakeAlarm<C> {
    fd: OwnedFd,
    clock: PhantomData<fn() -> C>,
}

impl WakeAlarm<Boottime> {
    /// Makes an alarm that is not set, on the clock that also counts the time of a suspend.
    ///
    /// # Errors
    ///
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without the right;
    /// [`Unsupported`](io::ErrorKind::Unsupported) on a system that has no such alarms; what the system refuses else,
    /// for instance another descriptor.
    pub fn new() -> io::Result<Self> {
        Self::on(AlarmClock::Boottime)
    }

    /// Sets the alarm to `deadline`, in place of an earlier time. A deadline that has passed wakes nothing.
    pub fn set(&self, deadline: Point<Boottime>) {
        self.ring_at(deadline.as_nanos());
    }
}

impl<C> WakeAlarm<C> {
    pub(super) fn on(clock: AlarmClock) -> io::Result<Self> {
        let fd = make_alarm(clock).map_err(|errno| explained(errno.into()))?;
        let clock = PhantomData;
        Ok(Self { fd, clock })
    }

    /// Clears the alarm: it wakes the machine no more.
    pub fn clear(&self) {
        set_timer(self.fd.as_fd(), Until::Never);
    }

    pub(super) fn ring_at(&self, nanos: i64) {
        // A time of zero would clear the alarm; each time before now rings at once.
        set_timer(self.fd.as_fd(), Until::At(nanos.max(1)));
    }
}

/// Adds what would be right to an error of the system.
fn explained(error: io::Error) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "an alarm that wakes the machine needs CAP_WAKE_ALARM: sudo setcap cap_wake_alarm+ep PROGRAM"
        }
        // EINVAL: a kernel that does not know the clock, or an emulation of one.
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => {
            "this system has no alarms that wake the machine: Linux has, with a real-time clock that can ring"
        }
        _ => return error,
    };
    let kind = match error.kind() {
        io::ErrorKind::InvalidInput => io::ErrorKind::Unsupported,
        kind => kind,
    };
    io::Error::new(kind, text)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use tickless_core::time::Realtime;

    use super::*;

    #[cfg(not(portable_host))]
    fn is_rung(fd: &OwnedFd) -> bool {
        crate::host::sys::descriptors::drain(fd.as_fd())
    }

    /// A machine that is awake shows what the descriptor does: it rings at the time, and not after a clear.
    #[cfg(not(portable_host))]
    #[test]
    fn an_alarm_rings_at_its_time_on_both_clocks() {
        let soon = Duration::from_millis(2);
        let late = Duration::from_secs(3_600);
        match WakeAlarm::<Boottime>::new() {
            Ok(alarm) => {
                alarm.set(Point::now() + late);
                assert!(!is_rung(&alarm.fd));
                let deadline = Point::<Boottime>::now() + soon;
                alarm.set(deadline);
                while !is_rung(&alarm.fd) {
                    std::thread::yield_now();
                }
                assert!(Point::<Boottime>::now() >= deadline);
                alarm.set(Point::from_nanos(i64::MIN));
                while !is_rung(&alarm.fd) {
                    std::thread::yield_now();
                }
                alarm.set(Point::now() + soon);
                alarm.clear();
                std::thread::sleep(2 * soon);
                assert!(!is_rung(&alarm.fd));
            }
            Err(error) => assert_is_explained(&error),
        }
        match WakeAlarm::<Realtime>::new() {
            Ok(alarm) => {
                let deadline = SystemTime::now() + soon;
                alarm.set(deadline);
                while !is_rung(&alarm.fd) {
                    std::thread::yield_now();
                }
                assert!(SystemTime::now() >= deadline);
            }
            Err(error) => assert_is_explained(&error),
        }
    }

    #[cfg(portable_host)]
    #[test]
    fn a_system_without_alarms_says_so() {
        let error = WakeAlarm::<Realtime>::new().expect_err("it has none");
        assert_is_explained(&error);
    }

    fn assert_is_explained(error: &io::Error) {
        assert!(error.to_string().contains("wake"), "{error:?}");
    }

    #[test]
    fn what_is_refused_is_explained() {
        let denied = explained(io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("setcap cap_wake_alarm+ep"));
        for kind in [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput] {
            let absent = explained(kind.into());
            assert_eq!(absent.kind(), io::ErrorKind::Unsupported);
            assert!(absent.to_string().contains("no alarms"));
        }
        let full = explained(io::ErrorKind::OutOfMemory.into());
        assert_eq!(full.kind(), io::ErrorKind::OutOfMemory);
    }
}
