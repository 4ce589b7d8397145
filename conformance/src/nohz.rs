//! The real ticks of a rig: a timer of each CPU makes them, and they stop in idle and start again.
//!
//! A [ticking](Rig::ticking) rig has the core's [`tick`](tickless_core::tick), its hierarchy and its count of ticks.
//! The core decides when CPUs idle, hand over, pull and wake. A suite only says which CPU has work, and lets time pass.
//!
//! ```
//! use tickless_core::coarse::WheelKind;
//! use tickless_conformance::{CoarseTimer, Deferred, Rig};
//!
//! let rig = Rig::<Deferred>::ticking(2);
//! let timer = CoarseTimer::once(&rig, WheelKind::Global);
//! rig.on(1, || timer.arm(20)).expect("it is not armed");
//! rig.idle(1).expect("nothing keeps it awake");
//! rig.run_until(30_000_000);
//! // CPU 0 works, and pulls.
//! assert_eq!(timer.fired_at(), [21]);
//! assert_eq!(timer.fired()[0].executed_by.map(|cpu| cpu.0), Some(0));
//! ```
//!
//! # Limits
//!
//! Callbacks run at once after the interrupt that found their timers due. The soft stage takes no time.

use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};

use tickless_core::coarse::{PassEnd, WheelKind};
use tickless_core::hierarchy::{
    Hierarchy, HierarchyHost, Layout, Leaving, MigratorPolicy, NumaNode, Presence, WIDTH_DEFAULT,
};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::tick::{
    Context, CpuTick, Forecast, KeepReason, Nohz, Role, SleepLength, StoppedTick, TickCount,
    TickDependencies, skew,
};
use tickless_core::time::{Instant, Monotonic, Span};

use crate::call::Call;
use crate::host::Host;
use crate::owned::ExactCall;
use crate::parts::{Parts, TICK};
use crate::prelude::*;
use crate::rig::Rig;
use crate::rig_tables;
use crate::tables::PlainLock;
use crate::ticks::{Depth, TickingCpu, Ticks};
use crate::wakener::Wakener;

mod deep;
mod dump;

pub use crate::rig_tables::{GlobalTimers, Tables};
pub use crate::ticks::DeepCounts;

/// The duration of a tick.
pub const PERIOD: Span = Span::from_nanos(TICK.unsigned_abs());

/// The longest time that may pass before a CPU has to read the clock, unless a script sets another time.
const MAX_DEFERMENT: Span = Span::from_secs(600);
/// The number of callbacks and checks that one call of a service may make.
const BUDGET: u32 = 1_000;
/// The number of turns of the idle loop at one moment that counts as a livelock.
const TURNS_MAX: u32 = 100;

type Script = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart>;

/// CPUs that tick and idle.
impl<H: Host> Rig<H> {
    /// Makes a host of housekeeping CPUs that tick, all online and at work, at time zero.
    #[must_use]
    pub fn ticking(cpus: u32) -> Self {
        Self::with_roles(&vec![Role::Housekeeping; cpus as usize], false)
    }

    /// Makes a host with a ticking CPU for each role. `is_skewed` spreads the ticks of the CPUs over half a period.
    #[must_use]
    pub fn with_roles(roles: &[Role], is_skewed: bool) -> Self {
        let cpus = u32::try_from(roles.len()).expect("few CPUs");
        let parts = Self::new(cpus).parts;
        let count = Rc::new(TickCount::new(PERIOD, Instant::ZERO));
        let layout = Layout::new(cpus, 1, WIDTH_DEFAULT);
        let tables = rig_tables::new(Rc::clone(&parts), Rc::clone(&count), layout);
        let ticks = Rc::new_cyclic(|ticks: &Weak<Ticks<H>>| Ticks {
            tree: Hierarchy::new(tables, layout, MigratorPolicy::default()),
            cpus: (0..)
                .zip(roles)
                .map(|(cpu, role)| new_cpu(&parts, ticks, cpu, *role))
                .collect(),
            parts: Rc::clone(&parts),
            count,
            wakener: Wakener::new(),
            deep_counts: Cell::default(),
            max_deferment: Cell::new(MAX_DEFERMENT),
            is_skewed,
        });
        let rig = Self {
            parts,
            ticks: Some(ticks),
        };
        if roles.contains(&Role::TicklessTasks) {
            rig.count().set_tickless_tasks(true);
        }
        rig.replace_broadcast_device(0);
        for cpu in 0..cpus {
            let prepared = rig.tree().prepare(CpuId(cpu), NumaNode(0));
            prepared.expect("there is room");
            rig.join(cpu);
        }
        rig
    }

