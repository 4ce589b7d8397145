//! Cancelling (spec 2.10).

use core::pin::Pin;
use core::task::Waker;

use tickless_link::entry::{EntryRef, Owner};
use tickless_link::sync::Ordering;

use super::base::{Based, Change, Held};
use super::start::{Times, opened};
use super::timer::{Expired, Hr, HrTimer, Restart, Sleeper, Start, StartMode};
use super::{AlreadyExpired, Timers};
use crate::platform::{Platform, ThisCpu};
use crate::time::ClockId;
use crate::trace::{Event, TimerId};

/// What a [`try_cancel`](Timers::try_cancel) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryCancel {
    /// The timer was neither queued nor running.
    NotActive,
    /// The timer was queued and is not any more.
    Removed,
    /// The callback runs; whether the timer is queued as well was left as it is.
    Running,
}

impl<P: Platform> Timers<P> {
    /// Takes the timer out of its queue, unless its callback runs.
    ///
    /// # Interrupt context
    ///
    /// Callable anywhere, from the timer's own callback too. Never waits for a callback.
    ///
    /// # Cost
    ///
    /// A timer that is not active: one load. Else one lock and one removal; cancelling the first timer of this CPU
    /// writes the device once. Cancelling on another CPU leaves its device as it is: it takes one interrupt for
    /// nothing.
    pub fn try_cancel<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> TryCancel
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        self.try_cancel_entry(timer.erase(), self.platform.this_cpu())
    }

    /// Takes the timer out of its queue and waits until its callback does not run; says whether it was queued.
    ///
    /// On return the timer is idle, unless somebody started it meanwhile: the caller stops those first.
    ///
    /// # Panics
    ///
    /// When called from the timer's own callback, where it would wait for itself (spec CAN-4).
    ///
    /// # Interrupt context
    ///
    /// Not while holding a lock that the callback takes, and not on top of the callback's CPU.
    pub fn cancel<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> bool
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        let entry = timer.erase();
        let me = self.platform.this_cpu();
        self.until_not_running(entry, me, || self.try_cancel_entry(entry, me))
    }

    /// Repeats `attempt`, which takes the timer out unless its callback runs, until it does not; says whether the timer
    /// was queued.
    pub(crate) fn until_not_running<F: Based>(
        &self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'_, P>>,
        mut attempt: impl FnMut() -> TryCancel,
    ) -> bool {
        let mut attempts = 0;
        loop {
            match attempt() {
                TryCancel::NotActive => return false,
                TryCancel::Removed => return true,
                TryCancel::Running => {
                    assert!(
                        !self.is_executing(entry, me),
                        "a timer's callback cancels its own timer and would wait for itself; use try_cancel"
                    );
                    self.wait_for_callback(entry, me, attempts);
                    attempts += 1;
                }
            }
        }
    }

    /// Whether the executing CPU is inside the callback of `entry`.
    pub(crate) fn is_executing<F: Based>(
        &self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        // Relaxed: written by this very CPU.
        me.is_some_and(|me| me.base.executing.load(Ordering::Relaxed) == entry.address())
    }

    /// Whether the caller is inside the callback of `timer`, where [`cancel`](Timers::cancel) must not be called.
    pub fn is_own_callback<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> bool
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        self.is_executing(timer.erase(), self.platform.this_cpu())
    }

    #[inline]
    pub(crate) fn try_cancel_entry<'a>(
        &'a self,
        entry: EntryRef<'_, Hr>,
        me: Option<ThisCpu<'a, P>>,
    ) -> TryCancel {
        if entry.state().is_idle() {
            return TryCancel::NotActive;
        }
        let mut held = self.lock_base_of(entry, me);
        if entry.state().is_running() {
            return TryCancel::Running;
        }
        if self.remove(&mut held, entry, me) {
            TryCancel::Removed
        } else {
            TryCancel::NotActive
        }
    }

    /// Takes a timer of the locked base out of its queue; `false` if it is not queued.
    #[inline]
    fn remove(
        &self,
        held: &mut Held<'_, P>,
        entry: EntryRef<'_, Hr>,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        let timer = entry.address();
        let (index, lazy) = (entry.tag().queue(), entry.tag().is_lazy());
        let far_exact = entry.tag().is_far_exact();
        if far_exact && held.state.remove_far(entry) {
            // It was on the shelf.
        } else if let Some(was_first) = opened(held, entry).remove() {
            held.state.after_removal(index, was_first);
        } else {
            return false;
        }
        // From here on the timer may be gone: its owner sees it idle.
        held.state.stats.cancelled += 1;
        if P::TRACE {
            let cpu = held.base.cpu();
            self.platform.trace(Event::Cancel {
                cpu,
                timer: TimerId(timer),
            });
        }
        let local = me.is_some_and(|me| core::ptr::eq(me.base, held.base));
        // Remote removals and lazy ones leave the device alone: it fires early once, and is armed exactly then (spec
        // CAN-2). So do timeouts. Whoever is about to sleep asks for better: see `settle_armed`.
        if far_exact || (local && lazy) {
            held.state.armed_early |= held.state.first_hint == timer;
        } else if local && held.state.first_hint == timer && !held.leave_to_rearm(Change::Removal) {
            held.reevaluate(true);
        }
        true
    }

    /// Waits until a callback that was seen running may have ended (spec CAN-5, CAN-6).
    fn wait_for_callback<'a, F: Based>(
        &'a self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'a, P>>,
        attempt: u32,
    ) {
        if !P::WAITING.sleeps(F::is_soft(entry)) {
            self.platform.relax(attempt);
            return;
        }
        // Whose callback it is changes from one to the next, if it runs again.
        let held = self.lock_base_of(entry, me);
        let Some(expirer) = F::expirer(&held, entry) else {
            return;
        };
        drop(held);
        // Relaxed: a hint for the runner; the lock is what is waited on.
        expirer.waiters.fetch_add(1, Ordering::Relaxed);
        drop(expirer.lock.lock(None));
        expirer.waiters.fetch_sub(1, Ordering::Relaxed);
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
                let held = Held::lock(self, me.base, Some(me));
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
        held: Option<Held<'a, P>>,
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
    held: &mut Held<'_, P>,
    sleeper: Pin<&Sleeper<C>>,
    waker: Option<Waker>,
) -> Option<Waker> {
    core::mem::replace(guarded(held, sleeper), waker)
}

/// Whom a sleeper of the locked base wakes.
#[inline]
fn guarded<'h, P: Platform, C: ClockId>(
    held: &'h mut Held<'_, P>,
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
