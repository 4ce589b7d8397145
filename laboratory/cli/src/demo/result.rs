//! The result of a run: the checks, and every figure, as `--json` writes them.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::Settings;
use super::subject::Arm;
use super::table::{Check, ROWS};
use super::tally::{Episodes, Part, Total, Totals};
use crate::machine::Machine;
use crate::units;

/// The results of a run, as `--json` writes them.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) tickless_version: &'static str,
    /// The command that repeats the run.
    pub(crate) command: String,
    /// The date and time of the beginning.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) took_s: f64,
    /// True if the user ended the run early.
    pub(crate) interrupted: bool,
    pub(crate) holds: bool,
    pub(crate) checks: Vec<Check>,
    pub(crate) arms: Vec<Figures>,
    #[serde(skip)]
    pub(crate) totals: Totals,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    arm: Arm,
    name: &'static str,
    /// Each figure over all rounds, by the name of its row.
    figures: Map<String, Value>,
    /// The same in each round.
    rounds: Vec<Map<String, Value>>,
    silent_clients: Episodes,
    slow_clients: Episodes,
    patient_clients: Episodes,
    late_clients_closed: u64,
    wrong_responses: u64,
    refused_connections: u64,
}

impl Figures {
    fn of(arm: Arm, Total { sum, parts }: &Total) -> Self {
        let figures = |part: &Part| {
            let figures = ROWS
                .iter()
                .map(|row| (row.name.to_owned(), (row.of)(part).into()));
            figures.collect()
        };
        Self {
            arm,
            name: arm.name(),
            figures: figures(sum),
            rounds: parts.iter().map(figures).collect(),
            silent_clients: sum.silent,
            slow_clients: sum.slow,
            patient_clients: sum.patient,
            late_clients_closed: sum.dropped,
            wrong_responses: sum.wrong,
            refused_connections: sum.refused,
        }
    }
}

impl Outcome {
    pub(crate) fn new(
        settings: Settings,
        totals: Totals,
        took: Duration,
        interrupted: bool,
    ) -> Self {
        let checks = checks(&totals);
        let figures = |&arm: &Arm| Figures::of(arm, &totals[arm.index()]);
        let arms = Arm::ALL.iter().map(figures).collect();
        Self {
            tickless_version: env!("CARGO_PKG_VERSION"),
            command: crate::shown::command_line(),
            date: httpdate::fmt_http_date(SystemTime::now() - took),
            machine: Machine::read(),
            settings,
            took_s: took.as_secs_f64(),
            interrupted,
            holds: checks.iter().all(|check| check.holds),
            checks,
            arms,
            totals,
        }
    }
}

fn checks(totals: &Totals) -> Vec<Check> {
    let sum = |of: &dyn Fn(&Part) -> u64| totals.iter().map(|total| of(&total.sum)).sum::<u64>();
    let ticks = sum(&|part| part.paced.count());
    let server = |part: &Part| part.idle.early + part.header.early;
    let client = |part: &Part| part.silent.early + part.slow.early + part.patient.early;
    let fired = sum(&|part| part.idle.count() + part.header.count());
    let early = |name, of: &dyn Fn(&Part) -> u64, all| Check {
        name,
        holds: sum(of) == 0,
        detail: format!(
            "{} early of {}{}",
            sum(of),
            units::count(all),
            columns(totals, of)
        ),
    };
    let closed = |name, of: &dyn Fn(&Part) -> Episodes| {
        let expected = sum(&|part| of(part).expected);
        let closed = sum(&|part| of(part).closed);
        let open = |part: &Part| of(part).expected.saturating_sub(of(part).closed);
        Check {
            name,
            holds: expected == closed,
            detail: format!(
                "{} of {}{}",
                units::count(closed),
                units::count(expected),
                columns(totals, &open)
            ),
        }
    };
    let bad = |part: &Part| part.wrong + part.refused;
    vec![
        early("no paced tick was early", &|part| part.paced.early, ticks),
        early("no timeout was early by the server's clock", &server, fired),
        early(
            "no connection ended sooner than its timeouts allow, as clients saw it",
            &client,
            sum(&|part| part.silent.closed + part.slow.closed),
        ),
        closed("every silent client was closed", &|part| part.silent),
        closed(
            "every client that never finished a header was closed",
            &|part| part.slow,
        ),
        closed(
            "every answer that took longer than the idle timeout came to its end",
            &|part| part.patient,
        ),
        Check {
            name: "every request was answered as it should be",
            holds: sum(&bad) == 0,
            detail: format!(
                "{} wrong answers, {} connections refused{}",
                sum(&|part| part.wrong),
                sum(&|part| part.refused),
                columns(totals, &bad)
            ),
        },
    ]
}

/// Names the columns in which a check fails: `: 5 in the column tokio`. Returns an empty text if the check holds.
fn columns(totals: &Totals, of: &dyn Fn(&Part) -> u64) -> String {
    let counts = Arm::ALL.map(|arm| (arm, of(&totals[arm.index()].sum)));
    let named: Vec<String> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(arm, count)| format!("{count} in the column {}", arm.name()))
        .collect();
    if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::checks;
    use crate::demo::subject::Arm;
    use crate::demo::tally::Totals;

    #[test]
    fn a_check_that_fails_names_its_columns() {
        let mut totals = Totals::default();
        assert!(checks(&totals).iter().all(|check| check.holds));
        totals[Arm::Tokio.index()].sum.slow.early = 5;
        totals[Arm::Worker.index()].sum.idle.early = 1;
        totals[Arm::Slack.index()].sum.silent.expected = 2;
        let failed: Vec<_> = checks(&totals)
            .into_iter()
            .filter(|check| !check.holds)
            .map(|check| check.detail)
            .collect();
        assert_eq!(
            failed,
            [
                "1 early of 1: 1 in the column + Worker",
                "5 early of 0: 5 in the column tokio",
                "0 of 2: 2 in the column + slack",
            ]
        );
    }
}
