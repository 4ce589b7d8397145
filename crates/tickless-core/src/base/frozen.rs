//! A base that its host holds still, to copy it.

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
    /// Locks the base until the result is dropped: no other thread changes it meanwhile.
    ///
    /// For a host that copies itself, as a fork does: with every base frozen the copy is consistent. Bases are frozen
    /// in the order of their numbers.
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

    /// Gives up what a thread that is gone was in the middle of here: a callback counts as finished with
    /// [`Restart::No`](crate::hrtimer::Restart::No), an interrupt as ended. The device is not armed:
    /// [`retrigger`](crate::base::Timers::retrigger) does that. Has `free` free the locks around those callbacks.
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

    /// Abandons the base as [`abandon`](Self::abandon) does, for a base on which the thread that is left executes a
    /// callback itself, as CPU `own`: that goes on, and of the others' only what they did on the wheels is given up. No
    /// two threads share an interrupt.
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

    /// Takes every timer out of the queues, as if it had been cancelled; what it would wake stays in it. For timers
    /// whose memory, stacks of threads that are gone, will serve other purposes.
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
