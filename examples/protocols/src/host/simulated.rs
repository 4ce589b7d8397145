//! A machine of the simulator as a host: virtual time.

use tickless_core::hrtimer::{Restart, Setup, Start};
use tickless_core::time::{Instant, Span};
use tickless_rig::{Config, Machine, TestTimer};

use super::{Host, Timer};

/// The timers of a virtual machine.
///
/// The caller that drives the machine says with [`Machine::on`] which CPU executes, and so where timers are started.
#[derive(Debug)]
pub struct Simulated<C: Config> {
    machine: Machine<C>,
}

impl<C: Config> Simulated<C> {
    /// `machine` as a host.
    #[must_use]
    pub fn new(machine: &Machine<C>) -> Self {
        Self {
            machine: machine.clone(),
        }
    }
}

impl<C: Config> Clone for Simulated<C> {
    fn clone(&self) -> Self {
        Self::new(&self.machine)
    }
}

impl<C: Config> Host for Simulated<C> {
    type Timer = TestTimer<C>;

    fn now(&self) -> Instant {
        self.machine.monotonic()
    }

    fn timer(
        &self,
        setup: Setup,
        mut expired: impl FnMut(Instant) + Send + 'static,
    ) -> TestTimer<C> {
        TestTimer::with_setup(&self.machine, setup, move |timer| {
            expired(timer.now());
            Restart::No
        })
    }

    /// Code that runs for so long: nothing is delivered meanwhile.
    fn wait_until(&self, until: Instant) {
        let left = until.saturating_since(self.now()).as_nanos();
        self.machine.spend(left.cast_signed());
    }
}

impl<C: Config> Timer for TestTimer<C> {
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
