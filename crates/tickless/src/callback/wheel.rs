//! Coarse timers that call a closure; [`coarse`](crate::coarse) has the same timers as futures.
//!
//! A timer of the wheel is started for a time, and fires at the end of the slot that contains that time: never early,
//! and at most [late by about an eighth of the duration](crate::coarse#how-late). All operations are O(1) whatever else
//! is pending. The methods are those of the exact timers in [`hrtimer`](crate::hrtimer): [`start`](WheelTimer::start),
//! [`start_if_earlier`](WheelTimer::start_if_earlier), [`cancel`](WheelTimer::cancel),
//! [`try_cancel`](WheelTimer::try_cancel) and [`shutdown`](WheelTimer::shutdown).
//!
//! Time is counted in [ticks](Tick) of [`TICK`], from the beginning of the monotonic clock. The time at which a timer
//! fires is given as a [`Duration`] from now, as an [`Instant`], or as a [`Tick`] that has to end before. Each of these
//! converts to an [`Expiry`].
//!
//! # Kinds
//!
//! A *global* timer is queued on the thread that starts it. A *local* timer stays on the thread that started it first,
//! whichever thread restarts it. A *deferrable* timer wakes no thread: it fires when its thread, or the library's
//! expiry thread on its behalf, is awake for another reason.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use pin_project_lite::pin_project;
pub use tickless_core::base::TryCancel;
use tickless_core::coarse as core;
pub use tickless_core::coarse::{Restart, ShutDown, StartOutcome, Tick, Timeout, WheelKind};
pub use tickless_core::platform::CpuId;
use tickless_core::time::Span;
use tickless_core::wheel::rounding;
pub use tickless_core::wheel::rounding::Rounding;

use super::own_clock::by_own_clock;
use crate::host::registry::{self, base, timers};
use crate::host::remote::publish::{publish_earlier, publish_first};
use crate::host::thread::{Thread, shown_now_lower, shown_now_upper, with_thread};
use crate::host::tick::{self, tick_of};
use crate::host::{device, wake};
use crate::time::Instant;

/// The length of a tick.
pub const TICK: Duration = Duration::from_nanos(tick::TICK);

/// Returns the tick in progress.
#[must_use]
pub fn now() -> Tick {
    tick_of(shown_now_lower())
}

/// Converts `duration` to ticks, rounded up, for [`Timeout::set_expiry_after`].
#[must_use]
pub fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX)
}

/// The earliest time at which a timer fires, made from a duration, an instant or a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(Tick);

/// The number of ticks in a second.
const PER_SECOND: u64 = 1_000_000_000 / tick::TICK;

impl Expiry {
    /// Rounds to a whole second of the monotonic clock, so that timers started at different times fire together. If the
    /// result would not be in the future, the time stays unchanged.
    ///
    /// With [`Rounding::Up`] the result is the next second, and never earlier than requested. With
    /// [`Rounding::Nearest`] it is the second that began less than a quarter of a second before, or else the next one,
    /// so the timer may be early.
    ///
    /// Use this rounding for timers of a few seconds. A timer that is farther away waits until the end of a slot longer
    /// than a second, which it shares with other timers in any case.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use tickless::wheel::{Expiry, Restart, Rounding, Tick, WheelTimer, now, ticks};
    ///
    /// let heartbeat = pin!(WheelTimer::new(|_| Restart::No));
    /// let asked = Tick(now().0 + ticks(Duration::from_millis(2_300)));
    /// let _ = heartbeat.as_ref().start(Expiry::from(asked).to_second(Rounding::Up));
    /// let second = heartbeat.as_ref().expiry();
    /// assert_eq!(second.0 % 1_000, 0);
    /// assert!(second >= asked && second.0 < asked.0 + 1_000);
    ///
    /// let just_behind = Tick(now().0 / 1_000 * 1_000 + 5_100);
    /// let nearest = Expiry::from(just_behind).to_second(Rounding::Nearest);
    /// assert_eq!(nearest, Tick(just_behind.0 - 100).into());
    /// ```
    #[must_use]
    pub fn to_second(self, rounding: Rounding) -> Self {
        // The same seconds on all threads: most are served by one, and each worker has few.
        let rounded = rounding::to_second(self.0, now(), CpuId(0), PER_SECOND, rounding);
        Self(rounded)
    }
}

/// Converts a tick to the expiry at its end.
impl From<Tick> for Expiry {
    #[inline]
    fn from(tick: Tick) -> Self {
        Self(tick)
    }
}

impl From<Instant> for Expiry {
    #[inline]
    fn from(deadline: Instant) -> Self {
        Self::from(tick_of(deadline.to_core()))
    }
}

/// Converts a duration to an expiry that long from now.
impl From<Duration> for Expiry {
    #[inline]
    fn from(duration: Duration) -> Self {
        Self(tick_of(
            shown_now_upper().saturating_add(Span::from(duration)),
        ))
    }
}

