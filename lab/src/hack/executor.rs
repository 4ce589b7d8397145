//! The traffic on tasks of this library's executor, and the executor's counts.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickless::executor::{ExecutorStats, Preemption, Savings};
use tickless::task::JoinHandle;
use tickless::{Executor, coop};

use super::arguments::{Device, Plan};
use super::features::Features;
use super::result::{Counts, Ran};
use super::traffic::{Channels, Pipes, Rest, Shared, Transport, spawn_all};

/// Tasks that yield if another task is to run.
#[derive(Debug)]
enum Checkpoint {}

impl Rest for Checkpoint {
    async fn checkpoint() {
        coop::checkpoint().await;
    }
}

/// Runs the traffic with these features; returns the time that it took, and the counts.
pub(super) fn run(plan: &Plan, features: Features, shared: &Arc<Shared>) -> Result<Ran, String> {
    let ran = if plan.pipe {
        on_executor::<Pipes>(plan, features, shared)
    } else {
        on_executor::<Channels>(plan, features, shared)
    };
    ran.map_err(|error| error.to_string())
}

fn on_executor<T: Transport>(
    plan: &Plan,
    features: Features,
    shared: &Arc<Shared>,
) -> io::Result<Ran> {
    let savings = Savings {
        lazy: features.lazy,
        deferred: features.deferred,
        coupled: features.coupled,
        filter: features.filter,
    };
    // Of the whole process: no other executor is there meanwhile.
    tickless::internals::set_updates_in_place(features.in_place);
    let executor = Executor::builder()
        .workers(plan.workers)
        .preemption(match plan.device {
            Device::Signal => Preemption::Signal,
            Device::Counter => Preemption::Counter,
        })
        .hrtick(features.hrtick)
        .savings(savings)
        // No task keeps its worker for long; a machine that is busy elsewhere does.
        .on_stuck(|_| {})
        .build()
        .map_err(io::Error::other)?;
    let (door, gate) = async_channel::bounded(1);
    let mut tasks: Vec<JoinHandle<io::Result<()>>> = Vec::new();
    spawn_all::<T>(plan.traffic, shared, &gate, |task| {
        tasks.push(executor.spawn(task.run::<Checkpoint>()));
    })?;
    let before = executor.stats();
    let start = Instant::now();
    door.close();
    let ended: io::Result<()> = executor.block_on(async {
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        Ok(())
    });
    let took = start.elapsed();
    let after = executor.stats();
    let start_cost = executor.start_cost();
    executor.shutdown(Duration::ZERO);
    ended.map(|()| Ran {
        took,
        counts: counts(&before, &after),
        start_cycles: start_cost.mean(),
    })
}

/// Returns the differences between two readings of the counters.
fn counts(before: &ExecutorStats, after: &ExecutorStats) -> Counts {
    let between = |of: fn(&ExecutorStats) -> u64| of(after).saturating_sub(of(before));
    Counts {
        switches: between(|stats| stats.switches),
        // Counted from zero when a worker begins, which may be after the first look: it is no difference.
        device_writes: after.device_writes,
        signals: after.signals,
        interrupts: between(|stats| stats.interrupts),
        spurious: between(|stats| stats.spurious),
        starts: between(|stats| stats.timer_starts),
        updates: between(|stats| stats.timer_updates),
        in_place: between(|stats| stats.in_place),
        filed_early: between(|stats| stats.filed_early),
        far_in_slot: between(|stats| stats.far_in_slot),
    }
}
