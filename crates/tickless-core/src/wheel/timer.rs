//! The timers of the wheel.

use core::fmt;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::entry::{Entry, EntryRef, Expiry, Family, Member, Queue, State};
use tickless_link::sync::{AtomicU64, Ordering};

use super::arm::kind_of;
use super::base::Kind;
use super::geometry::Tick;
use crate::hrtimer::base::{BaseState, Based, Expirer, Held};
use crate::hrtimer::timer::Wake;
use crate::platform::CpuId;
use crate::platform::Platform;

/// All timers of wheels.
#[derive(Debug)]
pub(crate) enum Coarse {}

impl Family for Coarse {
    type Key = ();
    /// How the timer was made. Where it is now says its owner word.
    type Tag = Kind;
    type Head = ();
    type Shared = ExpiryTick;
    type Branches = ();
    type Token = Option<Waker>;
    type Context<'a> = Timeout;
    type Verdict = Rearm;
}

impl Based for Coarse {
    #[inline]
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool {
        state.wheels[entry.tag() as usize].shelf.bind(entry)
    }

    #[inline]
    fn is_soft(_entry: EntryRef<'_, Self>) -> bool {
        true
    }

    fn expirer<'a, P: Platform>(
        held: &Held<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>> {
        let kind = kind_of(held, entry);
        let place = held.state.wheels[kind as usize].shelf.place_of(entry)?;
        Some(&held.base.coarse[kind as usize][place])
    }
}

/// The tick that must be over before the timer fires.
#[derive(Debug)]
pub(crate) struct ExpiryTick(AtomicU64);

impl ExpiryTick {
    const_unless_loom! {
        const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Tick {
        // Relaxed: under the lock, which orders it, it is exact. Without, it is read behind the state of the timer (an
        // Acquire), which orders it behind the arming that queued it; a later one may not be seen yet, and then counts
        // as later. Nothing else is reached through it.
        Tick(self.0.load(Ordering::Relaxed))
    }

    /// Only under the lock of the base that the timer is on, or is travelling to.
    #[inline]
    pub(crate) fn set(&self, expiry: Tick) {
        // Relaxed: see `get`.
        self.0.store(expiry.0, Ordering::Relaxed);
    }
}

/// What a callback answers.
#[derive(Debug)]
pub enum Rearm {
    /// The timer is done, unless somebody armed it meanwhile.
    No,
    /// The timer is armed again, to fire when this tick is over, unless somebody armed it or shut it down meanwhile.
    At(Tick),
    /// As [`At`](Rearm::At), so many ticks behind the one for which the pass was called. A pass may be behind the time,
    /// and the timer that late; it counts from there, not from the end of the callback.
    After(u64),
    /// As [`No`](Rearm::No); and then the waker is used, after the library has let go of the timer. What it wakes may
    /// free the timer.
    NoThenWake(Waker),
}

/// A timeout that is over, as a callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// The tick in progress, as the pass was told.
    pub now: Tick,
    /// When the slot of the timer was due; `now - due` is how late the pass was.
    pub due: Tick,
    /// What the timer was armed for.
    pub expiry: Tick,
    /// The wheel that it was on.
    pub kind: Kind,
    /// The CPU that it was on.
    pub cpu: CpuId,
    /// The CPU that executes the callback; `None` for a thread that is none. Another one for a global timer of a CPU
    /// that sleeps.
    pub executed_by: Option<CpuId>,
}

/// The member that calls a closure.
pub(crate) struct Callback<F>(F);

impl<F: FnMut(&Timeout) -> Rearm> Member<Coarse> for Callback<F> {
    type Guarded = ();

    fn name() -> &'static str {
        core::any::type_name::<F>()
    }

    #[inline]
    fn expire((): &mut ()) -> Expiry<Option<Waker>> {
        Expiry::Call
    }

    fn call(&mut self, timeout: &mut Timeout) -> Rearm {
        (self.0)(timeout)
    }
}

/// A coarse timer with a callback.
///
/// It lies pinned wherever its user puts it. The callback is called without any lock, never twice at the same time. A
/// callback must not free its own timer, except through [`Rearm::NoThenWake`].
///
/// A timer that is dropped while it is queued or running ends the process:
/// [shut it down](crate::hrtimer::Timers::shutdown_sync) first.
///
/// What was never initialised cannot be armed, and what was shut down says so (R55).
///
/// Cost: 48 bytes on 64-bit targets, and the closure.
pub struct WheelTimer<F: FnMut(&Timeout) -> Rearm> {
    entry: Entry<Coarse, Callback<F>>,
}