    fn ticks_of_all(&self) -> &Ticks<H> {
        self.ticks.as_ref().expect("the rig was made ticking")
    }

    /// Returns the hierarchy.
    #[must_use]
    pub fn tree(&self) -> &Hierarchy<Tables<H>> {
        &self.ticks_of_all().tree
    }

    /// Returns the count of ticks.
    #[must_use]
    pub fn count(&self) -> &TickCount<PlainLock> {
        &self.ticks_of_all().count
    }

    /// Sets the longest time that may pass before a CPU has to read the clock.
    pub fn set_max_deferment(&self, span: Span) {
        self.ticks_of_all().max_deferment.set(span);
    }

    /// Sets the tick dependencies of `cpu`, which hold from now on.
    pub fn set_conditions(&self, cpu: u32, conditions: TickDependencies) {
        self.ticking_cpu(cpu).conditions.set(conditions);
    }

    /// Returns the number of ticks of `cpu` that ran so far.
    #[must_use]
    pub fn ticks(&self, cpu: u32) -> u64 {
        self.ticking_cpu(cpu).ticks.get()
    }

    /// Returns true if the tick of `cpu` is stopped.
    #[must_use]
    pub fn is_stopped(&self, cpu: u32) -> bool {
        self.ticking_cpu(cpu).tick.borrow().is_stopped()
    }

    /// Returns the deadline of the tick's timer on `cpu`, according to the tick's record.
    #[must_use]
    pub fn next_tick(&self, cpu: u32) -> Option<Instant> {
        self.ticking_cpu(cpu).tick.borrow().next()
    }

    /// Returns the deadline of the tick's timer on `cpu`, according to the timer itself.
    #[must_use]
    pub fn tick_timer(&self, cpu: u32) -> Option<Instant> {
        self.ticking_cpu(cpu).timer.as_ref().deadline(self.timers())
    }

    fn ticking_cpu(&self, cpu: u32) -> &TickingCpu {
        &self.ticks_of_all().cpus[cpu as usize]
    }

