//! Exact timers that wake tasks.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::entry::{Entry, EntryRef, Expiry, Member, Owner};
use tickless_link::tree::Tree;

use crate::base::guard::BaseGuard;
use crate::base::sleeper::{WAKES, Wake};
use crate::base::timers::Timers;
use crate::exact::family::{Firing, Head, Hr, Restart, Times};
use crate::hrtimer::start::AlreadyExpired;
use crate::hrtimer::timer::{Setup, Start};
use crate::platform::Platform;
use crate::time::{ClockId, Deadline, Monotonic};
use crate::trace::StartMode;

impl Member<Hr> for Wake {
    /// Whom to wake; `None` once the timer fired (spec SLP-1).
    type Guarded = Option<Waker>;

    fn name() -> &'static str {
        WAKES
    }

    #[inline]
    fn expire(waker: &mut Option<Waker>) -> Expiry<Option<Waker>> {
        // Taken under the lock: the timer is idle before anybody is woken, so nobody ever waits for a wake-up to end,
        // and the woken task may free the timer at once.
        Expiry::Done(waker.take())
    }

    fn call(&mut self, _firing: &mut Firing<'_>) -> Restart {
        Restart::No
    }
}

/// A timer that wakes a task: what futures are made of (spec 2.9, "sleepers").
///
/// It never runs a callback, so cancelling it never waits.
///
/// Cost: 96 bytes on 64-bit targets.
pub struct Sleeper<C = Monotonic> {
    entry: Entry<Hr, Wake>,
    clock: PhantomData<fn() -> C>,
}

tickless_link::project_entry!([C] Sleeper<C> [C: 'static] entry: Entry<Hr, Wake>);

impl<C: ClockId> Sleeper<C> {
    const_unless_loom! {
        /// Makes an idle timer that fires in the hard stage.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                entry: Entry::new(
                    Deadline::FOREVER,
                    Setup::new().tag::<C>(false).far_exact(),
                    Head::IDLE,
                    (),
                    None,
                    Wake,
                ),
                clock: PhantomData,
            }
        }
    }

    /// Whether the timer is queued: it was started, and has neither fired nor been cancelled. Lock-free.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    /// What an idle sleeper keeps of a task, for a start to come; `None` while it is queued.
    ///
    /// A start takes the waker that it is given in place of this one.
    #[inline]
    pub fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.entry_mut().guarded_mut()
    }

    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Hr> {
        self.entry().erase()
    }

    /// Gives a sleeper that was never started to the base that `queue` is of.
    #[inline]
    pub(crate) fn bind(self: Pin<&mut Self>, queue: &Tree<Hr>) -> bool {
        self.entry_mut().bind(queue)
    }

    #[inline]
    pub(crate) fn pinned_entry(self: Pin<&Self>) -> Pin<&Entry<Hr, Wake>> {
        self.entry()
    }
}

impl<C: ClockId> Default for Sleeper<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> fmt::Debug for Sleeper<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sleeper").field(&self.entry).finish()
    }
}

impl<P: Platform> Timers<P> {
    /// Starts `sleeper` and has `waker` woken when it fires. If it is queued already it is started again.
    ///
    /// Returns the waker that was there before, to be dropped by the caller (dropping it may run foreign code).
    ///
    /// # Cost
    ///
    /// As [`start`](Timers::start).
    #[inline]
    pub fn start_sleeper<C: ClockId>(
        &self,
        mut sleeper: Pin<&mut Sleeper<C>>,
        start: Start<C>,
        waker: Waker,
    ) -> Option<Waker> {
        let me = self.platform.this_cpu();
        let index = sleeper.as_ref().erase().tag().queue();
        let mut held = match me {
            // The usual case, the first start on the thread that polls: the lock is taken at once.
            Some(me) if sleeper.as_ref().erase().owner() == Owner::Unbound => {
                let held = BaseGuard::lock(self, me.base, Some(me));
                sleeper.as_mut().bind(&held.state.queues[index].tree);
                held
            }
            _ => self.lock_base_of(sleeper.as_ref().erase(), me),
        };
        let old = exchange(&mut held, sleeper.as_ref(), Some(waker));
        let entry = sleeper.as_ref().erase();
        let times = self.resolve(entry, &start.request);
        let mode = start.request.mode;
        let _always: Result<(), AlreadyExpired> =
            self.start_held(&mut held, entry, times, mode, me);
        old
    }

