//! The rig: it drives a host as a debugger drives a computer.

use alloc::rc::Rc;
use core::fmt;

use tickless_core::base::{CpuBase, Stats, Timers};
use tickless_core::clock::{ClockSet, Offsets};
use tickless_core::coarse::{PassEnd, Tick, WheelKind};
use tickless_core::inspect::{DumpHost, Plain};
use tickless_core::platform::{CpuId, Platform, Port, Waiting};
use tickless_core::time::{Clock, Instant, Offset};
use tickless_core::trace::Event;

use crate::DeviceClass;
use crate::capability::Capabilities;
use crate::host::{Host, Placement, Source};
use crate::parts::{Cpu, Parts, TICK};
use crate::prelude::*;
use crate::surroundings;
use crate::ticks::Ticks;

/// A host that a suite drives. Clones are cheap, and all clones are the same rig.
///
/// Ticks come in two ways. CPUs of a [new](Rig::new) rig take them [when a suite says so](Rig::run_to_tick), all CPUs
/// at once. CPUs of a [ticking](Rig::ticking) rig take them from a timer of each CPU, which stops in idle.
pub struct Rig<H: Host> {
    pub(crate) parts: Rc<Parts<H>>,
    pub(crate) ticks: Option<Rc<Ticks<H>>>,
}

impl<H: Host> Clone for Rig<H> {
    fn clone(&self) -> Self {
        Self {
            parts: Rc::clone(&self.parts),
            ticks: self.ticks.clone(),
        }
    }
}

