//! The timers that are compared, behind one interface, so that the load is the same code for all.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioTimer;
use serde::Serialize;
use tickless::time::{Precision, Slack, set_thread_slack};
use tokio::runtime::Builder;

use crate::plot::{self, Ink, TICKLESS};

/// The timers of a part of the run: a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arm {
    /// `tokio::time` everywhere.
    Tokio,
    /// `tickless::time` everywhere, in the same kind of runtime. Its reactor fires the timers.
    Tickless,
    /// `tickless::time` in a runtime that was detached.
    Detached,
    /// The timers of [`Tickless`](Self::Tickless), with slack.
    Slack,
    /// The timers of [`Tickless`](Self::Tickless), with the paced sender on a `tickless::Worker` thread of its own.
    Worker,
    /// `tokio::time` in a runtime with tokio's other timer, which tokio promises nothing about: a wheel for each worker.
    #[cfg(tokio_unstable)]
    Alternative,
}

impl Arm {
    pub(crate) const COUNT: usize = if cfg!(tokio_unstable) { 6 } else { 5 };

    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Tokio,
        Self::Tickless,
        Self::Detached,
        Self::Slack,
        Self::Worker,
        #[cfg(tokio_unstable)]
        Self::Alternative,
    ];

    /// Returns the columns that are compared with that of tokio's default timer.
    pub(crate) fn others() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().skip(1)
    }

    /// Returns true if the timers of the column are tokio's.
    pub(crate) fn is_tokio(self) -> bool {
        match self {
            #[cfg(tokio_unstable)]
            Self::Alternative => true,
            _ => self == Self::Tokio,
        }
    }

    /// Returns the heading of the column, the name of the server's threads, and the colour of curves and bars.
    fn marks(self) -> (&'static str, &'static str, Ink) {
        match self {
            Self::Tokio => ("tokio", "serve-tokio", plot::TOKIO),
            Self::Tickless => ("tickless", "serve-tickless", TICKLESS[0]),
            Self::Detached => ("- reactor", "serve-detached", TICKLESS[1]),
            Self::Slack => ("+ slack", "serve-slack", TICKLESS[2]),
            Self::Worker => ("+ Worker", "serve-worker", TICKLESS[3]),
            #[cfg(tokio_unstable)]
            Self::Alternative => ("tokio alt", "serve-alt", plot::TOKIO_2),
        }
    }

    /// Returns the heading of the arm's column.
    pub(crate) fn name(self) -> &'static str {
        self.marks().0
    }

    /// Returns the name of the server's threads.
    pub(crate) fn threads(self) -> &'static str {
        self.marks().1
    }

    /// Returns the colour of the arm's curves and bars.
    pub(crate) fn ink(self) -> Ink {
        self.marks().2
    }

    /// Explains the column to readers without the documentation.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Tokio => {
                "tokio::time: deadlines are rounded up to the next millisecond, and so is the time until then"
            }
            Self::Tickless => {
                "tickless::time, with nothing set up: exact; the runtime's reactor fires the timers"
            }
            Self::Detached => "exact; the library's own thread does, by tickless::tokio::detach",
            Self::Slack => "with set_thread_slack in each thread: timers share wake-ups (--slack)",
            Self::Worker => "the paced sender on a tickless::Worker thread of its own",
            #[cfg(tokio_unstable)]
            Self::Alternative => "tokio::time, with Builder::enable_alt_timer",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Prepares the builder of a runtime for its timers. The runtime of tickless is built without tokio's timers.
    pub(crate) fn prepare(self, builder: &mut Builder, slack: Option<Duration>) {
        let slack = slack.map_or(Precision::Relative.into(), Slack::from);
        match self {
            Self::Tokio => drop(builder.enable_time()),
            Self::Tickless | Self::Detached | Self::Worker => {}
            Self::Slack => drop(builder.on_thread_start(move || {
                set_thread_slack(slack);
            })),
            #[cfg(tokio_unstable)]
            Self::Alternative => drop(builder.enable_alt_timer()),
        }
    }
}

/// The part of a timer library that a program uses, with the same names for both libraries.
pub(crate) trait Timers: Clone + Copy + Send + Sync + 'static {
    type Sleep: Future<Output = ()> + Send + 'static;
    type Interval: Send + 'static;
    type Hyper: hyper::rt::Timer + Clone + Send + Sync + 'static;

    fn sleep_until(deadline: Instant) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
    fn interval_at(start: Instant, period: Duration) -> Self::Interval;
    /// Waits for the next tick, and returns the time at which the tick was due.
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = Instant> + Send;
    fn hyper() -> Self::Hyper;
}

/// Implements `Timers` for a library by the names that both libraries share.
macro_rules! timers {
    ($name:ident, $library:ident, $hyper:ty = $new:expr) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl Timers for $name {
            type Sleep = $library::time::Sleep;
            type Interval = $library::time::Interval;
            type Hyper = $hyper;

            fn sleep_until(deadline: Instant) -> Self::Sleep {
                $library::time::sleep_until(deadline.into())
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
                sleep.reset(deadline.into());
            }

            fn interval_at(start: Instant, period: Duration) -> Self::Interval {
                $library::time::interval_at(start.into(), period)
            }

            async fn tick(interval: &mut Self::Interval) -> Instant {
                interval.tick().await.into()
            }

            fn hyper() -> Self::Hyper {
                $new
            }
        }
    };
}

timers!(Tokio, tokio, TokioTimer = TokioTimer::new());
timers!(
    Tickless,
    tickless,
    tickless::hyper::Timer = tickless::hyper::Timer
);
