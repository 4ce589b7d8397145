//! The report on the clocks as JSON.

use serde_json::{Map, Value, json};

use super::measure::{Drift, Skew};
use super::watch::Follower;
use super::{Finished, Row};

/// Returns the whole document.
pub(super) fn of(finished: &Finished<'_>, followed: Option<&Follower>) -> Value {
    let mut document = json!({
        "command": crate::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
        "machine": finished.machine,
        "kernel": finished.kernel,
        "cpus": finished.plan.cpus.to_string(),
        "tsc": match &finished.rate {
            Ok(hertz) => json!({"hertz": hertz}),
            Err(refusal) => json!({"refused": refusal.to_string()}),
        },
        "sources": finished.rows.iter().map(|row| source(finished, row)).collect::<Vec<_>>(),
        "wall_clocks": finished
            .wall_clocks
            .iter()
            .map(|clock| (clock.name.clone(), clock.seconds.into()))
            .collect::<Map<_, _>>(),
    });
    if let Some(followed) = followed {
        document["watch"] = watch(followed);
    }
    document
}

fn source(finished: &Finished<'_>, row: &Row) -> Value {
    let judgement = row.judge(&finished.rate);
    json!({
        "name": row.source.name,
        "how": row.source.how,
        "is_ordered": row.source.is_ordered,
        "cost_ns": {"alone": row.alone.map(rounded), "contended": row.contended.map(rounded)},
        "step_ns": row.resolution.map(rounded),
        "drift": row.drift().as_ref().map(drift),
        "skews": row.skews.iter().map(skew).collect::<Vec<_>>(),
        "verdict": judgement.word,
        "reason": judgement.reason,
    })
}

fn drift(drift: &Drift) -> Value {
    json!({
        "ppm": rounded(drift.ppm),
        "within_ppm": rounded(drift.within),
        "seconds": drift.over.as_secs_f64(),
    })
}

fn skew(skew: &Skew) -> Value {
    json!({
        "cpus": [skew.cpus.0, skew.cpus.1],
        "ahead_ns": finite(skew.ahead),
        "within_ns": finite(skew.within),
        "verdict": skew.verdict.to_string(),
    })
}

fn watch(followed: &Follower) -> Value {
    let samples = followed.samples.iter().map(|sample| {
        json!({
            "seconds": sample.at.as_secs_f64(),
            "drift": sample.drift.as_ref().map(drift),
            "offset_ns": rounded(sample.offset.0),
            "within_ns": rounded(sample.offset.1),
            "verdict": sample.verdict.to_string(),
        })
    });
    json!({"source": followed.source, "samples": samples.collect::<Vec<_>>()})
}

/// Rounds to a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then(|| rounded(value))
}
