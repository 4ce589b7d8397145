//! The baselines of the executor: tokio with the same tasks, and hackbench itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::arguments::{Plan, Tasks};
use super::traffic::{Channels, Rest, Shared, TokioPipes, Transport, spawn_all};

/// Tasks that consume their budget at checkpoints.
#[derive(Debug)]
enum Budget {}

impl Rest for Budget {
    async fn checkpoint() {
        tokio::task::consume_budget().await;
    }
}

/// Runs the traffic on tokio's multi-thread runtime; returns the time that it took.
pub(super) fn tokio(plan: &Plan, shared: &Arc<Shared>) -> Result<Duration, String> {
    let took = if plan.pipe {
        on_tokio::<TokioPipes>(plan, shared)
    } else {
        on_tokio::<Channels>(plan, shared)
    };
    took.map_err(|error| error.to_string())
}

fn on_tokio<T: Transport>(plan: &Plan, shared: &Arc<Shared>) -> io::Result<Duration> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(plan.workers)
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let (door, gate) = async_channel::bounded(1);
        let mut tasks = JoinSet::new();
        spawn_all::<T>(plan.traffic, shared, &gate, |task| {
            tasks.spawn(task.run::<Budget>());
        })?;
        let start = Instant::now();
        door.close();
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(start.elapsed())
    })
}

/// Finds hackbench, if it is installed.
pub(super) fn find_hackbench() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path).map(|directory| directory.join("hackbench"));
    { candidates }
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| "it is not installed; it comes with rt-tests".to_owned())
}

/// The time between two checks whether a run is to end.
const LOOK: Duration = Duration::from_millis(5);
/// The time for hackbench to end its children before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs hackbench itself with the same options; returns the time that hackbench prints.
pub(super) fn hackbench(program: &Path, plan: &Plan, shared: &Shared) -> Result<Duration, String> {
    let traffic = &plan.traffic;
    let mut command = Command::new(program);
    command.args([
        "-g",
        &traffic.groups.to_string(),
        "-f",
        &traffic.fds.to_string(),
    ]);
    command.args([
        "-l",
        &traffic.loops.to_string(),
        "-s",
        &traffic.size.to_string(),
    ]);
    command.arg(match plan.hackbench {
        Tasks::Processes => "-P",
        Tasks::Threads => "-T",
    });
    if plan.pipe {
        command.arg("-p");
    }
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| error.to_string())?;
    // It prints a few lines only, which no pipe is too small for.
    let mut stopped: Option<Instant> = None;
    while let Ok(None) = child.try_wait() {
        match stopped {
            None if shared.is_stopped() => {
                // What Ctrl-C does: it ends its children first.
                let _ended_by_itself = kill_process(Pid::from_child(&child), Signal::INT);
                stopped = Some(Instant::now());
            }
            Some(when) if when.elapsed() > PATIENCE => {
                let _ended_by_itself = child.kill();
            }
            _ => thread::sleep(LOOK),
        }
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    time_of(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("nothing");
        format!("it ended with {} and said: {said}", output.status)
    })
}

/// Parses the line of hackbench that has the time: `Time: 0.123`.
fn time_of(text: &str) -> Option<Duration> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("Time:"))?;
    let seconds: f64 = seconds.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::time_of;
    use std::time::Duration;

    #[test]
    fn the_time_that_hackbench_tells_is_understood() {
        let text =
            "Running in process mode with 10 groups using 40 file descriptors each\nTime: 0.125\n";
        assert_eq!(time_of(text), Some(Duration::from_millis(125)));
        assert_eq!(time_of("Time: soon"), None);
        assert_eq!(time_of(""), None);
    }
}
