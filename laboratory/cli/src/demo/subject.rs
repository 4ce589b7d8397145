//! The timers that are compared, behind one interface, so that the load is the same code for all.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioTimer;
use serde::Serialize;
use tickless::time::set_thread_slack;
use tickless::tokio::AttachError;
use tokio::runtime::Builder;

use super::arguments::Settings;
use crate::plot::{self, Ink, TICKLESS};

/// The lateness that tokio's timers choose. Tokio's wheel counts whole milliseconds and rounds deadlines up; its driver
/// also rounds up the time that it waits until the deadline.
const TOKIO: Duration = Duration::from_millis(2);

/// The timers of a part of the run: a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arm {
    /// `tokio::time` everywhere.
    Tokio,
    /// `tickless::time` everywhere, in the same kind of runtime.
    Tickless,
    /// `tickless::time` in a runtime whose reactor rings for the timers.
    Reactor,
    /// The timers of [`Reactor`](Self::Reactor), with slack.
    Slack,
    /// The timers of [`Reactor`](Self::Reactor), with the paced sender on a `tickless::Worker` thread of its own.
    Worker,
}

impl Arm {
    pub(crate) const COUNT: usize = 5;

    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Tokio,
        Self::Tickless,
        Self::Reactor,
        Self::Slack,
        Self::Worker,
    ];

    /// Returns the heading of the arm's column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio::time",
            Self::Tickless => "tickless::time",
            Self::Reactor => "+ reactor",
            Self::Slack => "+ slack",
            Self::Worker => "+ Worker",
        }
    }

    /// Returns the heading of the arm's column in a narrow table.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Tickless => "tickless",
            Self::Reactor | Self::Slack | Self::Worker => self.name(),
        }
    }

    /// Returns the colour of the arm's curves and bars.
    pub(crate) fn ink(self) -> Ink {
        match self {
            Self::Tokio => plot::TOKIO,
            Self::Tickless => TICKLESS[0],
            Self::Reactor => TICKLESS[1],
            Self::Slack => TICKLESS[2],
            Self::Worker => TICKLESS[3],
        }
    }

    /// Describes the timers in a sentence.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Tokio => "tokio::time",
            Self::Tickless => "tickless::time",
            Self::Reactor => "the reactor",
            Self::Slack => "a slack",
            Self::Worker => "a Worker",
        }
    }

    /// Explains the column to readers without the documentation.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Tokio => {
                "deadlines are rounded up to the next millisecond, and so is the time until then"
            }
            Self::Tickless => "exact; the library's own thread fires what the runtime waits for",
            Self::Reactor => "exact; the runtime's reactor does, by tickless::tokio::attach",
            Self::Slack => {
                "as + reactor, with set_thread_slack in each thread: timers share wake-ups (--slack)"
            }
            Self::Worker => {
                "as + reactor, and the paced sender on a tickless::Worker thread of its own"
            }
        }
    }

    /// Returns the lateness that timers choose, as opposed to the machine's.
    pub(crate) fn allowed(self, settings: &Settings) -> Duration {
        match self {
            Self::Tokio => TOKIO,
            Self::Slack => settings.slack,
            Self::Tickless | Self::Reactor | Self::Worker => Duration::ZERO,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the server to which the arm's clients connect.
    pub(crate) fn server(self) -> ServerKind {
        match self {
            Self::Tokio => ServerKind::Tokio,
            Self::Tickless => ServerKind::Tickless,
            Self::Reactor | Self::Worker => ServerKind::Reactor,
            Self::Slack => ServerKind::Slack,
        }
    }
}

/// The kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Tokio,
    Tickless,
    Reactor,
    Slack,
}

impl ServerKind {
    pub(crate) const ALL: [Self; 4] = [Self::Tokio, Self::Tickless, Self::Reactor, Self::Slack];

    /// Returns the name of the server's threads.
    pub(crate) fn threads(self) -> &'static str {
        match self {
            Self::Tokio => "serve-tokio",
            Self::Tickless => "serve-tickless",
            Self::Reactor => "serve-reactor",
            Self::Slack => "serve-slack",
        }
    }

    /// Returns the module that contains the timers.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Tokio => "tokio::time",
            Self::Tickless | Self::Reactor | Self::Slack => "tickless::time",
        }
    }

    /// Prepares the builder of a runtime for its timers. The runtime of tickless is built without tokio's timers.
    pub(crate) fn prepare(self, builder: &mut Builder, slack: Duration) {
        match self {
            Self::Tokio => drop(builder.enable_time()),
            Self::Tickless | Self::Reactor => {}
            Self::Slack => drop(builder.on_thread_start(move || {
                set_thread_slack(slack);
            })),
        }
    }

    /// Attaches the timers to a running runtime; called inside the runtime.
    pub(crate) fn attach(self) -> Result<(), AttachError> {
        match self {
            Self::Tokio | Self::Tickless => Ok(()),
            // Until the runtime is dropped.
            Self::Reactor | Self::Slack => tickless::tokio::attach().map(drop),
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
