//! Timers on the heap that belong to a host, and are dropped before it.
//!
//! An [`Exact`] and a [`Coarse`] hold the timers of a [`Keeper`], a platform that one thread drives. A timer that is
//! dropped removes itself from its queue. Callbacks that hold data of one thread are passed as *scripts*, which a
//! [`Call`] looks up.

use alloc::rc::Rc;
use core::fmt;
use core::pin::Pin;

use tickless_core::Platform;
use tickless_core::base::Timers;
use tickless_core::coarse::{Timeout, WheelKind, WheelTimer};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage};
use tickless_core::time::{ClockId, Monotonic};

use crate::call::Call;
use crate::prelude::*;

/// A platform to which timers belong.
pub trait Keeper: Platform {
    /// Executes `end`, which dequeues a timer that is dropped, in the host's context.
    fn end_timer(&self, end: impl FnOnce()) {
        end();
    }

    /// Notes that `timer` was dequeued and is about to be freed, so that another timer may get its address.
    fn forget<T>(&self, timer: &T) {
        let _ = timer;
    }
}

/// The callback of a [`Coarse`], without its type.
pub type CoarseCall = Box<dyn FnMut(&mut Timeout) -> Restart + Send>;
/// The callback of an [`Exact`], without its type.
pub type ExactCall<C> = Box<dyn FnMut(&mut Expired<'_, '_, C>) -> Restart + Send>;

/// A coarse timer of the host `P`.
pub struct Coarse<P, F = CoarseCall>
where
    P: Keeper,
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    timers: Rc<Timers<P>>,
    timer: Pin<Box<WheelTimer<F>>>,
}

impl<P: Keeper> Coarse<P> {
    /// Makes a timer with its own callback.
    pub fn new(
        timers: &Rc<Timers<P>>,
        kind: WheelKind,
        call: impl FnMut(&mut Timeout) -> Restart + Send + 'static,
    ) -> Self {
        Self::with(timers, kind, Box::new(call))
    }

    /// Makes a timer as [`new`](Self::new) does, with a callback that may hold data of this thread.
    pub fn scripted<S>(timers: &Rc<Timers<P>>, kind: WheelKind, script: S) -> Self
    where
        S: FnMut(&mut Timeout) -> Restart + 'static,
    {
        let call = Call::new(script);
        Self::new(timers, kind, move |timeout| {
            call.run(|script: &mut S| script(timeout))
                .unwrap_or(Restart::No)
        })
    }
}

impl<P, F> Coarse<P, F>
where
    P: Keeper,
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    /// Makes one of many timers with the same callback, which is stored in the timer.
    pub fn with(timers: &Rc<Timers<P>>, kind: WheelKind, call: F) -> Self {
        Self {
            timers: Rc::clone(timers),
            timer: Box::pin(WheelTimer::new(kind, call)),
        }
    }

    /// Returns the timer subsystem of the host.
    #[must_use]
    pub fn timers(&self) -> &Timers<P> {
        &self.timers
    }

    /// Returns the timer, for the operations of [`Timers`].
    #[must_use]
    pub fn pinned(&self) -> Pin<&WheelTimer<F>> {
        self.timer.as_ref()
    }

    /// Returns true if the timer is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }
}

impl<P, F> Drop for Coarse<P, F>
where
    P: Keeper,
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    fn drop(&mut self) {
        let host = self.timers.platform();
        host.end_timer(|| {
            self.timer.as_ref().shutdown_sync(&self.timers);
        });
        host.forget(&*self.timer);
    }
}

impl<P, F> fmt::Debug for Coarse<P, F>
where
    P: Keeper,
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}

/// An exact timer of the host `P`, on the clock `C`.
pub struct Exact<P: Keeper, C: ClockId = Monotonic> {
    timers: Rc<Timers<P>>,
    timer: Pin<Box<HrTimer<ExactCall<C>, C>>>,
}

impl<P: Keeper, C: ClockId> Exact<P, C> {
    /// Makes a timer of the hard stage.
    pub fn new(
        timers: &Rc<Timers<P>>,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Self {
        Self::with_setup(timers, Setup::new().stage(Stage::Hard), call)
    }

    /// Makes a timer of the hard stage with a callback that may hold data of this thread.
    pub fn scripted<S>(timers: &Rc<Timers<P>>, script: S) -> Self
    where
        S: FnMut(&mut Expired<'_, '_, C>) -> Restart + 'static,
    {
        Self::scripted_with_setup(timers, Setup::new().stage(Stage::Hard), script)
    }

    /// Makes a timer as [`scripted`](Self::scripted) does, with `setup`.
    pub fn scripted_with_setup<S>(timers: &Rc<Timers<P>>, setup: Setup, script: S) -> Self
    where
        S: FnMut(&mut Expired<'_, '_, C>) -> Restart + 'static,
    {
        let call = Call::new(script);
        Self::with_setup(timers, setup, move |expired| {
            call.run(|script: &mut S| script(expired))
                .unwrap_or(Restart::No)
        })
    }

    /// Makes a timer with `setup`.
    pub fn with_setup(
        timers: &Rc<Timers<P>>,
        setup: Setup,
        call: impl FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    ) -> Self {
        let call: ExactCall<C> = Box::new(call);
        Self {
            timers: Rc::clone(timers),
            timer: Box::pin(HrTimer::with_setup(setup, false, call)),
        }
    }

    /// Returns the timer subsystem of the host.
    #[must_use]
    pub fn timers(&self) -> &Timers<P> {
        &self.timers
    }

    /// Returns the timer, for the operations of [`Timers`].
    #[must_use]
    pub fn pinned(&self) -> Pin<&HrTimer<ExactCall<C>, C>> {
        self.timer.as_ref()
    }
}

impl<P: Keeper, C: ClockId> Drop for Exact<P, C> {
    fn drop(&mut self) {
        let host = self.timers.platform();
        host.end_timer(|| {
            self.timer.as_ref().cancel(&self.timers);
        });
        host.forget(&*self.timer);
    }
}

impl<P: Keeper, C: ClockId> fmt::Debug for Exact<P, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}
