//! What the library needs of Linux: the barrier for the biased lock, and waiting until a deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::epoll::{self, Event};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::thread::{MembarrierCommand, MembarrierQuery};
use rustix::time::Timespec;
use tickless_core::time::Instant;
use tickless_link::bias::LockHost;

/// Linux, as the biased lock sees it.
#[derive(Debug)]
pub enum Linux {}

/// Whether the kernel executes barriers for this process. Asked for once; a child of a fork asks again for itself.
static BARRIER: OnceLock<bool> = OnceLock::new();

fn register_barrier() -> bool {
    if cfg!(miri) {
        return false;
    }
    let has = rustix::thread::membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED);
    has && rustix::thread::membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

// SAFETY: `PRIVATE_EXPEDITED` is documented (membarrier(2)) to execute a full barrier on every thread of the process
// that runs, between call and return, and threads that do not run have executed one when they were switched off. A
// kernel that knows the command when it is registered keeps knowing it; if the call fails nevertheless, in the child of
// a fork, it is registered again, and if that fails the process ends rather than go on without the barrier.
unsafe impl LockHost for Linux {
    fn barrier_works() -> bool {
        *BARRIER.get_or_init(register_barrier)
    }

    fn heavy_barrier() {
        if rustix::thread::membarrier(MembarrierCommand::PrivateExpedited).is_ok() {
            return;
        }
        let again = register_barrier()
            && rustix::thread::membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        if !again {
            tickless_link::abort(
                "the kernel no longer executes the memory barrier that it offered",
            );
        }
    }

    fn wait(word: &AtomicU32, expected: u32) {
        // Woken, changed, interrupted: the caller looks again in any case.
        let _any = futex::wait(word, futex::Flags::PRIVATE, expected, None);
    }

    fn wake_one(word: &AtomicU32) {
        let _count = futex::wake(word, futex::Flags::PRIVATE, 1);
    }

    fn relax() {
        relax(YIELDS_FROM);
    }
}

/// Polls before the thread gives its time away.
const YIELDS_FROM: u32 = 50;
/// Polls before the thread sleeps: a yield does not let a thread of lower real-time priority run.
const SLEEPS_FROM: u32 = 200;

