//! The runtimes that are compared, behind one interface, so that the tasks are the same code for all.

mod clockworker;
#[cfg(feature = "glommio")]
mod glommio;
mod smol;
mod tickless;
mod tokio;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use ::tickless::executor::Preemption;

use super::stage::{Job, Stage};

/// The operations of a runtime that tasks use.
pub(super) trait Runtime: 'static {
    /// Lets other tasks run, if the runtime decides that it is their turn.
    fn checkpoint() -> impl Future<Output = ()>;
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()>;
}

/// The reason why a runtime does not run here.
pub(super) type Missing = String;

/// A runtime, configured as its users would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    /// This library's executor, whose slices end by comparing the counter
    Tickless,
    /// The same, whose slices end by a timer signal of each worker
    TicklessSignal,
    /// The same without precise slices
    TicklessOff,
    /// tokio, many threads; tasks consume their budget at checkpoints
    Tokio,
    /// tokio, many threads; tasks yield at each checkpoint
    TokioYield,
    /// smol's executor; tasks yield at each checkpoint
    Smol,
    /// glommio, a queue with shares for each task
    Glommio,
    /// clockworker on tokio, a queue with shares for each task
    Clockworker,
}

impl Subject {
    pub(super) const ALL: &'static [Self] = &[
        Self::Tickless,
        Self::TicklessSignal,
        Self::TicklessOff,
        Self::Tokio,
        Self::TokioYield,
        Self::Smol,
        Self::Glommio,
        Self::Clockworker,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tickless => "tickless",
            Self::TicklessSignal => "tickless-signal",
            Self::TicklessOff => "tickless-off",
            Self::Tokio => "tokio",
            Self::TokioYield => "tokio-yield",
            Self::Smol => "smol",
            Self::Glommio => "glommio",
            Self::Clockworker => "clockworker",
        }
    }

    /// Returns the name of the function that tasks call at checkpoints.
    pub(super) fn checkpoint(self) -> &'static str {
        match self {
            Self::Tickless | Self::TicklessSignal | Self::TicklessOff => {
                "tickless::coop::checkpoint"
            }
            Self::Tokio => "tokio::task::consume_budget",
            Self::TokioYield => "tokio::task::yield_now",
            Self::Smol => "smol::future::yield_now",
            Self::Glommio => "glommio::yield_if_needed",
            Self::Clockworker => "clockworker::yield_maybe",
        }
    }

    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Tickless => {
                "tickless::Executor; checkpoints compare the counter with the end of the slice"
            }
            Self::TicklessSignal => {
                "tickless::Executor; a POSIX timer of each worker signals the end of the slice"
            }
            Self::TicklessOff => {
                "tickless::Executor without precise slices (hrtick); tasks give way to those that wake"
            }
            Self::Tokio => {
                "tokio's multi-thread runtime, whose tasks yield when their budget of 128 is consumed"
            }
            Self::TokioYield => {
                "tokio's multi-thread runtime, whose tasks yield at each checkpoint"
            }
            Self::Smol => "smol::Executor on as many threads as there are workers",
            Self::Glommio => {
                "glommio's executors, to which tasks are dealt out in turn, each in a queue with shares of its own"
            }
            Self::Clockworker => {
                "clockworker on tokio's current-thread runtime, each task in a queue with shares of its own"
            }
        }
    }

    /// Returns true if the runtime is this library's.
    pub(super) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Tickless | Self::TicklessSignal | Self::TicklessOff
        )
    }

    /// Returns true if tasks that compute yield at the end of a slice.
    pub(super) fn has_slices(self) -> bool {
        self != Self::TicklessOff
    }

    /// Returns true if the runtime supports weights.
    pub(super) fn has_weights(self) -> bool {
        match self {
            Self::Tokio | Self::TokioYield | Self::Smol => false,
            Self::Tickless | Self::TicklessSignal | Self::TicklessOff => true,
            Self::Glommio | Self::Clockworker => true,
        }
    }

    /// Runs `jobs` on this runtime, until all have ended. Called on a thread of its own.
    pub(super) fn run(self, stage: &Arc<Stage>, jobs: Vec<Job>) -> Result<(), Missing> {
        match self {
            Self::Tickless => tickless::run(Preemption::Counter, true, stage, jobs),
            Self::TicklessSignal => tickless::run(Preemption::Signal, true, stage, jobs),
            Self::TicklessOff => tickless::run(Preemption::Counter, false, stage, jobs),
            Self::Tokio => tokio::run::<tokio::Budget>(stage, jobs),
            Self::TokioYield => tokio::run::<tokio::Yield>(stage, jobs),
            Self::Smol => smol::run(stage, jobs),
            #[cfg(feature = "glommio")]
            Self::Glommio => glommio::run(stage, jobs),
            #[cfg(not(feature = "glommio"))]
            Self::Glommio => Err(
                "this command was built without it; cargo run --release -p tickless-lab --features glommio -- fair \
                 has it"
                    .to_owned(),
            ),
            Self::Clockworker => clockworker::run(stage, jobs),
        }
    }
}
