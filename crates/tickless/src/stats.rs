//! Counters of the whole process, and facts about the clock.

use crate::host::registry::{bases, timers};
use crate::host::remote::reactors;
use crate::host::thread::{ThreadKind, with_thread};
use crate::host::{barrier, lifecycle, wake};
use crate::start_error::StartError;
use crate::time::interval::all_missed;

/// Counters of the library since the process began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Threads that have a queue at present.
    pub threads: u64,
    /// Timers that are queued at present.
    pub pending: u64,
    /// Starts and restarts of exact timers.
    pub starts: u64,
    /// Restarts that kept the timer's place in the sorted queue, and changed its key to the new deadline.
    pub in_place: u64,
    /// Restarts that left the timer in the sorted queue with its old key, which is earlier than its new deadline. The
    /// timer is enqueued again when it comes to the front.
    pub filed_early: u64,
    /// Restarts that left the timer in its bucket of the far wheel.
    pub far_in_slot: u64,
    /// Timers that fired.
    pub expired: u64,
    /// Restarts by callbacks that were delayed by up to 1 ms, because the callback runs for longer than it moves the
    /// deadline ahead, and would otherwise occupy its thread completely.
    pub paced: u64,
    /// Timers that were cancelled while they were queued.
    pub cancelled: u64,
    /// Timers that moved from one thread's queue to another's.
    pub moved: u64,
    /// Checks of a queue because its first timer was due.
    pub interrupts: u64,
    /// Interrupts that found nothing due.
    pub spurious: u64,
    /// Deadlines passed to the operating system or the expiry thread.
    pub device_writes: u64,
    /// Next expiries before the beginning of the monotonic clock, which a wall clock can have; the device was
    /// programmed for the beginning of the clock.
    pub clamped: u64,
    /// Sets of a clock and resumes from a suspend that the library noticed; the library watches the clocks from the
    /// first timer on a clock other than the monotonic clock. [`clock::last_set`] describes the last set.
    pub clock_sets: u64,
    /// Timers that fired because their clock was set.
    pub told_of_sets: u64,
    /// Callbacks and wakers that panicked.
    pub panics: u64,
    /// Memory barriers that one thread made all others execute, in order to lock the queue of a thread that owned its
    /// lock. Each barrier interrupts every CPU that runs a thread of the process.
    pub barriers: u64,
    /// Starts and restarts of coarse timers.
    pub coarse_arms: u64,
    /// Restarts of coarse timers that kept their bucket.
    pub coarse_in_slot: u64,
    /// Coarse timers that fired.
    pub coarse_expired: u64,
    /// Coarse timers that were cancelled while they were queued.
    pub coarse_cancelled: u64,
    /// Timers, exact and coarse, that an attached runtime fired, when its reactor woke for the timers or when it ran
    /// its tasks.
    pub reactor_expired: u64,
    /// Timers that the expiry thread fired in place of an attached runtime that was late or has ended.
    pub fallback_expired: u64,
    /// Exact timers that the expiry thread fired in place of a thread that fires its own and took no turn in time: a
    /// [`Worker`](crate::Worker), a [`Driver`](crate::Driver) or a worker of an executor.
    pub stuck_expired: u64,
    /// Ticks of intervals that are never taken: [`Interval::missed_ticks`](crate::time::Interval::missed_ticks) of all.
    pub missed_ticks: u64,
    /// System calls that set the timer file descriptor of an attached runtime.
    pub reactor_sets: u64,
}

impl Stats {
    /// Returns the number of restarts that dequeued no timer: [`in_place`](Self::in_place),
    /// [`filed_early`](Self::filed_early) and [`far_in_slot`](Self::far_in_slot) together.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.in_place + self.filed_early + self.far_in_slot
    }
}

/// Returns the counters of the library since the process began, over all threads.
///
/// The call locks each thread's queue for a moment, which interrupts an [isolated worker](crate::Worker::set_isolated)
/// once.
#[must_use]
pub fn stats() -> Stats {
    let mut sum = Stats {
        panics: timers().platform().panics(),
        clock_sets: timers().platform().wall.sets(),
        // Before the locks below, which may add some.
        barriers: barrier::barriers(),
        reactor_sets: reactors::sets(),
        missed_ticks: all_missed(),
        ..Stats::default()
    };
    for reactor in reactors::all() {
        let [by_reactor, by_expiry_thread] = reactor.fired();
        sum.reactor_expired += by_reactor;
        sum.fallback_expired += by_expiry_thread;
    }
    for base in bases() {
        let one = timers().stats(base.cpu());
        sum.threads += u64::from(!matches!(
            base.local().kind(),
            ThreadKind::Free | ThreadKind::ExpiryThread | ThreadKind::VirtualClock
        ));
        sum.pending += timers().pending(base.cpu()) as u64;
        sum.starts += one.starts;
        sum.in_place += one.in_place;
        sum.filed_early += one.filed_early;
        sum.far_in_slot += one.far_in_slot;
        sum.expired += one.expired;
        sum.paced += one.paced;
        sum.cancelled += one.cancelled;
        sum.moved += one.arrived;
        sum.interrupts += one.interrupts;
        sum.spurious += one.spurious;
        sum.device_writes += one.device_writes;
        sum.stuck_expired += base.local().remote.stuck_fired();
        sum.clamped += one.clamped;
        sum.told_of_sets += one.told_of_sets;
        sum.coarse_arms += one.coarse_arms;
        sum.coarse_in_slot += one.coarse_in_slot;
        sum.coarse_expired += one.coarse_expired;
        sum.coarse_cancelled += one.coarse_cancelled;
    }
    sum
}

