//! The check of the Linux kernel's own events of timers, ticks and the migration hierarchy.
//!
//! A recording begins while timers are queued, and a recorder may miss events. So a timer is judged from its first start
//! or set-up on. A failed check counts as unsure, not as broken, if events of its CPUs may be missing: a CPU whose idle
//! task the recorder does not see is *blind*.

mod blind;
mod groups;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

pub use record::{Format, Record, lost};

use self::blind::Sight;
use self::groups::Groups;
use super::findings::{ANY, CONTEXT, COVERED, EARLY, Findings, HIDDEN, LATE, MONOTONIC, TICKS};
use super::nanos;
use super::ticks::Ticks;
use super::timers::{Armed, Firing, Timers};
use crate::promise::monotonic;

/// The lateness that a timer may have unless the caller sets another one: 100 ms. A guest stands still for tens of
/// milliseconds while its host runs others.
const LATE_MAX: i64 = 100_000_000;
/// The rounding of a time stamp, in nanoseconds: tracefs prints microseconds.
const ROUNDING: i64 = 1_001;
/// The longest time from the reading of the clock in an interrupt to the time stamp of its first callback, in
/// nanoseconds. If it is longer, or the time stamp is earlier, the recorder used another clock.
const SAME_CLOCK: i64 = 1_000_000_000;
/// The lengths of a tick that Linux can be built with, in nanoseconds.
const TICKS_KNOWN: [i64; 4] = [1_000_000, 3_333_333, 4_000_000, 10_000_000];
/// The slots of a level of the wheel, and the factor from one level to the next.
const SLOTS: u64 = 64;
const FACTOR: u64 = 8;

/// The clocks of timers, in the order in which their offsets are kept.
const UNKNOWN: usize = 0;
const MONOTONIC_CLOCK: usize = 1;
const JIFFIES: usize = 5;
const CLOCKS: usize = 6;

/// The events that the promises need.
const NEEDED: [&str; 10] = [
    "hrtimer_setup",
    "hrtimer_start",
    "hrtimer_cancel",
    "hrtimer_expire_entry",
    "timer_start",
    "timer_cancel",
    "timer_expire_entry",
    "tick_stop",
    "timer_base_idle",
    "tmigr_cpu_idle",
];
/// The arguments without which an event cannot be judged: the first is an address, the others are numbers.
const ARGUMENTS: [(&str, &[&str]); 9] = [
    ("hrtimer_setup", &["hrtimer"]),
    ("hrtimer_start", &["hrtimer", "expires"]),
    ("hrtimer_cancel", &["hrtimer"]),
    ("hrtimer_expire_entry", &["hrtimer", "now"]),
    ("hrtimer_expire_exit", &["hrtimer"]),
    ("timer_start", &["timer", "expires"]),
    ("timer_cancel", &["timer"]),
    ("timer_expire_entry", &["timer", "now"]),
    ("timer_expire_exit", &["timer"]),
];
/// The number of losses that are told one by one.
const TOLD: usize = 8;
/// How far the time of a CPU may go back, in nanoseconds. A kernel's buffer of a CPU is in order.
const BACK: i64 = 1_000_000;

/// An exact timer, besides what is common to all timers.
#[derive(Clone, Copy, Debug, Default)]
struct Exact {
    clock: usize,
    /// True if its callback runs in the soft stage; `None` if that is not known.
    is_soft: Option<bool>,
    /// The time of its last start.
    started: i64,
    /// Its last deadline, if it is the tick of a CPU.
    ticked: Option<i64>,
}

/// A checker of Linux's events, which is given the lines in order.
#[derive(Debug)]
pub struct Checker {
    late_max: i64,
    timers: Timers,
    ticks: Ticks,
    groups: Groups,
    sight: Sight,
    exact: HashMap<u64, Exact>,
    /// The smallest difference from a clock of timers to the time stamps, in the unit of that clock.
    offsets: [Option<i64>; CLOCKS],
    /// True if the time stamps are those of the monotonic clock.
    is_monotonic: Option<bool>,
    /// The length of a tick in nanoseconds.
    tick: Option<i64>,
    /// The number of the newest tick, as each CPU has seen it.
    jiffies: BTreeMap<u32, i64>,
    /// The CPUs whose tick is stopped.
    stopped: BTreeSet<u32>,
    seen: BTreeSet<&'static str>,
    format: Option<Format>,
    is_seconds: bool,
    names: HashMap<String, Rc<str>>,
    lost: u64,
    missing: Vec<String>,
    /// The number of losses that `missing` does not tell.
    untold: u64,
    /// The time of the last event of each CPU.
    times: BTreeMap<u32, i64>,
    findings: Findings,
}