pin_project! {
    /// A coarse timer that calls a closure.
    ///
    /// The timer is pinned wherever you put it (`Box::pin`, a field of a pinned structure, a static), and takes 48
    /// bytes plus the closure. The closure is called without any lock, never twice at the same time. It runs on the
    /// thread that started the timer if that thread is a [`Worker`](crate::Worker) or drives an event loop, and on the
    /// library's expiry thread otherwise. On the expiry thread the closure should be short, because it delays other
    /// timers.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::wheel::{Restart, WheelTimer};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let idle = pin!(WheelTimer::new(move |timeout| {
    ///     sender.send(timeout.expiry).expect("the receiver is below");
    ///     Restart::No
    /// }));
    /// // Whenever a packet comes:
    /// for _ in 0..1000 {
    ///     let _ = idle.as_ref().start(Duration::from_millis(5));
    /// }
    /// let last = idle.as_ref().expiry();
    /// assert_eq!(receiver.recv()?, last);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Paused clocks
    ///
    /// A paused clock acts on this timer as on an [`HrTimer`](crate::hrtimer::HrTimer#paused-clocks), but the timer
    /// fires at the end of the slot that contains its time. A start of a [local](WheelKind::Local) timer panics. A
    /// timer that is already queued when the clock is paused stays on the process's clock until it has fired or was
    /// cancelled.
    ///
    /// # Panics in the closure
    ///
    /// A panic in the closure is caught, is counted in [`Stats::panics`](crate::Stats::panics), and stops this timer
    /// and no other.
    ///
    /// # The end of the thread
    ///
    /// The end of a thread acts on this timer as on an [`HrTimer`](crate::hrtimer::HrTimer#the-end-of-the-thread).
    ///
    /// # Dropping
    ///
    /// A drop shuts the timer down and waits for a callback that runs on another thread. A drop by the timer's own
    /// callback would free the closure that is executing, and ends the process. [`Restart::NoThenWake`] wakes a task
    /// that may drop the timer.
    #[project(!Unpin)]
    pub struct WheelTimer<F>
    where
        F: FnMut(&mut Timeout) -> Restart,
        F: Send,
        F: 'static,
    {
        #[pin]
        timer: core::WheelTimer<F>,
    }

    impl<F> PinnedDrop for WheelTimer<F>
    where
        F: FnMut(&mut Timeout) -> Restart,
        F: Send,
        F: 'static,
    {
        fn drop(this: Pin<&mut Self>) {
            let timer = this.project().timer.into_ref();
            if timer.is_active() {
                if timer.is_own_callback(timers()) {
                    tickless_link::abort("a timer was dropped by its own callback, which still executes");
                }
                timer.shutdown_sync(timers());
            }
        }
    }
}

