//! The place where a thread sleeps until another thread wakes it or a deadline passes.

use std::sync::atomic::{AtomicU64, Ordering};

use tickless_core::time::Instant;

use super::park_state::{ParkState, Sleep};
use super::sys::clocks::{Timespec, timespec};
use super::sys::descriptors::epoll::{self, Event};
use super::sys::descriptors::{
    BorrowedFd, Descriptor, Errno, PollFd, PollFlags, Result, count_one, make_count, poll,
    take_count,
};
use super::sys::waiting::{wait, wake_one};
use super::sys::{Until, Waited};
use super::{kernel_time, os};

/// The place where a thread sleeps until another thread wakes it or a deadline passes: one word, and a descriptor for
/// threads that also wait for other descriptors.
#[derive(Debug)]
pub(crate) struct Parker {
    state: ParkState,
    /// The number of sleeps that ended. Written by the thread that sleeps here.
    wakeups: AtomicU64,
    /// A descriptor that becomes readable when a thread that sleeps in [`park_on_epoll`](Self::park_on_epoll) or
    /// [`park_in`](Self::park_in) is woken.
    pub(crate) descriptor: Descriptor,
    /// The number of wake-ups that the descriptor counts or will count soon. Written by the thread that sleeps here.
    uncounted: AtomicU64,
}

/// Calls a function when it is dropped.
#[cfg(not(portable_host))]
struct Awake<F: Fn()>(F);

#[cfg(not(portable_host))]
impl<F: Fn()> Drop for Awake<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            state: ParkState::new(),
            wakeups: AtomicU64::new(0),
            descriptor: Descriptor::new(),
            uncounted: AtomicU64::new(0),
        }
    }

    /// Returns the number of sleeps that ended, for all threads that ever slept here.
    pub(crate) fn wakeups(&self) -> u64 {
        // Relaxed: a count.
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Counts a sleep that ended.
    fn count_wakeup(&self) {
        // Relaxed, both: a count with one writer, the thread that sleeps here.
        let wakeups = self.wakeups.load(Ordering::Relaxed);
        self.wakeups
            .store(wakeups.wrapping_add(1), Ordering::Relaxed);
    }

    /// Resets the parker: no thread sleeps here any more.
    pub(crate) fn reset(&self) {
        self.state.reset();
    }

    /// Takes the notification. Returns true if there was one.
    pub(crate) fn take_notification(&self) -> bool {
        self.state.take()
    }

    /// Returns whether there is a notification to take.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.state.is_there()
    }

    /// Sleeps until there is a notification, or until the kernel's monotonic clock reaches `deadline`; takes the
    /// notification. Returns whether there was one.
    pub(crate) fn park(&self, deadline: Instant) -> bool {
        if self.state.enter(Sleep::Parked) {
            let until = kernel_time::until(deadline);
            if matches!(until, Until::In(_)) {
                return self.park_in_steps(deadline);
            }
            loop {
                let waited = wait(self.state.word(), Sleep::Parked as u32, until);
                if !self.state.is_asleep(Sleep::Parked) || waited == Waited::Over {
                    break;
                }
                if waited == Waited::Refused {
                    self.poll_until(deadline);
                    break;
                }
            }
            self.count_wakeup();
        }
        self.take_notification()
    }

    /// Parks as [`park`](Self::park) does, if the library does not read the kernel's clock. The kernel therefore gets
    /// the length of the sleep in place of its end.
    #[cold]
    fn park_in_steps(&self, deadline: Instant) -> bool {
        while self.state.is_asleep(Sleep::Parked)
            && let left @ 1.. = deadline.as_nanos().saturating_sub(kernel_time::now())
        {
            let _any = wait(self.state.word(), Sleep::Parked as u32, Until::In(left));
        }
        self.count_wakeup();
        self.take_notification()
    }

    /// Parks as [`park`](Self::park) does, if the kernel refuses to let threads wait: the thread polls the word and the
    /// clock.
    #[cold]
    fn poll_until(&self, deadline: Instant) {
        let mut attempt = 0;
        while self.state.is_asleep(Sleep::Parked) && kernel_time::now() < deadline.as_nanos() {
            os::relax(attempt);
            attempt += 1;
        }
    }

    /// Sleeps until there is a notification, events are ready, or `timeout` has passed; may also wake for no reason.
    /// Takes the notification. Returns the number of events.
    ///
    /// The epoll instance is itself polled as a descriptor, with a timeout in nanoseconds, together with the descriptor
    /// of wake-ups. So the descriptor of wake-ups need not be in the epoll instance.
    pub(crate) fn park_on_epoll(
        &self,
        epoll: BorrowedFd<'_>,
        events: &mut [Event],
        timeout: Option<&Timespec>,
    ) -> Result<usize> {
        let at_once = timespec(0);
        let ready = epoll::wait(epoll, &mut *events, Some(&at_once))?;
        if ready > 0 || timeout == Some(&at_once) {
            self.take_notification();
            return Ok(ready);
        }
        let descriptor = self.descriptor.get_or_make(make_count)?;
        let mut sources = [
            PollFd::new(&epoll, PollFlags::IN),
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
        ];
        let slept = self.state.enter(Sleep::OnEpoll);
        let polled = if slept {
            poll(&mut sources, timeout)
        } else {
            Ok(0)
        };
        self.wake_up(slept, descriptor);
        match polled {
            // A signal came: as good a reason to look as any.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if sources[0].revents().is_empty() {
            return Ok(0);
        }
        epoll::wait(epoll, &mut *events, Some(&at_once))
    }

    /// Sleeps in `wait`, which gets the time of the kernel's monotonic clock at which it has to end, and the descriptor
    /// that ends it earlier; takes the notification. If there is a notification already, that time has passed.
    #[cfg(not(portable_host))]
    pub(crate) fn park_in<T>(
        &self,
        deadline: Instant,
        wait: impl FnOnce(Option<std::time::Duration>, BorrowedFd<'_>) -> T,
    ) -> Result<T> {
        let descriptor = self.descriptor.get_or_make(make_count)?;
        let slept = self.state.enter(Sleep::OnEpoll);
        let until = match kernel_time::until(deadline) {
            _ if !slept => Some(0),
            Until::Never => None,
            Until::At(nanos) => Some(nanos),
            Until::In(nanos) => {
                let now = super::sys::clocks::monotonic_by_call().unwrap_or(0);
                Some(now.saturating_add(nanos))
            }
        };
        let until = until.map(|nanos| std::time::Duration::from_nanos(nanos.cast_unsigned()));
        // Also if it panics: a wake-up that is not taken would end each later sleep.
        let _awake = Awake(|| self.wake_up(slept, descriptor));
        Ok(wait(until, descriptor))
    }

    /// Takes the notification after a wait for `descriptor`, and makes the descriptor unreadable.
    fn wake_up(&self, slept: bool, descriptor: BorrowedFd<'_>) {
        // Relaxed, both: the word has one writer, the thread that sleeps here.
        let mut uncounted = self.uncounted.load(Ordering::Relaxed);
        if slept {
            self.count_wakeup();
        }
        // The thread that notified a sleeping thread counts once. It may be about to: then the next sleep ends for no
        // reason, and takes the count.
        uncounted += u64::from(self.take_notification() && slept);
        if uncounted > 0 {
            uncounted = uncounted.saturating_sub(take_count(descriptor));
        }
        self.uncounted.store(uncounted, Ordering::Relaxed);
    }

    /// Wakes the thread, or makes its next park return at once. Returns whether the thread was asleep.
    pub(crate) fn unpark(&self) -> bool {
        let Some(sleep) = self.state.leave() else {
            return false;
        };
        match sleep {
            Sleep::Parked => wake_one(self.state.word()),
            Sleep::OnEpoll => {
                if let Some(descriptor) = self.descriptor.existing() {
                    count_one(descriptor);
                }
            }
        }
        true
    }
}

