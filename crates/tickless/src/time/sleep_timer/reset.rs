//! New deadlines for sleeps. A reset pushes the sleep out in place if possible, moves it in its queue, or stores the
//! deadline for the next poll.

use std::pin::Pin;

use tickless_core::base::TimerQueue;
use tickless_core::time::Instant;

use super::super::slack::Slack;
#[cfg(feature = "tokio-test-util")]
use super::super::virtual_time::companion;
#[cfg(feature = "worker")]
use super::on_virtual_clock;
use super::{Parts, SleepState, SleepTimer, is_over, latest, queue, restart, restart_in_place};
use crate::host::thread::note_pushed_out;
use crate::host::wake;

impl<T: TimerQueue> SleepTimer<T> {
    #[inline]
    pub(crate) fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        #[cfg(feature = "tokio-test-util")]
        companion::reset(std::ptr::from_ref(&*self).addr(), deadline);
        let this = self.as_mut().project();
        let is_exact = !T::IS_EXACT || *this.timer.note() == Some(Slack::NONE);
        if is_exact
            && let Some(timer) = this.timer.as_ref().armed()
            && restart_in_place(timer, deadline, deadline)
        {
            *this.deadline = deadline;
            note_pushed_out(this.deadline);
            return;
        }
        self.reset_slow(deadline);
    }

    /// Works as [`reset`](Self::reset), for a timer that has slack, has to be moved, or is not armed.
    #[inline(never)]
    fn reset_slow(mut self: Pin<&mut Self>, deadline: Instant) {
        let mut this = self.as_mut().project();
        *this.deadline = deadline;
        let slack = this.timer.note().unwrap_or(Slack::NONE);
        if let Some(timer) = this.timer.as_ref().armed() {
            // The caller tried this for an exact one.
            let has_slack = T::IS_EXACT && !slack.is_none();
            if has_slack && restart_in_place(timer, deadline, latest::<T>(slack, deadline)) {
                return;
            }
        }
        let is_virtual = wake::ensure_expiry_thread_or_virtual();
        #[cfg(feature = "worker")]
        if let Some(ticket) = on_virtual_clock::ticket(this.timer.as_mut()) {
            // If it fired its waker is used up, as below.
            if !ticket.reset(deadline) {
                this.timer.set_stage(SleepState::Idle);
            }
            return;
        }
        if let Some(timer) = this.timer.as_ref().armed()
            && restart(timer, deadline, slack)
        {
            return;
        }
        let was_told = this.timer.stage() == SleepState::Elapsed;
        this.timer.as_mut().make(SleepState::Idle, T::new);
        this.timer.as_mut().set_stage(SleepState::Idle);
        let kept = this.timer.as_mut().idle_waker().filter(|_| was_told);
        let Some(waker) = kept.and_then(Option::take) else {
            // If it fired unseen its waker is used up, so the task polls again anyway.
            return;
        };
        // The task was told that the time had come, and may wait for the next one without polling, as in tokio.
        if is_over(deadline) {
            return waker.wake();
        }
        #[cfg(feature = "worker")]
        if is_virtual {
            let _waits = self.arm_virtual(waker);
            return;
        }
        drop(queue(this.timer.as_mut(), deadline, waker));
        this.timer.set_stage(SleepState::Armed);
    }

    /// Resets as [`reset`](Self::reset) does, but a task that was woken for the old deadline is not woken again before
    /// it polls.
    #[inline]
    pub(crate) fn retime(mut self: Pin<&mut Self>, deadline: Instant) {
        let this = self.as_mut().project();
        if this.timer.stage() == SleepState::Elapsed {
            *this.deadline = deadline;
            this.timer.set_stage(SleepState::Idle);
        } else {
            self.reset(deadline);
        }
    }
}
