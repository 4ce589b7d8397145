//! Exact timers that call a closure; [`time`](crate::time) has the same timers as futures.
//!
//! The methods are those of the coarse timers in [`wheel`](crate::wheel): [`start`](HrTimer::start),
//! [`start_if_earlier`](HrTimer::start_if_earlier), [`cancel`](HrTimer::cancel), [`try_cancel`](HrTimer::try_cancel)
//! and [`shutdown`](HrTimer::shutdown). The time at which a timer fires is given as a [`Duration`](std::time::Duration)
//! from now, as an [`Instant`](crate::time::Instant), or as a [`Start`], which also selects the clock, the slack and
//! whether the timer is pinned.

use std::fmt;
use std::pin::Pin;

use pin_project_lite::pin_project;
pub use tickless_core::base::TryCancel;
use tickless_core::hrtimer as core;
pub use tickless_core::hrtimer::{
    Expired, Restart, Setup, ShutDown, Stage, Start, StartError, StartOutcome,
};
pub use tickless_core::time::{
    Boottime, Clock, ClockId, Instant, Monotonic, Realtime, RelativeClock, Span, Tai,
};

use super::own_clock::by_own_clock;
use crate::host::registry::{self, timers};
use crate::host::{thread, wake};

pin_project! {
    /// A timer that calls a closure, on the clock `C`.
    ///
    /// The timer is pinned wherever you put it (`Box::pin`, a field of a pinned structure, a static), and takes 80
    /// bytes plus the closure. The closure is called without any lock, never twice at the same time. It runs on the
    /// thread that started the timer if that thread is a [`Worker`](crate::Worker) or drives an event loop, and on the
    /// library's expiry thread otherwise. On the expiry thread the closure should be short, because it delays other
    /// timers.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::hrtimer::{HrTimer, Restart, Span, StartOutcome};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let timer = pin!(HrTimer::new(move |expired| {
    ///     let missed = expired.forward_now(Span::from_micros(200)) - 1;
    ///     match sender.send(missed) {
    ///         Ok(()) => Restart::Yes,
    ///         Err(_) => Restart::No,
    ///     }
    /// }));
    /// let outcome = timer.as_ref().start(Duration::from_micros(200));
    /// assert_eq!(outcome, StartOutcome::Started);
    /// for _ in 0..3 {
    ///     receiver.recv()?;
    /// }
    /// timer.as_ref().cancel();
    /// # Ok::<(), mpsc::RecvError>(())
    /// ```
    ///
    /// # Paused clocks
    ///
    /// A timer that is started on a thread whose clock is [paused](crate::time::pause), or was paused before, uses that
    /// clock until the clock's runtime ends. The thread that moves the clock calls the closure, at the timer's own time
    /// to the nanosecond, before an [`advance`](crate::time::advance) past that time ends. Timers for the same time
    /// fire in the order of their starts. The order between timers and sleeps for the same nanosecond is not defined. A
    /// timer that was started before the pause stays on the process's clock until it is started again.
    ///
    /// In a runtime of tokio whose clock is paused, with the feature `tokio`, a task of the runtime calls the closure,
    /// in the millisecond of tokio's clock in which a sleep for that time ends. `tokio::time::advance` moves the clock
    /// at once, so that the closure reads the time at the end of the advance. This library's `advance` ends after the
    /// closure has been called.
    ///
    /// # Panics in the closure
    ///
    /// A panic in the closure is caught, is counted in [`Stats::panics`](crate::Stats::panics), and stops this timer
    /// and no other.
    ///
    /// # The end of the thread
    ///
    /// A thread that ends while the expiry thread executes the closure of one of its timers waits for the closure, so
    /// the closure must not wait for the thread. The expiry thread takes over the timers that are still queued then.
    ///
    /// # Dropping
    ///
    /// A drop cancels the timer and waits for a callback that runs on another thread. A drop by the timer's own
    /// callback would free the closure that is executing, and ends the process. [`Restart::NoThenWake`] wakes a task
    /// that may drop the timer.
    #[project(!Unpin)]
    pub struct HrTimer<F, C = Monotonic>
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
        F: Send,
        F: 'static,
        C: ClockId,
    {
        #[pin]
        timer: core::HrTimer<F, C>,
    }

    impl<F, C> PinnedDrop for HrTimer<F, C>
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
        F: Send,
        F: 'static,
        C: ClockId,
    {
        fn drop(this: Pin<&mut Self>) {
            let timer = this.project().timer.into_ref();
            if timer.is_active() {
                if timer.is_own_callback(timers()) {
                    tickless_link::abort("a timer was dropped by its own callback, which still executes");
                }
                cancel_on_any_thread(timer.timer_ref());
            }
        }
    }
}

