//! The result in the format of oslat's JSON, for scripts that read it.

use serde_json::{Map, Value, json};

use super::Finished;
use super::counter::Counter;
use super::gaps::Gaps;
use super::thread::Measured;
use crate::rt_tests;

/// Returns the whole document. Some fields do not exist in oslat, and readers of its files ignore them: `library`,
/// `cpus`, `counter`, `threshold`, `stats` and `against`, and in each thread `worker`, the figures in nanoseconds and
/// `longer_share`.
pub(super) fn of(finished: &Finished<'_>) -> Value {
    let plan = finished.plan;
    let threads = finished.threads.len();
    let mut document = rt_tests::head(finished.began, finished.broken.is_some(), threads);
    document["cpus"] = json!({
        "measured": plan.cpus.to_string(),
        "chosen": plan.reason.name(),
        "isolated": plan.isolated.to_string(),
        "main_thread": plan.main_cpu,
    });
    document["counter"] = match finished.counter {
        Counter::TimeStamps(_) => json!({"name": "tsc"}),
        Counter::KernelClock(refusal) => {
            json!({"name": "clock", "tsc_refused": refusal.to_string()})
        }
    };
    document["bias"] = finished.bias.into();
    document["threshold"] = plan.threshold.map_or(Value::Null, |limit| {
        json!({
            "limit": limit,
            "cpu": finished.broken.map(|broken| broken.cpu),
            "gap": finished.broken.map(|broken| broken.micros),
            "trace_stopped": finished.broken.is_some_and(|broken| broken.trace_stopped),
        })
    });
    let (before, after) = finished.stats;
    document["stats"] = json!({
        "expired": after.expired - before.expired,
        "interrupts": after.interrupts - before.interrupts,
        "spurious": after.spurious - before.spurious,
        "moved": after.moved - before.moved,
    });
    document["thread"] = each(finished, |thread| {
        let mut figures = figures(thread, &thread.gaps);
        figures["worker"] = json!({
            "turns": thread.work.turns,
            "fired": thread.work.fired,
            "unparks": thread.work.unparks,
        });
        figures
    });
    if plan.against_bare {
        let bare = |thread: &Measured| {
            let bare = thread.bare.as_ref();
            bare.map_or(Value::Null, |gaps| figures(thread, gaps))
        };
        document["against"] = json!({"bare": each(finished, bare)});
    }
    document
}

fn each(finished: &Finished<'_>, of: impl Fn(&Measured) -> Value) -> Value {
    let threads = finished.threads.iter().enumerate();
    let threads = threads.map(|(number, thread)| (number.to_string(), of(thread)));
    threads.collect::<Map<_, _>>().into()
}

fn figures(thread: &Measured, gaps: &Gaps) -> Value {
    let rate = gaps.rate();
    let histogram: Map<String, Value> = gaps
        .buckets()
        .filter(|(_, count)| *count > 0)
        .map(|(micros, count)| (micros.to_string(), count.into()))
        .collect();
    let min = gaps.min();
    let max = min.map(|_| gaps.max());
    // Digits as there.
    let rounded = |value: f64, scale: f64| (value * scale).round() / scale;
    json!({
        "cpu": thread.cpu,
        "freq": rate.megahertz(),
        "min": min.map_or(0, |counts| rate.micros(counts)),
        "avg": rounded(gaps.average_micros(), 1e6),
        "max": max.map_or(0, |counts| rate.micros(counts)),
        "duration": rounded(rate.time(gaps.total()).as_secs_f64(), 1e3),
        "histogram": histogram,
        "min_ns": min.map(|counts| rate.nanos(counts)),
        "avg_ns": rounded(gaps.average_nanos(), 1e3),
        "max_ns": max.map(|counts| rate.nanos(counts)),
        "longer_share": gaps.stolen_share(),
    })
}
