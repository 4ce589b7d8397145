//! The process as a host: threads, the system's clock, `tickless::hrtimer`.

use std::fmt;
use std::pin::Pin;

use tickless::hrtimer::{self, Expired, HrTimer, Instant, Monotonic, Restart, Setup, Span, Start};

use super::{Host, Timer};

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
        UserTimer {
            timer: Box::pin(HrTimer::with_setup(setup, function)),
        }
    }

    fn wait_until(&self, until: Instant) {
        while self.now() < until {
            std::hint::spin_loop();
        }
    }
}

/// A timer of [`UserSpace`].
pub struct UserTimer {
    timer: Pin<Box<HrTimer<Function>>>,
}

impl Timer for UserTimer {
    fn start(&self, earliest: Instant, slack: Span) {
        let _ = self.timer.as_ref().start(Start::at(earliest).slack(slack));
    }

    fn stop(&self) {
        // A callback that runs is none of the caller's business.
        let _ = self.timer.as_ref().try_cancel();
    }

    fn cancel(&self) {
        self.timer.as_ref().cancel();
    }
}

impl fmt::Debug for UserTimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}
