//! The machine sleeps and wakes up (spec 1.7).

use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, Realtime, Span};
use tickless_rig::suite::{at, at_on};
use tickless_rig::{Config, DeviceClass, Machine, TestTimer, all_configs};

const WALL: i64 = 1_700_000_000_000_000_000;
const SEC: i64 = 1_000_000_000;

/// TIM-38: the monotonic clock stands still, the others do not, and what became due meanwhile fires on waking up.
fn clocks_that_count_sleep_fire_on_waking_up<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let mono = TestTimer::once(&machine);
    let boot = TestTimer::<C, Boottime>::once_on(&machine);
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let later = TestTimer::<C, Boottime>::once_on(&machine);
    machine.on(0, || mono.start(at(5_000)));
    machine.on(1, || {
        boot.start(at_on(SEC));
        real.start(at_on(WALL + 2 * SEC));
        later.start(at_on(10 * SEC + 8_000));
    });
    machine.suspend_for(10 * SEC);
    machine.deliver_all();
    machine.run_until(100);
    assert_eq!(boot.fired_at().len(), 1);
    assert_eq!(real.fired_at().len(), 1);
    assert!(boot.fired_at()[0] >= 10 * SEC && mono.fired_at().is_empty());
    machine.run_until(9_000);
    assert_eq!(mono.fired_at(), [5_000]);
    assert_eq!(later.fired_at(), [10 * SEC + 8_000]);
}

/// TIM-41: a device that lost its programming is written again, although the next event is the same.
fn the_device_is_written_again_on_waking_up<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::once(&machine);
        machine.on(0, || timer.start(at(50_000)));
        machine.suspend_for(SEC);
        assert_eq!(machine.fires_at(0), Some(50_000), "{class:?}");
        machine.run_until(90_000);
        assert_eq!(timer.fired_at(), [50_000], "{class:?}");
    }
}

/// TIM-41: a minimum delay that was under way is not waited for.
fn a_forced_minimum_is_written_again_on_waking_up<C: Config>() {
    let machine = Machine::<C>::with_devices(1, DeviceClass::Countdown);
    machine.spend(10_000);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(1)));
    machine.suspend_for(SEC);
    assert_eq!(machine.fires_at(0), Some(11_000));
    machine.run_until(20_000);
    assert_eq!(timer.fired_at(), [11_000]);
}

/// TIM-41: a start while the devices are off is armed on waking up.
fn a_start_while_the_devices_are_off_is_armed_on_waking_up<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.on(0, || machine.timers().suspend(CpuId(0)));
    assert!(machine.armed(0).is_forever());
    machine.on(0, || timer.start(at(5_000)));
    assert_eq!(machine.fires_at(0), None);
    machine.on(0, || machine.timers().resume(CpuId(0)));
    assert_eq!(machine.fires_at(0), Some(5_000));
    machine.check();
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// TIM-41: neither laziness nor a hang survives the sleep.
fn laziness_and_hangs_end_with_the_sleep<C: Config>() {
    let machine = Machine::<C>::new(1);
    let lazy = TestTimer::with_setup(&machine, Setup::new().lazy(), |_| Restart::No);
    machine.on(0, || {
        lazy.start(at(1_000));
        lazy.start(at(50_000));
    });
    assert_eq!(machine.fires_at(0), Some(1_000));
    machine.suspend_for(SEC);
    assert_eq!(machine.fires_at(0), Some(50_000));

    let busy = machine.clone();
    let slow = TestTimer::new(&machine, move |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        busy.spend(5_000);
        Restart::Yes
    });
    machine.on(0, || slow.start(at(60_000)));
    machine.run_until(60_000);
    assert!(machine.timers().is_backing_off(CpuId(0)));
    machine.on(0, || slow.cancel());
    machine.suspend_for(SEC);
    assert!(!machine.timers().is_backing_off(CpuId(0)));
    let timer = TestTimer::once(&machine);
    let soon = machine.now() + 500;
    machine.on(0, || timer.start(at(soon)));
    assert_eq!(machine.fires_at(0), Some(soon));
}

/// A CPU that does not exist neither sleeps nor wakes up.
fn unknown_cpus_are_ignored<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.timers().suspend(CpuId(7));
    machine.timers().resume(CpuId(7));
    machine.timers().retrigger(CpuId(7));
    machine.timers().cpu_online(CpuId(7));
    machine.timers().cpu_offline(CpuId(7));
    machine.check();
}

all_configs!(
    clocks_that_count_sleep_fire_on_waking_up,
    the_device_is_written_again_on_waking_up,
    a_forced_minimum_is_written_again_on_waking_up,
    a_start_while_the_devices_are_off_is_armed_on_waking_up,
    laziness_and_hangs_end_with_the_sleep,
    unknown_cpus_are_ignored,
);
