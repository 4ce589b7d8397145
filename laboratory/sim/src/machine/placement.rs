//! The placement of tasks: the choice of the CPU for a woken task, and of the task that an idle CPU pulls from another
//! CPU.

use tickless_core::platform::{CpuId, pick_target_by_table};

use crate::baseline::{Balance, Placement, search};
use crate::machine::fair::{FAIR, Precise};
use crate::machine::machine::Machine;
use crate::machine::scheduler::TaskId;
use crate::model::current_cpu;
use crate::model::topology::Distance;

impl Machine {
    /// Returns the CPU on which `task`, which the executing CPU wakes, runs next. Each look at another CPU costs as
    /// much as in a [search].
    pub(super) fn place(&mut self, task: TaskId) -> u32 {
        let sleeper = &self.tasks[task as usize];
        let before = sleeper.cpu;
        // An isolated CPU has the tasks that were given to it.
        let stays = self.policy.placement == Placement::Previous
            || sleeper.priority != FAIR
            || self.isolated[before as usize]
            || self.cpus[before as usize].is_off
            || self.is_free(before);
        if stays || self.cpus[before as usize].precise.is_none() {
            return before;
        }
        let there = self.free_near(before);
        if there != before {
            // No further than what it can have done by now.
            let then = self.run_time(before, self.event_at);
            let queue = &mut self.cpus[before as usize].waiting;
            queue.forgets(&self.tasks[task as usize], then);
            self.tasks[task as usize].cpu = there;
            self.host().checker.borrow_mut().counts.placed += 1;
        }
        there
    }

    /// Returns true if `cpu` has nothing to run.
    fn is_free(&self, cpu: u32) -> bool {
        let state = &self.cpus[cpu as usize];
        let none_comes = |precise: &Precise| precise.woken.is_empty();
        state.current.is_none()
            && state.waiting.is_empty()
            && state.precise.as_ref().is_none_or(none_comes)
    }

    /// Returns the nearest CPU that shares the last-level cache with `cpu`, has nothing to run and is awake; `cpu` if
    /// there is none.
    fn free_near(&self, cpu: u32) -> u32 {
        let host = self.host();
        let charges = &self.model.charges;
        let is_near = |other: &u32| self.model.distance(cpu, *other) <= Distance::Cache;
        let is_free = |other: &u32| {
            current_cpu::charge(charges.search_step + charges.load * search::LOADS);
            let keeps_house = !self.isolated[*other as usize] && !self.cpus[*other as usize].is_off;
            keeps_house && self.is_free(*other)
        };
        let others = host.nearest(cpu).iter().copied();
        let others = others.take_while(is_near).filter(is_free);
        pick_target_by_table(CpuId(cpu), false, others.map(|cpu| host.asked(cpu))).0
    }

    /// Takes a task for `cpu`, which executes and has none, from the nearest CPU with a waiting task.
    pub(super) fn pull(&mut self, cpu: u32) -> Option<TaskId> {
        if self.policy.balance != Balance::Idle || self.isolated[cpu as usize] {
            return None;
        }
        let mut found: Option<(Distance, u32)> = None;
        for (other, state) in (0_u32..).zip(&self.cpus) {
            // One that waits while none runs is about to.
            let waits = state.waiting.movable() > usize::from(state.current.is_none());
            if other == cpu || state.is_off || self.isolated[other as usize] || !waits {
                continue;
            }
            let distance = self.model.distance(cpu, other);
            if found.is_none_or(|(nearest, _)| distance < nearest) {
                found = Some((distance, other));
            }
        }
        let charges = &self.model.charges;
        current_cpu::charge(charges.load * self.cpus.len() as u64);
        let (distance, other) = found?;
        current_cpu::charge(charges.lock + charges.line(distance) * 2);
        // No further than what it can have done by now.
        let then = self.run_time(other, self.event_at);
        let task = self.cpus[other as usize].waiting.give(then)?;
        self.tasks[task as usize].cpu = cpu;
        self.host().checker.borrow_mut().counts.pulled += 1;
        Some(task)
    }
}
