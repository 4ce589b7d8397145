//! The interface through which the suites drive a host under test.
//!
//! The suites drive a host by hand. One thread executes everything: CPU 0, then CPU 1, then CPU 0 again, and time
//! passes when a suite says so. A host under test therefore has the [`Platform`] of the embedder with three things
//! exchanged: the answer of [`Port::this_cpu`], the counter behind [`Port::now`], and the register of each event
//! device. [`Host`] is the handle on these three. Everything else (locks, locality, kicks, soft stage, conversions) is
//! the embedder's own, and the suites test it.
//!
//! [`Port::this_cpu`]: tickless_core::Port::this_cpu
//! [`Port::now`]: tickless_core::Port::now

use core::any::Any;

use tickless_core::base::Timers;
use tickless_core::clock::Offsets;
use tickless_core::coarse::Tick;
use tickless_core::platform::{CpuId, Platform};
use tickless_core::time::Instant;
use tickless_core::trace::Event;

use crate::DeviceClass;
use crate::capability::Capabilities;
use crate::prelude::*;

/// The counter that drives the time of a host with two counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The counter with which coupled devices compare.
    Main,
    /// The counter with which no device compares.
    Spare,
}

/// The conditions of a CPU that decide on which CPU a started timer is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// True if the CPU is isolated.
    pub isolated: bool,
    /// True if the tick of the CPU is stopped.
    pub tick_stopped: bool,
    /// True if a reschedule is pending on the CPU.
    pub need_resched: bool,
}

