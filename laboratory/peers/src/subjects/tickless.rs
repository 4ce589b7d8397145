//! The timers of this library: futures and callbacks, on workers and on foreign threads.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickless::coarse;
use tickless::hrtimer::{self, Expired, HrTimer, StartOutcome};
use tickless::time::{Instant, Sleep, sleep_until};
use tickless::wheel::{self, Timeout, WheelTimer};
use tickless::{Parking, Worker};

use super::futures::SleepKind;
use crate::slots::Slots;
use crate::subject::Subject;

fn as_worker<R>(body: impl FnOnce(&Worker) -> R) -> R {
    let worker = Worker::with_parking(Parking::Sleep);
    body(&worker.expect("this thread is no worker yet"))
}

/// Calls `body` on a worker that takes no turns.
pub(super) fn on_a_worker<R>(body: impl FnOnce() -> R) -> R {
    as_worker(|_| body())
}

/// Runs due timers, or waits until a timer is due, as a park does. For coarse timers that another thread runs, this
/// wait would not end.
fn turn(worker: &Worker) {
    if worker.is_due() {
        let _turn = worker.turn();
        return;
    }
    let until_due = |next: Instant| next.saturating_duration_since(Instant::now());
    // Coarse timers are due an eighth later than is waited for. A look each half millisecond took several times what a
    // thousand of them take to fire.
    std::thread::sleep(worker.next_deadline().map_or(A_LITTLE, until_due));
}

/// The time between two checks whether another thread has fired the remaining timers: longer than the lateness of the
/// kernel.
const A_LITTLE: Duration = Duration::from_micros(500);

/// Implements the part that all timers of this library share.
macro_rules! on_our_clock {
    () => {
        #[inline]
        fn later(time: Instant, nanos: u64) -> Instant {
            time + Duration::from_nanos(nanos)
        }
    };
}

/// Implements the part that both kinds of futures share.
macro_rules! sleep_of {
    ($sleep:ty, $make:path) => {
        type Sleep = $sleep;
        type Time = Instant;

        on_our_clock!();

        #[inline]
        fn now() -> Instant {
            Instant::now()
        }

        #[inline]
        fn make(deadline: Instant) -> Self::Sleep {
            $make(deadline)
        }

        #[inline]
        fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
            sleep.reset(deadline);
        }

        fn is_over(sleep: &Self::Sleep) -> bool {
            sleep.is_elapsed()
        }
    };
}

/// Implements the part that all subjects on a worker share.
macro_rules! on_a_worker {
    () => {
        type Environment = Worker;

        fn within<R>(body: impl FnOnce(&Worker) -> R) -> R {
            as_worker(body)
        }

        /// Takes the turn that is due. Without this turn the expiry thread would fire the due timers of this worker,
        /// under the lock of the worker.
        #[inline]
        fn serve(worker: &Worker) {
            if worker.is_due() {
                let _turn = worker.turn();
            }
        }
    };
}

/// The subject `tickless::time::Sleep` on a worker.
#[derive(Debug)]
pub(crate) struct OnWorker;

impl SleepKind for OnWorker {
    sleep_of!(Sleep, sleep_until);
    on_a_worker!();

    fn wait(worker: &Worker) {
        turn(worker);
    }
}

/// The subject `tickless::time::Sleep` on a foreign thread, which the library has not registered as a worker.
#[derive(Debug)]
pub(crate) struct OnThread;

impl SleepKind for OnThread {
    sleep_of!(Sleep, sleep_until);
    type Environment = ();

    fn within<R>(body: impl FnOnce(&()) -> R) -> R {
        body(&())
    }
}

#[derive(Debug)]
pub(crate) struct Coarse;

impl SleepKind for Coarse {
    sleep_of!(coarse::Sleep, coarse::sleep_until);
    on_a_worker!();

    fn wait(worker: &Worker) {
        turn(worker);
    }
}

/// The number of timers with callbacks that fired in this process. One subject at a time is measured, so one count
/// suffices.
static FIRED: AtomicU64 = AtomicU64::new(0);

fn fired() -> u64 {
    // Relaxed: a count that is looked at until it is large enough; nothing else is read by it.
    FIRED.load(Ordering::Relaxed)
}

fn count() {
    // Relaxed: as above.
    FIRED.fetch_add(1, Ordering::Relaxed);
}

/// Implements the part that timers with callbacks share: `start` and `cancel` of a pinned timer.
macro_rules! callbacks {
    ($name:ident, $make:expr) => {
        impl Subject for $name {
            type Time = Instant;

            on_a_worker!();
            on_our_clock!();

            fn new(_worker: &Worker, slots: usize, _counts: bool) -> Self {
                Self {
                    timers: Slots::new(slots + 1, || $make),
                    fired_before: fired(),
                }
            }

            #[inline]
            fn now(&mut self) -> Instant {
                Instant::now()
            }

            #[inline]
            fn arm(&mut self, slot: usize, deadline: Instant) -> bool {
                // What it says is whether it was queued before.
                self.timers.at(slot).start(deadline) == StartOutcome::Started
            }

            #[inline]
            fn cancel(&mut self, slot: usize) -> bool {
                self.timers.at(slot).cancel()
            }

            #[inline]
            fn push_out(&mut self, slot: usize, deadline: Instant) {
                let _ = self.timers.at(slot).start(deadline);
            }

            #[inline]
            fn arm_and_cancel(&mut self, deadline: Instant) -> bool {
                let slot = self.timers.len() - 1;
                self.arm(slot, deadline) & self.cancel(slot)
            }

            fn is_armed(&mut self, slot: usize) -> bool {
                self.timers.at(slot).is_active()
            }

            fn fire(&mut self, worker: &Worker) -> u64 {
                turn(worker);
                fired() - self.fired_before
            }
        }
    };
}

/// The callback of a [`WheelTimer`].
type OnTimeout = fn(&mut Timeout) -> wheel::Restart;

/// The subject `tickless::wheel::WheelTimer`, whose timers stay on their worker.
#[derive(Debug)]
pub(crate) struct Wheel {
    timers: Slots<WheelTimer<OnTimeout>>,
    fired_before: u64,
}

callbacks!(
    Wheel,
    WheelTimer::with_kind(
        wheel::WheelKind::Local,
        (|_| {
            count();
            wheel::Restart::No
        }) as OnTimeout
    )
);

/// The callback of an [`HrTimer`].
type OnExpiry = fn(&mut Expired<'_, '_, hrtimer::Monotonic>) -> hrtimer::Restart;

/// The subject `tickless::hrtimer::HrTimer`.
#[derive(Debug)]
pub(crate) struct Exact {
    timers: Slots<HrTimer<OnExpiry>>,
    fired_before: u64,
}

callbacks!(
    Exact,
    HrTimer::new(
        (|_| {
            count();
            hrtimer::Restart::No
        }) as OnExpiry
    )
);
