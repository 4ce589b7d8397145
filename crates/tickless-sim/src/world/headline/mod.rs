//! The claims of the sources, tried: each with the baseline and with the library, on the profile that comes closest to
//! the machine of the source.
//!
//! No cost is chosen by what comes out here. Where a claim does not hold, [`Headline::why`] says why not; where it
//! does, how much of that was put in.

mod claims;
mod measure;
mod slow_counter;

use serde::Serialize;

use super::profile::Profile;
pub use claims::{CLAIMS, Claim};
pub use measure::Effort;
use measure::Measurement;

/// Two figures and their unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Without what is claimed for; `None` if the source does not say.
    pub baseline: Option<f64>,
    /// With it.
    pub with: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
}

/// A claim, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Headline {
    /// Its name.
    pub id: &'static str,
    /// What the source says.
    pub source: Figures,
    /// What was measured; `None` if it cannot be yet.
    pub measured: Option<Figures>,
    /// Better by worse of the source, so that more is better.
    pub source_ratio: Option<f64>,
    /// The same of what was measured.
    pub measured_ratio: Option<f64>,
    /// The least and the greatest ratio among the runs, if it is taken of each.
    pub spread: Option<(f64, f64)>,
    /// Whether the measured ratio is not less than that of the source.
    pub holds: bool,
    /// The seed.
    pub seed: u64,
    /// The scenario.
    pub scenario: &'static str,
    /// The profile.
    pub profile: &'static str,
    /// Promises that the library broke while it was measured: empty, or nothing else counts.
    pub broken: Vec<&'static str>,
    /// What to make of it.
    pub why: String,
}

/// What becomes of the ratio of a claim when one cost is another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sensitivity {
    /// The claim.
    pub id: &'static str,
    /// The cost.
    pub cost: &'static str,
    /// The ratio when it is half as much.
    pub half: Option<f64>,
    /// The ratio as it is.
    pub as_is: Option<f64>,
    /// The ratio when it is twice as much.
    pub twice: Option<f64>,
}

/// All claims, in the order of the design.
#[must_use]
pub fn all(seed: u64) -> Vec<Headline> {
    CLAIMS
        .iter()
        .map(|claim| try_claim(claim, seed, Effort::Full))
        .collect()
}

/// The claim that is called `id`; `None` if there is none.
#[must_use]
pub fn one(id: &str, seed: u64, effort: Effort) -> Option<Headline> {
    let claim = CLAIMS.iter().find(|claim| claim.id == id)?;
    Some(try_claim(claim, seed, effort))
}

/// How much the ratio of a claim depends on each cost of its profile. Empty if there is no such claim, or it cannot be
/// measured yet.
#[must_use]
pub fn sensitivity(id: &str, seed: u64) -> Vec<Sensitivity> {
    let Some(claim) = CLAIMS.iter().find(|claim| claim.id == id) else {
        return Vec::new();
    };
    let Some(profile) = Profile::embedded(claim.profile) else {
        return Vec::new();
    };
    let ratio = |change: Option<(&str, u64, u64)>| {
        let mut profile = profile.clone();
        if let Some((name, multiplier, divisor)) = change
            && let Some(cost) = profile.costs.get_mut(name)
        {
            cost.value = cost.value.scaled(multiplier, divisor);
        }
        claim
            .measure(seed, Effort::Quick, &profile)
            .and_then(|measured| measured.ratio())
    };
    let as_is = ratio(None);
    if as_is.is_none() {
        return Vec::new();
    }
    super::Costs::NAMES
        .iter()
        .map(|cost| Sensitivity {
            id: claim.id,
            cost,
            half: ratio(Some((cost, 1, 2))),
            as_is,
            twice: ratio(Some((cost, 2, 1))),
        })
        .collect()
}

fn try_claim(claim: &'static Claim, seed: u64, effort: Effort) -> Headline {
    let profile = Profile::embedded(claim.profile);
    let measured: Option<Measurement> =
        profile.and_then(|profile| claim.measure(seed, effort, &profile));
    let measured_ratio = measured.as_ref().and_then(Measurement::ratio);
    let source_ratio = claim.ratio();
    let holds = match (measured_ratio, source_ratio) {
        (Some(measured), Some(source)) => measured >= source,
        _ => false,
    };
    let why = measured
        .as_ref()
        .map_or_else(String::new, |measured| measured.notes.clone());
    Headline {
        id: claim.id,
        source: Figures {
            baseline: claim.baseline,
            with: claim.with,
            unit: claim.unit,
        },
        source_ratio,
        measured_ratio,
        spread: measured.as_ref().and_then(|measured| measured.spread),
        holds: holds
            && measured
                .as_ref()
                .is_some_and(|measured| measured.broken.is_empty()),
        seed,
        scenario: claim.scenario,
        profile: claim.profile,
        broken: measured
            .as_ref()
            .map_or_else(Vec::new, |measured| measured.broken.clone()),
        why: format!("{}{why}", claim.why),
        measured: measured.map(|measured| Figures {
            baseline: measured.baseline,
            with: measured.with,
            unit: claim.unit,
        }),
    }
}

#[cfg(test)]
mod tests;
