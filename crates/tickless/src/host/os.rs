//! What the library needs of Linux: the barrier for the biased lock, and waiting until a deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::event::epoll::{self, Event};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::thread::{MembarrierCommand, MembarrierQuery};
use rustix::time::Timespec;
use tickless_core::time::Instant;
use tickless_link::bias::LockHost;

use super::park_state::{Notice, Sleep};

/// Linux, as the biased lock sees it.
#[derive(Debug)]
pub enum Linux {}

/// Whether the kernel executes barriers for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Barrier {
    /// It was not asked yet.
    Unknown = 0,
    /// It does.
    Works = 1,
    /// It does not, or no longer.
    Missing = 2,
}

/// Barriers that were executed on behalf of all threads.
static BARRIERS: AtomicU64 = AtomicU64::new(0);

/// Workers that barriers must not interrupt.
static ISOLATED: AtomicU32 = AtomicU32::new(0);

/// A worker more is not to be interrupted; whether it is the first.
pub(super) fn one_more_isolated() -> bool {
    // Relaxed: the base locks that the caller takes next order it before every later look; see `barrier_disturbs`.
    ISOLATED.fetch_add(1, Ordering::Relaxed) == 0
}

/// A worker less is not to be interrupted.
pub(super) fn one_less_isolated() {
    // Relaxed: a lock whose owner has not seen it yet stays ordinary a little longer.
    ISOLATED.fetch_sub(1, Ordering::Relaxed);
}

/// No worker is isolated any more.
pub(super) fn none_isolated() {
    // Relaxed: there is no other thread.
    ISOLATED.store(0, Ordering::Relaxed);
}

/// How many barriers one thread had all others execute since the process began.
pub fn barriers() -> u64 {
    BARRIERS.load(Ordering::Relaxed)
}

/// The [`Barrier`]. `Missing` is final; in the child of a fork what held in the parent holds, or turns out not to.
static BARRIER: AtomicU8 = AtomicU8::new(Barrier::Unknown as u8);

/// Asks the kernel for the barrier; `false` if it was ever refused, by the kernel or by a filter of system calls.
#[cold]
fn register_barrier() -> bool {
    let works = !cfg!(miri)
        && rustix::thread::membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
        && rustix::thread::membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    let found = if works {
        Barrier::Works
    } else {
        Barrier::Missing
    };
    // Relaxed, all of these: the word stands alone. The maximum, because another thread may have found it missing.
    BARRIER.fetch_max(found as u8, Ordering::Relaxed);
    works
}

/// Has the kernel execute the barrier; `false` if it refused.
fn execute_barrier() -> bool {
    let done = rustix::thread::membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    // Relaxed: a count.
    BARRIERS.fetch_add(u64::from(done), Ordering::Relaxed);
    done
}

/// For how long a stranger waits that cannot have a barrier executed.
///
/// What a processor holds back of its stores it holds back for less than a microsecond. Each interrupt makes it let go,
/// and the tick of the slowest kernel interrupts each busy processor once in this time besides.
const DRAINED_AFTER: Duration = Duration::from_millis(10);

/// What a stranger does whose barrier the kernel refused: it waits until every store that was executed before has
/// arrived. `docs/base-lock.md` has the argument.
#[cold]
fn wait_for_stores() {
    // SeqCst: the caller's own half of the barrier: its store to the gate is out before the wait begins.
    fence(Ordering::SeqCst);
    let (word, start) = (AtomicU32::new(0), std::time::Instant::now());
    let timeout = Timespec::try_from(DRAINED_AFTER).ok();
    while start.elapsed() < DRAINED_AFTER {
        // Nothing wakes this word. Should a filter refuse the wait too, the thread polls the clock.
        let _over = futex::wait(&word, futex::Flags::PRIVATE, 0, timeout.as_ref());
    }
    // SeqCst: and what it reads from here on it reads after the wait.
    fence(Ordering::SeqCst);
}

// SAFETY: `PRIVATE_EXPEDITED` is documented (membarrier(2)) to execute a full barrier on every thread of the process
// that runs, between call and return, and threads that do not run have executed one when they were switched off. If the
// call fails although it once worked, in the child of a fork or under a new filter of system calls, it is registered
// again; and if that fails no lock becomes biased any more, and the one that is taken from its owner is taken after a
// wait that amounts to the barrier: see `wait_for_stores`.
unsafe impl LockHost for Linux {
    fn barrier_works() -> bool {
        // Relaxed: see `register_barrier`.
        match BARRIER.load(Ordering::Relaxed) {
            works if works == Barrier::Works as u8 => true,
            missing if missing == Barrier::Missing as u8 => false,
            _ => register_barrier(),
        }
    }

    fn heavy_barrier() {
        if execute_barrier() {
            return;
        }
        let again = register_barrier() && execute_barrier();
        if !again {
            // Relaxed: see `register_barrier`.
            BARRIER.store(Barrier::Missing as u8, Ordering::Relaxed);
            wait_for_stores();
        }
    }

