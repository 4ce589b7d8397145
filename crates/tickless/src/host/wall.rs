//! The offsets of the clocks that can be set, and the detection of such sets.
//!
//! The kernel tells a thread that asks: a timer file descriptor on the time of day, armed for the far future with
//! `TFD_TIMER_CANCEL_ON_SET`, returns `ECANCELED` from a read when the clock is set, and when the machine wakes from a
//! suspend. One thread waits for that. It is started when the first timer on such a clock is made, so most programs
//! never have it.
//!
//! # What the watcher does
//!
//! It asks for the offsets anew, counts the set, and has the timers told: each base takes the new offsets over, a
//! thread whose timer is due by now is kicked, and timers that fire on a set are fired. That is how a BOOTTIME timer
//! that became due during a suspend fires behind the resume: no device of this process counts suspended time.
//!
//! # Where the kernel does not tell
//!
//! Some kernels and emulations do not know the flag. A timer that a task awaits has its clock compared with the offset
//! each time it is started or polled then ([`Wall::recheck`]), so that all timers learn of a change that one task
//! finds. Between two such looks a set passes unseen: timers on these clocks are late by what the clock was set
//! forward, or by the time that was slept through. They are not early, for the task that is woken looks at its clock.
//!
//! # Ground rules
//!
//! - `known` is locked behind base locks, by a thread that copies the offsets.
//! - `sets` counts on before the timers are told. A thread that queued a timer and reads the count behind that finds
//!   the set, or the timer is told: the base lock that both take orders them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::time::{Clock, ClockId, Instant, Offset};

use super::kernel_time;
use super::sys::Heard;
use super::sys::clocks::{Sets, show};
use super::sys::descriptors::is_passing;

/// Difference of a clock from its offset that [`Wall::recheck`] calls a set, in nanoseconds: more than reading two
/// clocks takes, even in a thread that was preempted in between now and then.
const DIFFERENCE_MIN: i64 = 100_000;

/// The offsets, as last asked of the kernel.
#[derive(Debug)]
pub(crate) struct Wall {
    known: Mutex<Known>,
    /// A thread waits for jumps, or none can.
    watched: AtomicBool,
    /// The kernel does not tell of jumps.
    is_untold: AtomicBool,
    /// Jumps that were noticed.
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

/// Effect of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The monotonic time at which it was noticed, in nanoseconds.
    pub(crate) noticed: i64,
    /// Jump of each clock, in nanoseconds.
    pub(crate) realtime: i64,
    pub(crate) boottime: i64,
    pub(crate) tai: i64,
}

/// Offsets that no thread changes.
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

    /// The offsets, if `seen` is not the latest jump.
    pub(crate) fn changed_since(&self, seen: SetSequence) -> Option<(SetSequence, Offsets)> {
        let known = *self.known();
        (known.sequence != seen).then_some((known.sequence, known.offsets))
    }

    /// Returns the clock `C` by the kernel: later than the timers' own while a set was not noticed yet.
    pub(crate) fn show<C: ClockId>(&self) -> Instant<C> {
        Instant::from_nanos(nanos(C::CLOCK).saturating_add(self.shift(C::CLOCK)))
    }

    /// Returns how often a clock was set, as far as that was noticed.
    pub(crate) fn sets(&self) -> u64 {
        // Relaxed: see *Ground rules*.
        self.sets.load(Ordering::Relaxed)
    }

    /// Returns the effect of the last set, if there was one.
    pub(crate) fn last_step(&self) -> Option<Step> {
        self.known().last
    }

    /// The offset of a clock, as the timers know it.
    pub(crate) fn offset_of(&self, clock: Clock) -> Offset {
        self.known().offsets.of(clock)
    }

    /// Returns whether it is known that the kernel does not notify when a clock is set.
    pub(crate) fn is_untold(&self) -> bool {
        // Relaxed: a hint, which decides how often a thread looks.
        self.is_untold.load(Ordering::Relaxed)
    }

    /// Sees to it that jumps of the clocks are noticed, if the kernel tells. `was_set` is called after each jump.
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

    /// Forgets the watcher: it could not be started, or is gone with the other threads. The next timer on such a clock
    /// starts another.
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

    /// A clock was set.
    fn note_set(&self, was_set: fn()) {
        self.renew(true);
        was_set();
    }

    /// Requests the offsets; each base copies them when it looks next.
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

    /// The offset of one clock. Read between two readings of the monotonic clock, the closest pair of a few; rounded
    /// down to what the second of them says, so that a timer on that clock is never early.
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

    /// Returns the difference of a clock from the kernel's, in tests.
    #[cfg(not(feature = "internals"))]
    #[inline]
    #[expect(clippy::unused_self, reason = "the other one uses it")]
    const fn shift(&self, _clock: Clock) -> i64 {
        0
    }

    /// Returns the difference of a clock from the kernel's, in tests.
    #[cfg(feature = "internals")]
    fn shift(&self, clock: Clock) -> i64 {
        self.fake.shift(clock)
    }
}

/// Clocks that a test sets, for it may not set those of the machine.
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
        /// Lets the clocks differ from the kernel's by `shifts` from here on; no thread is told.
        pub(crate) fn shift_by(&self, shifts: Offsets) {
            for clock in Clock::ALL {
                // Relaxed: see `shift`.
                self.fake.shifts[clock as usize]
                    .store(shifts.of(clock).as_nanos(), Ordering::Relaxed);
            }
        }

        /// Runs the watcher's action when the kernel notifies.
        pub(crate) fn tell(&self, was_set: fn()) {
            self.note_set(was_set);
        }

        /// Sets whether the kernel tells when a clock is set.
        pub(crate) fn pretend_untold(&self, is_untold: bool) {
            // Relaxed: see `is_untold`.
            self.is_untold.store(is_untold, Ordering::Relaxed);
        }
    }
}

/// Returns a clock by the kernel; zero for one that it does not have.
fn nanos(clock: Clock) -> i64 {
    match clock {
        Clock::Monotonic => kernel_time::now(),
        other => show(other).unwrap_or(0),
    }
}
