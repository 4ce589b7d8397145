//! The count of the kernel's timers, by the task that starts them and by their function.

use std::collections::{BTreeMap, HashMap, HashSet};

use hdrhistogram::Histogram;
use tickless_sim::promise::trace::linux::{Record, is_tick, lost};

/// The significant digits of a time that are kept.
const DIGITS: u8 = 2;
/// The functions of timers that programs ask for. Slack is for these.
const OF_PROGRAMS: [&str; 4] = [
    "hrtimer_wakeup",
    "it_real_fn",
    "posix_timer_fn",
    "timerfd_tmrproc",
];
/// The deadlines of a CPU that are kept before the interrupts for them are counted.
const WINDOWS: usize = 1 << 16;
/// The longest time from a dequeue to the start that belongs to it, in nanoseconds.
const MOVES: i64 = 20_000;
/// The name of the task of a tick, and of a timer that was started where the trace does not show it.
const NOBODY: &str = "?";

/// The counts of a task and a function.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) function: String,
    /// True for a timer of the wheel, whose times are ticks.
    pub(super) is_coarse: bool,
    pub(super) starts: u64,
    /// The starts of timers that were queued.
    pub(super) rearms: u64,
    pub(super) cancels: u64,
    pub(super) expiries: u64,
    /// The timer interrupts whose first callback it was, and those of them that found the CPU idle.
    pub(super) interrupts: u64,
    pub(super) from_idle: u64,
    /// The tasks that its callbacks woke.
    pub(super) wakes: u64,
    /// The expiries on another CPU than that of the timer.
    pub(super) remote: u64,
    /// The time from the deadline that was asked for to the reading of the clock.
    pub(super) late: Histogram<u64>,
    pub(super) slack: Histogram<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    row: usize,
    soft: i64,
    hard: i64,
    /// The time of its start, by the clock of the trace.
    started: i64,
    /// The CPU of a timer of the wheel.
    cpu: Option<u32>,
}

/// What a CPU did last.
#[derive(Debug, Default)]
struct Cpu {
    /// The number of timer interrupts, and of those that ran no exact timer.
    interrupts: u64,
    empty: u64,
    /// True in a timer interrupt that has run no exact timer yet; with it, true if it found the CPU idle.
    entered: Option<bool>,
    /// The timer of the wheel that it took out of its queue, and when.
    dequeued: Option<(u64, Queued, i64)>,
    runs: Option<usize>,
    /// The timer whose callback ended last.
    ran: Option<(u64, usize)>,
    /// The deadlines that it served: from, to, and whether a program asked for it.
    windows: Vec<(i64, i64, bool)>,
}

/// What the trace shows so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: Vec<Row>,
    places: HashMap<String, HashMap<String, usize>>,
    queued: HashMap<u64, Queued>,
    cpus: BTreeMap<u32, Cpu>,
    /// The tasks that are counted, unless all are.
    only: Option<HashSet<u32>>,
    /// The slack to compute with.
    slack: Option<i64>,
    /// The interrupts for the deadlines as they were, and with that slack.
    points: (u64, u64),
    begin: Option<i64>,
    end: i64,
    pub(super) events: u64,
    pub(super) lost: u64,
    /// The expiries of timers that no start was seen of.
    pub(super) unstarted: u64,
    /// The expiries on one CPU for another: who served whom.
    pub(super) served: BTreeMap<(u32, u32), u64>,
}

impl Tally {
    pub(super) fn new(slack: Option<i64>) -> Self {
        Self {
            slack,
            ..Self::default()
        }
    }

    /// Counts only the timers of a process and of those that it begets.
    pub(super) fn only(&mut self, process: u32) {
        self.only = Some(HashSet::from([process]));
    }

    /// Begins to count anew, with what is known of queued timers.
    pub(super) fn restart(&mut self) {
        let fresh = Self::new(self.slack);
        let old = std::mem::replace(self, fresh);
        self.only = old.only;
        let mut keep = |mut one: Queued| {
            let row = &old.rows[one.row];
            one.row = self.row(&row.task, &row.function, row.is_coarse);
            one
        };
        self.queued = old
            .queued
            .into_iter()
            .map(|(id, one)| (id, keep(one)))
            .collect();
        self.begin = Some(old.end);
    }

    /// Returns the length of the trace in seconds.
    pub(super) fn seconds(&self) -> f64 {
        let begin = self.begin.unwrap_or(self.end);
        self.end.saturating_sub(begin) as f64 / 1e9
    }

