//! The slice timer as an exact timer of the core.

use core::fmt;
use core::pin::Pin;

use tickless_core::base::Timers;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::platform::{CpuId, Platform};
use tickless_core::time::{Instant, Monotonic};

use super::SliceTimer;

/// The host's part of a slice timer, besides its timers.
pub trait CoreHost {
    /// Makes `cpu` call [`HrTick::kicked`](super::HrTick::kicked) soon, with its run queue locked.
    fn kick(&self, cpu: CpuId);

    /// Executes `work` with timer delivery to the executing CPU masked.
    ///
    /// By default just executes it: for hosts whose timer handlers cannot come between.
    fn masked(&self, work: impl FnOnce()) {
        work();
    }
}

/// A [`SliceTimer`] that is an [`HrTimer`] on one CPU of a host.
///
/// The timer MUST have been made with [`SETUP`]. Its callback locks the run queue and calls
/// [`HrTick::fired`](super::HrTick::fired).
pub struct CoreTimer<'a, P: Platform, F, H>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart,
{
    timers: &'a Timers<P>,
    timer: Pin<&'a HrTimer<F>>,
    cpu: CpuId,
    host: H,
}

/// The settings of the timer: hard and lazy (TICK-1).
pub const SETUP: Setup = Setup::new().stage(Stage::Hard).lazy();

impl<'a, P, F, H> CoreTimer<'a, P, F, H>
where
    P: Platform,
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    H: CoreHost,
{
    /// Makes the timer of the run queue of `cpu`.
    pub const fn new(
        timers: &'a Timers<P>,
        timer: Pin<&'a HrTimer<F>>,
        cpu: CpuId,
        host: H,
    ) -> Self {
        Self {
            timers,
            timer,
            cpu,
            host,
        }
    }
}

impl<P, F, H> SliceTimer for CoreTimer<'_, P, F, H>
where
    P: Platform,
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    H: CoreHost,
{
    fn now(&self) -> Instant {
        self.timers.now()
    }

    fn queued(&self) -> Option<Instant> {
        self.timer.deadline(self.timers)
    }

    fn is_active(&self) -> bool {
        self.timer.is_active()
    }

    fn start(&self, at: Instant) {
        let _ = self.timer.start(self.timers, Start::at(at).pinned());
    }

    fn cancel(&self) {
        // A callback that runs is not waited for: it finds out under the lock of the run queue.
        let _outcome = self.timer.try_cancel(self.timers);
    }

    fn is_local(&self) -> bool {
        let here = self.timers.platform().this_cpu();
        here.is_some_and(|here| here.base.cpu() == self.cpu)
    }

    fn kick(&self) {
        self.host.kick(self.cpu);
    }

    fn fires(&self) -> Option<Instant> {
        let armed = self.timers.platform().this_cpu()?.base.armed();
        (!armed.is_forever()).then_some(armed)
    }

    fn settle(&self) {
        let _armed = self.timers.settle_armed(self.cpu);
    }

    fn flush(&self, place: Flush) {
        let flush = || self.timers.flush_deferred(self.cpu, place);
        if place == Flush::SliceExtension {
            self.host.masked(flush);
        } else {
            flush();
        }
    }
}

impl<P: Platform, F, H> fmt::Debug for CoreTimer<'_, P, F, H>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CoreTimer")
            .field("timer", &*self.timer)
            .field("cpu", &self.cpu)
            .finish_non_exhaustive()
    }
}
