//! The tasks of a workload, with their programs and their CPUs.

use std::cell::RefCell;
use std::rc::Rc;

use tickless_conformance::random::Random;
use tickless_core::tick::Dependency;
use tickless_core::time::{Boottime, Realtime, Tai};
use tickless_sched::Weight;
use tickless_sched::deadline::Reservation;

use super::clocked::{Alarms, Compute};
use super::pairs::{Channel, Desktop, Half};
use super::pipes::{self, Messages};
use super::probes::{Cyclictest, Enqueue, Far, Oslat, RemoteArms, Starts};
use super::servers::{self, Daemon, Duty, Network, Polls};
use super::values::{WallClock, log_uniform};
use super::{Placed, Reserves, Workload};
use crate::machine::executor::Executor;
use crate::machine::scheduler::TaskId;
use crate::machine::task_context::{Program, notes};
use crate::model::time::Picos;

/// Adds the tasks of `placed` to a machine. `seed` belongs to this workload.
pub(crate) fn add(placed: &Placed, executor: &mut Executor, seed: u64) {
    let first = executor.machine().tasks.len();
    placed.add_to(executor, seed);
    let machine = executor.machine_mut();
    if let Some(sections) = placed.sections {
        machine.extends_slices = true;
        for task in &mut machine.tasks[first..] {
            task.sections = Some(sections);
        }
    }
}

impl Placed {
    fn add_to(&self, executor: &mut Executor, seed: u64) {
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
            let of = (self.priority, self.entitlement());
            pipes::add_groups(executor, &cpus, of, groups, tasks, messages);
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

    /// Returns the weight of each task of the workload, the time for which it wants to run at a time, and its
    /// reservation.
    fn entitlement(&self) -> (Weight, Option<Picos>, Option<Reservation>) {
        let reservation = self.reserves.and_then(Reserves::reservation);
        (Weight::UNIT.times(self.weight), self.request, reservation)
    }

    fn add_task(&self, executor: &mut Executor, program: Box<dyn Program>, cpu: u32) -> TaskId {
        let task = executor.add_task(program, cpu, self.priority, self.entitlement());
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

    /// Returns the number of groups, the number of tasks in each group, and the messages that they send.
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