impl<H: Host> fmt::Debug for Rig<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Rig")
            .field("host", &H::NAME)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl<H: Host> Rig<H> {
    /// The value of [`Platform::DEFERRED_REARM`].
    pub const DEFERRED_REARM: bool = <H::Platform as Platform>::DEFERRED_REARM;
    /// The value of [`Platform::WAITING`].
    pub const WAITING: Waiting = <H::Platform as Platform>::WAITING;
    /// The value of [`Platform::EXPIRY_BUDGET`].
    pub const EXPIRY_BUDGET: u32 = <H::Platform as Platform>::EXPIRY_BUDGET;
    /// The value of [`Platform::SOFT_BUDGET`].
    pub const SOFT_BUDGET: u32 = <H::Platform as Platform>::SOFT_BUDGET;

    /// Makes a host of `cpus` CPUs, all of them online, at time zero. Their devices are coupled if the host has coupled
    /// devices.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        let coupled = H::DEVICES.contains(&DeviceClass::Coupled);
        let class = coupled.then_some(DeviceClass::Coupled);
        Self::with_devices(cpus, class.unwrap_or(H::DEVICES[0]))
    }

    /// Makes a host whose CPUs have devices of `class`.
    #[must_use]
    pub fn with_devices(cpus: u32, class: DeviceClass) -> Self {
        let (one, has) = (cpus == 1 || H::HAS.contains(Capabilities::CPUS), H::NAME);
        assert!(one, "a case that needs CPUS does not say so: {has} has one");
        let known = H::DEVICES.contains(&class);
        assert!(
            known,
            "a case that needs DEVICES does not say so: {has} has no {class:?}"
        );
        let rig = Self {
            parts: Rc::new(Parts {
                host: H::new(cpus, class),
                cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            }),
            ticks: None,
        };
        for cpu in 0..cpus {
            rig.online(cpu);
            rig.cpu(cpu).written.set(rig.host().device_writes(cpu));
        }
        rig
    }

    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &H {
        &self.parts.host
    }

    /// Returns the timers of the host.
    #[must_use]
    pub fn timers(&self) -> &Timers<H::Platform> {
        self.host().timers()
    }

    pub(crate) fn cpu(&self, cpu: u32) -> &Cpu {
        &self.parts.cpus[cpu as usize]
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        u32::try_from(self.parts.cpus.len()).expect("few CPUs")
    }

    /// Returns the CPU that executes; `None` for a thread without a CPU.
    #[must_use]
    pub fn this_cpu(&self) -> Option<u32> {
        self.host().this_cpu()
    }

    /// Returns the true time in nanoseconds.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.host().now()
    }

    /// Reads the monotonic clock.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        self.timers().platform().now()
    }

    /// Returns the offset of `clock` from the monotonic clock, in nanoseconds.
    #[must_use]
    pub fn offset(&self, clock: Clock) -> i64 {
        self.host().offsets().of(clock).as_nanos()
    }

    /// Predicts the monotonic clock at the true time `at`, if the clock is not steered meanwhile.
    #[must_use]
    pub fn monotonic_at(&self, at: i64) -> i64 {
        self.host().shows_at(at).as_nanos()
    }

    /// Lets CPU `cpu` execute `body`.
    ///
    /// # Panics
    ///
    /// Panics with the payload of a callback's panic, if a callback panicked meanwhile.
    pub fn on<R>(&self, cpu: u32, body: impl FnOnce() -> R) -> R {
        self.execute(Some(cpu), body)
    }

    /// Lets a thread that has no CPU execute `body`.
    pub fn on_no_cpu<R>(&self, body: impl FnOnce() -> R) -> R {
        self.execute(None, body)
    }

    fn execute<R>(&self, cpu: Option<u32>, body: impl FnOnce() -> R) -> R {
        let outer = self.this_cpu();
        self.host().set_this_cpu(cpu);
        let result = body();
        self.host().set_this_cpu(outer);
        if let Some(payload) = self.host().take_panic() {
            surroundings::resume(payload);
        }
        result
    }

    /// Moves the true time on without delivering an interrupt, as code that runs for long does.
    pub fn spend(&self, nanos: i64) {
        assert!(nanos >= 0, "time does not run backwards");
        self.host().set_now(self.now() + nanos);
    }

    /// Takes the events since the last call.
    pub fn take_trace(&self) -> Vec<Event> {
        self.host().take_trace()
    }

    /// Returns the number of writes to the device of `cpu` since the CPU came online.
    #[must_use]
    pub fn device_writes(&self, cpu: u32) -> u64 {
        self.host().device_writes(cpu) - self.cpu(cpu).written.get()
    }

    /// Returns the true time at which the device of `cpu` will fire; `None` if it is not armed.
    #[must_use]
    pub fn fires_at(&self, cpu: u32) -> Option<i64> {
        self.host().fires_at(cpu)
    }

    /// Returns the number of readings of the counter so far.
    #[must_use]
    pub fn counter_readings(&self) -> u64 {
        self.host().counter_readings()
    }

    /// Returns the number of base locks that all CPUs have taken so far.
    #[must_use]
    pub fn lock_acquisitions(&self) -> u64 {
        self.host().lock_acquisitions()
    }

    /// Returns the time for which the base of `cpu` has programmed its device.
    #[must_use]
    pub fn armed(&self, cpu: u32) -> Instant {
        self.base(cpu).armed()
    }

    /// Returns the base of `cpu`.
    #[must_use]
    pub fn base(&self, cpu: u32) -> &CpuBase<H::Platform> {
        let base = self.timers().platform().base(CpuId(cpu));
        base.expect("every CPU has a base")
    }

    /// Returns true if another CPU kicked `cpu` and `cpu` has not begun to answer the kick.
    #[must_use]
    pub fn is_kicked(&self, cpu: u32) -> bool {
        self.host().is_kicked(cpu)
    }

    /// Returns true if the soft stage of `cpu` was raised and has not begun.
    #[must_use]
    pub fn is_soft_raised(&self, cpu: u32) -> bool {
        self.host().is_soft_raised(cpu)
    }

    /// Returns true if an interrupt of `cpu` left a rearm to a flush point that has not been reached yet.
    #[must_use]
    pub fn owes_rearm(&self, cpu: u32) -> bool {
        self.cpu(cpu).rearm_owed.get()
    }

    /// Returns the state of all CPUs as text (spec ).
    #[must_use]
    pub fn dump(&self) -> String {
        match &self.ticks {
            Some(_) => self.dump_with(self),
            None => self.dump_with(&Plain),
        }
    }

    /// Returns the text of [`dump`](Self::dump), with the additions of `host`.
    ///
    /// # Panics
    ///
    /// Panics if `host` fails.
    #[must_use]
    pub fn dump_with(&self, host: &impl DumpHost) -> String {
        let mut text = String::new();
        self.timers()
            .dump(host, &mut text)
            .expect("a string takes all");
        text
    }

    /// Returns the counts of the base of `cpu`.
    #[must_use]
    pub fn stats(&self, cpu: u32) -> Stats {
        self.timers().stats(CpuId(cpu))
    }

    /// Runs `hook` just before the `countdown + 1`-th base lock from now is taken.
    pub fn before_lock(&self, countdown: usize, hook: impl FnOnce() + 'static) {
        self.host().before_lock(countdown, Box::new(hook));
    }

    /// Returns true if timer delivery to `cpu` is masked.
    #[must_use]
    pub fn is_masked(&self, cpu: u32) -> bool {
        self.cpu(cpu).masked.get()
    }

    /// Masks or unmasks timer delivery to `cpu`. Unmasking delivers the interrupts that came meanwhile.
    pub fn set_masked(&self, cpu: u32, masked: bool) {
        self.cpu(cpu).masked.set(masked);
        if masked {
            return;
        }
        match &self.ticks {
            Some(_) => self.deliver(cpu),
            None => self.deliver_due(cpu),
        }
    }

    /// Sets whether `cpu` is isolated, and whether its tick is stopped.
    pub fn set_idleness(&self, cpu: u32, isolated: bool, tick_stopped: bool) {
        self.place(cpu, |placement| {
            placement.isolated = isolated;
            placement.tick_stopped = tick_stopped;
        });
    }

    /// Changes the conditions that decide where the timers of `cpu` are queued, and passes them to the host.
    pub(crate) fn place(&self, cpu: u32, change: impl FnOnce(&mut Placement)) {
        let mut placement = self.cpu(cpu).placement.get();
        change(&mut placement);
        self.cpu(cpu).placement.set(placement);
        self.host().set_placement(cpu, placement);
    }

    /// Sets the CPU that gets the unpinned timers of idle and isolated CPUs, as long as timers may move at all.
    pub fn set_busy(&self, cpu: Option<u32>) {
        self.host().set_busy(cpu);
    }

    /// Switches the moving of timers between CPUs on or off.
    pub fn set_migration(&self, enabled: bool) {
        self.host().set_migration(enabled);
    }

    /// Makes the device of `cpu` drop the next write.
    pub fn break_device(&self, cpu: u32) {
        self.host().break_device(cpu);
    }

    /// Makes the device of `cpu` refuse the next `count` relative writes, and lose its programmed event.
    pub fn refuse_writes(&self, cpu: u32, count: u32) {
        self.host().refuse_writes(cpu, count);
    }

    /// Lets another counter drive the time; the time does not jump.
    pub fn switch_counter(&self, source: Source) {
        self.host().switch_counter(source);
    }

    /// Runs the monotonic clock at another rate.
    pub fn steer(&self, parts_per_billion: i32) {
        self.host().steer(parts_per_billion);
    }

    /// Moves the base of the time record to now, as a tick does.
    pub fn advance_timekeeper(&self) {
        self.host().advance_timekeeper();
    }

    /// Sets the time of day so that it is `realtime` ahead of the monotonic clock, and notifies the timers from CPU
    /// `cpu`.
    pub fn set_wall(&self, cpu: u32, realtime: i64) {
        self.publish_wall(realtime);
        self.on(cpu, || self.timers().clock_was_set(ClockSet::WALL));
    }

    /// Sets the time of day without notifying the timers yet.
    pub fn publish_wall(&self, realtime: i64) {
        self.host().set_offsets(Offsets {
            realtime: Offset::from_nanos(realtime),
            boottime: self.host().offsets().boottime,
            tai: Offset::from_nanos(realtime.saturating_add(37_000_000_000)),
        });
    }

    /// Announces a leap second.
    pub fn set_next_leap(&self, when: Option<Instant>) {
        self.host().set_next_leap(when);
    }

    /// Suspends the host for `nanos`: the monotonic clock stands still, the other clocks go on, and every device loses
    /// its programmed event.
    pub fn suspend_for(&self, nanos: i64) {
        for cpu in 0..self.cpus() {
            self.on(cpu, || self.timers().suspend(CpuId(cpu)));
            self.cpu(cpu).rearm_owed.set(false);
        }
        let later = |offset: Offset| Offset::from_nanos(offset.as_nanos().saturating_add(nanos));
        let offsets = self.host().offsets();
        self.host().set_offsets(Offsets {
            realtime: later(offsets.realtime),
            boottime: later(offsets.boottime),
            tai: later(offsets.tai),
        });
        for cpu in 0..self.cpus() {
            self.on(cpu, || self.timers().resume(CpuId(cpu)));
        }
        self.on(0, || self.timers().clock_was_set(ClockSet::SLEEP));
    }

    /// Stops the device of `cpu`, as deep idle states do: the programmed event is lost.
    pub fn stop_device(&self, cpu: u32) {
        self.on(cpu, || self.timers().stop_device(CpuId(cpu)));
    }

    /// Switches the device of `cpu` on again, and programs it for the next time at which the CPU has to wake up.
    pub fn restart_device(&self, cpu: u32) {
        self.on(cpu, || {
            self.timers().switch_device_on(CpuId(cpu));
            self.timers().retrigger(CpuId(cpu));
        });
    }

    /// Takes `cpu` online.
    pub fn online(&self, cpu: u32) {
        self.on(cpu, || self.host().online(cpu, self.tick()));
        if self.ticks.is_some() {
            self.join(cpu);
        }
    }

    /// Takes `cpu` offline. The first CPU that is online takes over its coarse timers.
    ///
    /// # Panics
    ///
    /// Panics if `cpu` is the last CPU that is online.
    pub fn offline(&self, cpu: u32) {
        self.cpu(cpu).rearm_owed.set(false);
        self.on(cpu, || self.host().offline(cpu));
        let heir = self.first_online();
        let tick = self.tick();
        self.on(heir, || self.host().take_over_wheels(cpu, heir, tick));
    }

    pub(crate) fn first_online(&self) -> u32 {
        let online = (0..self.cpus()).find(|&cpu| self.base(cpu).is_online());
        online.expect("one CPU stays")
    }

    /// Checks every condition that must hold whenever no base is locked and no interrupt is under way (spec ),
    /// against the devices themselves.
    ///
    /// # Panics
    ///
    /// Panics if an invariant is broken.
    pub fn check(&self) {
        match &self.ticks {
            Some(_) => self.check_ticking(),
            None => self.check_bases(),
        }
    }

    pub(crate) fn check_bases(&self) {
        for cpu in 0..self.cpus() {
            self.timers().assert_valid(CpuId(cpu));
            self.assert_armed_for_the_first(cpu);
            assert_eq!(
                self.stats(cpu).missed_flushes,
                0,
                "FLUSH-6: an interrupt of CPU {cpu} found a rearm that an earlier one still owed"
            );
        }
    }

    /// Checks INV-1 against the device itself: the device fires when the first timer is due, or earlier.
    fn assert_armed_for_the_first(&self, cpu: u32) {
        let state = self.cpu(cpu);
        let is_under_way = state.rearm_owed.get() || state.depth.get() > 0 || self.is_kicked(cpu);
        if !self.base(cpu).is_online() || is_under_way {
            return;
        }
        if self.timers().is_backing_off(CpuId(cpu)) {
            return;
        }
        let first = self.timers().next_event(CpuId(cpu));
        if first.is_forever() {
            return;
        }
        let shows = self.fires_at(cpu).map(|at| self.monotonic_at(at));
        let due = first.as_nanos().max(self.monotonic().as_nanos());
        let latest = due.saturating_add(self.host().tolerance(cpu));
        assert!(
            shows.is_some_and(|shows| shows <= latest),
            "INV-1: the first timer of CPU {cpu} is due at {first:?}, but its device fires at {shows:?}"
        );
    }
}

