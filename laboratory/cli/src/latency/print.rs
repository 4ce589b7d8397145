//! The result in the text format of cyclictest.

use std::fmt::Write;
use std::sync::Arc;

use super::Finished;
use super::arguments::{Placement, Plan};
use super::counts::{Counts, Snapshot};
use super::spikes::Spikes;
use super::thread::Sample;
use crate::histogram::quantile;
use crate::machine::line;
use crate::units;

/// Formats the line of one thread.
fn thread_line(
    plan: &Plan,
    number: usize,
    thread_id: i32,
    placement: &Placement,
    snapshot: &Snapshot,
) -> String {
    let scale = if plan.in_nanos { 1 } else { 1_000 };
    // What cyclictest shows before the first cycle.
    let min = snapshot.min.unwrap_or(1_000_000 * scale) / scale;
    let (last, max) = (snapshot.last / scale, snapshot.max / scale);
    // Rounded down, as all figures here.
    let average = snapshot.sum.checked_div(snapshot.cycles).unwrap_or(0) / scale;
    let width = if plan.in_nanos { 8 } else { 5 };
    format!(
        "T:{number:2} ({thread_id:5}) P:{:2} I:{} C:{:7} Min:{min:7} Act:{last:width$} Avg:{average:width$} \
         Max:{max:8}",
        placement.priority,
        placement.interval.as_micros(),
        snapshot.cycles,
    )
}

/// Figures on a terminal that each update overwrites.
#[derive(Debug)]
pub(super) struct Live {
    /// The number of lines of the previous update.
    lines: usize,
    only_on_max: bool,
    max: u64,
}

impl Live {
    pub(super) fn new(only_on_max: bool) -> Self {
        Self {
            lines: 0,
            only_on_max,
            max: 0,
        }
    }

    /// Returns the text that updates the figures; empty if the user has not asked for them yet.
    pub(super) fn frame(
        &mut self,
        plan: &Plan,
        threads: &[(i32, Placement, Arc<Counts>)],
    ) -> String {
        let snapshots: Vec<_> = threads
            .iter()
            .map(|(.., counts)| counts.snapshot())
            .collect();
        let max = snapshots
            .iter()
            .map(|snapshot| snapshot.max)
            .max()
            .unwrap_or(0);
        if self.only_on_max && self.lines > 0 && max <= self.max {
            return String::new();
        }
        self.max = max;
        let mut text = self.back();
        let load = line("/proc/loadavg").unwrap_or_default();
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "\x1b[2Kpolicy: {}: loadavg: {load}\n",
            plan.policy.name()
        );
        for (number, ((id, placement, _), snapshot)) in threads.iter().zip(&snapshots).enumerate() {
            let shown = thread_line(plan, number, *id, placement, snapshot);
            let _infallible = writeln!(text, "\x1b[2K{shown}");
        }
        self.lines = threads.len() + 2;
        text
    }

    /// Returns the control sequence that clears the screen for the summary.
    pub(super) fn erase(self) -> String {
        format!("{}\x1b[J", self.back())
    }

    fn back(&self) -> String {
        match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        }
    }
}

/// The output of `-v`: `thread:cycle:latency`, in the columns of cyclictest.
#[derive(Debug)]
pub(super) struct Values {
    in_nanos: bool,
    /// The number of samples of which the largest is printed.
    each: u64,
    /// The number of samples since the last line and the largest of them, for each thread.
    waiting: Vec<(u64, Option<Sample>)>,
    head: String,
}

/// Returns the first line of `-v`.
pub(super) fn cpus() -> String {
    let online = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Max CPUs = {online}\nOnline CPUs = {online}\n")
}

impl Values {
    pub(super) fn new(plan: &Plan, each: u64) -> Self {
        let threads = plan.threads.iter().enumerate();
        let head = threads.map(|(number, placement)| {
            format!(
                "Thread {number} Interval: {}\n",
                placement.interval.as_micros()
            )
        });
        Self {
            in_nanos: plan.in_nanos,
            each,
            waiting: vec![(0, None); plan.threads.len()],
            head: head.collect(),
        }
    }

