//! The check of a recorded trace, which `tickless verify` reads from a file.
//!
//! [`Checker`] follows the events of the project's own format, which `docs/trace.md` describes, and [`linux::Checker`]
//! those of the Linux kernel. Both judge by the rules by which a run is judged, and know only the trace.

mod event;
mod findings;
mod hierarchy;
pub mod linux;
mod ticks;
mod timers;
mod walks;

use std::collections::{BTreeMap, BTreeSet};

use tickless_core::coarse::Tick;

use super::{bounded_late, isolated_undisturbed, monotonic, never_early, never_lost};
pub use event::{Change, Event, Flags, Head, Header, InTree, Step, TimerClock};
use findings::{COVERED, EARLY, ISOLATED, LATE, LOST, MONOTONIC};
pub use findings::{Findings, Kept, PROMISES, Violation};
use hierarchy::Trees;
use ticks::Ticks;
use timers::{Armed, Firing, Time, Timers};

/// The most CPUs of a trace.
const CPUS_MAX: u32 = 1 << 20;

/// A checker of a trace in the project's own format, which is given the lines in order.
#[derive(Debug)]
pub struct Checker {
    header: Header,
    late_max: i64,
    timers: Timers,
    ticks: Ticks,
    trees: Trees,
    isolated: BTreeSet<u32>,
    /// The time of the last event of each CPU.
    last: BTreeMap<u32, i64>,
    /// The last clock reading of each CPU.
    read: BTreeMap<u32, i64>,
    /// The CPUs that were asked to expire the timers of others, and have not done so yet.
    heirs: BTreeSet<u32>,
    findings: Findings,
}

