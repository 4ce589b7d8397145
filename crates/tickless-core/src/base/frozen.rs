//! Bases that a host keeps locked while it copies itself, as in a fork.

use core::fmt;

use tickless_link::LastThread;
use tickless_link::lock::{Guard, RawLock};
use tickless_link::sync::Ordering;

use crate::base::cpu_base::CpuBase;
use crate::base::expirer::BaseTypes;
use crate::base::state::{BaseState, DeferredRearm};
use crate::cpu::CpuId;
use crate::exact::family::NEAR;
use crate::time::Deadline;

impl<P: BaseTypes> CpuBase<P> {
    /// Locks the base until the result is dropped, so that no other thread changes the base meanwhile.
    ///
    /// A host that copies itself, as a fork does, freezes every base, so that the copy is consistent. It freezes the
    /// bases in the order of their numbers.
    pub fn freeze(&self, token: Option<<P::Lock as RawLock>::Token>) -> Frozen<'_, P> {
        Frozen {
            base: self,
            state: self.state.lock(token),
        }
    }
}

/// A base that no other thread can change.
pub struct Frozen<'a, P: BaseTypes> {
    base: &'a CpuBase<P>,
    state: Guard<'a, P::Lock, BaseState>,
}

impl<P: BaseTypes> Frozen<'_, P> {
    /// Returns the number of the CPU.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.base.cpu()
    }

    /// Ends the work that threads which no longer exist were doing on this base: a running callback counts as finished
    /// with [`Restart::No`](crate::hrtimer::Restart::No), and an interrupt as ended. Calls `free` to unlock the expiry
    /// locks around those callbacks. Does not arm the device; [`retrigger`](crate::base::Timers::retrigger) does.
    pub fn abandon(&mut self, others_are_gone: &LastThread, mut free: impl FnMut(&P::ExpiryLock)) {
        for queue in self.state.queues.iter_mut() {
            queue.tree.abandon_running(others_are_gone);
        }
        self.base.exact.end(&mut free);
        self.abandon_passes(others_are_gone, None, free);
        self.state.deferred = DeferredRearm::Clear;
        self.state.soft_pending = false;
        self.base.executing.store(0, Ordering::Relaxed);
        self.base.kicked.store(false, Ordering::Relaxed);
    }

    /// After a fork: ends the wheel passes of threads that no longer exist, and abandons the rest of the base as
    /// [`abandon`](Self::abandon) does. Keeps the callback that the surviving thread runs as CPU `own`.
    pub fn abandon_passes(
        &mut self,
        others_are_gone: &LastThread,
        own: Option<CpuId>,
        mut free: impl FnMut(&P::ExpiryLock),
    ) {
        let base = self.base;
        for (wheel, expirers) in self.state.wheels.iter_mut().zip(&base.coarse) {
            wheel.abandon(others_are_gone, own, |place| {
                expirers[place].end(&mut free);
            });
        }
    }

    /// Removes every timer from the queues as if it had been cancelled, and leaves the wakers in the timers. A host
    /// calls this function for timers on the stacks of threads that no longer exist, because that memory will be used
    /// again.
    pub fn discard(&mut self, _others_are_gone: &LastThread) {
        let state = &mut *self.state;
        for queue in state.queues.iter_mut() {
            while let Some(mut slot) = queue.tree.open_first() {
                slot.remove();
            }
            queue.first_deadline = Deadline::FOREVER;
        }
        state.far.clear(&mut state.queues[NEAR].tree);
        state.queues.active = 0;
        for wheel in &mut state.wheels {
            wheel.discard();
        }
    }
}

impl<P: BaseTypes> fmt::Debug for Frozen<'_, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Frozen").field(&self.base).finish()
    }
}
