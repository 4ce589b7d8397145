//! The baseline that pushes a timer when it is armed: it searches a busy CPU by walking over the flags of all others.
//!
//! A CPU that runs a task keeps the timers that it arms. For a CPU that is isolated or idle, the nearest busy CPU that
//! is not isolated takes the timer. The search begins with the other threads of the core, and continues with the cores
//! of the same last-level cache, with the socket, and with all others, each in the order of their numbers. If all CPUs
//! sleep, the timer stays.
//!
//! A check of a CPU costs a step of the loop, three loads (its current task, the number of waiting tasks, the task that
//! is about to be woken there), and a cache-line transfer if that CPU became idle or busy since the searching CPU
//! checked it last.

use crate::model::cost_model::CostModel;
use crate::model::current_cpu;
use crate::model::topology::Distance;

/// The number of loads for each CPU that a search checks.
pub(crate) const LOADS: u64 = 3;

/// The state of a machine's CPUs, as a search sees it.
pub(crate) trait Flags {
    fn cpus(&self) -> u32;
    /// Returns true if a task runs on `cpu`.
    fn is_busy(&self, cpu: u32) -> bool;
    fn is_isolated(&self, cpu: u32) -> bool;
    /// Returns the number of times that `cpu` became idle or busy.
    fn changes(&self, cpu: u32) -> u64;
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Searcher {
    /// The other CPUs that are not isolated, the nearest first, each with the number of its changes at the last check.
    order: Vec<(u32, u64)>,
}

impl Searcher {
    fn new(flags: &impl Flags, model: &CostModel, me: u32) -> Self {
        let mut order: Vec<(u32, u64)> = (0..flags.cpus())
            .filter(|cpu| *cpu != me && !flags.is_isolated(*cpu))
            .map(|cpu| (cpu, u64::MAX))
            .collect();
        // Stable: by number within each distance.
        order.sort_by_key(|(cpu, _)| model.distance(me, *cpu) as u8);
        Self { order }
    }

    /// Returns the CPU that takes the timers which the executing CPU arms.
    pub(crate) fn find_busy(&mut self, flags: &impl Flags, model: &CostModel) -> u32 {
        let me = current_cpu::cpu();
        let charges = &model.charges;
        current_cpu::charge(charges.search_step + charges.load * LOADS);
        if flags.is_busy(me) && !flags.is_isolated(me) {
            return me;
        }
        if self.order.is_empty() {
            *self = Self::new(flags, model, me);
        }
        let mut found = None;
        for (cpu, seen) in &mut self.order {
            let changes = flags.changes(*cpu);
            if *seen == changes {
                current_cpu::charge(charges.load * LOADS);
            } else {
                let distance = model.distance(me, *cpu).max(Distance::Core);
                current_cpu::charge(charges.line(distance) + charges.load * (LOADS - 1));
                *seen = changes;
            }
            current_cpu::charge(charges.search_step);
            if flags.is_busy(*cpu) {
                found = Some(*cpu);
                break;
            }
        }
        let housekeeping = self.order.first().map(|(cpu, _)| *cpu);
        let stays = housekeeping.filter(|_| flags.is_isolated(me));
        found.or(stays).unwrap_or(me)
    }
}
