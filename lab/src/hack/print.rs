//! The report of `tickless hack` as text, and its concluding sentences.

use super::arguments::Device;
use super::features::Features;
use super::result::{Other, Ratio, Row};
use super::{Finished, html, marks};
use crate::failure::Failure;
use crate::report::Report;
use crate::spread::{Outcome, ROUNDS_MIN, Spread};
use crate::table::Grid;
use crate::units;

/// The scope over which writes of the device are counted.
pub(super) const SCOPE: &str = "all workers of the process together";

/// Returns the findings of the run.
pub(super) fn report(finished: &Finished<'_>) -> Result<Report, Failure> {
    let others = finished.others.iter();
    Ok(Report {
        heading: "Messages, slices and writes of the device",
        lead: title(finished),
        machine: finished.machine.summary(),
        complaints: finished
            .others
            .iter()
            .filter_map(Other::complaint)
            .collect(),
        tables: vec![("".into(), figures(finished))],
        conclusions: conclusions(finished),
        marks: marks::of(&finished.rows, finished.plan.device),
        subjects: others
            .map(|other| (other.name.to_owned(), other.what.clone()))
            .collect(),
        graphic: html::of(finished)?,
    })
}

/// Describes the run on one line.
fn title(finished: &Finished<'_>) -> String {
    let (plan, traffic) = (finished.plan, &finished.plan.traffic);
    let through = if plan.pipe { "pipes" } else { "channels" };
    let device = match plan.device {
        Device::Signal => "a timer signal for each worker",
        Device::Counter => "slices that end at checkpoints",
    };
    format!(
        "tickless hack: {} of {} tasks, {} of {} through {through}, {}, {device}; {}, seed {}{}",
        units::counted(traffic.groups as u64, "group"),
        2 * traffic.fds,
        units::counted(traffic.messages(), "message"),
        units::bytes(traffic.size as u64),
        units::counted(plan.workers as u64, "worker"),
        units::counted(plan.rounds.into(), "round"),
        plan.seed,
        if finished.interrupted {
            ", ended early"
        } else {
            ""
        }
    )
}

const HEAD: [&str; 11] = [
    "hrtick",
    "configuration",
    "run time",
    "writes/s",
    "writes",
    "spurious",
    "in place",
    "starts",
    "updates",
    "cycles/start",
    "switches/s",
];

const NOTE: &str = "Medians of rounds; run times with their range. Writes are programmings of the device by all \
                    workers of the process together. Spurious is of timer interrupts, in place of updates, which are \
                    starts of timers that are queued. Cycles are of the time-stamp counter, a mean over starts of \
                    ticks, of which one in sixteen is timed, the system calls of some included.";

/// Returns a table with a row for each configuration and each baseline.
fn figures(finished: &Finished<'_>) -> Grid {
    let mut rows: Vec<Vec<String>> = finished.rows.iter().map(cells).collect();
    for other in finished
        .others
        .iter()
        .filter(|other| !other.seconds.is_empty())
    {
        let mut row = vec![
            "-".to_owned(),
            other.name.to_owned(),
            run_time(other.spread()),
        ];
        row.resize(HEAD.len(), "-".to_owned());
        rows.push(row);
    }
    Grid {
        head: HEAD.to_vec(),
        left: 2,
        rows,
        note: NOTE,
    }
}

fn run_time(seconds: Option<Spread>) -> String {
    shown(seconds, |spread| spread.show(units::seconds))
}

fn shown(spread: Option<Spread>, show: impl Fn(Spread) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), show)
}

fn cells(row: &Row) -> Vec<String> {
    let whole = |spread: Spread| units::digits(spread.median);
    let percent = |spread: Spread| units::percent(spread.median);
    vec![
        on(row.features).to_owned(),
        row.features.name(),
        run_time(row.seconds()),
        shown(row.device_writes_per_s(), whole),
        shown(row.device_writes(), whole),
        shown(row.spurious(), percent),
        shown(row.in_place(), percent),
        shown(row.starts(), whole),
        shown(row.updates(), whole),
        shown(row.start_cycles(), whole),
        shown(row.switches_per_s(), whole),
    ]
}

