//! The timers that are compared, behind one interface, so that the load is the same code for all.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioTimer;
use serde::Serialize;
use tickless::time::{Precision, Slack, set_thread_slack};
use tickless::tokio::AttachError;
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
}

impl Arm {
    pub(crate) const COUNT: usize = 5;

    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Tokio,
        Self::Tickless,
        Self::Detached,
        Self::Slack,
        Self::Worker,
    ];

    /// The columns that are compared with tokio's.
    pub(crate) const OURS: [Self; Self::COUNT - 1] =
        [Self::Tickless, Self::Detached, Self::Slack, Self::Worker];

    /// Returns the heading of the arm's column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Tickless => "tickless",
            Self::Detached => "- reactor",
            Self::Slack => "+ slack",
            Self::Worker => "+ Worker",
        }
    }

    /// Returns the colour of the arm's curves and bars.
    pub(crate) fn ink(self) -> Ink {
        match self {
            Self::Tokio => plot::TOKIO,
            Self::Tickless => TICKLESS[0],
            Self::Detached => TICKLESS[1],
            Self::Slack => TICKLESS[2],
            Self::Worker => TICKLESS[3],
        }
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
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the name of the server's threads.
    pub(crate) fn threads(self) -> &'static str {
        match self {
            Self::Tokio => "serve-tokio",
            Self::Tickless => "serve-tickless",
            Self::Detached => "serve-detached",
            Self::Slack => "serve-slack",
            Self::Worker => "serve-worker",
        }
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
        }
    }

    /// Detaches a runtime whose reactor is not to fire the timers; called inside the runtime.
    pub(crate) fn enter(self) -> Result<(), AttachError> {
        match self {
            Self::Tokio | Self::Tickless | Self::Slack | Self::Worker => Ok(()),
            Self::Detached => tickless::tokio::detach(),
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
    /// Returns the timer for hyper.
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
