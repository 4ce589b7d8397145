//! The parts of the running kernel: timers, hierarchy, ticks, and the CPUs that the kernel started.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::sync::atomic::Ordering;

use tickless_core::base::{CpuBase, Frozen, Timers};
use tickless_core::clock::CounterId;
use tickless_core::clock::Switched;
use tickless_core::coarse::WheelKind;
use tickless_core::event::DeviceConfig;
use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Hierarchy, HierarchyHost, Layout, Leaving, MigratorPolicy, NumaNode,
    Presence, Step, WIDTH_DEFAULT,
};
use tickless_core::hrtimer::{Expired, HrTimer, Restart};
use tickless_core::link::lock::Lock;
use tickless_core::platform::{CpuId, Platform, Port};
use tickless_core::tick::{CpuTick, Nohz, Role, TickCount};
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_core::trace::Event;
use tickless_core::wheel::idle::{TickTime, wake_times};

use crate::arch;
use crate::host::{Host, Local, device};
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::parameters::Parameters;

/// The duration of a tick.
pub(crate) const PERIOD: Span = Span::from_millis(1);

pub(crate) type TickFunction = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
pub(crate) type TickTimer = HrTimer<TickFunction>;

/// Bytes of the tick of one CPU.
pub(crate) const TICKING: usize = size_of::<Ticking>();

struct Ticking {
    state: Lock<MaskingLock, CpuTick>,
    timer: TickTimer,
}

/// The running kernel.
pub(crate) struct Machine {
    pub(crate) timers: &'static Timers<Host>,
    pub(crate) tree: Hierarchy<Nodes>,
    pub(crate) count: TickCount<MaskingLock>,
    ticks: Vec<Ticking>,
    /// The timer of each CPU that interrupts it for the rest of its soft work.
    pauses: Vec<TickTimer>,
}

static MACHINE: Late<Machine> = Late::new();

/// Returns the running kernel.
///
/// # Panics
///
/// Before [`start`].
#[inline]
pub(crate) fn machine() -> &'static Machine {
    MACHINE
        .get()
        .expect("the machine is made before interrupts are let in")
}

/// Makes the machine and takes its first CPU, which executes this, online.
pub(crate) fn start(parameters: &Parameters) -> &'static Machine {
    let timers: &'static Timers<Host> =
        Box::leak(Box::new(Timers::new(Host::new(parameters.cpus))));
    for _ in 0..parameters.cpus {
        add_base(timers, device(parameters.is_relative));
    }
    let cpus = parameters.cpus;
    let layout = Layout::new(cpus, 1, WIDTH_DEFAULT);
    let ids = || (0..cpus).map(CpuId);
    let nodes = Nodes {
        timers,
        nodes: ids().map(CpuNode::new).collect(),
        groups: (0..2 * layout.levels() * cpus as usize)
            .map(|_| Late::new())
            .collect(),
    };
    let tree = Hierarchy::new(nodes, layout, MigratorPolicy::LowestBit);
    for cpu in ids() {
        tree.prepare(cpu, NumaNode(0))
            .expect("there is room for every group");
    }
    let ticking = |cpu| Ticking {
        state: Lock::new(MaskingLock::new(), CpuTick::new(cpu, Role::Housekeeping)),
        timer: HrTimer::new(tick as TickFunction),
    };
    let machine = MACHINE.set(Box::new(Machine {
        timers,
        tree,
        count: TickCount::new(PERIOD, Instant::ZERO),
        ticks: ids().map(ticking).collect(),
        pauses: ids()
            .map(|_| HrTimer::new(pause_ends as TickFunction))
            .collect(),
    }));
    arch::init_machine();
    arch::init_cpu();
    machine.host().here().has_arrived.leave();
    machine.online();
    machine
}

/// Makes the base of the next CPU, which has `device`.
pub(crate) fn add_base(timers: &Timers<Host>, device: DeviceConfig) {
    let mut slot = Box::new_uninit();
    let base = timers.emplace_base(&mut slot, device, Local::default());
    let base: *mut CpuBase<Host> = base.into_mut();
    core::mem::forget(slot);
    // SAFETY: the base stands in the box, whose place was forgotten.
    timers.platform().keep(unsafe { Box::from_raw(base) });
}

