//! The report of `tickless fair` as JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::result::{Late, PERIODIC, Part, Row, SERVERS};
use super::{Finished, marks, nanos, print};
use crate::histogram::quantile;

/// Returns the whole document.
pub(super) fn of(finished: &Finished<'_>) -> Value {
    let plan = finished.plan;
    json!({
        "command": crate::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
        "date": httpdate::fmt_http_date(finished.began),
        "machine": finished.machine,
        "settings": {
            "preset": plan.preset,
            "mix": plan.mix,
            "duration_ns": nanos(plan.duration),
            "settling_ns": nanos(plan.settling),
            "rounds": plan.rounds,
            "seed": plan.seed,
        },
        "took_s": finished.took.as_secs_f64(),
        "interrupted": finished.interrupted,
        "holds": finished.rows.iter().all(Row::holds),
        "conclusions": print::conclusions(finished),
        "marks": marks::of(plan, &finished.rows),
        "missing": finished
            .rows
            .iter()
            .filter_map(|row| Some(json!({"subject": row.subject, "why": row.missing.as_ref()?})))
            .collect::<Vec<_>>(),
        "subjects": finished
            .rows
            .iter()
            .filter(|row| !row.parts.is_empty())
            .map(subject)
            .collect::<Vec<_>>(),
    })
}

fn subject(row: &Row) -> Value {
    json!({
        "subject": row.subject,
        "name": row.subject.name(),
        "what": row.subject.explanation(),
        "checkpoint": row.subject.checkpoint(),
        "has_weights": row.subject.has_weights(),
        "holds": row.holds(),
        "early": row.early(),
        "starved": row.starved(),
        "share_error": {
            "worst": row.worst(),
            "worst_weight": row.worst_weight(),
            "mean": row.mean(),
        },
        "lag_ns": row.lag(),
        "servers": late(row, SERVERS),
        "periodic": late(row, PERIODIC),
        "processors": row.processors(),
        "work_share": row.work(),
        "longest_chunk_ns": row.longest(),
        "rounds": row.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

/// Returns a distribution over all rounds, with the spread of its percentiles.
fn late(row: &Row, of: Late) -> Value {
    let all = row.merged(of);
    json!({
        "count": all.len(),
        "all": percentiles(&all),
        "p50_ns": row.quantile(of, 0.5),
        "p99_ns": row.quantile(of, 0.99),
        "p999_ns": row.quantile(of, 0.999),
    })
}

fn percentiles(histogram: &Histogram<u64>) -> Value {
    json!({
        "p50_ns": quantile(histogram, 0.5),
        "p99_ns": quantile(histogram, 0.99),
        "p999_ns": quantile(histogram, 0.999),
        "max_ns": (!histogram.is_empty()).then(|| histogram.max()),
    })
}

fn part(part: &Part) -> Value {
    json!({
        "servers": percentiles(&part.servers),
        "periodic": percentiles(&part.periodic),
        "processors": part.processors,
        "work_share": part.work,
        "longest_chunk_ns": part.longest.map(nanos),
        "shares": part
            .shares
            .iter()
            .map(|share| json!({
                "weight": share.weight,
                "entitled": share.entitled,
                "got": share.got,
                "lag_ns": share.lag,
            }))
            .collect::<Vec<_>>(),
    })
}
