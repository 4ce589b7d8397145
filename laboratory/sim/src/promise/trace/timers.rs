//! The timers of a trace: each is started, and then it fires in time, is cancelled, or is still queued at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use super::findings::{CANCEL, EARLY, Findings, HIDDEN, LATE, LOST, Witnesses};
use crate::promise::{bounded_late, cancel_means_not_running, never_early, never_lost};

/// The longest time between the event of an expiry and the event of a start on another CPU that came before it, in
/// nanoseconds. Linux takes a timer out of its queue under the lock, and writes the event of the expiry without it.
const OVERTAKES_MAX: i64 = 200_000;

/// The deadline and the kind of a started timer.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    pub(super) of_cpu: u32,
    /// The time before which the timer must not fire.
    pub(super) earliest: i64,
    /// The time from which the timer counts as late.
    pub(super) due: i64,
    pub(super) late_max: i64,
    /// The unit of these times.
    pub(super) unit: &'static str,
    /// The place of the clock of these times in a list that the caller keeps.
    pub(super) clock: usize,
    /// The tick in which a coarse timer is due, and whether another CPU may run it. `None` if it wakes no CPU.
    pub(super) bucket: Option<(u64, bool)>,
    /// The CPU on which a recorder may have missed a later start.
    pub(super) doubted: Option<u32>,
    pub(super) line: u64,
}

#[derive(Debug, Default)]
struct Timer {
    /// True from its first start or set-up on.
    is_known: bool,
    /// The CPU and the time of its last expiry.
    fired: Option<(Option<u32>, i64)>,
    /// The CPU whose tick it is.
    doubted: Option<u32>,
    /// A description of the timer, besides its number.
    name: Option<Rc<str>>,
    armed: Option<Armed>,
    /// A CPU took the timer out of its queue, to cancel it or to run its callback.
    dequeued: Option<(Option<u32>, Armed)>,
    /// A start was recorded before the expiry of the start before, or that expiry is missing.
    overtaken: Option<Overtaken>,
    /// The CPU that executes the timer's callback.
    running_on: Option<u32>,
    /// The CPU of the last event.
    last: Option<u32>,
}

#[derive(Debug)]
struct Overtaken {
    armed: Armed,
    at: i64,
    by: Option<u32>,
    line: u64,
}

/// An expiry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Firing {
    pub(super) id: u64,
    /// The time that must not be early: what the clock of the timer showed.
    pub(super) at: i64,
    /// The time that must not be late.
    pub(super) now: i64,
}

/// All timers that are known.
#[derive(Debug)]
pub(super) struct Timers {
    /// True if the trace has each start, and tells of each timer that was queued when it began. Otherwise a timer is
    /// unknown until its first start, and timers have addresses for numbers.
    is_whole: bool,
    live: HashMap<u64, Timer>,
    /// A timer that fired twice, though no start of it was recorded: the recorder does not see the task that starts it.
    pub(super) hidden: Option<u64>,
    /// The coarse timers of each CPU that other CPUs may run, and those that they may not, sorted by their due ticks.
    waiting: BTreeMap<(u32, bool), BTreeSet<(u64, u64)>>,
}

/// The name of a timer, for messages: a number alone, or an address and more.
struct Name<'t>(u64, Option<&'t Rc<str>>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(name) => write!(out, "timer {:016x} ({name})", self.0),
            None => write!(out, "timer {}", self.0),
        }
    }
}

impl Timers {
    pub(super) fn new(is_whole: bool) -> Self {
        Self {
            is_whole,
            live: HashMap::new(),
            hidden: None,
            waiting: BTreeMap::new(),
        }
    }

    /// Returns the due tick of the first coarse timer of `cpu` that other CPUs may run, or of the first that they may
    /// not.
    pub(super) fn first(&self, cpu: u32, is_movable: bool) -> Option<u64> {
        let (bucket, _) = self.waiting.get(&(cpu, is_movable))?.first()?;
        Some(*bucket)
    }

