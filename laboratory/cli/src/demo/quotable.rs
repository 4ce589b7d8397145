//! The test whether a run is steady enough for its figures to be quoted.

use super::subject::Arm;
use super::totals::{Late, Total, Totals, median};
use crate::spread::ROUNDS_MIN;

/// The greatest spread of a quotable figure: half of the range of its rounds, as a share of their median. With a wider
/// spread, another run of the same command shows other figures.
const APART_MAX: f64 = 0.25;

/// A function that returns a figure of a column.
type Figure = fn(&Total) -> Option<f64>;

/// The figures whose spread is tested.
const FIGURES: [(&str, Figure); 6] = [
    ("late paced ticks, p50", |total| p50(&total.paced)),
    ("late idle timeouts, p50", |total| p50(&total.idle)),
    ("requests took, p50", |total| p50(&total.latency)),
    ("push a deadline out", |total| median(&total.push)),
    ("arm and drop it", |total| median(&total.arm)),
    ("processor time", Total::load),
];

fn p50(late: &Late) -> Option<f64> {
    late.quantile(0.5).map(|nanos| nanos as f64)
}

/// Returns the reason why the figures of the run are not to be quoted; `None` if they may be quoted.
pub(crate) fn why_not(totals: &Totals) -> Option<String> {
    let mut noisy = Vec::new();
    for arm in Arm::ALL {
        let total = &totals[arm.index()];
        for (what, of) in FIGURES {
            let Some(spread) = total.spread(of) else {
                return Some(format!("{what} of {} was not measured", arm.name()));
            };
            if spread.rounds < ROUNDS_MIN {
                return Some(format!("fewer than {ROUNDS_MIN} rounds have each figure"));
            }
            if let Some(share) = spread.half_apart().filter(|share| *share > APART_MAX) {
                noisy.push((share, what, arm));
            }
        }
    }
    let (share, what, arm) = noisy
        .iter()
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!(
        "the rounds of {} of {} figures lie further apart, {what} of {} most (±{:.0} %)",
        noisy.len(),
        FIGURES.len() * Arm::COUNT,
        arm.name(),
        100.0 * share
    ))
}

/// Returns a sentence on whether the run may be quoted, and the rule.
pub(crate) fn sentence(why_not: Option<&str>) -> String {
    let rule = format!(
        "each column's medians, its costs of an operation and its processor time have {ROUNDS_MIN} rounds or more, and \
         these lie apart by ±{:.0} % at most",
        100.0 * APART_MAX
    );
    match why_not {
        None => format!("Steady enough to quote: {rule}."),
        Some(why) => format!(
            "Do not quote this run: {why}. A run can be quoted if {rule}: leave the machine to it, and give it \
             --rounds 5 and a --duration of a minute or more."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{sentence, why_not};
    use crate::demo::subject::Arm;
    use crate::demo::totals::{Total, Totals, none};
    use std::time::Duration;

    fn round(push: f64) -> Total {
        let mut part = Total::new();
        for late in [&mut part.paced, &mut part.idle, &mut part.latency] {
            for _ in 0..2 {
                crate::histogram::record(&mut late.histogram, Duration::from_micros(50));
            }
        }
        part.push = vec![push];
        part.arm = vec![100.0];
        part.window.length = Duration::from_secs(1);
        part.window.usage.busy = Duration::from_millis(300);
        part
    }

    fn run(push: &[f64]) -> Totals {
        let mut totals = none();
        for total in &mut totals {
            total.parts = [30.0; 5][..push.len()]
                .iter()
                .map(|push| round(*push))
                .collect();
        }
        totals[Arm::Slack.index()].parts = push.iter().map(|push| round(*push)).collect();
        totals
    }

    #[test]
    fn a_run_is_quotable_up_to_the_limit() {
        assert_eq!(why_not(&run(&[75.0, 100.0, 125.0])), None);
        let why = why_not(&run(&[74.0, 100.0, 126.0])).expect("they lie too far apart");
        assert_eq!(
            why,
            "the rounds of 1 of 30 figures lie further apart, push a deadline out of + slack most (±26 %)"
        );
        assert!(sentence(Some(&why)).starts_with("Do not quote this run: the rounds"));
    }

    #[test]
    fn few_rounds_are_not_quotable_however_steady() {
        let why = why_not(&run(&[100.0; 2]));
        assert_eq!(why.as_deref(), Some("fewer than 3 rounds have each figure"));
        assert!(why_not(&none()).is_some_and(|why| why.ends_with("was not measured")));
    }
}
