//! The machine: its CPUs, its time, and the host that the core sees.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::task::Waker;

use tickless_core::base::{CpuBase, Stats, Timers};
use tickless_core::clock::{
    ClockSet, Counter, CounterId, Keeper, Offsets, SetSequence, Timekeeper,
};
use tickless_core::event::{DeviceState, DeviceWrite, InPast};
use tickless_core::inspect::{DumpHost, Plain};
use tickless_core::platform::{CpuId, Locality, Platform, ThisCpu, Waiting, keep_local_by_table};
use tickless_core::time::convert::{Cycles, Kilohertz};
use tickless_core::time::{Clock, Instant, Offset};
use tickless_core::trace::Event;
use tickless_sim::DeviceClass;

mod device;
mod lock;
mod paths;
mod tick;

pub use lock::{BaseLock, ExpiryLock};
pub use paths::{Interrupted, Schedule};
pub use tick::TICK;

use device::Device;

/// The counter that drives the time: two cycles for each true nanosecond.
pub(crate) const COUNTER: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(2_000_000),
    bits: 64,
};

/// Another one, which no device compares with: one cycle for each true nanosecond.
const SPARE: Counter = Counter {
    id: CounterId(2),
    frequency: Kilohertz(1_000_000),
    bits: 64,
};

/// Which of the machine's counters drives the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The one that coupled devices compare with.
    Main,
    /// One that no device knows.
    Spare,
}

/// What is fixed when a machine is built.
pub trait Config: 'static {
    /// See [`Platform::DEFERRED_REARM`].
    const DEFERRED_REARM: bool;
    /// See [`Platform::WAITING`].
    const WAITING: Waiting;
    /// See [`Platform::EXPIRY_BUDGET`].
    const EXPIRY_BUDGET: u32;
    /// For people.
    const NAME: &'static str;
}

/// The device is written at a flush point.
#[derive(Debug)]
pub enum Deferred {}

impl Config for Deferred {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "deferred";
}

/// The device is written by the interrupt itself.
#[derive(Debug)]
pub enum Immediate {}

impl Config for Immediate {
    const DEFERRED_REARM: bool = false;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "immediate";
}

/// As [`Deferred`], with a preemptible soft stage and a budget for callbacks.
#[derive(Debug)]
pub enum Preemptible {}

impl Config for Preemptible {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = 64;
    const NAME: &'static str = "preemptible";
}

/// One virtual CPU.
pub(crate) struct Cpu<C: Config> {
    pub(crate) base: OnceCell<CpuBase<Host<C>>>,
    pub(crate) device: Device,
    /// Timer delivery is masked.
    pub(crate) masked: Cell<bool>,
    pub(crate) soft_raised: Cell<bool>,
    pub(crate) kicked: Cell<bool>,
    pub(crate) need_resched: Cell<bool>,
    /// The flag that return paths test (spec REARM-9).
    pub(crate) rearm_owed: Cell<bool>,
    pub(crate) isolated: Cell<bool>,
    pub(crate) tick_stopped: Cell<bool>,
    /// Nesting of interrupts.
    pub(crate) depth: Cell<u32>,
}

/// The host as the core sees it.
pub struct Host<C: Config> {
    pub(crate) cpus: Vec<Cpu<C>>,
    /// The true time in nanoseconds, which no clock of the machine need show.
    pub(crate) now: Cell<i64>,
    pub(crate) current: Cell<Option<u32>>,
    timekeeper: Timekeeper,
    keeper: RefCell<Keeper>,
    /// The counter that drives the time.
    source: Cell<Counter>,
    trace: RefCell<Vec<Event>>,
    pub(crate) migration: Cell<bool>,
    /// Where an unpinned timer of an idle or isolated CPU goes.
    pub(crate) busy: Cell<Option<u32>>,
    pub(crate) readings: Cell<u64>,
    /// What a callback panicked with.
    failed: RefCell<Option<Box<dyn Any + Send>>>,
    config: PhantomData<C>,
}

/// What `counter` reads at the true time `at`.
fn counter_at(counter: Counter, at: i64) -> Cycles {
    Cycles(at.unsigned_abs() * u64::from(counter.frequency.0 / 1_000_000))
}

impl<C: Config> Host<C> {
    fn cpu(&self, cpu: CpuId) -> &Cpu<C> {
        &self.cpus[cpu.0 as usize]
    }

