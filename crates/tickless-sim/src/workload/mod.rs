//! Workloads: what the tasks of a world do, as data.
//!
//! A scenario lists them as `[[workload]]` with a `kind`; each kind says which fields it has.

mod clocked;
mod fields;
mod pairs;
mod pipes;
mod probes;
mod servers;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;
use tickless_core::tick::Dependency;
use tickless_core::time::{Boottime, Realtime, Tai};

pub use clocked::WallClock;
use clocked::{Alarms, Compute};
use fields::Fields;
pub use fields::Range;
pub(crate) use fields::RawWorkload;

use crate::machine::executor::Executor;
use crate::machine::scheduler::TaskId;
use crate::machine::task_context::Program;
use crate::machine::task_context::notes;
use crate::model::cpu_set;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;
use crate::random::Random;
use pairs::{Channel, Desktop, Half};
use pipes::Messages;
use probes::{Cyclictest, Enqueue, Far, Oslat, RemoteArms, Starts};
use servers::{Daemon, Duty, Network, Polls};

/// What the tasks of one workload do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Workload {
    /// `cyclictest`: sleeps by exact timers, one period after the other, and notes how late it runs as `latency`.
    Cyclictest {
        /// From one wake-up to the next.
        period: Picos,
    },
    /// `oslat`: computes for ever, and notes for how long it was kept from it as `theft`.
    Oslat,
    /// `enqueue`: arms a coarse timer and cancels it, again and again, and notes what a pair took as `pair`.
    Enqueue {
        /// Pairs of a loop.
        repetitions: u32,
        /// How far ahead the timer is.
        timeout: Picos,
        /// Between two loops.
        gap: Picos,
    },
    /// `busy`: computes for ever.
    Busy,
    /// `duty`: computes for a while and sleeps for a while, by exact timers; both vary by half.
    Duty {
        /// How long it computes, on average.
        work: Picos,
        /// How long it sleeps, on average.
        gap: Picos,
    },
    /// `polls`: periodic coarse timers of drivers, whose callbacks do the work.
    Polls {
        /// How many on each CPU.
        timers: u32,
        /// Their periods, drawn once for each.
        period: Range,
        /// What a callback takes, drawn each time.
        work: Range,
    },
    /// `network`: a server. Each packet belongs to one of its connections, whose timeout it pushes out, or cancels and
    /// arms anew; some clients go away with a packet, so that the timeout comes.
    Network {
        /// Connections of each CPU.
        connections: u32,
        /// Between two packets of a CPU, on average.
        gap: Picos,
        /// What a packet takes besides the timers.
        work: Picos,
        /// The timeouts, drawn each time.
        timeout: Range,
        /// Of a hundred timeouts, so many are cancelled.
        cancelled: u32,
    },
    /// `daemons`: tasks that sleep by coarse timers and compute for a while.
    Daemons {
        /// How many on each CPU.
        tasks: u32,
        /// From one wake-up to the next, drawn once for each.
        period: Range,
        /// How long they compute, drawn each time.
        work: Range,
    },
    /// `remote-arms`: a task of each CPU arms timers on the isolated CPUs, at random moments.
    RemoteArms {
        /// Between two, on average.
        gap: Picos,
        /// How far ahead they are.
        timeout: Picos,
    },
    /// `starts`: starts an exact timer among others, and notes what that took: as `in-place` when it was queued already
    /// and keeps its place, as `fresh` when it was not.
    Starts {
        /// How many are queued.
        timers: u32,
        /// Starts of a loop, of each kind.
        repetitions: u32,
        /// Between two loops.
        gap: Picos,
    },
    /// `far`: a pinned coarse timer on each CPU that does not fire for long.
    Far {
        /// How far ahead it is.
        timeout: Picos,
    },
    /// `dbench`: clients and their servers, a closed loop. A client asks, its server answers, and so on; each message
    /// pushes out the timeout of whoever gets it. What passed from question to answer is noted as `round-trip`, and a
    /// silence that was longer than the timeout as `no-answer`. The server of a client is on the next CPU of the set.
    Dbench {
        /// How many pairs for each CPU.
        tasks: u32,
        /// What a message takes to answer, drawn each time.
        work: Range,
        /// The timeout of each half.
        timeout: Picos,
    },
    /// `desktop`: a desktop that nobody uses, on each CPU: periodic exact timers with slack, whose callbacks do the
    /// work, and now and then a burst of four short coarse timers for each of these.
    Desktop {
        /// How many periodic timers.
        timers: u32,
        /// Their periods, drawn once for each.
        period: Range,
        /// What a callback takes, drawn each time.
        work: Range,
        /// By how much later a periodic timer may fire.
        slack: Picos,
        /// Between two bursts, on average.
        gap: Picos,
    },
    /// `alarms`: a calendar, on each CPU: periodic exact timers at whole multiples of their periods on a clock that may
    /// be set. What the clock is ahead of such a multiple when the task runs is noted as `alarm`.
    Alarms {
        /// The clock.
        clock: WallClock,
        /// How many.
        timers: u32,
        /// Their periods, drawn once for each.
        period: Range,
    },
    /// `compute`: computes in pieces, and reads the clock after each. How long a job of so many pieces took is noted as
    /// `job`.
    Compute {
        /// A piece, which varies by half.
        work: Picos,
        /// Pieces of a job.
        repetitions: u32,
    },
    /// `hackbench`: groups of tasks that send each other messages through pipes, as fast as they can. How long a
    /// message was in its pipe is noted as `message`, and when the last one of a group was received as `finish`. The
    /// tasks are spread over the CPUs by turns, and stay there.
    Hackbench {
        /// How many groups.
        groups: u32,
        /// How many senders a group has, and as many receivers.
        tasks: u32,
        /// How many messages each sender sends to each receiver.
        messages: u32,
        /// Bytes of a message.
        size: u32,
        /// Bytes that a pipe holds.
        room: u32,
        /// What it takes to send one, and to receive one.
        work: Picos,
    },
}

