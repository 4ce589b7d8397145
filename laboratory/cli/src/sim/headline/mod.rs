//! `tickless sim headline`: the claims of the sources, and the verdict on simulated machines.

mod table;

use clap::Args;
use serde::Serialize;
use tickless_sim::headline::{self, CLAIMS, Claim, Effort, Figures, Headline};

use super::parallel;
use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, Progress, Screen};

/// Tries the claims of the sources: each claim without and with the mechanism of the library.
///
/// Each claim runs a scenario that comes with the command, on the profile closest to the machine of the source, with
/// many random draws from the seed. A ratio is with / without, or without / with where more is better: below 1 is
/// better. A claim holds if the measured ratio is not more than the ratio of the source, and the other statements of
/// the source are true as well. None of this may be true with the mechanism off, because a result that needs no
/// mechanism proves nothing. A claim that does not hold is a result, not a failed check: the exit code is 0.
///
/// About wheels and idle CPUs: enqueue, idle-residency, softirq-latency, softirq-first-due, isolation-noise,
/// isolation-noise-all. About slow counters: hpet-throughput, hpet-share, slow-counter-stall. About ticks of a
/// scheduler that end slices precisely, in a run of hackbench: rearm-rate, spurious, in-place, start-cost, hackbench,
/// hackbench-sizes.
///
/// rearm-rate, spurious and in-place are medians over eleven numbers of messages, and hold only if they hold with each
/// number.
///
/// Checked: the library kept every promise in every run.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Claims to try [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Runs just long enough to show the point, shorter than those of the sources
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim headline
  tickless sim headline enqueue isolation-noise --seed 7
  tickless sim headline --json - | jq -r '.headlines[] | select(.holds) | .id'

The texts that the claims come from, and the place of each number: docs/sources.md

Exit codes: 0 all were tried, whatever came of them, 1 a promise was broken, 2 bad arguments.";

/// The document for JSON.
#[derive(Debug, Serialize)]
struct Document<'h> {
    headlines: Vec<Entry<'h>>,
}

/// A claim and its result, in the format that is documented for readers.
#[derive(Debug, Serialize)]
struct Entry<'h> {
    id: &'h str,
    source: &'h Figures,
    measured: Figures,
    source_ratio: Option<f64>,
    measured_ratio: Option<f64>,
    /// The ratio with the mechanism off, for claims that would hold.
    control_ratio: Option<f64>,
    verdict: headline::ClaimVerdict,
    holds: bool,
    seed: u64,
    scenario: &'h str,
    /// The reason why a claim does not hold; `None` if it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl<'h> From<&'h Headline> for Entry<'h> {
    fn from(headline: &'h Headline) -> Self {
        let nothing = Figures {
            baseline: None,
            with: None,
            unit: headline.source.unit,
        };
        Self {
            id: headline.id,
            source: &headline.source,
            measured: headline.measured.clone().unwrap_or(nothing),
            source_ratio: table::below_one(headline.source_ratio),
            measured_ratio: table::below_one(headline.measured_ratio),
            control_ratio: table::below_one(headline.control_ratio),
            verdict: headline.verdict,
            holds: headline.holds(),
            seed: headline.seed,
            scenario: headline.scenario,
            why: (!headline.holds()).then(|| why(headline)),
        }
    }
}

/// Returns the reason why a claim does not hold, with broken promises first.
fn why(headline: &Headline) -> String {
    let told = headline.why.trim();
    if headline.broken.is_empty() {
        return told.to_owned();
    }
    format!("Broken promises: {}. {told}", headline.broken.join(", "))
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let claims = chosen(&arguments.ids)?;
    let json = output::prepare_json(&arguments.output)?;
    let effort = if arguments.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let headlines = tried(arguments, &claims, effort)?;
    if let Some(json) = json {
        json.write_json(&Document {
            headlines: headlines.iter().map(Entry::from).collect(),
        })?;
    }
    Screen::new(&arguments.output).print(&table::text(arguments.seed, &headlines))?;
    let is_kept = |headline: &Headline| headline.broken.is_empty();
    Ok(CheckVerdict::from_passed(headlines.iter().all(is_kept)))
}

/// Returns the named claims, in the order of the design; all claims if none was named.
fn chosen(ids: &[String]) -> Result<Vec<&'static Claim>, Failure> {
    let is_known = |id: &&String| CLAIMS.iter().any(|claim| claim.id == id.as_str());
    if let Some(unknown) = ids.iter().find(|id| !is_known(id)) {
        let known: Vec<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        return Err(Failure::Input(format!(
            "there is no claim {unknown:?}; one of {}",
            known.join(", ")
        )));
    }
    let is_chosen = |claim: &&Claim| ids.is_empty() || ids.iter().any(|id| id == claim.id);
    Ok(CLAIMS.iter().filter(is_chosen).collect())
}

/// Tries each claim, and distributes the claims over all CPUs.
fn tried(
    arguments: &Arguments,
    claims: &[&'static Claim],
    effort: Effort,
) -> Result<Vec<Headline>, Failure> {
    let progress = Progress::new(&arguments.output);
    let show = |done: usize| progress.show(&format!("{done} of {} claims tried", claims.len()));
    show(0);
    let results = parallel::each(
        claims.len(),
        |number| {
            let headline = headline::one(claims[number].id, arguments.seed, effort);
            headline.expect("it is one of the claims")
        },
        |done, _| show(done),
    );
    let results = claims.iter().zip(results);
    results
        .map(|(claim, result)| {
            result.map_err(|story| Failure::Machine(format!("{} panicked: {story}", claim.id)))
        })
        .collect()
}

#[cfg(test)]
mod tests;
