//! The state of a rig whose CPUs tick and sleep deeply.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::pin::Pin;

use tickless_core::hierarchy::Hierarchy;
use tickless_core::hrtimer::HrTimer;
use tickless_core::tick::{CpuTick, TickCount, TickDependencies};
use tickless_core::time::{Monotonic, Span};

use crate::host::Host;
use crate::owned::ExactCall;
use crate::parts::Parts;
use crate::prelude::*;
use crate::rig_tables::Tables;
use crate::tables::PlainLock;
use crate::wakener::Wakener;

/// The state of a CPU that ticks.
pub(crate) struct TickingCpu {
    pub(crate) tick: RefCell<CpuTick>,
    pub(crate) timer: Pin<Box<HrTimer<ExactCall<Monotonic>>>>,
    pub(crate) conditions: Cell<TickDependencies>,
    /// True if the tick found due work, and the soft stage has not run it yet.
    pub(crate) expiry_pending: Cell<bool>,
    /// The number of ticks that ran.
    pub(crate) ticks: Cell<u64>,
    pub(crate) depth: Depth,
}

/// The state of CPUs that tick.
pub(crate) struct Ticks<H: Host> {
    pub(crate) parts: Rc<Parts<H>>,
    pub(crate) count: Rc<TickCount<PlainLock>>,
    pub(crate) tree: Hierarchy<Tables<H>>,
    pub(crate) cpus: Vec<TickingCpu>,
    pub(crate) wakener: Wakener<PlainLock, i64>,
    pub(crate) deep_counts: Cell<DeepCounts>,
    pub(crate) max_deferment: Cell<Span>,
    pub(crate) is_skewed: bool,
}

impl<H: Host> Drop for Ticks<H> {
    fn drop(&mut self) {
        for cpu in &self.cpus {
            cpu.timer.as_ref().cancel(self.parts.host.timers());
        }
    }
}

/// The deep-sleep state of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    /// True if the CPU's governor chooses deep sleep whenever it may.
    pub(crate) is_wanted: Cell<bool>,
    /// True while the CPU's device is stopped.
    pub(crate) is_deep: Cell<bool>,
    /// True while the interrupt that delivers a broadcast is pending.
    pub(crate) is_called: Cell<bool>,
    /// True if the CPU woke late: no device is programmed for it until the pending interrupt comes.
    pub(crate) awaits_call: Cell<bool>,
}

/// The counts of deep sleeps and of their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeepCounts {
    /// The number of deep sleeps.
    pub entered: u64,
    /// The number of deep sleeps that were refused.
    pub refused: u64,
    /// The number of broadcasts that were delivered to other CPUs; each CPU counts as one.
    pub delivered: u64,
    /// The number of times that a CPU woke for another reason than a broadcast.
    pub woke_itself: u64,
    /// The number of times that a CPU woke when its event was due and its broadcast was not delivered yet.
    pub woke_late: u64,
}
