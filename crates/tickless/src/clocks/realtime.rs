//! Timers on the time of day, which can be set.
//!
//! [`time`] is for *how long*; this module is for *when*: at 18:00, at the turn of the hour, when a certificate ends.
//! The time of day jumps, forwards and backwards: a person or a daemon sets it, a leap second repeats a second, a
//! suspend is added after a resume. The right reaction of a timer depends on its purpose, so each timer gets its
//! reaction when it is made:
//!
//! | [`OnSet`] | after a set | for |
//! |---|---|---|
//! | [`Follow`](OnSet::Follow) | fires when the clock shows the deadline: at once, if the clock was set past the deadline; later, if the clock was set back | an alarm |
//! | [`FireNow`](OnSet::FireNow) | fires at once, whatever the clock shows, and reports that | a clock on a screen, a cache of calendar data |
//! | [`Keep`](OnSet::Keep) | fires when it would have without the set | a wait that is already running |
//! | [`sleep_until_next`] | calls your function for the next instant | calendars, daylight saving |
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use tickless::realtime::{OnSet, sleep_until};
//!
//! # futures::executor::block_on(async {
//! let deadline = SystemTime::now() + Duration::from_millis(1);
//! let ended = sleep_until(deadline, OnSet::Follow).await;
//! assert!(ended.is_due());
//! # });
//! ```
//!
//! With every policy the result of the future is an [`Ended`]: it says whether the deadline passed, and whether a clock
//! was set since the future was made.
//!
//! # Calendars and daylight saving
//!
//! The time of day is UTC here. The meaning of "each day at 02:30" depends on a calendar. This library has no calendar;
//! [`sleep_until_next`] is the place for yours. Its function gets the time and returns the next instant. It is called
//! when the future is made, and again after each set. Two conventions are common if a zone skips an hour in spring and
//! repeats one in autumn:
//!
//! - *By the wall*: 02:30 exists once, twice or never. The function returns the first instant after `now` whose local
//!   time is 02:30. On the day that skips 02:30, it returns the end of the gap (03:00), so that no day is left out. To
//!   run once on the day that repeats 02:30, remember the local date of the last run.
//! - *By duration*: every 24 hours, whatever the wall clock shows. This convention needs no calendar, and is served by
//!   [`time::interval`](crate::time::interval()).
//!
//! This example waits for the turn of each UTC hour, by the first convention:
//!
//! ```no_run
//! use std::time::{Duration, SystemTime, UNIX_EPOCH};
//! use tickless::realtime::sleep_until_next;
//!
//! fn next_hour(now: SystemTime) -> SystemTime {
//!     let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
//!     UNIX_EPOCH + Duration::from_secs((since.as_secs() / 3600 + 1) * 3600)
//! }
//!
//! # async fn chime(_hour: SystemTime) {}
//! # async fn run() {
//! loop {
//!     let hour = sleep_until_next(next_hour).await;
//!     chime(hour).await;
//! }
//! # }
//! ```
//!
//! # How a set is noticed
//!
//! A set is noticed as a resume is in [`boottime`](crate::boottime): the kernel notifies a thread of this library. A
//! resume counts as a set here. Until that thread has reacted, some microseconds after the set, a future may be late. A
//! future is never ready early, because it reads the time from the kernel before it reports that its deadline has
//! passed. A callback may be early during these microseconds. If the kernel does not notify the library, a set is found
//! when a future of this module, of [`boottime`](crate::boottime) or of [`tai`](crate::tai) is started or polled.
//!
//! A leap second is a set of one second backwards at its end, of which the kernel notifies the library. The second
//! before the leap is shown twice, and a deadline within it is due the first time.
//!
//! # With callbacks
//!
//! An [`HrTimer`](crate::hrtimer::HrTimer) on [`Realtime`] follows sets. With
//! [`Setup::fire_on_clock_set`](crate::hrtimer::Setup::fire_on_clock_set) the timer fires at each set, and its closure
//! decides: it reads [`Expired::clock_was_set`](crate::hrtimer::Expired::clock_was_set), and may set another deadline.
//! For a timer that ignores sets, start a timer on the monotonic clock at [`kept`].
//!
//! ```
//! use std::pin::pin;
//! use std::sync::mpsc;
//! use std::time::{Duration, SystemTime};
//! use tickless::hrtimer::{Expired, HrTimer, Realtime, Restart, Setup};
//! use tickless::realtime;
//!
//! let (sender, receiver) = mpsc::channel();
//! let setup = Setup::new().fire_on_clock_set();
//! let alarm = pin!(HrTimer::with_setup(setup, move |expired: &mut Expired<'_, '_, Realtime>| {
//!     if expired.clock_was_set() && expired.read_clock() < expired.deadline() {
//!         return Restart::Yes;
//!     }
//!     match sender.send(()) {
//!         Ok(()) | Err(_) => Restart::No,
//!     }
//! }));
//! let _ = alarm.as_ref().start(realtime::at(SystemTime::now() + Duration::from_millis(1)));
//! receiver.recv()?;
//! # Ok::<(), mpsc::RecvError>(())
//! ```
//!
//! # Limits and cost
//!
//! The range is from the year 1677 to 2262. A deadline outside of the range counts as the nearer end of the range, a
//! time that no Linux clock shows. A future takes 144 bytes and allocates nothing; each poll reads the time from the
//! kernel.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pin_project_lite::pin_project;
use tickless_core::hrtimer::Start;
use tickless_core::time::{Instant, Monotonic, Realtime};

