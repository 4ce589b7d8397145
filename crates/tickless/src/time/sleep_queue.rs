//! The two queues in which a sleep can wait, exact queue and wheel, behind the trait that
//! [`SleepTimer`](super::sleep_timer::SleepTimer) needs.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::Waker;

use tickless_core::base::TaskTimer;
use tickless_core::time::Instant;
use tickless_link::emplace::Emplaced;

/// A timer that wakes a task, exact or coarse. It MAY be late, and MUST NOT be early.
///
/// Starting, restarting and ending it each have a fast path, which may do nothing and say so, and a slow one, which is
/// that of [`TaskTimer`].
pub(crate) trait SleepQueue: TaskTimer<When: Copy> {
    /// True if it can be given slack.
    const HAS_SLACK: bool;

    /// Makes one that waits for nothing.
    fn new() -> Self;

    /// The arguments of a timer that is about to be made and started.
    type New;

    /// Makes the one that [`start_new`](Self::start_new) starts where it stays.
    fn emplace(slot: &mut MaybeUninit<Self>, new: Self::New) -> Emplaced<'_, Self>;

    /// Returns true if it waits to fire.
    fn is_queued(&self) -> bool;

    /// Returns the place where a timer that is not queued keeps a waker for its next start; `None` if it is queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;

    /// Returns the argument of a start that fires at `deadline` or, if it can be given slack, until `latest`.
    fn when(deadline: Instant, latest: Instant) -> Self::When;

    /// Starts one that `put` [makes](Self::emplace) in its place, for what [`when`](Self::when) is given: the fast path
    /// of a start.
    ///
    /// # Errors
    ///
    /// The waker, where that does not take less than [`start`](TaskTimer::start); `put` was not called, and nothing was
    /// done.
    fn start_new<'t>(
        put: impl FnOnce(Self::New) -> Pin<&'t mut Self>,
        deadline: Instant,
        latest: Instant,
        waker: Waker,
    ) -> Result<(), Waker>
    where
        Self: 't;

    /// Restarts a queued one, for what [`when`](Self::when) is given, if that takes neither a clock nor any other
    /// thread's notice: it stays where it is. `false`, and nothing was done, if it cannot.
    fn restart_in_place(self: Pin<&Self>, deadline: Instant, latest: Instant) -> bool;

    /// Sees to it that a thread comes in time for one that was started for `when`.
    fn publish(when: Self::When);
}
