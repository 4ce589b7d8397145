//! The result of a run: the checks, and every figure, as `--json` writes them.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::arguments::Settings;
use super::quotable;
use super::subject::Arm;
use super::totals::{Closed, Late, Round, Total, Totals, median};
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
    /// The reason why system calls were not counted; `None` if they were counted.
    pub(crate) no_syscalls: Option<String>,
    pub(crate) holds: bool,
    pub(crate) checks: Vec<Check>,
    /// The reason why the figures are not to be quoted, if the run was too short or too noisy.
    pub(crate) not_quotable: Option<String>,
    pub(crate) arms: Vec<Figures>,
    #[serde(skip)]
    pub(crate) totals: Totals,
}

/// A fact that has to be true, and the result of the check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) holds: bool,
    /// The counts that the check judged.
    pub(crate) detail: String,
}

/// The figures of an arm.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    arm: Arm,
    name: &'static str,
    /// The lateness that the arm's timers choose, in nanoseconds.
    allowed_ns: u64,
    paced: Distribution,
    idle_timeouts: Distribution,
    header_timeouts: Distribution,
    request_latency: Distribution,
    silent_clients: Closed,
    slow_clients: Closed,
    patient_clients: Closed,
    late_clients_closed: u64,
    wrong_responses: u64,
    refused_connections: u64,
    datagrams_sent: u64,
    datagrams_received: u64,
    requests_per_second: Option<f64>,
    push_ns: Option<f64>,
    arm_and_drop_ns: Option<f64>,
    cpu_percent: Option<f64>,
    wakeups_per_second: Option<f64>,
    preemptions_per_second: Option<f64>,
    syscalls_per_second: Option<f64>,
    descriptor_sets_per_second: Option<f64>,
    rounds: Vec<Round>,
}

/// The distribution of a lateness.
#[derive(Debug, Serialize)]
struct Distribution {
    count: u64,
    early: u64,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
    /// The upper ends and the counts of all buckets that are not empty.
    buckets: Vec<(u64, u64)>,
}

impl Distribution {
    fn of(late: &Late) -> Self {
        Self {
            count: late.histogram.len() + late.early,
            early: late.early,
            p50_ns: late.quantile(0.5),
            p90_ns: late.quantile(0.9),
            p99_ns: late.quantile(0.99),
            p999_ns: late.quantile(0.999),
            max_ns: late.max(),
            buckets: buckets(&late.histogram),
        }
    }
}

/// Merges the buckets that are within a fiftieth of each other, which is exact enough for plots: a hundred thousand
/// samples would otherwise make ten thousand buckets.
fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut coarse: Vec<(u64, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let (end, count) = (value.value_iterated_to(), value.count_at_value());
        match coarse.last_mut() {
            Some((first, sum)) if end - *first <= *first / 50 => *sum += count,
            _ => coarse.push((end, count)),
        }
    }
    coarse
}

impl Figures {
    fn of(arm: Arm, total: &Total, settings: &Settings) -> Self {
        Self {
            arm,
            name: arm.name(),
            allowed_ns: u64::try_from(arm.allowed(settings).as_nanos()).unwrap_or(u64::MAX),
            paced: Distribution::of(&total.paced),
            idle_timeouts: Distribution::of(&total.idle),
            header_timeouts: Distribution::of(&total.header),
            request_latency: Distribution::of(&total.latency),
            silent_clients: total.silent,
            slow_clients: total.slow,
            patient_clients: total.patient,
            late_clients_closed: total.dropped,
            wrong_responses: total.wrong,
            refused_connections: total.refused,
            datagrams_sent: total.sent,
            datagrams_received: total.received,
            requests_per_second: total.rate(total.window.requests),
            push_ns: median(&total.push),
            arm_and_drop_ns: median(&total.arm),
            cpu_percent: total.load(),
            wakeups_per_second: total.rate(total.window.usage.wakeups),
            preemptions_per_second: total.rate(total.window.usage.preempted),
            syscalls_per_second: total.syscalls,
            descriptor_sets_per_second: total.rate(total.window.sets),
            rounds: total.rounds.clone(),
        }
    }
}

