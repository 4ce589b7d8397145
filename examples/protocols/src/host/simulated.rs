//! The rig as a host: virtual time.

use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::{Instant, Span};
use tickless_rig::{Rig, TestTimer};

use super::{Host, Timer};

/// The timers of a rig.
///
/// The test says with [`Rig::on`] which CPU executes, and so where timers are started.
#[derive(Debug)]
pub struct Simulated<H: tickless_rig::Host> {
    rig: Rig<H>,
}

impl<H: tickless_rig::Host> Simulated<H> {
    /// `rig` as a host.
    #[must_use]
    pub fn new(rig: &Rig<H>) -> Self {
        Self { rig: rig.clone() }
    }
}

impl<H: tickless_rig::Host> Clone for Simulated<H> {
    fn clone(&self) -> Self {
        Self::new(&self.rig)
    }
}

impl<H: tickless_rig::Host> Host for Simulated<H> {
    type Timer = TestTimer<H>;

    fn now(&self) -> Instant {
        self.rig.monotonic()
    }

    fn timer(
        &self,
        setup: Setup,
        mut expired: impl FnMut(Instant) + Send + 'static,
    ) -> TestTimer<H> {
        TestTimer::with_setup(&self.rig, setup, move |timer| {
            expired(timer.now());
            Restart::No
        })
    }

    /// Code that runs for so long: nothing is delivered meanwhile.
    fn wait_until(&self, until: Instant) {
        let left = until.saturating_since(self.now()).as_nanos();
        self.rig.spend(left.cast_signed());
    }
}

impl<H: tickless_rig::Host> Timer for TestTimer<H> {
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