/// Ticks that a suite lets the CPUs take, and the wheels that they drive.
impl<H: Host> Rig<H> {
    /// Returns the tick in progress.
    #[must_use]
    pub fn tick(&self) -> Tick {
        Tick((self.now() / TICK).unsigned_abs())
    }

    /// Lets time pass until `tick` begins. Every CPU that is online and whose tick is not stopped takes each tick, and
    /// runs its wheels if a timer is due.
    pub fn run_to_tick(&self, tick: Tick) {
        while self.tick() < tick {
            let next = i64::try_from(self.tick().0 + 1).expect("within the life of the rig") * TICK;
            if self.is_quiet_until(next) {
                self.host().set_now(next);
            } else {
                self.run_until(next);
            }
            for cpu in 0..self.cpus() {
                if !self.cpu(cpu).placement.get().tick_stopped && self.base(cpu).is_online() {
                    self.take_tick(cpu);
                }
            }
        }
    }

    /// Takes one tick of `cpu`: checks without a lock whether a wheel is due, and runs all wheels if so. Returns the
    /// number of timers that fired.
    pub fn take_tick(&self, cpu: u32) -> u32 {
        let now = self.tick();
        if !self.timers().wheel_is_due(CpuId(cpu), now) {
            return 0;
        }
        self.on(cpu, || {
            let run = |kind| self.run_wheel(CpuId(cpu), kind, now);
            WheelKind::ALL.into_iter().map(run).sum()
        })
    }