use super::clock_timer::{ClockTimer, Found, Waits};
use crate::host::registry::{clock_sets, shown, watch_clocks};
use crate::host::sys::AlarmClock;
use crate::host::thread::shown_now_lower;
use crate::time;
use crate::time::Slack;
use crate::time::budget::poll_limited;
use crate::time::interval::{ClockInterval, TickSleep};
#[cfg(feature = "worker")]
use crate::time::virtual_time;

/// The reaction of a timer on the time of day to a set of that clock. [The module](self) compares the reactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnSet {
    /// The timer fires at once, whatever the clock shows.
    FireNow,
    /// The timer waits until the clock shows the deadline.
    Follow,
    /// The timer fires when it would have fired without the set.
    Keep,
}

/// The reason why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The deadline passed, and no clock was set since the future was made.
    Due,
    /// The deadline passed, and a clock was set since the future was made.
    DueAfterSet,
    /// A clock was set, and the deadline is in the future. Only a future with [`OnSet::FireNow`] ends in this way.
    ClockSet,
}

impl Ended {
    /// Returns true if the deadline passed. With [`OnSet::Keep`] the deadline counts on the clock as it was before the
    /// set.
    #[must_use]
    pub const fn is_due(self) -> bool {
        matches!(self, Self::Due | Self::DueAfterSet)
    }

    /// Returns true if a clock was set since the future was made. Waking from a suspend counts as a set.
    #[must_use]
    pub const fn clock_was_set(self) -> bool {
        matches!(self, Self::DueAfterSet | Self::ClockSet)
    }

    const fn new(is_due: bool, clock_was_set: bool) -> Self {
        match (is_due, clock_was_set) {
            (true, false) => Self::Due,
            (true, true) => Self::DueAfterSet,
            (false, _) => Self::ClockSet,
        }
    }
}

/// Waits until the time of day is `deadline`; `on_set` is the reaction if the clock is set meanwhile.
///
/// The future is ready at once if `deadline` has passed. Clock sets count from this call on.
///
/// ```compile_fail,E0308
/// use tickless::realtime::{OnSet, sleep_until};
/// let sleep = sleep_until(tickless::boottime::Instant::now(), OnSet::Follow);
/// ```
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep_until(deadline: SystemTime, on_set: OnSet) -> Sleep {
    // Watched from here on, not from the first poll: a set in between counts.
    watch_clocks();
    let instant = to_instant(deadline);
    Sleep {
        deadline,
        waiting: match on_set {
            OnSet::FireNow => Waiting::OnClock {
                timer: ClockTimer::new(instant, Waits::ForSets),
            },
            OnSet::Follow => Waiting::OnClock {
                timer: ClockTimer::new(instant, Waits::ForDeadline),
            },
            OnSet::Keep => Waiting::Kept {
                timer: time::sleep_until(kept(deadline)),
                sets: clock_sets(),
            },
        },
    }
}

pin_project! {
    /// The future that [`sleep_until`] returns.
    ///
    /// The sleep is queued at its first poll, on the thread that polls.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        #[pin]
        waiting: Waiting,
        deadline: SystemTime,
    }
}

pin_project! {
    #[project = WaitingProjection]
    enum Waiting {
        OnClock {
            #[pin]
            timer: ClockTimer<Realtime>,
        },
        Kept {
            #[pin]
            timer: time::Sleep,
            sets: u64,
        },
    }
}

impl Sleep {
    /// Returns the time of day for which the future waits.
    #[must_use]
    pub fn deadline(&self) -> SystemTime {
        self.deadline
    }

