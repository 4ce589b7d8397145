//! The result in the text format of oslat. Lines that oslat does not have begin with a `#`.

use std::fmt::Write;
use std::time::Duration;

use super::Finished;
use super::arguments::{Plan, Workload};
use super::counter::Counter;
use super::gaps::Gaps;
use super::thread::{Break, Measured, Work};
use crate::units;

/// Returns the first line, which is printed even with `-q`.
pub(super) fn title() -> String {
    format!("tickless noise V {}\n", env!("CARGO_PKG_VERSION"))
}

/// Formats a length of time as oslat does: always in seconds.
fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs_f64())
}

/// Formats oslat's message about a turn longer than `-T`.
pub(super) fn threshold(plan: &Plan, broken: &Break) -> String {
    format!(
        "tickless noise: Trace threshold ({} us) triggered on cpu {} with {} us!\nStopping the test.\n",
        plan.threshold.unwrap_or(0),
        broken.cpu,
        broken.micros
    )
}

/// Formats the settings before the run.
pub(super) fn head(plan: &Plan) -> String {
    let priority = match plan.priority {
        None => "default".to_owned(),
        Some(priority) => format!("SCHED_FIFO:{priority}"),
    };
    let workload = match plan.workload {
        Workload::No => "no",
        Workload::Memmove => "memmove",
    };
    let preheat = if plan.single_preheat {
        1
    } else {
        plan.threads()
    };
    let mut out = String::new();
    let rows = [
        ("Total runtime", format!("\t\t{}", seconds(plan.duration))),
        ("Thread priority", format!("\t{priority}")),
        ("CPU list", format!("\t\t{}", plan.cpus)),
        ("CPU for main thread", format!("\t{}", plan.main_cpu)),
        ("Workload", format!("\t\t{workload}")),
        (
            "Workload mem",
            format!("\t\t{} (KiB)", plan.memory.div_ceil(1024)),
        ),
        ("Preheat cores", format!("\t\t{preheat}")),
    ];
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _infallible = writeln!(out, "{name}: {value}");
    }
    let _infallible = writeln!(
        out,
        "# {} {}: {}",
        if plan.cpus.len() == 1 { "CPU" } else { "CPUs" },
        plan.cpus,
        plan.reason.explanation()
    );
    let is_shared = plan.cpus.contains(plan.main_cpu);
    if is_shared {
        let cpu = plan.main_cpu;
        let _infallible = writeln!(out, "# CPU {cpu} runs the main thread too; see -C");
    }
    let others = plan.cpus.difference(&plan.isolated);
    if !others.is_empty() {
        let _infallible = write!(
            out,
            "# Not isolated, so that other programs run there too: {others}"
        );
        // Something has to be left for everything else.
        out.push_str(&if is_shared {
            "\n".to_owned()
        } else {
            format!("; to change it boot with isolcpus={others} nohz_full={others}\n")
        });
    }
    let _infallible = writeln!(out, "\nPre-heat for {}...", seconds(plan.preheat));
    out
}

pub(super) fn bias(micros: u64) -> String {
    format!("Global bias set to {micros} (us)\n")
}

/// Formats the progress of the run.
pub(super) fn progress(plan: &Plan, passed: Duration, longest: u64) -> String {
    format!(
        "{}, longest gap {} µs",
        units::progress(passed, plan.duration),
        units::count(longest)
    )
}

/// Formats the table at the end.
pub(super) fn summary(finished: &Finished<'_>) -> String {
    let plan = finished.plan;
    let mut out = String::new();
    table(
        plan,
        &finished.threads,
        |thread| Some(&thread.gaps),
        &mut out,
    );
    out.push('\n');
    for (name, of) in WORK {
        let row = finished.threads.iter();
        comment(
            &mut out,
            name,
            row.map(|thread| of(&thread.work).to_string()),
        );
    }
    let share = |gaps: &Gaps| format!("{:.4}", gaps.stolen_share() * 100.0);
    let shares = finished.threads.iter().map(|thread| share(&thread.gaps));
    comment(&mut out, "Longer gaps (%)", shares);
    let turn = |gaps: &Gaps| format!("{:.1}", gaps.average_nanos());
    let turns = finished.threads.iter().map(|thread| turn(&thread.gaps));
    comment(&mut out, "Turn (ns)", turns);
    if plan.against_bare {
        out.push_str("#\n# The same loop without the worker, in turns with it:\n#\n");
        let mut bare = String::new();
        table(
            plan,
            &finished.threads,
            |thread| thread.bare.as_ref(),
            &mut bare,
        );
        for line in bare.lines() {
            let _infallible = writeln!(out, "# {line}");
        }
        let bare = || {
            finished
                .threads
                .iter()
                .filter_map(|thread| thread.bare.as_ref())
        };
        comment(&mut out, "Longer gaps (%)", bare().map(share));
        comment(&mut out, "Turn (ns)", bare().map(turn));
    }
    if let Counter::KernelClock(refusal) = finished.counter {
        let _infallible = writeln!(
            out,
            "# Loop and worker read the kernel's clock, which takes longer than the time-stamp counter: {refusal}"
        );
    }
    if let Some(broken) = finished.broken {
        out.push_str(if broken.trace_stopped {
            "# The kernel's trace was marked and stopped.\n"
        } else {
            "# The kernel's trace was not stopped.\n"
        });
    }
    if cfg!(debug_assertions) {
        out.push_str("# Built without optimisation: the figures are not the library's.\n");
    }
    out
}

