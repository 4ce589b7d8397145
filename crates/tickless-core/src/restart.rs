//! The result of a timer's callback, for exact and coarse timers.

use core::task::Waker;

/// The result of a callback, which decides if the timer is started again.
#[derive(Debug)]
pub enum Restart {
    /// The timer is done, unless another thread started it meanwhile.
    No,
    /// The timer is queued again for the time that the callback left in its argument, unless another thread started it
    /// meanwhile: then that start counts (spec OBJ-13). Nor is it queued when it was shut down.
    Yes,
    /// The timer does not restart, as with [`No`](Restart::No), and the waker is used after the library has let go of
    /// the timer. The woken task may free the timer.
    NoThenWake(Waker),
}
