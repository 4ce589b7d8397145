//! Counters as text for Prometheus.

use std::fmt::{self, Write};

use super::families::{FAMILIES, LATENESS, LATENESS_HELP, MetricKind};
use super::{Metrics, snapshot};

/// Writes a [`snapshot`] in the text format of Prometheus, version 0.0.4.
///
/// Names begin with `tickless_`. The label `thread` is the number of a thread; `tickless_thread_info` has the roles and
/// names of the threads. The text includes histograms of lateness once a timer was [counted](super::count_lateness).
///
/// # Errors
///
/// The first error of `out`.
pub fn write_prometheus(out: &mut dyn Write) -> fmt::Result {
    snapshot().write_prometheus(out)
}

impl Metrics {
    /// Writes these counters as [`write_prometheus`] does.
    ///
    /// # Errors
    ///
    /// The first error of `out`.
    pub fn write_prometheus(&self, out: &mut dyn Write) -> fmt::Result {
        self.write_threads(out)?;
        for family in &FAMILIES {
            let kind = match family.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            };
            write_head(out, family.name, kind, family.help)?;
            family.for_each(self, |thread, queue, value| {
                write!(out, "{}", family.name)?;
                match (thread, queue) {
                    (Some(thread), Some(queue)) => {
                        write!(out, "{{thread=\"{thread}\",kind=\"{queue}\"}}")?;
                    }
                    (Some(thread), None) => write!(out, "{{thread=\"{thread}\"}}")?,
                    (None, _) => {}
                }
                writeln!(out, " {value}")
            })?;
        }
        self.write_lateness(out)
    }

    fn write_threads(&self, out: &mut dyn Write) -> fmt::Result {
        const NAME: &str = "tickless_thread_info";
        write_head(out, NAME, "gauge", "Threads that have timers, or had some.")?;
        self.threads.iter().try_for_each(|thread| {
            let name = Escaped(thread.name.as_deref().unwrap_or_default());
            let (number, role) = (thread.number, thread.role.name());
            writeln!(
                out,
                "{NAME}{{thread=\"{number}\",role=\"{role}\",name=\"{name}\"}} 1"
            )
        })
    }

    fn write_lateness(&self, out: &mut dyn Write) -> fmt::Result {
        let counted = |thread: &&super::ThreadMetrics| thread.lateness.count() > 0;
        let threads = self.threads.iter().filter(counted);
        for (index, thread) in threads.enumerate() {
            if index == 0 {
                write_head(out, LATENESS, "histogram", LATENESS_HELP)?;
            }
            let (number, mut below) = (thread.number, 0);
            for (end, count) in thread.lateness.buckets() {
                below += count;
                write!(out, "{LATENESS}_bucket{{thread=\"{number}\",le=\"")?;
                match end {
                    Some(end) => write!(out, "{}", end.as_secs_f64())?,
                    None => write!(out, "+Inf")?,
                }
                writeln!(out, "\"}} {below}")?;
            }
            let sum = thread.lateness.sum().as_secs_f64();
            writeln!(out, "{LATENESS}_sum{{thread=\"{number}\"}} {sum}")?;
            writeln!(out, "{LATENESS}_count{{thread=\"{number}\"}} {below}")?;
        }
        Ok(())
    }
}

fn write_head(out: &mut dyn Write, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// A value of a label, in which quotes, backslashes and ends of lines are escaped.
struct Escaped<'s>(&'s str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' => formatter.write_str("\\\\"),
            '"' => formatter.write_str("\\\""),
            '\n' => formatter.write_str("\\n"),
            char => formatter.write_char(char),
        })
    }
}
