//! A trace of the events of the timers of all threads, as a file that `tickless verify` checks.
//!
//! ```
//! use std::fs::File;
//! use std::time::Duration;
//!
//! use tickless::tracepoints::{self, Options};
//!
//! # let directory = std::env::temp_dir();
//! # let path = directory.join(format!("tickless-doc-{}.jsonl", std::process::id()));
//! # futures::executor::block_on(async {
//! let recording = tracepoints::start(&Options::new())?;
//! tickless::time::sleep(Duration::from_micros(50)).await;
//! let trace = recording.stop();
//! assert!(trace.is_whole());
//! trace.write(File::create(&path)?)?;
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! `tickless verify my.jsonl` says whether a timer was early, late or lost, and `--chrome` converts the file for
//! Perfetto; `docs/trace.md` describes the format. A thread counts as a CPU in the file, with the number that the thread
//! has in [`inspect`](crate::inspect); number 0 is the expiry thread.
//!
//! # What is recorded
//!
//! The recording has each start, cancel, expiry and move of a timer, each write of a deadline to the operating system
//! or the expiry thread, and each step in the hierarchies by which a thread finds the due timers of another one. A
//! sleep that is reset to a later time keeps its place until it comes to the front of its queue, so the trace shows the
//! start for the new time only then. Timers of paused clocks are left out.
//!
//! The number of a timer belongs to its memory: two sleeps that lie at the same address one after the other have the
//! same number. For a timer that was queued when the recording began, the trace says only that it was queued.
//!
//! There are several hierarchies, with numbers in the trace: 0 has the threads whose timers the expiry thread fires, 1
//! has the workers, and each further one the threads of a runtime with a reactor.
//!
//! # Limits
//!
//! Each thread has memory for a [fixed number of events](Options::events_per_thread), of some 100 bytes each. Further
//! events of the thread are lost and counted. The file ends before the first event that was lost and says how many
//! events were lost, and `verify` reports that the file is not whole.
//!
//! The recording belongs to the process that began it: in the child of a fork it is over, and empty.
//!
//! # Cost
//!
//! Without a recording, each start, cancel and expiry checks one switch. During a recording, an event takes a reading
//! of the clock, an atomic operation on a word that all threads share and a lock of its own thread, and tasks are woken
//! one by one, not in batches.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufWriter, Write};
#[cfg(feature = "tracepoints")]
use std::thread;
use std::time::Duration;

use tickless_core::time::Instant;
use tickless_core::trace::line::{FORMAT, Line, Number, Setting, Subject, VERSION};
use tickless_core::trace::{Event, TimerId};

#[cfg(feature = "tracepoints")]
use crate::host::platform::record_member;
#[cfg(feature = "tracepoints")]
use crate::host::process;
#[cfg(feature = "tracepoints")]
use crate::host::recording;
use crate::host::recording::Entry;
#[cfg(feature = "tracepoints")]
use crate::host::registry::{bases, timers};
#[cfg(feature = "tracepoints")]
use crate::host::remote::reactors;
#[cfg(feature = "tracepoints")]
use crate::host::thread::now_lower;
use crate::host::tick::TICK;

mod flight;

pub use flight::{Breach, FlightRecorder, fly};

#[cfg(feature = "tracepoints")]
/// The number of checks of the rings at the end, a millisecond apart, for events that have a number already but are not
/// in a ring yet.
const LOOKS: u32 = 1_000;

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    events: usize,
    hierarchy: bool,
    late_max: Duration,
    callback_max: Duration,
    name: String,
}

impl Options {
    /// Makes the default settings: memory for 16,384 events of each thread, the events of the hierarchies, and a timer
    /// may be a second late.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: 1 << 14,
            hierarchy: true,
            late_max: Duration::from_secs(1),
            callback_max: Duration::MAX,
            name: "program".to_owned(),
        }
    }

    /// Sets the number of events of each thread that fit into its memory. The memory is allocated when a thread has its
    /// first event.
    #[must_use]
    pub fn events_per_thread(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// Sets whether the recording has the events of the hierarchies, in which threads find the due timers of others.
    /// These are two thirds of all events where most sleeps end. Without them `verify` does not check whether each
    /// timer of a sleeping thread is looked after.
    #[must_use]
    pub fn hierarchy(mut self, is_recorded: bool) -> Self {
        self.hierarchy = is_recorded;
        self
    }

    /// Sets the lateness above which `verify` reports a timer; the option `--late-max` of `verify` sets it, too.
    #[must_use]
    pub fn late_max(mut self, late_max: Duration) -> Self {
        self.late_max = late_max;
        self
    }

    /// Sets the time above which a callback, or the wake-up of a task, is a breach for [`fly`]; by default no time is.
    #[must_use]
    pub fn callback_max(mut self, callback_max: Duration) -> Self {
        self.callback_max = callback_max;
        self
    }

    /// Sets the name in the first line of the file.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// The reasons why a recording cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// Another recording, or a flight recorder, has not ended.
    AlreadyRecording,
    /// The system refuses the thread of a flight recorder.
    NoThread,
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AlreadyRecording => "a recording goes on already; stop or drop it first",
            Self::NoThread => "the system refuses the thread of the flight recorder",
        })
    }
}

