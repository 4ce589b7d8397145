//! The interface that the machines need of their host: a clock, and timers with callbacks.

use std::fmt;
use std::pin::Pin;

use tickless::hrtimer::{self, Expired, HrTimer, Monotonic};
use tickless_conformance::{Deferred, Rig, TestTimer};
use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::{Instant, Span};

/// The clock and the timers of a host.
///
/// A host is cheap to clone, and all clones are the same host.
pub trait Host: Clone {
    /// A timer of this host.
    type Timer: Timer;

    /// Returns the time on the monotonic clock.
    fn now(&self) -> Instant;

    /// Makes an idle timer that calls `expired` with the time at which the host found the timer due.
    ///
    /// The callback MUST be called without locks, and never twice at the same time. It MAY run on another thread than
    /// the thread that starts the timer.
    fn timer(&self, setup: Setup, expired: impl FnMut(Instant) + Send + 'static) -> Self::Timer;

    /// Waits until `until` without giving up the processor, for the microseconds that hardware takes. Returns at once
    /// if `until` is over.
    fn wait_until(&self, until: Instant);
}

/// A timer with a callback.
///
/// Dropping the timer cancels it, and waits for a running callback.
pub trait Timer {
    /// Makes the timer fire at `earliest` at the earliest and `slack` later at the latest, whether or not the timer
    /// waited to fire before. If this time is over, the timer fires at once.
    fn start(&self, earliest: Instant, slack: Span);

    /// Cancels the timer. The call MUST NOT wait: a running callback continues.
    fn stop(&self);

    /// Cancels the timer. A callback of the timer MUST NOT be running when this call returns.
    fn cancel(&self);
}

type Function = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

/// The timers of this process.
///
/// The timers fire on the thread that starts them if the thread is a [`Worker`](tickless::Worker), or else on the
/// expiry thread of the library.
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
/// A test chooses with [`Rig::on`] the CPU that executes, and so the CPU on which timers are started.
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

    /// Spends the time until `until` as running code does: no interrupt is delivered meanwhile.
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