/// What a check of a whole trace found.
#[derive(Debug)]
pub struct Report {
    /// The findings.
    pub findings: Findings,
    /// The number of events that are missing, as far as the trace says so.
    pub lost: u64,
    /// The parts that are missing, so that not all could be judged.
    pub missing: Vec<String>,
    /// The format and the clock of the trace, and the events that it lacks.
    pub notes: Vec<String>,
}

impl Checker {
    /// Makes a checker. A timer may be late by `late_max` nanoseconds.
    #[must_use]
    pub fn new(late_max: Option<u64>) -> Self {
        Self {
            late_max: late_max.map_or(LATE_MAX, nanos),
            timers: Timers::new(false),
            ticks: Ticks::default(),
            groups: Groups::default(),
            sight: Sight::default(),
            exact: HashMap::new(),
            offsets: [None; CLOCKS],
            is_monotonic: None,
            tick: None,
            jiffies: BTreeMap::new(),
            stopped: BTreeSet::new(),
            seen: BTreeSet::new(),
            format: None,
            is_seconds: true,
            names: HashMap::new(),
            lost: 0,
            missing: Vec::new(),
            untold: 0,
            times: BTreeMap::new(),
            findings: Findings::default(),
        }
    }

    /// Returns true if any line was that of an event.
    #[must_use]
    pub const fn has_events(&self) -> bool {
        self.format.is_some()
    }