/// A host under test.
///
/// Every host implements the methods up to [`take_kick`](Host::take_kick). Each later method belongs to one of the
/// [`Capabilities`]. A case that needs a capability which [`HAS`](Host::HAS) does not contain is skipped, so a host
/// without a capability need not implement the methods of that capability.
///
/// Times without a unit in their type are nanoseconds of true time, which starts at zero with the host.
pub trait Host: Sized + 'static {
    /// The embedder's implementation for the core.
    type Platform: Platform;

    /// The name of the host, for the messages about skipped cases.
    const NAME: &'static str;

    /// The capabilities of the host.
    const HAS: Capabilities;

    /// The kinds of event devices with which the host can be built. The first kind is the default.
    const DEVICES: &'static [DeviceClass] = &[DeviceClass::Software];

    /// Makes a host of `cpus` CPUs, all offline, at time zero. `class` is one of [`DEVICES`](Host::DEVICES).
    fn new(cpus: u32, class: DeviceClass) -> Self;

    /// Returns the timers of the host.
    fn timers(&self) -> &Timers<Self::Platform>;

    /// Returns the CPU that executes; `None` for a thread without a CPU.
    fn this_cpu(&self) -> Option<u32>;

    /// Makes `cpu` the CPU that executes, or a thread without a CPU.
    fn set_this_cpu(&self, cpu: Option<u32>);

    /// Returns the true time.
    fn now(&self) -> i64;

    /// Moves the true time on to `now`, without delivering an interrupt.
    fn set_now(&self, now: i64);

    /// Returns the true time at which the event device of `cpu` fires; `None` if it is not armed.
    fn fires_at(&self, cpu: u32) -> Option<i64>;

    /// Overwrites the time at which the event device of `cpu` fires. `None` stands for a device that has just fired.
    fn set_fires_at(&self, cpu: u32, at: Option<i64>);

    /// Returns true if `cpu` was kicked and has not begun to answer the kick.
    fn is_kicked(&self, cpu: u32) -> bool;

    /// Returns true if `cpu` was kicked and has not begun to answer the kick, and clears the kick.
    fn take_kick(&self, cpu: u32) -> bool;

    /// Takes `cpu` online.
    fn online(&self, cpu: u32, tick: Tick) {
        self.timers().wheel_online(CpuId(cpu), tick);
        self.timers().cpu_online(CpuId(cpu));
    }

    /// Takes `cpu` offline. `cpu` executes this call.
    fn offline(&self, cpu: u32) {
        self.timers().cpu_offline(CpuId(cpu));
    }

    /// Lets `heir` take over the coarse timers of `cpu`, which is offline. `heir` executes this call.
    fn take_over_wheels(&self, cpu: u32, heir: u32, tick: Tick) {
        let _ = heir;
        self.timers().wheel_offline(CpuId(cpu), tick);
    }

    /// Executes the host's own interrupt handler on `cpu` for everything that is due there, including the whole return
    /// path. Returns `false` for a host without such a handler; the rig then calls the entry points of the core in its
    /// place.
    fn interrupt(&self, cpu: u32) -> bool {
        let _ = cpu;
        false
    }

    /// Takes the panic of a callback, if [`Platform::call`] caught one.
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Returns the nanoseconds by which the event device of `cpu` may fire later than programmed.
    fn tolerance(&self, cpu: u32) -> i64 {
        let _ = cpu;
        0
    }

    /// Predicts the monotonic clock at the true time `at`, if the clock is not steered meanwhile.
    fn shows_at(&self, at: i64) -> Instant {
        Instant::from_nanos(at)
    }

    /// Returns the number of writes to the event device of `cpu` so far.
    fn device_writes(&self, cpu: u32) -> u64 {
        self.timers().stats(CpuId(cpu)).device_writes
    }

    /// Returns true if the soft stage of `cpu` was raised and has not begun ([`Capabilities::SOFT`]).
    fn is_soft_raised(&self, cpu: u32) -> bool {
        let _ = cpu;
        false
    }

    /// Returns true if the soft stage of `cpu` was raised and has not begun, and forgets the raise
    /// ([`Capabilities::SOFT`]).
    fn take_soft_raised(&self, cpu: u32) -> bool {
        let _ = cpu;
        false
    }

    /// Takes the events that the platform traced since the last call ([`Capabilities::TRACE`]).
    fn take_trace(&self) -> Vec<Event> {
        Vec::new()
    }

    /// Sets the conditions that decide where the timers of `cpu` are queued ([`Capabilities::PLACEMENT`]).
    fn set_placement(&self, cpu: u32, placement: Placement) {
        let _ = (cpu, placement);
    }

    /// Sets the CPU that gets the unpinned timers of idle and isolated CPUs ([`Capabilities::PLACEMENT`]).
    fn set_busy(&self, cpu: Option<u32>) {
        let _ = cpu;
    }

    /// Switches the moving of timers between CPUs on or off ([`Capabilities::PLACEMENT`]).
    fn set_migration(&self, enabled: bool) {
        let _ = enabled;
    }

    /// Returns the number of base locks that all CPUs have taken so far ([`Capabilities::LOCKS`]).
    fn lock_acquisitions(&self) -> u64 {
        0
    }

    /// Runs `hook` just before the `countdown + 1`-th base lock from now is taken ([`Capabilities::LOCKS`]).
    fn before_lock(&self, countdown: usize, hook: Box<dyn FnOnce()>) {
        let _ = (countdown, hook);
    }

    /// Returns the offsets of the other clocks from the monotonic clock ([`Capabilities::CLOCKS`]).
    fn offsets(&self) -> Offsets {
        Offsets::default()
    }

    /// Sets the other clocks, without notifying the timers ([`Capabilities::CLOCKS`]).
    fn set_offsets(&self, offsets: Offsets) {
        let _ = offsets;
    }

    /// Announces a leap second ([`Capabilities::CLOCKS`]).
    fn set_next_leap(&self, when: Option<Instant>) {
        let _ = when;
    }

    /// Lets another counter drive the time; the time does not jump ([`Capabilities::COUNTERS`]).
    fn switch_counter(&self, source: Source) {
        let _ = source;
    }

    /// Runs the monotonic clock at another rate ([`Capabilities::COUNTERS`]).
    fn steer(&self, parts_per_billion: i32) {
        let _ = parts_per_billion;
    }

    /// Moves the base of the time record to now, as a tick does ([`Capabilities::COUNTERS`]).
    fn advance_timekeeper(&self) {}

    /// Returns the number of readings of the counter so far ([`Capabilities::COUNTERS`]).
    fn counter_readings(&self) -> u64 {
        0
    }

    /// Makes the event device of `cpu` drop the next write ([`Capabilities::DEVICES`]).
    fn break_device(&self, cpu: u32) {
        let _ = cpu;
    }

    /// Makes the event device of `cpu` refuse the next `count` relative writes, and lose its programmed event
    /// ([`Capabilities::DEVICES`]).
    fn refuse_writes(&self, cpu: u32, count: u32) {
        let _ = (cpu, count);
    }
}
