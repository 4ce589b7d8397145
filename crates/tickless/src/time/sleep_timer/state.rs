//! The states of a sleep, and the timer that is made where it is pinned, with its slack.

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
            /// The timer has a duration and was never polled: the clock was read just before and is not read for the
            /// first poll. Should more time have passed, the timer is started in the past and fires at once.
            Fresh,
            /// The timer was never polled, or was destroyed: it is not queued.
            Unmade,
        }
        made {
            /// The timer got another deadline since it was queued last, or before it ever was: it is not queued.
            Idle,
            /// The timer is queued, unless it fired meanwhile.
            Armed,
            /// The time of the timer has come, and a task was told. The timer keeps the waker of that task, for a
            /// reset.
            Elapsed,
            /// The sleep is armed on a virtual clock, unless it fired there meanwhile. The timer is idle, and keeps its
            /// ticket.
            Virtual,
        }
    }
}

/// The slack that was said, or taken over from the thread when it was queued first; the state; and the timer.
pub(super) type Timer<T> = LazyInit<Option<Slack>, SleepState, T>;

/// A timer that is made; here, one that is armed.
pub(super) type Armed<'t, T> = Made<'t, Option<Slack>, SleepState, T>;

/// Parts of a [`Timer`].
pub(super) trait Parts<T> {
    /// The timer, if the state is armed.
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>>;

    /// Returns the slot where the timer keeps a waker for the next time, if it is made and not queued.
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
