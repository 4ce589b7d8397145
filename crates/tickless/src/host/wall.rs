//! The offsets of the clocks that can be set, and the detection of such sets.
//!
//! One thread, the watcher, reads a timer file descriptor whose read the kernel ends when the clock is set and when the
//! machine wakes from a suspend (`TFD_TIMER_CANCEL_ON_SET`). It is started when the first timer on such a clock is made,
//! reads the offsets again, counts the set, and notifies all bases. Where the kernel does not notify, each start and
//! each poll of a timer that a task awaits compares the timer's clock with its offset ([`Wall::recheck`]), and a task
//! that finds a change has all timers notified. `docs/clocks.md` has the whole way of a set.
//!
//! # Ground rules
//!
//! - `known` is locked after base locks, by a thread that copies the offsets.
//! - `sets` is incremented before the timers are notified. If a thread queues a timer and then reads the count, it sees
//!   the set, or the timer is notified: both threads take the base lock, which orders them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::time::{Clock, ClockId, Instant, Offset};

use super::kernel_time;
use super::sys::Heard;
use super::sys::clocks::{Sets, show};
use super::sys::descriptors::is_passing;

/// The least difference of a clock from its offset that [`Wall::recheck`] counts as a set, in nanoseconds. It is more
/// than the reading of two clocks takes, even if the thread is preempted now and then in between.
const DIFFERENCE_MIN: i64 = 100_000;

/// The offsets of the clocks, as last read from the kernel.
#[derive(Debug)]
pub(crate) struct Wall {
    known: Mutex<Known>,
    /// True if a thread waits for jumps, or if no thread can.
    watched: AtomicBool,
    /// True if the kernel does not notify when a clock is set.
    is_untold: AtomicBool,
    /// The number of jumps that were noticed.
    sets: AtomicU64,
    #[cfg(feature = "internals")]
    fake: fake::Fake,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    sequence: SetSequence,
    offsets: Offsets,
    last: Option<Step>,
}

/// The effect of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The monotonic time at which the set was noticed, in nanoseconds.
    pub(crate) noticed: i64,
    /// The jump of the time of day, in nanoseconds. The next two fields are the jumps of the two other clocks.
    pub(crate) realtime: i64,
    pub(crate) boottime: i64,
    pub(crate) tai: i64,
}

/// The offsets, which no other thread changes while this value exists.
pub(crate) struct Paused<'a> {
    _known: MutexGuard<'a, Known>,
}

impl Wall {
    pub(crate) fn new() -> Self {
        let mut wall = Self {
            known: Mutex::new(Known {
                sequence: SetSequence::START.next(),
                offsets: Offsets::default(),
                last: None,
            }),
            watched: AtomicBool::new(false),
            is_untold: AtomicBool::new(false),
            sets: AtomicU64::new(0),
            #[cfg(feature = "internals")]
            fake: fake::Fake::default(),
        };
        wall.known
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .offsets = wall.ask();
        wall
    }

    /// Returns the offsets, if `seen` is not the latest jump.
    pub(crate) fn changed_since(&self, seen: SetSequence) -> Option<(SetSequence, Offsets)> {
        let known = *self.known();
        (known.sequence != seen).then_some((known.sequence, known.offsets))
    }

    /// Returns the time of the clock `C` by the kernel. The time differs from the timers' time of `C` while a set is
    /// not noticed yet.
    pub(crate) fn show<C: ClockId>(&self) -> Instant<C> {
        Instant::from_nanos(nanos(C::CLOCK).saturating_add(self.shift(C::CLOCK)))
    }

    /// Returns the number of sets of clocks that were noticed.
    pub(crate) fn sets(&self) -> u64 {
        // Relaxed: see *Ground rules*.
        self.sets.load(Ordering::Relaxed)
    }

    /// Returns the effect of the last set, if there was one.
    pub(crate) fn last_step(&self) -> Option<Step> {
        self.known().last
    }

    /// Returns the offset of a clock that the timers use.
    pub(crate) fn offset_of(&self, clock: Clock) -> Offset {
        self.known().offsets.of(clock)
    }

    /// Returns whether it is known that the kernel does not notify when a clock is set.
    pub(crate) fn is_untold(&self) -> bool {
        // Relaxed: a hint, which decides how often a thread looks.
        self.is_untold.load(Ordering::Relaxed)
    }

    /// Starts the watcher, which notices jumps of the clocks if the kernel notifies it. The watcher calls `was_set`
    /// after each jump.
    pub(super) fn watch(&'static self, was_set: fn()) {
        // Relaxed: the exchange decides who starts the thread.
        if self.watched.load(Ordering::Relaxed) || self.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        self.renew(false);
        // Of what happened before the first timer on such a clock none is to be told later.
        was_set();
        let watcher = thread::Builder::new()
            .name("tickless-clocks".to_owned())
            .stack_size(1 << 17);
        let watched = Sets::watch()
            .and_then(|sets| watcher.spawn(move || self.watch_for_ever(&sets, was_set)));
        if let Err(error) = watched {
            // Relaxed: see `is_untold`.
            self.is_untold.store(true, Ordering::Relaxed);
            // A kernel that cannot tell is not asked again by each timer.
            if is_passing(&error) {
                self.forget_watcher();
            }
        } else {
            // Relaxed: see `is_untold`.
            self.is_untold.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets the watcher, which could not be started, or does not exist in the child of a fork. The next timer on
    /// such a clock starts another watcher.
    pub(crate) fn forget_watcher(&self) {
        self.watched.store(false, Ordering::Release);
    }

    /// Keeps other threads from changing the offsets until the result is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        Paused {
            _known: self.known(),
        }
    }