    /// Takes the line `number`. A line that is not that of an event is passed over, unless it says that events are
    /// missing.
    pub fn take(&mut self, number: u64, line: &str) {
        if let Some(record) = Record::parse(line) {
            self.event(number, &record);
        } else if let Some(count) = lost(line) {
            self.lost += count;
            let what = match count {
                0 => "events were lost here, and how many is not said".to_owned(),
                1 => "an event was lost here".to_owned(),
                _ => format!("{count} events were lost here"),
            };
            self.lose(format!("line {number}: {what}"));
        } else if let Some((event, _)) = ARGUMENTS
            .iter()
            .find(|(event, _)| !line.starts_with('#') && line.contains(&format!("{event}:")))
        {
            self.lose(format!(
                "line {number}: an event {event} whose task, CPU or time cannot be read"
            ));
        } else if let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written: ") {
            let mut counts = counts.split(['/', ' ']).map(str::parse::<u64>);
            if let (Some(Ok(kept)), Some(Ok(written))) = (counts.next(), counts.next())
                && kept < written
            {
                self.lost += written - kept;
                self.lose(format!(
                    "the first {} of {written} events were overwritten",
                    written - kept
                ));
            }
        }
    }

    /// Forgets all that was known, because events are missing.
    fn lose(&mut self, what: String) {
        if self.missing.len() < TOLD {
            self.missing.push(what);
        } else {
            self.untold += 1;
        }
        self.timers.forget_all();
        self.ticks = Ticks::default();
        self.groups = Groups::default();
        self.stopped.clear();
        for one in self.exact.values_mut() {
            one.ticked = None;
        }
    }

    fn event(&mut self, number: u64, record: &Record<'_>) {
        let to = &mut self.findings;
        (to.line, to.time, to.cpu) = (number, record.time, Some(record.cpu));
        self.format.get_or_insert(record.format);
        self.is_seconds &= record.is_seconds;
        let last = self.times.insert(record.cpu, record.time);
        if let Some(last) = last.filter(|last| record.time < last.saturating_sub(BACK)) {
            let (back, cpu) = (last - record.time, record.cpu);
            return self.lose(format!(
                "line {number}: the time of CPU {cpu} goes back by {back} ns, or it was wrong in the line before"
            ));
        }
        let arguments = ARGUMENTS.iter().find(|(event, _)| *event == record.event);
        let lacks = arguments.and_then(|(_, keys)| record.lacks(keys));
        if let Some(key) = lacks {
            let event = record.event;
            return self.lose(format!(
                "line {number}: {event} without `{key}=` and a number that can be read"
            ));
        }
        self.sight.see(record);
        if let Some(name) = NEEDED.iter().find(|name| **name == record.event) {
            self.seen.insert(name);
        }
        // An event without what it is about, as another version may print it, is not judged.
        let _judged: Option<()> = self.judge(record);
    }

    fn judge(&mut self, record: &Record<'_>) -> Option<()> {
        let to = &mut self.findings;
        let exact = || record.address("hrtimer");
        let coarse = || record.address("timer");
        match record.event {
            "hrtimer_setup" | "hrtimer_init" => self.set_up(record, exact()?),
            "hrtimer_start" => self.exact_start(record, exact()?)?,
            "hrtimer_cancel" => self.timers.cancel(exact()?, to),
            "hrtimer_expire_entry" => self.exact_fires(record, exact()?, record.number("now")?),
            "hrtimer_expire_exit" => self.timers.returns(exact()?, to),
            "timer_init" => self.timers.set_up(coarse()?, to),
            "timer_start" => self.coarse_start(record, coarse()?)?,
            "timer_cancel" => self.timers.cancel(coarse()?, to),
            "timer_expire_entry" => self.coarse_fires(record, coarse()?)?,
            "timer_expire_exit" => self.timers.returns(coarse()?, to),
            "tick_stop" => self.tick_stops(record)?,
            "timer_base_idle" => {
                let cpu = u32::try_from(record.number("cpu")?).ok()?;
                let is_idle = record.number("is_idle")? != 0;
                if !is_idle {
                    self.stopped.remove(&cpu);
                }
                self.ticks.idles(cpu, is_idle, to);
            }
            event if event.starts_with("tmigr_") => {
                let first = self
                    .timers
                    .first(record.cpu, true)
                    .and_then(|bucket| self.began(bucket));
                let clock = self.is_monotonic == Some(true);
                self.groups
                    .take(record, (first, clock), self.tick, &mut self.findings)?;
            }
            _ => {}
        }
        Some(())
    }

    fn set_up(&mut self, record: &Record<'_>, id: u64) {
        self.timers.set_up(id, &mut self.findings);
        let is_relative = record.get("mode").is_some_and(|mode| mode.contains("REL"));
        let clock = match record.get("clockid").unwrap_or("") {
            "CLOCK_MONOTONIC" => MONOTONIC_CLOCK,
            // The kernel runs a relative sleep of this clock on the monotonic one.
            "CLOCK_REALTIME" if is_relative => MONOTONIC_CLOCK,
            "CLOCK_REALTIME" => 2,
            "CLOCK_BOOTTIME" => 3,
            "CLOCK_TAI" => 4,
            _ => UNKNOWN,
        };
        let fresh = Exact {
            clock,
            ..Exact::default()
        };
        self.exact.insert(id, fresh);
    }

    /// Returns a description of a timer that a task starts.
    fn name(&mut self, record: &Record<'_>) -> Rc<str> {
        let name = format!("{}, started by {}", record.function(), record.task);
        if let Some(known) = self.names.get(&name) {
            return Rc::clone(known);
        }
        let shared: Rc<str> = name.as_str().into();
        self.names.insert(name, Rc::clone(&shared));
        shared
    }

    fn exact_start(&mut self, record: &Record<'_>, id: u64) -> Option<()> {
        let due = record.number("expires")?;
        let is_tick = is_tick(record.function());
        let exact = self.exact.entry(id).or_default();
        if is_tick {
            exact.clock = MONOTONIC_CLOCK;
        }
        exact.is_soft = record.get("mode").map(is_soft);
        exact.started = record.time;
        let (clock, ticked) = (exact.clock, exact.ticked);
        let was_armed = record.number("was_armed").map(|armed| armed != 0);
        if is_tick {
            self.tick_starts(record, due, ticked);
        }
        let armed = Armed {
            of_cpu: record.cpu,
            earliest: record.number("softexpires").unwrap_or(due),
            due,
            late_max: self.late_max,
            unit: "ns",
            clock,
            bucket: None,
            // The idle task starts the tick anew when it stops or restarts it.
            doubted: is_tick.then_some(record.cpu),
            line: self.findings.line,
        };
        let name = self.name(record);
        self.timers
            .start(id, armed, was_armed, Some(name), &mut self.findings);
        Some(())
    }

    /// Checks a start of the tick of a CPU: it goes on by whole ticks, and a stopped one wakes the CPU for the first
    /// coarse timer that no other CPU may run.
    fn tick_starts(&mut self, record: &Record<'_>, due: i64, ticked: Option<i64>) {
        let cpu = record.cpu;
        let is_stopped = record.pid == 0 && self.stopped.contains(&cpu);
        let bucket = is_stopped.then(|| self.timers.first(cpu, false)).flatten();
        let first = bucket.and_then(|one| Some((one, self.began(one)?)));
        // A CPU without a timer wakes before its clock wraps, whenever that is.
        let waits = is_stopped && first.is_none_or(|(_, first)| first > due);
        if let (Some(last), Some(tick)) = (ticked, self.tick) {
            let ahead = due.saturating_sub(last);
            let wrong = (ahead % tick != 0 && !waits).then(|| {
                format!("the tick of CPU {cpu} goes on {ahead} ns after it, which is no number of ticks of {tick} ns")
            });
            self.findings.suspect(TICKS, [Some(cpu), None, None], wrong);
        }
        if let Some((bucket, first)) = first {
            let latest = first.saturating_add(self.tick.unwrap_or(0));
            let wrong = (due > latest).then(|| {
                format!(
                    "CPU {cpu} stopped its tick and wakes at {due}, and its own coarse timer is due in jiffy {bucket}, at \
                     {first}"
                )
            });
            self.findings
                .suspect(COVERED, [Some(cpu), None, None], wrong);
        }
    }

    fn exact_fires(&mut self, record: &Record<'_>, id: u64, now: i64) {
        let function = record.function();
        let exact = self.exact.entry(id).or_default();
        let due = self.timers.armed(id).map(|armed| armed.due);
        if is_tick(function) {
            exact.clock = MONOTONIC_CLOCK;
            let last = std::mem::replace(&mut exact.ticked, due);
            if let (Some(last), Some(due)) = (last, due) {
                let apart = due.saturating_sub(last);
                let known = TICKS_KNOWN.contains(&apart);
                self.tick = self
                    .tick
                    .min(known.then_some(apart))
                    .or(self.tick)
                    .or(known.then_some(apart));
            }
        }
        let exact = *exact;
        self.timers.describe(id, function);
        if exact.clock == MONOTONIC_CLOCK {
            self.reads_clock(record, now);
        }
        self.offset(exact.clock, record.time.saturating_sub(now));
        if let (Some(context), Some(is_soft)) = (record.context, exact.is_soft) {
            let is_right = match context {
                b'h' | b'H' => !is_soft,
                b's' => is_soft,
                _ => false,
            };
            let wrong = (!is_right).then(|| {
                let runs = if is_soft {
                    "the soft stage"
                } else {
                    "a hard interrupt"
                };
                format!("{} is to run in {runs}, and does not", self.timers.name(id))
            });
            self.findings.check(CONTEXT, wrong);
        }
        // A timer whose deadline was over when it was started is late from then on.
        let since = record.time.saturating_sub(exact.started);
        let latest = due
            .filter(|_| self.is_seconds)
            .map(|due| due.saturating_add(since));
        let firing = Firing {
            id,
            at: now,
            now: now.min(latest.unwrap_or(now)),
        };
        self.timers.fires(firing, false, &mut self.findings);
    }

    /// Checks what an interrupt read from the monotonic clock: no later time than that of its event.
    fn reads_clock(&mut self, record: &Record<'_>, now: i64) {
        let ahead = now.saturating_sub(record.time);
        let is_monotonic = *self
            .is_monotonic
            .get_or_insert((-SAME_CLOCK..=ROUNDING).contains(&ahead));
        if is_monotonic {
            let wrong = (ahead > ROUNDING).then(|| {
                format!("an interrupt read {now} from the clock, {ahead} ns after its event")
            });
            self.findings.check(MONOTONIC, wrong);
        }
    }

    fn offset(&mut self, clock: usize, of: i64) {
        let known = &mut self.offsets[clock];
        *known = Some(known.map_or(of, |known| known.min(of)));
    }

    /// Returns the time at which a tick began, by the monotonic clock.
    fn began(&self, jiffy: u64) -> Option<i64> {
        let tick = self.tick?;
        let offset = self.offsets[JIFFIES].filter(|_| self.is_monotonic == Some(true))?;
        nanos(jiffy).checked_mul(tick)?.checked_add(offset)
    }

    fn coarse_start(&mut self, record: &Record<'_>, id: u64) -> Option<()> {
        let expires = u64::try_from(record.number("expires")?).ok()?;
        let bucket = record.number("bucket_expiry").map(i64::cast_unsigned);
        let bucket = bucket.unwrap_or(expires);
        if let Some(slot) = record.number("idx").map(i64::cast_unsigned) {
            let wrong = misfiled(expires, bucket, slot, record.timeout());
            self.findings
                .check(LATE, wrong.map(|why| format!("timer {id:016x}: {why}")));
        }
        // perf and trace-cmd print the same flags for all timers.
        let flags = record
            .get("flags")
            .filter(|_| record.format == Format::Tracefs);
        let has = |flag: char| {
            flags.is_some_and(|flags| flags.split('|').any(|one| one.starts_with(flag)))
        };
        let is_deferrable = flags.is_none() || has('D');
        let of_cpu = record.number("cpu").and_then(|cpu| u32::try_from(cpu).ok());
        let tick = self.tick.unwrap_or(TICKS_KNOWN[0]);
        let armed = Armed {
            of_cpu: of_cpu.unwrap_or(record.cpu),
            earliest: nanos(bucket),
            due: nanos(bucket),
            late_max: if is_deferrable {
                i64::MAX
            } else {
                self.late_max / tick + 1
            },
            unit: "ticks",
            clock: JIFFIES,
            bucket: (!is_deferrable).then_some((bucket, !has('P'))),
            doubted: None,
            line: self.findings.line,
        };
        let name = self.name(record);
        let to = &mut self.findings;
        self.timers.start(id, armed, Some(false), Some(name), to);
        Some(())
    }

    fn coarse_fires(&mut self, record: &Record<'_>, id: u64) -> Option<()> {
        let now = record.number("now")?;
        let cpu = record.cpu;
        if let Some(last) = self.jiffies.insert(cpu, now) {
            self.findings
                .check(MONOTONIC, monotonic::goes_back(last, now));
        }
        if let Some(tick) = self.tick {
            self.offset(
                JIFFIES,
                record.time.saturating_sub(now.saturating_mul(tick)),
            );
        }
        if let Some(context) = record.context {
            let wrong = (context != b's').then(|| {
                format!(
                    "{} is to run in the soft stage, and does not",
                    self.timers.name(id)
                )
            });
            self.findings.check(CONTEXT, wrong);
        }
        self.timers.describe(id, record.function());
        // The wheel may catch up: it then serves the bucket before the next one.
        let served = record
            .number("baseclk")
            .map_or(now, |clock| clock.saturating_add(1));
        let at = now.min(served);
        let to = &mut self.findings;
        let armed = self.timers.fires(Firing { id, at, now }, true, to)?;
        if armed.of_cpu != cpu && record.format == Format::Tracefs {
            let name = self.timers.name(id);
            let owner = armed.of_cpu;
            let wrong = match armed.bucket {
                Some((_, true)) => self.groups.serves(cpu, owner).map(|why| {
                    format!("{name} is a timer of CPU {owner}, and CPU {cpu} runs it: {why}")
                }),
                _ => Some(format!(
                    "{name} is pinned to CPU {owner}, and CPU {cpu} runs it"
                )),
            };
            self.findings
                .suspect(COVERED, [Some(cpu), Some(owner), None], wrong);
        }
        Some(())
    }

    fn tick_stops(&mut self, record: &Record<'_>) -> Option<()> {
        let cpu = record.cpu;
        let is_stopped = record.number("success")? != 0;
        let is_free = record.get("dependency").is_none_or(|why| why == "NONE");
        let wrong = (is_stopped != is_free).then(|| {
            let does = if is_stopped {
                "is stopped"
            } else {
                "is not stopped"
            };
            let why = record.get("dependency").unwrap_or("NONE");
            format!("the tick of CPU {cpu} {does}, and what needs it is {why}")
        });
        self.findings.check(TICKS, wrong);
        if !is_stopped {
            return Some(());
        }
        self.stopped.insert(cpu);
        let newest = self.jiffies.values().max().copied();
        for is_movable in [true, false] {
            let first = self.timers.first(cpu, is_movable).map(nanos);
            let wrong = first.filter(|first| newest.is_some_and(|newest| *first < newest));
            let wrong = wrong.map(|first| {
                format!("the tick of CPU {cpu} is stopped, and its coarse timer was due in jiffy {first}")
            });
            self.findings
                .suspect(COVERED, [Some(cpu), None, None], wrong);
        }
        Some(())
    }

    /// Ends the check.
    #[must_use]
    pub fn end(mut self) -> Report {
        let (time, tick) = (self.findings.time, self.tick);
        let (offsets, sight, is_seconds) = (self.offsets, &self.sight, self.is_seconds);
        // The time of the end by the timer's clock. A CPU that was silent since then may have lost its events.
        let end = |armed: &Armed, cpu: Option<u32>| {
            let offset = offsets[armed.clock].filter(|_| is_seconds && armed.clock != UNKNOWN)?;
            let unit = if armed.clock == JIFFIES { tick? } else { 1 };
            let last = cpu.and_then(|cpu| sight.last(cpu)).unwrap_or(time);
            let by = |time: i64| time.saturating_sub(offset) / unit;
            let is_silent = by(last) <= armed.due.saturating_add(armed.late_max.min(i64::MAX / 2));
            Some((by(time), cpu.filter(|_| is_silent)))
        };
        let hidden = self.timers.hidden.map(|id| self.timers.name(id));
        self.findings.cpu = None;
        self.timers.end(end, &mut self.findings);
        let is_whole = self.missing.is_empty();
        let mut blind = BTreeSet::new();
        for cpu in self.sight.blind() {
            blind.insert(cpu);
            self.missing.push(format!(
                "CPU {cpu}: the recorder does not see its idle task, so starts and stops of its tick are missing"
            ));
        }
        let silent = self.sight.silent(time);
        self.findings.settle(|cpu| {
            !is_whole
                || blind.contains(&cpu)
                || silent.contains(&cpu)
                || (cpu == HIDDEN && hidden.is_some())
                || (cpu == ANY && !(blind.is_empty() && silent.is_empty()))
        });
        let mut notes = Vec::new();
        if let Some(name) = hidden {
            let what = format!(
                "the recorder does not see all tasks: {name} fired twice, and no task started it"
            );
            if self.findings.unsure() > 0 {
                self.missing.push(what);
            } else {
                notes.push(what);
            }
        }
        let clock = match (self.is_monotonic, self.is_seconds) {
            (_, false) => "its time stamps are counts, not times: set trace_clock to mono",
            (Some(true), _) => "its time stamps are those of the monotonic clock",
            (Some(false), _) => {
                "its time stamps are not those of the monotonic clock: set trace_clock to mono, or record with perf -k mono"
            }
            (None, _) => {
                "no exact timer of the monotonic clock fired, so the clock of its time stamps is not known"
            }
        };
        let format = self.format.map_or("no known tool", Format::name);
        notes.push(format!("text of {format}; {clock}"));
        let lacks: Vec<_> = NEEDED
            .into_iter()
            .filter(|name| !self.seen.contains(name))
            .collect();
        if !lacks.is_empty() {
            notes.push(format!(
                "events that the trace does not have: {}",
                lacks.join(", ")
            ));
        }
        if self.format.is_some_and(|format| format != Format::Tracefs) {
            notes.push(format!(
                "{format} prints no contexts, and wrong flags of coarse timers: whether they are late, or run on a wrong \
                 CPU, is not judged"
            ));
        }
        if self.untold > 0 {
            let untold = self.untold;
            self.missing
                .push(format!("{untold} more places where events were lost"));
        }
        Report {
            findings: self.findings,
            lost: self.lost,
            missing: self.missing,
            notes,
        }
    }
}

