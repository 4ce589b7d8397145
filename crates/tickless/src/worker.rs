//! Threads that run their own timers.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

use tickless_core::time::Instant as CoreInstant;

use crate::host::handover::Promise;
use crate::host::seat::{Kind, Seat, Thread, with_thread};
use crate::host::{attend, os, timers, turn};
use crate::time::Instant;

/// Why a thread cannot become a [`Worker`] or [`Driver`].
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The thread is one already, or was one and still is inside it.
    AlreadyTaken,
    /// All 65,536 places for threads are taken.
    NoPlace,
    /// The operating system refused a file descriptor or a thread.
    Os(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyTaken => {
                formatter.write_str("this thread runs its own timers already; there is one worker or driver for each thread")
            }
            Self::NoPlace => formatter.write_str("65,536 threads have timers already; another has to end first"),
            Self::Os(error) => write!(formatter, "the operating system refused what timers need: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "more may be due already"]
pub struct Turn {
    /// Timers that fired.
    pub fired: u32,
    /// When the next one does, if any.
    pub next: Option<Instant>,
    /// More is due already: the turn ended because it ran 4,096 callbacks. Take another soon.
    pub more: bool,
}

/// How a [`Worker`] waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// Sleeps in the kernel until its first timer is due or somebody wakes it.
    #[default]
    Sleep,
    /// Never sleeps: looks again and again. A few hundred nanoseconds late at most, and a whole CPU.
    Spin,
}

/// The seat of this thread, given to whoever runs its timers.
#[derive(Debug)]
struct Held {
    seat: &'static Seat,
    /// What is held belongs to the thread.
    stays: PhantomData<*mut ()>,
}

impl Held {
    fn take(kind: Kind) -> Result<Self, StartError> {
        with_thread(|thread| {
            let seat = thread.enter().ok_or(StartError::NoPlace)?;
            if seat.local().kind() != Kind::Foreign {
                return Err(StartError::AlreadyTaken);
            }
            if kind == Kind::EventLoop {
                seat.local().timerfd().map_err(StartError::Os)?;
            }
            seat.local().set_kind(kind);
            let held = Self {
                seat,
                stays: PhantomData,
            };
            // What was armed before is programmed for the new device.
            timers().retrigger(seat.cpu());
            Ok(held)
        })
    }

    fn now(&self) -> CoreInstant {
        with_thread(|thread| thread.reading.renew(&timers().platform().clock))
    }

    /// One load and one compare, and the clock. That somebody asked for a look is noticed when the clock is asked for
    /// the exact time, which is every 50 µs at the latest.
    #[inline]
    fn is_due(&self) -> bool {
        // Relaxed: the thread's own word. Earlier than what the base wants, or equal, never later.
        let deadline = self.seat.local().deadline.load(Ordering::Relaxed);
        let now = with_thread(|thread| thread.reading.at_earliest_or(|| self.look(thread)));
        deadline <= now.as_nanos()
    }

    #[cold]
    fn look(&self, thread: &Thread) -> CoreInstant {
        if turn::is_asked(self.seat) {
            // Later than any deadline, and than none.
            return CoreInstant::FOREVER;
        }
        thread.reading.renew(&timers().platform().clock)
    }

    #[track_caller]
    fn turn(&self) -> Turn {
        assert_outside_of_callbacks();
        let done = turn::run(self.seat, self.now());
        Turn {
            fired: done.fired,
            next: self.next_deadline(),
            more: done.more,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let armed = self.seat.armed();
        (!armed.is_forever()).then(|| Instant::from_core(armed))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let local = self.seat.local();
        let was_event_loop = local.kind() == Kind::EventLoop;
        // The thread lives on, so its timers stay; from here on the background driver comes for them.
        local.set_kind(Kind::Foreign);
        // What the device was armed for was never told to the driver, and a later deadline would not be told to it
        // either: forgotten, and programmed anew. Relaxed: the retrigger locks the base, as whoever programs it does.
        local.deadline.store(Promise::NEVER, Ordering::Relaxed);
        timers().retrigger(self.seat.cpu());
        if was_event_loop {
            // The descriptor stays open for the next event loop on this seat, and must not wake one that is gone.
            turn::set_timerfd(self.seat, CoreInstant::FOREVER);
        }
    }
}

/// Callbacks and wakers run inside of a turn.
#[inline]
#[track_caller]
fn assert_outside_of_callbacks() {
    assert!(
        turn::taken_by_this_thread().is_none(),
        "a thread cannot take a turn, park or block inside of a callback or waker: those run in its turn"
    );
}

/// A thread that runs its own timers: the fastest and most exact way to have them.
///
/// Making one turns the current thread into a worker, until it is dropped. Its timers then fire only in its
/// [turns](Worker::turn) and while it is [parked](Worker::park); a worker that computes for long delays them. All of
/// `tickless::time` and [`HrTimer`](crate::hrtimer::HrTimer) use the worker of the thread they are on by themselves.
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
    held: Held,
    parking: Parking,
    waker: Waker,
    /// A [`block_on`](Worker::block_on) runs.
    blocking: Cell<bool>,
    /// A notification was taken that may have been meant for the future that is being run.
    owed: Cell<bool>,
}

/// Wakes a worker.
#[derive(Clone, Debug)]
pub struct Unparker {
    target: Arc<Target>,
}

#[derive(Debug)]
struct Target {
    seat: &'static Seat,
}

impl Wake for Target {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Should the worker be gone, whoever sits there now looks once for nothing.
        self.seat.local().parker.unpark();
    }
}