    /// Describes a timer of which no start is known.
    pub(super) fn describe(&mut self, id: u64, function: &str) {
        let timer = self.live.entry(id).or_default();
        timer.name.get_or_insert_with(|| function.into());
    }

    pub(super) fn name(&self, id: u64) -> String {
        let name = self.live.get(&id).and_then(|timer| timer.name.as_ref());
        Name(id, name).to_string()
    }

    pub(super) fn armed(&self, id: u64) -> Option<&Armed> {
        self.live.get(&id)?.armed.as_ref()
    }

    pub(super) fn queued(&self) -> u64 {
        let all = self.live.values();
        all.filter(|timer| timer.armed.is_some()).count() as u64
    }

    /// Forgets all timers, because events are missing.
    pub(super) fn forget_all(&mut self) {
        self.live.clear();
        self.waiting.clear();
    }

    /// Begins an event of a timer. Returns whether the timer is known, and the CPUs whose missing events may explain
    /// what is wrong.
    fn begin(&mut self, id: u64, to: &mut Findings) -> (bool, Witnesses) {
        let is_whole = self.is_whole;
        let timer = self.live.entry(id).or_default();
        let is_known = is_whole || timer.is_known;
        let is_over = |one: &mut Overtaken| to.time.saturating_sub(one.at) > OVERTAKES_MAX;
        if let Some(overtaken) = timer.overtaken.take_if(is_over) {
            missed(id, timer.name.as_ref(), overtaken, to);
        }
        let last = std::mem::replace(&mut timer.last, to.cpu);
        let of = match timer.doubted {
            _ if is_whole => [None; 3],
            // A task that the recorder does not see starts no tick.
            Some(_) => [last, to.cpu, None],
            None => [last, to.cpu, Some(HIDDEN)],
        };
        (is_known, of)
    }

    /// A timer was set up, so that a new life of it begins.
    pub(super) fn set_up(&mut self, id: u64, to: &mut Findings) {
        let (_, [last, cpu, _]) = self.begin(id, to);
        let of = [last, cpu, None];
        let wrong = self.take(id).map(|armed| {
            let name = self.name(id);
            format!("{name} is set up, and line {} queued it", armed.line)
        });
        to.suspect(CANCEL, of, wrong);
        let last = cpu;
        let fresh = Timer {
            is_known: true,
            last,
            ..Timer::default()
        };
        if let Some(overtaken) = self.live.insert(id, fresh).and_then(|old| old.overtaken) {
            missed(id, None, overtaken, to);
        }
    }

    /// A timer is started. `was_armed` is what the event says, `None` if it does not.
    pub(super) fn start(
        &mut self,
        id: u64,
        armed: Armed,
        was_armed: Option<bool>,
        name: Option<Rc<str>>,
        to: &mut Findings,
    ) {
        let (is_known, of) = self.begin(id, to);
        let before = self.take(id);
        if let Some((bucket, is_movable)) = armed.bucket {
            let queue = self.waiting.entry((armed.of_cpu, is_movable)).or_default();
            queue.insert((bucket, id));
        }
        let may_overtake = !self.is_whole && armed.unit == "ns";
        let timer = self.live.entry(id).or_default();
        if name.is_some() {
            timer.name = name;
        }
        timer.doubted = armed.doubted;
        timer.armed = Some(armed);
        timer.is_known = true;
        let name = Name(id, timer.name.as_ref());
        let of = if before.is_some() {
            [of[0], of[1], None]
        } else {
            of
        };
        let wrong = match (before, was_armed) {
            (Some(armed), Some(false)) if may_overtake && timer.overtaken.is_none() => {
                timer.overtaken = Some(Overtaken {
                    armed,
                    at: to.time,
                    by: to.cpu,
                    line: to.line,
                });
                None
            }
            (Some(before), Some(false)) => Some(unanswered(&name, before.line)),
            (None, Some(true)) if is_known => Some(format!(
                "{name} is started again, and was not started before"
            )),
            _ => None,
        };
        to.suspect(LOST, of, wrong);
    }

