//! An estimate of the memory and time that the simulation of a scenario takes, computed before the machine is built.
//!
//! A file of ten lines can need more memory than the computer has, or more events than a user waits for. Each part
//! estimates its queued timers and the rate of its events. A part whose events take CPU time of the machine cannot have
//! more events than its CPUs have time for. The estimate is only right to a factor of a few, and so are the limits:
//! they stop scenarios that are too large by orders of magnitude.

use std::fmt;

use crate::fault::{Fault, When};
use crate::model::time::Picos;
use crate::run::scenario::Scenario;
use crate::workload::{Placed, Workload};

/// Bytes of a timer with its attached data: 70 to 160 were measured.
const BYTES_OF_TIMER: u64 = 256;
/// Bytes of a task with its timer.
const BYTES_OF_TASK: u64 = 1_024;
/// Bytes of a CPU, with its bases, its wheels and its place in the hierarchy.
const BYTES_OF_CPU: u64 = 64 << 10;
/// Bytes of a pending event.
const BYTES_OF_EVENT: u64 = 64;
/// Bytes of a message in its pipe.
const BYTES_OF_MESSAGE: u64 = 16;
/// Bytes that an event writes to the log, in lines of 24 bytes.
const BYTES_OF_LOG: u64 = 24 * 8;
/// The shortest time between two events of a CPU, which is about the time of an interrupt: no CPU of a machine has more
/// events than fit.
const SHORTEST_EVENT: Picos = Picos::from_micros(1);
/// The number of timers in a burst of the desktop workload, for each periodic timer.
const BURST: u32 = 4;

/// The limits for the needs of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of memory.
    pub memory: u64,
    /// The number of events. A processor simulates one to two million events in a second.
    pub events: u64,
}

impl Limits {
    /// The limits that allow everything.
    pub const NONE: Self = Self {
        memory: u64::MAX,
        events: u64::MAX,
    };
}

impl Default for Limits {
    /// Returns 4 GiB and 4,000,000,000 events, which take about an hour.
    fn default() -> Self {
        Self {
            memory: 4 << 30,
            events: 4_000_000_000,
        }
    }
}

/// The approximate needs of a scenario, or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The bytes of memory.
    pub memory: u64,
    /// The number of events.
    pub events: u64,
}

impl Needs {
    const fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            events: self.events.saturating_add(other.events),
        }
    }

    const fn times(self, times: u64) -> Self {
        Self {
            memory: self.memory.saturating_mul(times),
            events: self.events.saturating_mul(times),
        }
    }
}

/// The error of a scenario that needs more than its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooMuch {
    /// The part that needs the most: a workload or a fault by its number and kind, or the machine.
    pub part: String,
    /// True if memory exceeds its limit, false if events do.
    pub is_memory: bool,
    /// The need of that part.
    pub needs: u64,
    /// The total need of all parts.
    pub all: u64,
    /// The limit that is exceeded.
    pub limit: u64,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            part,
            is_memory,
            needs,
            all,
            limit,
        } = self;
        let amount = |number: u64| {
            if *is_memory {
                bytes(number)
            } else {
                format!("{number} events")
            }
        };
        let what = if *is_memory { " of memory" } else { "" };
        write!(
            formatter,
            "{part} needs about {}{what}, and the scenario {}; the limit is {}",
            amount(*needs),
            amount(*all),
            amount(*limit)
        )
    }
}

impl std::error::Error for TooMuch {}

