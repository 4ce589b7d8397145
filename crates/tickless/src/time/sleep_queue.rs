//! The trait through which [`SleepTimer`](super::sleep_timer::SleepTimer) uses the two queues in which a sleep can
//! wait: the exact queue and the wheel.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::Waker;

use tickless_core::base::TaskTimer;
use tickless_core::time::Instant;
use tickless_link::emplace::Emplaced;

/// A timer that wakes a task, exact or coarse. It MAY be late, and MUST NOT be early.
///
/// Starting, restarting and ending a timer each have a fast path and a slow path. The fast path may refuse and change
/// nothing. The slow path is the function of [`TaskTimer`].
pub(crate) trait SleepQueue: TaskTimer<When: Copy> {
    /// True if a timer can have slack.
    const HAS_SLACK: bool;

    /// Makes a timer that is not started.
    fn new() -> Self;

    /// The arguments of a timer that is about to be made and started.
    type New;

    /// Makes, at its final address, the timer that [`start_new`](Self::start_new) starts.
    fn emplace(slot: &mut MaybeUninit<Self>, new: Self::New) -> Emplaced<'_, Self>;

    /// Returns true if the timer waits to fire.
    fn is_queued(&self) -> bool;

    /// Returns the place where a timer that is not queued keeps a waker for its next start; `None` if the timer is
    /// queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;

    /// Returns the argument of a start that fires at `deadline` or, if the timer can have slack, at `latest` at the
    /// latest.
    fn when(deadline: Instant, latest: Instant) -> Self::When;

    /// Starts a timer that `put` [makes](Self::emplace) at its final address, for the times that [`when`](Self::when)
    /// takes. This is the fast path of a start.
    ///
    /// # Errors
    ///
    /// The waker, if the fast path would not be cheaper than [`start`](TaskTimer::start). `put` was not called then,
    /// and nothing was changed.
    fn start_new<'t>(
        put: impl FnOnce(Self::New) -> Pin<&'t mut Self>,
        deadline: Instant,
        latest: Instant,
        waker: Waker,
    ) -> Result<(), Waker>
    where
        Self: 't;

    /// Restarts a queued timer in place, for the times that [`when`](Self::when) takes, if the restart needs no clock
    /// and no other thread has to notice it. Returns `false`, and changes nothing, otherwise.
    fn restart_in_place(self: Pin<&Self>, deadline: Instant, latest: Instant) -> bool;

    /// Ensures that a thread fires a timer in time that was started for `when`.
    fn publish(when: Self::When);
}
