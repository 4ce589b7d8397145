//! clockworker as a runtime of `tickless fair`: EEVDF over queues, on one thread, with tokio's timers.

use std::sync::Arc;
use std::time::Instant;

use clockworker::{ExecutorBuilder, yield_maybe};
use tokio::runtime::Builder;

use super::{Missing, Runtime};
use crate::fair::stage::{Job, Stage};

#[derive(Debug)]
enum Clockworker {}

impl Runtime for Clockworker {
    async fn checkpoint() {
        yield_maybe().await;
    }

    async fn sleep_until(deadline: Instant) {
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// The largest number of queues that clockworker accepts.
const QUEUES: usize = 256;

pub(super) fn run(stage: &Arc<Stage>, jobs: Vec<Job>) -> Result<(), Missing> {
    let mix = stage.mix();
    if mix.workers > 1 {
        return Err(format!(
            "it has one worker, and this mix has {}; try --workers 1",
            mix.workers
        ));
    }
    if jobs.len() > QUEUES {
        return Err(format!(
            "it has {QUEUES} queues at most, and each of these {} tasks needs one for its weight",
            jobs.len()
        ));
    }
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    let mut builder = ExecutorBuilder::new();
    if let Some(slice) = mix.slice {
        builder = builder.with_min_slice(slice);
    }
    for (place, job) in jobs.iter().enumerate() {
        builder = builder.with_queue(place, u64::from(job.weight));
    }
    let executor = builder.build()?;
    let mut tasks = Vec::new();
    for (place, job) in jobs.into_iter().enumerate() {
        let queue = executor
            .queue(place)
            .map_err(|_| "it has no such queue".to_owned())?;
        let stage = Arc::clone(stage);
        tasks.push(queue.spawn(async move { job.run::<Clockworker>(&stage).await }));
    }
    runtime.block_on(executor.run_until(async {
        for task in tasks {
            task.await
                .map_err(|error| format!("a task ended with {error:?}"))?;
        }
        Ok(())
    }))
}
