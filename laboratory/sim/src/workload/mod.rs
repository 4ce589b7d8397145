//! Workloads, which describe the behaviour of a machine's tasks as data.
//!
//! A scenario lists workloads as `[[workload]]` with a `kind`. Each kind documents its fields.

mod clocked;
mod fields;
mod pairs;
mod pipes;
mod probes;
pub(crate) mod reservation;
pub(crate) mod sections;
mod servers;
pub(crate) mod tasks;
mod values;

use serde::Serialize;

use fields::Fields;
pub(crate) use fields::RawWorkload;
pub use reservation::Reserves;
pub use sections::Sections;
pub use values::{Range, WallClock};

use crate::model::cpu_set;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// The behaviour of the tasks of one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Workload {
    /// `cyclictest`: sleeps by exact timers, one period after another, and records its lateness as `latency`.
    Cyclictest {
        /// The period of the wake-ups.
        period: Picos,
    },
    /// `oslat`: computes for ever, and records the length of each interruption as `theft`.
    Oslat,
    /// `enqueue`: arms and cancels a coarse timer, again and again, and records the time of a pair as `pair`.
    Enqueue {
        /// The number of pairs in a loop.
        repetitions: u32,
        /// The distance of the timer's expiry.
        timeout: Picos,
        /// The pause between two loops.
        gap: Picos,
    },
    /// `busy`: computes for ever.
    Busy,
    /// `duty`: computes and sleeps in turn, by exact timers; both times vary by half.
    Duty {
        /// The average time of computing.
        work: Picos,
        /// The average time of sleeping.
        gap: Picos,
    },
    /// `polls`: periodic coarse timers of drivers, whose callbacks do the work.
    Polls {
        /// The number of timers on each CPU.
        timers: u32,
        /// The periods of the timers, chosen at random once for each.
        period: Range,
        /// The time of a callback, chosen at random each time.
        work: Range,
    },
    /// `network`: a server. Each packet belongs to one of the server's connections. The packet pushes out the
    /// connection's timeout, or cancels it and arms it again. Some clients disappear after a packet, so that the
    /// timeout fires.
    Network {
        /// The number of connections of each CPU.
        connections: u32,
        /// The average time between two packets of a CPU.
        gap: Picos,
        /// The time that a packet takes, without the timers.
        work: Picos,
        /// The timeouts, chosen at random each time.
        timeout: Range,
        /// The percentage of the timeouts that are cancelled.
        cancelled: u32,
    },
    /// `daemons`: tasks that sleep by coarse timers and compute for a while.
    Daemons {
        /// The number of tasks on each CPU.
        tasks: u32,
        /// The period of the wake-ups, chosen at random once for each task.
        period: Range,
        /// The time of computing, chosen at random each time.
        work: Range,
    },
    /// `remote-arms`: a task of each CPU arms timers on the isolated CPUs, at random times.
    RemoteArms {
        /// The average time between two arms.
        gap: Picos,
        /// The distance of the timers' expiry.
        timeout: Picos,
    },
    /// `starts`: starts an exact timer among others, and records the time of a start. The time is recorded as
    /// `in-place` if the timer was queued and keeps its place, and as `fresh` if it was not queued.
    Starts {
        /// The number of queued timers.
        timers: u32,
        /// The number of starts of each kind in a loop.
        repetitions: u32,
        /// The pause between two loops.
        gap: Picos,
    },
    /// `far`: a pinned coarse timer on each CPU, with a deadline far ahead.
    Far {
        /// The distance of the timer's expiry.
        timeout: Picos,
    },
    /// `dbench`: clients and their servers, in a closed loop. A client sends a request, its server answers, and so on.
    /// Each message pushes out the timeout of the task that receives it. The time from request to answer is recorded as
    /// `round-trip`, and a silence that was longer than the timeout as `no-answer`. The server of a client is on the
    /// next CPU of the set.
    Dbench {
        /// The number of pairs for each CPU.
        tasks: u32,
        /// The time to answer a message, chosen at random each time.
        work: Range,
        /// The timeout of each client and of each server.
        timeout: Picos,
    },
    /// `desktop`: a desktop without a user, on each CPU: periodic exact timers with slack, whose callbacks do the work,
    /// and from time to time a burst of four short coarse timers for each periodic timer.
    Desktop {
        /// The number of periodic timers.
        timers: u32,
        /// The periods of the timers, chosen at random once for each.
        period: Range,
        /// The time of a callback, chosen at random each time.
        work: Range,
        /// The slack of a periodic timer.
        slack: Picos,
        /// The average time between two bursts.
        gap: Picos,
    },
    /// `alarms`: a calendar, on each CPU: periodic exact timers at whole multiples of their periods on a clock that may
    /// be set. The time by which the clock has passed such a multiple when the task runs is recorded as `alarm`.
    Alarms {
        /// The clock of the timers.
        clock: WallClock,
        /// The number of timers.
        timers: u32,
        /// The periods of the timers, chosen at random once for each.
        period: Range,
    },
    /// `compute`: computes in pieces, and reads the clock after each piece. The duration of a job of `repetitions`
    /// pieces is recorded as `job`.
    Compute {
        /// The duration of a piece, which varies by half.
        work: Picos,
        /// The number of pieces in a job.
        repetitions: u32,
    },
    /// `hackbench`: groups of tasks that send each other messages through pipes, as fast as they can. The time that a
    /// message was in its pipe is recorded as `message`, and the time at which the last message of a group was received
    /// as `finish`. The tasks are distributed over the CPUs in turn, and stay there.
    Hackbench {
        /// The number of groups.
        groups: u32,
        /// The number of senders of a group, which has the same number of receivers.
        tasks: u32,
        /// The number of messages from each sender to each receiver.
        messages: u32,
        /// The number of bytes of a message.
        size: u32,
        /// The number of bytes that a pipe holds.
        room: u32,
        /// The time to send a message, and the time to receive one.
        work: Picos,
    },
}

