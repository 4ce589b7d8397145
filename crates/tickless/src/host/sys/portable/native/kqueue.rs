//! Sleeps and wake-ups by `kqueue`, on top of the calls of a system.
//!
//! A thread sleeps in a queue of its own, which holds a timer that fires once and a bell that other threads ring. One
//! call sets the timer and waits. The device of an event loop is a queue with a timer alone: a queue is readable while
//! something in it happened, so it can be polled, and watched by another queue.
//!
//! A timer that is still set when a sleep ends for another reason is replaced by the next one, and one that fired
//! meanwhile ends the next sleep for no reason, after which the caller looks at the clock.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::host::sys::portable::sleeper::Sleeper;

/// The calls of a system.
pub(super) trait Calls: 'static {
    /// A change of a queue, or something that happened in it.
    type Event: Copy;

    /// Makes a queue, which a program that this one executes does not get.
    fn queue() -> io::Result<OwnedFd>;

    /// Returns the change that sets the timer of a queue, which fires once, in `left` nanoseconds.
    fn timer(left: u64) -> Self::Event;

    /// Returns the change that takes the timer back; the system answers with an error if there is none.
    fn no_timer() -> Self::Event;

    /// Returns the change that puts a bell into a queue.
    fn bell() -> Self::Event;

    /// Returns the change that rings it. Rung twice before anything waits, it is as if rung once.
    fn ring() -> Self::Event;

    /// Makes `changes`, and waits for something to happen unless `room` is empty or `waits` is false. Returns how many
    /// things happened; they happened once.
    fn call(
        queue: BorrowedFd<'_>,
        changes: &[Self::Event],
        room: &mut [Self::Event],
        waits: bool,
    ) -> io::Result<usize>;
}

/// A queue that one thread sleeps in.
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

/// Takes what happened in a queue; `false` if nothing did.
pub(super) fn drain_timer<C: Calls>(queue: BorrowedFd<'_>) -> bool {
    C::call(queue, &[], &mut [C::no_timer()], false).is_ok_and(|happened| happened > 0)
}

#[cfg(test)]
pub(crate) use tests::FakeQueue;

#[cfg(test)]
mod tests;