impl Workload {
    /// The name of its kind in files.
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

/// A workload and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// What the tasks do.
    #[serde(flatten)]
    pub workload: Workload,
    /// On which CPUs.
    pub cpus: Vec<u32>,
    /// On one of so many of them, drawn by the seed of the run.
    pub one_in: u32,
    /// The priority of its tasks: higher ones run first.
    pub priority: u8,
    /// They keep the tick of a CPU whose tasks run without one, as those do whose CPU time is limited.
    pub needs_tick: bool,
}

/// Reads a workload.
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

/// Those that are made like programs that people run.
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

/// A number from `range`, by octaves: each has the same chance, and within one each number.
pub(crate) fn log_uniform(random: &mut Random, range: Range) -> Picos {
    let (low, high) = (range.low.0.max(1), range.high.0.max(range.low.0).max(1));
    let octaves = u64::from((high / low).ilog2()) + 1;
    let from = low << random.below(octaves);
    let to = from.saturating_mul(2).min(high + 1).max(from + 1);
    Picos(from + random.below(to - from))
}

/// A time around `mean`: from nothing to twice as much.
pub(crate) fn around(random: &mut Random, mean: Picos) -> Picos {
    Picos(random.below(mean.0.saturating_mul(2).max(1)))
}

impl Placed {
    /// Adds the tasks to a machine. `seed` is that of this workload.
    pub(crate) fn add_to(&self, executor: &mut Executor, seed: u64) {
        let mut random = Random::new(seed);
        let mut cpus = self.cpus.clone();
        if self.one_in > 1 {
            let keeps = cpus.len() / self.one_in as usize;
            for index in 0..keeps {
                let other = index + random.index(cpus.len() - index);
                cpus.swap(index, other);
            }
            cpus.truncate(keeps);
        }
        if let Workload::Dbench { tasks, .. } = self.workload {
            self.add_pairs(executor, &cpus, tasks, &mut random);
            return;
        }
        if let Some((groups, tasks, messages)) = self.pipes() {
            pipes::add_groups(executor, &cpus, self.priority, groups, tasks, messages);
            return;
        }
        for cpu in cpus {
            for _ in 0..self.tasks_of_cpu() {
                let program =
                    self.program(Random::new(random.bits()), &executor.machine().isolated);
                let task = self.add_task(executor, program, cpu);
                executor.machine_mut().tasks[task as usize].is_watched =
                    self.workload == Workload::Oslat;
            }
        }
    }

    fn add_task(&self, executor: &mut Executor, program: Box<dyn Program>, cpu: u32) -> TaskId {
        let task = executor.add_task(program, cpu, self.priority);
        if self.needs_tick {
            // No task runs yet that it would concern.
            let _is_first = executor.machine().tasks[task as usize]
                .dependencies
                .set(Dependency::CpuTimers);
        }
        task
    }

