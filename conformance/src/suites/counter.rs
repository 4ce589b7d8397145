//! Tests of devices that are coupled to the counter that drives the time, and of a change of that counter (spec,
//!

use tickless_core::hrtimer::Restart;
use tickless_core::time::Span;

use crate::prelude::*;
use crate::suite::at;
use crate::{DeviceClass, Host, Rig, Source, TestTimer};

const SEC: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SEC;

fn readings_of_a_start<H: Host>(rig: &Rig<H>, timer: &TestTimer<H>, when: i64) -> u64 {
    let before = rig.counter_readings();
    rig.on(0, || timer.start(at(when)));
    rig.counter_readings() - before
}

/// CPL-4, CPL-7, A2: while another counter drives the time, the coupled device is written relatively. When its
/// own counter drives the time again, the device is written by value again.
pub fn another_counter_uncouples_the_device<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.spend(10_000);
    assert_eq!(readings_of_a_start(&rig, &timer, 50_000), 0);
    rig.switch_counter(Source::Spare);
    assert_eq!(readings_of_a_start(&rig, &timer, 40_000), 1);
    assert_eq!(rig.fires_at(0), Some(40_000));
    rig.run_until(20_000);
    rig.switch_counter(Source::Main);
    assert_eq!(readings_of_a_start(&rig, &timer, 45_000), 0);
    rig.run_until(60_000);
    assert_eq!(timer.fired_at(), [45_000]);
}

/// an event that was programmed before the switch is on time.
pub fn a_switch_disturbs_nothing_that_is_armed<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::new(&rig, |expired| {
            expired.forward_now(Span::from_nanos(10_000));
            Restart::Yes
        });
        rig.on(0, || timer.start(at(10_000)));
        let mut source = [Source::Spare, Source::Main].into_iter().cycle();
        for step in 1..20 {
            let before = rig.monotonic();
            rig.switch_counter(source.next().expect("for ever"));
            assert_eq!(rig.monotonic(), before, "time does not jump");
            rig.run_until(step * 5_000);
        }
        assert_eq!(
            timer.fired_at(),
            (1..10).map(|n| n * 10_000).collect::<Vec<_>>()
        );
    }
}

/// CPL-3, B1: the range of a counter that was just installed is not zero, although its factors equal those of the
/// previous counter.
pub fn b1_a_counter_that_was_just_installed_has_a_range<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.switch_counter(Source::Main);
    rig.on(0, || timer.start(at(SEC)));
    assert_eq!(rig.fires_at(0), Some(SEC));
    rig.run_until(2 * SEC);
    assert_eq!(timer.fired_at(), [SEC]);
    assert_eq!(rig.stats(0).interrupts, 1);
}

/// TIM-28, change 18: the conversion follows the steering, so a deadline a second ahead is met to a microsecond at 500
/// ppm. A device with factors of its own is half a millisecond off and has to be programmed again.
pub fn a_coupled_device_follows_the_steering<H: Host>() {
    for parts_per_billion in [500_000, -500_000] {
        let rig = Rig::<H>::new(1);
        rig.steer(parts_per_billion);
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(at(SEC)));
        let shows = rig.monotonic_at(rig.fires_at(0).expect("armed"));
        assert!((SEC - 1_000..=SEC + 1_000).contains(&shows), "{shows}");
        rig.run_until(2 * SEC);
        let fired = timer.fired_at()[0];
        assert!(
            (SEC..=SEC + 1_000).contains(&fired),
            "A4, and on time: {fired}"
        );

        let rig = Rig::<H>::with_devices(1, DeviceClass::Countdown);
        rig.steer(parts_per_billion);
        let timer = TestTimer::once(&rig);
        rig.on(0, || timer.start(at(SEC)));
        let shows = rig.monotonic_at(rig.fires_at(0).expect("armed"));
        assert!((shows - SEC).abs() > 400_000, "{shows}");
        rig.run_until(2 * SEC);
        assert!(timer.fired_at()[0] >= SEC, "A4");
    }
}

/// A4: no timer is early, however the clock is steered while the device is armed.
pub fn steering_makes_no_timer_early<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(1, class);
        let timer = TestTimer::once(&rig);
        let mut when = 0;
        for (step, parts_per_billion) in
            (1..30).zip([500_000, -500_000, 0, 123_457].into_iter().cycle())
        {
            when = rig.monotonic().as_nanos() + step * 37_000;
            rig.on(0, || timer.start(at(when)));
            rig.steer(parts_per_billion);
            rig.run_until(rig.now() + step * 40_000);
            assert!(
                timer.fired_at().last().is_some_and(|fired| *fired >= when),
                "{class:?}"
            );
        }
        assert_eq!(timer.fired_at().len(), 29, "{class:?}, the last for {when}");
    }
}

/// CPL-8, TIM-21: an event beyond the range of the conversion is reached in steps, as long as the base of the time
/// record is moved on.
pub fn an_event_beyond_the_coupled_range_is_reached_in_steps<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(10 * HOUR)));
    assert!(rig.fires_at(0).is_some_and(|at| at < 3 * HOUR));
    for hour in 1..=10 {
        rig.run_until(hour * HOUR);
        rig.advance_timekeeper();
    }
    assert_eq!(timer.fired_at(), [10 * HOUR]);
    assert!(rig.stats(0).spurious <= 5, "A6");
}

crate::kit::cases!(counter:
    another_counter_uncouples_the_device [COUNTERS],
    a_switch_disturbs_nothing_that_is_armed [COUNTERS, DEVICES],
    b1_a_counter_that_was_just_installed_has_a_range [COUNTERS],
    a_coupled_device_follows_the_steering [COUNTERS, DEVICES],
    steering_makes_no_timer_early [COUNTERS, DEVICES],
    an_event_beyond_the_coupled_range_is_reached_in_steps [COUNTERS],
);
