//! The figures that published sources give for the gain of a mechanism.

use super::measure::{self, Effort, Measurement, Mechanism, Trial};
use super::{hackbench, latency, noise, slow_counter};
use crate::model::profile::Profile;

type Measure = fn(&Trial<'_>) -> Measurement;

/// A figure that a source gives for a mechanism.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The name of the claim.
    pub id: &'static str,
    /// The source's figure without the mechanism.
    pub baseline: Option<f64>,
    /// The source's figure with the mechanism.
    pub with: Option<f64>,
    /// The unit of both figures.
    pub unit: &'static str,
    /// True if less is better.
    pub less_is_better: bool,
    /// The ratio that the library must reach, if the source has no figures.
    pub held_to: Option<f64>,
    /// The scenario that tests the claim.
    pub scenario: &'static str,
    /// The profile closest to the machine of the source.
    pub profile: &'static str,
    /// The interpretation of the result.
    pub why: &'static str,
    /// The control, which has the mechanism off.
    pub off: &'static str,
    measure: Option<Measure>,
}

impl Claim {
    /// Returns the factor by which the mechanism improves the figure; more is better. The library must reach it.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        if self.held_to.is_some() {
            return self.held_to;
        }
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

    pub(super) fn measure(&self, trial: &Trial<'_>) -> Option<Measurement> {
        self.measure.map(|measure| measure(trial))
    }

    /// Measures the claim on its profile; returns `None` if the claim cannot be measured yet.
    pub(super) fn try_with(
        &self,
        seed: u64,
        effort: Effort,
        mechanism: Mechanism,
    ) -> Option<Measurement> {
        let profile = Profile::embedded(self.profile)?;
        self.measure(&Trial {
            seed,
            effort,
            mechanism,
            profile: &profile,
        })
    }

    /// Measures the claim with the mechanism off.
    pub(super) fn control(&self, seed: u64, effort: Effort) -> Option<Measurement> {
        self.try_with(seed, effort, Mechanism::Off)
    }

    /// Returns true if `measured` is as good as the source's figure, or better.
    pub(super) fn is_reached(&self, measured: &Measurement) -> bool {
        let is_enough = match (measured.ratio(), self.ratio()) {
            (Some(measured), Some(source)) => measured >= source,
            _ => false,
        };
        is_enough && measured.misfit.is_none() && measured.broken.is_empty()
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
        held_to: None,
        scenario: "enqueue",
        profile: "skl-112",
        why: "The figure with the library is put in: the profile takes the 109 ns of the source for arm and cancel, so \
              only the ratio says something. What the search costs is made of steps, loads and lines, not of the 36 ns \
              of the source. ",
        off: "a search at enqueue on both sides",
        measure: Some(measure::enqueue),
    },
    Claim {
        id: "idle-residency",
        baseline: None,
        with: None,
        unit: "% of CPU time",
        less_is_better: false,
        held_to: None,
        scenario: "idle-residency",
        profile: "skl-112",
        why: "The source says \"not worse\", without figures. ",
        off: "every CPU waking for its own timers",
        measure: Some(measure::idle_residency),
    },
    Claim {
        id: "softirq-latency",
        baseline: Some(25.0),
        with: Some(14.0),
        unit: "us",
        less_is_better: true,
        held_to: None,
        scenario: "softirq-mail",
        profile: "vm-64",
        why: "The mechanism of 2019, a look at the bitmap of pending timers and an interrupt from the CPU that arms \
              one, under the conditions of its mail: no far timer, no CPU arms for another. What a round through the \
              thread of the soft stage takes is in the profile, 10 us, from the same source; the rest of the latency \
              is made of interrupt, wake-up, switch and tick. ",
        off: "the soft stage at each tick on both sides",
        measure: Some(latency::of_the_mail),
    },
    Claim {
        id: "softirq-first-due",
        baseline: None,
        with: None,
        unit: "us",
        less_is_better: true,
        held_to: Some(25.0 / 14.0),
        scenario: "softirq-latency",
        profile: "vm-64",
        why: "The successor of 2020, a comparison with when the wheels are due first, under a harder load: one far \
              timer, which defeats the bitmap, and others that arm timers for the CPU. No source has a latency for \
              it, so it is held to the ratio of the mail. ",
        off: "the bitmap of 2019 instead",
        measure: Some(latency::of_the_successor),
    },
    Claim {
        id: "isolation-noise",
        baseline: Some(1_203.0),
        with: Some(10.0),
        unit: "us",
        less_is_better: true,
        held_to: None,
        scenario: "isolation-noise",
        profile: "epyc-128",
        why: "The maximum without isolation is made of callbacks of drivers, which are put in, 5 to 1,000 us each; a \
              pass runs several in a row: any callback above 257 us gives the ratio. So it is judged as well which \
              CPUs suffer more than 10 us, which is not put in: with driver timers on CPUs 0 and 64 alone it has to \
              be 1 and 65, as in the source, and none with isolation. ",
        off: "the isolated CPUs taking part on both sides",
        measure: Some(noise::isolation_noise),
    },
    Claim {
        id: "isolation-noise-all",
        baseline: Some(1_203.0),
        with: Some(10.0),
        unit: "us",
        less_is_better: true,
        held_to: None,
        scenario: "isolation-noise",
        profile: "epyc-128",
        why: "The same with the timers of drivers on each of the four housekeeping CPUs: the source does not say that \
              two of them had none. ",
        off: "the isolated CPUs taking part on both sides",
        measure: Some(noise::isolation_noise_all),
    },
    Claim {
        id: "hpet-throughput",
        baseline: Some(798_068.0),
        with: Some(1_029_445.0),
        unit: "jobs/min",
        less_is_better: false,
        held_to: None,
        scenario: "",
        profile: "hsw-144",
        why: "The time of a read is published, and taken for serial as a whole, because no source has a part that \
              overlaps; who holds which lock across a read is modelled, and how often a task is woken elsewhere is an \
              assumption. ",
        off: "direct reads on both sides",
        measure: Some(slow_counter::throughput),
    },
    Claim {
        id: "hpet-share",
        baseline: Some(11.19),
        with: Some(1.24),
        unit: "% of CPU time",
        less_is_better: true,
        held_to: None,
        scenario: "",
        profile: "hsw-144",
        why: "The time of a read is published, and taken for serial as a whole, because no source has a part that \
              overlaps. ",
        off: "direct reads on both sides",
        measure: Some(slow_counter::share),
    },
    Claim {
        id: "slow-counter-stall",
        baseline: Some(23_000.0),
        with: None,
        unit: "ms",
        less_is_better: true,
        held_to: Some(1_000.0),
        scenario: "",
        profile: "hsw-144",
        why: "The longest time in which a CPU computes nothing. The source saw CPUs stuck for 23 s while a machine of \
              583 CPUs or more ran on the slow counter at boot, and none afterwards, without a figure; so it is held \
              to a thousandth. That each CPU ticks 1,000 times a second and reads three times at a tick is an \
              assumption; without one that asks more of the counter than it can serve no CPU would be stuck. ",
        off: "direct reads on both sides",
        measure: Some(slow_counter::stall),
    },
    Claim {
        id: "rearm-rate",
        baseline: Some(2_500.0),
        with: Some(100.0),
        unit: "1/s",
        less_is_better: true,
        held_to: None,
        scenario: "hackbench",
        profile: "skl-112",
        why: "The source counts the writes that the precise tick causes, and does not say whether by CPU or by \
              machine. ",
        off: "all on but laziness",
        measure: Some(hackbench::rearm_rate),
    },
    Claim {
        id: "spurious",
        baseline: None,
        with: Some(25.0),
        unit: "% of timer interrupts",
        less_is_better: true,
        held_to: None,
        scenario: "hackbench",
        profile: "skl-112",
        why: "What laziness costs, so it counts only together with what that saves. ",
        off: "all off on both sides",
        measure: Some(hackbench::spurious),
    },
    Claim {
        id: "in-place",
        baseline: None,
        with: Some(35.0),
        unit: "% of updates",
        less_is_better: false,
        held_to: None,
        scenario: "hackbench",
        profile: "skl-112",
        why: "The count is the library's own, which knows two ways to leave a timer without a look at its neighbours. ",
        off: "each timer filed anew on both sides",
        measure: Some(hackbench::in_place),
    },
    Claim {
        id: "start-cost",
        baseline: None,
        with: Some(50.0),
        unit: "ns",
        less_is_better: true,
        held_to: None,
        scenario: "hackbench",
        profile: "skl-112",
        why: "The mean over the starts of a hackbench run, those of slices and sleeps: a sum of costs that are \
              estimates (mark C), scaled to the 2 GHz of the source. The source gives no baseline: ours is a tree \
              without links to the neighbours, and a write of the device at each change of the first timer. ",
        off: "all off on both sides",
        measure: Some(hackbench::start_cost),
    },
    Claim {
        id: "hackbench",
        baseline: Some(840.0),
        with: Some(481.0),
        unit: "ms",
        less_is_better: true,
        held_to: None,
        scenario: "hackbench",
        profile: "skl-112",
        why: "The figures of the source are of a run with a number of messages that it does not give. Its author does \
              not know why slices that end precisely make the run so much shorter, so no mechanism for it could be \
              modelled on purpose. ",
        off: "precise ticks and all that makes them cheap off",
        measure: Some(hackbench::run_time),
    },
    Claim {
        id: "hackbench-sizes",
        baseline: None,
        with: None,
        unit: "ms",
        less_is_better: true,
        held_to: Some(1.0),
        scenario: "hackbench",
        profile: "skl-112",
        why: "No size from 8 to 256 bytes is slower with precise ticks. ",
        off: "precise ticks and all that makes them cheap off",
        measure: Some(hackbench::sizes),
    },
];
