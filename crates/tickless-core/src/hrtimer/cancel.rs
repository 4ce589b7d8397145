//! The cancellation of exact timers (spec ).

use core::pin::Pin;

use tickless_link::entry::EntryRef;

use crate::base::callback::TryCancel;
use crate::base::guard::BaseGuard;
use crate::base::owner::opened;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::exact::family::Hr;
use crate::hrtimer::timer::{Expired, HrTimer, TimerRef};
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::time::ClockId;
use crate::trace::{Event, TimerId};

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    /// Cancels the timer, unless its callback runs.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context, from the timer's own callback too. Never waits for a callback.
    ///
    /// # Cost
    ///
    /// One load for a timer that is not active. One lock and one removal otherwise. Cancelling the first timer of the
    /// executing CPU writes the device once. Cancelling the first timer of another CPU does not write the device of
    /// that CPU, so that CPU takes one useless interrupt.
    #[inline]
    pub fn try_cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> TryCancel {
        self.timer_ref().try_cancel(timers)
    }

    /// Cancels the timer and waits until its callback does not run. Returns true if the timer was queued.
    ///
    /// On return the timer is idle, unless another thread started it meanwhile. A caller that must exclude this first
    /// stops the threads that start the timer.
    ///
    /// # Panics
    ///
    /// When called from the timer's own callback, which would wait for itself (spec CAN-4).
    ///
    /// # Interrupt context
    ///
    /// The caller must hold no lock that the callback takes, and must not interrupt the callback on its CPU.
    #[inline]
    pub fn cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        self.timer_ref().cancel(timers)
    }

    /// Cancels the timer for good: no later start has an effect, not even a start by its running callback. Waits until
    /// the callback does not run. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// As [`cancel`](Self::cancel).
    ///
    /// # Interrupt context
    ///
    /// As [`cancel`](Self::cancel).
    pub fn shutdown<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        let entry = self.erase();
        let me = timers.platform.this_cpu();
        timers.until_not_running(entry, me, || {
            let mut held = timers.lock_base_of(entry, me);
            // Only the attempt that finds the callback not running shuts: a callback that ran may have started the
            // timer again, which the same attempt then takes out.
            if entry.state().is_running() {
                return TryCancel::Running;
            }
            let was_queued = timers.remove(&mut held, entry, me);
            // Not freed meanwhile: the caller has it borrowed.
            opened(&mut held, entry).shut();
            if was_queued {
                TryCancel::Removed
            } else {
                TryCancel::NotActive
            }
        })
    }

    /// Returns true if the caller is inside the callback of `timer`, where [`cancel`](Self::cancel) must not be called.
    pub fn is_own_callback<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        timers.is_executing(self.erase(), timers.platform.this_cpu())
    }
}

impl<C: ClockId> TimerRef<'_, C> {
    /// Cancels the timer as [`HrTimer::try_cancel`] does, without knowing the type of its closure.
    #[inline]
    pub fn try_cancel<P: Platform>(self, timers: &Timers<P>) -> TryCancel {
        timers.try_cancel_entry(self.entry, timers.platform.this_cpu())
    }

    /// Cancels the timer as [`HrTimer::cancel`] does, without knowing the type of its closure.
    ///
    /// # Panics
    ///
    /// As [`HrTimer::cancel`].
    #[inline]
    pub fn cancel<P: Platform>(self, timers: &Timers<P>) -> bool {
        timers.cancel_slow(self.entry)
    }

    /// Cancels the timer as [`cancel`](Self::cancel) does, on the fast path, if the timer waits in the far wheel of the
    /// executing CPU and the lock can be taken without a call. Otherwise nothing changes, and the call returns `false`.
    #[inline(always)]
    pub fn cancel_far<P: Platform>(self, timers: &Timers<P>) -> bool {
        timers.try_cancel_fast(self.entry)
    }
}

impl<P: Platform> Timers<P> {
    /// Cancels a far timer of this CPU on the fast path: if the device need not be written and the lock can be taken
    /// without a call. Nearly all cancellations take this path.
    ///
    /// Returns `false`, with nothing done, if the fast path is not possible.
    // Always: as `try_push_out_fast`.
    #[inline(always)]
    fn try_cancel_fast(&self, entry: EntryRef<'_, Hr>) -> bool {
        let Some(me) = self.platform.this_cpu_if_known() else {
            return false;
        };
        if entry.owner_behind(me.base.far_queue()) != 0 {
            return false;
        }
        let Some(mut held) = BaseGuard::try_lock_fast(self, me) else {
            return false;
        };
        self.remove_far(&mut held, entry)
    }

    /// Removes a timer from its queue, on whichever CPU the timer is, and waits for its callback.
    #[inline(never)]
    fn cancel_slow(&self, entry: EntryRef<'_, Hr>) -> bool {
        let me = self.platform.this_cpu();
        self.until_not_running(entry, me, || self.try_cancel_entry(entry, me))
    }

    #[inline]
    fn try_cancel_entry<'a>(
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

    /// Removes a timer from the far wheel of the locked base, which is the base of the executing CPU, if the device
    /// need not be written for that. Returns `false`, with nothing done, if the device has to be written or the timer
    /// is not in that wheel.
    // Always: as `Sleeper::start_far`.
    #[inline(always)]
    pub(super) fn remove_far(&self, held: &mut BaseGuard<'_, P>, entry: EntryRef<'_, Hr>) -> bool {
        let timer = entry.address();
        let state = &mut *held.state;
        let was_cpu_first = state.first_hint == timer;
        if was_cpu_first && !entry.tag().leaves_early() {
            return false;
        }
        if !state.far.remove_here(&mut state.queues, entry) {
            return false;
        }
        // What leaves early leaves the device alone: see `remove`.
        state.armed_early |= was_cpu_first;
        self.note_cancelled(held, timer);
        true
    }

    /// Counts and traces the cancellation of a timer. The owner of the timer already sees it idle and may have freed
    /// it.
    #[inline]
    pub(super) fn note_cancelled(&self, held: &mut BaseGuard<'_, P>, timer: usize) {
        held.state.stats.cancelled += 1;
        if self.platform.is_traced() {
            self.trace_cancel_slow(held.base.cpu(), TimerId(timer));
        }
    }

    /// Reports a cancellation; out of line, so that the caller has no place for the event on its stack.
    #[cold]
    #[inline(never)]
    fn trace_cancel_slow(&self, cpu: CpuId, timer: TimerId) {
        self.platform.trace(Event::Cancel { cpu, timer });
    }

    /// Removes a timer of the locked base from its queue. Returns `false` if the timer is not queued.
    #[inline]
    pub(super) fn remove(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        let timer = entry.address();
        let tag = entry.tag();
        let state = &mut *held.state;
        if tag.may_stand_far() && state.far.remove(&mut state.queues, entry) {
            // It was in the far wheel.
        } else if let Some(was_first) = opened(held, entry).remove() {
            held.state.after_removal(tag.queue(), was_first);
        } else {
            return false;
        }
        // From here on the timer may be gone: its owner sees it idle.
        self.note_cancelled(held, timer);
        let local = me.is_some_and(|me| core::ptr::eq(me.base, held.base));
        // Remote removals and lazy ones leave the device alone: it fires early once, and is armed exactly then (spec
        // CAN-2). So do timeouts. A CPU that is about to sleep has the exact value armed: see `settle_armed`.
        if tag.leaves_early() || (local && tag.is_lazy()) {
            held.state.armed_early |= held.state.first_hint == timer;
        } else if local && held.state.first_hint == timer && !held.leave_to_rearm() {
            held.reevaluate(true);
        }
        true
    }
}
