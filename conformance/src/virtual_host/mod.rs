//! The hosts of the rig itself: virtual CPUs, devices and counters, driven by a suite.
//!
//! [`VirtualHost`] has every capability. Two virtual hosts differ by their [`Config`].

use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;

use tickless_core::base::{CpuBase, Timers};
use tickless_core::clock::{Counter, CounterId, Keeper, Offsets, SetSequence, Timekeeper};
use tickless_core::coarse::Tick;
use tickless_core::event::{DeviceState, DeviceWrite, InPast};
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu, Waiting, keep_local_by_table};
use tickless_core::time::Instant;
use tickless_core::time::convert::{Cycles, Kilohertz};
use tickless_core::trace::Event;

use self::device::Device;
use crate::DeviceClass;
use crate::capability::Capabilities;
use crate::host::{Host, Placement, Source};
use crate::parts::TICK;
use crate::prelude::*;
use crate::surroundings;

mod device;
mod lock;

pub use self::lock::{BaseLock, ExpiryLock};

/// The counter that drives the time: two cycles for each true nanosecond.
const COUNTER: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(2_000_000),
    bits: 64,
    can_inline: false,
};

/// Another counter, with which no device compares: one cycle for each true nanosecond.
const SPARE: Counter = Counter {
    id: CounterId(2),
    frequency: Kilohertz(1_000_000),
    bits: 64,
    can_inline: false,
};

/// The fixed settings of a [`VirtualHost`].
pub trait Config: 'static {
    /// The value of [`Platform::DEFERRED_REARM`].
    const DEFERRED_REARM: bool;
    /// The value of [`Platform::WAITING`].
    const WAITING: Waiting;
    /// The value of [`Platform::EXPIRY_BUDGET`].
    const EXPIRY_BUDGET: u32;
    /// The name of the host in messages.
    const NAME: &'static str;
    /// The answer of [`Platform::updates_in_place`].
    const UPDATES_IN_PLACE: bool = true;
    /// The part of the host that is broken on purpose.
    const FAULT: Option<Fault> = None;
}

/// The faults of a host. The suites have to notice each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Event devices fire a tick later than programmed.
    LateDevice,
    /// A kicked CPU is not interrupted.
    LostKick,
    /// The soft stage does not run.
    LostSoftStage,
}

/// The settings of a host whose device is written at a flush point.
#[derive(Debug)]
pub enum DeferredRearm {}

impl Config for DeferredRearm {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "deferred";
}

/// The settings of a host whose device is written by the interrupt itself.
#[derive(Debug)]
pub enum ImmediateRearm {}

impl Config for ImmediateRearm {
    const DEFERRED_REARM: bool = false;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "immediate";
}

/// The settings of [`DeferredRearm`], with a preemptible soft stage and a budget for callbacks.
#[derive(Debug)]
pub enum PreemptibleSoft {}

impl Config for PreemptibleSoft {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = 64;
    const NAME: &'static str = "preemptible";
}

/// The settings of [`DeferredRearm`], with timers that never keep their place when they are started again.
#[derive(Debug)]
pub enum FiledAnew {}

impl Config for FiledAnew {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "filed anew";
    const UPDATES_IN_PLACE: bool = false;
}

/// The host whose device is written at a flush point.
pub type Deferred = VirtualHost<DeferredRearm>;
/// The host whose device is written by the interrupt itself.
pub type Immediate = VirtualHost<ImmediateRearm>;
/// The host in which a timer that is started again never keeps its place.
pub type Anew = VirtualHost<FiledAnew>;
/// The host with a preemptible soft stage and a budget for callbacks.
pub type Preemptible = VirtualHost<PreemptibleSoft>;

struct Cpu<C: Config> {
    base: OnceCell<CpuBase<VirtualPlatform<C>>>,
    device: Device,
    soft_raised: Cell<bool>,
    kicked: Cell<bool>,
    placement: Cell<Placement>,
}

/// The virtual host's platform for the core.
pub struct VirtualPlatform<C: Config> {
    cpus: Vec<Cpu<C>>,
    /// The true time in nanoseconds. No clock of the host has to show it.
    now: Cell<i64>,
    current: Cell<Option<u32>>,
    timekeeper: Timekeeper,
    keeper: RefCell<Keeper>,
    /// The counter that drives the time.
    source: Cell<Counter>,
    trace: RefCell<Vec<Event>>,
    migration: Cell<bool>,
    /// The CPU that gets the unpinned timers of idle and isolated CPUs.
    busy: Cell<Option<u32>>,
    readings: Cell<u64>,
    /// The payload of a callback's panic.
    failed: RefCell<Option<Box<dyn Any + Send>>>,
    config: PhantomData<C>,
}

fn is_broken<C: Config>(fault: Fault) -> bool {
    C::FAULT == Some(fault)
}

fn counter_at(counter: Counter, at: i64) -> Cycles {
    Cycles(at.unsigned_abs() * u64::from(counter.frequency.0 / 1_000_000))
}

