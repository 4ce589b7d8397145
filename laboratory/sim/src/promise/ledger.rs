//! The ledger: the checkers' own list of all queued timers. The checkers use it to find lost timers.
//!
//! The queues show that a CPU has an overdue timer, but not how many there are, and which ones. To keep that list costs
//! as much as arming the timers once more. So a run keeps the ledger only in three cases: the run is recorded; it
//! repeats a run that lost a timer; its claim depends on the neighbours of a timer.

use std::collections::BTreeMap;

use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::time::Clock;
use tickless_core::trace::{Event as Traced, TimerId};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// The CPU on which the timer is queued.
    pub(crate) cpu: u32,
    pub(crate) due: Due,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The timer is due at the beginning of this tick.
    Tick(Tick),
    /// The timer is due when the clock shows this number of nanoseconds.
    At(Clock, i64),
    /// The timer is never due: it wakes no CPU, and may be late by any time.
    Never,
}

/// The queued timers by their addresses. The order of the addresses has no meaning.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    all: BTreeMap<TimerId, Queued>,
    /// The number of starts of queued timers that keep their place between the neighbours which they would have in a
    /// sorted queue.
    keeps_place: u64,
}

impl Ledger {
    /// Updates the ledger from an event of the core's trace.
    pub(crate) fn follow(&mut self, event: &Traced) {
        match *event {
            Traced::WheelArm {
                cpu,
                kind,
                timer,
                due,
                ..
            } => {
                let due = match kind {
                    WheelKind::Deferrable => Due::Never,
                    WheelKind::Local | WheelKind::Global => Due::Tick(due),
                };
                self.all.insert(timer, Queued { cpu: cpu.0, due });
            }
            Traced::Start {
                cpu,
                timer,
                clock,
                hard,
                ..
            } => {
                self.keeps_place += u64::from(self.stays(timer, (cpu.0, clock), hard));
                let due = Due::At(clock, hard);
                self.all.insert(timer, Queued { cpu: cpu.0, due });
            }
            Traced::WheelCancel { timer, .. }
            | Traced::WheelExpire { timer, .. }
            | Traced::Cancel { timer, .. }
            | Traced::ExpireEntry { timer, .. } => {
                self.all.remove(&timer);
            }
            _ => {}
        }
    }

    /// Returns true if `timer` is queued in `queue`, and no other deadline of that queue is between the timer's own and
    /// `deadline`. A sorted queue finds that out by a look at both neighbours (spec Q-10), wherever the library keeps
    /// the timer.
    fn stays(&self, timer: TimerId, queue: (u32, Clock), deadline: i64) -> bool {
        let at = |queued: &Queued| match queued.due {
            Due::At(clock, at) if (queued.cpu, clock) == queue => Some(at),
            _ => None,
        };
        let Some(before) = self.all.get(&timer).and_then(at) else {
            return false;
        };
        let between = before.min(deadline) + 1..before.max(deadline);
        let mut others = self.all.iter().filter(|(other, _)| **other != timer);
        !others.any(|(_, queued)| at(queued).is_some_and(|at| between.contains(&at)))
    }

    /// Returns the number of starts of queued timers that kept their place among the other timers of their queue.
    pub(crate) const fn keeps_place(&self) -> u64 {
        self.keeps_place
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = &Queued> {
        self.all.values()
    }
}

#[cfg(test)]
mod tests {
    use tickless_core::platform::CpuId;
    use tickless_core::time::Clock;
    use tickless_core::trace::{Event, Placement, StartMode, TimerId};

    use super::Ledger;

    #[test]
    fn a_place_is_kept_until_a_neighbour_of_the_same_queue_is_passed() {
        let mut ledger = Ledger::default();
        let mut start = |timer, cpu, hard| {
            let before = ledger.keeps_place();
            ledger.follow(&Event::Start {
                cpu: CpuId(cpu),
                timer: TimerId(timer),
                code: 0,
                clock: Clock::Monotonic,
                hard,
                soft: hard,
                mode: StartMode::default(),
                was_armed: true,
                stood: Placement::FiledEarly,
            });
            ledger.keeps_place() > before
        };
        assert!(!start(1, 0, 10), "it was not queued");
        assert!(!start(2, 0, 20) && !start(3, 1, 12));
        assert!(start(1, 0, 15), "the timer at 12 is in another queue");
        assert!(start(1, 0, 20), "equal deadlines are in order");
        assert!(!start(2, 0, 30) || start(1, 0, 29));
        assert!(!start(1, 0, 31) && start(1, 0, 1_000) && !start(1, 0, 29));
    }
}