    /// Moves the deadline to `deadline`, also if the future was ready already. The reaction to a set of the clock does
    /// not change. Poll the future again afterwards: the task is not woken for a deadline that has passed.
    ///
    /// Sets of the clock count from this call on.
    pub fn reset(self: Pin<&mut Self>, deadline: SystemTime) {
        let this = self.project();
        *this.deadline = deadline;
        match this.waiting.project() {
            WaitingProjection::OnClock { mut timer } => {
                timer.as_mut().take_sets();
                timer.reset(to_instant(deadline));
            }
            WaitingProjection::Kept { timer, sets } => {
                *sets = clock_sets();
                timer.reset(kept(deadline));
            }
        }
    }

    /// Returns true if the future has noticed a set of a clock since it was made or [reset](Self::reset).
    #[must_use]
    pub fn clock_was_set(&self) -> bool {
        match &self.waiting {
            Waiting::OnClock { timer } => timer.was_set(),
            Waiting::Kept { sets, .. } => clock_sets() != *sets,
        }
    }
}

impl Future for Sleep {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        let found = match self.as_mut().project().waiting.project() {
            WaitingProjection::OnClock { timer } => ready!(timer.poll(context)),
            WaitingProjection::Kept { timer, .. } => {
                ready!(timer.poll(context));
                Found::Due
            }
        };
        let is_due = found == Found::Due || now() >= self.deadline;
        Poll::Ready(Ended::new(is_due, self.clock_was_set()))
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("clock_was_set", &self.clock_was_set())
            .finish_non_exhaustive()
    }
}

/// Limits `future` to `duration` of the time of day, counted from this call; `on_set` is the reaction if the clock is
/// set meanwhile.
///
/// The future is polled first: if it is ready, its result counts, however late it is.
///
/// # Errors
///
/// [`Elapsed`] when the time ended before the future was ready, or, with [`OnSet::FireNow`], when a clock was set.
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
pub fn timeout<F: IntoFuture>(
    duration: Duration,
    on_set: OnSet,
    future: F,
) -> Timeout<F::IntoFuture> {
    timeout_at(sum(now(), duration), on_set, future)
}

/// Limits `future` to the time until the time of day is `deadline`; `on_set` is the reaction if the clock is set
/// meanwhile.
///
/// ```
/// use std::future::pending;
/// use std::time::{Duration, SystemTime};
/// use tickless::realtime::{OnSet, timeout_at};
///
/// # futures::executor::block_on(async {
/// let expires = SystemTime::now() + Duration::from_millis(1);
/// let elapsed = timeout_at(expires, OnSet::Follow, pending::<()>()).await.unwrap_err();
/// assert!(elapsed.ended().is_due());
/// # });
/// ```
///
/// # Errors
///
/// See [`timeout()`].
///
/// # Cancellation
///
/// Dropping the [`Timeout`] drops the future.
pub fn timeout_at<F: IntoFuture>(
    deadline: SystemTime,
    on_set: OnSet,
    future: F,
) -> Timeout<F::IntoFuture> {
    Timeout {
        value: future.into_future(),
        delay: sleep_until(deadline, on_set),
    }
}

pin_project! {
    /// The future that [`timeout()`] and [`timeout_at`] return.
    ///
    /// The future takes the size of the inner future and a [`Sleep`], and allocates nothing.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    #[derive(Debug)]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        #[pin]
        delay: Sleep,
    }
}

impl<T> Timeout<T> {
    /// Returns the future inside, without its limit.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let value = |context: &mut Context<'_>| this.value.poll(context);
        let limit = |context: &mut Context<'_>| this.delay.as_mut().poll(context);
        poll_limited(context, value, limit).map_err(|ended| Elapsed { ended })
    }
}

/// The error of a [`timeout`](timeout()) whose time ended before its future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed {
    ended: Ended,
}

impl Elapsed {
    /// Returns the reason for which the time ended.
    #[must_use]
    pub const fn ended(&self) -> Ended {
        self.ended
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.ended {
            Ended::Due | Ended::DueAfterSet => "deadline has elapsed",
            Ended::ClockSet => "the time of day was set",
        })
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}

/// Returns ticks: the first now, then one every `period` of the time of day.
///
/// The ticks follow sets of the clock, as with [`OnSet::Follow`]: they stay at whole periods after the first tick, in
/// the time that the clock shows. If the clock is set ahead past ticks, these ticks are missed, and
/// [`MissedTickBehavior::Skip`](time::MissedTickBehavior::Skip) skips all of them but one. If the clock is set back,
/// the next tick is later by the same amount. A task that has to run regularly whatever the clock shows uses a
/// [`time::interval`](crate::time::interval()).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickless::realtime::interval_at;
///
/// # futures::executor::block_on(async {
/// let (start, period) = (SystemTime::now(), Duration::from_micros(200));
/// let mut interval = interval_at(start, period);
/// assert_eq!(interval.tick().await, start);
/// assert_eq!(interval.tick().await, start + period);
/// # });
/// ```
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(now(), period)
}