fn nanos(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Checker {
    /// Makes a checker for a trace with this first line. A timer may be late by `late_max` nanoseconds, or by as much as
    /// the header says.
    ///
    /// # Errors
    ///
    /// Describes a wrong value in the header.
    pub fn new(header: Header, late_max: Option<u64>) -> Result<Self, String> {
        let Header { cpus, tick, .. } = header;
        if cpus == 0 || cpus >= CPUS_MAX {
            return Err(format!("cpus: {cpus} is not a number of CPUs from 1 on"));
        }
        if tick == 0 {
            return Err("tick: 0 is not a number of nanoseconds from 1 on".to_owned());
        }
        if let Some(cpu) = header.isolated.iter().find(|cpu| **cpu >= cpus) {
            return Err(format!("isolated: there is no CPU {cpu} of {cpus}"));
        }
        Ok(Self {
            late_max: nanos(late_max.unwrap_or(header.late_max)),
            timers: Timers::new(true),
            ticks: Ticks::default(),
            trees: Trees::default(),
            isolated: header.isolated.iter().copied().collect(),
            last: BTreeMap::new(),
            read: BTreeMap::new(),
            heirs: BTreeSet::new(),
            findings: Findings::default(),
            header,
        })
    }

    /// Returns the findings.
    #[must_use]
    pub fn into_findings(mut self) -> Findings {
        self.findings.settle(|_| false);
        self.findings
    }

    /// Takes the event of line `number`. No event may follow [`Event::End`].
    ///
    /// # Errors
    ///
    /// Describes an event that cannot be.
    pub fn take(&mut self, number: u64, head: &Head, event: &Event) -> Result<(), String> {
        self.findings.line = number;
        self.findings.time = head.time;
        self.findings.cpu = None;
        if let &Event::End { queued, lost, .. } = event {
            self.end(head.time, queued, lost);
            return Ok(());
        }
        let cpu = head.cpu.ok_or("missing field `cpu`")?;
        for named in cpu.into_iter().chain(event.of_cpu()) {
            let last = self.header.cpus - 1;
            if named > last {
                return Err(format!("there is no CPU {named}; the last one is {last}"));
            }
        }
        self.findings.cpu = cpu;
        if let Some(cpu) = cpu {
            let last = self.last.insert(cpu, head.time);
            if let Some(last) = last.filter(|last| head.time < *last) {
                return Err(format!(
                    "time: CPU {cpu} did something at {last} already, and this is at {}; the time of a CPU does not go back",
                    head.time
                ));
            }
            if !head.event.starts_with("tmigr_") {
                self.trees.does_something_else(cpu);
            }
        }
        self.happens(head, event, cpu)?;
        if self.heirs.is_empty() {
            self.trees.settle(&mut self.findings);
        }
        Ok(())
    }

    fn happens(&mut self, head: &Head, event: &Event, cpu: Option<u32>) -> Result<(), String> {
        let to = &mut self.findings;
        let never = |time: Option<i64>| time.unwrap_or(i64::MAX);
        match *event {
            Event::TimerStart { .. } | Event::HrtimerStart { .. } => self.starts(event)?,
            Event::TimerQueued { timer: id } | Event::HrtimerQueued { hrtimer: id } => {
                self.timers.was_queued(id, to);
            }
            Event::TimerCancel { timer: id } | Event::HrtimerCancel { hrtimer: id } => {
                self.timers.cancel(id, to);
            }
            Event::TimerDeleteSync { timer } => self.timers.deleted(timer, to),
            Event::TimerExpireEntry {
                timer,
                now,
                expires,
            } => {
                let earliest = self.timers.armed(timer).map(|armed| armed.earliest);
                // The tick for which it was armed is not over for the CPU that runs it.
                let latest = earliest.filter(|_| now <= expires);
                let latest = latest.map_or(i64::MAX, |earliest| earliest.saturating_sub(1));
                self.fires(timer, head.time.min(latest));
            }
            Event::HrtimerExpireEntry {
                hrtimer,
                now,
                expires,
                softexpires,
            } => {
                let armed = self.timers.armed(hrtimer);
                let whose = || format!("timer {hrtimer}");
                // The other clocks may be set: such a timer goes by what its clock showed.
                let is_wall = |armed: &Armed| armed.clock != TimerClock::Monotonic as usize;
                if armed.is_some_and(is_wall) {
                    let now = now.ok_or("missing field `now`")?;
                    let soft = softexpires.ok_or("missing field `softexpires`")?;
                    to.check(EARLY, never_early::fires(soft, now, whose));
                } else if armed.is_some_and(|armed| armed.due == i64::MAX)
                    && let (Some(now), Some(soft), Some(expires)) = (now, softexpires, expires)
                {
                    // It was queued before the trace began, so the expiry alone says when it was due.
                    to.check(EARLY, never_early::fires(soft, now, whose));
                    let [late, late_max] =
                        [now.saturating_sub(expires), self.late_max].map(|time| Time(time, "ns"));
                    to.check(LATE, bounded_late::fires(late, late_max, whose));
                }
                self.fires(hrtimer, head.time);
            }
            Event::TimerExpireExit { timer: id } | Event::HrtimerExpireExit { hrtimer: id } => {
                self.timers.returns(id, to);
            }
            Event::ClockRead { now } => {
                if let Some(last) = cpu.map(|cpu| self.read.insert(cpu, now)) {
                    let wrong = last.and_then(|last| monotonic::goes_back(last, now));
                    to.check(MONOTONIC, wrong);
                }
            }
            Event::CpuIdle {
                state: Some(_),
                wakes,
            } => {
                if let Some(cpu) = cpu {
                    self.sleeps(cpu, never(wakes), head.time);
                }
            }
            Event::CpuIsolated { of_cpu, isolated } => {
                self.isolated.remove(&of_cpu);
                self.isolated.extend(isolated.then_some(of_cpu));
            }
            Event::IpiSendCpu { of_cpu, ref reason } if reason == "activate" => {
                self.heirs.insert(of_cpu);
            }
            Event::IrqHandlerEntry { ref name } if name == "activate" => {
                cpu.map(|cpu| self.heirs.remove(&cpu));
            }
            // A CPU that leaves hands over what it was to look after.
            Event::CpuOnline { of_cpu } => drop(self.heirs.remove(&of_cpu)),
            Event::TickStop { of_cpu, wake } => self.ticks.stop(of_cpu, never(wake), to),
            Event::TickStart { of_cpu } => self.ticks.start(of_cpu, to),
            Event::TickIdleBegin { of_cpu } => self.ticks.idles(of_cpu, true, to),
            Event::TickIdleEnd { of_cpu } => self.ticks.idles(of_cpu, false, to),
            Event::TickEvaluate {
                of_cpu,
                ref kept,
                wake,
            } => {
                let wake = never(wake);
                self.ticks.evaluates(of_cpu, kept.is_some(), wake, to);
                if kept.is_none() && self.trees.are_settled() {
                    self.sleeps(of_cpu, wake, head.time);
                }
            }
            Event::HrtimerFlush { of_cpu } => self.ticks.flushes(of_cpu),
            Event::HrtimerRearm { of_cpu, deferred } => self.ticks.rearms(of_cpu, deferred, to),
            Event::Hierarchy(ref step) => {
                if let Step::Serve { of_cpu } = step.step {
                    self.disturbs(of_cpu, "serves");
                }
                if !self.trees.take(step, &mut self.findings)? {
                    self.unknown(&head.event);
                }
            }
            Event::Other => self.unknown(&head.event),
            _ => {}
        }
        Ok(())
    }

    fn unknown(&mut self, name: &str) {
        /// The known events that no promise needs.
        const UNCHECKED: [&str; 10] = [
            "timer_move",
            "hrtimer_clamped",
            "hrtimer_written_late",
            "hrtimer_spurious",
            "hrtimer_hang",
            "tick_overdue",
            "irq_handler_exit",
            "softirq_entry",
            "softirq_exit",
            "sched_switch",
        ];
        if !UNCHECKED.contains(&name) {
            *self.findings.unknown.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn began(&self, tick: u64) -> i64 {
        nanos(tick.saturating_mul(self.header.tick))
    }

    fn starts(&mut self, event: &Event) -> Result<(), String> {
        let to = &mut self.findings;
        let mut armed = Armed {
            of_cpu: event.of_cpu().unwrap_or(0),
            earliest: i64::MIN,
            due: i64::MAX,
            late_max: self.late_max,
            unit: "ns",
            clock: 0,
            bucket: None,
            doubted: None,
            line: to.line,
        };
        let (id, was_armed) = match *event {
            Event::TimerStart {
                timer,
                flags,
                now,
                expires,
                bucket_expiry,
                was_armed,
                ..
            } => {
                // The wheel may be behind by as much as a timer may be late.
                let behind = self.late_max.unsigned_abs().div_ceil(self.header.tick);
                let wrong =
                    bounded_late::filed(Tick(now), Tick(expires), Tick(bucket_expiry), behind);
                to.check(LATE, wrong);
                // The whole tick has to be over.
                armed.earliest = self.began(expires.saturating_add(1));
                armed.due = self.began(bucket_expiry);
                armed.bucket = (flags == Flags::Global).then_some((bucket_expiry, true));
                if flags == Flags::Deferrable {
                    armed.late_max = i64::MAX;
                }
                (timer, was_armed)
            }
            Event::HrtimerStart {
                hrtimer,
                clock,
                expires,
                softexpires,
                was_armed,
                ..
            } => {
                if softexpires > expires {
                    return Err(format!(
                        "softexpires: {softexpires} is after expires, {expires}; it is the earlier one of both"
                    ));
                }
                // The others may be set: when such a timer is due is known when it fires.
                armed.clock = clock as usize;
                if clock == TimerClock::Monotonic {
                    (armed.earliest, armed.due) = (softexpires, expires);
                }
                (hrtimer, was_armed)
            }
            _ => return Ok(()),
        };
        let to = &mut self.findings;
        self.timers.start(id, armed, Some(was_armed), None, to);
        Ok(())
    }

    fn fires(&mut self, id: u64, at: i64) {
        let now = self.findings.time;
        let firing = Firing { id, at, now };
        if let Some(armed) = self.timers.fires(firing, false, &mut self.findings) {
            self.disturbs(armed.of_cpu, "runs a timer of");
        }
    }

    /// Checks that the CPU, if it is isolated, does nothing for another CPU: it did something for `owner`.
    fn disturbs(&mut self, owner: u32, does: &str) {
        let cpu = self.findings.cpu.filter(|cpu| self.isolated.contains(cpu));
        if let Some(cpu) = cpu {
            let what = || format!("CPU {cpu} is isolated, and {does} CPU {owner}");
            let wrong = isolated_undisturbed::disturbed(cpu != owner, what);
            self.findings.check(ISOLATED, wrong);
        }
    }

    /// Checks that another CPU looks after the first timer of `cpu`, if `cpu` itself `wakes` later.
    fn sleeps(&mut self, cpu: u32, wakes: i64, at: i64) {
        let Some(first) = self.timers.first(cpu, true) else {
            return;
        };
        let first = self.began(first);
        // With its tick it looks for itself. An heir is about to wake up, and looks then.
        let looks = wakes <= first.max(at.saturating_add(nanos(self.header.tick)));
        let wrong = if looks || !self.heirs.is_empty() {
            None
        } else {
            self.trees.uncovered(cpu, first)
        };
        let wrong = wrong.map(|why| {
            format!("CPU {cpu} sleeps, and no CPU looks after its timer of {first}: {why}")
        });
        self.findings.check(COVERED, wrong);
    }

    fn end(&mut self, at: i64, queued: Option<u64>, lost: u64) {
        let to = &mut self.findings;
        let found = self.timers.queued();
        // A CPU in the middle of something is not late yet.
        let is_busy = |cpu| self.last.get(&cpu).is_some_and(|last| *last >= at);
        let end =
            |armed: &Armed, _| Some((if is_busy(armed.of_cpu) { i64::MIN } else { at }, None));
        self.timers.end(end, to);
        let Some(said) = queued else { return };
        // A recording that was cut out of a run, or lost its end, may lack the change that a later one passed over.
        if lost == 0 {
            self.trees.end(to);
        }
        to.check(LOST, never_lost::miscounted(said, nanos(found)));
    }
}
