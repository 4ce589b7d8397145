//! What the library needs of Linux: the barrier for the biased lock, and sleeping.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

/// A thread that sleeps until somebody wakes it or a deadline passes: one futex word.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    state: AtomicU32,
}

impl Parker {
    const EMPTY: u32 = 0;
    const PARKED: u32 = 1;
    const NOTIFIED: u32 = 2;

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

    /// Sleeps until there is a notification, or until the kernel's monotonic clock reaches `deadline`; takes the
    /// notification. Returns whether there was one.
    pub(crate) fn park(&self, deadline: Instant) -> bool {
        // Acquire on both: see `take_notification`. If there is a notification already there is nothing to sleep for.
        let entered = self.state.compare_exchange(
            Self::EMPTY,
            Self::PARKED,
            Ordering::Acquire,
            Ordering::Acquire,
        );
        if entered.is_ok() {
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

    /// Wakes the thread, or lets its next park return at once. Returns whether it was asleep.
    pub(crate) fn unpark(&self) -> bool {
        // Release: pairs with the Acquire of whoever takes the notification.
        let asleep = self.state.swap(Self::NOTIFIED, Ordering::Release) == Self::PARKED;
        if asleep {
            let _count = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
        asleep
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