    /// Compares a clock with its offset, for a thread that has reason to believe that a set was not noticed.
    pub(super) fn recheck(&self, clock: Clock, was_set: fn()) {
        let known = self.offset_of(clock).as_nanos();
        let differs = |offset: Offset| offset.as_nanos().abs_diff(known) > DIFFERENCE_MIN as u64;
        if differs(self.offset(clock)) {
            self.note_set(was_set);
        }
    }

    /// Records that a clock was set, and notifies the timers.
    fn note_set(&self, was_set: fn()) {
        self.renew(true);
        was_set();
    }

    /// Reads the offsets from the kernel again; each base copies them at its next check.
    fn renew(&self, was_set: bool) {
        let mut known = self.known();
        // With the lock held: of two threads that ask the later answer stays.
        let offsets = self.ask();
        let old = known.offsets;
        if was_set {
            let by = |clock| {
                let (new, old) = (offsets.of(clock).as_nanos(), old.of(clock).as_nanos());
                new.saturating_sub(old)
            };
            known.last = Some(Step {
                noticed: nanos(Clock::Monotonic),
                realtime: by(Clock::Realtime),
                boottime: by(Clock::Boottime),
                tai: by(Clock::Tai),
            });
            // Relaxed: see *Ground rules*.
            self.sets.fetch_add(1, Ordering::Relaxed);
        }
        if was_set || old != offsets {
            known.sequence = known.sequence.next();
            known.offsets = offsets;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch_for_ever(&self, sets: &Sets, was_set: fn()) {
        loop {
            match sets.wait() {
                Heard::Set => {}
                Heard::Nothing => continue,
                #[cfg(not(portable_host))]
                Heard::Lost => {
                    // Relaxed: see `is_untold`.
                    self.is_untold.store(true, Ordering::Relaxed);
                    return;
                }
            }
            self.note_set(was_set);
        }
    }

    /// Reads all offsets from the kernel.
    fn ask(&self) -> Offsets {
        Offsets {
            realtime: self.offset(Clock::Realtime),
            boottime: self.offset(Clock::Boottime),
            tai: self.offset(Clock::Tai),
        }
    }

    /// Returns the offset of one clock. The clock is read between two readings of the monotonic clock; of a few
    /// attempts the closest pair counts. The offset is calculated by the second reading of the pair, which rounds it
    /// down, so that a timer on that clock is never early.
    fn offset(&self, clock: Clock) -> Offset {
        let mut best = (i64::MAX, 0);
        for _ in 0..5 {
            let before = nanos(Clock::Monotonic);
            let there = nanos(clock);
            let behind = nanos(Clock::Monotonic);
            if behind - before < best.0 {
                best = (behind - before, there - behind);
            }
        }
        Offset::from_nanos(best.1.saturating_add(self.shift(clock)))
    }

    /// Returns the difference between a clock and the kernel's clock, which tests set.
    #[cfg(not(feature = "internals"))]
    #[inline]
    #[expect(clippy::unused_self, reason = "the other one uses it")]
    const fn shift(&self, _clock: Clock) -> i64 {
        0
    }

    /// Returns the difference between a clock and the kernel's clock, which tests set.
    #[cfg(feature = "internals")]
    fn shift(&self, clock: Clock) -> i64 {
        self.fake.shift(clock)
    }
}

/// The clocks that a test sets, because a test may not set the clocks of the machine.
#[cfg(feature = "internals")]
mod fake {
    use std::sync::atomic::{AtomicI64, Ordering};

    use tickless_core::clock::Offsets;
    use tickless_core::time::Clock;

    use super::Wall;

    #[derive(Debug, Default)]
    pub(super) struct Fake {
        shifts: [AtomicI64; 4],
    }

    impl Fake {
        pub(super) fn shift(&self, clock: Clock) -> i64 {
            // Relaxed: the lock around `known` orders it for those who are told.
            self.shifts[clock as usize].load(Ordering::Relaxed)
        }
    }

    impl Wall {
        /// Makes the clocks differ from the kernel's by `shifts`; no thread is notified.
        pub(crate) fn shift_by(&self, shifts: Offsets) {
            for clock in Clock::ALL {
                // Relaxed: see `shift`.
                self.fake.shifts[clock as usize]
                    .store(shifts.of(clock).as_nanos(), Ordering::Relaxed);
            }
        }

        /// Runs the watcher's action, as when the kernel notifies.
        pub(crate) fn tell(&self, was_set: fn()) {
            self.note_set(was_set);
        }

        /// Sets whether the kernel notifies when a clock is set.
        pub(crate) fn pretend_untold(&self, is_untold: bool) {
            // Relaxed: see `is_untold`.
            self.is_untold.store(is_untold, Ordering::Relaxed);
        }
    }
}

/// Returns the time of a clock by the kernel; zero for a clock that the kernel does not have.
fn nanos(clock: Clock) -> i64 {
    match clock {
        Clock::Monotonic => kernel_time::now(),
        other => show(other).unwrap_or(0),
    }
}
