//! The CPUs that are in the middle of a walk through a hierarchy.
//!
//! A CPU that becomes idle, or has a new first timer, tells the groups above it one after the other, and then promises
//! to wake up if it has to. While a CPU does so, the hierarchy may lack a promise. When no CPU does, it may not.

use std::collections::BTreeMap;

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

/// The contents of a `tmigr_cpu_wakeup`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) of_cpu: u32,
    /// True if there is a promise now; otherwise one was taken back, or none is made.
    pub(super) is_made: bool,
}

impl Walks {
    /// Takes an event of this hierarchy on `cpu`. `promise` belongs to a `tmigr_cpu_wakeup`.
    pub(super) fn take(&mut self, event: &str, cpu: u32, promise: Option<Promise>) {
        let walk = self.walks.entry(cpu).or_default();
        match event {
            "tmigr_cpu_idle" => walk.owed = 1,
            "tmigr_cpu_new_timer_idle" => walk.owed = 2,
            "tmigr_handle_remote_cpu" => walk.is_serving = true,
            "tmigr_handle_remote_cpu_done" => walk.is_serving = false,
            "tmigr_cpu_unavailable" => {
                self.is_handed_over = true;
                // With its last event.
                self.walks.remove(&cpu);
                return;
            }
            "tmigr_group_set_cpu_active" => self.is_handed_over = false,
            _ => {}
        }
        let Some(promise) = promise else { return };
        if promise.is_made {
            self.is_handed_over = false;
        }
        if promise.of_cpu == cpu && walk.owed > 0 {
            walk.owed -= 1;
            self.end(cpu);
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