    /// Returns the rows in which something happened, the busiest first.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let all = |row: &Row| row.starts + row.cancels + row.expiries;
        let mut rows: Vec<_> = self.rows.iter().filter(|row| all(row) > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(all(row)));
        rows
    }

    /// Returns the timer interrupts of each CPU, and how many of them ran no exact timer.
    pub(super) fn interrupts(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.cpus
            .iter()
            .map(|(number, cpu)| (*number, cpu.interrupts, cpu.empty))
    }

    /// Returns the interrupts that the deadlines of all timers that fired would take at least, and those with the slack.
    pub(super) fn points(&mut self) -> Option<(u64, u64)> {
        let slack = self.slack?;
        for cpu in self.cpus.values_mut() {
            settle(&mut cpu.windows, slack, &mut self.points);
        }
        Some(self.points)
    }

    pub(super) fn take(&mut self, line: &str) {
        let Some(record) = Record::parse(line) else {
            self.lost += lost(line).unwrap_or(0);
            return;
        };
        self.events += 1;
        self.begin.get_or_insert(record.time);
        self.end = self.end.max(record.time);
        // An event that lacks what it is about, as another version may print it, is not counted.
        let _counted: Option<()> = self.event(&record);
    }

    fn event(&mut self, record: &Record<'_>) -> Option<()> {
        let cpu = self.cpus.entry(record.cpu).or_default();
        match record.event {
            "hrtimer_start" | "timer_start" => self.starts(record)?,
            "hrtimer_cancel" => {
                let one = self.queued.remove(&record.address("hrtimer")?)?;
                self.rows[one.row].cancels += 1;
            }
            // Before an expiry, and before a start that moves it, too.
            "timer_cancel" => {
                let id = record.address("timer")?;
                let one = self.queued.remove(&id)?;
                cpu.dequeued = Some((id, one, record.time));
                self.rows[one.row].cancels += 1;
            }
            "hrtimer_expire_entry" | "timer_expire_entry" => self.fires(record)?,
            "hrtimer_expire_exit" | "timer_expire_exit" => {
                let id = record
                    .address("hrtimer")
                    .or_else(|| record.address("timer"))?;
                cpu.ran = cpu.runs.take().map(|row| (id, row));
            }
            "local_timer_entry" => {
                cpu.interrupts += 1;
                cpu.empty += u64::from(cpu.entered.is_some());
                cpu.entered = Some(record.pid == 0);
            }
            "sched_waking" => self.rows[cpu.runs?].wakes += 1,
            "sched_process_fork" => {
                let child = u32::try_from(record.number("child_pid")?).ok()?;
                let only = self.only.as_mut().filter(|only| only.contains(&record.pid));
                only?.insert(child);
            }
            _ => {}
        }
        Some(())
    }

    fn row(&mut self, task: &str, function: &str, is_coarse: bool) -> usize {
        let known = self
            .places
            .get(task)
            .and_then(|places| places.get(function));
        if let Some(place) = known {
            return *place;
        }
        let fresh = || Histogram::new(DIGITS).expect("two digits are within bounds");
        self.rows.push(Row {
            task: task.to_owned(),
            function: function.to_owned(),
            is_coarse,
            starts: 0,
            rearms: 0,
            cancels: 0,
            expiries: 0,
            interrupts: 0,
            from_idle: 0,
            wakes: 0,
            remote: 0,
            late: fresh(),
            slack: fresh(),
        });
        let places = self.places.entry(task.to_owned()).or_default();
        places.insert(function.to_owned(), self.rows.len() - 1);
        self.rows.len() - 1
    }

    fn starts(&mut self, record: &Record<'_>) -> Option<()> {
        let is_coarse = record.event == "timer_start";
        let id = record.address(if is_coarse { "timer" } else { "hrtimer" })?;
        let hard = record.number("expires")?;
        let cpu = self.cpus.entry(record.cpu).or_default();
        let dequeued = cpu
            .dequeued
            .take_if(|(of, _, at)| *of == id && record.time.saturating_sub(*at) <= MOVES);
        // A callback that starts its timer again does it for the task that started it first.
        let again = cpu.ran.filter(|(of, _)| *of == id).map(|(_, row)| row);
        let function = record.function();
        let is_inside = record.context.is_some_and(|context| context != b'.');
        let is_own = |only: &HashSet<u32>| !is_inside && only.contains(&record.pid);
        let row = if is_tick(function) && self.only.is_none() {
            self.row("<tick>", function, false)
        } else if let Some(row) = again {
            row
        } else if !self.only.as_ref().is_none_or(is_own) || is_tick(function) {
            self.queued.remove(&id);
            return None;
        } else {
            let task = if is_inside {
                "<interrupt>"
            } else {
                record.task
            };
            self.row(task, function, is_coarse)
        };
        // A timer of the wheel that was due already is due now.
        let over = record
            .timeout()
            .map_or(0, |timeout| timeout.saturating_neg().max(0));
        let soft = record
            .number("softexpires")
            .unwrap_or(hard.saturating_add(over));
        let number = |key| {
            record
                .number(key)
                .and_then(|number| u32::try_from(number).ok())
        };
        let one = Queued {
            row,
            soft,
            hard,
            started: record.time,
            cpu: number("cpu"),
        };
        let was_queued = self.queued.insert(id, one).is_some() || number("was_armed") == Some(1);
        if let Some((_, old, _)) = dequeued {
            self.rows[old.row].cancels -= 1;
        }
        let row = &mut self.rows[row];
        row.starts += 1;
        row.rearms += u64::from(was_queued || dequeued.is_some());
        if !is_coarse {
            note(&mut row.slack, hard.saturating_sub(soft));
        }
        Some(())
    }

    fn fires(&mut self, record: &Record<'_>) -> Option<()> {
        let is_coarse = record.event == "timer_expire_entry";
        let id = record.address(if is_coarse { "timer" } else { "hrtimer" })?;
        let now = record.number("now")?;
        let cpu = self.cpus.entry(record.cpu).or_default();
        let dequeued = cpu.dequeued.take_if(|(of, ..)| *of == id);
        let entered = if is_coarse { None } else { cpu.entered.take() };
        if let Some((_, old, _)) = dequeued {
            self.rows[old.row].cancels -= 1;
        }
        let known = self.queued.remove(&id).or(dequeued.map(|(_, one, _)| one));
        let row = match known {
            Some(one) => one.row,
            None if self.only.is_some() => return None,
            None => {
                self.unstarted += 1;
                self.row(NOBODY, record.function(), is_coarse)
            }
        };
        let cpu = self.cpus.entry(record.cpu).or_default();
        cpu.runs = Some(row);
        let to = &mut self.rows[row];
        to.expiries += 1;
        to.interrupts += u64::from(entered.is_some());
        to.from_idle += u64::from(entered == Some(true));
        let one = known?;
        let mut late = now.saturating_sub(one.soft);
        if !is_coarse {
            // Its deadline may have been over when it was started.
            late = late.min(record.time.saturating_sub(one.started));
        }
        note(&mut to.late, late);
        if let Some(owner) = one.cpu.filter(|owner| *owner != record.cpu) {
            to.remote += 1;
            *self.served.entry((record.cpu, owner)).or_default() += 1;
        }
        if let Some(slack) = self.slack.filter(|_| !is_coarse) {
            let is_asked = OF_PROGRAMS.contains(&record.function());
            // The deadlines of other clocks, by the clock of the trace.
            let ahead = record.time.saturating_sub(now);
            let ahead = if ahead.abs() < 1_000_000_000 {
                0
            } else {
                ahead
            };
            let by = |time: i64| time.saturating_add(ahead);
            let from = by(one.soft).max(one.started);
            cpu.windows.push((from, by(one.hard).max(from), is_asked));
            if cpu.windows.len() >= WINDOWS {
                settle(&mut cpu.windows, slack, &mut self.points);
            }
        }
        Some(())
    }
}

/// Counts a time in a histogram, which grows with it.
fn note(histogram: &mut Histogram<u64>, time: i64) {
    let _grown = histogram.record(time.max(0).cast_unsigned());
}

/// Counts the interrupts for the deadlines of a CPU, and forgets these.
fn settle(windows: &mut Vec<(i64, i64, bool)>, slack: i64, into: &mut (u64, u64)) {
    into.0 += fewest(windows.iter().map(|&(soft, hard, _)| (soft, hard)));
    let with = |&(soft, hard, is_asked): &(i64, i64, bool)| {
        let late = if is_asked {
            soft.saturating_add(slack)
        } else {
            hard
        };
        (soft, hard.max(late))
    };
    into.1 += fewest(windows.iter().map(with));
    windows.clear();
}

/// Returns the smallest number of moments such that one lies in each window.
fn fewest(windows: impl Iterator<Item = (i64, i64)>) -> u64 {
    let mut windows: Vec<_> = windows.map(|(from, to)| (to, from)).collect();
    windows.sort_unstable();
    let (mut count, mut last) = (0, None);
    for (to, from) in windows {
        if last.is_none_or(|last| from > last) {
            (count, last) = (count + 1, Some(to));
        }
    }
    count
}