/// Returns true for the function of the timer that is the tick of a CPU.
#[must_use]
pub fn is_tick(function: &str) -> bool {
    matches!(function, "tick_nohz_handler" | "tick_sched_timer")
}

/// Returns true if a mode, by its names or as a number, means the soft stage.
fn is_soft(mode: &str) -> bool {
    const SOFT: u32 = 4;
    let number = mode.strip_prefix("0x").unwrap_or(mode);
    u32::from_str_radix(number, 16).map_or(mode.contains("SOFT"), |mode| mode & SOFT != 0)
}

/// Describes the violation if a coarse timer was enqueued in a slot that does not fit its deadline.
fn misfiled(expires: u64, bucket: u64, slot: u64, timeout: Option<i64>) -> Option<String> {
    let level = u32::try_from(slot / SLOTS)
        .ok()
        .filter(|level| *level < 16)?;
    let width = FACTOR.checked_pow(level)?;
    let is_in_slot = bucket.is_multiple_of(width) && bucket / width % SLOTS == slot % SLOTS;
    // One that was due already goes into the next slot.
    let is_near = timeout.is_none_or(|left| left < 0) || bucket <= expires.saturating_add(width);
    (!is_in_slot || !is_near).then(|| {
        format!("it expires in jiffy {expires}, and is enqueued for {bucket} in slot {slot}, which is not that of this time")
    })
}
