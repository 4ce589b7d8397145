//! The reactor's record of a descriptor, with the tasks that wait for it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use slab::Slab;

use crate::host::sys::descriptors::epoll::EventFlags;

/// The direction of a task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// Returns the events that the direction watches.
    const fn interest(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN.union(EventFlags::RDHUP),
            Self::Write => EventFlags::OUT,
        }
    }

    /// Returns the events that end the wait; errors are among them, because an operation that fails does not block
    /// either.
    const fn ends(self) -> EventFlags {
        self.interest()
            .union(EventFlags::HUP)
            .union(EventFlags::ERR)
    }
}

/// The place of a future among the waiting futures of its descriptor.
#[derive(Debug)]
pub(crate) struct Waiting {
    place: usize,
    /// The number of times that the descriptor was ready before the wait began.
    turn: u64,
}

/// The tasks that wait for one direction.
#[derive(Debug, Default)]
struct Queue {
    /// The number of times that the descriptor was ready.
    turn: u64,
    wakers: Slab<Option<Waker>>,
}

#[derive(Debug, Default)]
struct State {
    reads: Queue,
    writes: Queue,
    /// True if the descriptor is no longer watched.
    is_closed: bool,
}

impl State {
    fn queue(&mut self, direction: Direction) -> &mut Queue {
        match direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        }
    }

    /// Returns the events that the waiting tasks watch.
    fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        for (queue, direction) in [
            (&self.reads, Direction::Read),
            (&self.writes, Direction::Write),
        ] {
            if !queue.wakers.is_empty() {
                interest |= direction.interest();
            }
        }
        interest
    }

    /// Returns the wakers of all waiting tasks.
    fn take_wakers(&mut self) -> Vec<Waker> {
        let queues = [&mut self.reads, &mut self.writes];
        let places = queues.into_iter().flat_map(|queue| queue.wakers.iter_mut());
        places.filter_map(|(_, waker)| waker.take()).collect()
    }
}

/// A descriptor that is watched.
#[derive(Debug, Default)]
pub(crate) struct Source(Mutex<State>);

impl Source {
    fn lock(&self) -> MutexGuard<'_, State> {
        // `arm` alone is called under it, and does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls a wait. `arm` gets the union of the events that all waits need, and returns an error if these events
    /// cannot be watched.
    pub(crate) fn poll<E>(
        &self,
        direction: Direction,
        waiting: &mut Option<Waiting>,
        waker: &Waker,
        arm: impl FnOnce(EventFlags) -> Result<(), E>,
    ) -> Poll<Result<bool, E>> {
        // Foreign code, which runs outside of the lock: it may panic, or ask for another descriptor.
        let waker = waker.clone();
        let mut state = self.lock();
        let is_closed = state.is_closed;
        let queue = state.queue(direction);
        let turn = queue.turn;
        if let Some(before) = waiting.as_ref()
            && (is_closed || before.turn != turn)
        {
            queue.wakers.try_remove(before.place);
            *waiting = None;
            return Poll::Ready(Ok(!is_closed));
        }
        if is_closed {
            return Poll::Ready(Ok(false));
        }
        let place = waiting.get_or_insert_with(|| Waiting {
            place: queue.wakers.insert(None),
            turn,
        });
        let before = queue.wakers[place.place].replace(waker);
        // An event since may have ended the watch of both directions: asked for again, always.
        let armed = arm(state.interest());
        if armed.is_err()
            && let Some(waiting) = waiting.take()
        {
            state.queue(direction).wakers.try_remove(waiting.place);
        }
        drop(state);
        // A foreign destructor.
        drop(before);
        match armed {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Removes a future that no longer waits.
    pub(crate) fn forget(&self, direction: Direction, waiting: &Waiting) {
        let waker = self
            .lock()
            .queue(direction)
            .wakers
            .try_remove(waiting.place);
        drop(waker);
    }

    /// Returns the wakers of the tasks to wake when the descriptor is ready for `flags`. All waiting tasks are woken,
    /// because the event ended the watch for both directions; tasks that wait for the other direction request the watch
    /// again.
    pub(crate) fn ready(&self, flags: EventFlags) -> Vec<Waker> {
        let mut state = self.lock();
        for direction in [Direction::Read, Direction::Write] {
            if flags.intersects(direction.ends()) {
                state.queue(direction).turn += 1;
            }
        }
        state.take_wakers()
    }

    /// Ends the watch for both directions. Returns the wakers of the tasks that have to be notified.
    pub(crate) fn close(&self) -> Vec<Waker> {
        let mut state = self.lock();
        state.is_closed = true;
        state.take_wakers()
    }
}
