//! Idle: the CPU sleeps until an interrupt comes, with its tick stopped, and loses no wake-up.
//!
//! A CPU checks every reason to stay awake with interrupts masked, and sleeps by an instruction that ends when an
//! interrupt is *pending*, masked or not. So an interrupt that comes between the check and the sleep is taken right
//! after the sleep.

use tickless_core::tick::{Context, TickDependencies};
use tickless_core::time::Instant;

use crate::arch;
use crate::machine::{Machine, machine};
use crate::soft;

/// Sleeps until `is_over` returns true. The CPU calls `is_over` with interrupts masked, before each sleep. A CPU that
/// makes the condition true interrupts this one afterwards.
pub(crate) fn until(mut is_over: impl FnMut() -> bool) {
    let machine = machine();
    let before = arch::mask();
    while !is_over() {
        sleep(machine);
    }
    leave(machine);
    arch::restore(before);
}

/// Sleeps until `when`, as the task of the executing CPU, whose other timers still fire.
pub(crate) fn until_time(when: Instant) {
    until_time_or(when, &|| false);
}

/// Sleeps until `when`, or until another CPU made `is_ended` true and interrupted this one.
pub(crate) fn until_time_or(when: Instant, is_ended: &dyn Fn() -> bool) {
    use core::pin::pin;
    use core::sync::atomic::{AtomicBool, Ordering};
    use tickless_core::hrtimer::{HrTimer, Restart, Start};

    let machine = machine();
    let is_over: &'static AtomicBool = alloc::boxed::Box::leak(alloc::boxed::Box::default());
    let timer = pin!(HrTimer::new(move |_| {
        // Relaxed: the CPU that looks is the one that executes this.
        is_over.store(true, Ordering::Relaxed);
        Restart::No
    }));
    let timer = timer.as_ref();
    let _started = timer.start(machine.timers, Start::at(when).pinned());
    until(|| is_over.load(Ordering::Relaxed) || is_ended());
    timer.cancel(machine.timers);
}

/// Sleeps and executes the jobs of other CPUs, for ever.
pub(crate) fn forever() -> ! {
    let machine = machine();
    arch::mask();
    loop {
        if let Some(job) = machine.take_job() {
            leave(machine);
            arch::unmask();
            job();
            arch::mask();
            machine.host().here().jobs.add(1);
            arch::interrupt_cpu(0);
        } else {
            sleep(machine);
        }
    }
}

/// Sleeps until the next interrupt. Called masked, and returns masked.
fn sleep(machine: &Machine) {
    let local = machine.host().here();
    if soft::is_due(local) {
        soft::stage(machine, local);
        return;
    }
    if local.must_leave_idle.take() {
        // Another CPU was to wake up for the tree and goes: this one takes over what is known when it idles again.
        leave(machine);
    }
    let is_stopped = machine.with_tick(|nohz, tick, timer| {
        if tick.context() == Context::Offline {
            return false;
        }
        nohz.enter_idle(tick);
        let forecast = nohz.forecast(tick, TickDependencies::default());
        let _kept = nohz.stop(tick, timer, forecast);
        tick.is_stopped()
    });
    local.is_tick_stopped.set(is_stopped);
    let _armed = machine.timers.settle_armed(machine.here());
    local.sleeps.add(1);
    #[cfg(target_arch = "x86_64")]
    crate::deep::enter(machine);
    local.is_idle.set(true);
    arch::wait();
    local.is_idle.set(false);
}

/// Leaves idle: the CPU has work, and its tick continues.
fn leave(machine: &Machine) {
    let local = machine.host().here();
    let now = machine.now();
    machine.with_tick(|nohz, tick, timer| {
        if tick.context() == Context::Idle {
            let conditions = TickDependencies {
                reschedule: true,
                ..TickDependencies::default()
            };
            let _kept = nohz.run_task(tick, timer, conditions, now);
        }
    });
    local.is_tick_stopped.set(false);
}