fn bytes(number: u64) -> String {
    let (size, unit) = match number {
        0..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    format!("{} {unit}", number.div_ceil(size))
}

impl Scenario {
    /// Returns the approximate needs of the whole scenario.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let parts = self.parts();
        let all = parts.iter().map(|(_, needs)| *needs);
        all.fold(Needs::default(), Needs::and)
    }

    /// Returns an error if the scenario needs more than `limits` allow.
    ///
    /// # Errors
    ///
    /// The part that needs the most, and its need.
    pub fn fits(&self, limits: &Limits) -> Result<(), TooMuch> {
        let parts = self.parts();
        let memory = |needs: &Needs| needs.memory;
        let events = |needs: &Needs| needs.events;
        exceeds(&parts, true, limits.memory, memory)?;
        exceeds(&parts, false, limits.events, events)
    }

    /// Returns the needs of each part.
    fn parts(&self) -> Vec<(String, Needs)> {
        let ticks = per(self.duration, self.tick).saturating_mul(u64::from(self.cpus));
        let machine = Needs {
            memory: BYTES_OF_CPU * u64::from(self.cpus),
            events: ticks,
        };
        let mut all = vec![("the machine".to_owned(), machine)];
        for (number, placed) in (1..).zip(&self.workloads) {
            let part = format!("workload {number} ({})", placed.workload.name());
            all.push((part, self.of_workload(placed)));
        }
        for (number, fault) in (1..).zip(&self.faults) {
            let part = format!("fault {number} ({})", fault.kind.name());
            all.push((part, self.of_fault(fault)));
        }
        if self.logs {
            let events: u64 = all.iter().map(|(_, needs)| needs.events).sum();
            let memory = events.saturating_mul(BYTES_OF_LOG);
            all.push(("the log".to_owned(), Needs { memory, events: 0 }));
        }
        all
    }

    fn of_workload(&self, placed: &Placed) -> Needs {
        let cpus = placed.cpus.len() as u64 / u64::from(placed.one_in.max(1));
        let most = per(self.duration, SHORTEST_EVENT);
        if let Workload::Hackbench {
            groups,
            tasks,
            messages,
            size,
            room,
            ..
        } = placed.workload
        {
            let [groups, tasks, messages] = [groups, tasks, messages].map(u64::from);
            let pairs = groups.saturating_mul(tasks.saturating_mul(tasks));
            let in_pipe = u64::from(room / size.max(1)).min(messages).max(1);
            let receivers = groups.saturating_mul(tasks);
            let memory = receivers
                .saturating_mul(2 * BYTES_OF_TASK)
                .saturating_add(receivers.saturating_mul(in_pipe * BYTES_OF_MESSAGE));
            let sent = pairs.saturating_mul(messages).saturating_mul(2);
            let events = sent.min(most.saturating_mul(cpus));
            return Needs { memory, events };
        }
        let mut of_cpu = self.of_workload_on_a_cpu(&placed.workload);
        of_cpu.events = of_cpu.events.min(most);
        of_cpu.times(cpus)
    }

    /// Returns the needs of a workload for each of its CPUs, if the CPU has time for all events.
    fn of_workload_on_a_cpu(&self, workload: &Workload) -> Needs {
        let each = |time: Picos| per(self.duration, time);
        let (memory, events) = match *workload {
            Workload::Cyclictest { period } => (BYTES_OF_TASK, each(period)),
            Workload::Enqueue {
                repetitions, gap, ..
            } => (BYTES_OF_TASK, times(each(gap), repetitions)),
            Workload::Duty { work, gap } => (BYTES_OF_TASK, each(work + gap)),
            // A timer for each of its CPUs is on its way.
            Workload::RemoteArms { gap, timeout } => {
                let timers = per(timeout, gap.max(SHORTEST_EVENT));
                let memory = timers.saturating_mul(BYTES_OF_TIMER);
                (memory.saturating_add(BYTES_OF_TASK), each(gap))
            }
            Workload::Starts {
                timers,
                repetitions,
                gap,
            } => (times(BYTES_OF_TIMER, timers), times(each(gap), repetitions)),
            Workload::Alarms { timers, period, .. } => (
                times(BYTES_OF_TIMER, timers),
                times(each(period.low), timers),
            ),
            Workload::Compute { work, .. } => (BYTES_OF_TASK, each(work)),
            Workload::Dbench { tasks, work, .. } => (
                times(2 * BYTES_OF_TASK, tasks),
                times(each(work.low), tasks),
            ),
            _ => return self.of_coarse_timers(workload),
        };
        Needs { memory, events }
    }

    /// Returns the needs of a workload whose timers are coarse, and fire at most once in a tick.
    fn of_coarse_timers(&self, workload: &Workload) -> Needs {
        let each = |time: Picos| per(self.duration, time);
        let each_tick = |time: Picos| each(time.max(self.tick));
        let (memory, events) = match *workload {
            Workload::Polls { timers, period, .. } => (
                times(BYTES_OF_TIMER, timers),
                times(each_tick(period.low), timers),
            ),
            Workload::Network {
                connections, gap, ..
            } => (times(BYTES_OF_TIMER, connections), each(gap)),
            Workload::Daemons { tasks, period, .. } => (
                times(BYTES_OF_TASK, tasks),
                times(each_tick(period.low), tasks),
            ),
            Workload::Desktop {
                timers,
                period,
                gap,
                ..
            } => {
                let bursts = times(each(gap), BURST);
                (
                    times(BYTES_OF_TIMER * u64::from(1 + BURST), timers),
                    times(each(period.low).saturating_add(bursts), timers),
                )
            }
            _ => (BYTES_OF_TASK, 1),
        };
        Needs { memory, events }
    }

    /// Returns the needs of a fault. A fault takes no time of the machine, so only its own period limits how often it
    /// occurs. Faults that occur faster than a CPU can handle them wait, and each waits for all earlier ones.
    fn of_fault(&self, fault: &Fault) -> Needs {
        let When::Every(every) = fault.when else {
            return Needs::default();
        };
        let hits = per(self.duration, every);
        let waiting = hits.saturating_sub(per(self.duration, SHORTEST_EVENT));
        Needs {
            memory: waiting.saturating_mul(BYTES_OF_EVENT),
            events: hits.saturating_add(waiting.saturating_mul(waiting)),
        }
    }
}

fn times(one: u64, number: u32) -> u64 {
    one.saturating_mul(u64::from(number))
}

/// Returns the number of times that `time` fits into `duration`, plus one.
const fn per(duration: Picos, time: Picos) -> u64 {
    let time = if time.0 == 0 { 1 } else { time.0 };
    duration.0 / time + 1
}

/// Returns the part that needs the most, if all parts together need more than `limit`.
fn exceeds(
    parts: &[(String, Needs)],
    is_memory: bool,
    limit: u64,
    needs: impl Fn(&Needs) -> u64,
) -> Result<(), TooMuch> {
    let all = parts
        .iter()
        .fold(0_u64, |sum, (_, part)| sum.saturating_add(needs(part)));
    let Some((part, most)) = parts.iter().max_by_key(|(_, part)| needs(part)) else {
        return Ok(());
    };
    if all <= limit {
        return Ok(());
    }
    Err(TooMuch {
        part: part.clone(),
        is_memory,
        needs: needs(most),
        all,
        limit,
    })
}

#[cfg(test)]
mod tests;
