//! The memory barrier that the biased lock needs: one thread makes all other threads execute a barrier.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use tickless_link::bias::LockHost;

use super::os::relax;
use super::sys::{Until, barriers as system, waiting};

/// The system, with the barriers that the biased lock needs.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "public with that feature")
)]
pub enum System {}

/// The support of the kernel for barriers of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Barrier {
    /// The kernel has not been asked yet.
    Unknown = 0,
    /// The kernel executes the barriers.
    Works = 1,
    /// The kernel does not execute the barriers, or no longer does.
    Missing = 2,
}

/// The number of barriers that were executed on behalf of all threads.
static BARRIERS: AtomicU64 = AtomicU64::new(0);

/// The number of workers that barriers must not interrupt.
static ISOLATED: AtomicU32 = AtomicU32::new(0);

/// Counts one more worker that must not be interrupted. Returns true if it is the first.
pub(super) fn one_more_isolated() -> bool {
    // Relaxed: the base locks that the caller takes next order it before every later look; see `barrier_disturbs`.
    ISOLATED.fetch_add(1, Ordering::Relaxed) == 0
}

/// Counts one worker less that must not be interrupted.
pub(super) fn one_less_isolated() {
    // Relaxed: a lock whose owner has not seen it yet stays ordinary a little longer.
    ISOLATED.fetch_sub(1, Ordering::Relaxed);
}

/// Records that no worker is isolated any more.
pub(super) fn none_isolated() {
    // Relaxed: there is no other thread.
    ISOLATED.store(0, Ordering::Relaxed);
}

/// Returns the number of barriers that one thread made all other threads execute since the process began.
#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "public with that feature")
)]
pub fn barriers() -> u64 {
    BARRIERS.load(Ordering::Relaxed)
}

/// The state of the support, as a [`Barrier`]. `Missing` is final. The child of a fork keeps the state of its parent,
/// or finds out that it no longer holds.
static BARRIER: AtomicU8 = AtomicU8::new(Barrier::Unknown as u8);

/// Registers this process for barriers; `false` if the kernel or a filter of system calls ever refused it.
#[cold]
fn register_barrier() -> bool {
    let works = system::register();
    let found = if works {
        Barrier::Works
    } else {
        Barrier::Missing
    };
    // Relaxed, all of these: the word stands alone. The maximum, because another thread may have found it missing.
    BARRIER.fetch_max(found as u8, Ordering::Relaxed);
    works
}

/// Executes the barrier by the kernel; `false` if the kernel refused.
fn execute_barrier() -> bool {
    let done = system::execute();
    // Relaxed: a count.
    BARRIERS.fetch_add(u64::from(done), Ordering::Relaxed);
    done
}

/// The time that a remote thread waits if the kernel does not execute a barrier for it.
///
/// A processor holds stores back for less than a microsecond. Each interrupt makes the processor release its stores,
/// and even the slowest kernel's tick interrupts each busy processor once in this time.
const DRAINED_AFTER: Duration = Duration::from_millis(10);

/// Waits, on a remote thread whose barrier the kernel refused, until all processors see every store that was executed
/// before. `docs/base-lock.md` has the argument.
#[cold]
fn wait_for_stores() {
    // SeqCst: the caller's own half of the barrier: its store to the gate is out before the wait begins.
    fence(Ordering::SeqCst);
    let (word, start) = (AtomicU32::new(0), std::time::Instant::now());
    while start.elapsed() < DRAINED_AFTER {
        // Nothing wakes this word. Should a filter refuse the wait too, the thread polls the clock.
        let _over = waiting::wait(&word, 0, Until::In(DRAINED_AFTER.subsec_nanos().into()));
    }
    // SeqCst: and what it reads from here on it reads after the wait.
    fence(Ordering::SeqCst);
}

// SAFETY: `PRIVATE_EXPEDITED` is documented (membarrier(2)) to execute a full barrier on every thread of the process
// that runs, between call and return, and threads that do not run have executed one when they were switched off. If the
// call fails although it once worked, in the child of a fork or under a new filter of system calls, it is registered
// again; and if that fails no lock becomes biased any more, and the one that is taken from its owner is taken after a
// wait that amounts to the barrier: see `wait_for_stores`.
unsafe impl LockHost for System {
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
        let _any = waiting::wait(word, expected, Until::Never);
    }

    fn wake_one(word: &AtomicU32) {
        waiting::wake_one(word);
    }

    fn relax(attempt: u32) {
        relax(attempt);
    }
}
