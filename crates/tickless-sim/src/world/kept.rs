//! Timers that belong to a world, and end with it.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start, Timers};
use tickless_core::time::{ClockId, Monotonic};
use tickless_core::wheel::{Kind, Rearm, Timeout, WheelTimer};

use super::host::Host;
use super::meter;
use crate::call::Call;

/// What a coarse timer does, whatever that is.
pub(crate) type CoarseCall = Box<dyn FnMut(&Timeout) -> Rearm + Send>;
type ExactCall<C> = Box<dyn FnMut(&mut Expired<'_, '_, C>) -> Restart + Send>;

/// A coarse timer.
pub(crate) struct Coarse<F = CoarseCall>
where
    F: FnMut(&Timeout) -> Rearm + Send + 'static,
{
    timers: Rc<Timers<Host>>,
    timer: Pin<Box<WheelTimer<F>>>,
}

impl Coarse {
    /// One that may do something else than others of its kind.
    pub(crate) fn new(
        timers: &Rc<Timers<Host>>,
        kind: Kind,
        call: impl FnMut(&Timeout) -> Rearm + Send + 'static,
    ) -> Self {
        Self::with(timers, kind, Box::new(call))
    }
}

impl Coarse {
    /// As [`new`](Self::new), with a callback that knows what belongs to this thread.
    pub(crate) fn scripted<S>(timers: &Rc<Timers<Host>>, kind: Kind, script: S) -> Self
    where
        S: FnMut(&Timeout) -> Rearm + 'static,
    {
        let call = Call::new(script);
        Self::new(timers, kind, move |timeout| {
            call.run(|script: &mut S| script(timeout))
                .unwrap_or(Rearm::No)
        })
    }
}

impl<F: FnMut(&Timeout) -> Rearm + Send + 'static> Coarse<F> {
    /// One of many that all do `call`, which lies in the timer.
    pub(crate) fn with(timers: &Rc<Timers<Host>>, kind: Kind, call: F) -> Self {
        Self {
            timers: Rc::clone(timers),
            timer: Box::pin(WheelTimer::new(kind, call)),
        }
    }

    pub(crate) fn pinned(&self) -> Pin<&WheelTimer<F>> {
        self.timer.as_ref()
    }

    /// Whether it is queued.
    #[must_use]
    pub(crate) fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }
}

impl<F: FnMut(&Timeout) -> Rearm + Send + 'static> Drop for Coarse<F> {
    fn drop(&mut self) {
        meter::looking(|| self.timers.shutdown_sync(self.timer.as_ref()));
        self.timers.platform().forget(&*self.timer);
    }
}

impl<F: FnMut(&Timeout) -> Rearm + Send + 'static> fmt::Debug for Coarse<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}

/// An exact timer of the hard stage, on the clock `C`.
pub(crate) struct Exact<C: ClockId = Monotonic> {
    timers: Rc<Timers<Host>>,
    timer: Pin<Box<HrTimer<ExactCall<C>, C>>>,
}

impl<C: ClockId> Exact<C> {
    pub(crate) fn new(
        timers: &Rc<Timers<Host>>,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Self {
        Self::with_setup(timers, Setup::new().stage(Stage::Hard), call)
    }

    /// As [`new`](Self::new), with a callback that knows what belongs to this thread.
    pub(crate) fn scripted<S>(timers: &Rc<Timers<Host>>, script: S) -> Self
    where
        S: FnMut(&mut Expired<'_, '_, C>) -> Restart + 'static,
    {
        let call = Call::new(script);
        Self::new(timers, move |expired| {
            call.run(|script: &mut S| script(expired))
                .unwrap_or(Restart::No)
        })
    }

    pub(crate) fn with_setup(
        timers: &Rc<Timers<Host>>,
        setup: Setup,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Self {
        Self {
            timers: Rc::clone(timers),
            timer: Box::pin(HrTimer::with_setup(
                setup,
                false,
                Box::new(call) as ExactCall<C>,
            )),
        }
    }

    pub(crate) fn pinned(&self) -> Pin<&HrTimer<ExactCall<C>, C>> {
        self.timer.as_ref()
    }

    pub(crate) fn start(&self, start: Start<C>) {
        let rearm = self.timers.platform().rearm;
        meter::start(|| {
            rearm.before_start(&self.timers, self.pinned());
            self.timers.start(self.pinned(), start.pinned());
        });
    }

    /// Whoever takes a timer away from another CPU does not tell that: its device may fire for nothing, once (spec
    /// CAN-2).
    pub(crate) fn may_leave_armed(&self) {
        let from = meter::looking(|| self.timers.cpu_of(self.pinned()));
        if let Some(from) = from.filter(|from| from.0 != meter::cpu()) {
            let site = self.timers.platform().site(from.0);
            site.trouble.is_left_armed.set(true);
        }
    }

    pub(crate) fn cancel(&self) {
        let _was = self.timers.try_cancel(self.pinned());
    }
}

impl<C: ClockId> Drop for Exact<C> {
    fn drop(&mut self) {
        meter::looking(|| self.timers.cancel(self.timer.as_ref()));
        self.timers.platform().forget(&*self.timer);
    }
}

impl<C: ClockId> fmt::Debug for Exact<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}
