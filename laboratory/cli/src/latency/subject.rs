//! The subjects of the measurement: the ways in which a thread can wait.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::{Parking, Worker};

use crate::failure::Failure;

/// A timer with which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Sleep,
    Callback,
    Spin,
    Foreign,
    Timerfd,
    Nanosleep,
    Tokio,
}

/// A function that waits until a time.
pub(super) type Wait<'w> = dyn FnMut(Instant) + 'w;

/// A function that takes turns of waiting with the function that it is given.
pub(super) type Turns<'t> = dyn FnMut(&mut Wait<'_>) + 't;

impl Subject {
    pub(super) const ALL: &'static [Self] = &[
        Self::Sleep,
        Self::Callback,
        Self::Spin,
        Self::Foreign,
        Self::Timerfd,
        Self::Nanosleep,
        Self::Tokio,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Callback => "callback",
            Self::Spin => "spin",
            Self::Foreign => "foreign",
            Self::Timerfd => "timerfd",
            Self::Nanosleep => "nanosleep",
            Self::Tokio => "tokio",
        }
    }

    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Sleep => "tickless::time::sleep_until on a tickless::Worker",
            Self::Callback => "tickless::hrtimer::HrTimer with a callback, on a Worker",
            Self::Spin => "tickless::time::sleep_until on a Worker that never sleeps",
            Self::Foreign => {
                "tickless::time::sleep_until on a foreign thread, woken by the expiry thread"
            }
            Self::Timerfd => "a bare timerfd with epoll_wait",
            Self::Nanosleep => {
                "clock_nanosleep, as cyclictest does, with the timer slack of a Worker: 1 ns"
            }
            Self::Tokio => "tokio::time::sleep_until on a tokio runtime of one thread",
        }
    }

    /// Returns true if the subject is this library, which promises never to be early.
    pub(super) fn is_ours(self) -> bool {
        match self {
            Self::Sleep | Self::Callback | Self::Spin | Self::Foreign => true,
            Self::Timerfd | Self::Nanosleep | Self::Tokio => false,
        }
    }

    /// Calls `turns` with a function that waits until a time.
    pub(super) fn with(self, turns: &mut Turns<'_>) -> Result<(), Failure> {
        match self {
            Self::Sleep => {
                let worker = worker(Parking::Sleep)?;
                turns(&mut |due| worker.block_on(tickless::time::sleep_until(due.into())));
            }
            Self::Spin => {
                let worker = worker(Parking::Spin)?;
                turns(&mut |due| worker.block_on(tickless::time::sleep_until(due.into())));
            }
            Self::Callback => with_callback(turns)?,
            Self::Foreign => {
                let runtime = runtime(false)?;
                turns(&mut |due| runtime.block_on(tickless::time::sleep_until(due.into())));
            }
            Self::Tokio => {
                let runtime = runtime(true)?;
                turns(&mut |due| {
                    runtime.block_on(async { tokio::time::sleep_until(due.into()).await })
                });
            }
            Self::Timerfd => {
                // Leaves its timer slack behind.
                drop(worker(Parking::Sleep)?);
                with_timerfd(turns)
                    .map_err(|error| Failure::Machine(format!("cannot use a timerfd: {error}")))?;
            }
            Self::Nanosleep => {
                // As above.
                drop(worker(Parking::Sleep)?);
                let clock = Clock::read();
                turns(&mut |due| clock.nanosleep(due));
            }
        }
        Ok(())
    }
}

fn worker(parking: Parking) -> Result<Worker, Failure> {
    Worker::with_parking(parking)
        .map_err(|error| Failure::Machine(format!("cannot make a worker: {error}")))
}

fn runtime(with_time: bool) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if with_time {
        builder.enable_time();
    }
    builder
        .build()
        .map_err(|error| Failure::Machine(format!("cannot make a tokio runtime: {error}")))
}

fn with_callback(turns: &mut Turns<'_>) -> Result<(), Failure> {
    let worker = worker(Parking::Sleep)?;
    let timer = Box::pin(HrTimer::new(|_| Restart::No));
    turns(&mut |due| {
        let left = due.saturating_duration_since(Instant::now());
        let left = Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        let _ = timer.as_ref().start(Start::after(left));
        while timer.as_ref().is_active() {
            let _may_wake_for_nothing = worker.park();
        }
    });
    Ok(())
}

fn with_timerfd(turns: &mut Turns<'_>) -> io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&poll, &timer, data, epoll::EventFlags::IN)?;
    let clock = Clock::read();
    let mut events = Vec::with_capacity(1);
    let mut failed = None;
    turns(&mut |due| {
        let at = Itimerspec {
            it_interval: Timespec::default(),
            it_value: clock.timespec(due),
        };
        let waited = timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &at).and_then(|_| {
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&poll, buffer, None)?;
            rustix::io::read(&timer, &mut [0; 8])
        });
        failed = waited.err().or(failed);
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// A pair of readings that relates the standard library's times to the kernel's clock values.
#[derive(Clone, Copy, Debug)]
struct Clock {
    instant: Instant,
    /// The kernel's clock at the same moment, or up to one reading of the clock later, so that no thread is woken
    /// early.
    monotonic: Duration,
}

impl Clock {
    fn read() -> Self {
        // The tightest of several: the thread may be interrupted between two readings.
        let readings = (0..16).map(|_| {
            let instant = Instant::now();
            let now = clock_gettime(ClockId::Monotonic);
            let gap = instant.elapsed();
            let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
            let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
            let monotonic = Duration::new(seconds, nanos);
            (gap, Self { instant, monotonic })
        });
        let tightest = readings.min_by_key(|(gap, _)| *gap);
        tightest.expect("several readings").1
    }

    fn timespec(&self, at: Instant) -> Timespec {
        let time = self.monotonic + at.saturating_duration_since(self.instant);
        Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        }
    }

    fn nanosleep(&self, until: Instant) {
        let until = self.timespec(until);
        // Interrupted by a signal: the rest of the sleep is still ahead.
        while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
    }
}
