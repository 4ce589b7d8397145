//! The entry points of a tick, with their arguments and results (spec C-3.4, C-3.5, C-7.5, C-7.7).

use core::pin::Pin;

use tickless_link::lock::RawLock;

use super::count::{Duty, TickCount};
use super::cpu::{Context, CpuTick, Mode, Role};
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::hierarchy::{Hierarchy, HierarchyHost, WIDTH_DEFAULT};
use crate::hrtimer::timer::{Expired, HrTimer, Start};
use crate::platform::Platform;
use crate::restart::Restart;
use crate::time::{Instant, Monotonic, Offset, Span};
use crate::trace::Event;
use crate::trace::KeepReason;

/// The host's reasons for and against a tick on its CPU (spec C-7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickDependencies {
    /// True if another task is about to run.
    pub reschedule: bool,
    /// True if work of the soft stage is pending that must not wait until the CPU wakes up.
    pub soft_work: bool,
    /// True if the host wants a tick for another reason, which does not forbid the CPU to sleep until that tick.
    pub wants_tick: bool,
    /// True if a pass over the wheels was requested and has not run. Without this, a due timer would cause an interrupt
    /// again and again (R12).
    pub pass_pending: bool,
    /// True if a tickless task [depends](super::Dependencies) on the tick.
    pub dependency: bool,
}

/// The time until which a CPU could sleep from now, for the governor that chooses the depth of the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Forecast {
    /// The time of the next tick, or, for a CPU that could stop its tick, of the first wheel event that no other CPU
    /// expires.
    pub own: Instant,
    /// The time of the first event of the CPU's wheels, the global wheel included.
    pub including_movable: Instant,
    /// The reason why the tick cannot be stopped; `None` if it can be stopped.
    pub keeps: Option<KeepReason>,
    /// True if the wheels were not read, because a pass over them is pending and will fire their due timers.
    pub(super) leaves_wheels: bool,
}

/// The time for which a CPU could sleep. The values are negative if the event has passed (spec C-7.7, N6, N7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepLength {
    /// The time until the first timer that only this CPU expires.
    pub own: Offset,
    /// The time until the first timer, including timers that other CPUs would expire. Without a migration hierarchy
    /// this would be the length of the sleep.
    pub including_movable: Offset,
}

/// The result of stopping a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedTick {
    /// The time at which the CPU wakes up for its wheels, for other CPUs, or for the clock; [`Instant::FOREVER`] if the
    /// CPU need not wake up.
    pub wake: Instant,
    /// True if the tick was running before this call.
    pub was_ticking: bool,
    /// True if the timer of the tick was started or cancelled. False if the timer had the right time already.
    pub was_programmed: bool,
}

/// The duties of a CPU at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the timer of the tick has to be started again, and work may be due"]
pub struct TickOutcome {
    /// The time for which the host starts the timer of the tick again; `None` if the tick is stopped.
    pub next: Option<Instant>,
    /// The number of ticks that this CPU counted for all CPUs.
    pub counted: u64,
    /// The number of the CPU's own ticks that were skipped because this tick was late.
    pub missed: u64,
    /// True if the wheels may have due timers. The host then runs a pass over each wheel in its soft stage.
    pub wheel_is_due: bool,
    /// True if this CPU has to expire timers of a sleeping CPU. The host then calls
    /// [`serve_remote`](Hierarchy::serve_remote) after the passes over its own wheels.
    pub remote_is_due: bool,
}

impl TickOutcome {
    const NOTHING: Self = Self {
        next: None,
        counted: 0,
        missed: 0,
        wheel_is_due: false,
        remote_is_due: false,
    };
}

/// The parts of a machine that a tick uses, as a few references. The host builds the value for each use.
///
/// The CPU of a [`CpuTick`] calls all methods that take the [`CpuTick`], with timer delivery masked and no lock held.
/// `timer` is that CPU's timer of the tick, in the hard stage; its callback calls [`tick`](Nohz::tick).
pub struct Nohz<
    'a,
    P: Platform,
    S: HierarchyHost<WIDTH>,
    L: RawLock,
    const WIDTH: usize = WIDTH_DEFAULT,