    fn barrier_disturbs() -> bool {
        // Relaxed: ordered by the lock that is held, see `one_more_isolated`.
        ISOLATED.load(Ordering::Relaxed) != 0
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

/// Has `destructor` called when this thread ends, after the destructors of its thread-locals; `false` if the system has
/// no room for that. To be asked again by the destructor, which is called up to [`ENDS`] times then.
///
/// The destructor of a thread-local would be called among those of others, which may hold what it takes away.
///
/// `destructor` is the same at each call, and must not unwind.
pub(super) fn at_end_of_thread(destructor: unsafe extern "C" fn(*mut libc::c_void)) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` lives as long as the call, and the destructor for ever.
        let refused = unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) };
        (refused == 0).then_some(key)
    });
    key.is_some_and(|key| {
        let any_but_null = std::ptr::NonNull::<libc::c_void>::dangling();
        // SAFETY: the key was created, and is never deleted. The value is never followed.
        unsafe { libc::pthread_setspecific(key, any_but_null.as_ptr()) == 0 }
    })
}

/// How often the destructor of [`at_end_of_thread`] is called at least, if it asks for it each time
/// (`_POSIX_THREAD_DESTRUCTOR_ITERATIONS`).
pub(super) const ENDS: u32 = 4;

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

/// A descriptor that is made when it is needed first, and stays under its number.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OnceLock<OwnedFd>,
    /// This process is the child of a fork, and the system refused it one of its own: what stands under the number is
    /// another process's, or nothing.
    is_lost: AtomicBool,
}

impl Descriptor {
    pub(crate) const fn new() -> Self {
        Self {
            fd: OnceLock::new(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// The descriptor, if one was ever needed and there is one.
    pub(crate) fn existing(&self) -> Option<BorrowedFd<'_>> {
        // Relaxed: written while there was no other thread.
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        self.fd.get().filter(|_| !is_lost).map(OwnedFd::as_fd)
    }

    /// The descriptor, made by `make` if there is none. Called by the thread that it belongs to.
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<BorrowedFd<'_>> {
        if self.fd.get().is_some() {
            return self.existing().ok_or(Errno::BADF);
        }
        let fd = make()?;
        Ok(self.fd.get_or_init(|| fd).as_fd())
    }

    /// In the child of a fork: there is none that is its own, for good.
    pub(super) fn lose(&self) {
        // Relaxed: there is no other thread.
        self.is_lost.store(true, Ordering::Relaxed);
    }
}

/// A thread that sleeps until somebody wakes it or a deadline passes: one futex word, and a descriptor for those who
/// wait for others too.
#[derive(Debug)]
pub(crate) struct Parker {
    notice: Notice,
    /// Readable when a thread that sleeps in [`park_on_epoll`](Self::park_on_epoll) was woken.
    pub(super) descriptor: Descriptor,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            notice: Notice::new(),
            descriptor: Descriptor::new(),
        }
    }

    /// Nobody sleeps here any more.
    pub(crate) fn reset(&self) {
        self.notice.reset();
    }

    /// Takes a notification, if there is one.
    pub(crate) fn take_notification(&self) -> bool {
        self.notice.take()
    }

    /// Whether there is a notification to take.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.notice.is_there()
    }

    /// Sleeps until there is a notification, or until the kernel's monotonic clock reaches `deadline`; takes the
    /// notification. Returns whether there was one.
    pub(crate) fn park(&self, deadline: Instant) -> bool {
        if self.notice.enter(Sleep::Parked) {
            let timeout = timespec(deadline);
            loop {
                let result = futex::wait_bitset(
                    self.notice.word(),
                    futex::Flags::PRIVATE,
                    Sleep::Parked as u32,
                    timeout.as_ref(),
                    std::num::NonZeroU32::MAX,
                );
                if !self.notice.is_asleep(Sleep::Parked) || result == Err(Errno::TIMEDOUT) {
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
        let descriptor = self.descriptor.get_or_make(Self::make_descriptor)?;
        let mut sources = [
            PollFd::new(&epoll, PollFlags::IN),
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
        ];
        let polled = if self.notice.enter(Sleep::OnEpoll) {
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

    pub(super) fn make_descriptor() -> rustix::io::Result<OwnedFd> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
    }

    /// Wakes the thread, or lets its next park return at once. Returns whether it was asleep.
    pub(crate) fn unpark(&self) -> bool {
        let Some(sleep) = self.notice.leave() else {
            return false;
        };
        match sleep {
            Sleep::Parked => {
                let _count = futex::wake(self.notice.word(), futex::Flags::PRIVATE, 1);
            }
            Sleep::OnEpoll => {
                if let Some(descriptor) = self.descriptor.existing() {
                    // It fails only when it is readable already, by 2^64 wake-ups.
                    let _count = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
                }
            }
        }
        true
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
