//! The test of the sources' claims: each claim runs with the baseline and with the library, on the profile closest to
//! the machine of the source.
//!
//! No modelled cost is chosen by the results of these tests. [`Headline::why`] gives the reason if a claim does not
//! hold. If a claim holds, it says how much of the result follows directly from the model's inputs.
//!
//! When a claim holds: `laboratory/docs/simulator.md`, "Claims". The run with the mechanism off, the *control*, is in
//! `Claim::control` (`claims`).

mod claims;
mod hackbench;
mod latency;
mod measure;
mod noise;
mod slow_counter;

use serde::Serialize;

pub use claims::{CLAIMS, Claim};
pub use measure::Effort;
use measure::{Measurement, Mechanism};

/// Two figures of a claim and their unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The figure without the mechanism; `None` if the source does not say.
    pub baseline: Option<f64>,
    /// The figure with the mechanism.
    pub with: Option<f64>,
    /// The unit of both figures.
    pub unit: &'static str,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The claim holds, and does not hold without the mechanism.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The claim would hold without the mechanism too, so the result proves nothing.
    SaysNothing,
    /// The claim needs a part that does not exist yet.
    NotYet,
}

/// The number of claims with each verdict: the one count of all tables and pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of claims that hold.
    pub hold: usize,
    /// The number of claims that do not hold.
    pub fail: usize,
    /// The number of claims that would hold without the mechanism too.
    pub say_nothing: usize,
    /// The number of claims that cannot be tested yet.
    pub not_yet: usize,
}

impl Tally {
    /// Counts the verdicts of `headlines`.
    #[must_use]
    pub fn of(headlines: &[Headline]) -> Self {
        let count = |verdict| {
            let with = headlines.iter().filter(|one| one.verdict == verdict);
            with.count()
        };
        Self {
            hold: count(ClaimVerdict::Holds),
            fail: count(ClaimVerdict::Fails),
            say_nothing: count(ClaimVerdict::SaysNothing),
            not_yet: count(ClaimVerdict::NotYet),
        }
    }
}

/// A claim with its measured result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Headline {
    /// The name of the claim.
    pub id: &'static str,
    /// The source's figures.
    pub source: Figures,
    /// The measured figures; `None` if they cannot be measured yet.
    pub measured: Option<Figures>,
    /// The factor by which the mechanism improves the source's figure; more is better. The library must reach it.
    pub source_ratio: Option<f64>,
    /// The measured ratio.
    pub measured_ratio: Option<f64>,
    /// The ratio of the control, which was measured if the claim seemed to hold.
    pub control_ratio: Option<f64>,
    /// The smallest and the largest ratio of the runs, if each run has one.
    pub spread: Option<(f64, f64)>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The seed of the runs.
    pub seed: u64,
    /// The scenario of the runs.
    pub scenario: &'static str,
    /// The profile of the runs.
    pub profile: &'static str,
    /// The promises that the library broke in the runs; if there are any, the other results are void.
    pub broken: Vec<&'static str>,
    /// The interpretation of the result.
    pub why: String,
}

impl Headline {
    /// Returns true if the claim holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict == ClaimVerdict::Holds
    }
}

/// Tests the claim with the name `id`; `None` if there is none.
#[must_use]
pub fn one(id: &str, seed: u64, effort: Effort) -> Option<Headline> {
    let claim = CLAIMS.iter().find(|claim| claim.id == id)?;
    Some(try_claim(claim, seed, effort))
}

/// Returns true if the claim `id` seems to hold with its mechanism off. `None` if there is no such claim, or it cannot
/// be tested yet.
#[must_use]
pub fn holds_without_mechanism(id: &str, seed: u64, effort: Effort) -> Option<bool> {
    let claim = CLAIMS.iter().find(|claim| claim.id == id)?;
    let control = claim.control(seed, effort)?;
    Some(claim.is_reached(&control))
}

fn try_claim(claim: &'static Claim, seed: u64, effort: Effort) -> Headline {
    let measured = claim.try_with(seed, effort, Mechanism::On);
    let seems_to_hold = measured
        .as_ref()
        .is_some_and(|measured| claim.is_reached(measured));
    // Whether it makes a difference shows soon.
    let control = seems_to_hold.then(|| claim.control(seed, Effort::Quick));
    let control = control.flatten();
    let tells = control
        .as_ref()
        .is_some_and(|control| !claim.is_reached(control));
    let verdict = match &measured {
        None => ClaimVerdict::NotYet,
        Some(measured) if measured.with.is_none() => ClaimVerdict::NotYet,
        Some(_) if !seems_to_hold => ClaimVerdict::Fails,
        Some(_) if tells => ClaimVerdict::Holds,
        Some(_) => ClaimVerdict::SaysNothing,
    };
    let measurement = measured.as_ref();
    Headline {
        id: claim.id,
        source: Figures {
            baseline: claim.baseline,
            with: claim.with,
            unit: claim.unit,
        },
        source_ratio: claim.ratio(),
        measured_ratio: measurement.and_then(Measurement::ratio),
        control_ratio: control.as_ref().and_then(Measurement::ratio),
        spread: measurement.and_then(|measured| measured.spread),
        verdict,
        seed,
        scenario: claim.scenario,
        profile: claim.profile,
        broken: measurement.map_or_else(Vec::new, |measured| measured.broken.clone()),
        why: why(claim, measurement, control.as_ref()),
        measured: measured.map(|measured| Figures {
            baseline: measured.baseline,
            with: measured.with,
            unit: claim.unit,
        }),
    }
}

fn why(claim: &Claim, measured: Option<&Measurement>, control: Option<&Measurement>) -> String {
    let mut why = claim.why.to_owned();
    if let Some(measured) = measured {
        why.push_str(&measured.notes);
        if let Some(misfit) = &measured.misfit {
            why.push_str(" Not as in the source: ");
            why.push_str(misfit);
        }
    }
    if let Some(ratio) = control.and_then(Measurement::ratio) {
        why.push_str(&format!(" With {} the ratio is {ratio:.2}.", claim.off));
    }
    why
}

#[cfg(test)]
mod tests;