/// Returns ticks: the first at `start`, then one every `period` of the time of day.
///
/// # Panics
///
/// When `period` is zero.
#[track_caller]
pub fn interval_at(start: SystemTime, period: Duration) -> Interval {
    Interval::new(start, period)
}

/// The ticks that [`interval`] and [`interval_at`] make.
pub type Interval = ClockInterval<Sleep>;

impl TickSleep for Sleep {
    type Instant = SystemTime;

    fn ending_at(deadline: SystemTime, _slack: Option<Slack>) -> Self {
        sleep_until(deadline, OnSet::Follow)
    }

    fn aim_at(self: Pin<&mut Self>, deadline: SystemTime) {
        self.reset(deadline);
    }

    fn now() -> SystemTime {
        now()
    }

    fn sum(instant: SystemTime, duration: Duration) -> SystemTime {
        sum(instant, duration)
    }

    fn distance(later: SystemTime, earlier: SystemTime) -> Duration {
        later.duration_since(earlier).unwrap_or_default()
    }
}

/// Waits until the instant that `next` computes from the present time of day. When a clock is set, the future calls
/// `next` again.
///
/// `next` is called by this function, and later by the task that polls the future, without any lock. It should return
/// an instant after the instant that it receives; an instant that has passed ends the wait. The future returns the
/// instant for which it waited.
///
/// ```
/// use std::time::Duration;
/// use tickless::realtime::sleep_until_next;
///
/// # futures::executor::block_on(async {
/// let came = sleep_until_next(|now| now + Duration::from_millis(1)).await;
/// assert!(std::time::SystemTime::now() >= came);
/// # });
/// ```
///
/// # Cancellation
///
/// Dropping the future cancels it.
pub fn sleep_until_next<F>(mut next: F) -> SleepNext<F>
where
    F: FnMut(SystemTime) -> SystemTime,
{
    watch_clocks();
    // Before the clock is read: a set after it is found.
    let mut timer = ClockTimer::new(Instant::LATEST, Waits::ForSets);
    let deadline = next(now());
    timer.aim(to_instant(deadline));
    SleepNext {
        timer,
        next,
        deadline,
    }
}

pin_project! {
    /// The future that [`sleep_until_next`] returns.
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct SleepNext<F> {
        #[pin]
        timer: ClockTimer<Realtime>,
        next: F,
        deadline: SystemTime,
    }
}

impl<F> SleepNext<F> {
    /// Returns the instant for which the future waits at present.
    #[must_use]
    pub fn deadline(&self) -> SystemTime {
        self.deadline
    }
}

impl<F: FnMut(SystemTime) -> SystemTime> Future for SleepNext<F> {
    type Output = SystemTime;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SystemTime> {
        let mut this = self.project();
        loop {
            match ready!(this.timer.as_mut().poll(context)) {
                Found::Due => return Poll::Ready(*this.deadline),
                Found::Set => {
                    // Before the clock is read: a set after it is found.
                    this.timer.as_mut().take_sets();
                    *this.deadline = (this.next)(now());
                    this.timer.as_mut().reset(to_instant(*this.deadline));
                }
            }
        }
    }
}

impl<F> fmt::Debug for SleepNext<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SleepNext")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// An alarm at a time of day, which wakes a suspended machine.
pub type WakeAlarm = super::wake_alarm::WakeAlarm<Realtime>;

impl WakeAlarm {
    /// Makes an alarm that is not set, on the time of day.
    ///
    /// # Errors
    ///
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without the right;
    /// [`Unsupported`](io::ErrorKind::Unsupported) on a system that has no such alarms; what the system refuses else,
    /// for instance another descriptor.
    pub fn new() -> io::Result<Self> {
        Self::on(AlarmClock::Realtime)
    }

    /// Sets the alarm to `deadline`, in place of an earlier time. It follows when the clock is set, as
    /// [`OnSet::Follow`]. A deadline that has passed wakes nothing.
    pub fn set(&self, deadline: SystemTime) {
        self.ring_at(to_instant(deadline).as_nanos());
    }
}

/// Makes the argument that starts a [timer with a callback](crate::hrtimer) at this time of day.
pub fn at(deadline: SystemTime) -> Start<Realtime> {
    Start::at(to_instant(deadline))
}

