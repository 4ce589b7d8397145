//! Virtual time: a clock that the program can stop and move.

pub(crate) mod callbacks;
pub(crate) mod clock;
#[cfg(feature = "tokio-test-util")]
pub(crate) mod companion;
pub(crate) mod draw;
pub(crate) mod runtime;
pub(crate) mod ticket;
#[cfg(feature = "tokio")]
mod tokio_callbacks;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tickless_core::time::{Instant as CoreInstant, Span};

use crate::host::registry::show_virtual_sets;
use clock::{Clock, Refused};
use runtime::Runtime;

/// Thirty years, which tokio uses for durations that do not fit.
pub(crate) const FAR: Span = Span::from_secs(86_400 * 365 * 30);

/// Stops the clock of this runtime.
///
/// From then on [`Instant::now`](super::Instant::now) returns the same time until the clock is moved: by [`advance`],
/// or by the runtime itself when all of its tasks wait. The runtime moves the clock to the deadline of the next timer
/// at once, so a program that sleeps for an hour ends within a millisecond. All timers of `time` follow the clock to
/// the nanosecond, and so do the timers of [`coarse`](crate::coarse), which are then as exact as the others.
///
/// ```
/// use std::time::Duration;
/// use tickless::Worker;
/// use tickless::time::{self, Instant, sleep};
///
/// Worker::new()?.block_on(async {
///     time::pause();
///     let start = Instant::now();
///     sleep(Duration::from_secs(3_600)).await;
///     assert_eq!(start.elapsed(), Duration::from_secs(3_600));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Where
///
/// The pause works in [`Worker::block_on`](crate::Worker::block_on), and on an [`Executor`](crate::Executor) with one
/// worker, where the worker and all threads in its `block_on` share the clock. Each runtime has its own clock, so
/// several tests run in one process.
///
/// It also works in a `current_thread` runtime of tokio, with the feature `tokio-test-util`: the call pauses tokio's
/// clock, and the time of this library follows tokio's clock. Sleeps are tokio's sleeps there, and take whole
/// milliseconds, and [`advance`] is [tokio's](advance#in-a-runtime-of-tokio).
///
/// # What holds the time
///
/// The clock does not move by itself while a [blocking job](crate::task::spawn_blocking) runs. On an executor with
/// [descriptors](crate::executor::io) it moves when no descriptor has become ready for 5 ms.
///
/// # What does not follow it
///
/// `Parking`, [`blocking`](crate::time::blocking) and the slices of an executor stay on the process's clock, and so do
/// all threads outside of the runtime. [Timers with callbacks](crate::hrtimer::HrTimer#paused-clocks) follow the paused
/// clock from their next start on.
///
/// The pause wakes all tasks, and their sleeps follow the clock as they are polled. A sleep that was polled before the
/// first pause of its runtime, with a waker of its own instead of the waker of its task, is not polled by this wake-up,
/// so it continues to wait on the process's clock. Futures inside of a `FuturesUnordered` have such wakers. Pause
/// before such sleeps are polled, as `start_paused` does.
///
/// [`boottime`](crate::boottime), [`tai`](crate::tai) and [`realtime`](crate::realtime) follow the clock too;
/// [`realtime::now`](crate::realtime::now) returns the virtual time of day then.
///
/// # Panics
///
/// When the clock is stopped already, on an executor with several workers, and outside of a runtime.
#[track_caller]
pub fn pause() {
    #[cfg(feature = "tokio-test-util")]
    if is_in_tokio() {
        return tokio::time::pause();
    }
    refuse(at_runtime(|runtime| runtime.pause(true)));
}

/// Stops the clock of this runtime, as [`pause`] does, until [`advance`] moves it: the clock never moves by itself.
///
/// While no task advances the clock, a task that sleeps waits for ever, even if nothing else can run. tokio has no such
/// function, and a paused clock of tokio always moves by itself.
///
/// # Panics
///
/// As [`pause`], and in a runtime of tokio.
#[track_caller]
pub fn pause_manually() {
    refuse(at_runtime(|runtime| runtime.pause(false)));
}

/// Lets the clock of this runtime run again, from the time at which it was stopped.
///
/// Timers that wait keep their deadlines.
///
/// # Panics
///
/// When the clock is not stopped, and outside of a runtime.
#[track_caller]
pub fn resume() {
    #[cfg(feature = "tokio-test-util")]
    if is_in_tokio() {
        return tokio::time::resume();
    }
    refuse(at_runtime(|runtime| {
        if !runtime.has_one_worker() {
            return Err(Refused::NotFrozen);
        }
        let runs = runtime.clock().resume();
        runs.then_some(()).ok_or(Refused::NotFrozen)
    }));
}

/// Moves the stopped clock of this runtime by `duration`.
///
/// Timers that become due fire one after the other, by deadline and then in the order in which they were armed, each at
/// its own time. All tasks run until they wait before the next timer fires. When the future is ready, all of these
/// timers have fired, and the clock has moved by `duration` exactly. If several advances are polled at the same time,
/// each begins where the previous one ends.
///
/// # In a runtime of tokio
///
/// In a `current_thread` runtime of tokio this function is tokio's `advance`, so that moved tests keep their meaning:
/// the clock moves at once by the whole `duration`, and the future may be ready before the tasks that became due are
/// polled. They then find the clock at its new time. To let each timer fire at its own time there, await a
/// [`sleep`](fn@super::sleep) of this duration instead. Timers with callbacks that became due were called when the
/// future is ready.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tickless::Worker;
/// use tickless::time::{self, Instant};
///
/// Worker::new()?.block_on(async {
///     time::pause();
///     let start = Instant::now();
///     time::advance(Duration::from_nanos(1)).await;
///     assert_eq!(start.elapsed(), Duration::from_nanos(1));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// When the clock is not stopped, outside of a runtime, and when the sum is no [`Instant`](super::Instant): at the
/// first poll, as in tokio.
///
/// # Cancellation
///
/// If the future is dropped before it is ready, the clock stays at the time that it has reached.
pub async fn advance(duration: Duration) {
    #[cfg(feature = "tokio-test-util")]
    if is_in_tokio() {
        tokio::time::advance(duration).await;
        return tokio_callbacks::advanced();
    }
    Advancing::new(duration).await;
}