impl Unparker {
    /// Ends the worker's park, or lets its next one return at once. Callable from any thread.
    pub fn unpark(&self) {
        self.target.seat.local().parker.unpark();
    }
}

impl Worker {
    /// Makes this thread a worker that sleeps while it waits.
    ///
    /// Sets the timer slack of the thread to 1 ns: by default the kernel wakes threads up to 50 µs late.
    ///
    /// # Errors
    ///
    /// When the thread is one already, or there are too many threads with timers.
    pub fn new() -> Result<Self, StartError> {
        Self::with_parking(Parking::Sleep)
    }

    /// Makes this thread a worker that waits in the given way.
    ///
    /// # Errors
    ///
    /// As [`new`](Worker::new).
    pub fn with_parking(parking: Parking) -> Result<Self, StartError> {
        let held = Held::take(Kind::Worker)?;
        os::remove_timer_slack();
        let waker = Waker::from(Arc::new(Target { seat: held.seat }));
        Ok(Self {
            held,
            parking,
            waker,
            blocking: Cell::new(false),
            owed: Cell::new(false),
        })
    }

    /// Whether a [`turn`](Worker::turn) would find something to do.
    ///
    /// # Cost
    ///
    /// A reading of the clock, one load and one compare; no lock.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.held.is_due()
    }

    /// Runs what is due.
    ///
    /// # Panics
    ///
    /// When called inside of a callback or a waker, which run in a turn themselves.
    #[track_caller]
    pub fn turn(&self) -> Turn {
        self.held.turn()
    }

    /// When the first timer of this thread fires, if there is one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.held.next_deadline()
    }

    /// Waits until a timer is due or somebody [unparks](Unparker::unpark) this worker, and runs what is due.
    ///
    /// Returns without waiting if something is due already or the worker was unparked since its last park. May return
    /// for no reason; [`Turn::fired`] says whether a timer did.
    ///
    /// # Panics
    ///
    /// When called inside of a callback or a waker.
    #[track_caller]
    pub fn park(&self) -> Turn {
        assert_outside_of_callbacks();
        if self.blocking.get() {
            // The notification that ends this park may be the one that the future outside waits for.
            self.owed.set(true);
        }
        if !self.held.is_due() && !self.held.seat.local().parker.take_notification() {
            self.wait();
        }
        self.held.turn()
    }

    /// Waits until something is due or the worker is notified; takes the notification.
    fn wait(&self) {
        let seat = self.held.seat;
        match self.parking {
            Parking::Sleep => {
                // Relaxed: the thread's own word.
                let deadline = seat.local().deadline.load(Ordering::Relaxed);
                seat.local().parker.park(CoreInstant::from_nanos(deadline));
            }
            Parking::Spin => {
                while !seat.local().parker.is_notified() && !self.held.is_due() {
                    std::hint::spin_loop();
                }
                seat.local().parker.take_notification();
            }
        }
    }

    /// Waits on an epoll instance of yours instead, for at most as long as the first timer allows, then runs what is
    /// due.
    ///
    /// Returns the number of events and what the turn did. [`Unparker`]s do not end this wait: give the epoll instance
    /// an eventfd for that.
    ///
    /// # Errors
    ///
    /// Those of `epoll_pwait2`, among them `EINVAL` for a buffer without room. Before Linux 5.11, which has it not, the
    /// wait is rounded up to a millisecond.
    ///
    /// # Panics
    ///
    /// When called inside of a callback or a waker.
    #[track_caller]
    pub fn park_on_epoll(
        &self,
        epoll: impl AsFd,
        events: &mut [rustix::event::epoll::Event],
    ) -> io::Result<(usize, Turn)> {
        assert_outside_of_callbacks();
        let mut ready = 0;
        if !self.held.is_due() {
            // Relaxed: the thread's own word.
            let deadline = self.held.seat.local().deadline.load(Ordering::Relaxed);
            let deadline = CoreInstant::from_nanos(deadline);
            let left = deadline.saturating_since(self.held.now());
            let timeout = os::timespec(if deadline.is_forever() {
                deadline
            } else {
                CoreInstant::from_nanos(i64::try_from(left.as_nanos()).unwrap_or(i64::MAX - 1))
            });
            match rustix::event::epoll::wait(epoll, &mut *events, timeout.as_ref()) {
                Ok(count) => ready = count,
                // A signal came: as good a reason to look as any.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((ready, self.held.turn()))
    }

    /// What wakes this worker from other threads.
    #[must_use]
    pub fn unparker(&self) -> Unparker {
        Unparker {
            target: Arc::new(Target {
                seat: self.held.seat,
            }),
        }
    }

    /// Runs a future to its end, and the timers of this thread meanwhile.
    ///
    /// The future may use anything that works by wakers. It need not be [`Send`]. It may block on others in the same
    /// way, though it makes no progress itself meanwhile.
    ///
    /// # Panics
    ///
    /// When called inside of a callback or a waker.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert_outside_of_callbacks();
        let mut future = pin!(future);
        let mut context = Context::from_waker(&self.waker);
        let _blocking = Blocking::begin(self);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            // Timers of this thread fire in here, and notify. Somebody who notified since the poll ends the loop at
            // once.
            loop {
                let notified = self.held.seat.local().parker.take_notification() | self.owed.take();
                if self.held.is_due() {
                    let _more_is_seen_next_time = self.held.turn();
                }
                if notified {
                    break;
                }
                if !self.held.seat.local().parker.is_notified() && !self.held.is_due() {
                    self.wait();
                    if self.held.is_due() {
                        let _more_is_seen_next_time = self.held.turn();
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

/// The timers of a thread that has an event loop of its own: a file descriptor to watch, and a turn to take when it is
/// readable.
///
/// Making one turns the current thread's timers over to its event loop, until it is dropped. The descriptor is a
/// `timerfd`, programmed to the nanosecond for the first timer of the thread; it works in epoll, poll, select, io_uring
/// and every library on top of them.
///
/// ```
/// use std::os::fd::AsFd;
/// use std::time::Duration;
/// use rustix::event::{PollFd, PollFlags, poll};
/// use tickless::hrtimer::{HrTimer, Restart, Span, Start};
///
/// let driver = tickless::Driver::new()?;
/// let timer = std::pin::pin!(HrTimer::new(|_| Restart::No));
/// timer.as_ref().start(Start::after(Span::from_micros(100)));
///
/// let fd = driver.as_fd();
/// poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
/// assert_eq!(driver.turn().fired, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    held: Held,
    fd: BorrowedFd<'static>,
}

impl Driver {
    /// Turns this thread's timers over to its event loop.
    ///
    /// # Errors
    ///
    /// When the thread runs its own timers already, there are too many threads with timers, or the descriptor is
    /// refused.
    pub fn new() -> Result<Self, StartError> {
        let held = Held::take(Kind::EventLoop)?;
        let fd = held.seat.local().timerfd().map_err(StartError::Os)?;
        Ok(Self { held, fd })
    }

    /// Runs what is due, and programs the descriptor for the next timer. Call it when the descriptor is readable;
    /// calling it at other times does no harm.
    ///
    /// # Panics
    ///
    /// When called inside of a callback or a waker, which run in a turn themselves.
    #[track_caller]
    pub fn turn(&self) -> Turn {
        // Makes the descriptor unreadable; nothing to read is no error.
        let _expirations = rustix::io::read(self.fd, &mut [0; 8]);
        self.held.turn()
    }

    /// When the first timer of this thread fires, if there is one: for event loops that would rather compute their
    /// timeout than watch a descriptor.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.held.next_deadline()
    }

    /// Makes the descriptor readable now. For tests of event loops.
    pub fn poke(&self) {
        attend(self.held.seat);
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

impl std::os::fd::AsRawFd for Driver {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.fd)
    }
}
