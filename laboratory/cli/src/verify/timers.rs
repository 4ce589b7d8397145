//! The check of timers: each timer is started, and then it fires in time, is cancelled, or is still queued at the end.

use std::collections::{BTreeSet, HashMap};

use super::findings::Findings;
use super::read::{Header, Line};
use super::{CANCEL, EARLY, LATE, LOST};
use crate::failure::Failure;

/// The deadline and the kind of a started timer.
#[derive(Clone, Copy, Debug)]
struct Armed {
    of_cpu: u32,
    /// The time before which the timer must not fire.
    earliest: i64,
    /// The time from which the timer counts as late.
    due: i64,
    /// True if the timer wakes no CPU, so that any lateness is allowed.
    is_deferrable: bool,
    /// The tick in which the timer is due; `None` for a timer that no other CPU may run.
    bucket: Option<u64>,
    line: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    armed: Option<Armed>,
    /// The CPU that executes the timer's callback.
    running_on: Option<u32>,
}

/// All timers that are queued or whose callbacks run.
#[derive(Debug)]
pub(super) struct Timers {
    cpus: u32,
    tick: u64,
    late_max: i64,
    live: HashMap<u64, Timer>,
    /// The timers of each CPU that other CPUs may run, sorted by their due ticks.
    movable: Vec<BTreeSet<(u64, u64)>>,
}

