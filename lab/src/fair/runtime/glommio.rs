//! glommio as a runtime of `tickless fair`: an executor on each thread, queues with shares, `io_uring`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use glommio::timer::sleep;
use glommio::{Latency, LocalExecutorPoolBuilder, PoolPlacement, Shares};

use super::{Missing, Runtime};
use crate::fair::stage::{Job, Stage};

#[derive(Debug)]
enum Glommio {}

impl Runtime for Glommio {
    async fn checkpoint() {
        glommio::yield_if_needed().await;
    }

    async fn sleep_until(deadline: Instant) {
        sleep(deadline.saturating_duration_since(Instant::now())).await;
    }
}

pub(super) fn run(stage: &Arc<Stage>, jobs: Vec<Job>) -> Result<(), Missing> {
    let workers = stage.mix().workers;
    let jobs = Arc::new(jobs);
    let next = Arc::new(AtomicUsize::new(0));
    let stage = Arc::clone(stage);
    let pool = LocalExecutorPoolBuilder::new(PoolPlacement::Unbound(workers))
        .on_all_shards(move || async move {
            // Relaxed: each gets a number of its own, whichever.
            let shard = next.fetch_add(1, Ordering::Relaxed);
            let mut tasks = Vec::new();
            for job in jobs.iter().skip(shard).step_by(workers) {
                let latency = match job.patience(stage.mix()) {
                    Some(patience) => Latency::Matters(patience),
                    None => Latency::NotImportant,
                };
                let shares = Shares::Static(job.weight.try_into().unwrap_or(usize::MAX));
                let queue = glommio::executor().create_task_queue(shares, latency, "task");
                let (job, stage) = (job.clone(), Arc::clone(&stage));
                let task = async move { job.run::<Glommio>(&stage).await };
                let task = glommio::spawn_local_into(task, queue);
                tasks.push(task.map_err(|error| error.to_string())?);
            }
            for task in tasks {
                task.await;
            }
            Ok::<(), Missing>(())
        })
        .map_err(|error| error.to_string())?;
    for ended in pool.join_all() {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}
