//! Tests of the counters of `tickless::metrics`, read by a parser of the Prometheus text format, a recorder and a
//! subscriber.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use prometheus_parse::{Scrape, Value};
use tickless::metrics::{Recorder, count_lateness, snapshot, trace, write_prometheus};
use tickless::time::{MissedTickBehavior, interval_at};

use super::PAUSE;

fn fire_some() {
    count_lateness(true);
    futures::executor::block_on(tickless::time::sleep(PAUSE));
}

#[test]
fn a_parser_of_prometheus_reads_the_text() {
    fire_some();
    let before = snapshot();
    let mut text = String::new();
    write_prometheus(&mut text).unwrap();
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    let scrape = Scrape::parse(lines).unwrap();

    let mut fired = HashMap::new();
    let mut lateness = 0;
    let mut names = HashSet::new();
    for sample in &scrape.samples {
        names.insert(sample.metric.as_str());
        let thread = sample.labels.get("thread").unwrap_or("none");
        match (&sample.value, sample.metric.as_str()) {
            (Value::Counter(count), "tickless_timers_fired_total") => {
                let kind = sample.labels.get("kind").unwrap();
                fired.insert((thread, kind), *count);
            }
            (Value::Histogram(buckets), "tickless_timer_lateness_seconds") => {
                lateness += 1;
                // Each bucket holds those below it too.
                assert!(buckets.windows(2).all(|two| two[0].count <= two[1].count));
                assert!(
                    buckets
                        .windows(2)
                        .all(|two| two[0].less_than < two[1].less_than)
                );
                assert_eq!(buckets.last().unwrap().less_than, f64::INFINITY);
            }
            (Value::Untyped(value), name) => {
                let is_of_histogram = name.ends_with("_sum") || name.ends_with("_count");
                assert!(is_of_histogram, "{name} {value}");
            }
            _ => {}
        }
    }
    assert!(lateness >= 1);
    for thread in &before.threads {
        let number = thread.number.to_string();
        for (kind, counts) in [("exact", thread.exact), ("coarse", thread.coarse)] {
            #[expect(clippy::cast_precision_loss, reason = "the text has doubles")]
            let at_least = counts.fired as f64;
            assert!(fired[&(number.as_str(), kind)] >= at_least);
        }
    }
    // Each line that is no comment is a value that the parser found.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}

#[test]
fn a_recorder_gets_counters_and_each_late_timer_once() {
    fire_some();
    let debugging = DebuggingRecorder::new();
    let recorded = debugging.snapshotter();
    let mut recorder = Recorder::new();
    let late = |recorder: &mut Recorder| {
        metrics::with_local_recorder(&debugging, || recorder.record());
        let mut late = 0;
        let mut fired = 0;
        for (key, _, _, value) in recorded.snapshot().into_vec() {
            match (key.key().name(), value) {
                ("tickless_timers_fired_total", DebugValue::Counter(count)) => fired += count,
                ("tickless_timer_lateness_seconds", DebugValue::Histogram(values)) => {
                    assert!(values.iter().all(|seconds| **seconds >= 0.0));
                    late += values.len();
                }
                _ => {}
            }
        }
        assert!(fired >= 1);
        late
    };
    let counted = |late: &tickless::metrics::Metrics| -> u64 {
        late.threads
            .iter()
            .map(|thread| thread.lateness.count())
            .sum()
    };
    let before = counted(&snapshot());
    let mut all = late(&mut recorder) as u64;
    assert!(all >= before);
    // Other tests fire timers too: after all calls together each was passed on once.
    fire_some();
    let fired = counted(&snapshot());
    all += late(&mut recorder) as u64;
    let after = counted(&snapshot());
    assert!((fired..=after).contains(&all), "{fired} {all} {after}");
}

/// A writer whose output a test reads.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_subscriber_gets_threads_and_missed_ticks() {
    fire_some();
    let lines = Shared::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        trace();
        let late = tickless::time::Instant::now() - PAUSE * 5 / 2;
        let mut ticks = interval_at(late, PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        futures::executor::block_on(ticks.tick());
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let thread = text.lines().find(|line| line.contains("role=\"foreign\""));
    let thread = thread.unwrap_or_else(|| panic!("{text}"));
    for field in [
        "INFO tickless::metrics: ",
        " armed=",
        " pulled=",
        " wakeups=",
    ] {
        assert!(thread.contains(field), "{field}: {thread}");
    }
    let missed = text
        .lines()
        .find(|line| line.contains("tickless::interval"));
    assert!(
        missed.is_some_and(|line| line.contains("missed=")),
        "{text}"
    );
}