    pub(super) fn head(&self) -> String {
        self.head.clone()
    }

    pub(super) fn lines(&mut self, samples: impl Iterator<Item = Sample>) -> String {
        let mut text = String::new();
        for sample in samples {
            let (seen, largest) = &mut self.waiting[sample.thread];
            *seen += 1;
            if largest.is_none_or(|largest| sample.late > largest.late) {
                *largest = Some(sample);
            }
            if *seen < self.each {
                continue;
            }
            *seen = 0;
            let Sample {
                thread,
                cycle,
                late,
            } = largest.take().unwrap_or(sample);
            let value = if self.in_nanos {
                late.as_nanos()
            } else {
                late.as_micros()
            };
            let _infallible = writeln!(text, "{thread:8}:{cycle:8}:{value:8}");
        }
        text
    }
}

/// Formats the lines of the first subject, which have cyclictest's format.
pub(super) fn threads(finished: &Finished<'_>) -> String {
    lines_of(finished, 0, "")
}

fn lines_of(finished: &Finished<'_>, place: usize, prefix: &str) -> String {
    let mut text = String::new();
    for (number, thread) in finished.threads.iter().enumerate() {
        let snapshot = thread.figures[place].counts.snapshot();
        let shown = thread_line(
            finished.plan,
            number,
            thread.thread_id,
            &thread.placement,
            &snapshot,
        );
        let _infallible = writeln!(text, "{prefix}{shown}");
    }
    text
}

/// Formats the lines that cyclictest does not have, all of which begin with `#`.
pub(super) fn comments(finished: &Finished<'_>) -> String {
    let subjects = &finished.plan.subjects;
    let mut text = percentiles(finished);
    let early = finished.early();
    if early > 0 {
        let early = units::count(early);
        let _infallible = writeln!(text, "# FAILED: {early} timers fired before their time");
    }
    if cfg!(debug_assertions) {
        text.push_str("# Built without optimisation: the figures are not the library's.\n");
    }
    for (place, subject) in subjects.iter().enumerate().skip(1) {
        let _infallible = writeln!(text, "# {}: {}", subject.name(), subject.explanation());
        text.push_str(&lines_of(finished, place, "# "));
    }
    if subjects.len() > 1 {
        let first = subjects[0];
        let _infallible = writeln!(text, "# {}: {}", first.name(), first.explanation());
    }
    text
}

/// Formats the list of `--spike`.
pub(super) fn spikes(finished: &Finished<'_>) -> String {
    let plan = finished.plan;
    let of_each = finished.threads.iter();
    let of_each: Vec<&Spikes> = of_each
        .filter_map(|thread| thread.figures[0].spikes.as_ref())
        .collect();
    let all: u64 = of_each.iter().map(|spikes| spikes.count()).sum();
    if all == 0 {
        return String::new();
    }
    let mut text = String::from("\n");
    for (number, spikes) in of_each.iter().enumerate() {
        for spike in spikes.first() {
            let late = if plan.in_nanos {
                spike.late.as_nanos()
            } else {
                spike.late.as_micros()
            };
            let _infallible = writeln!(text, "T:{number:2} Spike:{late:8}: TS: {:12}", spike.at);
        }
    }
    let _infallible = writeln!(text, "spikes = {all}\n");
    text
}

/// Formats the latency above the limit of `-b`, if one was measured.
pub(super) fn broken(finished: &Finished<'_>) -> String {
    let Some(broken) = finished.broken else {
        return String::new();
    };
    let threads = finished.threads.iter();
    let ids: Vec<_> = threads
        .map(|thread| format!("{:05}", thread.thread_id))
        .collect();
    let value = if finished.plan.in_nanos {
        broken.late.as_nanos()
    } else {
        broken.late.as_micros()
    };
    format!(
        "# Thread Ids: {}\n# Break thread: {}\n# Break value: {value}\n",
        ids.join(" "),
        broken.thread_id
    )
}

