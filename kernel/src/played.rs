//! The machine as the conformance suites play it: its counter, its devices and its CPUs are numbers that a suite sets.
//!
//! In an image with the suites, the kernel's host and clock call this module in place of the machine. While no suite
//! runs, it passes each call on to the machine.
//!
//! # Ground rules
//!
//! One CPU executes the suites, and none of its interrupts reads the played machine.

use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tickless_conformance::{Capabilities, DeviceClass, Placement, Source};
use tickless_core::base::Timers;
use tickless_core::clock::Offsets;
use tickless_core::coarse::Tick;
use tickless_core::event::DeviceConfig;
use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::time::convert::{Cycles, Kilohertz};
use tickless_core::trace::Event;

use crate::arch::{self, Device};
use crate::clock::{Clock, OWN, SHARED};
use crate::host::{CPUS_MAX, Host, Local, Note, device as device_of};
use crate::lock::MaskingLock;
use crate::machine::add_base;

pub(crate) use crate::arch::{PAUSE_YIELDS, is_masked, mask, relax, restore, sleep_masked};

/// The number of a CPU that does not exist: its place in the table of bases stays empty.
const NO_CPU: usize = CPUS_MAX - 1;
/// Frequency of the counters: a count is a nanosecond.
const KILOHERTZ: Kilohertz = Kilohertz(1_000_000);
/// The nanoseconds that a write takes, after which the device can fire for it. If a write took no time, a deadline that
/// is converted a nanosecond early would be written again for ever (spec CPL-9).
const WRITE_TAKES: u64 = 20;
/// The fire time of a device that is not armed.
const NEVER: u64 = u64::MAX;

static IS_ON: Note = Note::new();
static CPU: AtomicUsize = AtomicUsize::new(NO_CPU);
static NOW: AtomicU64 = AtomicU64::new(0);
static READINGS: AtomicU64 = AtomicU64::new(0);
static FIRES: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(NEVER) }; CPUS_MAX];
static EVENTS: Lock<MaskingLock, Vec<Event>> = Lock::new(MaskingLock::new(), Vec::new());

/// Executes `suites`, which play the machine.
pub(crate) fn play<R>(suites: impl FnOnce() -> R) -> R {
    IS_ON.leave();
    let result = suites();
    IS_ON.set(false);
    result
}

/// Returns true while suites play the machine.
pub(crate) fn is_on() -> bool {
    IS_ON.is_there()
}

/// Keeps an event; false if no suite runs.
pub(crate) fn keep(event: Event) -> bool {
    let is_on = IS_ON.is_there();
    if is_on {
        EVENTS.lock(None).push(event);
    }
    is_on
}

// Relaxed, as all below: one CPU executes the suites.
fn played<T>(played: impl FnOnce() -> T, machine: impl FnOnce() -> T) -> T {
    if IS_ON.is_there() {
        played()
    } else {
        machine()
    }
}

/// See [`arch::cpu`].
pub(crate) fn cpu() -> usize {
    played(|| CPU.load(Ordering::Relaxed), arch::cpu)
}

/// See [`arch::counter`].
pub(crate) fn counter() -> u64 {
    let read = || {
        READINGS.fetch_add(1, Ordering::Relaxed);
        NOW.load(Ordering::Relaxed)
    };
    played(read, arch::counter)
}

/// See [`arch::kilohertz`].
pub(crate) fn kilohertz() -> Kilohertz {
    played(|| KILOHERTZ, arch::kilohertz)
}

/// See [`arch::shared_counter`].
pub(crate) fn shared_counter() -> u64 {
    played(counter, arch::shared_counter)
}

/// See [`arch::shared_kilohertz`].
pub(crate) fn shared_kilohertz() -> Kilohertz {
    played(|| KILOHERTZ, arch::shared_kilohertz)
}

/// See [`arch::is_coupled`].
pub(crate) fn is_coupled() -> bool {
    played(|| true, arch::is_coupled)
}

/// See [`arch::device`].
pub(crate) fn device(is_told_when: bool) -> Device {
    let device = || Device {
        hertz: 1_000_000_000,
        min: 1,
        max: 60_000_000_000,
    };
    played(device, || arch::device(is_told_when))
}