impl Workload {
    /// Returns the name of the workload's kind in files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cyclictest { .. } => "cyclictest",
            Self::Oslat => "oslat",
            Self::Enqueue { .. } => "enqueue",
            Self::Busy => "busy",
            Self::Duty { .. } => "duty",
            Self::Polls { .. } => "polls",
            Self::Network { .. } => "network",
            Self::Daemons { .. } => "daemons",
            Self::RemoteArms { .. } => "remote-arms",
            Self::Starts { .. } => "starts",
            Self::Far { .. } => "far",
            Self::Dbench { .. } => "dbench",
            Self::Desktop { .. } => "desktop",
            Self::Alarms { .. } => "alarms",
            Self::Compute { .. } => "compute",
            Self::Hackbench { .. } => "hackbench",
        }
    }
}

/// A workload, with its CPUs and the settings of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// The behaviour of the tasks.
    #[serde(flatten)]
    pub workload: Workload,
    /// The CPUs on which the tasks run.
    pub cpus: Vec<u32>,
    /// The fraction of the CPUs that have a task: one in `one_in`, selected by the seed of the run.
    pub one_in: u32,
    /// The priority of the tasks: tasks of a higher priority run first.
    pub priority: u8,
    /// The weight of each task, which determines its share of a CPU.
    pub weight: u32,
    /// The time for which each task wants to run at a time; `None` for the slice of the scenario.
    pub request: Option<Picos>,
    /// The reservation of each task, if tasks share the CPU fairly. Tasks with a reservation run before all others.
    pub reserves: Option<Reserves>,
    /// The critical sections of each task, in which the task requests an extension before it is preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Sections>,
    /// True if the tasks, like tasks with limited CPU time, keep the tick of a CPU whose tasks run without a tick.
    pub needs_tick: bool,
}

