//! Deletion and shutdown of coarse timers (spec C-1.10).

use core::pin::Pin;

use tickless_link::entry::EntryRef;

use crate::base::callback::TryCancel;
use crate::base::guard::BaseGuard;
use crate::base::owner::kind_of;
use crate::base::timers::Timers;
use crate::coarse::timer::WheelTimer;
use crate::cpu::CpuId;
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::trace::{Event, TimerId};
use crate::wheel::family::{Coarse, Timeout, WheelKind};

impl<F> WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    /// Cancels the timer. Returns true if it was queued. Does not wait for a callback that runs.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context, from the timer's own callback too. Never waits.
    ///
    /// # Cost
    ///
    /// One load for a timer that is not queued. One lock and O(1) otherwise. Afterwards the first due tick of the wheel
    /// may be too early, which costs one useless check.
    pub fn delete<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        timers.delete_entry(self.erase())
    }

    /// Cancels the timer as [`delete`](Self::delete) does, on the fast path. The fast path requires that the timer is
    /// on a wheel of the executing CPU, that its callback does not run, and that the lock can be taken without a call.
    /// Otherwise nothing changes, and the call returns `None`.
    #[inline]
    pub fn delete_own<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<bool> {
        timers.delete_own(self.erase())
    }

    /// Cancels the timer, unless its callback runs.
    ///
    /// # Interrupt context
    ///
    /// As [`delete`](Self::delete).
    pub fn try_delete_sync<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> TryCancel {
        timers.try_delete_entry(self.erase(), timers.executing_cpu())
    }

    /// Cancels the timer and waits until its callback does not run. Returns true if the timer was queued.
    ///
    /// On return the timer is idle, unless another thread armed it meanwhile. A caller that must exclude this first
    /// stops the threads that arm the timer, or [shuts the timer down](Self::shutdown_sync).
    ///
    /// # Panics
    ///
    /// When called from the timer's own callback, which would wait for itself.
    ///
    /// # Interrupt context
    ///
    /// The caller must hold no lock that the callback takes, and must not interrupt the callback on its CPU.
    pub fn delete_sync<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        let entry = self.erase();
        if entry.state().is_idle() {
            return false;
        }
        // Its callback does not run, if this is the usual case.
        timers
            .delete_own(entry)
            .unwrap_or_else(|| timers.delete_entry_sync(entry))
    }

    /// Cancels the timer for good: no later arming has an effect, not even an arming by its running callback. Returns
    /// true if the timer was queued. Does not wait for a callback that runs.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context, from the timer's own callback too.
    ///
    /// # Cost
    ///
    /// One lock, also for a timer that looks inactive: without the lock, the shutdown would miss an arming between the
    /// check and the shutdown.
    pub fn shutdown<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        let entry = self.erase();
        let mut held = timers.lock_base_of(entry, timers.executing_cpu());
        timers.shut(&mut held, entry)
    }

    /// Shuts the timer down as [`shutdown`](Self::shutdown) does, and waits until the callback does not run. On return
    /// the timer is idle, and no later arming has an effect. Returns true if the timer was queued.
    ///
    /// # Panics
    ///
    /// As [`delete_sync`](Self::delete_sync).
    ///
    /// # Interrupt context
    ///
    /// As [`delete_sync`](Self::delete_sync).
    pub fn shutdown_sync<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        let entry = self.erase();
        let me = timers.executing_cpu();
        timers.until_not_running(entry, me, || {
            let mut held = timers.lock_base_of(entry, me);
            // Only the attempt that finds the callback not running shuts: one that ran may have armed the timer again,
            // which is then taken out by the same attempt (R14).
            if entry.state().is_running() {
                return TryCancel::Running;
            }
            if timers.shut(&mut held, entry) {
                TryCancel::Removed
            } else {
                TryCancel::NotActive
            }
        })
    }
}

impl<P: Platform> Timers<P> {
    pub(crate) fn delete_entry(&self, entry: EntryRef<'_, Coarse>) -> bool {
        if !entry.state().is_queued() {
            return false;
        }
        self.delete_own(entry)
            .unwrap_or_else(|| self.delete_slow(entry))
    }

    /// Removes a timer from its wheel, on whichever CPU the wheel is, and waits for the timer's callback.
    #[cold]
    fn delete_entry_sync(&self, entry: EntryRef<'_, Coarse>) -> bool {
        let me = self.executing_cpu();
        self.until_not_running(entry, me, || self.try_delete_entry(entry, me))
    }

    /// Deletes as [`delete_entry`](Self::delete_entry) does, on whichever CPU the timer is.
    #[cold]
    fn delete_slow(&self, entry: EntryRef<'_, Coarse>) -> bool {
        let mut held = self.lock_base_of(entry, self.executing_cpu());
        let kind = kind_of(&held, entry);
        self.dequeue(&mut held, entry, kind)
    }

    fn try_delete_entry<'a>(
        &'a self,
        entry: EntryRef<'_, Coarse>,
        me: Option<ThisCpu<'a, P>>,
    ) -> TryCancel {
        if entry.state().is_idle() {
            return TryCancel::NotActive;
        }
        let mut held = self.lock_base_of(entry, me);
        if entry.state().is_running() {
            return TryCancel::Running;
        }
        let kind = kind_of(&held, entry);
        if self.dequeue(&mut held, entry, kind) {
            TryCancel::Removed
        } else {
            TryCancel::NotActive
        }
    }

    /// Shuts down a timer of the locked base. Returns true if the timer was queued.
    fn shut(&self, held: &mut BaseGuard<'_, P>, entry: EntryRef<'_, Coarse>) -> bool {
        let kind = kind_of(held, entry);
        let was_queued = self.dequeue(held, entry, kind);
        // Not freed meanwhile: the caller of the operation has it borrowed.
        held.state.wheels[kind as usize].opened(entry).shut();
        was_queued
    }

    /// Removes a timer from the wheel of `kind` of the locked base. Returns false if the timer is not queued.
    #[inline]
    pub(crate) fn dequeue(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
    ) -> bool {
        let timer = TimerId(entry.address());
        let wheel = &mut held.state.wheels[kind as usize];
        let Some(left) = wheel.opened(entry).remove() else {
            return false;
        };
        wheel.note_left(left);
        held.state.stats.coarse_cancelled += 1;
        if self.platform.is_traced() {
            self.trace_cancelled_coarse_slow(held.base.cpu(), kind, timer);
        }
        true
    }

    /// Reports a cancellation; out of line, so that the caller has no place for the event on its stack.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_cancelled_coarse_slow(&self, cpu: CpuId, kind: WheelKind, timer: TimerId) {
        self.platform.trace(Event::WheelCancel { cpu, kind, timer });
    }
}
