//! What the sources claim.

use super::measure::{self, Effort, Measurement};
use super::slow_counter;
use crate::world::profile::Profile;

type Measure = fn(u64, Effort, &Profile) -> Measurement;

/// A claim of a source.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// What the source has without it.
    pub baseline: Option<f64>,
    /// What the source has with it.
    pub with: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// Less is better.
    pub less_is_better: bool,
    /// The scenario that tries it.
    pub scenario: &'static str,
    /// The profile closest to the machine of the source.
    pub profile: &'static str,
    /// What to make of it.
    pub why: &'static str,
    measure: Option<Measure>,
}

impl Claim {
    /// Better by worse.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let Some(baseline) = self.baseline else {
            // "Not worse", or a figure that is to be reached.
            return Some(1.0);
        };
        let with = self.with?;
        Some(if self.less_is_better {
            baseline / with
        } else {
            with / baseline
        })
    }

    pub(super) fn measure(
        &self,
        seed: u64,
        effort: Effort,
        profile: &Profile,
    ) -> Option<Measurement> {
        self.measure.map(|measure| measure(seed, effort, profile))
    }

    const fn needs(
        id: &'static str,
        (baseline, with): (Option<f64>, Option<f64>),
        unit: &'static str,
        less_is_better: bool,
        profile: &'static str,
        why: &'static str,
    ) -> Self {
        Self {
            id,
            baseline,
            with,
            unit,
            less_is_better,
            scenario: "",
            profile,
            why,
            measure: None,
        }
    }
}

/// All claims of the design.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "enqueue",
        baseline: Some(145.0),
        with: Some(109.0),
        unit: "ns",
        less_is_better: true,
        scenario: "enqueue",
        profile: "skl-112",
        why: "The figure with the library is put in: the profile takes the 109 ns of the source for arm and cancel, so \
              only the ratio says something. What the search costs is made of steps, loads and lines, not of the 36 ns \
              of the source. ",
        measure: Some(measure::enqueue),
    },
    Claim {
        id: "idle-residency",
        baseline: None,
        with: None,
        unit: "% of CPU time",
        less_is_better: false,
        scenario: "idle-residency",
        profile: "skl-112",
        why: "The source says \"not worse\", without figures. ",
        measure: Some(measure::idle_residency),
    },
    Claim {
        id: "softirq-latency",
        baseline: Some(25.0),
        with: Some(14.0),
        unit: "us",
        less_is_better: true,
        scenario: "softirq-latency",
        profile: "vm-64",
        why: "What a round through the thread of the soft stage takes is in the profile, 10 us, from the same source; \
              the rest of the latency is made of interrupt, wake-up, switch and tick. ",
        measure: Some(measure::softirq_latency),
    },
    Claim {
        id: "isolation-noise",
        baseline: Some(1_203.0),
        with: Some(10.0),
        unit: "us",
        less_is_better: true,
        scenario: "isolation-noise",
        profile: "epyc-128",
        why: "The maximum without isolation is made of callbacks of drivers, which are put in, 5 to 1,000 us each; a \
              pass runs several in a row. With isolation only the tick is left; other noise of a real machine is not \
              simulated. Which CPUs suffer is what the simulator says by itself. ",
        measure: Some(measure::isolation_noise),
    },
    Claim {
        id: "hpet-throughput",
        baseline: Some(798_068.0),
        with: Some(1_029_445.0),
        unit: "jobs/min",
        less_is_better: false,
        scenario: "compute",
        profile: "hsw-144",
        why: "needs combined reads of the slow counter in the core, and a load that holds locks while it reads. Direct \
              reads are measured. ",
        measure: Some(slow_counter::throughput),
    },
    Claim {
        id: "hpet-share",
        baseline: Some(11.19),
        with: Some(1.24),
        unit: "% of CPU time",
        less_is_better: true,
        scenario: "compute",
        profile: "hsw-144",
        why: "needs combined reads of the slow counter in the core. Direct reads are measured. ",
        measure: Some(slow_counter::share),
    },
    Claim::needs(
        "rearm-rate",
        (Some(2_500.0), Some(100.0)),
        "1/s",
        true,
        "skl-112",
        "needs the run queue with a precise tick, and hackbench on it. The slices of the shell show the shape: in the \
         scenario hackbench their timer moves at most switches, and [policy] rearm = \"eager\" or \"immediate\" \
         writes the device each time",
    ),
    Claim::needs(
        "spurious",
        (None, Some(25.0)),
        "% of timer interrupts",
        true,
        "skl-112",
        "needs the run queue with a precise tick, and hackbench on it. In the scenario hackbench the lazy timer of \
         slices makes interrupts that find nothing, and with [policy] rearm = \"eager\" there are none",
    ),
    Claim::needs(
        "in-place",
        (None, Some(35.0)),
        "% of updates",
        false,
        "skl-112",
        "needs the run queue with a precise tick, and hackbench on it. In the scenario hackbench nearly each timer \
         that moves keeps its place, because a CPU has few: a slice and a tick",
    ),
    Claim {
        id: "start-cost",
        baseline: None,
        with: Some(50.0),
        unit: "ns",
        less_is_better: true,
        scenario: "start-cost",
        profile: "skl-112",
        why: "A sum of costs that are estimates (mark C), scaled to the 2 GHz of the source; the benchmark of the \
              library measures the real thing. The source gives no baseline: ours is the start of a timer \
              that is not queued. ",
        measure: Some(measure::start_cost),
    },
    Claim::needs(
        "hackbench",
        (Some(0.840), Some(0.481)),
        "s",
        true,
        "skl-112",
        "needs the run queue with a precise tick, and hackbench on it",
    ),
];