fn nanos(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Timers {
    pub(super) fn new(header: &Header, late_max: u64) -> Self {
        Self {
            cpus: header.cpus,
            tick: header.tick,
            late_max: nanos(late_max),
            live: HashMap::new(),
            movable: vec![BTreeSet::new(); header.cpus as usize],
        }
    }

    fn began(&self, tick: u64) -> i64 {
        nanos(tick.saturating_mul(self.tick))
    }

    /// Returns the due time of the first timer of `cpu` that other CPUs may run.
    pub(super) fn first_movable(&self, cpu: u32) -> Option<i64> {
        let (bucket, _) = self.movable[cpu as usize].first()?;
        Some(self.began(*bucket))
    }

    /// Returns the number of queued timers.
    pub(super) fn queued(&self) -> u64 {
        self.live
            .values()
            .filter(|timer| timer.armed.is_some())
            .count() as u64
    }

    /// `timer_start`.
    pub(super) fn coarse_start(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let of_cpu = line.number("of_cpu", "CPU", self.cpus)?;
        let (expires, bucket) = (line.whole("expires")?, line.whole("bucket_expiry")?);
        let now = line.whole("now")?;
        let flags = line.text("flags")?;
        if !["pinned", "global", "deferrable"].contains(&flags) {
            let what = format!("\"{flags}\" is not known");
            return Err(line.wrong("flags", &what, "pinned, global and deferrable are"));
        }
        to.check(LATE);
        // A slot is coarser the farther it is: 8/63 of the distance at most, and the tick in progress. The wheel may be
        // behind by as much as a timer may be late.
        let behind = nanos(self.late_max.unsigned_abs().div_ceil(self.tick)).unsigned_abs();
        let ahead = expires.saturating_sub(now).saturating_add(behind);
        let coarsest = expires
            .max(now)
            .saturating_add(ahead.saturating_mul(8) / 63 + 2);
        if bucket > coarsest {
            let what = format!("it is started for tick {expires} in {now}, and filed for {bucket}");
            to.broken(LATE, what);
        }
        let armed = Armed {
            of_cpu,
            // The whole tick has to be over.
            earliest: self.began(expires.saturating_add(1)),
            due: self.began(bucket),
            is_deferrable: flags == "deferrable",
            bucket: (flags == "global").then_some(bucket),
            line: line.number,
        };
        self.started(line.whole("timer")?, armed, line.is("was_armed")?, to);
        Ok(())
    }

    /// `hrtimer_start`.
    pub(super) fn exact_start(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let (soft, hard) = (line.time("softexpires")?, line.time("expires")?);
        if soft > hard {
            let what = format!("{soft} is after expires, {hard}");
            return Err(line.wrong("softexpires", &what, "it is the earlier one of both"));
        }
        let clock = line.text("clock")?;
        if !["monotonic", "realtime", "boottime", "tai"].contains(&clock) {
            let what = format!("\"{clock}\" is not known");
            let right = "monotonic, realtime, boottime and tai are";
            return Err(line.wrong("clock", &what, right));
        }
        // The others may be set: when such a timer is due is known when it fires.
        let (earliest, due) = match clock {
            "monotonic" => (soft, hard),
            _ => (i64::MIN, i64::MAX),
        };
        let armed = Armed {
            of_cpu: line.number("of_cpu", "CPU", self.cpus)?,
            earliest,
            due,
            is_deferrable: false,
            bucket: None,
            line: line.number,
        };
        self.started(line.whole("hrtimer")?, armed, line.is("was_armed")?, to);
        Ok(())
    }

    /// `hrtimer_expire_entry` of a timer on a clock that may be set: checks that the timer was due when the interrupt
    /// read that clock.
    pub(super) fn wall_fires(&self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let timer = self.live.get(&line.whole("hrtimer")?);
        let is_wall = |armed: Armed| armed.earliest == i64::MIN;
        if !timer.and_then(|timer| timer.armed).is_some_and(is_wall) {
            return Ok(());
        }
        let (now, soft) = (line.time("now")?, line.time("softexpires")?);
        if now < soft {
            let what = format!("its clock showed {now}, and it was to fire at {soft}");
            to.broken(EARLY, what);
        }
        Ok(())
    }

    /// `timer_queued` and `hrtimer_queued`: the timer was queued when the trace began, and nothing else is known of it.
    pub(super) fn was_queued(&mut self, id: u64, line: u64, to: &mut Findings) {
        to.check(LOST);
        let timer = self.live.entry(id).or_default();
        let armed = Armed {
            of_cpu: 0,
            earliest: i64::MIN,
            due: i64::MAX,
            is_deferrable: true,
            bucket: None,
            line,
        };
        if let Some(before) = timer.armed.replace(armed) {
            let what = format!(
                "timer {id} is said to be queued since before the trace, and line {} queued it",
                before.line
            );
            to.broken(LOST, what);
        }
    }

    fn started(&mut self, id: u64, armed: Armed, was_armed: bool, to: &mut Findings) {
        let timer = self.live.entry(id).or_default();
        let before = timer.armed.replace(armed);
        if let Some(bucket) = before.and_then(|before| before.bucket) {
            let of_cpu = before.map_or(0, |before| before.of_cpu);
            self.movable[of_cpu as usize].remove(&(bucket, id));
        }
        if let Some(bucket) = armed.bucket {
            self.movable[armed.of_cpu as usize].insert((bucket, id));
        }
        to.check(LOST);
        match before {
            Some(before) if !was_armed => {
                let what = format!(
                    "timer {id} is started as if it were not queued; line {} queued it, and it neither fired nor was \
                     cancelled",
                    before.line
                );
                to.broken(LOST, what);
            }
            None if was_armed => {
                let what = format!("timer {id} is started again, and was not started before");
                to.broken(LOST, what);
            }
            _ => {}
        }
    }

    fn take(&mut self, id: u64) -> Option<Armed> {
        let timer = self.live.get_mut(&id)?;
        let armed = timer.armed.take()?;
        if let Some(bucket) = armed.bucket {
            self.movable[armed.of_cpu as usize].remove(&(bucket, id));
        }
        Some(armed)
    }

    /// Removes a timer that is not queued and whose callback does not run.
    fn forget(&mut self, id: u64) {
        let is_over = |timer: &Timer| timer.armed.is_none() && timer.running_on.is_none();
        if self.live.get(&id).is_some_and(is_over) {
            self.live.remove(&id);
        }
    }

    /// `timer_cancel` and `hrtimer_cancel`.
    pub(super) fn cancel(&mut self, id: u64, to: &mut Findings) {
        to.check(LOST);
        if self.take(id).is_none() {
            to.broken(
                LOST,
                format!("timer {id} is cancelled, and was not started"),
            );
        }
        self.forget(id);
    }

    /// `timer_delete_sync`: a call told a program that the timer is cancelled and its callback does not run.
    pub(super) fn deleted(&mut self, id: u64, cpu: Option<u32>, to: &mut Findings) {
        to.check(CANCEL);
        let Some(timer) = self.live.get(&id) else {
            return;
        };
        if let Some(armed) = timer.armed {
            let what = format!(
                "timer {id} is said to be cancelled, and line {} queued it",
                armed.line
            );
            to.broken(CANCEL, what);
        } else if timer.running_on.is_some() && timer.running_on != cpu {
            to.broken(
                CANCEL,
                format!("timer {id} is said to be cancelled, and its callback runs"),
            );
        }
    }

    /// `timer_expire_entry` and `hrtimer_expire_entry` at the time `at`. `is_before` is true if the CPU's own clock
    /// says that the timer fires before its time. Returns the CPU to which the timer belonged.
    pub(super) fn fires(
        &mut self,
        id: u64,
        (at, is_before): (i64, bool),
        cpu: Option<u32>,
        to: &mut Findings,
    ) -> Option<u32> {
        to.check(CANCEL);
        let Some(armed) = self.take(id) else {
            let what = format!(
                "timer {id} fires, and is not queued: it was cancelled or fired, or never started"
            );
            to.broken(CANCEL, what);
            return None;
        };
        if let Some(timer) = self.live.get_mut(&id) {
            timer.running_on = cpu;
        }
        to.check(LOST);
        to.check(EARLY);
        if at < armed.earliest || is_before {
            let early = armed.earliest.saturating_sub(at);
            to.broken(
                EARLY,
                format!(
                    "timer {id}, started in line {}, is {early} ns early",
                    armed.line
                ),
            );
        }
        to.check(LATE);
        let late = at.saturating_sub(armed.due);
        if late > self.late_max && !armed.is_deferrable {
            to.broken(
                LATE,
                format!(
                    "timer {id}, started in line {}, is {late} ns late",
                    armed.line
                ),
            );
        }
        Some(armed.of_cpu)
    }

    /// `timer_expire_exit` and `hrtimer_expire_exit`.
    pub(super) fn returns(&mut self, id: u64) {
        if let Some(timer) = self.live.get_mut(&id) {
            timer.running_on = None;
        }
        self.forget(id);
    }

    /// Checks the timers that are still queued when the trace ends at `end`. No timer of a CPU that `is_busy` at the
    /// end counts as late.
    pub(super) fn end(&self, end: i64, is_busy: impl Fn(u32) -> bool, to: &mut Findings) {
        let mut left: Vec<(&u64, &Armed)> = Vec::new();
        left.extend(
            self.live
                .iter()
                .filter_map(|(id, timer)| Some((id, timer.armed.as_ref()?))),
        );
        left.sort_unstable_by_key(|(id, _)| **id);
        for (id, armed) in left {
            to.check(LOST);
            let overdue = end.saturating_sub(armed.due);
            if overdue > self.late_max && !armed.is_deferrable && !is_busy(armed.of_cpu) {
                let what = format!(
                    "timer {id}, started in line {}, is queued still, {overdue} ns late",
                    armed.line
                );
                to.broken(LOST, what);
            }
        }
    }
}
