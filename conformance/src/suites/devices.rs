//! Cases about every kind of clock event device under the timers (spec ).

use tickless_core::time::Boottime;

use crate::prelude::*;
use crate::suite::{at, at_on};
use crate::{DeviceClass, Host, Rig, TestTimer};

const SEC: i64 = 1_000_000_000;

/// a deadline is met on every class of device, as exactly as the class can.
pub fn every_class_is_on_time<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timers: Vec<_> = (0..5).map(|_| TestTimer::once(&rig)).collect();
        rig.on(0, || {
            for (timer, deadline) in timers.iter().zip([10_000, 5_000, 90_000, 20_000, 7_000]) {
                timer.start(at(deadline));
            }
        });
        rig.run_until(100_000);
        let fired: Vec<_> = timers.iter().map(|timer| timer.fired_at()[0]).collect();
        assert_eq!(fired, [10_000, 5_000, 90_000, 20_000, 7_000], "{class:?}");
        assert_eq!(rig.stats(0).spurious, 0, "{class:?}");
    }
}

/// DEV-6, CPL-6: an overdue timer fires as soon as the class of device can fire.
pub fn what_is_over_fires_as_soon_as_possible<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        rig.spend(50_000);
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(at(100)));
        rig.run_until(60_000);
        let fired = timer.fired_at()[0];
        assert!((50_000..=51_000).contains(&fired), "{class:?} at {fired}");
        assert_eq!(rig.stats(0).interrupts, 1, "{class:?}");
    }
}

/// INV-1: an event beyond the range of the device is reached in steps: each step is early, and the last one is exact.
pub fn an_event_beyond_the_range_is_reached_in_steps<H: Host>() {
    for class in [
        DeviceClass::Countdown,
        DeviceClass::Equality,
        DeviceClass::LessOrEqual,
    ] {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(at(200 * SEC)));
        assert!(rig.fires_at(0).is_some_and(|at| at <= 60 * SEC));
        assert_eq!(rig.armed(0).as_nanos(), 200 * SEC, "INV-4: before clamping");
        for second in (0..=200).step_by(10) {
            rig.run_until(second * SEC);
            rig.advance_timekeeper();
        }
        assert_eq!(timer.fired_at(), [200 * SEC], "{class:?}");
        let spurious = rig.stats(0).spurious;
        assert!(
            (3..=4).contains(&spurious),
            "A6: one for each step, {spurious}"
        );
    }
}

/// DEV-9, B11: a caller that starts an overdue timer again and again does not postpone the interrupt.
pub fn b11_starting_what_is_over_again_and_again_does_not_starve_the_interrupt<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        rig.spend(100_000);
        let timer = TestTimer::once(&rig);
        let bystander = TestTimer::once(&rig);
        rig.on(0, || bystander.start(at(101_000)));
        for round in 0..500 {
            // Each one earlier than the one before, so that none is skipped as equal.
            rig.on(0, || timer.start(at(50_000 - round)));
            rig.spend(30);
            rig.deliver_all();
        }
        assert!(!timer.fired_at().is_empty(), "{class:?}");
        assert_eq!(bystander.fired_at().len(), 1, "{class:?}");
    }
}

/// Makes a rig whose device counts down its minimum delay for an expired timer, at 100000.
fn forced<H: Host>() -> (Rig<H>, TestTimer<H>) {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
    rig.spend(100_000);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(5)));
    assert_eq!(rig.fires_at(0), Some(101_000));
    assert!(rig.dump().contains("programmed:     forced minimum"));
    (rig, timer)
}

fn fires_again<H: Host>(rig: &Rig<H>) {
    let timer = TestTimer::once(rig);
    let now = rig.now();
    rig.on(0, || timer.start(at(7)));
    rig.check();
    assert_eq!(rig.fires_at(0), Some(now + 1_000));
    rig.run_until(now + 2_000);
    assert_eq!(timer.fired_at(), [now + 1_000]);
}

/// B12: the interrupt ends a forced minimum, so that the next forced minimum can begin in the interrupt.
pub fn b12_an_interrupt_ends_a_forced_minimum<H: Host>() {
    let (rig, timer) = forced::<H>();
    let close = TestTimer::once(&rig);
    rig.on(0, || close.start(at(101_500)));
    rig.run_until(101_000);
    assert_eq!(timer.fired_at(), [101_000]);
    assert_eq!(rig.fires_at(0), Some(102_000));
    rig.run_until(102_000);
    assert_eq!(close.fired_at(), [102_000]);
    fires_again(&rig);
}

/// B12: programming the device normally ends a forced minimum.
pub fn b12_a_normal_programming_ends_a_forced_minimum<H: Host>() {
    let (rig, timer) = forced::<H>();
    rig.on(0, || timer.start(at(900_000)));
    assert_eq!(rig.fires_at(0), Some(900_000));
    assert!(rig.dump().contains("programmed:     normal"));
    fires_again(&rig);
}

/// B12: stopping the device ends a forced minimum.
pub fn b12_a_change_of_state_ends_a_forced_minimum<H: Host>() {
    let (rig, timer) = forced::<H>();
    rig.on(0, || assert!(timer.cancel()));
    assert_eq!(rig.fires_at(0), None);
    fires_again(&rig);
}

