//! The time driver of embassy: its `Timer`, `Ticker` and `with_timeout` wait in the exact queue of the core.
//!
//! At each poll embassy requests a wake-up of a waker, and it never cancels a request. So each waiting waker has one
//! timer here. The timer is moved to the earliest instant that was requested, and is free again after it has fired. A
//! tick of embassy is a nanosecond.
//!
//! The kernel of this repository builds this file too. The module `host` next to this file provides the time and the
//! timers.
//!
//! # Limits
//!
//! At most [`WAITERS`] tasks wait at a time. A further task is woken at once, which embassy allows: the task is polled,
//! and requests its wake-up again.
//!
//! # Ground rules
//!
//! A request (`Wish`) is read and written with interrupts masked, and its timer is started in the same critical
//! section. So the callback that takes the request sees both changes or neither of them.

use core::cell::RefCell;
use core::pin::Pin;
use core::task::Waker;

use critical_section::Mutex;
use embassy_time_driver::{Driver, time_driver_impl};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::time::{Instant, Monotonic};

use super::host;

/// The number of tasks that can wait at a time.
const WAITERS: usize = 16;

type Timer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

/// A wake-up that a task waits for.
struct Wish {
    waker: Waker,
    when: Instant,
}

/// The timer and the requested wake-up of one waiting task.
struct Waiter {
    timer: Timer,
    wish: Mutex<RefCell<Option<Wish>>>,
}

/// Wakes the task of the waiter with the number `N`, if its wake-up is due. This function is the callback of the
/// waiter's timer.
fn fired<const N: usize>(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let now = expired.now();
    let taken = critical_section::with(|section| {
        let mut wish = DRIVER.waiters[N].wish.borrow_ref_mut(section);
        // Another wish may have come since this callback was chosen; its timer is started again then.
        wish.take_if(|wish| wish.when <= now)
    });
    if let Some(wish) = taken {
        wish.waker.wake();
    }
    Restart::No
}

/// Makes one waiter for each number.
macro_rules! waiters {
    ($($number:literal)*) => {
        [$(Waiter {
            timer: HrTimer::new(fired::<$number>),
            wish: Mutex::new(RefCell::new(None)),
        }),*]
    };
}

struct TicklessDriver {
    waiters: [Waiter; WAITERS],
}

time_driver_impl!(static DRIVER: TicklessDriver = TicklessDriver {
    waiters: waiters!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
});

impl TicklessDriver {
    /// Returns the waiter that has `waker`, or a free waiter; `None` if neither exists.
    fn waiter(
        &'static self,
        section: critical_section::CriticalSection<'_>,
        waker: &Waker,
    ) -> Option<&'static Waiter> {
        let mut free = None;
        for waiter in &self.waiters {
            match &*waiter.wish.borrow_ref(section) {
                Some(wish) if wish.waker.will_wake(waker) => return Some(waiter),
                Some(_) => {}
                None => free = free.or(Some(waiter)),
            }
        }
        free
    }
}

impl Driver for TicklessDriver {
    fn now(&self) -> u64 {
        host::now().as_nanos().unsigned_abs()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        // An instant that the clock never shows is none to wait for.
        let when = i64::try_from(at).map_or(Instant::FOREVER, Instant::from_nanos);
        if when == Instant::FOREVER {
            return;
        }
        let has_place = critical_section::with(|section| {
            let Some(waiter) = DRIVER.waiter(section, waker) else {
                return false;
            };
            let mut wish = waiter.wish.borrow_ref_mut(section);
            if wish.as_ref().is_none_or(|wish| when < wish.when) {
                *wish = Some(Wish {
                    waker: waker.clone(),
                    when,
                });
                let _started =
                    Pin::static_ref(&waiter.timer).start(host::timers(), Start::at(when));
            }
            true
        });
        if !has_place {
            waker.wake_by_ref();
        }
    }
}
