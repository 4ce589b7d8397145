//! The events that a worker gets from an epoll instance on which it waits.

use std::fmt;

use crate::host::sys::descriptors::epoll::{Event, EventData, EventFlags};

/// A buffer for events of an epoll instance; the buffer holds the events of the last
/// [`Worker::park_on_epoll`](super::Worker::park_on_epoll).
///
/// Cost: the buffer allocates memory when it is made, and never again.
pub struct EpollEvents {
    room: Box<[Event]>,
    ready: usize,
}

/// An event of an epoll instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpollEvent {
    /// The readiness of the descriptor, as in `epoll_event.events`: `EPOLLIN` is 1.
    pub readiness: u32,
    /// The value that the descriptor was registered with, as in `epoll_event.data`.
    pub data: u64,
}

impl EpollEvents {
    /// Makes a buffer for `capacity` events.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        Self {
            room: vec![nothing; capacity].into(),
            ready: 0,
        }
    }

    /// Returns the number of events that the last wait found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready
    }

    /// Returns true if the last wait found no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Returns the events that the last wait found.
    pub fn iter(&self) -> impl Iterator<Item = EpollEvent> + '_ {
        self.room[..self.ready].iter().map(|event| {
            // Copied first: the kernel's layout may be packed.
            let Event { flags, data } = *event;
            EpollEvent {
                readiness: flags.bits(),
                data: data.u64(),
            }
        })
    }

    /// Lets `wait` fill the buffer; `wait` returns the number of events.
    pub(crate) fn fill<E>(
        &mut self,
        wait: impl FnOnce(&mut [Event]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.ready = 0;
        self.ready = wait(&mut self.room)?;
        Ok(())
    }
}

impl fmt::Debug for EpollEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
