//! Coarse timers with a callback, and their state.

use core::fmt;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::entry::{Always, Entry, EntryRef, Expiry, Member, State};

use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::wheel::family::{Coarse, ExpiryTick, Timeout, WheelKind};

/// The part of an entry that holds the timer's closure and calls it.
pub(crate) struct Callback<F>(F);

impl<F: FnMut(&mut Timeout) -> Restart> Member<Coarse> for Callback<F> {
    type Guarded = ();

    const EXPIRY: Always<(), Option<Waker>> = Always::CALLED;

    fn name() -> &'static str {
        core::any::type_name::<F>()
    }

    #[inline]
    fn expire((): &mut ()) -> Expiry<Option<Waker>> {
        Expiry::Call
    }

    fn call(&mut self, timeout: &mut Timeout) -> Restart {
        (self.0)(timeout)
    }
}

/// A coarse timer with a callback.
///
/// The user pins the timer at any address. The callback is called without any lock, never twice at the same time. A
/// callback must not free its own timer, except through [`Restart::NoThenWake`].
///
/// A timer that is dropped while it is queued or running ends the process:
/// [shut it down](crate::coarse::WheelTimer::shutdown_sync) first.
///
/// A timer that was never initialised cannot be armed, and a timer that was shut down returns an error (R55).
///
/// Cost: 48 bytes on 64-bit targets, and the closure.
pub struct WheelTimer<F: FnMut(&mut Timeout) -> Restart> {
    entry: Entry<Coarse, Callback<F>>,
}

tickless_link::project_entry!(
    [F] WheelTimer<F> [F: FnMut(&mut Timeout) -> Restart]
    entry: Entry<Coarse, Callback<F>>
);

impl<F: FnMut(&mut Timeout) -> Restart> WheelTimer<F> {
    const_unless_loom! {
        /// Makes an idle timer. `kind` selects the wheel on which [`arm`](crate::coarse::WheelTimer::arm) queues it.
        pub const fn new(kind: WheelKind, function: F) -> Self {
            Self { entry: Entry::new((), kind, (), ExpiryTick::new(), (), Callback(function)) }
        }
    }

    /// Returns true if the timer is queued. Lock-free; another CPU may have changed it since. A caller that acts on the
    /// answer uses [`modify_if_active`](crate::coarse::WheelTimer::modify_if_active) instead (R56).
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    /// Returns true if the timer is queued, or its callback executes. Lock-free; never wrongly false.
    #[inline]
    pub fn is_active(&self) -> bool {
        !self.entry.state().is_idle()
    }

    /// Returns the life cycle state of the timer.
    #[inline]
    pub fn state(&self) -> State {
        self.entry.state()
    }

    /// Returns the kind with which the timer was made.
    #[inline]
    pub fn kind(&self) -> WheelKind {
        self.entry.tag()
    }

    /// Returns the tick for which the timer was armed last. Lock-free; another CPU may have changed it since.
    #[inline]
    pub fn expiry(&self) -> Tick {
        self.entry.shared().get()
    }
}

impl<F: FnMut(&mut Timeout) -> Restart + Send + 'static> WheelTimer<F> {
    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Coarse> {
        self.entry().erase()
    }
}

impl<F: FnMut(&mut Timeout) -> Restart> fmt::Debug for WheelTimer<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WheelTimer")
            .field(&self.entry)
            .finish()
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = {
    assert!(size_of::<WheelTimer<fn(&mut Timeout) -> Restart>>() == 48 + size_of::<usize>());
};
