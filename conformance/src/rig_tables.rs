//! The tables of a rig's CPUs, as the hierarchy needs them.

use alloc::rc::Rc;
use core::cell::Cell;
use core::fmt;

use tickless_core::base::{Frozen, Timers};
use tickless_core::coarse::WheelKind;
use tickless_core::hierarchy::Layout;
use tickless_core::platform::{CpuId, Port};
use tickless_core::tick::TickCount;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;

use crate::host::Host;
use crate::parts::Parts;
use crate::prelude::*;
use crate::tables::{self, CpuTimers, PlainLock};

/// The tables of a rig's hierarchy.
pub type Tables<H> = tables::Tables<GlobalTimers<H>>;

/// The global wheels of the CPUs of a host.
pub struct GlobalTimers<H: Host> {
    parts: Rc<Parts<H>>,
    count: Rc<TickCount<PlainLock>>,
    /// True for each CPU that has been requested to leave idle once.
    activated: Vec<Cell<bool>>,
}

/// Makes the tables of the CPUs of `parts`, whose ticks `count` counts.
pub(crate) fn new<H: Host>(
    parts: Rc<Parts<H>>,
    count: Rc<TickCount<PlainLock>>,
    layout: Layout,
) -> Tables<H> {
    let cpus = parts.cpus.len();
    let timers = GlobalTimers {
        parts,
        count,
        activated: vec![Cell::new(false); cpus],
    };
    let cpus = u32::try_from(cpus).expect("few CPUs");
    Tables::with_timers(timers, cpus, layout)
}

impl<H: Host> GlobalTimers<H> {
    fn timers(&self) -> &Timers<H::Platform> {
        self.parts.host.timers()
    }

    /// Returns true if `cpu` has been requested to leave idle once, and clears the request.
    pub(crate) fn take_activated(&self, cpu: u32) -> bool {
        self.activated[cpu as usize].take()
    }
}

impl<H: Host> CpuTimers for GlobalTimers<H> {
    type Lock = PlainLock;
    type LockedBases<'a> = Frozen<'a, H::Platform>;

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let now = self.count.now().tick;
        let pass = self
            .timers()
            .run_wheel(cpu, WheelKind::Global, now, *budget);
        *budget -= pass.fired;
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, H::Platform>, Instant) {
        let at = self.count.now();
        // One thread: nothing changes between this and the lock.
        let _settled = self.timers().wheel_next(cpu, at.tick);
        let base = self.timers().platform().base(cpu);
        let base = base.expect("every CPU has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.activated[cpu.0 as usize].set(true);
        self.timers().request_retrigger(cpu);
    }
}

impl<H: Host> fmt::Debug for GlobalTimers<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GlobalTimers")
            .finish_non_exhaustive()
    }
}