    /// The timer was queued when the trace began, and nothing else is known of it.
    pub(super) fn was_queued(&mut self, id: u64, to: &mut Findings) {
        let armed = Armed {
            of_cpu: 0,
            earliest: i64::MIN,
            due: i64::MAX,
            late_max: i64::MAX,
            unit: "ns",
            clock: 0,
            bucket: None,
            doubted: None,
            line: to.line,
        };
        let timer = self.live.entry(id).or_default();
        let wrong = timer.armed.replace(armed).map(|before| {
            let line = before.line;
            format!(
                "timer {id} is said to be queued since before the trace, and line {line} queued it"
            )
        });
        to.check(LOST, wrong);
    }

    fn take(&mut self, id: u64) -> Option<Armed> {
        let armed = self.live.get_mut(&id)?.armed.take()?;
        if let Some((bucket, is_movable)) = armed.bucket {
            let queue = self.waiting.get_mut(&(armed.of_cpu, is_movable));
            queue.map(|queue| queue.remove(&(bucket, id)));
        }
        Some(armed)
    }

    /// Removes a timer that is not queued and whose callback does not run, unless its number is an address.
    fn forget(&mut self, id: u64) {
        let is_over = |timer: &Timer| timer.armed.is_none() && timer.running_on.is_none();
        if self.is_whole && self.live.get(&id).is_some_and(is_over) {
            self.live.remove(&id);
        }
    }

    /// A timer is cancelled, or taken out of its queue to run its callback.
    pub(super) fn cancel(&mut self, id: u64, to: &mut Findings) {
        let (is_known, of) = self.begin(id, to);
        let armed = self.take(id);
        let wrong = (armed.is_none() && is_known)
            .then(|| format!("{} is cancelled, and was not started", self.name(id)));
        to.suspect(LOST, of, wrong);
        if let Some(timer) = self.live.get_mut(&id) {
            timer.dequeued = armed.map(|armed| (to.cpu, armed));
        }
        self.forget(id);
    }

    /// A call told a program that the timer is cancelled and its callback does not run.
    pub(super) fn deleted(&self, id: u64, to: &mut Findings) {
        let is_active = self.live.get(&id).is_some_and(|timer| {
            timer.armed.is_some() || (timer.running_on.is_some() && timer.running_on != to.cpu)
        });
        let wrong = cancel_means_not_running::cancelled(is_active, || self.name(id));
        to.check(CANCEL, wrong);
    }

    /// A callback begins. `is_taken` is true if the timer was taken out of its queue by an event before. Returns what was
    /// known of the timer.
    pub(super) fn fires(
        &mut self,
        firing: Firing,
        is_taken: bool,
        to: &mut Findings,
    ) -> Option<Armed> {
        let Firing { id, at, now } = firing;
        let (is_known, of) = self.begin(id, to);
        let cpu = to.cpu;
        let timer = self.live.entry(id).or_default();
        let on_other = |one: &mut Overtaken| one.by != cpu;
        let dequeued = timer.dequeued.take_if(|(by, _)| is_taken && *by == cpu);
        let earlier = timer.overtaken.take_if(on_other).map(|one| one.armed);
        let runs = timer.running_on.filter(|_| !self.is_whole);
        timer.running_on = cpu;
        let fired = timer.fired.replace((cpu, at));
        // An interrupt reads the clock once, and is always seen.
        let is_twice = fired == timer.fired && !self.is_whole;
        if !is_known && fired.is_some() && !is_twice {
            self.hidden.get_or_insert(id);
        }
        let mut found = dequeued.map(|(_, armed)| armed).or(earlier);
        let mut is_left = false;
        if found.is_none() {
            found = self.take(id);
            is_left = is_taken && found.is_some();
        }
        let name = || self.name(id);
        let of = match found {
            None if is_twice => [None; 3],
            None => of,
            Some(_) => [of[0], of[1], None],
        };
        let wrong = match (&found, runs) {
            (_, Some(on)) => Some(format!(
                "{} fires, and its callback runs on CPU {on}",
                name()
            )),
            (Some(_), None) if is_left => Some(format!(
                "{} fires, and was not taken out of its queue",
                name()
            )),
            (None, None) if is_known || is_twice => Some(format!(
                "{} fires, and is not queued: it was cancelled or fired, or never started",
                name()
            )),
            _ => None,
        };
        to.suspect(CANCEL, of, wrong);
        let armed = found?;
        to.check(LOST, None);
        let line = armed.line;
        let of = [armed.doubted, None, None];
        let whose = || format!("{}, started in line {line},", name());
        to.suspect(EARLY, of, never_early::fires(armed.earliest, at, whose));
        let late = now.saturating_sub(armed.due);
        let wrong = bounded_late::fires(
            Time(late, armed.unit),
            Time(armed.late_max, armed.unit),
            whose,
        );
        to.suspect(LATE, of, wrong);
        Some(armed)
    }

