//! Raw coarse timers with callbacks: what [`coarse`](crate::coarse) is made of, for those who want no futures.
//!
//! A timer of the wheel is armed for a time, and fires at the end of the slot that it falls into: never early, and
//! [about an eighth of what was asked late](crate::coarse#how-late), at most. All operations are O(1) whatever else is
//! pending.
//!
//! Time goes in [ticks](Tick) of [`TICK`], counted from the beginning of the monotonic clock. What a timer is armed for
//! may be said as a [`Duration`] from now, an [`Instant`], or a [`Tick`] that has to be over before: all are an
//! [`Expiry`].
//!
//! # Kinds
//!
//! A *global* timer goes to the thread that arms it or moves it. A *local* one stays on the thread that armed it
//! whoever moves it. A *deferrable* one wakes nobody: it fires when its thread, or the library's driver thread on its
//! behalf, has something else to do.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use pin_project_lite::pin_project;
pub use tickless_core::base::TryCancel;
use tickless_core::coarse as core;
pub use tickless_core::coarse::{ArmError, Kind, Rearm, ShutDown, Tick, Timeout};
pub use tickless_core::platform::CpuId;
use tickless_core::time::Span;

use crate::host::registry::{base, timers};
use crate::host::remote::publish::publish_earlier;
use crate::host::thread::{Thread, with_thread};
use crate::host::tick::{self, tick_of};
use crate::host::{device, wake};
use crate::time::Instant;

/// How long a tick is.
pub const TICK: Duration = Duration::from_nanos(tick::TICK);

/// The tick in progress.
#[must_use]
pub fn now() -> Tick {
    tick::now()
}

/// How many ticks `duration` is, rounded up: for [`Rearm::After`].
#[must_use]
pub fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX)
}

/// What has to be over before a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(Tick);

/// The tick itself, to its end.
impl From<Tick> for Expiry {
    #[inline]
    fn from(tick: Tick) -> Self {
        Self(tick)
    }
}

impl From<Instant> for Expiry {
    #[inline]
    fn from(deadline: Instant) -> Self {
        Self(tick_of(deadline.to_core()))
    }
}

/// So long from now.
impl From<Duration> for Expiry {
    #[inline]
    fn from(duration: Duration) -> Self {
        let clock = &timers().platform().clock;
        let now = with_thread(|thread| thread.reading.at_latest(clock));
        Self(tick_of(now.saturating_add(Span::from(duration))))
    }
}