impl<C: Config> VirtualPlatform<C> {
    fn cpu(&self, cpu: CpuId) -> &Cpu<C> {
        &self.cpus[cpu.0 as usize]
    }

    fn counter(&self) -> Cycles {
        self.readings.set(self.readings.get() + 1);
        counter_at(self.source.get(), self.now.get())
    }

    /// Predicts the monotonic clock at the true time `at`, if the clock is not steered meanwhile.
    fn shows_at(&self, at: i64) -> i64 {
        let source = self.source.get();
        self.timekeeper.now(|| counter_at(source, at)).as_nanos()
    }

    /// Returns the first true time at which the monotonic clock shows at least `nanos`.
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

impl<C: Config> Port for VirtualPlatform<C> {
    type Lock = BaseLock;
    type ExpiryLock = ExpiryLock;
    type Local = ();

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

    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        let device = &self.cpu(base.cpu()).device;
        device.write(
            self.now.get(),
            write,
            |cycles| i64::try_from(cycles.div_ceil(2)).expect("within the life of the host"),
            |nanos| self.true_time_of_instant(nanos),
        )?;
        if is_broken::<C>(Fault::LateDevice) {
            device
                .fires_at
                .set(device.fires_at.get().map(|at| at + TICK));
        }
        Ok(())
    }

    fn kick(&self, base: &CpuBase<Self>) {
        let is_lost = is_broken::<C>(Fault::LostKick);
        self.cpu(base.cpu()).kicked.set(!is_lost);
    }
}

impl<C: Config> Platform for VirtualPlatform<C> {
    const DEFERRED_REARM: bool = C::DEFERRED_REARM;
    const WAITING: Waiting = C::WAITING;
    const EXPIRY_BUDGET: u32 = C::EXPIRY_BUDGET;
    const TRACE: bool = true;

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        self.timekeeper.now_and_offsets(seen, |_| self.counter())
    }

    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.timekeeper.cycles_at(counter, when)
    }

    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        self.cpu(base.cpu()).device.set_state(state);
    }

    fn raise_soft(&self, base: &CpuBase<Self>) {
        let is_lost = is_broken::<C>(Fault::LostSoftStage);
        self.cpu(base.cpu()).soft_raised.set(!is_lost);
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        assert_eq!(
            lock::held(),
            0,
            "INV-9: a callback runs while a base is locked"
        );
        // Nothing may unwind through the core: a callback that fails is reported when the core has returned.
        if let Some(payload) = surroundings::catch(callback) {
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

    fn keep_local(&self, this: &CpuBase<Self>) -> bool {
        let placement = self.cpu(this.cpu()).placement.get();
        keep_local_by_table(
            placement.isolated,
            placement.tick_stopped,
            placement.need_resched,
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
                .is_some_and(|base| base.is_online() && !cpu.placement.get().isolated)
        };
        let target = self.cpus.iter().find(online).and_then(|cpu| cpu.base.get());
        target
            .expect("at least one housekeeping CPU is online")
            .cpu()
    }

    fn migration_enabled(&self) -> bool {
        self.migration.get()
    }

    fn updates_in_place(&self) -> bool {
        C::UPDATES_IN_PLACE
    }

    fn relax(&self, attempt: u32) {
        assert!(
            attempt < 1_000,
            "livelock: a CPU polls for a thousand rounds, and no other can run"
        );
    }

    fn trace(&self, event: Event) {
        if let Event::ExpireEntry { .. } | Event::ExpireExit { .. } = event {
            assert_eq!(
                lock::held(),
                0,
                "expiry events are traced without locks (spec X-6.1)"
            );
        }
        self.trace.borrow_mut().push(event);
    }
}

impl<C: Config> fmt::Debug for VirtualPlatform<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("VirtualPlatform")
            .field("now", &self.now.get())
            .finish_non_exhaustive()
    }
}

/// A host of virtual CPUs.
pub struct VirtualHost<C: Config> {
    timers: Timers<VirtualPlatform<C>>,
}

impl<C: Config> VirtualHost<C> {
    fn platform(&self) -> &VirtualPlatform<C> {
        self.timers.platform()
    }

    fn cpu(&self, cpu: u32) -> &Cpu<C> {
        &self.platform().cpus[cpu as usize]
    }

    /// Changes the published record of time together with its keeper.
    fn keep<R>(&self, change: impl FnOnce(&mut Keeper, &Timekeeper) -> R) -> R {
        let platform = self.platform();
        change(&mut platform.keeper.borrow_mut(), &platform.timekeeper)
    }
}

impl<C: Config> Host for VirtualHost<C> {
    type Platform = VirtualPlatform<C>;
    const NAME: &'static str = C::NAME;
    const HAS: Capabilities = if cfg!(panic = "unwind") {
        Capabilities::ALL
    } else {
        Capabilities::ALL.without(Capabilities::PANICS)
    };
    const DEVICES: &'static [DeviceClass] = &DeviceClass::ALL;

