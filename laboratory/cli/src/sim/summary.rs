//! The summary of a simulation's outcome, as text for people.

use std::fmt::Write;

use tickless_sim::{
    Distribution, Group, Outcome, Picos, Placed, Promise, Scenario, When, Workload,
};

use crate::shown;
use crate::table::Grid;
use crate::units;

/// Formats a time with three digits.
pub(super) fn time(time: Picos) -> String {
    if time == Picos::ZERO {
        return "0".to_owned();
    }
    units::nanos(time.0 as f64 / 1e3)
}

/// Formats p50, p99 and max of times; dashes if there are no times.
fn lateness(times: &Distribution) -> [String; 3] {
    if times.count() == 0 {
        return ["-", "-", "-"].map(str::to_owned);
    }
    [times.percentile(500), times.percentile(990), times.max()].map(time)
}

/// Formats CPU numbers as files write them: `0-3,7`.
pub(super) fn ranges(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |(first, last)| {
        if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        }
    };
    let parts: Vec<String> = parts.into_iter().map(part).collect();
    parts.join(",")
}

/// Formats CPUs like [`ranges`], and cuts a long list.
pub(super) fn short_ranges(cpus: &[u32]) -> String {
    const LONGEST: usize = 24;
    let text = ranges(cpus);
    if text.len() <= LONGEST {
        return text;
    }
    let end = text[..LONGEST].rfind(',').unwrap_or(LONGEST);
    format!("{},... ({})", &text[..end], cpus.len())
}

/// Returns the name that files use for a workload.
pub(super) fn kind(workload: &Workload) -> String {
    let value = serde_json::to_value(workload).unwrap_or_default();
    value["kind"].as_str().unwrap_or("?").to_owned()
}

/// Returns the names of the series that a workload of this kind records.
const fn series(workload: &Workload) -> &'static [&'static str] {
    match workload {
        Workload::Cyclictest { .. } => &["latency"],
        Workload::Oslat => &["theft"],
        Workload::Enqueue { .. } => &["pair"],
        Workload::Starts { .. } => &["in-place", "fresh"],
        Workload::Alarms { .. } => &["alarm"],
        Workload::Compute { .. } => &["job"],
        _ => &[],
    }
}

pub(super) fn text(scenario: &Scenario, outcome: &Outcome) -> String {
    let mut out = format!(
        "tickless {}, seed {}: {}, {} on {} of {}\n",
        outcome.version,
        outcome.seed,
        shown::line(&outcome.scenario),
        outcome.duration,
        units::counted(outcome.cpus.into(), "CPU"),
        shown::line(&outcome.profile),
    );
    let sections = [
        workloads(scenario, outcome).text(),
        did(outcome).text(),
        late(scenario, outcome).text(),
        residency(outcome),
        totals(outcome),
        clock(outcome),
        faults(outcome),
        promises(outcome),
    ];
    for section in sections.iter().filter(|section| !section.is_empty()) {
        out.push('\n');
        out.push_str(section);
    }
    out
}

/// Tabulates the records of the workloads.
pub(super) fn workloads(scenario: &Scenario, outcome: &Outcome) -> Grid {
    let mut rows = Vec::new();
    for (number, placed) in scenario.workloads.iter().enumerate() {
        let mut row = vec![
            format!("{number} {}", kind(&placed.workload)),
            placement(placed),
        ];
        let noted: Vec<&str> = series(&placed.workload)
            .iter()
            .copied()
            .filter(|name| outcome.series(name).is_some())
            .collect();
        if noted.is_empty() {
            row.extend(["-"; 5].map(str::to_owned));
            rows.push(row);
            continue;
        }
        for (place, name) in noted.into_iter().enumerate() {
            if place > 0 {
                row = vec![String::new(), String::new()];
            }
            let times = outcome.series(name).cloned().unwrap_or_default();
            row.push(name.to_owned());
            row.push(units::count(times.count()));
            row.extend(lateness(&times));
            rows.push(row.clone());
        }
    }
    let shared = shares_series(&scenario.workloads);
    Grid {
        head: vec!["workload", "CPUs", "notes", "times", "p50", "p99", "max"],
        left: 3,
        rows,
        note: if shared {
            "Workloads of the same kind note together."
        } else {
            ""
        },
    }
}

