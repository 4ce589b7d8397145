//! The outcome of a point as one flat row, for programs that read many rows.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tickless_sim::{Distribution, Outcome, Picos};

use super::super::summary;
use super::file::Sweep;
use super::point::Point;
use crate::units;

/// A point and its outcome.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) holds: bool,
    fields: Map<String, Value>,
    figures: [String; 6],
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

/// Returns a time in nanoseconds; the name of the column says the unit.
fn nanos(time: Picos) -> Value {
    json!(time.0 as f64 / 1e3)
}

fn add_times(fields: &mut Map<String, Value>, name: &str, times: &Distribution) {
    let name = name.replace('-', "_");
    fields.insert(format!("{name}_count"), times.count().into());
    let figures = [
        ("min", times.min()),
        ("mean", times.mean()),
        ("p50", times.percentile(500)),
        ("p99", times.percentile(990)),
        ("p999", times.percentile(999)),
        ("max", times.max()),
    ];
    for (figure, time) in figures {
        // The least of nothing is not zero.
        let value = if times.count() == 0 {
            Value::Null
        } else {
            nanos(time)
        };
        fields.insert(format!("{name}_{figure}_ns"), value);
    }
}

impl Row {
    pub(super) fn new(sweep: &Sweep, point: &Point, outcome: &Outcome) -> Self {
        let mut fields = facts(sweep, point, outcome);
        let mut counts = match serde_json::to_value(outcome.counts) {
            Ok(Value::Object(counts)) => counts,
            _ => Map::new(),
        };
        // The only time among them.
        counts.remove("lock_waited");
        fields.extend(counts);
        fields.insert(
            "lock_waited_ns".to_owned(),
            nanos(outcome.counts.lock_waited),
        );
        add_times(&mut fields, "late_exact", &outcome.late_exact);
        add_times(&mut fields, "late_own", &outcome.late_own);
        add_times(&mut fields, "late_remote", &outcome.late_remote);
        for (name, times) in &outcome.series {
            add_times(&mut fields, name, times);
        }
        Self {
            holds: outcome.holds(),
            fields,
            figures: figures(outcome),
        }
    }

    /// Returns the fields of a line by name.
    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns the columns of the table for people.
    pub(super) fn figures(&self) -> [String; 6] {
        self.figures.clone()
    }
}

/// Returns the names of the broken promises, with commas between them.
fn broken(outcome: &Outcome) -> String {
    let names: Vec<&str> = outcome
        .broken
        .keys()
        .map(|promise| promise.name())
        .collect();
    names.join(",")
}

fn wakes(outcome: &Outcome) -> u64 {
    outcome.groups.iter().map(|group| group.tally.wakes).sum()
}

/// Returns the parameters of the point, and the figures that are neither counts nor distributions.
fn facts(sweep: &Sweep, point: &Point, outcome: &Outcome) -> Map<String, Value> {
    let theft = outcome.per_cpu.iter().map(|cpu| cpu.longest_theft).max();
    let idle: u128 = outcome
        .residency
        .iter()
        .map(|state| u128::from(state.time.0))
        .sum();
    let all = u128::from(outcome.duration.0) * u128::from(outcome.cpus);
    let facts = [
        ("sweep", json!(sweep.hash)),
        ("index", json!(point.index)),
        ("points", json!(sweep.points.len())),
        ("parameters", Value::Object(point.parameters())),
        ("scenario", json!(outcome.scenario)),
        ("profile", json!(outcome.profile)),
        ("version", json!(outcome.version)),
        ("seed", json!(outcome.seed)),
        ("cpus", json!(outcome.cpus)),
        ("duration_ns", nanos(outcome.duration)),
        ("holds", json!(outcome.holds())),
        ("broken", json!(broken(outcome))),
        ("digest", json!(format!("{:016x}", outcome.digest))),
        ("deep_idle_permille", json!(outcome.deep_idle_permille())),
        (
            "idle_percent",
            json!(idle as f64 * 100.0 / all.max(1) as f64),
        ),
        ("idle_milliwatts", json!(outcome.idle_milliwatts)),
        ("longest_theft_ns", nanos(theft.unwrap_or(Picos::ZERO))),
        ("timer_operations", json!(outcome.counts.timer_operations())),
        ("wakes", json!(wakes(outcome))),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    facts.into_iter().collect()
}

fn figures(outcome: &Outcome) -> [String; 6] {
    let coarse = outcome
        .late_own
        .percentile(990)
        .max(outcome.late_remote.percentile(990));
    let deep = outcome.deep_idle_permille();
    let broken = broken(outcome);
    [
        summary::time(outcome.late_exact.percentile(990)),
        summary::time(coarse),
        units::count(outcome.counts.timer_operations()),
        units::count(wakes(outcome)),
        format!("{}.{} %", deep / 10, deep % 10),
        if broken.is_empty() {
            "-".to_owned()
        } else {
            broken
        },
    ]
}
