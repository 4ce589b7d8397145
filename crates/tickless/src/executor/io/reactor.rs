//! The descriptors of an executor, in an epoll instance that its workers wait on.
//!
//! # Ground rules
//!
//! - Each wait of a future arms its descriptor once (`EPOLLONESHOT`), by its level: bytes that can be read already are
//!   reported at once, and an event that no future waits for wakes no worker.
//! - The list of sources has a lock, and each source has a lock. A thread takes them in that order, and never together
//!   with the lock of a run queue. It calls wakers without any lock.
//! - An event names its source by place and number. An event that was fetched while its source was removed matches no
//!   source.
//! - A forked child inherits the epoll instance of its parent, and does not use it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use slab::Slab;
use tickless_core::time::Span;

use super::attendance::{Attendance, Role};
use super::source::{Direction, Source, Waiting};
use crate::host::process;
use crate::host::sys::clocks::timespec;
use crate::host::sys::descriptors::epoll::{self, CreateFlags, EventData, EventFlags};
use crate::host::sys::descriptors::{AsFd, BorrowedFd, OwnedFd};
use crate::worker::EpollEvents;

/// The period in which busy workers check the descriptors while no worker waits for them. A task is notified by up to
/// this time late.
pub(crate) const PERIOD: Span = Span::from_micros(500);

/// The number of events that are fetched at once; further events are fetched by the next call.
pub(crate) const EVENTS: usize = 64;

/// The sources by place.
#[derive(Debug, Default)]
struct Sources {
    places: Slab<(u32, Arc<Source>)>,
    /// The number of the next source. A place that is used again gets a source with another number.
    next: u32,
    is_closed: bool,
}

/// The reactor of an executor.
#[derive(Debug)]
pub(crate) struct IoReactor {
    /// The epoll instance, which is made when the first source is registered.
    epoll: OnceLock<OwnedFd>,
    sources: Mutex<Sources>,
    attendance: Attendance,
    /// The number of forks before the process to which the epoll instance belongs.
    forks: u32,
}

impl IoReactor {
    pub(crate) fn new() -> Self {
        Self {
            epoll: OnceLock::new(),
            sources: Mutex::default(),
            attendance: Attendance::new(),
            forks: process::forks(),
        }
    }

    /// Starts to watch a descriptor.
    pub(super) fn register(
        this: &Arc<Self>,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<Registration> {
        let epoll = this.epoll()?;
        let source = Arc::new(Source::default());
        let mut sources = this.lock();
        if sources.is_closed || !this.is_here() {
            return Err(ended());
        }
        let number = sources.next;
        let place = sources.places.vacant_key();
        // Nothing is asked for until a future waits.
        let data = u64::from(number) << 32 | place as u64;
        let named = EventData::new_u64(data);
        epoll::add(epoll, descriptor, named, EventFlags::ONESHOT)?;
        sources.next = number.wrapping_add(1);
        sources.places.insert((number, Arc::clone(&source)));
        drop(sources);
        this.attendance.add();
        Ok(Registration {
            reactor: Arc::clone(this),
            source,
            place,
            data,
        })
    }

    /// Returns whether there are descriptors. Called by a worker that is about to park, after the worker has announced
    /// this.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.attendance.is_needed()
    }

    /// Returns whether there are descriptors and no worker waits for them.
    pub(crate) fn is_unattended(&self) -> bool {
        self.is_needed() && self.attendance.is_missing()
    }

    /// Takes the role of the worker that waits, if there are descriptors and no other worker has the role. Returns the
    /// role and the descriptor of the epoll instance to wait on.
    pub(crate) fn attend(&self) -> Option<(Role<'_>, BorrowedFd<'_>)> {
        let role = self.attendance.take()?;
        Some((role, self.epoll.get()?.as_fd()))
    }

    /// Dispatches the events that are ready, without waiting, unless another worker waits.
    #[cold]
    pub(crate) fn look(&self, events: &mut EpollEvents) {
        let Some((role, epoll)) = self.attend() else {
            return;
        };
        // What fails now is looked at next time.
        let _failed = events.fill(|room| epoll::wait(epoll, room, Some(&timespec(0))));
        drop(role);
        self.dispatch(events);
    }

