//! The offsets of the clocks that can be set, and noticing when they are.
//!
//! The kernel tells a thread that asks: a timer file descriptor on the time of day, armed for the far future with
//! `TFD_TIMER_CANCEL_ON_SET`, returns `ECANCELED` from a read when the clock is set, and when the machine wakes from a
//! suspend. One thread waits for that. It is started when the first timer on such a clock is made, so most programs
//! never have it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::io::Errno;
use rustix::time::{
    ClockId, DynamicClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
    clock_gettime_dynamic, timerfd_create, timerfd_settime,
};
use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::time::Offset;

/// The offsets, as last asked of the kernel.
#[derive(Debug)]
pub(crate) struct Wall {
    known: Mutex<(SetSequence, Offsets)>,
    /// A thread waits for jumps.
    watched: AtomicBool,
}

/// Offsets that no thread changes.
pub(crate) struct Paused<'a> {
    _known: MutexGuard<'a, (SetSequence, Offsets)>,
}

impl Wall {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::new((SetSequence::START.next(), ask())),
            watched: AtomicBool::new(false),
        }
    }

    /// The offsets, if `seen` is not the latest jump.
    pub(crate) fn changed_since(&self, seen: SetSequence) -> Option<(SetSequence, Offsets)> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.0 != seen).then_some(known)
    }

    /// Sees to it that jumps of the clocks are noticed. Where the kernel does not tell, they are not, and timers on
    /// these clocks keep the offset that they were started with. `was_set` is called after each jump.
    pub(super) fn watch(&'static self, was_set: fn()) {
        // Relaxed: the exchange decides who starts the thread.
        if self.watched.load(Ordering::Relaxed) || self.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        self.renew();
        let watcher = thread::Builder::new()
            .name("tickless-clocks".to_owned())
            .stack_size(1 << 17);
        let watched = cancelled_on_set()
            .and_then(|fd| watcher.spawn(move || self.watch_for_ever(&fd, was_set)));
        if watched.is_err_and(|error| is_passing(&error)) {
            self.forget_watcher();
        }
    }

    /// There is no watcher: it could not be started, or is gone with the other threads. The next timer on such a clock
    /// starts another.
    pub(crate) fn forget_watcher(&self) {
        self.watched.store(false, Ordering::Release);
    }

    /// Keeps other threads from changing the offsets until the result is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        Paused {
            _known: self.known.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn renew(&self) {
        let offsets = ask();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1 != offsets {
            *known = (known.0.next(), offsets);
        }
    }

    fn watch_for_ever(&self, fd: &OwnedFd, was_set: fn()) {
        loop {
            // Blocks until the clock is set: the timer itself is for a time that never comes.
            match rustix::io::read(fd, &mut [0; 8]) {
                Err(Errno::CANCELED) => {}
                Err(Errno::INTR) => continue,
                _ => return,
            }
            self.renew();
            was_set();
        }
    }
}

/// Whether what the system refused now it may grant later: a thread, a descriptor, memory. A kernel that cannot tell
/// is not asked again by each timer.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let code = Errno::from_io_error(error);
    code.is_some_and(|code| passing.contains(&code))
}

fn cancelled_on_set() -> io::Result<OwnedFd> {
    let fd = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let never = Timespec {
        tv_sec: i64::MAX / 4_000_000_000,
        tv_nsec: 0,
    };
    timerfd_settime(
        &fd,
        flags,
        &Itimerspec {
            it_interval: zero,
            it_value: never,
        },
    )?;
    Ok(fd)
}

/// Asks the kernel for all offsets.
fn ask() -> Offsets {
    Offsets {
        realtime: offset(|| DynamicClockId::Known(ClockId::Realtime)),
        boottime: offset(|| DynamicClockId::Known(ClockId::Boottime)),
        tai: offset(|| DynamicClockId::Tai),
    }
}

/// The offset of one clock. Read between two readings of the monotonic clock, the closest pair of a few; rounded down
/// to what the second of them says, so that a timer on that clock is never early.
fn offset(clock: impl Fn() -> DynamicClockId<'static>) -> Offset {
    let monotonic = || nanos(DynamicClockId::Known(ClockId::Monotonic));
    let mut best = (i64::MAX, 0);
    for _ in 0..5 {
        let before = monotonic();
        let there = nanos(clock());
        let behind = monotonic();
        if behind - before < best.0 {
            best = (behind - before, there - behind);
        }
    }
    Offset::from_nanos(best.1)
}

/// What a clock shows; zero for one that the kernel does not have.
fn nanos(clock: DynamicClockId<'static>) -> i64 {
    clock_gettime_dynamic(clock).map_or(0, |now| {
        now.tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(now.tv_nsec)
    })
}
