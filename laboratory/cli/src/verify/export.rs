//! A trace in the formats of other tools: Chrome's trace events, which Perfetto shows, and the text of ftrace.
//!
//! Both files are written while the trace is checked. They get their names only if the trace was whole.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::read::Line;
use crate::failure::Failure;
use crate::output::{OutFile, Place};

/// The number of bytes that are gathered before they are written.
const BUFFER: usize = 1 << 18;

/// The events that the kernel has, too; the text of ftrace leaves out all other events.
const KERNEL: [&str; 27] = [
    "cpu_idle",
    "hrtimer_cancel",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "hrtimer_rearm",
    "hrtimer_start",
    "ipi_send_cpu",
    "irq_handler_entry",
    "irq_handler_exit",
    "sched_switch",
    "softirq_entry",
    "softirq_exit",
    "tick_stop",
    "timer_cancel",
    "timer_expire_entry",
    "timer_expire_exit",
    "timer_start",
    "tmigr_connect_child_parent",
    "tmigr_connect_cpu_parent",
    "tmigr_cpu_active",
    "tmigr_cpu_idle",
    "tmigr_cpu_new_timer_idle",
    "tmigr_group_set",
    "tmigr_group_set_cpu_active",
    "tmigr_group_set_cpu_inactive",
    "tmigr_handle_remote_cpu",
    "tmigr_update_events",
];

/// A file that grows while the trace is read.
#[derive(Debug)]
struct Growing {
    file: OutFile,
    text: String,
}

impl Growing {
    fn new(place: &Place, begin: &str) -> Result<Self, Failure> {
        let file = OutFile::prepare(place)?;
        let text = begin.to_owned();
        Ok(Self { file, text })
    }

    fn flush_full(&mut self) -> Result<(), Failure> {
        if self.text.len() >= BUFFER {
            let written = self.file.write_some(self.text.as_bytes());
            written
                .map_err(|error| Failure::Machine(format!("cannot write the export: {error}")))?;
            self.text.clear();
        }
        Ok(())
    }

    fn finish(mut self, end: &str) -> Result<(), Failure> {
        self.text.push_str(end);
        self.file.write(self.text.as_bytes())
    }
}

/// The files to which a trace is exported while it is checked.
#[derive(Debug)]
pub(super) struct Export {
    chrome: Option<Growing>,
    ftrace: Option<Growing>,
    /// The number of the arrow that begins at the last start of each queued timer.
    arrows: HashMap<u64, u64>,
    /// The number of starts, which gives each arrow its number.
    starts: u64,
    /// The lanes that have been given a name.
    named: HashSet<u32>,
    /// The number of events that the text of ftrace leaves out.
    pub(super) left_out: u64,
}

impl Export {
    /// Prepares the files, or fails if one cannot be written.
    pub(super) fn new(chrome: Option<&Place>, ftrace: Option<&Place>) -> Result<Self, Failure> {
        let begin = "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n";
        let process =
            json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "tickless"}});
        let chrome_begin = format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{process}");
        Ok(Self {
            chrome: chrome
                .map(|place| Growing::new(place, &chrome_begin))
                .transpose()?,
            ftrace: ftrace.map(|place| Growing::new(place, begin)).transpose()?,
            arrows: HashMap::new(),
            starts: 0,
            named: HashSet::new(),
            left_out: 0,
        })
    }

    /// Writes an event that the checker has taken.
    pub(super) fn take(&mut self, line: &Line) -> Result<(), Failure> {
        let at = line.time("time")?;
        let event = line.text("event")?;
        let cpu = line.keys.get("cpu").and_then(Value::as_u64);
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        if self.chrome.is_some() {
            self.take_chrome(line, at, event, cpu)?;
        }
        if let Some(ftrace) = &mut self.ftrace {
            if KERNEL.contains(&event) {
                // Without a lane of its own there, the machine itself is on CPU 0.
                let cpu = cpu.unwrap_or(0);
                let arguments = kernel_arguments(event, &line.keys, cpu);
                let (whole, nanos) = (at.div_euclid(NANOS), at.rem_euclid(NANOS));
                let _ = writeln!(
                    ftrace.text,
                    "          <idle>-0       [{cpu:03}] d.h..  {whole}.{nanos:09}: {event}: {arguments}"
                );
                ftrace.flush_full()?;
            } else {
                self.left_out += 1;
            }
        }
        Ok(())
    }

    fn take_chrome(
        &mut self,
        line: &Line,
        at: i64,
        event: &str,
        cpu: Option<u32>,
    ) -> Result<(), Failure> {
        let lane = cpu.unwrap_or(u32::MAX);
        let mut out = Vec::new();
        if self.named.insert(lane) {
            let name = cpu.map_or_else(|| "machine".to_owned(), |cpu| format!("CPU {cpu}"));
            out.push(json!({"ph": "M", "pid": 1, "tid": lane, "name": "thread_name", "args": {"name": name}}));
        }
        let timer = line.keys.get("timer").or_else(|| line.keys.get("hrtimer"));
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
        let arguments = arguments(&line.keys).map(|(key, value)| (key.clone(), value.clone()));
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
        if let Some(chrome) = &mut self.chrome {
            for one in out {
                let _ = write!(chrome.text, ",\n{one}");
            }
            chrome.flush_full()?;
        }
        Ok(())
    }

    /// Puts the files in their places.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if let Some(chrome) = self.chrome {
            chrome.finish("\n]}\n")?;
        }
        self.ftrace.map_or(Ok(()), |ftrace| ftrace.finish(""))
    }
}

const NANOS: i64 = 1_000_000_000;

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

/// Returns the arguments of an event as text. The events that readers of ftrace interpret have the kernel's keys.
fn kernel_arguments(event: &str, keys: &Map<String, Value>, cpu: u32) -> String {
    let said = |key: &str| keys.get(key).map_or_else(String::new, word);
    let task = |key: &str| keys.get(key).and_then(Value::as_u64).map(|task| task + 1);
    match event {
        "sched_switch" => {
            let named = |key: &str| match task(key) {
                Some(pid) => (format!("task-{pid}"), pid),
                None => ("swapper".to_owned(), 0),
            };
            let ((prev, prev_pid), (next, next_pid)) = (named("prev"), named("next"));
            format!(
                "prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state=S ==> \
                 next_comm={next} next_pid={next_pid} next_prio=120"
            )
        }
        "cpu_idle" => {
            let state = keys.get("state").and_then(Value::as_str).map(|name| {
                let digits: String = name.chars().filter(char::is_ascii_digit).collect();
                digits.parse().unwrap_or(0)
            });
            format!("state={} cpu_id={cpu}", state.unwrap_or(u32::MAX))
        }
        "irq_handler_entry" => format!("irq=0 name={}", said("name")),
        "irq_handler_exit" => "irq=0 ret=handled".to_owned(),
        "softirq_entry" | "softirq_exit" => {
            format!("vec=1 [action={}]", said("vec").to_uppercase())
        }
        _ => {
            let pairs =
                arguments(keys).map(|(key, value)| format!("{}={}", as_word(key), word(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
    }
}

fn word(value: &Value) -> String {
    as_word(
        &value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
}

/// Turns a text from a file into one word on one line.
fn as_word(text: &str) -> String {
    let plain = |letter: char| {
        if letter.is_whitespace() || letter.is_control() {
            '_'
        } else {
            letter
        }
    };
    text.chars().map(plain).collect()
}