    fn counter(&self) -> Cycles {
        self.readings.set(self.readings.get() + 1);
        counter_at(self.source.get(), self.now.get())
    }

    /// What the monotonic clock shows at the true time `at`, if nobody steers it meanwhile.
    fn shows_at(&self, at: i64) -> i64 {
        let source = self.source.get();
        self.timekeeper.now(|| counter_at(source, at)).as_nanos()
    }

    /// The first true time at which the monotonic clock shows at least `nanos`.
    fn true_time_of_instant(&self, nanos: i64) -> i64 {
        let shows = |at: i64| self.shows_at(at);
        let mut low = self.now.get();
        if shows(low) >= nanos {
            return low;
        }
        // The clock is steered by 0.05 % at most, so twice the distance is beyond the end.
        let mut high = low.saturating_add(2 * (nanos - shows(low)).min(i64::MAX / 4) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if shows(middle) >= nanos {
                high = middle
            } else {
                low = middle
            }
        }
        high
    }
}

impl<C: Config> Platform for Host<C> {
    type Lock = BaseLock;
    type ExpiryLock = ExpiryLock;
    type Local = ();
    const DEFERRED_REARM: bool = C::DEFERRED_REARM;
    const WAITING: Waiting = C::WAITING;
    const EXPIRY_BUDGET: u32 = C::EXPIRY_BUDGET;
    const TRACE: bool = true;

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.base(CpuId(self.current.get()?))?;
        Some(ThisCpu { base, token: None })
    }

    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.cpus.get(cpu.0 as usize)?.base.get()
    }

    fn now(&self) -> Instant {
        self.timekeeper.now(|| self.counter())
    }

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        self.timekeeper.now_and_offsets(seen, || self.counter())
    }

    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.timekeeper.cycles_at(counter, when)
    }

    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        self.cpu(base.cpu()).device.write(
            self.now.get(),
            write,
            |cycles| i64::try_from(cycles.div_ceil(2)).expect("within the machine's life"),
            |nanos| self.true_time_of_instant(nanos),
        )
    }

    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        self.cpu(base.cpu()).device.set_state(state);
    }

    fn kick(&self, base: &CpuBase<Self>) {
        self.cpu(base.cpu()).kicked.set(true);
    }

    fn raise_soft(&self, base: &CpuBase<Self>) {
        self.cpu(base.cpu()).soft_raised.set(true);
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        assert_eq!(
            lock::held(),
            0,
            "INV-9: a callback runs while a base is locked"
        );
        // Nothing may unwind through the core: a callback that fails is reported when the core has returned.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(callback)) {
            self.failed.borrow_mut().get_or_insert(payload);
        }
    }

    fn wake(&self, waker: Waker) {
        assert_eq!(
            lock::held(),
            0,
            "INV-9: a task is woken while a base is locked"
        );
        waker.wake();
    }

    fn keep_local(&self, question: Locality) -> bool {
        let cpu = self.cpu(question.cpu);
        keep_local_by_table(
            cpu.isolated.get(),
            cpu.tick_stopped.get(),
            cpu.need_resched.get(),
        )
    }

    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        if let Some(this) = this {
            return match self.busy.get() {
                Some(busy) if !pinned && self.migration.get() => CpuId(busy),
                _ => this,
            };
        }
        let online = |cpu: &&Cpu<C>| {
            cpu.base
                .get()
                .is_some_and(|base| base.is_online() && !cpu.isolated.get())
        };
        let target = self.cpus.iter().find(online).and_then(|cpu| cpu.base.get());
        target
            .expect("at least one housekeeping CPU is online")
            .cpu()
    }

    fn migration_enabled(&self) -> bool {
        self.migration.get()
    }

    fn relax(&self, attempt: u32) {
        assert!(
            attempt < 1_000,
            "livelock: somebody polls for a thousand rounds, and nobody else can run"
        );
    }

    fn trace(&self, event: Event) {
        if let Event::ExpireEntry { .. } | Event::ExpireExit { .. } = event {
            assert_eq!(
                lock::held(),
                0,
                "expiry events are traced without locks (spec 6.1)"
            );
        }
        self.trace.borrow_mut().push(event);
    }
}

impl<C: Config> std::fmt::Debug for Host<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Host")
            .field("now", &self.now.get())
            .finish_non_exhaustive()
    }
}

/// A machine. Cheap to clone: all clones are the same one.
pub struct Machine<C: Config> {
    timers: Rc<Timers<Host<C>>>,
}