    /// Returns the next due tick of the local wheel of `cpu`, which the CPU reads before it sleeps.
    #[must_use]
    pub fn next_local(&self, cpu: u32) -> Option<u64> {
        let next = self.timers().wheel_next(CpuId(cpu), self.tick());
        next.local.map(|due| due.0)
    }

    /// Puts `cpu` to sleep until its first timer, however late that timer is due.
    ///
    /// # Panics
    ///
    /// Panics if `cpu` does not fall asleep.
    pub fn sleep(&self, cpu: u32) {
        self.set_idleness(cpu, false, true);
        let tick = self.tick();
        let sleeps = self.on(cpu, || {
            let timers = self.timers();
            timers.wheel_enter_idle(CpuId(cpu), tick, |_| true)
        });
        assert!(sleeps, "CPU {cpu} stays awake");
    }

    /// Ends the [sleep](Self::sleep) of `cpu`.
    pub fn wake(&self, cpu: u32) {
        self.set_idleness(cpu, false, false);
        self.on(cpu, || self.timers().wheel_leave_idle(CpuId(cpu)));
    }

    /// Lets `by` run the global wheel of `cpu`, as a migrator does for a sleeping CPU. Returns the number of timers
    /// that fired.
    pub fn run_remotely(&self, by: u32, cpu: u32) -> u32 {
        self.on(by, || {
            self.run_wheel(CpuId(cpu), WheelKind::Global, self.tick())
        })
    }

    /// Runs a wheel in as many passes as the budget requires.
    fn run_wheel(&self, cpu: CpuId, kind: WheelKind, now: Tick) -> u32 {
        let mut fired = 0;
        loop {
            let pass = self.timers().run_wheel(cpu, kind, now, Self::EXPIRY_BUDGET);
            fired += pass.fired;
            if pass.end != PassEnd::Budget {
                return fired;
            }
        }
    }

    fn is_quiet_until(&self, until: i64) -> bool {
        (0..self.cpus())
            .all(|cpu| !self.is_kicked(cpu) && self.fires_at(cpu).is_none_or(|at| at > until))
    }
}
