//! The outcome of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::model::time::Picos;
use crate::promise::{Promise, Violation};
use crate::record::counts::Counts;
use crate::record::distribution::Distribution;
use crate::run::groups::{CpuOutcome, Group};

/// The time of all CPUs in an idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// The idle state.
    pub state: String,
    /// True if it counts as deep.
    pub deep: bool,
    /// The time that all CPUs together were in it.
    pub time: Picos,
}

/// The CPU time of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The CPU that it was on at the end.
    pub cpu: u32,
    /// The task's share by weight, in parts of 2^20: 2^20 for a task without a weight of its own.
    pub weight: u64,
    /// The CPU time that it had.
    pub had: Picos,
}

/// The outcome of a run. Everything in it is a function of the scenario and the seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// The profile.
    pub profile: String,
    /// The version of the library.
    pub version: &'static str,
    /// The seed.
    pub seed: u64,
    /// The number of CPUs.
    pub cpus: u32,
    /// The duration, in virtual time.
    pub duration: Picos,
    /// The counts of the run.
    pub counts: Counts,
    /// The measurements of the workloads.
    pub series: BTreeMap<&'static str, Distribution>,
    /// The lateness of coarse timers that their own CPU fired, after the start of the tick at which they were due.
    pub late_own: Distribution,
    /// The lateness of coarse timers that another CPU fired.
    pub late_remote: Distribution,
    /// The lateness of exact timers.
    pub late_exact: Distribution,
    /// The time in each idle state.
    pub residency: Vec<Residency>,
    /// The average power of the cores while they idled, in milliwatts of the whole machine.
    pub idle_milliwatts: u64,
    /// Each CPU.
    pub per_cpu: Vec<CpuOutcome>,
    /// The CPUs by what runs on them.
    pub groups: Vec<Group>,
    /// Each task, if they share CPUs fairly, in the order of the workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// The faults of the plan.
    pub faults: Vec<Fault>,
    /// The number of faults of each kind that happened.
    pub fault_counts: BTreeMap<&'static str, u64>,
    /// The watchdog's verdict on the counter, if that was bad.
    pub watchdog: Option<String>,
    /// The number of times that each promise was broken.
    pub broken: BTreeMap<Promise, u64>,
    /// The first of these, with their stories.
    pub violations: Vec<Violation>,
    /// A digest of everything that happened: the same for the same seed.
    pub digest: u64,
    /// The log of all events, 24 bytes each, if the scenario asked for it.
    #[serde(skip)]
    pub log: Vec<u8>,
}

impl Outcome {
    /// Returns true if every promise was kept.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    /// The time in deep idle states, in thousandths of all CPU time.
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

    /// Jobs that were done in a minute, if any workload has jobs.
    #[must_use]
    pub fn jobs_per_minute(&self) -> Option<u64> {
        let jobs = u128::from(self.series("job")?.count());
        let minute = u128::from(Picos::from_millis(60_000).0);
        let jobs = (jobs * minute).checked_div(u128::from(self.duration.0))?;
        u64::try_from(jobs).ok()
    }

    /// The time in which CPUs read the clock, in millionths of all CPU time.
    #[must_use]
    pub fn clock_reading_ppm(&self) -> u64 {
        let all = u128::from(self.duration.0) * u128::from(self.cpus);
        let reading = u128::from(self.counts.clock_reading.0) * 1_000_000;
        u64::try_from(reading.checked_div(all).unwrap_or(0)).unwrap_or(0)
    }

    /// The greatest value of a series, and the least and the mean through it; `None` if nothing was noted.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Distribution> {
        self.series.get(name)
    }
}