/// B12: a device that lost its programmed event because its CPU went offline has no forced minimum pending.
pub fn b12_going_offline_ends_a_forced_minimum<H: Host>() {
    let rig = Rig::<H>::with_devices(2, DeviceClass::Countdown);
    rig.spend(100_000);
    let timer = TestTimer::once(&rig);
    rig.on(1, || timer.start(at(5)));
    rig.offline(1);
    rig.online(1);
    rig.deliver_all();
    rig.on(1, || timer.start(at(3).pinned()));
    assert_eq!(rig.fires_at(1), Some(101_000));
    rig.run_until(200_000);
    assert_eq!(timer.fired_at().len(), 1);
}

/// B12, spec C-7.6: a device that stopped in a deep idle state has no forced minimum pending when it goes on.
pub fn b12_stopping_in_deep_idle_ends_a_forced_minimum<H: Host>() {
    let (rig, timer) = forced::<H>();
    rig.stop_device(0);
    // The CPU comes back for another reason, before the minimum would have ended.
    rig.spend(300);
    rig.restart_device(0);
    rig.check();
    rig.run_until(200_000);
    assert_eq!(timer.fired_at(), [101_300]);
    fires_again(&rig);
}

/// The contract of the driver: after a refused write the device will not fire, not even for an earlier event.
pub fn a_refused_write_ends_a_forced_minimum<H: Host>() {
    let (rig, timer) = forced::<H>();
    let second = TestTimer::once(&rig);
    rig.refuse_writes(0, 1);
    rig.on(0, || {
        second.start(at(150_000));
        // Re-evaluates for the second; that write is refused.
        assert!(timer.cancel());
    });
    rig.check();
    rig.run_until(200_000);
    assert_eq!(second.fired_at().len(), 1);
}

/// B13: an equality comparator whose counter has already reached the target has missed the target, and reports this.
pub fn b13_an_equality_comparator_that_is_at_its_target_has_missed_it<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Equality);
    let timer = TestTimer::once(&rig);
    rig.break_device(0);
    rig.on(0, || timer.start(at(5_000)));
    rig.check();
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// B27: a device that refuses every write is given up without a loop, and the next start tries it again.
pub fn b27_a_device_that_refuses_everything_is_tried_again_later<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
    let mono = TestTimer::once(&rig);
    let boot = TestTimer::<H, Boottime>::once_on(&rig);
    rig.refuse_writes(0, 1_000);
    rig.on(0, || mono.start(at(5_000)));
    assert_eq!(rig.fires_at(0), None);
    assert!(rig.armed(0).is_forever(), "nothing counts as armed");
    rig.refuse_writes(0, 0);
    // Later than the other one, and yet written, because nothing is armed.
    rig.on(0, || boot.start(at_on(9_000_000)));
    assert_eq!(rig.fires_at(0), Some(9_000_000));
    rig.run_until(20_000_000);
    assert_eq!(mono.fired_at(), [9_000_000]);
    assert_eq!(boot.fired_at(), [9_000_000]);
}

/// DEV-7: a device that refuses short delays makes the minimum delay grow, and the timer is late by the difference.
pub fn a_minimum_that_is_refused_grows<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
    rig.spend(50_000);
    let timer = TestTimer::once(&rig);
    // The direct attempt, three at 1 µs, three at 5 µs; then 7.5 µs is accepted.
    rig.refuse_writes(0, 7);
    rig.on(0, || timer.start(at(1)));
    assert_eq!(rig.fires_at(0), Some(57_500));
    rig.run_until(60_000);
    assert_eq!(timer.fired_at(), [57_500]);
    assert!(rig.dump().contains("retries:        6"));
}

/// DEV-5: after the device fired, its record says that no event is requested.
pub fn a_device_that_fired_has_no_event<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    assert!(rig.dump().contains("next_event:     1000 nsecs"));
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    let none = format!("next_event:     {} nsecs", i64::MAX);
    assert!(rig.dump().contains(&none));
    rig.leave_interrupt(0);
    let stopped = "mode:           4\n";
    assert!(rig.dump().contains(stopped), "{}", rig.dump());
}

crate::kit::cases!(devices:
    every_class_is_on_time [DEVICES],
    what_is_over_fires_as_soon_as_possible [DEVICES],
    an_event_beyond_the_range_is_reached_in_steps [COUNTERS, DEVICES],
    b11_starting_what_is_over_again_and_again_does_not_starve_the_interrupt [DEVICES],
    b12_an_interrupt_ends_a_forced_minimum [DEVICES],
    b12_a_normal_programming_ends_a_forced_minimum [DEVICES],
    b12_a_change_of_state_ends_a_forced_minimum [DEVICES],
    b12_going_offline_ends_a_forced_minimum [CPUS, DEVICES],
    b12_stopping_in_deep_idle_ends_a_forced_minimum [DEVICES],
    a_refused_write_ends_a_forced_minimum [DEVICES],
    b13_an_equality_comparator_that_is_at_its_target_has_missed_it [DEVICES],
    b27_a_device_that_refuses_everything_is_tried_again_later [CLOCKS, DEVICES],
    a_minimum_that_is_refused_grows [DEVICES],
    a_device_that_fired_has_no_event [PATHS],
);
