//! Extensions of slices: a task of the fair class whose slice ends in a critical section goes on for a little, once
//! (FLUSH-7).
//!
//! The writes of a task on entering and leaving a section are not charged. The accesses of the CPU at the end of the
//! slice are charged, and so is the entry into the kernel of a task that yields the CPU.

use tickless_core::time::Span;
use tickless_sched::hrtick::EXTENSION;

use crate::machine::machine::Machine;
use crate::machine::queue::EventKind;
use crate::machine::scheduler::TaskId;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::{Promise, slice_ends};

impl Machine {
    /// Returns true if `task`, which runs on `cpu`, goes on for a little instead of yielding the CPU: the task is in a
    /// critical section, and had no extension before.
    pub(super) fn extends_slice(&mut self, cpu: u32, task: TaskId) -> bool {
        let Some(sections) = self.tasks[task as usize].sections else {
            return false;
        };
        self.settle_time(cpu, task);
        let left = sections.left(self.tasks[task as usize].had);
        let precise = self.cpus[cpu as usize].precise.as_mut();
        let Some((precise, left)) = precise.zip(left) else {
            return false;
        };
        // The word of the task: what it asks for, and what it is given.
        current_cpu::charge(self.model.charges.load * 2);
        if !precise.extends(left) {
            return false;
        }
        let host = self.timers.platform();
        let (extensions, ends) = (precise.extensions, precise.section_ends);
        host.checker.borrow_mut().counts.extensions += 1;
        host.check(Promise::SliceEnds, cpu, slice_ends::extended(extensions));
        let number = self.cpus[cpu as usize].extended();
        self.push(ends, EventKind::SectionEnd, cpu, number);
        true
    }

    /// Returns the task of `cpu` and the time at which it leaves its section, if `number` is the extension of that
    /// section. The CPU may be busy until then.
    pub(super) fn section(&self, cpu: u32, number: u32) -> Option<(TaskId, Picos)> {
        let state = &self.cpus[cpu as usize];
        let ends = state.precise.as_ref()?.section_ends;
        let is_it = state.extension == number && ends != Picos::FOREVER;
        let task = state.current.filter(|_| is_it)?;
        Some((task, ends.max(state.busy_until())))
    }

    /// Notes that the task of `cpu` leaves its section later by `time`, because the task was kept from running.
    pub(super) fn put_off_section(&mut self, cpu: u32, time: Picos) {
        let precise = self.cpus[cpu as usize].precise.as_mut();
        if let Some(precise) = precise.filter(|one| one.section_ends != Picos::FOREVER) {
            precise.section_ends += time;
        }
    }

    /// Ends the section for which the slice of the task of `cpu`, which executes, was extended. Returns true if the
    /// task yields the CPU.
    pub(super) fn leaves_section(&mut self, cpu: u32) -> bool {
        let precise = self.cpus[cpu as usize].precise.as_mut();
        let makes_room = precise.is_some_and(super::fair::Precise::leaves_section);
        if makes_room {
            current_cpu::charge(self.model.charges.irq_user);
            self.host().checker.borrow_mut().counts.gave_way += 1;
        }
        makes_room
    }

    pub(super) fn longest_extension(&self) -> Picos {
        let span = if self.extends_slices {
            EXTENSION
        } else {
            Span::ZERO
        };
        Picos::from_nanos(span.as_nanos())
    }
}
