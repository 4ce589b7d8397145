//! The result in the text format of cyclictest.

use std::fmt::Write;
use std::sync::Arc;

use super::arguments::{Placement, Plan};
use super::counts::{Counts, Snapshot};
use super::thread::Finished;
use crate::histogram::quantile;
use crate::machine::line;
use crate::units;

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
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The number of lines of the previous update.
    lines: usize,
}

impl Live {
    /// Returns the text that updates the figures.
    pub(super) fn frame(
        &mut self,
        plan: &Plan,
        threads: &[(i32, Placement, Arc<Counts>)],
    ) -> String {
        let mut text = self.back();
        let load = line("/proc/loadavg").unwrap_or_default();
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "\x1b[2Kpolicy: {}: loadavg: {load}\n",
            plan.policy.name()
        );
        for (number, (id, placement, counts)) in threads.iter().enumerate() {
            let shown = thread_line(plan, number, *id, placement, &counts.snapshot());
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
    let of_all = |of: &dyn Fn(&Counts) -> u64| all.iter().map(|counts| of(counts)).collect();
    let mut out = String::from("# Histogram\n");
    for micros in 0..plan.buckets {
        let figures = of_all(&|counts| counts.bucket(micros));
        line(&mut out, &format!("{micros:06}"), figures, 6);
    }
    let inside = |counts: &Counts| (0..plan.buckets).map(|micros| counts.bucket(micros)).sum();
    line(&mut out, "# Total:", of_all(&inside), 9);
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
    line(&mut out, "# Max Latencies:", each(&|of| of.max / scale), 5);
    line(
        &mut out,
        "# Histogram Overflows:",
        of_all(&|counts| counts.beyond().0),
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
