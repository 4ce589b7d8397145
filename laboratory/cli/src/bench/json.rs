//! The result of a benchmark run as JSON.

use serde_json::{Value, json};

use super::closing;
use super::groups::Finished;

/// Returns the whole document.
pub(super) fn of(finished: &Finished) -> Value {
    let plan = &finished.plan;
    json!({
        "command": crate::shown::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
        "machine": finished.machine,
        "is_optimised": !cfg!(debug_assertions),
        "rounds": plan.rounds,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "is_complete": finished.results.is_complete,
        "rows": finished.results.rows,
        "missing": finished.missing,
        "faults": finished.results.faults,
        "notes": finished.notes,
        "closing": closing::sentences(finished),
    })
}