impl<F> HrTimer<F>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
{
    /// Makes an idle timer on the monotonic clock.
    #[must_use]
    pub const fn new(function: F) -> Self {
        Self {
            timer: core::HrTimer::with_setup(Setup::new().leaving_early(), false, function),
        }
    }
}

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    /// Makes an idle timer on any clock, whose closure runs in the hard or the soft stage of an expiry.
    ///
    /// ```
    /// use tickless::hrtimer::{HrTimer, Realtime, Restart, Setup, Span, Stage};
    ///
    /// let setup = Setup::new().stage(Stage::Soft);
    /// let timer = HrTimer::<_, Realtime>::with_setup(setup, |expired| {
    ///     expired.forward_now(Span::from_secs(1));
    ///     Restart::Yes
    /// });
    /// ```
    #[must_use]
    pub const fn with_setup(setup: Setup, function: F) -> Self {
        // Threads settle what is armed before they sleep.
        Self {
            timer: core::HrTimer::with_setup(setup.leaving_early(), false, function),
        }
    }

    #[inline]
    fn timer(self: Pin<&Self>) -> Pin<&core::HrTimer<F, C>> {
        self.project_ref().timer
    }

    /// Starts the timer, or restarts it if it is queued. Returns which of the two happened.
    ///
    /// A timer that was [shut down](Self::shutdown) is not started: the result is [`StartOutcome::ShutDown`]. On a
    /// clock that can be set, the first start makes the library watch for sets of the clock.
    ///
    /// # Cost
    ///
    /// The start takes the lock of the thread's own base. It is O(1) while the timer is more than two milliseconds
    /// away, on the monotonic clock and in the hard stage; otherwise it is O(log n) in the number of the thread's
    /// timers that are not so far away. Pushing a timer out is one store.
    #[inline]
    pub fn start(self: Pin<&Self>, when: impl Into<Start<C>>) -> StartOutcome {
        Self::watch_clock();
        let (timer, start) = (self.timer().timer_ref(), when.into());
        match start.exact_instant() {
            Some(instant) => start_exactly::<C, false>(timer, instant),
            None => start_on_this_thread(timer, start),
        }
    }

    /// Starts the timer at an instant, without slack and [pinned](Start::pinned). The method skips the tests with which
    /// [`start`](Self::start) finds out the type of its argument.
    #[inline]
    pub fn start_pinned(self: Pin<&Self>, instant: Instant<C>) -> StartOutcome {
        Self::watch_clock();
        start_exactly::<C, true>(self.timer().timer_ref(), instant)
    }

    /// Starts the timer as [`start`](Self::start) does, unless the timer is queued to fire at that time or earlier. In
    /// that case the result is [`StartOutcome::Unchanged`].
    pub fn start_if_earlier(self: Pin<&Self>, when: impl Into<Start<C>>) -> StartOutcome {
        Self::watch_clock();
        let (timer, start) = (self.timer().timer_ref(), when.into());
        by_own_clock(|| timer.start_if_earlier(timers(), start))
    }

    /// Starts the timer unless its deadline has passed. The method is meant for deadlines that come from outside the
    /// program, so that a wrong deadline costs no turn. Returns [`StartOutcome::Started`] or
    /// [`StartOutcome::Restarted`].
    ///
    /// A deadline that has passed may be accepted while other timers of the thread are due or being fired. In that case
    /// the closure is called in the same turn.
    ///
    /// # Errors
    ///
    /// [`StartError::AlreadyExpired`] when the deadline has passed: the timer is not queued, even if it was before, and
    /// its closure will not be called. [`StartError::ShutDown`] when the timer was [shut down](Self::shutdown),
    /// whatever the deadline is.
    pub fn start_checked(
        self: Pin<&Self>,
        when: impl Into<Start<C>>,
    ) -> Result<StartOutcome, StartError> {
        Self::watch_clock();
        let start = when.into();
        by_own_clock(|| self.timer().start_checked(timers(), start))
    }

    /// Cancels the timer, unless its closure is running. Never waits.
    pub fn try_cancel(self: Pin<&Self>) -> TryCancel {
        self.timer().timer_ref().try_cancel(timers())
    }

    /// Cancels the timer and waits until its closure is not running. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// When called from the closure itself, which would wait for itself; use [`try_cancel`](Self::try_cancel) there.
    #[inline]
    pub fn cancel(self: Pin<&Self>) -> bool {
        cancel_on_any_thread(self.timer().timer_ref())
    }

    /// Cancels the timer for good: no later start has an effect, not even one by its running closure. Waits until the
    /// closure is not running. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// When called from the closure itself, like [`cancel`](Self::cancel).
    pub fn shutdown(self: Pin<&Self>) -> bool {
        self.timer().shutdown(timers())
    }

    /// Returns true if the timer was [shut down](Self::shutdown). Lock-free.
    #[must_use]
    pub fn is_shut_down(self: Pin<&Self>) -> bool {
        self.timer().state().is_shut()
    }

    /// Returns true if the timer is queued or its closure is running. Lock-free.
    #[must_use]
    pub fn is_active(self: Pin<&Self>) -> bool {
        self.timer().is_active()
    }

    /// Returns the deadline of the timer if it is queued, and `None` otherwise.
    #[must_use]
    pub fn deadline(self: Pin<&Self>) -> Option<Instant<C>> {
        self.timer().deadline(timers())
    }

    #[inline]
    fn watch_clock() {
        if C::CLOCK != Clock::Monotonic {
            registry::watch_clocks();
        }
    }
}

