//! Waits of cancellers for a running callback (spec CAN-5, CAN-6).

use tickless_link::entry::EntryRef;
use tickless_link::sync::Ordering;

use crate::base::owner::BaseQueue;
use crate::base::timers::Timers;
use crate::platform::{Platform, ThisCpu};

/// The result of [`try_cancel`](crate::hrtimer::HrTimer::try_cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryCancel {
    /// The timer was neither queued nor running.
    NotActive,
    /// The timer was queued and has been removed from its queue.
    Removed,
    /// The callback is running. If the timer was also queued, it stays queued.
    Running,
}

impl<P: Platform> Timers<P> {
    /// Repeats `attempt`, which dequeues the timer unless its callback runs, until the callback does not run. Returns
    /// true if the timer was queued.
    pub(crate) fn until_not_running<F: BaseQueue>(
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

    /// Returns true if the executing CPU is inside the callback of `entry`.
    pub(crate) fn is_executing<F: BaseQueue>(
        &self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'_, P>>,
    ) -> bool {
        // Relaxed: written by this very CPU.
        me.is_some_and(|me| me.base.executing.load(Ordering::Relaxed) == entry.address())
    }

    /// Waits until a callback that was seen running may have ended (spec CAN-5, CAN-6).
    fn wait_for_callback<'a, F: BaseQueue>(
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
