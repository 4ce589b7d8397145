//! The reactor's record of a descriptor, with the tasks that wait for it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use slab::Slab;

use crate::host::sys::descriptors::epoll::EventFlags;

/// Direction of a task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// Returns the events that a direction watches.
    const fn interest(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN.union(EventFlags::RDHUP),
            Self::Write => EventFlags::OUT,
        }
    }

    /// Returns the events that end the wait: an operation that fails does not block either.
    const fn ends(self) -> EventFlags {
        self.interest()
            .union(EventFlags::HUP)
            .union(EventFlags::ERR)
    }
}

/// The place of a future among those that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    place: usize,
    /// Number of times that the descriptor was ready before.
    turn: u64,
}

/// Tasks that wait for one direction.
#[derive(Debug, Default)]
struct Queue {
    /// Number of times that the descriptor was ready.
    turn: u64,
    wakers: Slab<Option<Waker>>,
}

#[derive(Debug, Default)]
struct State {
    reads: Queue,
    writes: Queue,
    /// True if nothing is watched any more.
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

    /// The wakers of all that wait.
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

    /// Waits on: `arm` gets the union of the waits, and returns the error if it cannot be had.
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

    /// The future waits no more.
    pub(crate) fn forget(&self, direction: Direction, waiting: &Waiting) {
        let waker = self
            .lock()
            .queue(direction)
            .wakers
            .try_remove(waiting.place);
        drop(waker);
    }

    /// The descriptor is ready for that: who has to be woken. All are, for the watch is over for both directions; those
    /// that wait for the other one ask for it again.
    pub(crate) fn ready(&self, flags: EventFlags) -> Vec<Waker> {
        let mut state = self.lock();
        for direction in [Direction::Read, Direction::Write] {
            if flags.intersects(direction.ends()) {
                state.queue(direction).turn += 1;
            }
        }
        state.take_wakers()
    }

    /// Ends all watching; returns the wakers of the tasks that have to learn it.
    pub(crate) fn close(&self) -> Vec<Waker> {
        let mut state = self.lock();
        state.is_closed = true;
        state.take_wakers()
    }
}