impl<F, C> fmt::Debug for HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}

/// Starts the timer of any closure. The function is compiled once for all closures, and is not inlined into the caller.
#[inline(never)]
fn start_on_this_thread<C: ClockId>(timer: core::TimerRef<'_, C>, start: Start<C>) -> StartOutcome {
    by_own_clock(|| timer.start(timers(), start))
}

/// Starts a timer as [`start_on_this_thread`] does, for the common starts whose arguments fit into registers.
#[inline]
fn start_exactly<C: ClockId, const PINNED: bool>(
    timer: core::TimerRef<'_, C>,
    instant: Instant<C>,
) -> StartOutcome {
    if timer.is_fresh() {
        start_idle::<C, PINNED>(timer, instant)
    } else {
        start_again::<C, PINNED>(timer, instant)
    }
}

// What is rare is a call at the end of each, so that no register is saved for it.

/// Starts a timer that seems to be idle.
#[inline(never)]
fn start_idle<C: ClockId, const PINNED: bool>(
    timer: core::TimerRef<'_, C>,
    instant: Instant<C>,
) -> StartOutcome {
    if let Some(timers) = registry::try_timers_fast()
        && wake::may_start_callback()
        && timer.start_far(timers, instant, PINNED)
    {
        return StartOutcome::Started;
    }
    start_slow::<C, PINNED>(timer, instant)
}

/// Starts a timer that seems to be queued.
#[inline(never)]
fn start_again<C: ClockId, const PINNED: bool>(
    timer: core::TimerRef<'_, C>,
    instant: Instant<C>,
) -> StartOutcome {
    if let Some(timers) = registry::try_timers_fast()
        && wake::may_start_callback()
        && timer.push_out(timers, instant, PINNED)
    {
        return StartOutcome::Restarted;
    }
    start_slow::<C, PINNED>(timer, instant)
}

#[inline(never)]
fn start_slow<C: ClockId, const PINNED: bool>(
    timer: core::TimerRef<'_, C>,
    instant: Instant<C>,
) -> StartOutcome {
    by_own_clock(|| timer.start_at(timers(), instant, PINNED))
}

#[inline(never)]
fn cancel_on_any_thread<C: ClockId>(timer: core::TimerRef<'_, C>) -> bool {
    if let Some(timers) = registry::try_timers_fast()
        && timer.cancel_far(timers)
    {
        return true;
    }
    cancel_slow(timer)
}

#[inline(never)]
fn cancel_slow<C: ClockId>(timer: core::TimerRef<'_, C>) -> bool {
    timer.cancel(timers())
}

/// Makes the start of a timer at this point of the monotonic clock.
impl From<crate::time::Instant> for Start {
    #[inline]
    fn from(deadline: crate::time::Instant) -> Self {
        Self::at(deadline.to_core())
    }
}

/// Returns the present time of the clock `C`, in the type that starts timers.
///
/// Of the monotonic clock this is the time that [`time::Instant::now`](crate::time::Instant::now) returns: it never
/// runs backwards, on one thread or between threads that synchronise. Of the other clocks it is the kernel's time; on a
/// thread whose clock is [paused](crate::time::pause), it follows the paused clock.
#[must_use]
pub fn now<C: ClockId>() -> Instant<C> {
    if C::CLOCK == Clock::Monotonic {
        return Instant::from_nanos(thread::now().as_nanos());
    }
    registry::shown()
}