/// Handles the timer of a tick when it fires.
fn tick(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let machine = machine();
    let local = machine.host().here();
    local.ticks.add(1);
    let now = expired.now();
    let outcome = machine.with_tick(|nohz, tick, _| nohz.tick(tick, now));
    if outcome.counted > 0 {
        machine.host().clock().advance();
    }
    if outcome.wheel_is_due || outcome.remote_is_due {
        local.is_pass_due.leave();
    }
    let Some(next) = outcome.next else {
        return Restart::No;
    };
    expired.set_deadline(next);
    Restart::Yes
}

/// Ends a pause: the exit of the interrupt continues the soft work.
fn pause_ends(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    Restart::No
}

type KernelNohz<'a> = Nohz<'a, Host, Nodes, MaskingLock>;

impl Machine {
    pub(crate) fn host(&self) -> &'static Host {
        self.timers.platform()
    }

    /// Returns the CPU that executes.
    pub(crate) fn here(&self) -> CpuId {
        CpuId(u32::try_from(arch::cpu()).unwrap_or(u32::MAX))
    }

    /// Returns the timer that interrupts the executing CPU for the rest of its soft work.
    pub(crate) fn pause(&self) -> Pin<&TickTimer> {
        // SAFETY: as in `with_tick`.
        unsafe { Pin::new_unchecked(&self.pauses[arch::cpu()]) }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.ticks.len()
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        self.host().now()
    }

    /// Returns the tick in progress, brought up to date, for timers whose deadline is a tick.
    pub(crate) fn tick_time(&self) -> TickTime {
        self.count.update(self.now());
        self.count.now()
    }

    /// Returns the deadline for which the device of `cpu` is armed.
    pub(crate) fn armed(&self, cpu: usize) -> Instant {
        let base = u32::try_from(cpu)
            .ok()
            .and_then(|cpu| self.host().base(CpuId(cpu)));
        base.map_or(Instant::FOREVER, CpuBase::armed)
    }

    /// Takes the executing CPU online, for exact timers and wheels. The CPU has no tick yet.
    pub(crate) fn online(&self) {
        let before = arch::mask();
        let cpu = self.here();
        self.timers.wheel_online(cpu, self.tick_time().tick);
        self.timers.cpu_online(cpu);
        arch::restore(before);
    }

    /// Lets another counter drive the time, while all CPUs continue to run. Each CPU writes its device again.
    pub(crate) fn drive_time_by(&self, counter: CounterId) -> Switched {
        let here = arch::cpu();
        let has_arrived = |cpu: &usize| self.host().local(*cpu).has_arrived.is_there();
        let others = (0..self.cpus()).filter(move |&cpu| cpu != here && has_arrived(&cpu));
        let tell = || {
            for cpu in others.clone() {
                self.host().local(cpu).is_kicked.leave();
                arch::interrupt_cpu(cpu);
            }
            self.timers.retrigger(self.here());
        };
        self.host().clock().switch(counter, others.clone(), tell)
    }

    pub(crate) fn is_online(&self, cpu: usize) -> bool {
        let cpu = CpuId(u32::try_from(cpu).unwrap_or(u32::MAX));
        self.host().base(cpu).is_some_and(CpuBase::is_online)
    }

    /// Takes the executing CPU, which has no tick, offline: its exact timers move to another CPU.
    pub(crate) fn offline(&self) {
        let before = arch::mask();
        self.timers.cpu_offline(self.here());
        arch::restore(before);
    }

    /// Lets the tick of the executing CPU run, and the CPU take part in the hierarchy.
    pub(crate) fn start_tick(&self) {
        let before = arch::mask();
        let joined = self.tree.set_available(self.here(), Presence::Awake);
        joined.expect("each CPU was prepared");
        let now = self.now();
        self.with_tick(|nohz, tick, timer| nohz.online(tick, timer, now, Span::ZERO));
        arch::restore(before);
    }

    /// Ends the tick of the executing CPU, which leaves the hierarchy.
    pub(crate) fn end_tick(&self) {
        let before = arch::mask();
        let now = self.now();
        let heir = CpuId(0);
        let ended = self.with_tick(|nohz, tick, timer| nohz.offline(tick, timer, now, heir));
        ended.expect("no task runs without a tick");
        let left = self.tree.clear_available(self.here(), Leaving::Offline);
        left.expect("each CPU was prepared");
        arch::restore(before);
    }

    /// Changes the purpose of the executing CPU, which has no tick at the moment.
    pub(crate) fn set_role(&self, role: Role) {
        let mut tick = self.ticks[arch::cpu()].state.lock(None);
        *tick = CpuTick::new(self.here(), role);
    }

    /// Calls `act` with the tick of the executing CPU, masked.
    pub(crate) fn with_tick<R>(
        &self,
        act: impl FnOnce(&KernelNohz<'_>, &mut CpuTick, Pin<&TickTimer>) -> R,
    ) -> R {
        let ticking = &self.ticks[arch::cpu()];
        let mut tick = ticking.state.lock(None);
        let nohz = Nohz {
            timers: self.timers,
            tree: &self.tree,
            count: &self.count,
            max_deferment: self.host().clock().max_idle(),
        };
        // SAFETY: the vector is never changed, and lies in a value that is never moved or dropped.
        let timer = unsafe { Pin::new_unchecked(&ticking.timer) };
        act(&nohz, &mut tick, timer)
    }

    /// Begins any interrupt: on a CPU whose tick is stopped, counts the ticks that passed first.
    pub(crate) fn count_in_interrupt(&self) {
        // It looks before it locks: a CPU whose tick runs has nothing to do.
        if self.host().here().is_tick_stopped.is_there() {
            let now = self.now();
            self.with_tick(|nohz, tick, _| nohz.interrupt(tick, now));
        }
    }

    /// Requests `cpu` to call `job` when it idles.
    pub(crate) fn run_on(&self, cpu: usize, job: fn()) {
        let local = self.host().local(cpu);
        // Release: pairs with the exchange in `take_job`.
        local
            .job
            .store(job as *const () as usize as u64, Ordering::Release);
        arch::interrupt_cpu(cpu);
    }

    /// Takes the job that another CPU left for the executing one.
    pub(crate) fn take_job(&self) -> Option<fn()> {
        // Acquire: pairs with the store in `run_on`.
        let job = self.host().here().job.swap(0, Ordering::Acquire);
        // SAFETY: `run_on` alone stores anything but zero: a function.
        (job != 0).then(|| unsafe { core::mem::transmute::<usize, fn()>(job as usize) })
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// The nodes and groups of the hierarchy, and the timers of the CPUs below them.
pub(crate) struct Nodes {
    timers: &'static Timers<Host>,
    nodes: Vec<CpuNode<MaskingLock>>,
    groups: Vec<Late<Group<MaskingLock, WIDTH_DEFAULT>>>,
}

impl HierarchyHost<WIDTH_DEFAULT> for Nodes {
    type Lock = MaskingLock;
    type LockedBases<'a> = Frozen<'a, Host>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<MaskingLock>> {
        self.nodes.get(cpu.0 as usize)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    fn group(&self, id: GroupId) -> &Group<MaskingLock, WIDTH_DEFAULT> {
        let group = self.groups[id.0 as usize].get();
        group.expect("the hierarchy asks only for groups that it placed")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= self.groups.len()
    }

    fn place(&self, id: GroupId, group: Group<MaskingLock, WIDTH_DEFAULT>) {
        self.groups[id.0 as usize].set(Box::new(group));
    }

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        let tick = machine().count.now().tick;
        let pass = self.timers.run_wheel(cpu, WheelKind::Global, tick, *budget);
        *budget = budget.saturating_sub(pass.fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        let at = machine().count.now();
        let _settled = self.timers.wheel_next(cpu, at.tick);
        let base = self
            .timers
            .platform()
            .base(cpu)
            .expect("a CPU with a node has a base");
        let held = base.freeze(None);
        (held, wake_times(base.wheel_next_due(), at).global)
    }

    fn activate(&self, cpu: CpuId) {
        self.timers
            .platform()
            .local(cpu.0 as usize)
            .must_leave_idle
            .leave();
        arch::interrupt_cpu(cpu.0 as usize);
    }

    #[inline]
    fn step(&self, step: Step) {
        let host = self.timers.platform();
        if host.is_traced() {
            host.trace(Event::Hierarchy { tree: 0, step });
        }
    }
}
