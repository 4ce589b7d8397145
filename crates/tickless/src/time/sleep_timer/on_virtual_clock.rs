//! Sleeps on threads with a virtual clock. They wait in the queue of the virtual clock, and the host's timer stays
//! idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tickless_core::base::TimerQueue;
use tickless_core::time::Instant;

use super::super::virtual_time::ticket::{self, Ticket, Waits};
use super::super::virtual_time::{self, FAR};
use super::{Parts, SleepState, SleepTimer, Timer, is_over};
use crate::host::registry::timers;
use crate::host::thread::shown_now_lower;
use crate::host::wake;

/// Returns the ticket of a timer that waits for a virtual clock.
pub(super) fn ticket<T: TimerQueue>(timer: Pin<&mut Timer<T>>) -> Option<Arc<Ticket>> {
    if timer.stage() != SleepState::Virtual {
        return None;
    }
    ticket::find(timer.idle_waker()?.as_ref()?)
}

impl<T: TimerQueue> SleepTimer<T> {
    /// Arms a timer that is not queued on the virtual clock of this thread, unless the clock has passed the deadline.
    #[cold]
    #[inline(never)]
    pub(super) fn arm_virtual(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        let mut this = self.project();
        if *this.deadline >= Instant::LATEST {
            // A clock that nothing holds up comes to whatever is told it, so it is told tokio's "never". If that is
            // beyond the range, it never comes.
            *this.deadline = shown_now_lower().saturating_add(FAR);
        }
        this.timer.as_mut().make(SleepState::Idle, T::new);
        let armed = if is_over(*this.deadline) {
            None
        } else {
            virtual_time::arm(*this.deadline, &waker, false)
        };
        let (kept, stage) = match armed {
            Some(ticket) => (ticket, SleepState::Virtual),
            None => (waker, SleepState::Elapsed),
        };
        let slot = this.timer.as_mut().idle_waker();
        let old = slot.and_then(|slot| slot.replace(kept));
        this.timer.as_mut().set_stage(stage);
        drop(old);
        if stage == SleepState::Elapsed {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Returns true if the sleep waits for a virtual clock and continues to wait, for the task of `waker`. Otherwise
    /// the sleep is armed nowhere, or in a queue of the host on a thread without a virtual clock.
    pub(super) fn waits_virtually(mut self: Pin<&mut Self>, waker: &Waker) -> bool {
        let mut this = self.as_mut().project();
        if this.timer.stage() == SleepState::Virtual {
            let is_over = is_over(*this.deadline);
            let ticket = ticket(this.timer.as_mut());
            match ticket.map_or(Waits::Nowhere, |ticket| ticket.poll(is_over, waker)) {
                Waits::On => return true,
                Waits::Over => return false,
                // It waits for the clock of the thread that polls it.
                Waits::Nowhere => this.timer.as_mut().set_stage(SleepState::Idle),
            }
        } else if this.timer.stage() == SleepState::Armed && wake::is_virtual() {
            // Armed before the clock was paused.
            let old = this
                .timer
                .as_ref()
                .armed()
                .and_then(|timer| timer.cancel(timers()));
            drop(old);
            this.timer.as_mut().set_stage(SleepState::Idle);
        }
        false
    }
}
