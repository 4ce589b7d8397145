//! smol's executor on several threads as a runtime of `tickless fair`.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use smol::{Executor, Timer, future};

use super::{Missing, Runtime};
use crate::fair::stage::{Job, Stage};

#[derive(Debug)]
enum Smol {}

impl Runtime for Smol {
    async fn checkpoint() {
        future::yield_now().await;
    }

    async fn sleep_until(deadline: Instant) {
        Timer::at(deadline).await;
    }
}

pub(super) fn run(stage: &Arc<Stage>, jobs: Vec<Job>) -> Result<(), Missing> {
    let executor = Executor::new();
    let (door, over) = async_channel::bounded::<()>(1);
    thread::scope(|scope| {
        for _ in 0..stage.mix().workers {
            let thread = thread::Builder::new().name("smol".to_owned());
            let until = executor.run(over.recv());
            let started = thread.spawn_scoped(scope, move || {
                let _closed = smol::block_on(until);
            });
            if let Err(error) = started {
                door.close();
                return Err(error.to_string());
            }
        }
        let spawn = |job: Job| {
            let stage = Arc::clone(stage);
            executor.spawn(async move { job.run::<Smol>(&stage).await })
        };
        let tasks: Vec<_> = jobs.into_iter().map(spawn).collect();
        smol::block_on(async {
            for task in tasks {
                task.await;
            }
        });
        door.close();
        Ok(())
    })
}
