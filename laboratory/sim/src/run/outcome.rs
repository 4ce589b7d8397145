//! The outcome of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::model::time::Picos;
use crate::promise::{Promise, Violation};
use crate::record::counts::Counts;
use crate::record::distribution::Distribution;
use crate::run::groups::{CpuOutcome, Group};

/// The total time of all CPUs in an idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// The name of the idle state.
    pub state: String,
    /// True if the state counts as deep idle.
    pub deep: bool,
    /// The total time of all CPUs in the state.
    pub time: Picos,
}

/// The CPU time of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The CPU on which the task was at the end.
    pub cpu: u32,
    /// The task's share by weight, in parts of 2^20: 2^20 for a task without a weight of its own.
    pub weight: u64,
    /// The CPU time that the task received.
    pub had: Picos,
}

/// The outcome of a run. All of it is a function of the scenario and the seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the profile.
    pub profile: String,
    /// The version of the library.
    pub version: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// The number of CPUs.
    pub cpus: u32,
    /// The duration, in virtual time.
    pub duration: Picos,
    /// The counts of the run.
    pub counts: Counts,
    /// The measurements of the workloads.
    pub series: BTreeMap<&'static str, Distribution>,
    /// The lateness of coarse timers that their own CPU fired, counted from the start of the tick at which they were
    /// due.
    pub late_own: Distribution,
    /// The lateness of coarse timers that another CPU fired.
    pub late_remote: Distribution,
    /// The lateness of exact timers.
    pub late_exact: Distribution,
    /// The total time in each idle state.
    pub residency: Vec<Residency>,
    /// The average power of all cores together while they were idle, in milliwatts.
    pub idle_milliwatts: u64,
    /// The results of each CPU.
    pub per_cpu: Vec<CpuOutcome>,
    /// The results of the CPUs, grouped by the workloads of the CPUs.
    pub groups: Vec<Group>,
    /// The shares of all tasks, if they share CPUs fairly, in the order of the workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// The faults of the plan.
    pub faults: Vec<Fault>,
    /// The number of faults of each kind that happened.
    pub fault_counts: BTreeMap<&'static str, u64>,
    /// The number of times that each promise was broken.
    pub broken: BTreeMap<Promise, u64>,
    /// The first violations, with the events before them.
    pub violations: Vec<Violation>,
    /// A digest of all events: the same seed gives the same digest.
    pub digest: u64,
}

impl Outcome {
    /// Returns true if every promise was kept.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    /// Returns the time in deep idle states, in thousandths of all CPU time.
    #[must_use]
    pub fn deep_idle_permille(&self) -> u64 {
        let deep: u128 = self
            .residency
            .iter()
            .filter(|state| state.deep)
            .map(|state| u128::from(state.time.0))
            .sum();
        let all = u128::from(self.duration.0) * u128::from(self.cpus);
        u64::try_from((deep * 1_000).checked_div(all).unwrap_or(0)).unwrap_or(0)
    }

    /// Returns the number of jobs done in a minute, if a workload has jobs.
    #[must_use]
    pub fn jobs_per_minute(&self) -> Option<u64> {
        let jobs = u128::from(self.series("job")?.count());
        let minute = u128::from(Picos::from_millis(60_000).0);
        let jobs = (jobs * minute).checked_div(u128::from(self.duration.0))?;
        u64::try_from(jobs).ok()
    }

    /// Returns the time for which CPUs read the clock, in millionths of all CPU time.
    #[must_use]
    pub fn clock_reading_ppm(&self) -> u64 {
        let all = u128::from(self.duration.0) * u128::from(self.cpus);
        let reading = u128::from(self.counts.clock_reading.0) * 1_000_000;
        u64::try_from(reading.checked_div(all).unwrap_or(0)).unwrap_or(0)
    }

    /// Returns the distribution of a series of measurements; `None` if the run has no series of this name.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Distribution> {
        self.series.get(name)
    }
}