> {
    /// The timers and wheels.
    pub timers: &'a Timers<P>,
    /// The hierarchy through which CPUs expire each other's timers.
    pub tree: &'a Hierarchy<S, WIDTH>,
    /// The count of ticks.
    pub count: &'a TickCount<L>,
    /// The longest time between two readings of the clock by any CPU:
    /// [`Keeper::max_idle`](crate::clock::Keeper::max_idle).
    pub max_deferment: Span,
}

impl<P: Platform, S: HierarchyHost<WIDTH>, L: RawLock, const WIDTH: usize>
    Nohz<'_, P, S, L, WIDTH>
{
    /// Starts the tick of a CPU that goes online. The first tick is `skew` after the beginning of the next period.
    ///
    /// The CPU is online for its [timers](Timers::cpu_online), and [awake](crate::hierarchy::Presence::Awake) in the
    /// hierarchy.
    pub fn online<F>(&self, tick: &mut CpuTick, timer: Pin<&HrTimer<F>>, now: Instant, skew: Span)
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        self.count.update(now);
        let period = self.count.period();
        let due = self
            .count
            .now()
            .began
            .saturating_add(period)
            .saturating_add(skew);
        *tick = CpuTick::new(tick.cpu(), tick.role());
        tick.context = Context::Task;
        tick.mode = Mode::Ticking { due };
        self.start(timer, due);
    }

    /// Ends the tick of a CPU that goes offline (R37). The CPU is awake, and leaves the hierarchy and the timers
    /// *afterwards*.
    ///
    /// Returns true if `heir`, another online CPU, has become the CPU that wakes up for the clock. The host then kicks
    /// `heir`, which has to compute its wake-up again if it sleeps. The host also kicks the CPU that took over the
    /// timers, if that CPU sleeps.
    ///
    /// # Errors
    ///
    /// [`KeepReason::Timekeeper`] when tasks run without a tick and rely on this CPU (spec C-5.5). The CPU has to stay
    /// online, and nothing has changed.
    pub fn offline<F>(
        &self,
        tick: &mut CpuTick,
        timer: Pin<&HrTimer<F>>,
        now: Instant,
        heir: CpuId,
    ) -> Result<bool, KeepReason>
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        let cpu = tick.cpu();
        if self.count.has_tickless_tasks() && self.count.duty() == (Duty::Taken { by: cpu }) {
            return Err(KeepReason::Timekeeper);
        }
        self.restart(tick, timer, now);
        timer.cancel(self.timers);
        tick.context = Context::Offline;
        Ok(self.count.bequeath(cpu, heir))
    }

    /// Handles one tick of a CPU at `now`. The callback of the tick's timer calls it, and then requests a restart for
    /// [`next`](TickOutcome::next).
    ///
    /// # Cost
    ///
    /// Some loads; one lock if a tick has to be counted.
    pub fn tick(&self, tick: &mut CpuTick, now: Instant) -> TickOutcome {
        if tick.context == Context::Offline {
            return TickOutcome::NOTHING;
        }
        let cpu = tick.cpu();
        let may_take = tick.role() == Role::Housekeeping;
        let counted = self.count.tick(cpu, now, may_take, &mut tick.watch);
        let (next, missed) = tick.fired(now, self.count.period());
        let at = self.count.now();
        TickOutcome {
            next,
            counted,
            missed,
            wheel_is_due: self.timers.wheel_is_due(cpu, at.tick),
            remote_is_due: self.tree.remote_work_due(cpu, at.began),
        }
    }

    /// Counts ticks at the entry of an interrupt on a CPU without a tick, before a handler can use an old count (R33).
    /// Returns their number.
    ///
    /// # Cost
    ///
    /// One load if no tick has to be counted; none while the tick runs.
    pub fn interrupt(&self, tick: &CpuTick, now: Instant) -> u64 {
        if tick.is_stopped() {
            self.count.update(now)
        } else {
            0
        }
    }

    /// Notes that the idle loop begins: from now on the tick may be stopped.
    pub fn enter_idle(&self, tick: &mut CpuTick) {
        if tick.context == Context::Task {
            tick.context = Context::Idle;
            self.trace(|| Event::IdleBegin { cpu: tick.cpu() });
        }
    }

    /// Starts the tick again, in its old phase, because the idle loop ends or an interrupt came on a CPU with tickless
    /// tasks. If tasks may run without a tick, the call stops the tick instead.
    ///
    /// Not called for an interrupt that does not end idle, because such an interrupt changes nothing in the hierarchy
    /// (spec C-3.5).
    ///
    /// # Errors
    ///
    /// The reason why the tick runs. On a housekeeping CPU the call always returns a reason.
    ///
    /// # Cost
    ///
    /// On a housekeeping CPU, one base lock and at most one write of the device if the tick was stopped; no lock and no
    /// write if the tick ran. On a CPU with tickless tasks the costs of [`forecast`](Nohz::forecast) and
    /// [`stop`](Nohz::stop) are added.
    pub fn run_task<F>(
        &self,
        tick: &mut CpuTick,
        timer: Pin<&HrTimer<F>>,
        conditions: TickDependencies,
        now: Instant,
    ) -> Result<StoppedTick, KeepReason>
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        if tick.context == Context::Idle {
            tick.context = Context::Task;
            self.trace(|| Event::IdleEnd { cpu: tick.cpu() });
        }
        let forecast = self.forecast(tick, conditions);
        let stopped = self.stop(tick, timer, forecast);
        if stopped.is_err() {
            self.restart(tick, timer, now);
        }
        stopped
    }

    /// Returns true if the CPU, which runs a task without a tick, has armed a timer for which it does not wake up in
    /// time (R31).
    ///
    /// The host calls it after a task armed a coarse timer on this CPU, and calls [`run_task`](Nohz::run_task) if the
    /// result is true. Another CPU that arms a timer on this CPU kicks this CPU.
    ///
    /// # Cost
    ///
    /// Two loads, and four more if a timer is enqueued on the wheels.
    #[must_use]
    pub fn armed_too_early(&self, tick: &CpuTick) -> bool {
        let Mode::StoppedTick { programmed, .. } = tick.mode else {
            return false;
        };
        let Some(first) = self.timers.wheel_first_due(tick.cpu()) else {
            return false;
        };
        let due = self.count.now().instant_of(first);
        programmed.is_none_or(|programmed| due < programmed)
    }

    /// Lets the tick run again, if it is stopped (spec C-7.5).
    ///
    /// # Cost
    ///
    /// One base lock and at most one write of the device (spec X-7, row 12), in addition to the cost of leaving idle in
    /// the hierarchy.
    fn restart<F>(&self, tick: &mut CpuTick, timer: Pin<&HrTimer<F>>, now: Instant)
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        if !tick.is_stopped() {
            return;
        }
        self.count.update(now);
        self.timers.wheel_leave_idle(tick.cpu());
        self.tree.leave_idle(tick.cpu());
        if let Some(due) = tick.resume(now, self.count.period()) {
            let cpu = tick.cpu();
            self.trace(|| Event::TickStart { cpu, due });
            // Moves the timer from what it stood at during the sleep: one base lock, and one device write at most.
            self.start(timer, due);
        }
    }

    /// Reports `event`, which is put together only while events are traced.
    #[inline]
    pub(super) fn trace(&self, event: impl FnOnce() -> Event) {
        if self.timers.platform().is_traced() {
            self.timers.platform().trace(event());
        }
    }

    pub(super) fn start<F>(&self, timer: Pin<&HrTimer<F>>, when: Instant)
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        let _ = timer.start(self.timers, Start::at(when).pinned());
    }
}

impl<P: Platform, S: HierarchyHost<WIDTH>, L: RawLock, const WIDTH: usize> core::fmt::Debug
    for Nohz<'_, P, S, L, WIDTH>
{
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("Nohz")
            .field("count", self.count)
            .field("max_deferment", &self.max_deferment)
            .finish_non_exhaustive()
    }
}
