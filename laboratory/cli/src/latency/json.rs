//! The result in the format of cyclictest's JSON, for scripts that read it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::arguments::Plan;
use super::thread::{Figures, Finished, Measured};
use crate::histogram::quantile;
use crate::rt_tests;

/// Returns the whole document. The fields `library`, `timer`, `break`, `percentiles_ns`, `early` and `against` do not
/// exist in cyclictest; readers of its files ignore them.
pub(super) fn of(finished: &Finished<'_>) -> Value {
    let plan = finished.plan;
    let mut document = rt_tests::head(finished.began, finished.early() > 0, finished.threads.len());
    document["resolution_in_ns"] = i32::from(plan.in_nanos).into();
    document["break"] = finished.broken.map_or(
        Value::Null,
        |broken| json!({"thread_id": broken.thread_id, "late_ns": nanos(broken.late)}),
    );
    document["timer"] = plan.subjects[0].name().into();
    document["thread"] = threads(finished, 0);
    let against: Map<String, Value> = (1..plan.subjects.len())
        .map(|place| {
            (
                plan.subjects[place].name().to_owned(),
                threads(finished, place),
            )
        })
        .collect();
    if !against.is_empty() {
        document["against"] = against.into();
    }
    document
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn threads(finished: &Finished<'_>, place: usize) -> Value {
    let machine = tickless::topology::Topology::read().ok();
    let node = |thread: &Measured| {
        let cpu = u32::try_from(thread.cpu).ok()?;
        machine.as_ref()?.cpu(cpu)?.node
    };
    let threads = finished.threads.iter().enumerate().map(|(number, thread)| {
        let figures = figures(finished.plan, thread, &thread.figures[place], node(thread));
        (number.to_string(), figures)
    });
    threads.collect::<Map<_, _>>().into()
}

fn figures(plan: &Plan, thread: &Measured, figures: &Figures, node: Option<u32>) -> Value {
    let snapshot = figures.counts.snapshot();
    let scale: u32 = if plan.in_nanos { 1 } else { 1_000 };
    let histogram: Map<String, Value> = (0..plan.buckets)
        .filter_map(|micros| {
            let count = figures.counts.bucket(micros);
            (count > 0).then(|| (micros.to_string(), count.into()))
        })
        .collect();
    let average = snapshot.average().unwrap_or(0.0) / f64::from(scale);
    let share = |share| quantile(&figures.histogram, share);
    json!({
        "histogram": histogram,
        "cycles": snapshot.cycles,
        "min": snapshot.min.unwrap_or(0) / u64::from(scale),
        "max": snapshot.max / u64::from(scale),
        // Two digits, as there.
        "avg": (average * 100.0).round() / 100.0,
        "cpu": thread.cpu,
        "node": node.unwrap_or(0),
        "early": figures.counts.early(),
        "percentiles_ns": {
            "50": share(0.5),
            "90": share(0.9),
            "99": share(0.99),
            "99.9": share(0.999),
        },
    })
}
