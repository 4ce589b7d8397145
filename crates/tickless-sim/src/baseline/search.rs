//! The baseline that pushes a timer when it is armed: it searches a busy CPU by walking over the flags of all others.
//!
//! A CPU that runs something keeps what it arms. For one that is isolated, or idle, the nearest busy CPU that is not
//! isolated takes the timer: other threads of the core first, then the cores of the same last-level cache, of the
//! socket, and the rest, each by their numbers. If all sleep the timer stays.
//!
//! The cost of a look at a CPU: a step of the loop, three loads (its current task, how many wait, which one is about to
//! be woken there), and the way of the line if that CPU went idle or came back since this one looked last.

use crate::model::cost_model::CostModel;
use crate::model::current_cpu;
use crate::model::topology::Distance;

/// Loads for each CPU that is looked at.
pub(crate) const LOADS: u64 = 3;

/// The state of a machine's CPUs, as a search sees it.
pub(crate) trait Flags {
    /// Returns the number of CPUs.
    fn cpus(&self) -> u32;
    /// Returns true if a task runs on `cpu`.
    fn is_busy(&self, cpu: u32) -> bool;
    /// Returns true if `cpu` is isolated at this moment.
    fn is_isolated(&self, cpu: u32) -> bool;
    /// Returns the number of times that `cpu` went idle or came back.
    fn changes(&self, cpu: u32) -> u64;
}

/// The memory of a CPU that searches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searcher {
    /// The others that are not isolated, the nearest first, and how often each had changed at the last look.
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

    /// The CPU that takes what the executing one arms.
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
