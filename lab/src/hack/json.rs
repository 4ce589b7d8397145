//! The report of `tickless hack` as JSON.

use serde_json::{Value, json};

use super::result::{Ratio, Row};
use super::{Finished, marks, print};

/// Returns the whole document.
pub(super) fn of(finished: &Finished<'_>) -> Value {
    let plan = finished.plan;
    let ratio = Ratio::of(&finished.rows);
    json!({
        "command": crate::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
        "date": httpdate::fmt_http_date(finished.began),
        "machine": finished.machine,
        "settings": {
            "traffic": plan.traffic,
            "messages": plan.traffic.messages(),
            "through": if plan.pipe { "pipes" } else { "channels" },
            "workers": plan.workers,
            "device": plan.device,
            "rounds": plan.rounds,
            "seed": plan.seed,
        },
        "took_s": finished.took.as_secs_f64(),
        "interrupted": finished.interrupted,
        "holds": finished.lost == 0,
        "lost": finished.lost,
        "device_writes_ratio": ratio.map(|ratio| ratio.ratio),
        "device_writes_scope": print::SCOPE,
        "conclusions": print::conclusions(finished),
        "marks": marks::of(&finished.rows, plan.device),
        "configurations": finished.rows.iter().map(configuration).collect::<Vec<_>>(),
        "others": finished
            .others
            .iter()
            .map(|other| json!({
                "name": other.name,
                "what": other.what,
                "run_s": other.spread(),
                "missing": other.missing,
            }))
            .collect::<Vec<_>>(),
    })
}

fn configuration(row: &Row) -> Value {
    json!({
        "name": row.features.name(),
        "features": row.features,
        "runs": row.runs.len(),
        "run_s": row.seconds(),
        "device_writes": row.device_writes(),
        "device_writes_per_s": row.device_writes_per_s(),
        "signals": row.signals(),
        "spurious_share": row.spurious(),
        "starts": row.starts(),
        "updates": row.updates(),
        "in_place_share": row.in_place(),
        "filed_early_share": row.filed_early(),
        "far_in_slot_share": row.far_in_slot(),
        "start_cycles": row.start_cycles(),
        "switches_per_s": row.switches_per_s(),
    })
}