    fn add_pairs(&self, executor: &mut Executor, cpus: &[u32], tasks: u32, random: &mut Random) {
        let servers = cpus.iter().cycle().skip(1);
        for (client, server) in cpus.iter().zip(servers) {
            for _ in 0..tasks {
                let channel = Rc::default();
                for (cpu, is_client) in [(*client, true), (*server, false)] {
                    let random = Random::new(random.bits());
                    let half = self.half(&channel, is_client, random);
                    self.add_task(executor, half, cpu);
                }
            }
        }
    }

    /// How many groups of how many tasks, and what they send.
    const fn pipes(&self) -> Option<(u32, u32, Messages)> {
        let Workload::Hackbench {
            groups,
            tasks,
            messages: count,
            size,
            room,
            work,
        } = self.workload
        else {
            return None;
        };
        let messages = Messages {
            count,
            size,
            room,
            work,
        };
        Some((groups, tasks, messages))
    }

    fn half(
        &self,
        channel: &Rc<RefCell<Channel>>,
        is_client: bool,
        random: Random,
    ) -> Box<dyn Program> {
        let Workload::Dbench { work, timeout, .. } = self.workload else {
            unreachable!("no other workload has halves");
        };
        let channel = Rc::clone(channel);
        Box::new(Half::new(channel, is_client, work, timeout, random))
    }

    const fn tasks_of_cpu(&self) -> u32 {
        match self.workload {
            Workload::Daemons { tasks, .. } => tasks,
            _ => 1,
        }
    }

    fn program(&self, mut random: Random, isolated: &[bool]) -> Box<dyn Program> {
        match self.workload {
            Workload::Cyclictest { period } => Box::new(Cyclictest::new(period, random)),
            Workload::Oslat | Workload::Busy => Box::new(Oslat),
            Workload::Enqueue {
                repetitions,
                timeout,
                gap,
            } => Box::new(Enqueue::new(repetitions, timeout, gap)),
            Workload::Duty { work, gap } => Box::new(Duty::new(work, gap, random)),
            Workload::Polls {
                timers,
                period,
                work,
            } => Box::new(Polls::new(timers, period, work, random)),
            Workload::Network {
                connections,
                gap,
                work,
                timeout,
                cancelled,
            } => {
                let packets = servers::Packets {
                    gap,
                    work,
                    timeout,
                    cancelled,
                };
                Box::new(Network::new(connections, packets, random, notes))
            }
            Workload::Daemons { period, work, .. } => {
                let period = log_uniform(&mut random, period);
                Box::new(Daemon::new(period, work, random))
            }
            Workload::RemoteArms { gap, timeout } => {
                let isolated = (0_u32..).zip(isolated);
                let targets = isolated.filter(|(_, is)| **is).map(|(cpu, _)| cpu);
                Box::new(RemoteArms::new(gap, timeout, targets.collect(), random))
            }
            Workload::Starts {
                timers,
                repetitions,
                gap,
            } => Box::new(Starts::new(timers, repetitions, gap)),
            Workload::Far { timeout } => Box::new(Far::new(timeout)),
            Workload::Dbench { .. } | Workload::Hackbench { .. } => {
                unreachable!("its tasks are added together")
            }
            Workload::Desktop {
                timers,
                period,
                work,
                slack,
                gap,
            } => Box::new(Desktop::new(timers, period, work, (slack, gap), random)),
            Workload::Alarms {
                clock,
                timers,
                period,
            } => match clock {
                WallClock::Realtime => Box::new(Alarms::<Realtime>::new(timers, period, random)),
                WallClock::Boottime => Box::new(Alarms::<Boottime>::new(timers, period, random)),
                WallClock::Tai => Box::new(Alarms::<Tai>::new(timers, period, random)),
            },
            Workload::Compute { work, repetitions } => {
                Box::new(Compute::new(work, repetitions, random))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, log_uniform};
    use crate::model::time::Picos;
    use crate::random::Random;

    #[test]
    fn octaves_are_equally_likely_and_the_range_is_kept() {
        let mut random = Random::new(1);
        let range = Range {
            low: Picos(1_000),
            high: Picos(64_000),
        };
        let drawn: Vec<Picos> = (0..10_000)
            .map(|_| log_uniform(&mut random, range))
            .collect();
        assert!(
            drawn
                .iter()
                .all(|one| *one >= range.low && *one <= range.high)
        );
        let below = drawn.iter().filter(|one| one.0 < 8_000).count();
        // Three of the seven octaves, the last of which is one number.
        assert!((4_000..4_600).contains(&below), "{below}");
    }
}