pin_project! {
    /// A coarse timer that calls a closure.
    ///
    /// It lies pinned wherever you put it (`Box::pin`, a field of a pinned structure, a static), and takes 48 bytes and
    /// the closure. The closure is called without any lock, never twice at the same time: on the thread that armed the
    /// timer if that is a [`Worker`](crate::Worker) or drives an event loop, else on the library's driver thread. It
    /// should be short there: it delays others.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::wheel::{Kind, Rearm, WheelTimer};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let idle = pin!(WheelTimer::new(Kind::Global, move |timeout| {
    ///     sender.send(timeout.expiry).expect("somebody listens");
    ///     Rearm::No
    /// }));
    /// // Whenever a packet comes:
    /// for _ in 0..1000 {
    ///     idle.as_ref().modify(Duration::from_millis(5))?;
    /// }
    /// let last = idle.as_ref().expiry();
    /// assert_eq!(receiver.recv()?, last);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics in the closure
    ///
    /// Are caught, counted in [`Stats::panics`](crate::Stats::panics), and stop the timer, nothing else.
    ///
    /// # The end of the thread
    ///
    /// As for an [`HrTimer`](crate::hrtimer::HrTimer#the-end-of-the-thread).
    ///
    /// # Dropping
    ///
    /// Shuts the timer down and waits for a callback that runs on another thread. Dropping a timer from its own
    /// callback, which would free what is executing, ends the process; [`Rearm::NoThenWake`] wakes somebody who may
    /// drop it.
    #[project(!Unpin)]
    pub struct WheelTimer<F>
    where
        F: FnMut(&Timeout) -> Rearm,
        F: Send,
        F: 'static,
    {
        #[pin]
        timer: core::WheelTimer<F>,
    }

    impl<F> PinnedDrop for WheelTimer<F>
    where
        F: FnMut(&Timeout) -> Rearm,
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
    F: FnMut(&Timeout) -> Rearm + Send + 'static,
{
    /// Makes an idle timer.
    #[must_use]
    pub const fn new(kind: Kind, function: F) -> Self {
        Self {
            timer: core::WheelTimer::new(kind, function),
        }
    }

    fn timer(self: Pin<&Self>) -> Pin<&core::WheelTimer<F>> {
        self.project_ref().timer
    }

    /// Arms a timer that does not wait to fire.
    ///
    /// # Errors
    ///
    /// [`ArmError::Active`] when it does: it stays as it is. [`ArmError::ShutDown`].
    ///
    /// # Cost
    ///
    /// The lock of the thread's own base, and O(1).
    pub fn arm(self: Pin<&Self>, when: impl Into<Expiry>) -> Result<(), ArmError> {
        let Expiry(expiry) = when.into();
        wake::demand();
        let now = tick::recently();
        self.timer().arm(timers(), now, expiry)?;
        self.tell(now);
        Ok(())
    }

    /// Arms the timer, or gives it another time if it waits to fire already; says whether it did.
    ///
    /// # Errors
    ///
    /// [`ShutDown`].
    ///
    /// # Cost
    ///
    /// For the tick that it has: loads, no lock. Into the slot where it is: one lock and one store; it keeps what it
    /// may be late by, then. Else as [`arm`](Self::arm).
    pub fn modify(self: Pin<&Self>, when: impl Into<Expiry>) -> Result<bool, ShutDown> {
        let Expiry(expiry) = when.into();
        wake::demand();
        let now = tick::recently();
        let was_queued = self.timer().modify(timers(), now, expiry)?;
        self.tell(now);
        Ok(was_queued)
    }

    /// As [`modify`](Self::modify), and leaves a timer alone that does not wait to fire; says whether it does.
    pub fn modify_if_active(self: Pin<&Self>, when: impl Into<Expiry>) -> bool {
        let Expiry(expiry) = when.into();
        wake::demand();
        let now = tick::recently();
        let is_queued = self.timer().modify_if_active(timers(), now, expiry);
        if is_queued {
            self.tell(now);
        }
        is_queued
    }

    /// As [`modify`](Self::modify), and leaves a timer alone that fires at that time or earlier; says whether it was
    /// waiting to fire.
    ///
    /// # Errors
    ///
    /// [`ShutDown`].
    pub fn reduce(self: Pin<&Self>, when: impl Into<Expiry>) -> Result<bool, ShutDown> {
        let Expiry(expiry) = when.into();
        wake::demand();
        let now = tick::recently();
        let was_queued = self.timer().reduce(timers(), now, expiry)?;
        self.tell(now);
        Ok(was_queued)
    }

    /// Takes the timer back; says whether it was waiting to fire. Says nothing about a callback that runs, and does not
    /// wait for it.
    pub fn delete(self: Pin<&Self>) -> bool {
        self.timer().delete(timers())
    }

    /// Takes the timer back, unless its closure is being called. Never waits.
    pub fn try_delete(self: Pin<&Self>) -> TryCancel {
        self.timer().try_delete_sync(timers())
    }

    /// Takes the timer back and waits until its closure is not being called; says whether it was waiting to fire.
    ///
    /// # Panics
    ///
    /// When called from the closure itself, which would wait for itself: use [`delete`](Self::delete) there.
    pub fn delete_sync(self: Pin<&Self>) -> bool {
        self.timer().delete_sync(timers())
    }

    /// Takes the timer back for good: it is not armed again, by its running closure neither. Says whether it was
    /// waiting to fire. Does not wait for a closure that is being called.
    pub fn shutdown(self: Pin<&Self>) -> bool {
        self.timer().shutdown(timers())
    }

    /// As [`shutdown`](Self::shutdown), and waits until the closure is not being called.
    ///
    /// # Panics
    ///
    /// As [`delete_sync`](Self::delete_sync).
    pub fn shutdown_sync(self: Pin<&Self>) -> bool {
        self.timer().shutdown_sync(timers())
    }

    /// Whether the timer waits to fire, or its closure is being called. Lock-free.
    #[must_use]
    pub fn is_active(self: Pin<&Self>) -> bool {
        self.timer().is_active()
    }

    /// Whether the timer waits to fire. Lock-free; out of date when it arrives.
    #[must_use]
    pub fn is_queued(self: Pin<&Self>) -> bool {
        self.timer().is_queued()
    }

    /// The tick that had to be over, as it was armed last. Lock-free; out of date when it arrives.
    #[must_use]
    pub fn expiry(self: Pin<&Self>) -> Tick {
        self.timer().expiry()
    }

    /// Sees to it that somebody comes in time.
    fn tell(self: Pin<&Self>, now: Tick) {
        publish_earlier(now);
        // A pinned one stays where it is, and whoever looks after that may sleep for longer.
        if let Some((cpu, Kind::Local)) = self.timer().wheel(timers()) {
            let own = with_thread(Thread::base);
            if own.is_none_or(|own| own.cpu() != cpu)
                && let Some(base) = base(cpu)
            {
                device::kick(base);
            }
        }
    }
}

impl<F> fmt::Debug for WheelTimer<F>
where
    F: FnMut(&Timeout) -> Rearm + Send + 'static,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(formatter)
    }
}