impl std::error::Error for StartError {}

#[cfg(feature = "tracepoints")]
/// A recording that has not ended. Dropping the value ends the recording and discards its events.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Recording {
    first: u64,
    /// The number of the process, among the processes that forks made, when the recording began.
    forks: u32,
    options: Options,
    before: Before,
}

/// The timers that were queued when the recording began.
#[derive(Debug, Default)]
struct Before {
    /// Each timer that was queued when its base was read, and whether it is exact.
    queued: HashSet<(usize, bool)>,
    /// The number of the first event after the last base was read.
    until: u64,
}

#[cfg(feature = "tracepoints")]
/// Begins to record the events of the timers of all threads.
///
/// # Errors
///
/// [`StartError::AlreadyRecording`] if another recording has not ended.
///
/// # Cost
///
/// The call locks the queue of each thread once, while it counts the timers of the queue.
pub fn start(options: &Options) -> Result<Recording, StartError> {
    // Before: what makes the first timers of a process is no event.
    let timers = timers();
    let first = recording::begin(options.events, Some(options.hierarchy))
        .ok_or(StartError::AlreadyRecording)?;
    let mut queued = HashSet::new();
    for base in bases() {
        timers.for_each_queued(base.cpu(), |timer, is_exact| {
            queued.insert((timer.0, is_exact));
        });
    }
    if options.hierarchy {
        for tree in reactors::all_trees() {
            let number = tree.host().purpose.number();
            tree.for_each_available(|cpu, wakeup| record_member(number, cpu, wakeup));
        }
    }
    Ok(Recording {
        first,
        forks: process::forks(),
        options: options.clone(),
        before: Before {
            queued,
            until: recording::next(),
        },
    })
}

#[cfg(feature = "tracepoints")]
/// Returns true while a recording has not ended.
#[must_use]
pub fn is_recording() -> bool {
    recording::is_on()
}

#[cfg(feature = "tracepoints")]
impl Recording {
    /// Ends the recording, and returns its events.
    ///
    /// # Cost
    ///
    /// The call waits for threads that are in the middle of an event, for a second at most; events that they have not
    /// recorded by then are lost.
    #[must_use]
    pub fn stop(mut self) -> Trace {
        let ended = now_lower();
        let mut trace = Trace {
            entries: Vec::new(),
            lost: 0,
            threads: bases().count(),
            settings: Vec::new(),
            ended,
            before: std::mem::take(&mut self.before),
            options: std::mem::take(&mut self.options),
            is_flight: false,
        };
        if self.forks != process::forks() {
            return trace;
        }
        let end = recording::halt();
        trace.entries = collect(self.first, end);
        let drawn = end - self.first - 1;
        trace.lost = drawn - trace.entries.len() as u64;
        // After the last event: a group and its place in the tree stay what they are once they exist.
        for tree in reactors::all_trees().filter(|_| trace.options.hierarchy) {
            let number = tree.host().purpose.number();
            tree.for_each_setting(|setting| trace.settings.push((number, setting)));
        }
        if let Some(last) = trace.entries.last() {
            trace.ended = if trace.lost > 0 {
                last.time
            } else {
                // A thread may know the time a little better.
                last.time.max(ended)
            };
        }
        trace
    }
}

#[cfg(feature = "tracepoints")]
impl Drop for Recording {
    fn drop(&mut self) {
        if self.forks != process::forks() {
            return;
        }
        recording::halt();
        for base in bases() {
            base.local().ring.clear();
        }
        recording::end();
    }
}