/// Returns true if two workloads record under the same name.
fn shares_series(workloads: &[Placed]) -> bool {
    let mut names: Vec<_> = workloads
        .iter()
        .flat_map(|placed| series(&placed.workload))
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() < all
}

fn placement(placed: &Placed) -> String {
    let cpus = short_ranges(&placed.cpus);
    match placed.one_in {
        0 | 1 => cpus,
        one_in => format!("one in {one_in} of {cpus}"),
    }
}

/// Returns the name of a group: its CPUs.
fn name(group: &Group) -> String {
    let isolated = if group.isolated { " isolated" } else { "" };
    format!("{}{isolated}", short_ranges(&group.cpus))
}

fn runs(scenario: &Scenario, group: &Group) -> String {
    let names = group.workloads.iter();
    let names = names.filter_map(|index| scenario.workloads.get(*index));
    let names: Vec<String> = names.map(|placed| kind(&placed.workload)).collect();
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.join(", ")
}

/// Tabulates the work of each group.
pub(super) fn did(outcome: &Outcome) -> Grid {
    Grid {
        head: vec![
            "CPUs",
            "timer ops",
            "fired",
            "of others",
            "by others",
            "woken",
            "timer irqs",
            "dev writes",
            "IPIs",
        ],
        left: 1,
        rows: outcome.groups.iter().map(did_row).collect(),
        note: "",
    }
}

/// Tabulates the lateness of each group's timers, and its idling.
pub(super) fn late(scenario: &Scenario, outcome: &Outcome) -> Grid {
    let rows = outcome.groups.iter().map(|group| {
        let all = u128::from(outcome.duration.0) * group.cpus.len() as u128;
        let idle: u128 = group.residency.iter().map(|time| u128::from(time.0)).sum();
        let mut row = vec![name(group), runs(scenario, group)];
        row.extend(lateness(&group.late_exact));
        row.extend(lateness(&group.late_coarse));
        row.push(percent(idle, all));
        row.push(time(group.longest_theft));
        row
    });
    Grid {
        head: vec![
            "CPUs",
            "runs",
            "exact p50",
            "p99",
            "max",
            "coarse p50",
            "p99",
            "max",
            "idle",
            "theft",
        ],
        left: 2,
        rows: rows.collect(),
        note: "",
    }
}

fn did_row(group: &Group) -> Vec<String> {
    let tally = &group.tally;
    let counts = [
        tally.operations,
        tally.fires,
        tally.remote_fires,
        tally.fired_by_others,
        tally.wakes,
        tally.interrupts,
        tally.device_writes,
        tally.ipis,
    ];
    let counts = counts.into_iter().map(units::count);
    std::iter::once(name(group)).chain(counts).collect()
}

pub(super) fn percent(part: u128, all: u128) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", part as f64 * 100.0 / all as f64)
}

fn residency(outcome: &Outcome) -> String {
    let all = u128::from(outcome.duration.0) * u128::from(outcome.cpus);
    let states = outcome.residency.iter().map(|state| {
        let deep = if state.deep { " (deep)" } else { "" };
        let share = percent(u128::from(state.time.0), all);
        format!("{}{deep} {share}", state.state)
    });
    let states: Vec<String> = states.collect();
    format!(
        "Idle: {}; {} mW on average\n",
        states.join(", "),
        units::count(outcome.idle_milliwatts)
    )
}

