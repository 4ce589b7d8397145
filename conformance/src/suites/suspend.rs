//! Cases about a host that suspends and wakes up (spec ).

use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, Realtime, Span};

use crate::suite::{at, at_on};
use crate::{DeviceClass, Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;
const SEC: i64 = 1_000_000_000;

/// TIM-38: the monotonic clock stands still during a suspend, the other clocks go on, and timers that became due
/// meanwhile fire when the host wakes up.
pub fn clocks_that_count_sleep_fire_on_waking_up<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, WALL);
    let mono = TestTimer::once(&rig);
    let boot = TestTimer::<H, Boottime>::once_on(&rig);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let later = TestTimer::<H, Boottime>::once_on(&rig);
    rig.on(0, || mono.start(at(5_000)));
    rig.on(1, || {
        boot.start(at_on(SEC));
        real.start(at_on(WALL + 2 * SEC));
        later.start(at_on(10 * SEC + 8_000));
    });
    rig.suspend_for(10 * SEC);
    rig.deliver_all();
    rig.run_until(100);
    assert_eq!(boot.fired_at().len(), 1);
    assert_eq!(real.fired_at().len(), 1);
    assert!(boot.fired_at()[0] >= 10 * SEC && mono.fired_at().is_empty());
    rig.run_until(9_000);
    assert_eq!(mono.fired_at(), [5_000]);
    assert_eq!(later.fired_at(), [10 * SEC + 8_000]);
}

/// TIM-41: a device that lost its programmed event is written again, even if the next event is the same.
pub fn the_device_is_written_again_on_waking_up<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(at(50_000)));
        rig.suspend_for(SEC);
        assert_eq!(rig.fires_at(0), Some(50_000), "{class:?}");
        rig.run_until(90_000);
        assert_eq!(timer.fired_at(), [50_000], "{class:?}");
    }
}

/// TIM-41: a minimum delay that was pending before the suspend is not waited for.
pub fn a_forced_minimum_is_written_again_on_waking_up<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
    rig.spend(10_000);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1)));
    rig.suspend_for(SEC);
    assert_eq!(rig.fires_at(0), Some(11_000));
    rig.run_until(20_000);
    assert_eq!(timer.fired_at(), [11_000]);
}

/// TIM-41: a timer that is started while the devices are off is armed when the host wakes up.
pub fn a_start_while_the_devices_are_off_is_armed_on_waking_up<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || rig.timers().suspend(CpuId(0)));
    assert!(rig.armed(0).is_forever());
    rig.on(0, || timer.start(at(5_000)));
    assert_eq!(rig.fires_at(0), None);
    rig.on(0, || rig.timers().resume(CpuId(0)));
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.check();
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// TIM-41: neither laziness nor a hang survives the suspend.
pub fn laziness_and_hangs_end_with_the_sleep<H: Host>() {
    let rig = Rig::<H>::new(1);
    let lazy = TestTimer::with_setup(&rig, Setup::new().lazy(), |_| Restart::No);
    rig.on(0, || {
        lazy.start(at(1_000));
        lazy.start(at(50_000));
    });
    assert_eq!(rig.fires_at(0), Some(1_000));
    rig.suspend_for(SEC);
    assert_eq!(rig.fires_at(0), Some(50_000));

    let busy = rig.clone();
    let slow = TestTimer::new(&rig, move |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        busy.spend(5_000);
        Restart::Yes
    });
    rig.on(0, || slow.start(at(60_000)));
    rig.run_until(60_000);
    assert!(rig.timers().is_backing_off(CpuId(0)));
    rig.on(0, || slow.cancel());
    rig.suspend_for(SEC);
    assert!(!rig.timers().is_backing_off(CpuId(0)));
    let timer = TestTimer::once(&rig);
    let soon = rig.now() + 500;
    rig.on(0, || timer.start(at(soon)));
    assert_eq!(rig.fires_at(0), Some(soon));
}

/// A CPU that does not exist neither suspends nor wakes up.
pub fn unknown_cpus_are_ignored<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.timers().suspend(CpuId(7));
    rig.timers().resume(CpuId(7));
    rig.timers().retrigger(CpuId(7));
    rig.timers().cpu_online(CpuId(7));
    rig.timers().cpu_offline(CpuId(7));
    rig.check();
}

crate::kit::cases!(suspend:
    clocks_that_count_sleep_fire_on_waking_up [CPUS, CLOCKS],
    the_device_is_written_again_on_waking_up [CLOCKS, DEVICES],
    a_forced_minimum_is_written_again_on_waking_up [CLOCKS, DEVICES],
    a_start_while_the_devices_are_off_is_armed_on_waking_up,
    laziness_and_hangs_end_with_the_sleep [CLOCKS],
    unknown_cpus_are_ignored,
);