/// Passes the time for somebody who polls for the `attempt`-th time.
pub(crate) fn relax(attempt: u32) {
    if attempt < YIELDS_FROM {
        std::hint::spin_loop();
    } else if attempt < SLEEPS_FROM {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// A thread that sleeps until somebody wakes it or a deadline passes: one futex word, and a descriptor for those who
/// wait for others too.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    state: AtomicU32,
    /// Readable when a thread that sleeps in [`park_on_epoll`](Self::park_on_epoll) was woken.
    descriptor: OnceLock<OwnedFd>,
}

impl Parker {
    const EMPTY: u32 = 0;
    const PARKED: u32 = 1;
    const NOTIFIED: u32 = 2;
    const PARKED_ON_EPOLL: u32 = 3;

    /// Nobody sleeps here any more.
    pub(crate) fn reset(&self) {
        // Relaxed: called when there is no other thread.
        self.state.store(Self::EMPTY, Ordering::Relaxed);
    }

    /// Takes a notification, if there is one.
    pub(crate) fn take_notification(&self) -> bool {
        // Acquire: pairs with the Release in `unpark`: what was done before the wake-up is seen after it.
        self.state.swap(Self::EMPTY, Ordering::Acquire) == Self::NOTIFIED
    }

    /// Whether there is a notification to take.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        // Relaxed: a hint; `take_notification` orders.
        self.state.load(Ordering::Relaxed) == Self::NOTIFIED
    }

    /// Says that the thread sleeps; `false` if there is a notification, so that there is nothing to sleep for.
    fn enter(&self, parked: u32) -> bool {
        // Acquire on both: see `take_notification`.
        self.state
            .compare_exchange(Self::EMPTY, parked, Ordering::Acquire, Ordering::Acquire)
            .is_ok()
    }

    /// Sleeps until there is a notification, or until the kernel's monotonic clock reaches `deadline`; takes the
    /// notification. Returns whether there was one.
    pub(crate) fn park(&self, deadline: Instant) -> bool {
        if self.enter(Self::PARKED) {
            let timeout = timespec(deadline);
            loop {
                let result = futex::wait_bitset(
                    &self.state,
                    futex::Flags::PRIVATE,
                    Self::PARKED,
                    timeout.as_ref(),
                    std::num::NonZeroU32::MAX,
                );
                // Relaxed: the swap below orders.
                let notified = self.state.load(Ordering::Relaxed) != Self::PARKED;
                if notified || result == Err(Errno::TIMEDOUT) {
                    break;
                }
            }
        }
        self.take_notification()
    }

    /// Sleeps until there is a notification, events are ready, `timeout` passed, or for no reason; takes the
    /// notification. Returns the number of events.
    ///
    /// An epoll instance can be polled itself, to the nanosecond and together with the descriptor of wake-ups, which
    /// therefore need not be in it.
    pub(crate) fn park_on_epoll(
        &self,
        epoll: BorrowedFd<'_>,
        events: &mut [Event],
        timeout: Option<&Timespec>,
    ) -> rustix::io::Result<usize> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ready = epoll::wait(epoll, &mut *events, Some(&at_once))?;
        if ready > 0 || timeout == Some(&at_once) {
            self.take_notification();
            return Ok(ready);
        }
        let descriptor = self.descriptor()?;
        let mut sources = [
            PollFd::new(&epoll, PollFlags::IN),
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
        ];
        let polled = if self.enter(Self::PARKED_ON_EPOLL) {
            poll(&mut sources, timeout)
        } else {
            Ok(0)
        };
        self.take_notification();
        if !sources[1].revents().is_empty() {
            // Should the one who wakes be about to write, the next sleep ends for no reason.
            let _count = rustix::io::read(descriptor, &mut [0; 8]);
        }
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

    /// The descriptor for wake-ups; made on first use, by the thread that sleeps here.
    fn descriptor(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        if let Some(descriptor) = self.existing_descriptor() {
            return Ok(descriptor);
        }
        let descriptor = Self::make_descriptor()?;
        Ok(self.descriptor.get_or_init(|| descriptor).as_fd())
    }

    pub(super) fn make_descriptor() -> rustix::io::Result<OwnedFd> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
    }

    /// The descriptor for wake-ups, if one was ever needed.
    pub(crate) fn existing_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get().map(OwnedFd::as_fd)
    }

    /// Wakes the thread, or lets its next park return at once. Returns whether it was asleep.
    pub(crate) fn unpark(&self) -> bool {
        // Release: pairs with the Acquire of whoever takes the notification.
        match self.state.swap(Self::NOTIFIED, Ordering::Release) {
            Self::PARKED => {
                let _count = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
                true
            }
            Self::PARKED_ON_EPOLL => {
                if let Some(descriptor) = self.existing_descriptor() {
                    // It fails only when it is readable already, by 2^64 wake-ups.
                    let _count = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
                }
                true
            }
            _ => false,
        }
    }
}

/// A deadline as the kernel takes it: absolute, on its monotonic clock. `None` for "never".
pub(crate) fn timespec(deadline: Instant) -> Option<Timespec> {
    if deadline.is_forever() {
        return None;
    }
    let nanos = deadline.as_nanos().max(0);
    Some(Timespec {
        tv_sec: nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    })
}

/// Makes the kernel wake this thread without the 50 µs of slack that threads have by default.
pub(crate) fn remove_timer_slack() {
    let exact = std::num::NonZeroU64::MIN;
    // A kernel that refuses wakes later; nothing is wrong otherwise.
    let _best_effort = rustix::thread::set_current_timer_slack(Some(exact));
}

#[cfg(test)]
mod tests {
    use std::time::Instant as StdInstant;

    use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};

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
        let parker = Parker::default();
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
        let parker = Parker::default();
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
        let parker = Parker::default();
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