/// Makes the wall clock of this runtime `step` nanoseconds later, for [`realtime::set`](crate::realtime::set).
#[track_caller]
pub(crate) fn set_wall(step: i64) {
    refuse(at_runtime(|runtime| {
        show_virtual_sets(runtime::sets_here);
        let is_set = runtime.clock().set_wall(step);
        is_set.then_some(()).ok_or(Refused::NotFrozen)
    }));
}

/// Returns true if the clock of this thread is the clock of a tokio runtime.
#[cfg(feature = "tokio-test-util")]
fn is_in_tokio() -> bool {
    runtime::current_or_own().is_none() && tokio::runtime::Handle::try_current().is_ok()
}

/// Arms a timer on the virtual clock that this thread sees; returns `None` if the deadline is over. A set of the wall
/// clock of this runtime wakes the task too if `is_of_wall`.
pub(crate) fn arm(deadline: CoreInstant, waker: &Waker, is_of_wall: bool) -> Option<Waker> {
    let own = runtime::current().filter(|runtime| runtime.is_virtual());
    if let Some(runtime) = own {
        let waker = waker.clone();
        return Some(ticket::issue(runtime.clock(), deadline, waker, is_of_wall));
    }
    #[cfg(feature = "tokio")]
    return ticket::issue_in_tokio(deadline, waker);
    #[cfg(not(feature = "tokio"))]
    None
}

/// Starts a timer with a callback by `start`, on the virtual clock that this thread sees. Returns `start` if no base is
/// left.
pub(crate) fn start_callback<R, S: FnOnce() -> R>(start: S) -> Result<R, S> {
    let start = match runtime::start_callback(start) {
        Ok(started) => return Ok(started),
        Err(start) => start,
    };
    #[cfg(feature = "tokio")]
    if runtime::current().is_none() {
        return tokio_callbacks::start(start);
    }
    Err(start)
}

/// An advance that has begun and is not over.
struct Advancing {
    duration: Duration,
    begun: Option<(Arc<Clock>, u64)>,
}

impl Advancing {
    const fn new(duration: Duration) -> Self {
        Self {
            duration,
            begun: None,
        }
    }
}

impl Future for Advancing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some((clock, number)) = &self.begun {
            return if clock.is_advanced(*number, context.waker()) {
                self.begun = None;
                Poll::Ready(())
            } else {
                Poll::Pending
            };
        }
        let begun = at_runtime(|runtime| {
            let number = runtime
                .clock()
                .begin_advance(self.duration, context.waker().clone())?;
            Ok((Arc::clone(runtime.clock()), number))
        });
        self.begun = Some(refuse(begun));
        Poll::Pending
    }
}

impl Drop for Advancing {
    fn drop(&mut self) {
        if let Some((clock, number)) = self.begun.take() {
            clock.end_advance(number);
        }
    }
}

/// Calls `body` with the runtime of this thread.
fn at_runtime<R>(body: impl FnOnce(&Runtime) -> Result<R, Refused>) -> Result<R, Refused> {
    let outside = || {
        #[cfg(feature = "tokio-test-util")]
        if tokio::runtime::Handle::try_current().is_ok() {
            return Refused::InTokio;
        }
        Refused::Outside
    };
    let runtime = runtime::current_or_own().ok_or_else(outside)?;
    let result = body(&runtime);
    runtime::sync();
    result
}

/// Panics as tokio does, with tokio's text as far as it fits.
#[track_caller]
fn refuse<R>(result: Result<R, Refused>) -> R {
    match result {
        Ok(result) => result,
        Err(Refused::AlreadyFrozen) => panic!("time is already frozen"),
        Err(Refused::NotFrozen) => panic!("time is not frozen"),
        Err(Refused::TooFar) => panic!("overflow when adding duration to instant"),
        Err(Refused::SeveralWorkers) => panic!(
            "`time::pause()` requires the `current_thread` Tokio runtime. Here that is an `Executor` with one worker, \
             or `Worker::block_on`; several workers have no order in which the time could pass"
        ),
        Err(Refused::Outside) => panic!(
            "time cannot be frozen from outside the Tokio runtime. Tickless stops the clock of an `Executor` with one \
             worker, of `Worker::block_on` and of `#[tickless::test]`, and with the feature `tokio-test-util` that of \
             tokio's `current_thread` runtime; none of them runs this code"
        ),
        #[cfg(feature = "tokio-test-util")]
        Err(Refused::InTokio) => panic!(
            "a clock of tokio can do this neither by tokio nor by this library: it is paused by `time::pause` and \
             moved by `time::advance` alone. Use `#[tickless::test]`, an `Executor` with one worker, or \
             `Worker::block_on`"
        ),
    }
}
