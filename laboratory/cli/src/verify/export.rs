//! A trace as Chrome's trace events, which Perfetto shows.
//!
//! The file is written while the trace is checked. It gets its name only if the trace was whole.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tickless_sim::promise::trace::Head;

use crate::failure::Failure;
use crate::output::{OutFile, Place};

/// The number of bytes that are gathered before they are written.
const BUFFER: usize = 1 << 18;

/// The file to which a trace is exported while it is checked.
#[derive(Debug)]
pub(super) struct Export {
    file: OutFile,
    /// What is gathered and not written yet.
    text: String,
    /// The number of the arrow that begins at the last start of each queued timer.
    arrows: HashMap<u64, u64>,
    /// The number of starts, which gives each arrow its number.
    starts: u64,
    /// The lanes that have been given a name.
    named: HashSet<u32>,
}

impl Export {
    /// Prepares the file, or fails if it cannot be written.
    pub(super) fn new(place: &Place) -> Result<Self, Failure> {
        let process =
            json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "tickless"}});
        Ok(Self {
            file: OutFile::prepare(place)?,
            text: format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{process}"),
            arrows: HashMap::new(),
            starts: 0,
            named: HashSet::new(),
        })
    }

    /// Writes an event that the checker has taken, from the `line` of the trace.
    pub(super) fn take(&mut self, line: &[u8], head: &Head) -> Result<(), Failure> {
        // It was parsed before.
        let keys: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
        let (at, event, cpu) = (head.time, head.event.as_str(), head.cpu.flatten());
        let lane = cpu.unwrap_or(u32::MAX);
        let mut out = Vec::new();
        if self.named.insert(lane) {
            let name = cpu.map_or_else(|| "machine".to_owned(), |cpu| format!("CPU {cpu}"));
            out.push(json!({"ph": "M", "pid": 1, "tid": lane, "name": "thread_name", "args": {"name": name}}));
        }
        let timer = keys.get("timer").or_else(|| keys.get("hrtimer"));
        let timer = timer.and_then(Value::as_u64);
        // Microseconds with a fraction, as the format has it.
        let moment = at as f64 / 1000.0;
        let base = |phase: &str, name: &str| json!({"ph": phase, "pid": 1, "tid": lane, "ts": moment, "name": name});
        let arrow = |phase: &str, id: u64| {
            let mut one = base(phase, "armed");
            one["cat"] = json!("timer");
            one["id"] = json!(id);
            if phase == "f" {
                one["bp"] = json!("e");
            }
            one
        };
        let (phase, name) = phase_of(event);
        let mut main = base(phase, name);
        let arguments = arguments(&keys).map(|(key, value)| (key.clone(), value.clone()));
        main["args"] = Value::Object(arguments.collect::<Map<_, _>>());
        if phase == "i" {
            main["s"] = json!("t");
        }
        out.push(main);
        if let Some(timer) = timer {
            match event {
                "timer_start" | "hrtimer_start" => {
                    self.starts += 1;
                    self.arrows.insert(timer, self.starts);
                    out.push(arrow("s", self.starts));
                    out.push(base("E", name));
                }
                "timer_expire_entry" | "hrtimer_expire_entry" => {
                    out.extend(self.arrows.remove(&timer).map(|id| arrow("f", id)));
                }
                "timer_cancel" | "hrtimer_cancel" => {
                    self.arrows.remove(&timer);
                }
                _ => {}
            }
        }
        for one in out {
            let _ = write!(self.text, ",\n{one}");
        }
        if self.text.len() >= BUFFER {
            let written = self.file.write_some(self.text.as_bytes());
            written
                .map_err(|error| Failure::Machine(format!("cannot write the export: {error}")))?;
            self.text.clear();
        }
        Ok(())
    }

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.text.push_str("\n]}\n");
        self.file.write(self.text.as_bytes())
    }
}

/// Returns the phase of an event and the name of its slice. An event with a beginning and an end is a slice of its
/// lane. A start is a slice too, because an arrow begins at it; the end of that slice follows at once. A complete event
/// would be shorter, but in a file with complete events Perfetto's reader finds no end of a slice that begins and ends
/// at one time.
fn phase_of(event: &str) -> (&'static str, &str) {
    const PAIRS: [&str; 4] = ["timer_expire", "hrtimer_expire", "irq_handler", "softirq"];
    if matches!(event, "timer_start" | "hrtimer_start") {
        return ("B", event);
    }
    for (end, phase) in [("_entry", "B"), ("_exit", "E")] {
        if let Some(name) = event.strip_suffix(end).filter(|name| PAIRS.contains(name)) {
            return (phase, name);
        }
    }
    ("i", event)
}

/// Returns the keys that belong to this event only, without those that every event has.
fn arguments(keys: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let own = |key: &str| !matches!(key, "time" | "cpu" | "event");
    keys.iter().filter(move |(key, _)| own(key))
}
