//! The states of a sleep, and its timer with slack, which is made where it is pinned.

use std::pin::Pin;
use std::task::Waker;

use tickless_link::lazy_init::{LazyInit, Made};

use super::super::slack::Slack;
use super::super::sleep_queue::SleepQueue;

tickless_link::stages! {
    /// The states of a [`SleepTimer`]. The timer is made where it is pinned, at the first poll or reset.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum SleepState {
        unmade {
            /// The timer has a duration and was never polled: the clock was read when the sleep was made and is not
            /// read again for the first poll. If the deadline is over by then, the timer is started in the past and
            /// fires at once.
            Fresh,
            /// The timer does not exist, because it was never polled or was destroyed: it is not queued.
            Unmade,
        }
        made {
            /// The timer is not queued, and got another deadline since it was queued last or before it was ever queued.
            Idle,
            /// The timer is queued, unless it fired meanwhile.
            Armed,
            /// The deadline of the timer has passed, and the poll of a task was ready. The timer keeps the waker of
            /// this task for a reset.
            Elapsed,
            /// The sleep is armed on a virtual clock, unless it fired there meanwhile. The timer of the host is idle,
            /// and keeps the ticket of the sleep.
            Virtual,
        }
    }
}

/// A timer with its state and its slack. The slack was set, or was taken from the thread when the timer was queued
/// first.
pub(super) type Timer<T> = LazyInit<Option<Slack>, SleepState, T>;

/// A timer that exists and is armed.
pub(super) type Armed<'t, T> = Made<'t, Option<Slack>, SleepState, T>;

/// Parts of a [`Timer`].
pub(super) trait Parts<T> {
    /// Returns the timer if the state is armed.
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>>;

    /// Returns the slot where the timer keeps a waker for its next start, if the timer exists and is not queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;
}

impl<T: SleepQueue> Parts<T> for Timer<T> {
    #[inline(always)]
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>> {
        self.value().filter(|_| self.stage() == SleepState::Armed)
    }

    #[inline]
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.parts().1.and_then(T::idle_waker)
    }
}
