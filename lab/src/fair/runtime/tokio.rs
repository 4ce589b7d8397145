//! tokio's multi-thread runtime as a runtime of `tickless fair`.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::{Missing, Runtime};
use crate::fair::stage::{Job, Stage};

/// Tokio with its recommended budget: a task consumes budget at checkpoints, and yields when the budget is spent.
#[derive(Debug)]
pub(super) enum Budget {}

/// Tokio with tasks that yield at each checkpoint.
#[derive(Debug)]
pub(super) enum Yield {}

impl Runtime for Budget {
    async fn checkpoint() {
        tokio::task::consume_budget().await;
    }

    async fn sleep_until(deadline: Instant) {
        tokio::time::sleep_until(deadline.into()).await;
    }
}

impl Runtime for Yield {
    async fn checkpoint() {
        tokio::task::yield_now().await;
    }

    async fn sleep_until(deadline: Instant) {
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// A runtime whose tasks tokio's threads can steal. Generic code cannot promise that its futures are `Send`; the two
/// implementations in this file can.
pub(super) trait Movable: Runtime {
    fn movable(job: Job, stage: Arc<Stage>) -> impl Future<Output = ()> + Send;
}

impl Movable for Budget {
    async fn movable(job: Job, stage: Arc<Stage>) {
        job.run::<Self>(&stage).await;
    }
}

impl Movable for Yield {
    async fn movable(job: Job, stage: Arc<Stage>) {
        job.run::<Self>(&stage).await;
    }
}

pub(super) fn run<R: Movable>(stage: &Arc<Stage>, jobs: Vec<Job>) -> Result<(), Missing> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(stage.mix().workers)
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for job in jobs {
            tasks.spawn(R::movable(job, Arc::clone(stage)));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}
