//! Counters for the recorder of the crate `metrics`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use ::metrics::{Key, Label, Level, Metadata, Unit, with_recorder};

use super::families::{FAMILIES, LATENESS, LATENESS_HELP, MetricKind};
use super::{Lateness, snapshot};

/// Passes the counters of each thread to the recorder that is installed for the crate `metrics`, under the names and
/// labels of [`write_prometheus`](super::write_prometheus).
///
/// ```
/// use tickless::metrics::Recorder;
///
/// let mut recorder = Recorder::new();
/// // Before each scrape, or every few seconds:
/// recorder.record();
/// ```
///
/// # Limits
///
/// A histogram of the recorder gets one value for each timer that was [counted](super::count_lateness) since the last
/// call: the middle of the timer's bucket in [`Lateness`], in seconds. Use one `Recorder` in a process: two would pass
/// each timer twice.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Lateness that was passed on already, for each thread by its number.
    passed: HashMap<u32, Lateness>,
    is_described: bool,
}

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Recorder {
    /// Makes a recorder that has passed nothing on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes on the present counters, and the lateness of timers that fired since the last call. Without an installed
    /// recorder the call does nothing.
    ///
    /// # Cost
    ///
    /// A [`snapshot`], and some twenty calls of the recorder for each thread.
    pub fn record(&mut self) {
        let metrics = snapshot();
        if !self.is_described {
            describe();
            self.is_described = true;
        }
        for family in &FAMILIES {
            let Ok(()) = family.for_each::<Infallible>(&metrics, |thread, queue, value| {
                let thread = thread.map(|thread| Label::new("thread", thread.to_string()));
                let queue = queue.map(|queue| Label::from_static_parts("kind", queue));
                let labels: Vec<Label> = thread.into_iter().chain(queue).collect();
                let key = Key::from_parts(family.name, labels);
                with_recorder(|recorder| match family.kind {
                    MetricKind::Counter => {
                        recorder.register_counter(&key, &METADATA).absolute(value)
                    }
                    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
                    MetricKind::Gauge => recorder.register_gauge(&key, &METADATA).set(value as f64),
                });
                Ok(())
            });
        }
        for thread in &metrics.threads {
            let passed = self.passed.entry(thread.number).or_default();
            let new = thread.lateness.since(passed);
            *passed = thread.lateness;
            record_lateness(thread.number, &new);
        }
    }
}

fn describe() {
    with_recorder(|recorder| {
        for family in &FAMILIES {
            match family.kind {
                MetricKind::Counter => {
                    recorder.describe_counter(family.name.into(), None, family.help.into());
                }
                MetricKind::Gauge => {
                    recorder.describe_gauge(family.name.into(), None, family.help.into());
                }
            }
        }
        let unit = Some(Unit::Seconds);
        recorder.describe_histogram(LATENESS.into(), unit, LATENESS_HELP.into());
    });
}

fn record_lateness(thread: u32, new: &Lateness) {
    if new.count() == 0 {
        return;
    }
    let labels = vec![Label::new("thread", thread.to_string())];
    let key = Key::from_parts(LATENESS, labels);
    with_recorder(|recorder| {
        let histogram = recorder.register_histogram(&key, &METADATA);
        let mut begin = Duration::ZERO;
        for (end, count) in new.buckets() {
            // Of the bucket without an end there is the beginning.
            let end = end.unwrap_or(begin);
            if count > 0 {
                let middle = (begin + end) / 2;
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                histogram.record_many(middle.as_secs_f64(), count);
            }
            begin = end;
        }
    });
}