    /// A callback ended.
    pub(super) fn returns(&mut self, id: u64, to: &mut Findings) {
        if self.is_whole {
            if let Some(timer) = self.live.get_mut(&id) {
                timer.running_on = None;
            }
            self.forget(id);
            return;
        }
        let (is_known, [last, cpu, _]) = self.begin(id, to);
        let of = [last, cpu, None];
        let running_on = self
            .live
            .get_mut(&id)
            .and_then(|timer| timer.running_on.take());
        let wrong = match running_on {
            Some(cpu) if Some(cpu) == to.cpu => None,
            Some(cpu) => Some(format!(
                "the callback of {} began on CPU {cpu}",
                self.name(id)
            )),
            None if is_known => Some(format!(
                "the callback of {} ends, and did not begin",
                self.name(id)
            )),
            None => None,
        };
        to.suspect(CANCEL, of, wrong);
    }

    /// Checks the timers that are still queued at the end of the trace. `end` returns the time at the end by the clock of
    /// an armed timer, or `None` if that is not known, and the CPU whose missing events may explain that it is queued
    /// still.
    pub(super) fn end(
        &mut self,
        end: impl Fn(&Armed, Option<u32>) -> Option<(i64, Option<u32>)>,
        to: &mut Findings,
    ) {
        let mut left: Vec<(u64, Timer)> = self.live.drain().collect();
        left.sort_unstable_by_key(|(id, _)| *id);
        for (id, timer) in left {
            let name = Name(id, timer.name.as_ref());
            if let Some(armed) = &timer.armed
                && let Some((at, doubted)) = end(armed, timer.last)
            {
                let late = at.saturating_sub(armed.due);
                let wrong = (late > armed.late_max).then(|| {
                    let whose = format!("{name}, started in line {},", armed.line);
                    never_lost::overdue(whose, Time(late, armed.unit))
                });
                to.suspect(LOST, [armed.doubted, doubted, None], wrong);
            }
            if let Some(overtaken) = timer.overtaken {
                missed(id, timer.name.as_ref(), overtaken, to);
            }
        }
    }
}

/// Reports a start that no expiry explained.
fn missed(id: u64, name: Option<&Rc<str>>, of: Overtaken, to: &mut Findings) {
    let what = unanswered(&Name(id, name), of.armed.line);
    let line = std::mem::replace(&mut to.line, of.line);
    to.suspect(LOST, [of.by, of.armed.doubted, None], Some(what));
    to.line = line;
}

fn unanswered(name: &Name<'_>, line: u64) -> String {
    format!(
        "{name} is started, and since its start in line {line} it neither fired nor was cancelled"
    )
}

/// A time with its unit.
#[derive(PartialEq, PartialOrd)]
pub(super) struct Time(pub(super) i64, pub(super) &'static str);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.0, self.1)
    }
}
