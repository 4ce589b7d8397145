//! The ticks of a machine. Each tick is an exact timer on its CPU, and all ticks share one count.
//!
//! The work that an event causes on a CPU may last past the times of pending events. So the count, which all CPUs read,
//! is sometimes ahead of a CPU. Such a CPU uses the [tick](Host::tick_time) that it can know of at that time. A CPU
//! that has to count past the end of a tick does so in an [event](crate::machine::queue::EventKind::Continue) of its
//! own.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::rc::{Rc, Weak};

use tickless_core::base::Timers;
use tickless_core::hrtimer::{Expired, Restart};
use tickless_core::platform::CpuId;
use tickless_core::tick::{Context, CpuTick, Duty, Nohz, Role};
use tickless_core::time::Monotonic;

use crate::machine::fired::{self, Fired};
use crate::machine::host::Host;
use crate::machine::tables::{Table, Tree};
use crate::machine::timers::Exact;
use crate::model::cost_model::CostedLock;

/// The tick states of a machine's CPUs.
pub(crate) struct Ticks {
    timers: Rc<Timers<Host>>,
    tree: Rc<Tree>,
    cpus: Vec<RefCell<CpuTick>>,
}

impl Ticks {
    /// Makes the ticks of the CPUs; no CPU ticks yet.
    pub(crate) fn new(timers: &Rc<Timers<Host>>, tree: &Rc<Tree>, tickless: &[bool]) -> Rc<Self> {
        let tick = |(cpu, is_tickless): (u32, &bool)| {
            let role = if *is_tickless {
                Role::TicklessTasks
            } else {
                Role::Housekeeping
            };
            RefCell::new(CpuTick::new(CpuId(cpu), role))
        };
        let count = &timers.platform().count;
        count.set_tickless_tasks(tickless.contains(&true));
        Rc::new(Self {
            timers: Rc::clone(timers),
            tree: Rc::clone(tree),
            cpus: (0..).zip(tickless).map(tick).collect(),
        })
    }

    /// Returns the entry points of the core for ticks.
    pub(crate) fn nohz(&self) -> Nohz<'_, Host, Table, CostedLock> {
        Nohz {
            timers: &self.timers,
            tree: &self.tree,
            count: &self.timers.platform().count,
            max_deferment: self.timers.platform().clocks.max_idle(),
        }
    }

    pub(crate) fn of(&self, cpu: u32) -> RefMut<'_, CpuTick> {
        self.cpus[cpu as usize].borrow_mut()
    }

    pub(crate) fn is_stopped(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].borrow().is_stopped()
    }

    /// Returns true if tasks of `cpu` run without a tick.
    pub(crate) fn is_tickless(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].borrow().role() == Role::TicklessTasks
    }

    /// Returns true if `cpu` may go offline: no CPU relies on its count, and another CPU could count instead.
    pub(crate) fn may_leave(&self, cpu: u32) -> bool {
        let count = &self.timers.platform().count;
        let counts = |other: &RefCell<CpuTick>| {
            let other = other.borrow();
            other.cpu().0 != cpu
                && other.role() == Role::Housekeeping
                && other.context() != Context::Offline
        };
        !count.has_tickless_tasks()
            || (count.duty() != (Duty::Taken { by: CpuId(cpu) }) && self.cpus.iter().any(counts))
    }

    /// Makes the timer of the tick of `cpu`.
    pub(crate) fn timer(self: &Rc<Self>, cpu: u32) -> Exact {
        let ticks: Weak<Self> = Rc::downgrade(self);
        Exact::scripted(&self.timers, move |expired| match ticks.upgrade() {
            Some(ticks) => ticks.fires(cpu, expired),
            None => Restart::No,
        })
    }

    fn fires(&self, cpu: u32, expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
        let ticked = self.nohz().tick(&mut self.of(cpu), expired.now());
        fired::note(Fired::Tick {
            wheel_is_due: ticked.wheel_is_due,
            remote_is_due: ticked.remote_is_due,
        });
        let Some(next) = ticked.next else {
            return Restart::No;
        };
        expired.set_deadline(next);
        Restart::Yes
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticks")
            .field("count", &self.timers.platform().count)
            .finish_non_exhaustive()
    }
}