tickless_link::project_entry!(
    [F] WheelTimer<F> [F: FnMut(&Timeout) -> Rearm]
    entry: Entry<Coarse, Callback<F>>
);

impl<F: FnMut(&Timeout) -> Rearm> WheelTimer<F> {
    const_unless_loom! {
        /// Makes an idle timer. `kind` says on which wheel [`arm`](crate::hrtimer::Timers::arm) files it.
        pub const fn new(kind: Kind, function: F) -> Self {
            Self { entry: Entry::new((), kind, (), ExpiryTick::new(), (), Callback(function)) }
        }
    }

    /// Whether the timer is queued. Lock-free; out of date when it arrives: what depends on it belongs into one
    /// [`modify_if_active`](crate::hrtimer::Timers::modify_if_active) (R56).
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    /// Whether the timer is queued, or its callback executes. Lock-free; never wrongly "no".
    #[inline]
    pub fn is_active(&self) -> bool {
        !self.entry.state().is_idle()
    }

    /// The life cycle of the timer.
    #[inline]
    pub fn state(&self) -> State {
        self.entry.state()
    }

    /// What the timer was armed for last. Lock-free; out of date when it arrives.
    #[inline]
    pub fn expiry(&self) -> Tick {
        self.entry.shared().get()
    }
}

impl<F: FnMut(&Timeout) -> Rearm + Send + 'static> WheelTimer<F> {
    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Coarse> {
        self.entry().erase()
    }
}

impl<F: FnMut(&Timeout) -> Rearm> fmt::Debug for WheelTimer<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WheelTimer")
            .field(&self.entry)
            .finish()
    }
}

impl Member<Coarse> for Wake {
    /// Whom to wake; `None` once the timer fired.
    type Guarded = Option<Waker>;

    fn name() -> &'static str {
        crate::inspect::WAKES
    }

    #[inline]
    fn expire(waker: &mut Option<Waker>) -> Expiry<Option<Waker>> {
        // As for the exact ones: idle before anybody is woken, so the woken task may free the timer at once.
        Expiry::Done(waker.take())
    }

    fn call(&mut self, _timeout: &mut Timeout) -> Rearm {
        Rearm::No
    }
}

/// A coarse timer that wakes a task: what futures are made of.
///
/// It never runs a callback, so deleting it never waits.
///
/// Cost: 64 bytes on 64-bit targets.
pub struct WheelSleeper {
    entry: Entry<Coarse, Wake>,
}

tickless_link::project_entry!([] WheelSleeper [] entry: Entry<Coarse, Wake>);

impl WheelSleeper {
    const_unless_loom! {
        /// Makes an idle timer for the wheel of `kind`.
        #[must_use]
        pub const fn new(kind: Kind) -> Self {
            Self { entry: Entry::new((), kind, (), ExpiryTick::new(), None, Wake) }
        }
    }

    /// Whether the timer is queued: it was armed, and has neither fired nor been deleted. Lock-free.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Coarse> {
        self.entry().erase()
    }

    /// What an idle sleeper keeps of a task, for an arming to come; `None` while it is queued.
    ///
    /// An arming takes the waker that it is given in place of this one.
    #[inline]
    pub fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.entry_mut().guarded_mut()
    }

    /// Gives a sleeper that was never armed to the wheel that `shelf` is of.
    #[inline]
    pub(crate) fn bind(self: Pin<&mut Self>, shelf: &impl Queue<Coarse>) -> bool {
        self.entry_mut().bind(shelf)
    }

    #[inline]
    pub(crate) fn pinned_entry(self: Pin<&Self>) -> Pin<&Entry<Coarse, Wake>> {
        self.entry()
    }
}

impl fmt::Debug for WheelSleeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WheelSleeper")
            .field(&self.entry)
            .finish()
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = {
    assert!(size_of::<WheelTimer<fn(&Timeout) -> Rearm>>() == 48 + size_of::<usize>());
    assert!(size_of::<WheelSleeper>() == 64);
};
