//! Tests of the counters of `tickless::metrics`, read by a parser of the Prometheus text format.

use std::collections::{HashMap, HashSet};

use prometheus_parse::{Scrape, Value};
use tickless::metrics::{count_lateness, snapshot, write_prometheus};

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
