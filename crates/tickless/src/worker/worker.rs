//! Threads that fire their own timers.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tickless_core::time::Instant as CoreInstant;

use super::epoll::EpollEvents;
use super::error::IsolationError;
use super::local::{IsolatedTimers, LocalTimers, Turn, assert_outside_of_callbacks};
use crate::host::isolation::Occupancy;
use crate::host::spin::Aim;
use crate::host::sys::clocks::timespec;
use crate::host::sys::descriptors::{AsFd, BorrowedFd};
use crate::host::sys::threads;
use crate::host::thread::{ThreadBase, ThreadKind};
use crate::host::{clock, device, wake};
use crate::start_error::StartError;
use crate::time::Instant;
use crate::time::budget::refilled;
use crate::time::virtual_time::runtime::{self, Blocks, Sleeper};

/// The idleness of a worker, which ends when this value is dropped, by a panic too.
#[cfg(not(portable_host))]
struct Idle<'a>(&'a LocalTimers);

#[cfg(not(portable_host))]
impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.leave_idle();
    }
}

/// The ways in which a [`Worker`] can wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// Sleeps in the kernel until the worker's first timer is due or another thread wakes it.
    #[default]
    Sleep,
    /// Polls without sleeping. Timers fire at most a few hundred nanoseconds late, and the worker uses a whole CPU.
    Spin,
}

/// A thread that fires its own timers, which is the fastest and most exact way to use timers.
///
/// Making a worker turns the current thread into a worker, until the value is dropped. Its timers then fire only in its
/// [turns](Worker::turn) and while it is [parked](Worker::park), so a worker that computes for long delays its timers.
/// If the worker blocks elsewhere on one of its own timers, for example in another executor, the timer is late and not
/// lost: the background thread fires exact timers from 10 ms after the first of them was due, until the worker takes a
/// turn ([`Stats::stuck_expired`](crate::Stats::stuck_expired)). All of `tickless::time` and
/// [`HrTimer`](crate::hrtimer::HrTimer) use the worker of their thread automatically. A thread-local may hold the
/// worker. If the worker is leaked, the background thread takes over when the thread has ended.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Worker, time};
///
/// let worker = Worker::new()?;
/// let sum = worker.block_on(async {
///     time::sleep(Duration::from_micros(200)).await;
///     1 + 1
/// });
/// assert_eq!(sum, 2);
/// # Ok::<(), tickless::StartError>(())
/// ```
///
/// # A loop of your own
///
/// ```no_run
/// # fn work() -> bool { false }
/// let worker = tickless::Worker::new()?;
/// loop {
///     if worker.is_due() {
///         let _ = worker.turn();
///     }
///     if !work() {
///         let _ = worker.park();
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), tickless::StartError>(())
/// ```
#[derive(Debug)]
pub struct Worker {
    timers: LocalTimers,
    parking: Parking,
    waker: Waker,
    /// True while a [`block_on`](Worker::block_on) runs.
    blocking: Cell<bool>,
    /// True if a notification was taken that may have been meant for the future that is being run.
    owed: Cell<bool>,
}

/// A handle that wakes a worker.
#[derive(Clone, Debug)]
pub struct Unparker {
    target: Arc<Target>,
}

#[derive(Debug)]
struct Target {
    base: &'static ThreadBase,
}

impl Wake for Target {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Should the worker be gone, the thread that occupies its base now looks once for nothing.
        self.base.local().parker.unpark();
    }
}

impl Unparker {
    /// Returns the present occupancy of the worker's base; the worker is alive.
    pub(crate) fn occupancy(&self) -> Occupancy {
        Occupancy::of(self.target.base)
    }

    /// Requests that the task which the worker polls gives way at its next checkpoint.
    pub(crate) fn request_reschedule(&self) {
        self.target.base.local().resched.request();
    }

    /// Ends the worker's park, or makes its next park return at once. Any thread may call this method.
    pub fn unpark(&self) {
        self.target.base.local().parker.unpark();
    }
}

impl Worker {
    /// Makes this thread a worker that sleeps while it waits.
    ///
    /// Sets the timer slack of the thread to 1 ns: by default the kernel wakes threads up to 50 µs late.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the thread is a worker or a driver already, or if there are too many threads with timers.
    pub fn new() -> Result<Self, StartError> {
        Self::with_parking(Parking::Sleep)
    }

    /// Makes this thread a worker that waits in the given way.
    ///
    /// # Errors
    ///
    /// As [`new`](Worker::new).
    pub fn with_parking(parking: Parking) -> Result<Self, StartError> {
        let timers = LocalTimers::take(ThreadKind::Worker)?;
        threads::remove_timer_slack();
        let waker = Waker::from(Arc::new(Target { base: timers.base }));
        Ok(Self {
            timers,
            parking,
            waker,
            blocking: Cell::new(false),
            owed: Cell::new(false),
        })
    }