pub(crate) fn read(
    source: &Source<'_>,
    raw: &toml::Spanned<RawWorkload>,
    cpus: u32,
    isolated: &[bool],
) -> Result<Placed, InputError> {
    let mut fields = Fields::new(source, raw);
    let kind = raw.get_ref().kind.get_ref().as_str();
    let workload = workload(kind, &mut fields)?;
    fields.finish()?;
    let raw = raw.get_ref();
    Ok(Placed {
        workload,
        cpus: cpu_set::parse(source, &raw.cpus, cpus, isolated)?,
        one_in: raw.one_in.unwrap_or(1).max(1),
        priority: raw.priority.unwrap_or(1),
        weight: raw.weight.unwrap_or(1).max(1),
        request: match &raw.request {
            Some(request) => Some(source.time(request)?),
            None => None,
        },
        reserves: reservation::read(source, raw)?,
        sections: sections::read(source, raw)?,
        needs_tick: raw.needs_tick,
    })
}

fn workload(kind: &str, fields: &mut Fields<'_>) -> Result<Workload, InputError> {
    Ok(match kind {
        "cyclictest" => Workload::Cyclictest {
            period: fields.time("period")?,
        },
        "oslat" => Workload::Oslat,
        "busy" => Workload::Busy,
        "enqueue" => Workload::Enqueue {
            repetitions: fields.number("repetitions")?,
            timeout: fields.time("timeout")?,
            gap: fields.time("gap")?,
        },
        "duty" => Workload::Duty {
            work: fields.time("work")?,
            gap: fields.time("gap")?,
        },
        "polls" => Workload::Polls {
            timers: fields.number("timers")?,
            period: fields.range("period", "period_max")?,
            work: fields.range("work", "work_max")?,
        },
        "daemons" => Workload::Daemons {
            tasks: fields.number("tasks")?,
            period: fields.range("period", "period_max")?,
            work: fields.range("work", "work_max")?,
        },
        "remote-arms" => Workload::RemoteArms {
            gap: fields.time("gap")?,
            timeout: fields.time("timeout")?,
        },
        "starts" => Workload::Starts {
            timers: fields.number("timers")?,
            repetitions: fields.number("repetitions")?,
            gap: fields.time("gap")?,
        },
        "far" => Workload::Far {
            timeout: fields.time("timeout")?,
        },
        "alarms" => Workload::Alarms {
            clock: fields.clock()?,
            timers: fields.number("timers")?,
            period: fields.range("period", "period_max")?,
        },
        _ => return application(kind, fields),
    })
}

/// Reads the workloads that imitate programs that people run.
fn application(kind: &str, fields: &mut Fields<'_>) -> Result<Workload, InputError> {
    Ok(match kind {
        "network" => Workload::Network {
            connections: fields.number("connections")?,
            gap: fields.time("gap")?,
            work: fields.time("work")?,
            timeout: fields.range("timeout", "timeout_max")?,
            cancelled: fields.percent("cancelled")?,
        },
        "dbench" => Workload::Dbench {
            tasks: fields.number("tasks")?,
            work: fields.range("work", "work_max")?,
            timeout: fields.time("timeout")?,
        },
        "desktop" => Workload::Desktop {
            timers: fields.number("timers")?,
            period: fields.range("period", "period_max")?,
            work: fields.range("work", "work_max")?,
            slack: fields.time("slack")?,
            gap: fields.time("gap")?,
        },
        "compute" => Workload::Compute {
            work: fields.time("work")?,
            repetitions: fields.number("repetitions")?,
        },
        "hackbench" => Workload::Hackbench {
            groups: fields.number("groups")?,
            tasks: fields.number("tasks")?,
            messages: fields.number("messages")?,
            size: fields.number("size")?,
            room: fields.number("room")?,
            work: fields.time("work")?,
        },
        _ => return Err(fields.unknown_kind()),
    })
}