impl Outcome {
    pub(crate) fn new(
        settings: Settings,
        totals: Totals,
        took: Duration,
        interrupted: bool,
        no_syscalls: Option<String>,
    ) -> Self {
        let checks = checks(&totals);
        let figures = |&arm: &Arm| Figures::of(arm, &totals[arm.index()], &settings);
        let arms = Arm::ALL.iter().map(figures).collect();
        Self {
            tickless_version: env!("CARGO_PKG_VERSION"),
            command: crate::command_line(),
            date: httpdate::fmt_http_date(SystemTime::now() - took),
            machine: Machine::read(),
            settings,
            took_s: took.as_secs_f64(),
            interrupted,
            no_syscalls,
            holds: checks.iter().all(|check| check.holds),
            checks,
            not_quotable: quotable::why_not(&totals),
            arms,
            totals,
        }
    }
}

fn checks(totals: &Totals) -> Vec<Check> {
    let sum = |of: &dyn Fn(&Total) -> u64| totals.iter().map(of).sum::<u64>();
    let ticks = sum(&|total| total.paced.histogram.len() + total.paced.early);
    let server = |total: &Total| total.idle.early + total.header.early;
    let client = |total: &Total| total.silent.early + total.slow.early + total.patient.early;
    let fired =
        sum(&|total| total.idle.histogram.len() + total.header.histogram.len() + server(total));
    let early = |name, of: &dyn Fn(&Total) -> u64, all| Check {
        name,
        holds: sum(of) == 0,
        detail: format!(
            "{} early of {}{}",
            sum(of),
            units::count(all),
            columns(totals, of)
        ),
    };
    let closed = |name, of: &dyn Fn(&Total) -> Closed| {
        let expected = sum(&|total| of(total).expected);
        let closed = sum(&|total| of(total).closed);
        let open = |total: &Total| of(total).expected.saturating_sub(of(total).closed);
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
    let bad = |total: &Total| total.wrong + total.refused;
    vec![
        early("no paced tick was early", &|total| total.paced.early, ticks),
        early("no timeout was early by the server's clock", &server, fired),
        early(
            "no connection ended sooner than its timeouts allow, as clients saw it",
            &client,
            sum(&|total| total.silent.closed + total.slow.closed),
        ),
        closed("every silent client was closed", &|total| total.silent),
        closed(
            "every client that never finished a header was closed",
            &|total| total.slow,
        ),
        closed(
            "every answer that took longer than the idle timeout came to its end",
            &|total| total.patient,
        ),
        Check {
            name: "every request was answered as it should be",
            holds: sum(&bad) == 0,
            detail: format!(
                "{} wrong answers, {} connections refused{}",
                sum(&|total| total.wrong),
                sum(&|total| total.refused),
                columns(totals, &bad)
            ),
        },
    ]
}

/// Names the columns in which a check fails: `: 5 in the column tokio::time`. Returns an empty text if the check holds.
fn columns(totals: &Totals, of: &dyn Fn(&Total) -> u64) -> String {
    let counts = Arm::ALL.map(|arm| (arm, of(&totals[arm.index()])));
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
    use crate::demo::totals::none;

    #[test]
    fn a_check_that_fails_names_its_columns() {
        let mut totals = none();
        assert!(checks(&totals).iter().all(|check| check.holds));
        totals[Arm::Tokio.index()].slow.early = 5;
        totals[Arm::Worker.index()].idle.early = 1;
        totals[Arm::Slack.index()].silent.expected = 2;
        let failed: Vec<_> = checks(&totals)
            .into_iter()
            .filter(|check| !check.holds)
            .map(|check| check.detail)
            .collect();
        assert_eq!(
            failed,
            [
                "1 early of 1: 1 in the column + Worker",
                "5 early of 0: 5 in the column tokio::time",
                "0 of 2: 2 in the column + slack",
            ]
        );
    }
}
