//! The kernel's host on a machine that a conformance suite [plays](crate::played).

use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering;

use tickless_conformance::{Capabilities, DeviceClass, Placement, Source};
use tickless_core::base::Timers;
use tickless_core::clock::Offsets;
use tickless_core::coarse::Tick;
use tickless_core::event::DeviceConfig;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::time::convert::Cycles;
use tickless_core::trace::Event;

use crate::clock::{OWN, SHARED};
use crate::host::{Host, Local, device as device_of};
use crate::machine::add_base;
use crate::played::{CPU, EVENTS, FIRES, NEVER, NO_CPU, NOW, READINGS, counter};

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
        self.timers
            .platform()
            .clock()
            .timekeeper()
            .now(|| Cycles(at.cast_unsigned()))
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
