//! Sleeps and wake-ups by `kqueue`, on top of the calls of a system.
//!
//! A thread sleeps in a queue of its own, which holds a timer that fires once and a bell that other threads ring. One
//! call sets the timer and waits. The device of an event loop is a queue that holds only a timer: a queue is readable
//! while it has an event, so it can be polled, and another queue can watch it.
//!
//! If a sleep ends for another reason, its timer stays set. The next sleep replaces that timer. If the timer fired
//! meanwhile, it ends the next sleep too early; the caller then reads the clock and sleeps again.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::host::sys::portable::sleeper::Sleeper;

/// The calls of a system that has `kqueue`.
pub(super) trait Calls: 'static {
    /// A change of a queue, or an event that happened in it.
    type Event: Copy;

    /// Makes a queue, which is closed when the process executes another program.
    fn queue() -> io::Result<OwnedFd>;

    /// Returns the change that sets the timer of a queue. The timer fires once, in `left` nanoseconds.
    fn timer(left: u64) -> Self::Event;

    /// Returns the change that removes the timer; the system returns an error if there is none.
    fn no_timer() -> Self::Event;

    /// Returns the change that puts a bell into a queue.
    fn bell() -> Self::Event;

    /// Returns the change that rings the bell. Two rings before a thread waits have the effect of one.
    fn ring() -> Self::Event;

    /// Makes `changes`, and waits for an event unless `room` is empty or `waits` is false. Returns the number of
    /// events; each event is returned once.
    fn call(
        queue: BorrowedFd<'_>,
        changes: &[Self::Event],
        room: &mut [Self::Event],
        waits: bool,
    ) -> io::Result<usize>;
}

/// A queue in which one thread sleeps.
#[derive(Debug)]
pub(crate) struct Queue<C> {
    queue: OwnedFd,
    calls: PhantomData<fn() -> C>,
}

impl<C: Calls> Sleeper for Queue<C> {
    fn make() -> Option<Self> {
        let queue = C::queue().ok()?;
        C::call(queue.as_fd(), &[C::bell()], &mut [], false).ok()?;
        let calls = PhantomData;
        Some(Self { queue, calls })
    }

    fn sleep(&self, left: u64) -> bool {
        // Room for both: what is not taken ends the next sleep.
        let mut happened = [C::timer(left); 2];
        match C::call(self.queue.as_fd(), &[C::timer(left)], &mut happened, true) {
            Ok(_) => true,
            // A signal came: as good a reason to look as any.
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    fn ring(&self) {
        // The system took a bell.
        let _cannot_fail = C::call(self.queue.as_fd(), &[C::ring()], &mut [], false);
    }
}

/// Makes a queue whose timer is not set.
pub(super) fn make_timer<C: Calls>() -> io::Result<OwnedFd> {
    let queue = C::queue()?;
    // A system that refuses timers would never ring.
    C::call(queue.as_fd(), &[C::timer(1)], &mut [], false)?;
    set_timer::<C>(queue.as_fd(), None);
    Ok(queue)
}

/// Sets the timer of a queue to fire in `left` nanoseconds, or never.
pub(super) fn set_timer<C: Calls>(queue: BorrowedFd<'_>, left: Option<u64>) {
    let change = left.map_or_else(C::no_timer, C::timer);
    // Taking back what fired, or was not set, is refused, and nothing is left to take back then.
    let _as_asked = C::call(queue, &[change], &mut [], false);
}

/// Removes the events of a queue; `false` if there were none.
pub(super) fn drain_timer<C: Calls>(queue: BorrowedFd<'_>) -> bool {
    C::call(queue, &[], &mut [C::no_timer()], false).is_ok_and(|happened| happened > 0)
}

#[cfg(test)]
pub(crate) use tests::FakeQueue;

#[cfg(test)]
mod tests;