impl<F> WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    /// Makes an idle timer of the kind [`WheelKind::Global`]: the timer is queued on the thread that starts it, and
    /// another thread may fire it.
    #[must_use]
    pub const fn new(function: F) -> Self {
        Self::with_kind(WheelKind::Global, function)
    }

    /// Makes an idle timer of the given kind.
    #[must_use]
    pub const fn with_kind(kind: WheelKind, function: F) -> Self {
        Self {
            timer: core::WheelTimer::new(kind, function),
        }
    }

    fn timer(self: Pin<&Self>) -> Pin<&core::WheelTimer<F>> {
        self.project_ref().timer
    }

    /// Starts the timer, or restarts it if it is queued. Returns which of the two happened.
    ///
    /// A timer that was [shut down](Self::shutdown) is not started: the result is [`StartOutcome::ShutDown`].
    ///
    /// # Cost
    ///
    /// A start for the tick that the timer already has takes a few loads and no lock. If the timer is queued, is not
    /// the first timer, and gets a later tick, the start takes one lock and one store: the timer stays in its slot, and
    /// is enqueued again when the slot is due. A start within the slot costs the same, and the timer keeps its
    /// lateness. Any other start takes the lock of the thread's own base, and is O(1).
    ///
    /// No clock is read if the timer stays in its slot. The allowed lateness counts from the thread's last clock
    /// reading, or from at most 50 µs before.
    #[inline]
    pub fn start(self: Pin<&Self>, when: impl Into<Expiry>) -> StartOutcome {
        let Expiry(tick) = when.into();
        if self.timer().is_queued() {
            self.start_again(tick)
        } else {
            self.start_idle(tick)
        }
    }

    // What is rare is a call at the end of each, so that no register is saved for it.

    /// Starts a timer that seems to be queued.
    #[inline(never)]
    fn start_again(self: Pin<&Self>, tick: Tick) -> StartOutcome {
        // It is queued where a thread comes in time already.
        if let Some(timers) = registry::try_timers_fast()
            && self.timer().modify_in_slot(timers, tick)
        {
            return StartOutcome::Restarted;
        }
        self.start_slow(tick)
    }

    /// Starts a timer that seems to be idle. The allowed lateness counts from the time of the request, so the reading
    /// that gave the deadline is used and no further one is needed.
    #[inline(never)]
    fn start_idle(self: Pin<&Self>, tick: Tick) -> StartOutcome {
        if let Some(timers) = registry::try_timers_fast()
            && wake::may_start_callback()
            && let Some(own) = self.timer().arm_own(timers, tick::asked_last(), tick)
        {
            return told(own);
        }
        self.start_slow(tick)
    }

    /// Starts the timer in any state.
    #[inline(never)]
    fn start_slow(self: Pin<&Self>, tick: Tick) -> StartOutcome {
        self.by_clock(|now| self.timer().modify(timers(), now, tick), |_| true)
    }

    /// Starts the timer as [`start`](Self::start) does, unless the timer is queued to fire at that time or earlier. In
    /// that case the result is [`StartOutcome::Unchanged`].
    pub fn start_if_earlier(self: Pin<&Self>, when: impl Into<Expiry>) -> StartOutcome {
        self.start_by(when, |timer, now, expiry| {
            timer.reduce(timers(), now, expiry)
        })
    }

    /// Starts the timer as [`start`](Self::start) does, unless the timer is queued. In that case the result is
    /// [`StartOutcome::Unchanged`].
    pub fn start_if_idle(self: Pin<&Self>, when: impl Into<Expiry>) -> StartOutcome {
        self.start_by(when, |timer, now, expiry| {
            match timer.arm(timers(), now, expiry) {
                Ok(()) => StartOutcome::Started,
                Err(core::ArmError::ShutDown) => StartOutcome::ShutDown,
                // No CPU was named, so the reason is that it waits.
                Err(_) => StartOutcome::Unchanged,
            }
        })
    }

    /// Starts the timer by `start`. If `start` queued the timer, makes sure that a thread expires it in time.
    #[inline]
    fn start_by(
        self: Pin<&Self>,
        when: impl Into<Expiry>,
        start: impl FnOnce(Pin<&core::WheelTimer<F>>, Tick, Tick) -> StartOutcome,
    ) -> StartOutcome {
        let Expiry(tick) = when.into();
        self.by_clock(
            |now| start(self.timer(), now, tick),
            StartOutcome::has_armed,
        )
    }

    /// Starts the timer by `start`, on the clock of this thread. If `is_new` accepts the outcome, makes sure that a
    /// thread expires the timer in time.
    #[inline]
    fn by_clock(
        self: Pin<&Self>,
        start: impl FnOnce(Tick) -> StartOutcome,
        is_new: impl FnOnce(StartOutcome) -> bool,
    ) -> StartOutcome {
        if self.timer().kind() == WheelKind::Local {
            // It stays on the thread that started it first, which has the process's clock.
            wake::ensure_expiry_thread_for_callback();
        }
        by_own_clock(|| {
            let now = tick::core_now();
            let outcome = start(now);
            if is_new(outcome) {
                self.publish(now);
            }
            outcome
        })
    }

    /// Cancels the timer, unless its closure is running. Never waits.
    pub fn try_cancel(self: Pin<&Self>) -> TryCancel {
        self.timer().try_delete_sync(timers())
    }

    /// Cancels the timer and waits until its closure is not running. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// When called from the closure itself, which would wait for itself; use [`cancel_queued`](Self::cancel_queued)
    /// there.
    pub fn cancel(self: Pin<&Self>) -> bool {
        self.timer().delete_sync(timers())
    }

    /// Cancels the timer and returns true if it was queued. Does not wait for a closure that is running.
    #[inline]
    pub fn cancel_queued(self: Pin<&Self>) -> bool {
        // As for a start: what is rare is a call at the end.
        if let Some(timers) = registry::try_timers_fast()
            && let Some(was_queued) = self.timer().delete_own(timers)
        {
            return was_queued;
        }
        self.timer().delete(timers())
    }

    /// Cancels the timer for good: no later start has an effect, not even one by its running closure. Waits until the
    /// closure is not running. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// When called from the closure itself, like [`cancel`](Self::cancel).
    pub fn shutdown(self: Pin<&Self>) -> bool {
        self.timer().shutdown_sync(timers())
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

    /// Returns true if the timer is queued. Lock-free; another thread may have changed it since.
    #[must_use]
    pub fn is_queued(self: Pin<&Self>) -> bool {
        self.timer().is_queued()
    }

    /// Returns the tick for which the timer was started last; the timer fires after the end of that tick. Lock-free;
    /// another thread may have changed the tick since.
    #[must_use]
    pub fn expiry(self: Pin<&Self>) -> Tick {
        self.timer().expiry()
    }

    /// Makes sure that a thread expires the timer in time.
    fn publish(self: Pin<&Self>, now: Tick) {
        publish_earlier(now);
        // A pinned one stays where it is, and the thread that looks after that may sleep for longer.
        if self.timer().kind() == WheelKind::Local
            && let Some((cpu, _)) = self.timer().wheel(timers())
        {
            let own = with_thread(Thread::base);
            if own.is_none_or(|own| own.cpu() != cpu)
                && let Some(base) = base(cpu)
            {
                device::kick(base);
            }
        }
    }
}

/// Makes sure that a thread expires the first timer in time, and returns the result of the start.
#[inline]
fn told(own: core::Own) -> StartOutcome {
    // Else something that is due before was told already, and a thread comes for that.
    if own.is_first {
        return told_first(own);
    }
    own.outcome
}

#[inline(never)]
fn told_first(own: core::Own) -> StartOutcome {
    publish_first();
    own.outcome
}

impl<F> fmt::Debug for WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}