type OfWork = fn(&Work) -> u64;

const WORK: [(&str, OfWork); 3] = [
    ("Worker's turns", |work| work.turns),
    ("Timers fired", |work| work.fired),
    ("Unparked", |work| work.unparks),
];

/// Adds a row that is a comment to scripts.
fn comment(out: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _infallible = writeln!(out, "#{name:>16}:\t {}", cells.join(" "));
}

/// Adds the rows of oslat's format: a column for each thread.
fn table<'f>(
    plan: &Plan,
    threads: &'f [Measured],
    gaps: impl Fn(&'f Measured) -> Option<&'f Gaps>,
    out: &mut String,
) {
    let all: Vec<&Gaps> = threads.iter().filter_map(gaps).collect();
    let each = |of: &dyn Fn(&Gaps) -> String| all.iter().map(|gaps| of(gaps)).collect::<Vec<_>>();
    let cpus = threads.iter().map(|thread| thread.cpu.to_string());
    row(out, "Core", cpus.collect(), "");
    row(
        out,
        "Counter Freq",
        each(&|gaps| gaps.rate().megahertz().to_string()),
        " (Mhz)",
    );
    for line in rows(plan, &all) {
        match line {
            Line::Bucket(upto, counts, unit) => row(out, &format!("{upto:03} (us)"), counts, unit),
            Line::LeftOut => out.push_str("    ...\n"),
        }
    }
    let micros = |gaps: &Gaps, counts: u64| gaps.rate().micros(counts);
    let min = |gaps: &Gaps| gaps.min().map_or(0, |counts| micros(gaps, counts));
    let max = |gaps: &Gaps| gaps.min().map_or(0, |_| micros(gaps, gaps.max()));
    row(out, "Minimum", each(&|gaps| min(gaps).to_string()), " (us)");
    row(
        out,
        "Average",
        each(&|gaps| format!("{:.3}", gaps.average_micros())),
        " (us)",
    );
    row(out, "Maximum", each(&|gaps| max(gaps).to_string()), " (us)");
    row(
        out,
        "Max-Min",
        each(&|gaps| (max(gaps) - min(gaps)).to_string()),
        " (us)",
    );
    let seconds = |gaps: &Gaps| gaps.rate().time(gaps.total()).as_secs_f64();
    row(
        out,
        "Duration",
        each(&|gaps| format!("{:.3}", seconds(gaps))),
        " (sec)",
    );
}

fn row(out: &mut String, name: &str, cells: Vec<String>, unit: &str) {
    let cells = cells.join(" ");
    let _infallible = writeln!(out, "{name:>12}:\t {cells}{unit}");
}

enum Line {
    Bucket(u64, Vec<String>, &'static str),
    /// One or several empty buckets.
    LeftOut,
}

/// Returns the rows of the histogram; with `-z` without empty buckets.
fn rows(plan: &Plan, all: &[&Gaps]) -> Vec<Line> {
    let mut lines = Vec::new();
    let columns: Vec<Vec<(u64, u64)>> = all.iter().map(|gaps| gaps.buckets().collect()).collect();
    for place in 0..plan.buckets {
        let cells: Vec<(u64, u64)> = columns.iter().map(|column| column[place]).collect();
        if plan.zero_omit && cells.iter().all(|(_, count)| *count == 0) {
            if !matches!(lines.last(), Some(Line::LeftOut)) {
                lines.push(Line::LeftOut);
            }
            continue;
        }
        let unit = if place + 1 == plan.buckets {
            " (including overflows)"
        } else {
            ""
        };
        let upto = cells.first().map_or(0, |(upto, _)| *upto);
        let counts = cells.iter().map(|(_, count)| count.to_string()).collect();
        lines.push(Line::Bucket(upto, counts, unit));
    }
    lines
}