/// Formats the percentiles of each subject over all its threads.
fn percentiles(finished: &Finished<'_>) -> String {
    const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
    let mut text = format!("# {:10}", "");
    for (name, _) in SHARES {
        let _infallible = write!(text, "{name:>10}");
    }
    text.push_str("       max\n");
    for (place, subject) in finished.plan.subjects.iter().enumerate() {
        let mut all = crate::histogram::new();
        for thread in &finished.threads {
            all += &thread.figures[place].histogram;
        }
        let _infallible = write!(text, "# {:10}", subject.name());
        let shown =
            |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| units::nanos(nanos as f64));
        for (_, share) in SHARES {
            let _infallible = write!(text, "{:>10}", shown(quantile(&all, share)));
        }
        let max = (!all.is_empty()).then(|| all.max());
        let _infallible = writeln!(text, "{:>10}", shown(max));
    }
    text
}

/// Formats the histogram of the first subject: a line for each microsecond, a column for each thread.
pub(super) fn histogram(finished: &Finished<'_>) -> String {
    let plan = finished.plan;
    let all: Vec<&Counts> = finished
        .threads
        .iter()
        .map(|thread| &*thread.figures[0].counts)
        .collect();
    let with_sum = |mut figures: Vec<u64>, of_all: u64| {
        if plan.histogram_of_all {
            figures.push(of_all);
        }
        figures
    };
    let line = |out: &mut String, head: &str, figures: Vec<u64>, width: usize| {
        let figures: Vec<_> = figures
            .iter()
            .map(|figure| format!("{figure:0width$}"))
            .collect();
        let _infallible = writeln!(
            out,
            "{head} {}",
            figures.join(if width == 6 { "\t" } else { " " })
        );
    };
    let sums = |of: &dyn Fn(&Counts) -> u64| {
        let figures: Vec<u64> = all.iter().map(|counts| of(counts)).collect();
        let sum = figures.iter().sum();
        with_sum(figures, sum)
    };
    let mut out = String::from("# Histogram\n");
    for micros in 0..plan.buckets {
        let figures = sums(&|counts| counts.bucket(micros));
        line(&mut out, &format!("{micros:06}"), figures, 6);
    }
    let inside = |counts: &Counts| (0..plan.buckets).map(|micros| counts.bucket(micros)).sum();
    line(&mut out, "# Total:", sums(&inside), 9);
    let scale = if plan.in_nanos { 1 } else { 1_000 };
    let snapshots: Vec<_> = all.iter().map(|counts| counts.snapshot()).collect();
    let each = |of: &dyn Fn(&Snapshot) -> u64| snapshots.iter().map(of).collect::<Vec<_>>();
    line(
        &mut out,
        "# Min Latencies:",
        each(&|of| of.min.unwrap_or(0) / scale),
        5,
    );
    let average = |of: &Snapshot| of.sum.checked_div(of.cycles).unwrap_or(0) / scale;
    line(&mut out, "# Avg Latencies:", each(&average), 5);
    let maxima = each(&|of| of.max / scale);
    let largest = maxima.iter().copied().max().unwrap_or(0);
    line(&mut out, "# Max Latencies:", with_sum(maxima, largest), 5);
    line(
        &mut out,
        "# Histogram Overflows:",
        sums(&|counts| counts.beyond().0),
        5,
    );
    out.push_str(&overflows(&all));
    out.push('\n');
    out
}

/// Formats the numbers of the first cycles that were beyond the histogram.
fn overflows(all: &[&Counts]) -> String {
    let mut out = String::new();
    out.push_str("# Histogram Overflow at cycle number:\n");
    for (number, counts) in all.iter().enumerate() {
        let (count, first) = counts.beyond();
        let others = count - first.len() as u64;
        let _infallible = write!(out, "# Thread {number}:");
        for at in first {
            let _infallible = write!(out, " {at:05}");
        }
        out.push_str(&if others > 0 {
            format!(" # {others:05} others\n")
        } else {
            "\n".to_owned()
        });
    }
    out
}