    /// Gives a queued sleeper another time and keeps its waker; `false` if it is not queued any more.
    #[inline]
    pub fn restart_sleeper<C: ClockId>(&self, sleeper: Pin<&Sleeper<C>>, start: Start<C>) -> bool {
        let entry = sleeper.erase();
        if entry.state().is_idle() {
            return false;
        }
        let times = self.resolve(entry, &start.request);
        let mode = start.request.mode;
        match self.start_in_place(entry, times, mode) {
            Ok(()) => true,
            Err(held) => self.restart_sleeper_slowly(entry, times, mode, held),
        }
    }

    #[cold]
    #[inline(never)]
    fn restart_sleeper_slowly<'a>(
        &'a self,
        entry: EntryRef<'_, Hr>,
        times: Times,
        mode: StartMode,
        held: Option<BaseGuard<'a, P>>,
    ) -> bool {
        let me = self.platform.this_cpu();
        let mut held = held.unwrap_or_else(|| self.lock_base_of(entry, me));
        if !entry.state().is_queued() {
            return false;
        }
        let _always: Result<(), AlreadyExpired> =
            self.start_held(&mut held, entry, times, mode, me);
        true
    }

    /// Whether `sleeper` is queued and would wake the task of `waker`; `None` if it is not queued any more.
    #[inline]
    pub fn sleeper_will_wake<C: ClockId>(
        &self,
        sleeper: Pin<&Sleeper<C>>,
        waker: &Waker,
    ) -> Option<bool> {
        if !sleeper.is_queued() {
            return None;
        }
        let mut held = self.lock_base_of(sleeper.erase(), self.platform.this_cpu());
        if !sleeper.is_queued() {
            return None;
        }
        let waits_with = guarded(&mut held, sleeper).as_ref();
        Some(waits_with.is_some_and(|old| old.will_wake(waker)))
    }

    /// Has `waker` woken instead of the one before, which is returned for the caller to drop. `Err` with `waker` if the
    /// sleeper is not queued any more.
    ///
    /// # Errors
    ///
    /// The waker, when the sleeper fired or was cancelled.
    pub fn set_sleeper_waker<C: ClockId>(
        &self,
        sleeper: Pin<&Sleeper<C>>,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        if !sleeper.is_queued() {
            return Err(waker);
        }
        let mut held = self.lock_base_of(sleeper.erase(), self.platform.this_cpu());
        if !sleeper.is_queued() {
            return Err(waker);
        }
        Ok(exchange(&mut held, sleeper, Some(waker)))
    }

    /// Takes `sleeper` out of its queue and returns its waker, for the caller to drop. `None` if it is not queued.
    ///
    /// Never waits: a sleeper has no callback. When this returns the sleeper may be freed.
    #[inline]
    pub fn cancel_sleeper<C: ClockId>(&self, sleeper: Pin<&Sleeper<C>>) -> Option<Waker> {
        let entry = sleeper.erase();
        if entry.state().is_idle() {
            return None;
        }
        let me = self.platform.this_cpu();
        let mut held = self.lock_base_of(entry, me);
        let old = exchange(&mut held, sleeper, None);
        self.remove(&mut held, entry, me);
        old
    }
}

#[inline]
fn exchange<P: Platform, C: ClockId>(
    held: &mut BaseGuard<'_, P>,
    sleeper: Pin<&Sleeper<C>>,
    waker: Option<Waker>,
) -> Option<Waker> {
    core::mem::replace(guarded(held, sleeper), waker)
}

/// Whom a sleeper of the locked base wakes.
#[inline]
fn guarded<'h, P: Platform, C: ClockId>(
    held: &'h mut BaseGuard<'_, P>,
    sleeper: Pin<&'h Sleeper<C>>,
) -> &'h mut Option<Waker> {
    let entry = sleeper.erase();
    let state = &mut *held.state;
    if state.far.open(entry).is_some() {
        sleeper.pinned_entry().guarded(state.far.shelf_mut())
    } else {
        let index = entry.tag().queue();
        sleeper
            .pinned_entry()
            .guarded(&mut state.queues[index].tree)
    }
    .expect("the base that owns the timer is locked")
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Sleeper>() == 96);
