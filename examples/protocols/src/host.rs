//! The interface that the machines need of their host: a clock, and timers with callbacks.

use std::fmt;
use std::pin::Pin;

use tickless::hrtimer::{self, Expired, HrTimer, Monotonic};
use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::{Instant, Span};
use tickless_rig::{Deferred, Rig, TestTimer};

/// A clock and timers.
///
/// Cheap to clone: all clones are the same host.
pub trait Host: Clone {
    /// A timer of this host.
    type Timer: Timer;

    /// The time, on the monotonic clock.
    fn now(&self) -> Instant;

    /// Makes an idle timer that calls `expired` with the time that found it due.
    ///
    /// The callback MUST be called without locks, and never twice at the same time. It MAY run on another thread than
    /// that which starts the timer.
    fn timer(&self, setup: Setup, expired: impl FnMut(Instant) + Send + 'static) -> Self::Timer;

    /// Returns at `until` or later, at once if it is over: for the microseconds that hardware takes, without giving up
    /// the processor.
    fn wait_until(&self, until: Instant);
}

/// A timer with a callback.
///
/// Dropping it cancels it, and waits for a callback that runs.
pub trait Timer {
    /// Makes the timer fire at `earliest` at the earliest and `slack` later at the latest, whether or not it waited to
    /// fire before. At once if that is over.
    fn start(&self, earliest: Instant, slack: Span);

    /// Takes the timer back. MUST NOT wait: a callback that runs goes on.
    fn stop(&self);

    /// Takes the timer back. A callback MUST NOT be running when this returns.
    fn cancel(&self);
}

type Function = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

/// The timers of this process.
///
/// They fire on the thread that starts them if that is a [`Worker`](tickless::Worker), else on the expiry thread
/// of the library.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserSpace;

impl Host for UserSpace {
    type Timer = UserTimer;

    fn now(&self) -> Instant {
        hrtimer::now()
    }

    fn timer(&self, setup: Setup, mut expired: impl FnMut(Instant) + Send + 'static) -> UserTimer {
        let function: Function = Box::new(move |timer| {
            expired(timer.now());
            Restart::No
        });
        UserTimer(Box::pin(HrTimer::with_setup(setup, function)))
    }

    fn wait_until(&self, until: Instant) {
        while self.now() < until {
            std::hint::spin_loop();
        }
    }
}

/// A timer of [`UserSpace`].
pub struct UserTimer(Pin<Box<HrTimer<Function>>>);

impl Timer for UserTimer {
    fn start(&self, earliest: Instant, slack: Span) {
        let _ = self.0.as_ref().start(Start::at(earliest).slack(slack));
    }

    fn stop(&self) {
        // A callback that runs is none of the caller's business.
        let _ = self.0.as_ref().try_cancel();
    }

    fn cancel(&self) {
        self.0.as_ref().cancel();
    }
}

impl fmt::Debug for UserTimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The timers of a rig, in virtual time.
///
/// The test says with [`Rig::on`] which CPU executes, and so where timers are started.
#[derive(Clone, Debug)]
pub struct Simulated(pub Rig<Deferred>);

impl Host for Simulated {
    type Timer = TestTimer<Deferred>;

    fn now(&self) -> Instant {
        self.0.monotonic()
    }

    fn timer(
        &self,
        setup: Setup,
        mut expired: impl FnMut(Instant) + Send + 'static,
    ) -> Self::Timer {
        TestTimer::with_setup(&self.0, setup, move |timer| {
            expired(timer.now());
            Restart::No
        })
    }

    /// Code that runs for so long: nothing is delivered meanwhile.
    fn wait_until(&self, until: Instant) {
        let left = until.saturating_since(self.now()).as_nanos();
        self.0.spend(left.cast_signed());
    }
}

impl Timer for TestTimer<Deferred> {
    fn start(&self, earliest: Instant, slack: Span) {
        TestTimer::start(self, Start::at(earliest).slack(slack));
    }

    fn stop(&self) {
        // As in user space.
        let _ = self.try_cancel();
    }

    fn cancel(&self) {
        TestTimer::cancel(self);
    }
}