pub(super) fn on(features: Features) -> &'static str {
    if features.hrtick { "on" } else { "off" }
}

/// Returns the conclusions, by rule. Losses are named as gains are.
pub(super) fn conclusions(finished: &Finished<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    if finished.lost > 0 {
        sentences.push(format!(
            "{} did not arrive.",
            units::counted(finished.lost, "message")
        ));
    }
    if let Some(ratio) = Ratio::of(&finished.rows) {
        sentences.push(format!(
            "Device writes with everything on: {} against {} with everything off, ratio {}, by {SCOPE}.",
            units::digits(ratio.all_on),
            units::digits(ratio.all_off),
            units::ratio(ratio.ratio)
        ));
    }
    let of = |features: Features| Row::find(&finished.rows, features).and_then(Row::seconds);
    let best = Features::all(true, true);
    let mine = of(best);
    let others = [
        ("everything off", of(Features::all(false, true))),
        ("hrtick off", of(Features::all(true, false))),
    ];
    let others = others.into_iter().chain(
        finished
            .others
            .iter()
            .map(|other| (other.name, other.spread())),
    );
    for (name, theirs) in others {
        let Some((mine, theirs)) = mine.zip(theirs) else {
            continue;
        };
        sentences.push(compared(name, mine, theirs));
    }
    if !sentences.is_empty() {
        sentences.push(
            format!(
                "A difference counts if each round of one lies on the same side of each round of the other, and each \
                 has {ROUNDS_MIN} rounds or more."
            ),
        );
    }
    sentences
}

/// Compares the run times with everything on, in seconds, with the run times of `name`.
fn compared(name: &str, mine: Spread, theirs: Spread) -> String {
    const ON: &str = "with hrtick and everything on";
    let figures = [mine, theirs].map(|run| run.show(units::seconds));
    let figures = figures.join(" against ");
    let verdict = match mine.compare(&theirs) {
        Outcome::Less(_) => "shorter",
        Outcome::More(_) => "longer",
        Outcome::NoDifference => {
            return format!(
                "Run times {ON} and with {name} overlap between rounds, which says nothing: {figures}."
            );
        }
        Outcome::TooFew => {
            return format!(
                "No verdict on run times {ON} and with {name}, which takes {ROUNDS_MIN} rounds (--rounds): {figures}."
            );
        }
    };
    let ratio = units::ratio(mine.median / theirs.median);
    format!("Run time {ON} is {verdict} than with {name}, ratio {ratio}: {figures}.")
}

#[cfg(test)]
mod tests {
    use super::compared;
    use crate::spread::Spread;

    #[test]
    fn run_times_that_overlap_are_not_called_equal() {
        let said = |mine: &[f64], theirs: &[f64]| {
            let [mine, theirs] = [mine, theirs].map(|runs| {
                let seconds = runs.iter().map(|millis| millis / 1e3);
                Spread::of(seconds).expect("some ran")
            });
            compared("tokio", mine, theirs)
        };
        assert_eq!(
            said(&[1.9, 2.02, 7.0], &[2.0, 6.2, 8.0]),
            "Run times with hrtick and everything on and with tokio overlap between rounds, which says nothing: 2.02 \
             ms (1.90 ms to 7.00 ms) against 6.20 ms (2.00 ms to 8.00 ms)."
        );
        assert_eq!(
            said(&[1.0, 2.0, 3.0], &[4.0, 6.0, 8.0]),
            "Run time with hrtick and everything on is shorter than with tokio, ratio 0.33: 2.00 ms (1.00 ms to 3.00 \
             ms) against 6.00 ms (4.00 ms to 8.00 ms)."
        );
        let few = said(&[2.0], &[6.0]);
        assert!(
            few.starts_with("No verdict on run times") && few.contains("takes 3 rounds"),
            "{few}"
        );
    }
}
