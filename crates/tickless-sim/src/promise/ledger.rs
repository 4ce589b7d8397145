//! Which timers are queued, one by one: to count those that were lost.
//!
//! That a CPU has an overdue timer its queues say. How many there are, and which, they do not say; to keep it here
//! costs as much again as arming a timer does. So a run keeps it if it is recorded, or is the repetition of one that
//! lost something.

use std::collections::BTreeMap;

use tickless_core::coarse::{Kind, Tick};
use tickless_core::time::Clock;
use tickless_core::trace::{Event as Traced, TimerId};

/// A timer that is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// On which CPU.
    pub(crate) cpu: u32,
    pub(crate) due: Due,
}

/// When a timer is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// When this tick begins.
    Tick(Tick),
    /// When the clock shows so many nanoseconds.
    At(Clock, i64),
    /// It wakes no CPU, and may be as late as it likes.
    Never,
}

/// All of them, by their addresses, whose order means nothing.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<TimerId, Queued>);

impl Ledger {
    /// Takes what the core reports.
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
                    Kind::Deferrable => Due::Never,
                    Kind::Local | Kind::Global => Due::Tick(due),
                };
                self.0.insert(timer, Queued { cpu: cpu.0, due });
            }
            Traced::Start {
                cpu,
                timer,
                clock,
                hard,
                ..
            } => {
                let due = Due::At(clock, hard);
                self.0.insert(timer, Queued { cpu: cpu.0, due });
            }
            Traced::WheelCancel { timer, .. }
            | Traced::WheelExpire { timer, .. }
            | Traced::Cancel { timer, .. }
            | Traced::ExpireEntry { timer, .. } => {
                self.0.remove(&timer);
            }
            _ => {}
        }
    }

    /// What is queued.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Queued> {
        self.0.values()
    }
}