#[cfg(feature = "tracepoints")]
/// Removes the events from number `first` to number `end` from all rings, and returns them in their order, up to the
/// first event that is missing.
fn collect(first: u64, end: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    for _ in 0..LOOKS {
        for base in bases() {
            base.local().ring.drain(first, &mut entries);
        }
        entries.retain(|entry| entry.number < end);
        // Events are numbered from after the number of the recording itself.
        if entries.len() as u64 + recording::lost() >= end - first - 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    entries.sort_unstable_by_key(|entry| entry.number);
    let whole = entries
        .iter()
        .zip(first + 1..)
        .take_while(|(entry, number)| entry.number == *number)
        .count();
    entries.truncate(whole);
    entries
}

/// A recording that ended.
pub struct Trace {
    entries: Vec<Entry>,
    lost: u64,
    /// The exclusive upper bound of the numbers of threads.
    threads: usize,
    /// The parts of the trees at the end, and the number of the tree of each.
    settings: Vec<(u32, Setting)>,
    ended: Instant,
    before: Before,
    options: Options,
    /// True for the last expiries, whose starts were not recorded.
    is_flight: bool,
}

impl Trace {
    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of events that are missing at the end: the events for which a thread had no memory, and all
    /// events after the first of them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns true if no event is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost == 0
    }

    /// Writes the file that `tickless verify` reads. A trace can be written any number of times.
    ///
    /// # Errors
    ///
    /// The first error of `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = Digested {
            out: BufWriter::new(out),
            digest: Digest::new(),
            lines: 0,
        };
        let late_max = u64::try_from(self.options.late_max.as_nanos()).unwrap_or(u64::MAX);
        out.line(format_args!(
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"unit\":\"ns\",\"scenario\":{},\"profile\":\"host\",\
             \"seed\":0,\"library\":\"{}\",\"cpus\":{},\"tick\":{TICK},\"late_max\":{late_max},\
             \"isolated\":[]}}",
            Quoted(&self.options.name),
            env!("CARGO_PKG_VERSION"),
            self.threads,
        ))?;
        let began = self.entries.first().map_or(self.ended, |entry| entry.time);
        for (tree, setting) in &self.settings {
            out.line(format_args!("{}", setting.line(*tree, began.as_nanos())))?;
        }
        let mut numbers = Numbers::default();
        for entry in &self.entries {
            self.write_event(entry, &mut numbers, &mut out)?;
        }
        let (time, lines, digest) = (self.ended.as_nanos(), out.lines + 1, out.digest.0);
        let lost = self.lost;
        writeln!(
            out.out,
            "{{\"time\":{time},\"event\":\"end\",\"lines\":{lines},\"queued\":null,\"lost\":{lost},\
             \"digest\":\"{digest:016x}\"}}"
        )?;
        out.out.flush()
    }

    fn write_event(
        &self,
        entry: &Entry,
        numbers: &mut Numbers,
        out: &mut Digested<impl Write>,
    ) -> io::Result<()> {
        let is_expiry = matches!(
            entry.event,
            Event::ExpireEntry { .. } | Event::WheelExpire { .. }
        );
        let anew = self.is_flight && is_expiry;
        let (timer, is_new) = match entry.event.subject() {
            Some(Subject::Exact(timer)) => numbers.of(timer, true, anew),
            Some(Subject::Coarse(timer)) => numbers.of(timer, false, anew),
            Some(Subject::Either(timer)) => match numbers.by_address.get(&timer.0) {
                Some(known) => (*known, false),
                // Its callback runs since before the recording, or its start follows.
                None => return Ok(()),
            },
            None => (Number::NONE, false),
        };
        let time = entry.time.as_nanos();
        if is_new && self.was_queued(entry, timer.is_exact) {
            let key = if timer.is_exact { "hrtimer" } else { "timer" };
            let number = timer.number;
            out.line(format_args!(
                "{{\"time\":{time},\"cpu\":null,\"event\":\"{key}_queued\",\"{key}\":{number}}}"
            ))?;
        }
        out.line(format_args!(
            "{}",
            Line {
                time,
                cpu: entry.cpu,
                event: &entry.event,
                timer,
            }
        ))
    }

    /// Returns true if the first event of a timer shows that the timer was queued before the event, and before the
    /// recording began.
    fn was_queued(&self, entry: &Entry, is_exact: bool) -> bool {
        let (timer, shows_it) = match entry.event {
            Event::Start {
                timer, was_armed, ..
            }
            | Event::WheelArm {
                timer, was_armed, ..
            } => (timer, was_armed),
            Event::Cancel { timer, .. }
            | Event::WheelCancel { timer, .. }
            | Event::ExpireEntry { timer, .. }
            | Event::WheelExpire { timer, .. } => (timer, true),
            _ => return false,
        };
        let could_be =
            self.before.queued.contains(&(timer.0, is_exact)) || entry.number < self.before.until;
        shows_it && could_be
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Trace")
            .field("events", &self.entries.len())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

/// The numbers of timers.
#[derive(Default)]
struct Numbers {
    numbers: HashMap<(usize, bool), u64>,
    last: u64,
    /// The timer at each address, or the last timer that was there.
    by_address: HashMap<usize, Number>,
}

impl Numbers {
    /// Returns the number of a timer, and whether this is its first event. `anew` if it is another timer than the one
    /// that was there before.
    fn of(&mut self, timer: TimerId, is_exact: bool, anew: bool) -> (Number, bool) {
        let number = self.numbers.entry((timer.0, is_exact)).or_default();
        let is_first = anew || *number == 0;
        if is_first {
            self.last += 1;
            *number = self.last;
        }
        let (number, is_exact) = (*number, is_exact);
        let known = Number { number, is_exact };
        self.by_address.insert(timer.0, known);
        (known, is_first)
    }
}

/// The FNV-1a digest of the lines, as the format defines it.
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, line: &[u8]) {
        for byte in line.iter().chain(&[0xFF]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// A writer of lines that counts the lines and computes their digest.
struct Digested<W: Write> {
    out: BufWriter<W>,
    digest: Digest,
    lines: u64,
}

impl<W: Write> Digested<W> {
    fn line(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        let line = line.to_string();
        self.digest.add(line.as_bytes());
        self.lines += 1;
        writeln!(self.out, "{line}")
    }
}

/// A text that is displayed as a JSON string.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("\"")?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(out, "\\{letter}")?,
                '\0'..='\u{1F}' => write!(out, "\\u{:04x}", u32::from(letter))?,
                _ => write!(out, "{letter}")?,
            }
        }
        out.write_str("\"")
    }
}
