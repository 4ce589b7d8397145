//! What came of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::model::time::Picos;
use crate::promise::{Promise, Violation};
use crate::record::counts::Counts;
use crate::record::distribution::Distribution;
use crate::run::groups::{CpuOutcome, Group};

/// How all CPUs idled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// The idle state.
    pub state: String,
    /// Whether it counts as deep.
    pub deep: bool,
    /// How long all CPUs together were in it.
    pub time: Picos,
}

/// What a task had of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The CPU that it was on at the end.
    pub cpu: u32,
    /// To how many parts it was entitled: 2^20 for a task that says nothing.
    pub weight: u64,
    /// How long it had a CPU.
    pub had: Picos,
}

/// What came of a run. Everything in it is a function of the scenario and the seed.
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
    /// How long it was, in virtual time.
    pub duration: Picos,
    /// What happened how often.
    pub counts: Counts,
    /// What the workloads measured.
    pub series: BTreeMap<&'static str, Distribution>,
    /// How late coarse timers fired on their own CPU, after the start of the tick at which they were due.
    pub late_own: Distribution,
    /// How late those fired that others ran.
    pub late_remote: Distribution,
    /// How late exact timers fired.
    pub late_exact: Distribution,
    /// How the CPUs idled.
    pub residency: Vec<Residency>,
    /// What the cores drew on average while they idled, in milliwatts of the whole machine.
    pub idle_milliwatts: u64,
    /// Each CPU.
    pub per_cpu: Vec<CpuOutcome>,
    /// The CPUs by what runs on them.
    pub groups: Vec<Group>,
    /// Each task, if they share CPUs fairly, in the order of the workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// What went wrong on purpose.
    pub faults: Vec<Fault>,
    /// How often each kind of that happened.
    pub fault_counts: BTreeMap<&'static str, u64>,
    /// What the watchdog said of the counter, if that was bad.
    pub watchdog: Option<String>,
    /// How often each promise was broken.
    pub broken: BTreeMap<Promise, u64>,
    /// The first of these, with their stories.
    pub violations: Vec<Violation>,
    /// A digest of everything that happened: the same for the same seed.
    pub digest: u64,
    /// Everything that happened, 24 bytes each, if the scenario asked for it.
    #[serde(skip)]
    pub log: Vec<u8>,
}

impl Outcome {
    /// Whether every promise was kept.
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
