//! Cancelling (spec ).

use core::pin::Pin;

use tickless_link::entry::EntryRef;

use crate::base::callback::TryCancel;
use crate::base::guard::BaseGuard;
use crate::base::owner::opened;
use crate::base::state::Change;
use crate::base::timers::Timers;
use crate::exact::family::Hr;
use crate::hrtimer::timer::{Expired, HrTimer};
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::time::ClockId;
use crate::trace::{Event, TimerId};

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
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
    pub fn try_cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> TryCancel {
        timers.try_cancel_entry(self.erase(), timers.platform.this_cpu())
    }

    /// Takes the timer out of its queue and waits until its callback does not run; says whether it was queued.
    ///
    /// On return the timer is idle, unless another thread started it meanwhile: the caller stops those first.
    ///
    /// # Panics
    ///
    /// When called from the timer's own callback, where it would wait for itself (spec CAN-4).
    ///
    /// # Interrupt context
    ///
    /// Not while holding a lock that the callback takes, and not on top of the callback's CPU.
    pub fn cancel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        let entry = self.erase();
        let me = timers.platform.this_cpu();
        timers.until_not_running(entry, me, || timers.try_cancel_entry(entry, me))
    }

    /// Takes the timer out of use: it is not started again, by its running callback neither. Waits until its callback
    /// does not run; says whether it was queued.
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

    /// Whether the caller is inside the callback of `timer`, where [`cancel`](Self::cancel) must not be called.
    pub fn is_own_callback<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        timers.is_executing(self.erase(), timers.platform.this_cpu())
    }
}

impl<P: Platform> Timers<P> {
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
    pub(super) fn remove(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Hr>,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        let timer = entry.address();
        let (index, lazy) = (entry.tag().queue(), entry.tag().is_lazy());
        let far_exact = entry.tag().is_far_exact();
        let state = &mut *held.state;
        if far_exact && state.far.remove(&mut state.queues, entry) {
            // It was in the far wheel.
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
        // CAN-2). So do timeouts. A CPU that is about to sleep has the exact value armed: see `settle_armed`.
        if far_exact || (local && lazy) {
            held.state.armed_early |= held.state.first_hint == timer;
        } else if local && held.state.first_hint == timer && !held.leave_to_rearm(Change::Removal) {
            held.reevaluate(true);
        }
        true
    }
}
