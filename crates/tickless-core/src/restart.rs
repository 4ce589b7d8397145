//! The result of a timer's callback, for exact and coarse timers.

use core::task::Waker;

/// The result of a callback, which decides if the timer is started again.
#[derive(Debug)]
pub enum Restart {
    /// The timer does not restart. If another thread started it meanwhile, that start counts.
    No,
    /// The timer is queued again for the time that the callback left in its argument. If another thread started it
    /// meanwhile, that start counts instead; if the timer was shut down, it is not queued.
    Yes,
    /// The timer does not restart, as with [`No`](Restart::No), and the waker is woken after the last access to the
    /// timer. The woken task may free the timer.
    NoThenWake(Waker),
}