    /// Returns true if a [`turn`](Worker::turn) would fire a timer.
    ///
    /// # Cost
    ///
    /// The check takes a reading of the clock, a few loads and comparisons, and no lock.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.timers.is_due()
    }

    /// Fires the timers that are due.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker, because these run in a turn themselves.
    #[track_caller]
    pub fn turn(&self) -> Turn {
        self.timers.turn()
    }

    /// Returns true if a thread [unparked](Unparker::unpark) this worker since its last park or the last call of this
    /// method. It is for workers that poll and never park. A call that returns true uses up the unpark, so the next
    /// park waits.
    ///
    /// Unless this worker is [isolated](Worker::set_isolated), the library may unpark it too, if the worker that would
    /// wake up for all sleeping workers ends.
    ///
    /// # Cost
    ///
    /// One load if the worker was not unparked.
    #[inline]
    #[must_use = "the answer is given once"]
    pub fn was_unparked(&self) -> bool {
        let parker = &self.timers.base.local().parker;
        if !parker.is_notified() {
            return false;
        }
        if self.blocking.get() {
            // As in `park`.
            self.owed.set(true);
        }
        parker.take_notification()
    }

    /// Isolates this worker from the other threads, or ends its isolation.
    ///
    /// Workers fire each other's [coarse timers](crate::coarse): an awake worker fires the coarse timers of sleeping
    /// workers, and while all workers sleep, one of them wakes up for all. An isolated worker takes no part in this: it
    /// fires no timers of other workers, no worker wakes it to do so, and it wakes up for all of its own timers,
    /// including coarse timers.
    ///
    /// Locks of other threads do not interrupt the CPU of an isolated worker either. While a worker is isolated, a
    /// thread that locks the timers of another thread, for example to cancel a timer, executes no barrier on all CPUs.
    /// Meanwhile other threads pay one more atomic exchange to start or cancel a timer of their own. The exception is a
    /// thread that cancels or restarts a timer *of the isolated worker*, calls [`stats`](crate::stats()) or makes a
    /// [`dump`](crate::dump), or forks. The first such thread interrupts all CPUs of the process once, and from then on
    /// the isolated worker pays the atomic exchange.
    ///
    /// # Errors
    ///
    /// [`IsolationError::LastWorker`] if all other workers are isolated; nothing changes. If several workers change,
    /// first end the isolation of the workers that are to be isolated no longer.
    pub fn set_isolated(&self, isolated: bool) -> Result<(), IsolationError> {
        self.timers.set_isolated(isolated)
    }

    /// Sets the queue that receives timers which this worker starts while it is isolated. Timers that are queued stay
    /// in their queue until they are started again; local coarse timers always stay on this worker.
    pub fn set_isolated_timers(&self, policy: IsolatedTimers) {
        self.timers.set_isolated_timers(policy);
    }

    /// Sets whether the background thread fires exact timers of this worker if the worker has taken no turn 10 ms after
    /// the first of these timers was due.
    ///
    /// Default: the background thread does so, but not while the worker is isolated, because acquiring the lock of the
    /// worker's timers would interrupt the worker's CPU.
    pub fn set_helped(&self, is_helped: bool) {
        self.timers.set_helped(is_helped);
    }

    /// Returns true if this worker is [isolated](Worker::set_isolated).
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.timers.is_isolated()
    }

    /// Returns the deadline of the first timer of this thread, or `None` if no timer is pending.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Waits until a timer is due or another thread [unparks](Unparker::unpark) this worker, and fires the timers that
    /// are due.
    ///
    /// The call returns without waiting if a timer is due already or the worker was unparked since its last park. It
    /// may return for no reason; [`Turn::fired`] is zero if no timer fired.
    ///
    /// Unless this worker is [isolated](Worker::set_isolated) its [coarse timers](crate::coarse) may fire on another
    /// worker, which does not end the park: the wakers have to [unpark](Unparker::unpark) the worker, as the wakers of
    /// any executor do.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker.
    #[track_caller]
    pub fn park(&self) -> Turn {
        assert_outside_of_callbacks();
        if self.blocking.get() {
            // The notification that ends this park may be the one that the future outside waits for.
            self.owed.set(true);
        }
        if !self.timers.is_due_before_sleep()
            && !self.timers.base.local().parker.take_notification()
        {
            self.wait();
        }
        self.timers.turn()
    }

    /// Works as [`park`](Self::park), for a loop that takes its turns itself.
    pub(crate) fn park_without_turn(&self) {
        if !self.timers.is_due() && !self.timers.base.local().parker.take_notification() {
            self.wait();
        }
    }

    /// Works as [`is_due`](Self::is_due), with a reading of the clock that the caller has.
    #[inline]
    pub(crate) fn is_due_at(&self, now: CoreInstant) -> bool {
        self.timers.is_due_at(now)
    }

    /// Works as [`turn`](Self::turn), and leaves the rearm of the device to the caller.
    pub(crate) fn turn_owing(&self, now: CoreInstant) {
        self.timers.turn_owing(now);
    }

    /// Returns the waker that wakes this worker.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the base of the worker's thread.
    #[inline]
    pub(crate) fn base(&self) -> &'static ThreadBase {
        self.timers.base
    }

    /// Clears the request that the running task gives way; returns true if a request was set. The caller checks the
    /// reasons for a request after this call.
    #[inline]
    pub(crate) fn clear_reschedule(&self) -> bool {
        self.timers.base.local().resched.clear()
    }

    /// Requests that the task that is polled next gives way at its first checkpoint.
    pub(crate) fn request_reschedule(&self) {
        self.timers.base.local().resched.request();
    }

    /// Waits until a timer is due or the worker is notified; takes the notification.
    fn wait(&self) {
        let base = self.timers.base;
        match self.parking {
            Parking::Sleep => {
                base.local().parker.park(self.timers.enter_idle());
                self.timers.leave_idle();
            }
            Parking::Spin => {
                self.spin();
                base.local().parker.take_notification();
            }
        }
    }

    /// Checks in a loop until a timer is due or the worker is notified.
    fn spin(&self) {
        let base = self.timers.base;
        let parker = &base.local().parker;
        let aim = Aim::new();
        let is_over = || {
            if parker.is_notified() {
                return true;
            }
            let due = device::due(base);
            if aim.is_ahead(due, clock::counter::read) {
                return false;
            }
            // At the deadline, and where the clock has to be asked anew: then others are looked after too.
            let is_over = self.timers.is_due();
            aim.take(due, clock::cycles_at(due).unwrap_or(0));
            is_over
        };
        while !is_over() {
            tickless_link::sync::spin_loop();
        }
    }

    /// Waits as [`park`](Self::park) does, and also for events of an epoll instance of yours.
    ///
    /// The wait ends when events are ready, a timer is due or another thread [unparks](Unparker::unpark) this worker,
    /// or for no reason. A worker that [spins](Parking::Spin) checks once. `events` receives the events in any case,
    /// also if a timer is due already. The call returns the result of the turn.
    ///
    /// # Errors
    ///
    /// The errors of `epoll_wait`, among them `EINVAL` if `events` has the capacity 0. An interrupt by a signal is not
    /// an error. The first wait needs one more file descriptor, for wake-ups, and fails if the system refuses it.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker.
    ///
    /// # Cost
    ///
    /// One system call when events are ready or a timer is due, two more to sleep. The deadline is kept to the
    /// nanosecond.
    #[track_caller]
    pub fn park_on_epoll(&self, epoll: impl AsFd, events: &mut EpollEvents) -> io::Result<Turn> {
        assert_outside_of_callbacks();
        if self.blocking.get() {
            // As in `park`.
            self.owed.set(true);
        }
        let sleeps = !self.timers.is_due_before_sleep() && self.parking != Parking::Spin;
        self.wait_on_epoll(epoll.as_fd(), events, sleeps)?;
        Ok(self.timers.turn())
    }

    /// Works as [`park_on_epoll`](Self::park_on_epoll), for a loop that takes its turns itself.
    pub(crate) fn park_on_epoll_without_turn(
        &self,
        epoll: BorrowedFd<'_>,
        events: &mut EpollEvents,
    ) -> io::Result<()> {
        self.wait_on_epoll(epoll, events, !self.timers.is_due())
    }

    /// Waits as [`park`](Self::park) does, in a system call of yours: that of an io_uring, or of another library.
    ///
    /// `wait` gets the time of `CLOCK_MONOTONIC` at which it has to end, or `None` if it may take for ever, and a
    /// descriptor that becomes readable when another thread [unparks](Unparker::unpark) this worker, which has to end it
    /// too. A time that has passed says that it has only to look. It may end earlier. It must start no timers: the
    /// worker would notice them when it ends. The call returns what `wait` returned, and the result of the turn.
    /// `docs/recipes.md` has a loop on an io_uring: one system call for a wait, reads and writes included.
    ///
    /// # Errors
    ///
    /// The first wait needs a file descriptor, and fails if the system refuses it; `wait` is not called then.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker.
    #[cfg(not(portable_host))]
    #[track_caller]
    pub fn park_in<T>(
        &self,
        wait: impl FnOnce(Option<std::time::Duration>, BorrowedFd<'_>) -> T,
    ) -> io::Result<(T, Turn)> {
        assert_outside_of_callbacks();
        if self.blocking.get() {
            // As in `park`.
            self.owed.set(true);
        }
        let is_due = self.timers.is_due_before_sleep() || self.parking == Parking::Spin;
        let parker = &self.timers.base.local().parker;
        let waited = if is_due {
            parker.park_in(CoreInstant::ZERO, wait)
        } else {
            let _idle = Idle(&self.timers);
            parker.park_in(self.timers.enter_idle(), wait)
        };
        Ok((waited?, self.timers.turn()))
    }

    /// Collects events; if no event is ready and `sleeps` is true, waits for events.
    fn wait_on_epoll(
        &self,
        epoll: BorrowedFd<'_>,
        events: &mut EpollEvents,
        sleeps: bool,
    ) -> io::Result<()> {
        let left = if sleeps {
            let deadline = self.timers.enter_idle();
            let left = deadline.saturating_since(self.timers.now());
            let nanos = i64::try_from(left.as_nanos()).ok();
            nanos.filter(|_| !deadline.is_forever())
        } else {
            Some(0)
        };
        let timeout = left.map(timespec);
        let collected = events.fill(|room| {
            let parker = &self.timers.base.local().parker;
            parker.park_on_epoll(epoll, room, timeout.as_ref())
        });
        if sleeps {
            self.timers.leave_idle();
        }
        Ok(collected?)
    }

    /// Returns a handle by which other threads wake this worker.
    #[must_use]
    pub fn unparker(&self) -> Unparker {
        Unparker {
            target: Arc::new(Target {
                base: self.timers.base,
            }),
        }
    }

    /// Runs a future to its end, and fires the timers of this thread meanwhile.
    ///
    /// The future may use anything that works by wakers. It need not be [`Send`]. It may call `block_on` for other
    /// futures, but the outer future makes no progress meanwhile.
    ///
    /// # Panics
    ///
    /// If it is called inside of a callback or a waker.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.block_on_as(future, &self.waker, None)
    }

    /// Works as [`block_on`](Self::block_on), for a task of `waker`, which wakes this worker. The thread is `sleeper`
    /// in its runtime.
    #[track_caller]
    pub(crate) fn block_on_as<F: Future>(
        &self,
        future: F,
        waker: &Waker,
        sleeper: Option<&Sleeper>,
    ) -> F::Output {
        assert_outside_of_callbacks();
        // Before the future, which is dropped first.
        let _blocks = Blocks::begin();
        let mut future = pin!(future);
        let mut context = Context::from_waker(waker);
        let _blocking = Blocking::begin(self);
        loop {
            if let Some(sleeper) = sleeper {
                sleeper.begins();
            }
            if let Poll::Ready(output) = refilled(|| future.as_mut().poll(&mut context)) {
                return output;
            }
            // Timers of this thread fire in here, and notify. A notification since the poll ends the loop at once.
            loop {
                let notified =
                    self.timers.base.local().parker.take_notification() | self.owed.take();
                let is_due = if notified {
                    self.timers.is_due()
                } else {
                    self.timers.is_due_before_sleep()
                };
                if is_due {
                    let _more_is_seen_next_time = self.timers.turn();
                }
                if notified {
                    break;
                }
                if !self.timers.base.local().parker.is_notified()
                    && !self.timers.is_due_before_sleep()
                {
                    if sleeper.is_some_and(|sleeper| !sleeper.rests()) {
                        break;
                    }
                    if wake::is_virtual() && runtime::pass_time_here(sleeper) {
                        continue;
                    }
                    self.wait();
                    if let Some(sleeper) = sleeper {
                        sleeper.rises();
                    }
                    if self.timers.is_due() {
                        let _more_is_seen_next_time = self.timers.turn();
                    }
                    break;
                }
            }
        }
    }
}

/// A future that is being run by a worker.
struct Blocking<'a> {
    worker: &'a Worker,
    inside_of_another: bool,
}

impl<'a> Blocking<'a> {
    fn begin(worker: &'a Worker) -> Self {
        Self {
            worker,
            inside_of_another: worker.blocking.replace(true),
        }
    }
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        self.worker.blocking.set(self.inside_of_another);
        // Both have the same waker: what this one took may have been meant for the other.
        self.worker.owed.set(self.inside_of_another);
    }
}
