//! The CPUs that are in the middle of a walk through a hierarchy.
//!
//! A CPU that becomes idle, or has a new first timer, tells the groups above it one after the other, and then promises
//! to wake up if it has to. While a CPU does so, the hierarchy may lack a promise. When no CPU does, it may not.

use std::collections::BTreeMap;

use super::event::Step;

/// The duties of a CPU that keep its walk from ending with its next event outside of the hierarchy.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// The CPU runs the timers of another CPU, which have events of their own.
    is_serving: bool,
    /// The number of `tmigr_cpu_wakeup` that it owes for itself: after it became idle it says what it promises, and
    /// after a new first timer it takes its promise back before. A CPU whose timers others always run does not, so its
    /// walk never ends.
    owed: u8,
}

/// The CPUs that walk through one hierarchy.
#[derive(Debug, Default)]
pub(super) struct Walks {
    walks: BTreeMap<u32, Walk>,
    /// A CPU left the hierarchy, and another one takes over what it had promised.
    is_handed_over: bool,
}

impl Walks {
    /// Takes an event of this hierarchy on `cpu`.
    pub(super) fn take(&mut self, step: &Step, cpu: u32) {
        let walk = self.walks.entry(cpu).or_default();
        match *step {
            Step::Idle => walk.owed = 1,
            Step::NewTimerIdle => walk.owed = 2,
            Step::Serve { .. } => walk.is_serving = true,
            Step::Served => walk.is_serving = false,
            Step::Unavailable { .. } => {
                self.is_handed_over = true;
                // With its last event.
                self.walks.remove(&cpu);
            }
            Step::SetActive(_) => self.is_handed_over = false,
            Step::Promise { of_cpu, wakeup } => {
                if wakeup.is_some() {
                    self.is_handed_over = false;
                }
                if of_cpu == cpu && walk.owed > 0 {
                    walk.owed -= 1;
                    self.end(cpu);
                }
            }
            _ => {}
        }
    }

    /// Takes an event of `cpu` that may be the end of its walk: what it owed, or one outside of the hierarchy.
    pub(super) fn end(&mut self, cpu: u32) {
        let is_over = |walk: &Walk| !walk.is_serving && walk.owed == 0;
        if self.walks.get(&cpu).is_some_and(is_over) {
            self.walks.remove(&cpu);
        }
    }

    /// Returns true if no CPU is in the middle of a walk.
    pub(super) fn are_over(&self) -> bool {
        self.walks.is_empty() && !self.is_handed_over
    }
}