    /// Wakes the tasks that waited for these events.
    pub(crate) fn dispatch(&self, events: &EpollEvents) {
        for event in events.iter() {
            let Some(source) = self.source(event.data) else {
                continue;
            };
            let flags = EventFlags::from_bits_retain(event.readiness);
            source.ready(flags).into_iter().for_each(Waker::wake);
        }
    }

    /// Ends the watch of all descriptors and wakes the tasks that wait.
    pub(crate) fn close(&self) {
        let mut sources = self.lock();
        sources.is_closed = true;
        let all: Vec<_> = sources
            .places
            .iter()
            .map(|(_, (_, source))| Arc::clone(source))
            .collect();
        drop(sources);
        for source in all {
            source.close().into_iter().for_each(Waker::wake);
        }
    }

    fn is_here(&self) -> bool {
        self.forks == process::forks()
    }

    fn lock(&self) -> MutexGuard<'_, Sources> {
        // Nothing panics under it.
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoll(&self) -> io::Result<&OwnedFd> {
        if let Some(epoll) = self.epoll.get() {
            return Ok(epoll);
        }
        let made = epoll::create(CreateFlags::CLOEXEC)?;
        // A refusal to wait is told here: a worker has no caller to tell, and the task would wait for ever.
        let mut events = EpollEvents::with_capacity(1);
        events.fill(|room| epoll::wait(&made, room, Some(&timespec(0))))?;
        // Of two that are made at once one goes again.
        Ok(self.epoll.get_or_init(|| made))
    }

    /// Returns the source of an event, if the source is still registered.
    fn source(&self, data: u64) -> Option<Arc<Source>> {
        let (number, place) = (data >> 32, data & u64::from(u32::MAX));
        let sources = self.lock();
        let (found, source) = sources.places.get(usize::try_from(place).ok()?)?;
        (u64::from(*found) == number).then(|| Arc::clone(source))
    }
}

/// A descriptor that is watched, until [`end`](Self::end) is called.
#[derive(Debug)]
pub(super) struct Registration {
    reactor: Arc<IoReactor>,
    source: Arc<Source>,
    place: usize,
    /// The key by which events name the source.
    data: u64,
}

impl Registration {
    /// Polls a future's wait for the registered descriptor.
    pub(super) fn poll(
        &self,
        descriptor: BorrowedFd<'_>,
        direction: Direction,
        waiting: &mut Option<Waiting>,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let Some(epoll) = self.reactor.epoll.get().filter(|_| self.reactor.is_here()) else {
            return Poll::Ready(Err(ended()));
        };
        let arm = |interest: EventFlags| {
            let flags = interest | EventFlags::ONESHOT;
            epoll::modify(epoll, descriptor, EventData::new_u64(self.data), flags)
        };
        self.source
            .poll(direction, waiting, waker, arm)
            .map(|result| match result {
                Ok(true) => Ok(()),
                Ok(false) => Err(ended()),
                Err(error) => Err(error.into()),
            })
    }

    /// Removes a future that no longer waits.
    pub(super) fn forget(&self, direction: Direction, waiting: &Waiting) {
        self.source.forget(direction, waiting);
    }

    /// Ends the watch of the descriptor.
    pub(super) fn end(&self, descriptor: BorrowedFd<'_>) {
        if !self.reactor.is_here() {
            // The instance is the parent's, who goes on watching.
            return;
        }
        if let Some(epoll) = self.reactor.epoll.get() {
            // It fails where the owner has replaced the descriptor, which is out of the instance then.
            let _gone = epoll::delete(epoll, descriptor);
        }
        let source = self.reactor.lock().places.try_remove(self.place);
        drop(source);
        self.reactor.attendance.remove();
    }
}

#[cold]
fn ended() -> io::Error {
    io::Error::other("the executor that watches the descriptor has ended")
}
