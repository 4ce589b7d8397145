//! Push at enqueue: finding a busy CPU for a timer by walking over the flags of all others.
//!
//! A CPU that runs something keeps what it arms. For one that is isolated, or idle, the nearest busy CPU that is not
//! isolated takes the timer: other threads of the core first, then the cores of the same last-level cache, of the
//! socket, and the rest, each by their numbers. If all sleep the timer stays.
//!
//! What a look at a CPU costs: a step of the loop, three loads (its current task, how many wait, who is about to be
//! woken there), and the way of the line if that CPU went idle or came back since this one looked last.

use crate::machine::machine::World;
use crate::model::current_cpu;
use crate::model::topology::Distance;

/// Loads for each CPU that is looked at.
const LOADS: u64 = 3;

/// What a CPU that searches remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searcher {
    /// The others that are not isolated, the nearest first, and how often each had changed at the last look.
    order: Vec<(u32, u64)>,
}

impl Searcher {
    fn new(world: &World, me: u32) -> Self {
        let cpus = u32::try_from(world.cpus.len()).unwrap_or(u32::MAX);
        let mut order: Vec<(u32, u64)> = (0..cpus)
            .filter(|cpu| *cpu != me && !world.isolated[*cpu as usize])
            .map(|cpu| (cpu, u64::MAX))
            .collect();
        // Stable: by number within each distance.
        order.sort_by_key(|(cpu, _)| world.model.distance(me, *cpu) as u8);
        Self { order }
    }
}

/// The CPU that takes what the executing one arms.
pub(crate) fn find_busy(world: &mut World) -> u32 {
    let me = current_cpu::cpu();
    let charges = world.model.charges;
    current_cpu::charge(charges.search_step + charges.load * LOADS);
    let is_busy = |world: &World, cpu: u32| world.cpus[cpu as usize].current.is_some();
    if is_busy(world, me) && !world.isolated[me as usize] {
        return me;
    }
    let mut searcher = std::mem::take(&mut world.cpus[me as usize].searcher);
    if searcher.order.is_empty() {
        searcher = Searcher::new(world, me);
    }
    let mut found = None;
    for (cpu, seen) in &mut searcher.order {
        let changes = world.cpus[*cpu as usize].changes;
        if *seen == changes {
            current_cpu::charge(charges.load * LOADS);
        } else {
            let distance = world.model.distance(me, *cpu).max(Distance::Core);
            current_cpu::charge(charges.line(distance) + charges.load * (LOADS - 1));
            *seen = changes;
        }
        current_cpu::charge(charges.search_step);
        if is_busy(world, *cpu) {
            found = Some(*cpu);
            break;
        }
    }
    let housekeeping = searcher.order.first().map(|(cpu, _)| *cpu);
    let stays = if world.isolated[me as usize] {
        housekeeping
    } else {
        None
    };
    world.cpus[me as usize].searcher = searcher;
    found.or(stays).unwrap_or(me)
}