    /// Returns the core's entry points for ticks and idle CPUs.
    #[must_use]
    pub fn nohz(&self) -> Nohz<'_, H::Platform, Tables<H>, PlainLock> {
        let ticks = self.ticks_of_all();
        Nohz {
            timers: self.timers(),
            tree: &ticks.tree,
            count: &ticks.count,
            max_deferment: ticks.max_deferment.get(),
        }
    }

    /// Lets a task of `cpu`, which may run without a tick, execute `body`, and then programs the tick again if the task
    /// armed a timer that needs it.
    pub fn in_task<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        let result = self.on(cpu, body);
        let is_early = self
            .nohz()
            .armed_too_early(&self.ticking_cpu(cpu).tick.borrow());
        if is_early {
            let _kept = self.work(cpu);
        }
        result
    }

    /// Lets `cpu` become idle and evaluate whether its tick can stop.
    ///
    /// # Errors
    ///
    /// The reason why the tick of `cpu` goes on. The CPU idles nevertheless.
    pub fn idle(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.enter_idle(cpu);
        self.evaluate(cpu)
    }

    /// Lets `cpu` enter its idle loop, without evaluating yet.
    pub fn enter_idle(&self, cpu: u32) {
        self.on(cpu, || {
            self.nohz()
                .enter_idle(&mut self.ticking_cpu(cpu).tick.borrow_mut());
        });
    }

    /// Returns the forecast that `cpu` would get if it became idle now.
    pub fn forecast(&self, cpu: u32) -> Forecast {
        let state = self.ticking_cpu(cpu);
        let conditions = state.conditions.get();
        self.on(cpu, || {
            self.nohz().forecast(&state.tick.borrow(), conditions)
        })
    }

    /// Returns the time for which `cpu` could sleep from now on.
    #[must_use]
    pub fn sleep_length(&self, cpu: u32) -> SleepLength {
        let forecast = self.forecast(cpu);
        let (state, now) = (self.ticking_cpu(cpu), self.monotonic());
        self.on(cpu, || {
            let tick = state.tick.borrow();
            self.nohz()
                .sleep_length(&tick, state.timer.as_ref(), forecast, now)
        })
    }

    /// Makes one turn of the idle loop of `cpu`, in whichever state it is.
    ///
    /// # Errors
    ///
    /// The reason why the tick of `cpu` goes on.
    pub fn evaluate(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.evaluate_by(cpu, self.forecast(cpu))
    }

    /// Makes the second half of a turn of the idle loop, with the `forecast` of the first half.
    ///
    /// # Errors
    ///
    /// The reason why the tick of `cpu` goes on.
    pub fn evaluate_by(&self, cpu: u32, forecast: Forecast) -> Result<StoppedTick, KeepReason> {
        let state = self.ticking_cpu(cpu);
        let stopped = self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            self.nohz().stop(&mut tick, state.timer.as_ref(), forecast)
        });
        self.tell(cpu);
        if stopped.is_ok() {
            self.go_deep(cpu);
        }
        stopped
    }

    /// Gives `cpu` work.
    ///
    /// # Errors
    ///
    /// The reason why the tick of `cpu` runs.
    ///
    /// # Panics
    ///
    /// Panics if the restart of the tick took more than one base lock and one device write.
    pub fn work(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.leave_deep(cpu);
        let (state, now) = (self.ticking_cpu(cpu), self.monotonic());
        let cost = RestartCost::begin(self, cpu);
        let stopped = self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            let conditions = state.conditions.get();
            self.nohz()
                .run_task(&mut tick, state.timer.as_ref(), conditions, now)
        });
        cost.check(self, cpu);
        self.tell(cpu);
        stopped
    }

    /// Informs the host of the conditions that decide where the exact timers of `cpu` are queued.
    fn tell(&self, cpu: u32) {
        self.set_idleness(cpu, false, self.is_stopped(cpu));
    }

    /// Starts the tick of `cpu`, whose base is online.
    pub(crate) fn join(&self, cpu: u32) {
        let joined = self.tree().set_available(CpuId(cpu), Presence::Awake);
        joined.expect("it is prepared");
        self.join_broadcast(cpu);
        let (state, now) = (self.ticking_cpu(cpu), self.monotonic());
        let skew = if self.ticks_of_all().is_skewed {
            skew(CpuId(cpu), self.cpus(), PERIOD)
        } else {
            Span::ZERO
        };
        self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            self.nohz()
                .online(&mut tick, state.timer.as_ref(), now, skew);
        });
    }

    /// Takes `cpu` offline. If `cpu` was the CPU that wakes up for the clock, `heir` does so from now on. The first CPU
    /// that is online takes over the timers of `cpu`, and evaluates again.
    ///
    /// # Errors
    ///
    /// The reason why `cpu` has to stay online.
    pub fn offline_to(&self, cpu: u32, heir: u32) -> Result<(), KeepReason> {
        let _kept = self.work(cpu);
        let (state, now) = (self.ticking_cpu(cpu), self.monotonic());
        let concerns_heir = self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            self.nohz()
                .offline(&mut tick, state.timer.as_ref(), now, CpuId(heir))
        })?;
        let left = self.tree().clear_available(CpuId(cpu), Leaving::Offline);
        left.expect("it was prepared");
        self.offline(cpu);
        self.leave_broadcast(cpu, heir);
        if concerns_heir {
            self.timers().request_retrigger(CpuId(heir));
        }
        self.deliver(self.first_online());
        Ok(())
    }

    /// Lets time pass until the true time `until`: interrupts are delivered, due timers run, and idle CPUs evaluate.
    pub(crate) fn run_ticking_until(&self, until: i64) {
        while let Some((at, cpu)) = self.next_event(until) {
            self.spend((at - self.now()).max(0));
            self.deliver(cpu);
            self.check_sleepers();
        }
        self.spend(until - self.now());
        self.check();
    }

    fn next_event(&self, until: i64) -> Option<(i64, u32)> {
        let wants = |cpu: u32| {
            let kicked = self.is_kicked(cpu);
            let kicked = kicked.then(|| self.now());
            [kicked, self.fires_at(cpu), self.broadcast_for(cpu)]
                .into_iter()
                .flatten()
                .min()
        };
        (0..self.cpus())
            .filter(|&cpu| !self.is_masked(cpu))
            .filter_map(|cpu| Some((wants(cpu)?, cpu)))
            .filter(|&(at, _)| at <= until)
            .min()
    }

    /// Delivers the due interrupts to `cpu`, and lets the CPU do everything that follows.
    pub fn deliver(&self, cpu: u32) {
        let mut turns = 0;
        loop {
            self.take_interrupts(cpu);
            self.expire(cpu);
            let context = self.ticking_cpu(cpu).tick.borrow().context();
            let role = self.ticking_cpu(cpu).tick.borrow().role();
            match (context, role) {
                (Context::Idle, _) => {
                    if self.tree().host().timers().take_activated(cpu) {
                        let _kept = self.work(cpu);
                        let _kept = self.idle(cpu);
                    } else {
                        let _kept = self.evaluate(cpu);
                    }
                }
                (Context::Task, Role::TicklessTasks) => {
                    let _kept = self.work(cpu);
                }
                _ => {}
            }
            let now = self.now();
            let is_due = self.next_event(now).is_some_and(|(_, next)| next == cpu);
            if !is_due {
                break;
            }
            turns += 1;
            assert!(
                turns < TURNS_MAX,
                "CPU {cpu} does not get to sleep at {now} ns"
            );
        }
    }

    /// Delivers an interrupt of a device to `cpu`; `body` is its handler.
    pub fn in_interrupt<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        self.take_interrupts(cpu);
        let result = self.on(cpu, body);
        self.deliver(cpu);
        result
    }

    /// Delivers the due interrupts of `cpu`, without the work that follows them.
    pub fn take_interrupts(&self, cpu: u32) {
        self.leave_deep(cpu);
        self.take_broadcasts(cpu);
        let now = self.monotonic();
        self.on(cpu, || {
            self.nohz()
                .interrupt(&self.ticking_cpu(cpu).tick.borrow(), now);
        });
        self.deliver_due(cpu);
    }

    /// Runs the soft stage of `cpu`: its own wheels, and the wheels of the CPUs for which it is responsible.
    pub fn expire(&self, cpu: u32) {
        while self.ticking_cpu(cpu).expiry_pending.take() {
            self.on(cpu, || {
                let timers = self.timers();
                let at = self.count().now();
                for kind in WheelKind::ALL {
                    while timers.run_wheel(CpuId(cpu), kind, at.tick, BUDGET).end == PassEnd::Budget
                    {
                    }
                }
                let mut budget = BUDGET;
                let pull = self.tree().serve_remote(CpuId(cpu), at.began, &mut budget);
                self.ticking_cpu(cpu).expiry_pending.set(pull.has_more);
            });
        }
    }

    /// Returns true if the tick of `cpu` found due work that has not run yet.
    #[must_use]
    pub fn is_expiry_pending(&self, cpu: u32) -> bool {
        self.ticking_cpu(cpu).expiry_pending.get()
    }

    /// Checks every condition that must hold between any two interrupts of ticking CPUs.
    pub(crate) fn check_ticking(&self) {
        if !self.is_a_cpu_called() {
            // The broadcast device stands in for the devices that stopped.
            self.with_broadcast_in_place(|| self.check_bases());
        }
        self.check_sleepers();
    }

    /// Checks that wheels, hierarchy and tick agree on which CPUs sleep, and that no CPU sleeps through its promise.
    fn check_sleepers(&self) {
        for cpu in 0..self.cpus() {
            let node = self.tree().host().node(CpuId(cpu)).expect("it has one");
            let tick = self.ticking_cpu(cpu).tick.borrow();
            if tick.context() == Context::Offline {
                continue;
            }
            let sleeps = self.timers().wheel_sleeps(CpuId(cpu));
            assert_eq!(tick.is_stopped(), sleeps, "II2: the wheels of CPU {cpu}");
            assert_eq!(
                tick.is_stopped(),
                node.is_idle(),
                "II2: the place of CPU {cpu}"
            );
            let may_lag = self.is_masked(cpu) || self.is_expiry_pending(cpu);
            if tick.is_stopped() && !may_lag {
                let stands = self.tick_timer(cpu).unwrap_or(Instant::FOREVER);
                assert!(
                    stands <= node.wakeup(),
                    "TI8: CPU {cpu} sleeps through its promise"
                );
            }
        }
    }
}

