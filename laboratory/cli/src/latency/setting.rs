//! The settings of a measuring thread and of the machine: priority, CPU, idle states.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use rustix::time::{ClockId, clock_getres};

use super::arguments::Placement;
use crate::failure::Failure;
use crate::scheduling::{self, Policy};

/// Moves the calling thread to its CPU, and sets its policy and priority.
pub(super) fn apply(policy: Policy, placement: &Placement) -> Result<(), Failure> {
    if let Some(cpu) = placement.cpu {
        scheduling::pin(cpu, "-a")?;
    }
    scheduling::set_priority(policy, placement.priority, "-p")
}

/// Describes the resolution of the clock, in the words of cyclictest.
pub(super) fn resolution() -> String {
    /// The number of readings after which the measurement gives up: more than any clock repeats a value.
    const READINGS: u32 = 10_000_000;
    let told = clock_getres(ClockId::Monotonic);
    let told = i128::from(told.tv_sec) * 1_000_000_000 + i128::from(told.tv_nsec);
    let steps = (0..1_000).filter_map(|_| {
        let begin = Instant::now();
        let mut later = (0..READINGS).map(|_| begin.elapsed());
        later.find(|step| !step.is_zero())
    });
    let measured = steps.min().unwrap_or_default().as_nanos();
    format!(
        "WARN: reported clock resolution: {told} nsec\nWARN: measured clock resolution approximately: {measured} nsec\n"
    )
}

/// A request to the kernel to leave idle states fast, which lasts as long as this value.
#[derive(Debug)]
pub(super) struct PowerManagement {
    latency: u32,
    /// The file that the kernel watches: closing it ends the request.
    demand: Result<File, String>,
}

const DEMANDS: &str = "/dev/cpu_dma_latency";

impl PowerManagement {
    pub(super) fn limit(latency: u32) -> Self {
        let demand = File::options().write(true).open(DEMANDS);
        let demand = demand.and_then(|mut file| {
            // As many bytes as the kernel's number has, in the machine's order.
            file.write_all(&latency.to_ne_bytes())?;
            Ok(file)
        });
        Self {
            latency,
            demand: demand.map_err(|error| error.to_string()),
        }
    }

    /// Describes the result of the request. A refusal does not stop the run.
    pub(super) fn line(&self) -> String {
        match &self.demand {
            Ok(_) => format!("# {DEMANDS} set to {}us\n", self.latency),
            Err(error) => format!("# {DEMANDS} left as it is: {error}\n"),
        }
    }
}
