//! The timers that are compared, behind one interface, so that the load is one code for both.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioTimer;
use serde::Serialize;
use tokio::runtime::Builder;

/// What makes the timers of a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arm {
    /// `tokio::time` everywhere.
    Tokio,
    /// `tickless::time` everywhere, in the same runtime.
    Tickless,
    /// `tickless::time`, and the paced sender on a `tickless::Worker` thread of its own.
    Worker,
}

impl Arm {
    pub(crate) const ALL: [Self; 3] = [Self::Tokio, Self::Tickless, Self::Worker];

    /// The heading of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio::time",
            Self::Tickless => "tickless::time",
            Self::Worker => "+ Worker",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Whose server it talks to.
    pub(crate) fn server(self) -> Kind {
        match self {
            Self::Tokio => Kind::Tokio,
            Self::Tickless | Self::Worker => Kind::Tickless,
        }
    }
}

/// The two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tokio,
    Tickless,
}

impl Kind {
    /// What the threads of its server are called.
    pub(crate) fn threads(self) -> &'static str {
        match self {
            Self::Tokio => "serve-tokio",
            Self::Tickless => "serve-tickless",
        }
    }

    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Tokio => "tokio::time",
            Self::Tickless => "tickless::time",
        }
    }
}

/// What a program takes from a timer library: the same names on both sides.
pub(crate) trait Timers: Clone + Copy + Send + Sync + 'static {
    type Sleep: Future<Output = ()> + Send + 'static;
    type Interval: Send + 'static;
    type Hyper: hyper::rt::Timer + Clone + Send + Sync + 'static;

    const KIND: Kind;

    /// Lets a runtime have what these timers need of it.
    fn prepare(builder: &mut Builder);
    fn sleep_until(deadline: Instant) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
    fn interval_at(start: Instant, period: Duration) -> Self::Interval;
    /// Waits for the next tick, and says when it was due.
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = Instant> + Send;
    /// What is given to hyper.
    fn hyper() -> Self::Hyper;
}

/// Timers of a library: in the same words on both sides.
macro_rules! timers {
    ($name:ident, $library:ident, $hyper:ty = $new:expr, |$builder:ident| $prepare:block) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl Timers for $name {
            type Sleep = $library::time::Sleep;
            type Interval = $library::time::Interval;
            type Hyper = $hyper;

            const KIND: Kind = Kind::$name;

            fn prepare($builder: &mut Builder) $prepare

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

timers!(Tokio, tokio, TokioTimer = TokioTimer::new(), |builder| {
    builder.enable_time();
});
// The runtime is built without any timers of its own.
timers!(
    Tickless,
    tickless,
    tickless::hyper::Timer = tickless::hyper::Timer,
    |_builder| {}
);