/// The number of locks and device writes that the restart of a CPU's tick takes.
struct RestartCost {
    was_stopped: bool,
    locks: u64,
    writes: u64,
}

impl RestartCost {
    fn begin<H: Host>(rig: &Rig<H>, cpu: u32) -> Self {
        Self {
            was_stopped: rig.is_stopped(cpu),
            locks: rig.lock_acquisitions(),
            writes: rig.device_writes(cpu),
        }
    }

    /// Checks the limits of spec X-7, row 12.
    fn check<H: Host>(self, rig: &Rig<H>, cpu: u32) {
        let locks = rig.lock_acquisitions() - self.locks;
        let writes = rig.device_writes(cpu) - self.writes;
        assert!(writes <= 1, "CPU {cpu} wrote its device {writes} times");
        // Tickless tasks may go on without a tick, and what forbids that takes a look under the lock.
        if rig.ticking_cpu(cpu).tick.borrow().role() == Role::Housekeeping {
            let expected = u64::from(self.was_stopped);
            assert_eq!(locks, expected, "base locks of CPU {cpu}, whose tick runs");
        }
    }
}

fn new_cpu<H: Host>(
    parts: &Rc<Parts<H>>,
    ticks: &Weak<Ticks<H>>,
    cpu: u32,
    role: Role,
) -> TickingCpu {
    let (parts, ticks) = (Rc::clone(parts), Weak::clone(ticks));
    let script: Script = Box::new(move |expired| {
        let rig = Rig {
            parts: Rc::clone(&parts),
            ticks: Some(ticks.upgrade().expect("it ticks as long as it is there")),
        };
        let state = rig.ticking_cpu(cpu);
        let ticked = rig.nohz().tick(&mut state.tick.borrow_mut(), expired.now());
        state.ticks.set(state.ticks.get() + 1);
        if ticked.wheel_is_due || ticked.remote_is_due {
            state.expiry_pending.set(true);
        }
        let Some(next) = ticked.next else {
            return Restart::No;
        };
        expired.set_deadline(next);
        Restart::Yes
    });
    let call = Call::new(script);
    let function: ExactCall<Monotonic> = Box::new(move |expired| {
        let run = |script: &mut Script| script(expired);
        call.run(run).unwrap_or(Restart::No)
    });
    TickingCpu {
        tick: RefCell::new(CpuTick::new(CpuId(cpu), role)),
        timer: Box::pin(HrTimer::with_setup(
            Setup::new().stage(Stage::Hard),
            false,
            function,
        )),
        conditions: Cell::new(TickDependencies::default()),
        expiry_pending: Cell::new(false),
        ticks: Cell::new(0),
        depth: Depth::default(),
    }
}