fn totals(outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let facts = [
        ("timer operations", counts.timer_operations()),
        ("of them without lock", counts.lockless),
        ("exact timers queued again", counts.exact_restarts),
        ("of them in place", counts.exact_in_place),
        ("filed early", counts.exact_filed_early),
        ("in a far slot", counts.exact_far_in_slot),
        ("fired", counts.coarse_fires + counts.exact_fires),
        ("run by others", counts.remote_fires),
        ("of them woke their owner", counts.ping_pongs),
        ("timer interrupts", counts.interrupts),
        ("spurious", counts.spurious),
        ("ticks", counts.ticks),
        ("soft stages", counts.soft_stages),
        ("waits for locks", counts.lock_waits),
        ("events", counts.events),
    ];
    let mut out = String::from("Whole machine:");
    let mut column = out.len();
    for (place, (name, count)) in facts.into_iter().enumerate() {
        let fact = format!("{name} {}", units::count(count));
        let end = if place + 1 == facts.len() { "\n" } else { "," };
        if column + fact.len() + 2 > 100 {
            out.push_str("\n ");
            column = 1;
        }
        let _infallible = write!(out, " {fact}{end}");
        column += fact.len() + 2;
    }
    out
}

/// Describes the cost of reading the clock, and the jobs done meanwhile.
fn clock(outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let all = u128::from(outcome.duration.0) * u128::from(outcome.cpus);
    let share = percent(counts.clock_reading.0.into(), all);
    let mean = counts.clock_reading.0.checked_div(counts.clock_reads);
    let jobs = outcome.jobs_per_minute().map_or_else(String::new, |jobs| {
        format!("; {} jobs a minute", units::count(jobs))
    });
    let slow = match counts.slow_reads {
        0 => String::new(),
        reads => format!(", the slow counter {} times", units::count(reads)),
    };
    format!(
        "Clock: read {} times{slow}, {} each, {share} of CPU time{jobs}\n",
        units::count(counts.clock_reads),
        time(Picos(mean.unwrap_or(0))),
    )
}

/// Describes the planned faults, and how often each happened.
fn faults(outcome: &Outcome) -> String {
    let mut out = String::new();
    for fault in &outcome.faults {
        let name = fault.kind.name();
        let when = match fault.when {
            When::At(at) => format!("at {at}"),
            When::Every(every) => format!("every {every}"),
            When::OneIn(times) => format!("one in {times}"),
        };
        let sign = if fault.back { "-" } else { "" };
        let amount = match fault.amount {
            Picos::ZERO if fault.ppm == 0 => String::new(),
            Picos::ZERO => format!(", {} ppm", fault.ppm),
            amount => format!(", {sign}{amount}"),
        };
        let cpus = short_ranges(&fault.cpus);
        let _infallible = writeln!(out, "Fault: {name} {when}{amount}, CPUs {cpus}");
    }
    for (name, count) in &outcome.fault_counts {
        let _infallible = writeln!(out, "Happened: {name} {}", units::counted(*count, "time"));
    }
    out
}

/// Lists each broken promise with its first stories; one line if all promises were kept.
fn promises(outcome: &Outcome) -> String {
    if outcome.holds() {
        return format!(
            "All {} promises were kept. Digest {:016x}\n",
            Promise::ALL.len() - 1,
            outcome.digest
        );
    }
    broken(outcome)
}

/// Lists the broken promises.
pub(super) fn broken(outcome: &Outcome) -> String {
    let mut out = String::new();
    for (promise, times) in &outcome.broken {
        let times = units::counted(*times, "time");
        let _infallible = writeln!(out, "BROKEN {times}: {}", promise.name());
        let stories = outcome.violations.iter();
        let stories = stories.filter(|story| story.promise == *promise);
        for story in stories.take(STORIES) {
            let _infallible = writeln!(out, "  {} CPU {}: {}", story.at, story.cpu, story.what);
        }
    }
    out
}

/// The number of stories that are printed for each promise.
const STORIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::{percent, ranges, short_ranges, time};
    use tickless_sim::Picos;

    #[test]
    fn cpus_are_written_as_files_write_them() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
        let even: Vec<u32> = (0..64).map(|cpu| cpu * 2).collect();
        assert_eq!(short_ranges(&even), "0,2,4,6,8,10,12,14,16,... (64)");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(time(Picos(0)), "0");
        assert_eq!(time(Picos(1_500)), "1.50 ns");
        assert_eq!(percent(1, 3), "33.33 %");
        assert_eq!(percent(0, 0), "-");
    }
}
