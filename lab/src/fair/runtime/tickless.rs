//! This library's executor as a runtime of `tickless fair`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tickless::executor::Preemption;
use tickless::task::{Slice, Spec, Weight};
use tickless::{Executor, coop};

use super::{Missing, Runtime};
use crate::fair::stage::{Job, Stage};

#[derive(Debug)]
enum Tickless {}

impl Runtime for Tickless {
    async fn checkpoint() {
        coop::checkpoint().await;
    }

    async fn sleep_until(deadline: Instant) {
        tickless::time::sleep_until(deadline.into()).await;
    }
}

pub(super) fn run(
    preemption: Preemption,
    hrtick: bool,
    stage: &Arc<Stage>,
    jobs: Vec<Job>,
) -> Result<(), Missing> {
    let mix = stage.mix();
    let mut builder = Executor::builder()
        .workers(mix.workers)
        .preemption(preemption)
        .hrtick(hrtick)
        // Tasks of a mix never keep their worker for long; a machine that is busy elsewhere does.
        .on_stuck(|_| {});
    if let Some(slice) = mix.slice {
        builder = builder.slice(slice);
    }
    let executor = builder.build().map_err(|error| error.to_string())?;
    let spawn = |job: Job| {
        let mut spec = Spec::new().weight(Weight::UNIT.times(job.weight));
        // What has to be served soon asks for what it needs at a time, and no more.
        if let Some(burst) = job.burst(mix) {
            spec = spec.slice(Slice::new(burst.min(mix.slice.unwrap_or(Duration::MAX))));
        }
        executor.spawn_with(spec, task(job, Arc::clone(stage)))
    };
    let tasks: Vec<_> = jobs.into_iter().map(spawn).collect();
    let ended = executor.block_on(async {
        for task in tasks {
            task.await.map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    executor.shutdown(Duration::ZERO);
    ended
}

async fn task(job: Job, stage: Arc<Stage>) {
    job.run::<Tickless>(&stage).await;
}
