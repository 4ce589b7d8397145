//! Looking inside: counters, and the clock.

use crate::host::registry::{bases, timers};
use crate::host::remote::reactors;
use crate::host::thread::{Kind, with_thread};
use crate::host::{barrier, lifecycle, wake};
use crate::time::interval::all_missed;
use crate::worker::StartError;

/// Counters of the library since the process began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Threads that have a queue at present.
    pub threads: u64,
    /// Timers that are queued at present.
    pub pending: u64,
    /// Starts and restarts.
    pub starts: u64,
    /// Restarts that kept their place in the sorted queue under their new deadline.
    pub in_place: u64,
    /// Restarts that left the timer at its old place in the sorted queue, before its new deadline. The timer is
    /// enqueued again when it comes to the front.
    pub filed_early: u64,
    /// Restarts that left the timer in its bucket of far timers.
    pub far_in_slot: u64,
    /// Timers that fired.
    pub expired: u64,
    /// Restarts by callbacks that were put off by up to 1 ms, because the timer takes longer than it moves its deadline
    /// on and would leave its thread no time for anything else.
    pub paced: u64,
    /// Timers that were cancelled while they were queued.
    pub cancelled: u64,
    /// Timers that moved from one thread's queue to another's.
    pub moved: u64,
    /// Looks at a queue because its first deadline had come.
    pub interrupts: u64,
    /// Interrupts that found nothing due.
    pub spurious: u64,
    /// Deadlines handed to the operating system or the expiry thread.
    pub device_writes: u64,
    /// Next deadlines that were over before the monotonic clock began, as those of a wall clock can be, and were armed
    /// for its beginning.
    pub clamped: u64,
    /// Times that a clock was set, or the machine woke from a suspend, as far as that was noticed: from the first timer
    /// on a clock besides the monotonic one on. [`clock::last_set`] says what the last one did.
    pub clock_sets: u64,
    /// Timers that fired because their clock was set.
    pub told_of_sets: u64,
    /// Callbacks and wakers that panicked.
    pub panics: u64,
    /// Times that one thread had all others execute a memory barrier, which interrupts every CPU that runs one of them:
    /// because it locked the queue of a thread that had it to itself.
    pub barriers: u64,
    /// Coarse timers that were started or started again.
    pub coarse_arms: u64,
    /// Restarts of coarse timers that kept their bucket.
    pub coarse_in_slot: u64,
    /// Coarse timers that fired.
    pub coarse_expired: u64,
    /// Coarse timers that were cancelled while they were queued.
    pub coarse_cancelled: u64,
    /// Timers that an attached runtime fired, exact and coarse, because its reactor rang, or along with its tasks.
    pub reactor_expired: u64,
    /// Timers that the expiry thread fired in place of a runtime that was attached and did not come in time, or is
    /// gone.
    pub fallback_expired: u64,
    /// Exact timers that the expiry thread fired in place of a thread that runs its own, a
    /// [`Worker`](crate::Worker), a [`Driver`](crate::Driver) or a worker of an executor, and took no turn in time.
    pub stuck_expired: u64,
    /// Ticks that intervals missed: see [`Interval::missed_ticks`](crate::time::Interval::missed_ticks).
    pub missed_ticks: u64,
    /// Times that the timer file descriptor of an attached runtime was set, a system call each.
    pub reactor_sets: u64,
}

impl Stats {
    /// Starts of timers that were pending and took nothing out of its place: [`in_place`](Self::in_place),
    /// [`filed_early`](Self::filed_early) and [`far_in_slot`](Self::far_in_slot) together.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.in_place + self.filed_early + self.far_in_slot
    }
}

/// Counters of the library since the process began, over all threads.
///
/// Locks each thread's queue for a moment, which interrupts an [isolated worker](crate::Worker::set_isolated) once.
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
            Kind::Free | Kind::ExpiryThread | Kind::VirtualClock
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

/// The library's clock: whether it uses the processor's counter or asks the kernel, how exact it is, and when clocks
/// were set.
pub mod clock {
    use std::fmt;

    use crate::host::clock::{self, counter};
    pub use crate::host::clock::{ERROR, Refusal, WINDOW};
    use crate::host::registry::timers;

    /// The time-stamp counter of the CPU that this thread is on, whether or not timers use it; 0 where none is known.
    ///
    /// Not ordered with neighbouring instructions. Only if [`time_stamp_counter`] gives its frequency do differences
    /// mean a time.
    #[inline]
    #[must_use]
    pub fn cycles() -> u64 {
        counter::read()
    }

    /// Reads the counter in order: after all that the thread did before, and before other threads can notice what it
    /// does next. Values of two threads can be compared if one thread received its value from the other. [`cycles`] is
    /// cheaper and promises no order.
    #[inline]
    #[must_use]
    pub fn cycles_ordered() -> u64 {
        counter::read_ordered()
    }

    /// Returns the largest present difference between the library's clock and the kernel's, in nanoseconds: [`ERROR`]
    /// at most, and 0 if the kernel is asked each time.
    #[must_use]
    pub fn error() -> u64 {
        clock::error()
    }

    /// Returns true if readings of several threads are combined: one thread asks the kernel, and all that wait take its
    /// answer. The library does so if the counter is refused and the kernel takes more than half a microsecond.
    #[must_use]
    pub fn is_combined() -> bool {
        clock::is_combined()
    }

    /// The frequency of the time-stamp counter in hertz, if it is read in place of asking the kernel.
    ///
    /// # Errors
    ///
    /// Why they do not. For the first 20 ms of use that is [`Refusal::Calibrating`].
    pub fn time_stamp_counter() -> Result<u64, Refusal> {
        clock::time_stamp_counter()
    }

    /// A set of the clocks: by a person or a daemon, by a leap second, or by waking from a suspend.
    ///
    /// Shown, it is one line: `CLOCK_REALTIME by -3600000000000 ns, CLOCK_BOOTTIME by 12 ns, CLOCK_TAI by
    /// -3600000000000 ns`. A clock that was not set shows some nanoseconds, by which asking for it is uncertain.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Set {
        /// The time at which the library noticed it, on the monotonic clock of [`inspect`](crate::inspect), in
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

    /// The last set of the clocks that was noticed.
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

    /// Returns true if the library learns of sets of clocks. It is false if the kernel does not tell, or if the thread
    /// that waits for it could not be started; either is known after the first timer on such a clock was started.
    #[must_use]
    pub fn is_told_of_sets() -> bool {
        !timers().platform().wall.is_untold()
    }
}

/// Does now what the first timer of a thread would do: gives the thread its queue, and starts the expiry thread.
///
/// No program has to call it. It is for programs that would rather handle an error now than have a panic at the first
/// timer, and for programs that fork while other threads run: a child that is forked during the very first use hangs at
/// its own.
///
/// # Errors
///
/// When there are too many threads with timers, or the expiry thread cannot be started. It can be called again.
pub fn init() -> Result<(), StartError> {
    with_thread(lifecycle::enter).ok_or(StartError::NoPlace)?;
    wake::ensure_running().map_err(StartError::Os)
}
