//! A machine whose ticks are real: they come from a timer of each CPU, stop in idle, and go on.
//!
//! [`Machine`] has ticks of its own, which a script takes for all CPUs at once. [`Ticking`] puts the core's
//! [`tick`](tickless_core::tick), its hierarchy and its count in their place: CPUs idle, hand over, pull and wake as
//! the core says, and a script says only who has work, and lets time pass.
//!
//! ```
//! use tickless_core::coarse::Kind;
//! use tickless_rig::{CoarseTimer, Deferred, Ticking};
//!
//! let ticking = Ticking::<Deferred>::new(2);
//! let timer = CoarseTimer::once(ticking.machine(), Kind::Global);
//! ticking.on(1, || timer.arm(20)).expect("it is not armed");
//! ticking.idle(1).expect("nothing keeps it awake");
//! ticking.run_until(30_000_000);
//! // CPU 0 works, and pulls.
//! assert_eq!(timer.fired_at(), [21]);
//! assert_eq!(timer.fired()[0].executed_by.map(|cpu| cpu.0), Some(0));
//! ```
//!
//! # Limits
//!
//! Callbacks run behind the interrupt that found them due, at once. The soft stage takes no time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use tickless_core::coarse::{Kind, PassEnd};
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
use tickless_sim::call::Call;
use tickless_sim::tables::PlainLock;

use crate::machine::{Config, Host, Machine, TICK};

mod deep;
mod dump;
mod seats;

pub use deep::DeepCounts;
pub use seats::Seats;

use self::deep::{Depth, Wakener};

/// How long a tick is.
pub const PERIOD: Span = Span::from_nanos(TICK.unsigned_abs());

/// For how long nobody need look at the clock, unless a script says otherwise.
const MAX_DEFERMENT: Span = Span::from_secs(600);
/// Callbacks and looks of one service.
const BUDGET: u32 = 1_000;
/// Turns of the idle loop at one moment before that is a livelock.
const TURNS_MAX: u32 = 100;

type Function = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;
type Script = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart>;
type Tree<C> = Hierarchy<Seats<C>>;

struct Cpu {
    tick: RefCell<CpuTick>,
    timer: Pin<Box<HrTimer<Function>>>,
    conditions: Cell<TickDependencies>,
    /// The tick found something to do, and the soft stage has not come to it.
    expiry_pending: Cell<bool>,
    /// Ticks that ran.
    ticks: Cell<u64>,
    depth: Depth,
}

struct Parts<C: Config> {
    machine: Machine<C>,
    count: Rc<TickCount<PlainLock>>,
    tree: Tree<C>,
    cpus: Vec<Cpu>,
    wakener: Wakener,
    max_deferment: Cell<Span>,
    is_skewed: bool,
}

/// A machine of CPUs that tick and idle. Cheap to clone: all clones are the same one.
pub struct Ticking<C: Config>(Rc<Parts<C>>);