/// See [`arch::write_coupled`]: the device fires at once for a time that is over.
pub(crate) fn write_coupled(cycles: u64) {
    let write = || {
        if cycles == NEVER {
            return FIRES[cpu()].store(NEVER, Ordering::Relaxed);
        }
        let done = NOW.load(Ordering::Relaxed) + WRITE_TAKES;
        FIRES[cpu()].store(cycles.max(done), Ordering::Relaxed);
    };
    played(write, || arch::write_coupled(cycles));
}

/// See [`arch::write_relative`].
pub(crate) fn write_relative(ticks: u64) {
    let write = || {
        let at = NOW.load(Ordering::Relaxed) + ticks.max(WRITE_TAKES);
        FIRES[cpu()].store(at, Ordering::Relaxed);
    };
    played(write, || arch::write_relative(ticks));
}

/// Makes the device of the executing CPU fire at an instant of the clock, as no device of a real machine does.
pub(crate) fn write_absolute(clock: &Clock, when: Instant) {
    let now = NOW.load(Ordering::Relaxed);
    let at = if when.is_forever() {
        NEVER
    } else {
        first_at(clock, now, when).max(now + WRITE_TAKES)
    };
    FIRES[cpu()].store(at, Ordering::Relaxed);
}

/// Returns the first true time from `now` on at which the clock shows `when` or more.
fn first_at(clock: &Clock, now: u64, when: Instant) -> u64 {
    if shown_at(clock, now) >= when {
        return now;
    }
    // The clock is steered by 0.05 % at most, so twice the distance is beyond the end.
    let ahead = when.saturating_since(shown_at(clock, now)).as_nanos();
    let (mut low, mut high) = (now, now.saturating_add(2 * ahead.min(1 << 61) + 1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if shown_at(clock, middle) >= when {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Predicts the reading of the clock at a true time.
fn shown_at(clock: &Clock, at: u64) -> Instant {
    clock.timekeeper().now(|| Cycles(at))
}

/// See [`arch::stop_device`].
pub(crate) fn stop_device() {
    played(
        || FIRES[cpu()].store(NEVER, Ordering::Relaxed),
        arch::stop_device,
    );
}

/// See [`arch::interrupt_cpu`]. A suite reads the requests to a CPU itself.
pub(crate) fn interrupt_cpu(cpu: usize) {
    played(|| (), || arch::interrupt_cpu(cpu));
}

/// The host of the kernel, on a machine that a suite plays.
pub(crate) struct Played {
    timers: Timers<Host>,
    /// The time at which the base of the clock's record was moved.
    advanced: Cell<u64>,
}

impl Played {
    fn local(&self, cpu: u32) -> &Local {
        self.timers.platform().local(cpu as usize)
    }
}

impl tickless_conformance::Host for Played {
    type Platform = Host;

    const NAME: &'static str = "the kernel";
    const HAS: Capabilities = Capabilities::CPUS
        .and(Capabilities::SOFT)
        .and(Capabilities::PATHS)
        .and(Capabilities::CLOCKS)
        .and(Capabilities::COUNTERS)
        .and(Capabilities::TRACE);
    const DEVICES: &'static [DeviceClass] = &[
        DeviceClass::Coupled,
        DeviceClass::Countdown,
        DeviceClass::Software,
    ];

    fn new(cpus: u32, class: DeviceClass) -> Self {
        CPU.store(NO_CPU, Ordering::Relaxed);
        NOW.store(0, Ordering::Relaxed);
        READINGS.store(0, Ordering::Relaxed);
        for fires in &FIRES[..cpus as usize] {
            fires.store(NEVER, Ordering::Relaxed);
        }
        EVENTS.lock(None).clear();
        let timers = Timers::new(Host::new(cpus));
        for _ in 0..cpus {
            let config = match class {
                DeviceClass::Software => DeviceConfig::software("played"),
                _ => device_of(class == DeviceClass::Countdown),
            };
            add_base(&timers, config);
        }
        Self {
            timers,
            advanced: Cell::new(0),
        }
    }

    fn timers(&self) -> &Timers<Host> {
        &self.timers
    }

    fn this_cpu(&self) -> Option<u32> {
        let cpu = CPU.load(Ordering::Relaxed);
        (cpu != NO_CPU).then_some(cpu as u32)
    }

    fn set_this_cpu(&self, cpu: Option<u32>) {
        let cpu = cpu.map_or(NO_CPU, |cpu| cpu as usize);
        CPU.store(cpu, Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        NOW.load(Ordering::Relaxed).cast_signed()
    }

    fn set_now(&self, now: i64) {
        // No CPU of the kernel lets more time pass before it looks at the clock.
        let clock = self.timers.platform().clock();
        let longest = (clock.max_idle().as_nanos() / 2).max(1);
        let now = now.cast_unsigned();
        while now - NOW.load(Ordering::Relaxed) > longest {
            NOW.fetch_add(longest, Ordering::Relaxed);
            clock.advance();
        }
        NOW.store(now, Ordering::Relaxed);
        let since = now - self.advanced.get();
        if since > longest {
            clock.advance();
            self.advanced.set(now);
        }
    }

    fn fires_at(&self, cpu: u32) -> Option<i64> {
        let at = FIRES[cpu as usize].load(Ordering::Relaxed);
        (at != NEVER).then(|| at.cast_signed())
    }

    fn set_fires_at(&self, cpu: u32, at: Option<i64>) {
        let at = at.map_or(NEVER, i64::cast_unsigned);
        FIRES[cpu as usize].store(at, Ordering::Relaxed);
    }

    fn is_kicked(&self, cpu: u32) -> bool {
        self.local(cpu).is_kicked.is_there()
    }

    fn take_kick(&self, cpu: u32) -> bool {
        self.local(cpu).is_kicked.take()
    }

    fn offline(&self, cpu: u32) {
        self.timers.cpu_offline(CpuId(cpu));
        // What was asked of it is lost with it.
        self.local(cpu).is_kicked.set(false);
        self.local(cpu).is_soft_raised.set(false);
    }

    fn take_over_wheels(&self, cpu: u32, _heir: u32, tick: Tick) {
        self.timers.wheel_offline(CpuId(cpu), tick);
    }

    fn tolerance(&self, _cpu: u32) -> i64 {
        // A count, and what a clock that is steered gains on the counter before the device is written again.
        2_000
    }

    fn shows_at(&self, at: i64) -> Instant {
        shown_at(self.timers.platform().clock(), at.cast_unsigned())
    }

    fn device_writes(&self, cpu: u32) -> u64 {
        self.local(cpu).device_writes.get()
    }

    fn is_soft_raised(&self, cpu: u32) -> bool {
        self.local(cpu).is_soft_raised.is_there()
    }

    fn take_soft_raised(&self, cpu: u32) -> bool {
        self.local(cpu).is_soft_raised.take()
    }

    fn take_trace(&self) -> Vec<Event> {
        core::mem::take(&mut EVENTS.lock(None))
    }

    fn set_placement(&self, cpu: u32, placement: Placement) {
        self.local(cpu).is_isolated.set(placement.isolated);
        self.local(cpu).is_tick_stopped.set(placement.tick_stopped);
    }

    fn offsets(&self) -> Offsets {
        let clock = self.timers.platform().clock();
        clock.keep(|keeper, _| keeper.offsets())
    }

    fn set_offsets(&self, offsets: Offsets) {
        let clock = self.timers.platform().clock();
        clock.keep(|keeper, timekeeper| keeper.set_offsets(timekeeper, offsets));
    }

    fn set_next_leap(&self, when: Option<Instant>) {
        let clock = self.timers.platform().clock();
        clock.keep(|keeper, timekeeper| keeper.set_next_leap(timekeeper, when));
    }

    fn switch_counter(&self, source: Source) {
        let id = match source {
            Source::Main => OWN,
            Source::Spare => SHARED,
        };
        let clock = self.timers.platform().clock();
        let _switched = clock.switch(id, core::iter::empty(), || ());
    }

    fn steer(&self, parts_per_billion: i32) {
        let reading = Cycles(counter());
        let clock = self.timers.platform().clock();
        clock.keep(|keeper, timekeeper| keeper.steer(timekeeper, reading, parts_per_billion));
    }

    fn advance_timekeeper(&self) {
        self.timers.platform().clock().advance();
    }

    fn counter_readings(&self) -> u64 {
        READINGS.load(Ordering::Relaxed)
    }
}