/// The library's clock: whether the clock uses the processor's counter or reads the kernel's clock, how exact it is,
/// and when clocks were set.
pub mod clock {
    use std::fmt;

    use crate::host::clock::{self, counter};
    pub use crate::host::clock::{ERROR, Refusal, WINDOW};
    use crate::host::registry::timers;

    /// Reads the processor's counter on the CPU that this thread is on, even if timers do not use the counter; 0 if the
    /// library knows no counter of the CPU.
    ///
    /// The reading is not ordered with neighbouring instructions. Differences of readings can be converted to times
    /// only if [`time_stamp_counter`] returns a frequency.
    #[inline]
    #[must_use]
    pub fn cycles() -> u64 {
        counter::read()
    }

    /// Reads the processor's counter in program order: after the thread's earlier operations, and before another thread
    /// can see the later ones. Values of two threads can be compared if one thread received its value from the other.
    /// [`cycles`] is cheaper and promises no order.
    #[inline]
    #[must_use]
    pub fn cycles_ordered() -> u64 {
        counter::read_ordered()
    }

    /// Returns the largest present difference between the library's clock and the kernel's, in nanoseconds: [`ERROR`]
    /// at most, and 0 if each reading is a reading of the kernel's clock.
    #[must_use]
    pub fn error() -> u64 {
        clock::error()
    }

    /// Returns true if threads share readings of the clock: one thread reads the kernel's clock, and all threads that
    /// wait meanwhile take its result. The library does so if it refuses the counter and a reading of the kernel's
    /// clock takes more than half a microsecond.
    #[must_use]
    pub fn is_combined() -> bool {
        clock::is_combined()
    }

    /// Returns the frequency of the processor's counter in hertz if the library's clock uses the counter, or the reason
    /// why it reads the kernel's clock instead.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] says why the clock does not use the counter. For the first 20 ms of use it is
    /// [`Refusal::Calibrating`].
    pub fn time_stamp_counter() -> Result<u64, Refusal> {
        clock::time_stamp_counter()
    }

    /// A set of the clocks by a person or a daemon, by a leap second, or by a resume from a suspend.
    ///
    /// Its text form is one line: `CLOCK_REALTIME by -3600000000000 ns, CLOCK_BOOTTIME by 12 ns, CLOCK_TAI by
    /// -3600000000000 ns`. A clock that was not set shows some nanoseconds, which are the uncertainty of the readings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Set {
        /// The time at which the library noticed the set, on the monotonic clock of [`inspect`](crate::inspect), in
        /// nanoseconds.
        pub noticed: i64,
        /// The jump of the time of day, in nanoseconds, at most 292 years.
        pub realtime: i64,
        /// The jump of the clock that counts suspended time, in nanoseconds.
        pub boottime: i64,
        /// The jump of international atomic time, in nanoseconds.
        pub tai: i64,
    }

    impl fmt::Display for Set {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(
                formatter,
                "CLOCK_REALTIME by {} ns, CLOCK_BOOTTIME by {} ns, CLOCK_TAI by {} ns",
                self.realtime, self.boottime, self.tai
            )
        }
    }

    /// Returns the last set of the clocks that was noticed.
    #[must_use]
    pub fn last_set() -> Option<Set> {
        let step = timers().platform().wall.last_step()?;
        Some(Set {
            noticed: step.noticed,
            realtime: step.realtime,
            boottime: step.boottime,
            tai: step.tai,
        })
    }

    /// Returns true if the kernel notifies the library of sets of clocks. The result is false if the kernel cannot
    /// notify the library, or if the thread that waits for the notification could not be started. The library knows
    /// both only after the first start of a timer on a clock that can be set.
    #[must_use]
    pub fn is_told_of_sets() -> bool {
        !timers().platform().wall.is_untold()
    }
}

/// Prepares the thread for timers: makes the thread's queue, and starts the expiry thread. Otherwise the first timer of
/// the thread does this.
///
/// No program has to call `init`. It is for programs that prefer an error now to a panic at the first timer, and for
/// programs that fork while other threads run: if a process forks while its first use of the library is in progress,
/// the child hangs at its own first use.
///
/// # Errors
///
/// [`StartError`] if there are too many threads with timers, or if the expiry thread cannot be started. `init` can be
/// called again then.
pub fn init() -> Result<(), StartError> {
    with_thread(lifecycle::enter).ok_or(StartError::NoPlace)?;
    wake::ensure_running().map_err(StartError::Os)
}