impl<C: Config> Clone for Ticking<C> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<C: Config> Ticking<C> {
    /// A machine of housekeeping CPUs, all online and at work, at time zero.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        Self::with_roles(&vec![Role::Housekeeping; cpus as usize], false)
    }

    /// A machine of a CPU for each role; `is_skewed` says whether their ticks are spread over half a period.
    #[must_use]
    pub fn with_roles(roles: &[Role], is_skewed: bool) -> Self {
        let cpus = u32::try_from(roles.len()).expect("few CPUs");
        let machine = Machine::<C>::new(cpus);
        let count = Rc::new(TickCount::new(PERIOD, Instant::ZERO));
        let layout = Layout::new(cpus, 1, WIDTH_DEFAULT);
        let seats = Seats::new(machine.clone(), Rc::clone(&count), layout);
        let parts = Rc::new_cyclic(|parts: &Weak<Parts<C>>| Parts {
            tree: Hierarchy::new(seats, layout, MigratorPolicy::default()),
            cpus: (0..)
                .zip(roles)
                .map(|(cpu, role)| new_cpu(parts, cpu, *role))
                .collect(),
            machine,
            count,
            wakener: Wakener::new(),
            max_deferment: Cell::new(MAX_DEFERMENT),
            is_skewed,
        });
        let ticking = Self(parts);
        if roles.contains(&Role::TicklessTasks) {
            ticking.count().set_tickless_tasks(true);
        }
        ticking.replace_broadcast_device(0);
        for cpu in 0..cpus {
            let prepared = ticking.0.tree.prepare(CpuId(cpu), NumaNode(0));
            prepared.expect("there is room");
            ticking.join(cpu);
        }
        ticking
    }

    /// The machine under it.
    #[must_use]
    pub fn machine(&self) -> &Machine<C> {
        &self.0.machine
    }

    /// The hierarchy.
    #[must_use]
    pub fn tree(&self) -> &Hierarchy<Seats<C>> {
        &self.0.tree
    }

    /// The count of ticks.
    #[must_use]
    pub fn count(&self) -> &TickCount<PlainLock> {
        &self.0.count
    }

    /// For how long nobody need look at the clock.
    pub fn set_max_deferment(&self, span: Span) {
        self.0.max_deferment.set(span);
    }

    /// What the host of `cpu` says of it from now on.
    pub fn set_conditions(&self, cpu: u32, conditions: TickDependencies) {
        self.cpu(cpu).conditions.set(conditions);
    }

    /// Ticks of `cpu` that ran so far.
    #[must_use]
    pub fn ticks(&self, cpu: u32) -> u64 {
        self.cpu(cpu).ticks.get()
    }

    /// Whether the tick of `cpu` is stopped.
    #[must_use]
    pub fn is_stopped(&self, cpu: u32) -> bool {
        self.cpu(cpu).tick.borrow().is_stopped()
    }

    /// What the timer of the tick of `cpu` stands at, by its record.
    #[must_use]
    pub fn next_tick(&self, cpu: u32) -> Option<Instant> {
        self.cpu(cpu).tick.borrow().next()
    }

    /// What the timer of the tick of `cpu` really stands at.
    #[must_use]
    pub fn tick_timer(&self, cpu: u32) -> Option<Instant> {
        self.machine()
            .timers()
            .deadline(self.cpu(cpu).timer.as_ref())
    }

    fn cpu(&self, cpu: u32) -> &Cpu {
        &self.0.cpus[cpu as usize]
    }

    /// The core's entry points.
    #[must_use]
    pub fn nohz(&self) -> Nohz<'_, Host<C>, Seats<C>, PlainLock> {
        Nohz {
            timers: self.0.machine.timers(),
            tree: &self.0.tree,
            count: &self.0.count,
            max_deferment: self.0.max_deferment.get(),
        }
    }

    fn clock(&self) -> Instant {
        self.machine().monotonic()
    }

    /// Lets `cpu` execute `body`.
    pub fn on<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        self.machine().on(cpu, body)
    }

    /// Lets a task of `cpu`, which may run without a tick, execute `body`, and looks whether it armed something.
    pub fn in_task<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        let result = self.on(cpu, body);
        let is_early = self.nohz().armed_too_early(&self.cpu(cpu).tick.borrow());
        if is_early {
            let _kept = self.work(cpu);
        }
        result
    }

    /// `cpu` has nothing to do, and evaluates.
    ///
    /// # Errors
    ///
    /// Why its tick goes on. It idles all the same.
    pub fn idle(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.enter_idle(cpu);
        self.evaluate(cpu)
    }

    /// `cpu` enters its idle loop, and has not come to evaluate.
    pub fn enter_idle(&self, cpu: u32) {
        self.on(cpu, || {
            self.nohz().enter_idle(&mut self.cpu(cpu).tick.borrow_mut());
        });
    }

    /// What `cpu` would be told if it idled now.
    pub fn forecast(&self, cpu: u32) -> Forecast {
        let state = self.cpu(cpu);
        let conditions = state.conditions.get();
        self.on(cpu, || {
            self.nohz().forecast(&state.tick.borrow(), conditions)
        })
    }

    /// How long `cpu` could sleep from now on.
    #[must_use]
    pub fn sleep_length(&self, cpu: u32) -> SleepLength {
        let forecast = self.forecast(cpu);
        let (state, now) = (self.cpu(cpu), self.clock());
        self.on(cpu, || {
            let tick = state.tick.borrow();
            self.nohz()
                .sleep_length(&tick, state.timer.as_ref(), forecast, now)
        })
    }

    /// One turn of the idle loop of `cpu`, wherever it is.
    ///
    /// # Errors
    ///
    /// Why its tick goes on.
    pub fn evaluate(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.evaluate_by(cpu, self.forecast(cpu))
    }

    /// The second half of a turn of the idle loop.
    ///
    /// # Errors
    ///
    /// Why the tick goes on.
    pub fn evaluate_by(&self, cpu: u32, forecast: Forecast) -> Result<StoppedTick, KeepReason> {
        let state = self.cpu(cpu);
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

    /// `cpu` has work.
    ///
    /// # Errors
    ///
    /// Why its tick runs.
    ///
    /// # Panics
    ///
    /// When letting the tick run again took more than a base lock and a device write.
    pub fn work(&self, cpu: u32) -> Result<StoppedTick, KeepReason> {
        self.leave_deep(cpu);
        let (state, now) = (self.cpu(cpu), self.clock());
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

    /// Tells the machine what bears on where its exact timers go.
    fn tell(&self, cpu: u32) {
        self.machine()
            .set_idleness(cpu, false, self.is_stopped(cpu));
    }

    /// Lets `cpu` come online: the base is.
    fn join(&self, cpu: u32) {
        let joined = self.tree().set_available(CpuId(cpu), Presence::Awake);
        joined.expect("it is prepared");
        self.join_broadcast(cpu);
        let (state, now) = (self.cpu(cpu), self.clock());
        let skew = if self.0.is_skewed {
            skew(CpuId(cpu), self.machine().cpus(), PERIOD)
        } else {
            Span::ZERO
        };
        self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            self.nohz()
                .online(&mut tick, state.timer.as_ref(), now, skew);
        });
    }

    /// Lets `cpu` come back.
    pub fn online(&self, cpu: u32) {
        self.machine().online(cpu);
        self.join(cpu);
    }

    /// Takes `cpu` offline. `heir` wakes up for the clock from now on, if `cpu` did; the first CPU that is online takes
    /// over its timers, and evaluates again.
    ///
    /// # Errors
    ///
    /// Why it has to stay.
    pub fn offline(&self, cpu: u32, heir: u32) -> Result<(), KeepReason> {
        let _kept = self.work(cpu);
        let (state, now) = (self.cpu(cpu), self.clock());
        let concerns_heir = self.on(cpu, || {
            let mut tick = state.tick.borrow_mut();
            self.nohz()
                .offline(&mut tick, state.timer.as_ref(), now, CpuId(heir))
        })?;
        let left = self.tree().clear_available(CpuId(cpu), Leaving::Offline);
        left.expect("it was prepared");
        self.machine().offline(cpu);
        self.leave_broadcast(cpu, heir);
        if concerns_heir {
            self.machine().timers().request_retrigger(CpuId(heir));
        }
        let is_online = |cpu: &u32| self.machine().base(*cpu).is_online();
        let new_owner = (0..self.machine().cpus()).find(is_online);
        self.deliver(new_owner.expect("one CPU stays"));
        Ok(())
    }

    /// Lets `cpu` take no interrupts, or take them again.
    pub fn set_masked(&self, cpu: u32, masked: bool) {
        self.machine().cpu(cpu).masked.set(masked);
        if !masked {
            self.deliver(cpu);
        }
    }

    /// Lets time pass until the true time `until`: interrupts come, what they find due runs, and who idles evaluates.
    pub fn run_until(&self, until: i64) {
        while let Some((at, cpu)) = self.next_interrupt(until) {
            self.machine().spend((at - self.machine().now()).max(0));
            self.deliver(cpu);
            self.check_sleepers();
        }
        self.machine().spend(until - self.machine().now());
        self.check();
    }

    fn next_interrupt(&self, until: i64) -> Option<(i64, u32)> {
        let wants = |cpu: u32| {
            let kicked = self.machine().is_kicked(cpu);
            let kicked = kicked.then(|| self.machine().now());
            [
                kicked,
                self.machine().fires_at(cpu),
                self.broadcast_for(cpu),
            ]
            .into_iter()
            .flatten()
            .min()
        };
        (0..self.machine().cpus())
            .filter(|&cpu| !self.machine().is_masked(cpu))
            .filter_map(|cpu| Some((wants(cpu)?, cpu)))
            .filter(|&(at, _)| at <= until)
            .min()
    }

    /// Delivers to `cpu` what is due, and lets it do all that follows.
    pub fn deliver(&self, cpu: u32) {
        let mut turns = 0;
        loop {
            self.take_interrupts(cpu);
            self.expire(cpu);
            let context = self.cpu(cpu).tick.borrow().context();
            let role = self.cpu(cpu).tick.borrow().role();
            match (context, role) {
                (Context::Idle, _) => {
                    if self.tree().host().take_activated(cpu) {
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
            let now = self.machine().now();
            let is_due = self
                .next_interrupt(now)
                .is_some_and(|(_, next)| next == cpu);
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

    /// A device interrupts `cpu`, and its handler is `body`.
    pub fn interrupt<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        self.take_interrupts(cpu);
        let result = self.on(cpu, body);
        self.deliver(cpu);
        result
    }

    /// The interrupts of `cpu` that are due, without what follows.
    pub fn take_interrupts(&self, cpu: u32) {
        self.leave_deep(cpu);
        self.take_broadcasts(cpu);
        let now = self.clock();
        self.on(cpu, || {
            self.nohz().interrupt(&self.cpu(cpu).tick.borrow(), now);
        });
        self.machine().deliver_due(cpu);
    }

    /// The soft stage of `cpu`: its wheels, and those of others that it looks after.
    pub fn expire(&self, cpu: u32) {
        while self.cpu(cpu).expiry_pending.take() {
            self.on(cpu, || {
                let timers = self.machine().timers();
                let at = self.count().now();
                for kind in Kind::ALL {
                    while timers.run_wheel(CpuId(cpu), kind, at.tick, BUDGET).end == PassEnd::Budget
                    {
                    }
                }
                let mut budget = BUDGET;
                let pull = self.tree().serve_remote(CpuId(cpu), at.began, &mut budget);
                self.cpu(cpu).expiry_pending.set(pull.has_more);
            });
        }
    }

    /// Whether the tick of `cpu` found something to do that has not been done.
    #[must_use]
    pub fn is_expiry_pending(&self, cpu: u32) -> bool {
        self.cpu(cpu).expiry_pending.get()
    }

    /// Looks at everything that must hold between any two interrupts.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn check(&self) {
        if !self.is_anybody_called() {
            // For who sleeps deeply the broadcast device stands in.
            self.with_broadcast_in_place(|| self.machine().check());
        }
        self.check_sleepers();
    }

    /// What is said of who sleeps agrees, and nobody sleeps through a promise.
    fn check_sleepers(&self) {
        for cpu in 0..self.machine().cpus() {
            let node = self.tree().host().node(CpuId(cpu)).expect("it has one");
            let tick = self.cpu(cpu).tick.borrow();
            if tick.context() == Context::Offline {
                continue;
            }
            let sleeps = self.machine().timers().wheel_sleeps(CpuId(cpu));
            assert_eq!(tick.is_stopped(), sleeps, "II2: the wheels of CPU {cpu}");
            assert_eq!(
                tick.is_stopped(),
                node.is_idle(),
                "II2: the place of CPU {cpu}"
            );
            let may_lag = self.machine().is_masked(cpu) || self.is_expiry_pending(cpu);
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

/// What letting the tick of a CPU run again costs.
struct RestartCost {
    was_stopped: bool,
    locks: u64,
    writes: u64,
}

impl RestartCost {
    fn begin<C: Config>(ticking: &Ticking<C>, cpu: u32) -> Self {
        Self {
            was_stopped: ticking.is_stopped(cpu),
            locks: ticking.machine().lock_acquisitions(),
            writes: ticking.machine().device_writes(cpu),
        }
    }

    /// Row 12 of section 7 of the specification of the timers.
    fn check<C: Config>(self, ticking: &Ticking<C>, cpu: u32) {
        let locks = ticking.machine().lock_acquisitions() - self.locks;
        let writes = ticking.machine().device_writes(cpu) - self.writes;
        assert!(writes <= 1, "CPU {cpu} wrote its device {writes} times");
        // Tickless tasks may go on without a tick, and what forbids that takes a look under the lock.
        if ticking.cpu(cpu).tick.borrow().role() == Role::Housekeeping {
            let expected = u64::from(self.was_stopped);
            assert_eq!(locks, expected, "base locks of CPU {cpu}, whose tick runs");
        }
    }
}

fn new_cpu<C: Config>(parts: &Weak<Parts<C>>, cpu: u32, role: Role) -> Cpu {
    let parts = Weak::clone(parts);
    let script: Script = Box::new(move |expired| {
        let ticking = Ticking(parts.upgrade().expect("it ticks as long as it is there"));
        let state = ticking.cpu(cpu);
        let ticked = ticking
            .nohz()
            .tick(&mut state.tick.borrow_mut(), expired.now());
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
    let function: Function = Box::new(move |expired| {
        let run = |script: &mut Script| script(expired);
        call.run(run).unwrap_or(Restart::No)
    });
    Cpu {
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

impl<C: Config> Drop for Parts<C> {
    fn drop(&mut self) {
        for cpu in &self.cpus {
            self.machine.timers().cancel(cpu.timer.as_ref());
        }
    }
}

impl<C: Config> fmt::Debug for Ticking<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ticking")
            .field("machine", self.machine())
            .field("count", self.count())
            .finish_non_exhaustive()
    }
}