#[cfg(all(test, not(portable_host)))]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::{Duration, Instant as StdInstant};

    use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    const NOTHING: Event = Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    };
    const SHORT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 300_000,
    };

    fn instance() -> (OwnedFd, OwnedFd) {
        let epoll = create(CreateFlags::CLOEXEC).expect("an epoll instance");
        let source = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        add(&epoll, &source, EventData::new_u64(7), EventFlags::IN).expect("it is new there");
        (epoll, source)
    }

    #[test]
    fn a_wait_on_epoll_ends_when_its_time_is_over_to_the_nanosecond() {
        let (epoll, _source) = instance();
        let parker = Parker::new();
        // A time rounded up to milliseconds is never as short as that, one to the nanosecond is now and then.
        let mut longer = 0;
        loop {
            let start = StdInstant::now();
            let ready = parker.park_on_epoll(epoll.as_fd(), &mut [NOTHING; 3], Some(&SHORT));
            assert_eq!(ready, Ok(0));
            let elapsed = start.elapsed();
            assert!(elapsed >= Duration::from_micros(300));
            if elapsed < Duration::from_micros(900) {
                break;
            }
            longer += 1;
            assert!(longer < 10_000, "it always takes a millisecond");
        }
    }

    #[test]
    fn a_wait_on_epoll_ends_with_events() {
        let (epoll, source) = instance();
        let parker = Parker::new();
        rustix::io::write(&source, &1_u64.to_ne_bytes()).expect("an eventfd takes eight bytes");
        for time in [None, Some(&SHORT)] {
            let mut events = [NOTHING; 3];
            assert_eq!(
                parker.park_on_epoll(epoll.as_fd(), &mut events, time),
                Ok(1)
            );
            let Event { flags, data } = events[0];
            assert_eq!((flags, data.u64()), (EventFlags::IN, 7));
        }
        for refused in [
            parker.park_on_epoll(epoll.as_fd(), &mut [], None),
            parker.park_on_epoll(source.as_fd(), &mut [NOTHING], None),
        ] {
            assert_eq!(refused, Err(Errno::INVAL));
        }
    }

    #[test]
    fn a_wait_on_epoll_ends_with_each_notification() {
        let (epoll, _source) = instance();
        let parker = Parker::new();
        for _ in 0..3 {
            parker.unpark();
            let ready = parker.park_on_epoll(epoll.as_fd(), &mut [NOTHING], None);
            assert_eq!(ready, Ok(0));
        }
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                for _ in 0..100 {
                    let ready = parker.park_on_epoll(epoll.as_fd(), &mut [NOTHING], None);
                    assert_eq!(ready, Ok(0));
                }
            });
            while !taken.is_finished() {
                parker.unpark();
                std::thread::yield_now();
            }
        });
    }
}