impl<C: Config> Clone for Machine<C> {
    fn clone(&self) -> Self {
        Self {
            timers: Rc::clone(&self.timers),
        }
    }
}

impl<C: Config> std::fmt::Debug for Machine<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Machine")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl<C: Config> Machine<C> {
    /// A machine of `cpus` CPUs with coupled devices, all of them online, at time zero.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        Self::with_devices(cpus, DeviceClass::Coupled)
    }

    /// A machine whose CPUs have devices of `class`.
    #[must_use]
    pub fn with_devices(cpus: u32, class: DeviceClass) -> Self {
        tickless_sim::call::arm_mutant();
        lock::reset();
        let (timekeeper, keeper) = Timekeeper::new(COUNTER, Cycles(0));
        let host = Host {
            cpus: (0..cpus)
                .map(|_| Cpu {
                    base: OnceCell::new(),
                    device: Device::new(class),
                    masked: Cell::new(false),
                    soft_raised: Cell::new(false),
                    kicked: Cell::new(false),
                    need_resched: Cell::new(false),
                    rearm_owed: Cell::new(false),
                    isolated: Cell::new(false),
                    tick_stopped: Cell::new(false),
                    depth: Cell::new(0),
                })
                .collect(),
            now: Cell::new(0),
            current: Cell::new(None),
            timekeeper,
            keeper: RefCell::new(keeper),
            source: Cell::new(COUNTER),
            trace: RefCell::new(Vec::new()),
            migration: Cell::new(true),
            busy: Cell::new(None),
            readings: Cell::new(0),
            failed: RefCell::new(None),
            config: PhantomData,
        };
        let timers = Timers::new(host);
        for index in 0..cpus {
            let base = timers.new_base(device::config(class), ());
            assert_eq!(base.cpu(), CpuId(index));
            let fresh = timers.platform().cpus[index as usize].base.set(base);
            assert!(fresh.is_ok(), "one base for each CPU");
        }
        let machine = Self {
            timers: Rc::new(timers),
        };
        for cpu in 0..cpus {
            machine.online(cpu);
        }
        machine
    }

    /// The timers of the machine.
    #[must_use]
    pub fn timers(&self) -> &Rc<Timers<Host<C>>> {
        &self.timers
    }

    pub(crate) fn host(&self) -> &Host<C> {
        self.timers.platform()
    }

    pub(crate) fn cpu(&self, cpu: u32) -> &Cpu<C> {
        &self.host().cpus[cpu as usize]
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        u32::try_from(self.host().cpus.len()).expect("few CPUs")
    }

    /// The CPU that executes.
    #[must_use]
    pub fn this_cpu(&self) -> Option<u32> {
        self.host().current.get()
    }

    /// The true time in nanoseconds.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.host().now.get()
    }

    /// What the monotonic clock shows.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        Platform::now(self.host())
    }

    /// What has to be added to the monotonic clock for `clock`, in nanoseconds.
    #[must_use]
    pub fn offset(&self, clock: Clock) -> i64 {
        let (_, offsets) = self.host().now_and_offsets(SetSequence::UNSEEN);
        offsets.map_or(0, |(_, offsets)| offsets.of(clock).as_nanos())
    }

    /// What the monotonic clock will show at the true time `at`, if nobody steers it meanwhile.
    #[must_use]
    pub fn monotonic_at(&self, at: i64) -> i64 {
        self.host().shows_at(at)
    }

    /// Lets CPU `cpu` execute `body`.
    ///
    /// # Panics
    ///
    /// With what a callback panicked with meanwhile.
    pub fn on<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        self.execute(Some(cpu), body)
    }

    /// Lets a thread that has no CPU any more execute `body`.
    pub fn on_no_cpu<R>(&self, body: impl FnOnce() -> R) -> R {
        self.execute(None, body)
    }

    fn execute<R>(&self, cpu: Option<u32>, body: impl FnOnce() -> R) -> R {
        let outer = self.host().current.replace(cpu);
        let result = body();
        self.host().current.set(outer);
        if let Some(payload) = self.host().failed.take() {
            resume_unwind(payload);
        }
        result
    }

    /// Moves the true time on without delivering anything: code that runs for long.
    pub fn spend(&self, nanos: i64) {
        assert!(nanos >= 0, "time does not run backwards");
        self.host().now.set(self.now() + nanos);
    }

    /// What happened since the last call.
    pub fn take_trace(&self) -> Vec<Event> {
        self.host().trace.take()
    }

    /// Writes to the device of `cpu` so far.
    #[must_use]
    pub fn device_writes(&self, cpu: u32) -> u64 {
        self.cpu(cpu).device.writes.get()
    }

    /// The true time at which the device of `cpu` will fire.
    #[must_use]
    pub fn fires_at(&self, cpu: u32) -> Option<i64> {
        self.cpu(cpu).device.fires_at.get()
    }

    /// Readings of the counter so far.
    #[must_use]
    pub fn counter_readings(&self) -> u64 {
        self.host().readings.get()
    }

    /// Base locks taken so far, by all CPUs.
    #[must_use]
    pub fn lock_acquisitions(&self) -> u64 {
        lock::acquisitions()
    }

    /// When the base of `cpu` believes that its device fires.
    #[must_use]
    pub fn armed(&self, cpu: u32) -> Instant {
        self.base(cpu).armed()
    }

    /// The base of `cpu`.
    #[must_use]
    pub fn base(&self, cpu: u32) -> &CpuBase<Host<C>> {
        self.cpu(cpu).base.get().expect("every CPU has a base")
    }

    /// Whether somebody asked `cpu` to look at its queues and it has not begun.
    #[must_use]
    pub fn is_kicked(&self, cpu: u32) -> bool {
        self.cpu(cpu).kicked.get()
    }

    /// Whether the soft stage of `cpu` was raised and has not begun.
    #[must_use]
    pub fn is_soft_raised(&self, cpu: u32) -> bool {
        self.cpu(cpu).soft_raised.get()
    }

    /// Whether an interrupt of `cpu` left a rearm to a flush point that has not come yet.
    #[must_use]
    pub fn owes_rearm(&self, cpu: u32) -> bool {
        self.cpu(cpu).rearm_owed.get()
    }

    /// The state of all CPUs as text (spec 6.3).
    #[must_use]
    pub fn dump(&self) -> String {
        self.dump_with(&Plain)
    }

    /// As [`dump`](Self::dump), with what `host` adds.
    ///
    /// # Panics
    ///
    /// When `host` fails.
    #[must_use]
    pub fn dump_with(&self, host: &impl DumpHost) -> String {
        let mut text = String::new();
        self.timers
            .dump(host, &mut text)
            .expect("a string takes all");
        text
    }

    /// What the base of `cpu` counted.
    #[must_use]
    pub fn stats(&self, cpu: u32) -> Stats {
        self.timers.stats(CpuId(cpu))
    }

    /// Runs `hook` just before the `countdown + 1`-th base lock from now is taken.
    pub fn before_lock(&self, countdown: usize, hook: impl FnOnce() + 'static) {
        let _ = self;
        lock::before_acquire(countdown, Box::new(hook));
    }

    /// Whether timer delivery to `cpu` is masked.
    #[must_use]
    pub fn is_masked(&self, cpu: u32) -> bool {
        self.cpu(cpu).masked.get()
    }

    /// Masks or unmasks timer delivery to `cpu`; unmasking delivers what came meanwhile.
    pub fn set_masked(&self, cpu: u32, masked: bool) {
        self.cpu(cpu).masked.set(masked);
        if !masked {
            self.deliver_due(cpu);
        }
    }

    /// Says whether `cpu` is isolated, and whether its tick is stopped.
    pub fn set_idleness(&self, cpu: u32, isolated: bool, tick_stopped: bool) {
        self.cpu(cpu).isolated.set(isolated);
        self.cpu(cpu).tick_stopped.set(tick_stopped);
    }

    /// Says where unpinned timers of idle and isolated CPUs go, as long as timers may move at all.
    pub fn set_busy(&self, cpu: Option<u32>) {
        self.host().busy.set(cpu);
    }

    /// Switches the moving of timers between CPUs on or off.
    pub fn set_migration(&self, enabled: bool) {
        self.host().migration.set(enabled);
    }

    /// Makes the device of `cpu` drop what is written next.
    pub fn break_device(&self, cpu: u32) {
        self.cpu(cpu).device.loses_next.set(true);
    }

    /// Makes the device of `cpu` refuse the next `count` relative writes, and forget what it had been told.
    pub fn refuse_writes(&self, cpu: u32, count: u32) {
        self.cpu(cpu).device.refuses.set(count);
    }

    /// Lets another counter drive the time, which does not jump.
    pub fn switch_counter(&self, source: Source) {
        let host = self.host();
        let old = host.counter();
        host.source.set(match source {
            Source::Main => COUNTER,
            Source::Spare => SPARE,
        });
        host.keeper.borrow_mut().switch_counter(
            &host.timekeeper,
            old,
            host.source.get(),
            host.counter(),
        );
    }

    /// Runs the monotonic clock at another rate.
    pub fn steer(&self, parts_per_billion: i32) {
        let host = self.host();
        host.keeper
            .borrow_mut()
            .steer(&host.timekeeper, host.counter(), parts_per_billion);
    }

    /// Moves the base of the time record to now, as a tick does.
    pub fn advance_timekeeper(&self) {
        let host = self.host();
        host.keeper
            .borrow_mut()
            .advance(&host.timekeeper, host.counter());
    }

    /// Sets the time of day so that it is `realtime` ahead of the monotonic clock, and tells the timers, from CPU
    /// `cpu`.
    pub fn set_wall(&self, cpu: u32, realtime: i64) {
        self.publish_wall(realtime);
        self.on(cpu, || self.timers.clock_was_set(ClockSet::WALL));
    }

    /// Sets the time of day without telling the timers yet.
    pub fn publish_wall(&self, realtime: i64) {
        let host = self.host();
        let mut keeper = host.keeper.borrow_mut();
        let boottime = keeper.offsets().boottime;
        let offsets = Offsets {
            realtime: Offset::from_nanos(realtime),
            boottime,
            tai: Offset::from_nanos(realtime.saturating_add(37_000_000_000)),
        };
        keeper.set_offsets(&host.timekeeper, offsets);
    }

    /// Announces a leap second.
    pub fn set_next_leap(&self, when: Option<Instant>) {
        let host = self.host();
        host.keeper
            .borrow_mut()
            .set_next_leap(&host.timekeeper, when);
    }

    /// Lets the machine sleep for `nanos`: the monotonic clock stands still, the others do not, and every device
    /// forgets.
    pub fn suspend_for(&self, nanos: i64) {
        for cpu in 0..self.cpus() {
            self.on(cpu, || self.timers.suspend(CpuId(cpu)));
            self.cpu(cpu).rearm_owed.set(false);
        }
        {
            let host = self.host();
            let mut keeper = host.keeper.borrow_mut();
            let mut offsets = keeper.offsets();
            let later =
                |offset: Offset| Offset::from_nanos(offset.as_nanos().saturating_add(nanos));
            offsets.realtime = later(offsets.realtime);
            offsets.boottime = later(offsets.boottime);
            offsets.tai = later(offsets.tai);
            keeper.set_offsets(&host.timekeeper, offsets);
        }
        for cpu in 0..self.cpus() {
            self.on(cpu, || self.timers.resume(CpuId(cpu)));
        }
        self.on(0, || self.timers.clock_was_set(ClockSet::SLEEP));
    }

    /// Stops the device of `cpu`, as deep idle states do: what was programmed is lost.
    pub fn stop_device(&self, cpu: u32) {
        self.on(cpu, || self.timers.stop_device(CpuId(cpu)));
    }

    /// Switches the device of `cpu` on again, and programs it for what the CPU has to wake up for.
    pub fn restart_device(&self, cpu: u32) {
        self.on(cpu, || {
            self.timers.switch_device_on(CpuId(cpu));
            self.timers.retrigger(CpuId(cpu));
        });
    }

    /// Takes `cpu` online.
    pub fn online(&self, cpu: u32) {
        self.on(cpu, || {
            self.timers.wheel_online(CpuId(cpu), self.tick());
            self.timers.cpu_online(CpuId(cpu));
        });
    }

    /// Takes `cpu` offline. Kicks on their way to it and soft work that it was asked for are lost, as they are on real
    /// machines.
    pub fn offline(&self, cpu: u32) {
        self.cpu(cpu).rearm_owed.set(false);
        self.on(cpu, || {
            lock::with_two_allowed(|| self.timers.cpu_offline(CpuId(cpu)))
        });
        self.cpu(cpu).kicked.set(false);
        self.cpu(cpu).soft_raised.set(false);
        self.take_over_wheels(cpu);
    }

    /// Looks at everything that must hold whenever no base is locked (spec 4.7), against the devices themselves.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub fn check(&self) {
        crate::check::invariants(self);
    }
}