/// Converts a time of day to a point on the monotonic clock: the point at which the time of day is reached if no clock
/// is set until then. If the deadline has passed, the returned point has passed too, by this library's monotonic clock
/// and by the kernel's.
#[must_use]
pub fn kept(deadline: SystemTime) -> time::Instant {
    let shows = shown::<Realtime>();
    // Counted from a reading after that of the other clock: not early.
    let behind = shown::<Monotonic>();
    let left = to_instant(deadline).saturating_since(shows);
    if left.is_zero() {
        return time::Instant::from_core(shown_now_lower());
    }
    time::Instant::from_core(behind.saturating_add(left))
}

/// Returns the time of day that this module's timers use: [`SystemTime::now`], or, on a thread whose clock is
/// [paused](crate::time::pause), the time of day at the pause plus the time that has passed on that clock.
///
/// ```
/// use std::time::Duration;
/// use tickless::realtime::{self, OnSet, sleep_until};
/// use tickless::{Worker, time};
///
/// Worker::new()?.block_on(async {
///     time::pause();
///     let tomorrow = realtime::now() + Duration::from_secs(86_400);
///     sleep_until(tomorrow, OnSet::Follow).await;
///     assert_eq!(realtime::now(), tomorrow);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn now() -> SystemTime {
    to_system_time(shown())
}

/// Sets the time of day of this runtime to `to`, for tests. The clock of the runtime has to be [paused](time::pause).
///
/// The set counts as a set of the machine's clock: each timer of this module that waits in this runtime reacts as its
/// [`OnSet`] says. [`tai`](crate::tai) moves by the same amount, as when the machine's clock is set. The monotonic
/// clock and [`boottime`](crate::boottime) do not change, and neither do the machine's clock and the clocks of other
/// runtimes. Timers with [callbacks](crate::hrtimer) on these clocks do not notice the set.
///
/// ```
/// use std::time::Duration;
/// use tickless::realtime::{self, Ended, OnSet, sleep_until};
/// use tickless::{Worker, time};
///
/// Worker::new()?.block_on(async {
///     time::pause();
///     let hour = Duration::from_secs(3_600);
///     let start = time::Instant::now();
///     let alarm = sleep_until(realtime::now() + 2 * hour, OnSet::Follow);
///     // The clock is set an hour ahead.
///     realtime::set(realtime::now() + hour);
///     assert_eq!(alarm.await, Ended::DueAfterSet);
///     assert_eq!(start.elapsed(), hour);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// When the clock is not paused, outside of a runtime, and in a runtime of tokio.
#[cfg(feature = "worker")]
#[track_caller]
pub fn set(to: SystemTime) {
    watch_clocks();
    let step = to_instant(to)
        .as_nanos()
        .saturating_sub(shown::<Realtime>().as_nanos());
    virtual_time::set_wall(step);
}

/// Returns a time of day plus a duration, or the end of the range of timers.
fn sum(time: SystemTime, duration: Duration) -> SystemTime {
    let last = || to_system_time(Instant::from_nanos(i64::MAX));
    time.checked_add(duration).unwrap_or_else(last)
}

/// Converts a time of day to nanoseconds; a time beyond the range becomes the end of the range.
fn to_instant(time: SystemTime) -> Instant<Realtime> {
    let nanos = |duration: Duration| i64::try_from(duration.as_nanos());
    let since = match time.duration_since(UNIX_EPOCH) {
        Ok(behind) => nanos(behind).unwrap_or(i64::MAX),
        Err(before) => nanos(before.duration()).map_or(i64::MIN, |nanos| -nanos),
    };
    Instant::from_nanos(since)
}

fn to_system_time(instant: Instant<Realtime>) -> SystemTime {
    let distance = Duration::from_nanos(instant.as_nanos().unsigned_abs());
    let time = if instant.as_nanos() < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    // The standard library's range on Linux is wider.
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TIM-2, B52: times of day before 1970, and beyond the range.
    #[test]
    fn times_of_day_are_told_in_both_directions() {
        for nanos in [i64::MIN + 1, -1_000_000_001, -1, 0, 1, i64::MAX] {
            // Windows counts the time of day in units of 100 ns.
            let unit = if cfg!(windows) { 100 } else { 1 };
            let instant = Instant::from_nanos(nanos - nanos % unit);
            assert_eq!(to_instant(to_system_time(instant)), instant, "{nanos}");
        }
        let age = Duration::from_secs(10_000_000_000);
        assert_eq!(to_instant(UNIX_EPOCH + age).as_nanos(), i64::MAX);
        assert_eq!(to_instant(UNIX_EPOCH - age).as_nanos(), i64::MIN);
    }
}