    fn new(cpus: u32, class: DeviceClass) -> Self {
        lock::reset();
        let (timekeeper, keeper) = Timekeeper::new(COUNTER, Cycles(0));
        let platform = VirtualPlatform {
            cpus: (0..cpus)
                .map(|_| Cpu {
                    base: OnceCell::new(),
                    device: Device::new(class),
                    soft_raised: Cell::new(false),
                    kicked: Cell::new(false),
                    placement: Cell::default(),
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
        let timers = Timers::new(platform);
        for cpu in &timers.platform().cpus {
            let fresh = cpu.base.set(timers.new_base(device::config(class), ()));
            assert!(fresh.is_ok(), "one base for each CPU");
        }
        Self { timers }
    }

    fn timers(&self) -> &Timers<VirtualPlatform<C>> {
        &self.timers
    }

    fn this_cpu(&self) -> Option<u32> {
        self.platform().current.get()
    }

    fn set_this_cpu(&self, cpu: Option<u32>) {
        self.platform().current.set(cpu);
    }

    fn now(&self) -> i64 {
        self.platform().now.get()
    }

    fn set_now(&self, now: i64) {
        self.platform().now.set(now);
    }

    fn fires_at(&self, cpu: u32) -> Option<i64> {
        self.cpu(cpu).device.fires_at.get()
    }

    fn set_fires_at(&self, cpu: u32, at: Option<i64>) {
        self.cpu(cpu).device.fires_at.set(at);
    }

    fn is_kicked(&self, cpu: u32) -> bool {
        self.cpu(cpu).kicked.get()
    }

    fn take_kick(&self, cpu: u32) -> bool {
        self.cpu(cpu).kicked.take()
    }

    fn offline(&self, cpu: u32) {
        lock::with_two_allowed(|| self.timers.cpu_offline(CpuId(cpu)));
        // Kicks on their way to it and soft work that it was asked for are lost, as they are on real machines.
        self.cpu(cpu).kicked.set(false);
        self.cpu(cpu).soft_raised.set(false);
    }

    fn take_over_wheels(&self, cpu: u32, _heir: u32, tick: Tick) {
        lock::with_two_allowed(|| self.timers.wheel_offline(CpuId(cpu), tick));
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.platform().failed.take()
    }

    fn tolerance(&self, cpu: u32) -> i64 {
        self.cpu(cpu).device.tolerance()
    }

    fn shows_at(&self, at: i64) -> Instant {
        Instant::from_nanos(self.platform().shows_at(at))
    }

    fn device_writes(&self, cpu: u32) -> u64 {
        self.cpu(cpu).device.writes.get()
    }

    fn is_soft_raised(&self, cpu: u32) -> bool {
        self.cpu(cpu).soft_raised.get()
    }

    fn take_soft_raised(&self, cpu: u32) -> bool {
        self.cpu(cpu).soft_raised.take()
    }

    fn take_trace(&self) -> Vec<Event> {
        self.platform().trace.take()
    }

    fn set_placement(&self, cpu: u32, placement: Placement) {
        self.cpu(cpu).placement.set(placement);
    }

    fn set_busy(&self, cpu: Option<u32>) {
        self.platform().busy.set(cpu);
    }

    fn set_migration(&self, enabled: bool) {
        self.platform().migration.set(enabled);
    }

    fn lock_acquisitions(&self) -> u64 {
        lock::acquisitions()
    }

    fn before_lock(&self, countdown: usize, hook: Box<dyn FnOnce()>) {
        lock::before_acquire(countdown, hook);
    }

    fn offsets(&self) -> Offsets {
        self.keep(|keeper, _| keeper.offsets())
    }

    fn set_offsets(&self, offsets: Offsets) {
        self.keep(|keeper, timekeeper| keeper.set_offsets(timekeeper, offsets));
    }

    fn set_next_leap(&self, when: Option<Instant>) {
        self.keep(|keeper, timekeeper| keeper.set_next_leap(timekeeper, when));
    }

    fn switch_counter(&self, source: Source) {
        let platform = self.platform();
        let old = platform.counter();
        let new = match source {
            Source::Main => COUNTER,
            Source::Spare => SPARE,
        };
        platform.source.set(new);
        let reading = platform.counter();
        let installed =
            self.keep(|keeper, timekeeper| keeper.switch_counter(timekeeper, old, new, reading));
        installed.expect("both counters count");
    }

    fn steer(&self, parts_per_billion: i32) {
        let reading = self.platform().counter();
        self.keep(|keeper, timekeeper| keeper.steer(timekeeper, reading, parts_per_billion));
    }

    fn advance_timekeeper(&self) {
        let reading = self.platform().counter();
        self.keep(|keeper, timekeeper| keeper.advance(timekeeper, reading));
    }

    fn counter_readings(&self) -> u64 {
        self.platform().readings.get()
    }

    fn break_device(&self, cpu: u32) {
        self.cpu(cpu).device.loses_next.set(true);
    }

    fn refuse_writes(&self, cpu: u32, count: u32) {
        self.cpu(cpu).device.refuses.set(count);
    }
}

impl<C: Config> fmt::Debug for VirtualHost<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.platform().fmt(formatter)
    }
}
