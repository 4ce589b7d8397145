//! The record of one CPU of a machine.

use std::cell::Cell;

use tickless_core::tick::Dependencies;

use crate::baseline::search::Searcher;
use crate::machine::fair::Precise;
use crate::machine::scheduler::{RunQueue, TaskId};
use crate::machine::slice::Slice;
use crate::machine::timers::Exact;
use crate::model::governor::Sleeps;
use crate::model::profile::IdleState;
use crate::model::time::Picos;
use crate::promise::idle_stays_idle::LeftArmed;

pub(crate) struct Cpu {
    /// The time up to which the CPU has executed.
    pub(crate) cursor: Picos,
    pub(crate) current: Option<TaskId>,
    /// True if an event of the CPU is queued for the rest of the work of an interrupt.
    pub(crate) is_put_off: bool,
    /// The end of a fault's stall: the CPU executes nothing before this time.
    pub(crate) stalled_until: Picos,
    /// True while the CPU is off because of a fault.
    pub(crate) is_off: bool,
    pub(crate) waiting: Box<dyn RunQueue>,
    /// The reasons to keep the CPU's tick, if its tasks run without a tick.
    pub(crate) dependencies: Dependencies,
    /// The ends of slices, if tasks of the CPU run one after the other.
    pub(crate) slice: Option<Slice>,
    /// The state of the CPU's fair queue.
    pub(crate) precise: Option<Precise>,
    /// The lengths of the CPU's last idle times.
    pub(crate) sleeps: Sleeps,
    /// The time from which on the CPU has nothing to run; `None` while it has a task.
    pub(crate) workless_since: Option<Picos>,
    /// Set if the device may fire once, while the CPU sleeps, for a timer that is no longer queued.
    pub(crate) left_armed: Cell<Option<LeftArmed>>,
    pub(crate) tick: Exact,
    /// The wake-up that the CPU programmed, while the CPU sleeps without a tick.
    pub(crate) wakes_at: Picos,
    /// The idle state in which the CPU sleeps, and the time since when it sleeps.
    pub(crate) idle: Option<usize>,
    pub(crate) idle_since: Picos,
    pub(crate) residency: Vec<Picos>,
    /// The end of the running task's computation, and the generation of the event for that end.
    pub(crate) segment_ends: Picos,
    pub(crate) segment: u32,
    /// The number of the last extension of a slice.
    pub(crate) extension: u32,
    /// The last time span in which the task was kept from running.
    pub(crate) theft: Option<(Picos, Picos)>,
    pub(crate) longest_theft: Picos,
    /// The number of times that the CPU entered or left idle.
    pub(crate) changes: u64,
    pub(crate) searcher: Searcher,
}

impl Cpu {
    /// Makes a CPU that is awake and does nothing, with so many idle states.
    pub(super) fn new(
        tick: Exact,
        waiting: Box<dyn RunQueue>,
        (slice, precise): (Option<Slice>, Option<Precise>),
        states: usize,
    ) -> Self {
        Self {
            cursor: Picos::ZERO,
            current: None,
            is_put_off: false,
            stalled_until: Picos::ZERO,
            is_off: false,
            waiting,
            slice,
            precise,
            sleeps: Sleeps::default(),
            workless_since: None,
            left_armed: Cell::new(None),
            dependencies: Dependencies::new(),
            tick,
            wakes_at: Picos::ZERO,
            idle: None,
            idle_since: Picos::ZERO,
            residency: vec![Picos::ZERO; states],
            segment_ends: Picos::ZERO,
            segment: 0,
            extension: 0,
            theft: None,
            longest_theft: Picos::ZERO,
            changes: 0,
            searcher: Searcher::default(),
        }
    }

    /// Counts an extension of a slice, and returns the number of the extension.
    pub(super) const fn extended(&mut self) -> u32 {
        self.extension = self.extension.wrapping_add(1);
        self.extension
    }

    /// Returns the time before which the CPU executes nothing else.
    pub(crate) fn busy_until(&self) -> Picos {
        self.cursor.max(self.stalled_until)
    }

    /// Wakes the CPU from the state `idle` at `at`, and returns the time that the wake-up takes.
    pub(super) fn wakes(&mut self, states: &[IdleState], idle: usize, at: Picos) -> Picos {
        let slept = at - self.idle_since;
        let polled = slept.min(states[idle].polls_first);
        self.residency[0] += polled;
        self.residency[idle] += slept - polled;
        if slept < states[idle].polls_first {
            states[0].exit
        } else {
            states[idle].exit
        }
    }

    /// Ends the theft in progress if the next theft begins at `next`, after its end. Returns the length of the theft
    /// that ended.
    pub(super) fn settle_theft(&mut self, next: Picos) -> Option<Picos> {
        let (from, to) = self.theft.filter(|(_, to)| next > *to)?;
        self.theft = None;
        self.longest_theft = self.longest_theft.max(to - from);
        Some(to - from)
    }
}
