//! Devices coupled to the counter that drives the time, and what happens when another one does (spec 1.8, 1.11).

use tickless_core::hrtimer::Restart;
use tickless_core::time::Span;
use tickless_rig::suite::at;
use tickless_rig::{Config, DeviceClass, Machine, Source, TestTimer, all_configs};

const SEC: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SEC;

fn readings_of_a_start<C: Config>(machine: &Machine<C>, timer: &TestTimer<C>, when: i64) -> u64 {
    let before = machine.counter_readings();
    machine.on(0, || timer.start(at(when)));
    machine.counter_readings() - before
}

/// 14.4, CPL-4, CPL-7, A2: while another counter drives the time the coupled device is programmed relatively; when its
/// own one is back, by value again.
fn another_counter_uncouples_the_device<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.spend(10_000);
    assert_eq!(readings_of_a_start(&machine, &timer, 50_000), 0);
    machine.switch_counter(Source::Spare);
    assert_eq!(readings_of_a_start(&machine, &timer, 40_000), 1);
    assert_eq!(machine.fires_at(0), Some(40_000));
    machine.run_until(20_000);
    machine.switch_counter(Source::Main);
    assert_eq!(readings_of_a_start(&machine, &timer, 45_000), 0);
    machine.run_until(60_000);
    assert_eq!(timer.fired_at(), [45_000]);
}

/// 14.4: what was programmed before the switch is on time.
fn a_switch_disturbs_nothing_that_is_armed<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::new(&machine, |expired| {
            expired.forward_now(Span::from_nanos(10_000));
            Restart::Yes
        });
        machine.on(0, || timer.start(at(10_000)));
        let mut source = [Source::Spare, Source::Main].into_iter().cycle();
        for step in 1..20 {
            let before = machine.monotonic();
            machine.switch_counter(source.next().expect("for ever"));
            assert_eq!(machine.monotonic(), before, "time does not jump");
            machine.run_until(step * 5_000);
        }
        assert_eq!(
            timer.fired_at(),
            (1..10).map(|n| n * 10_000).collect::<Vec<_>>()
        );
    }
}

/// CPL-3, B1: the range of a counter that was just installed is not zero, although its factors are those of the one
/// before.
fn b1_a_counter_that_was_just_installed_has_a_range<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.switch_counter(Source::Main);
    machine.on(0, || timer.start(at(SEC)));
    assert_eq!(machine.fires_at(0), Some(SEC));
    machine.run_until(2 * SEC);
    assert_eq!(timer.fired_at(), [SEC]);
    assert_eq!(machine.stats(0).interrupts, 1);
}

/// TIM-28, change 18: the conversion follows the steering, so a second is met to a microsecond at 500 ppm; a device
/// with factors of its own is half a millisecond off and has to be programmed again.
fn a_coupled_device_follows_the_steering<C: Config>() {
    for parts_per_billion in [500_000, -500_000] {
        let machine = Machine::<C>::new(1);
        machine.steer(parts_per_billion);
        let timer = TestTimer::once(&machine);
        machine.on(0, || timer.start(at(SEC)));
        let shows = machine.monotonic_at(machine.fires_at(0).expect("armed"));
        assert!((SEC - 1_000..=SEC + 1_000).contains(&shows), "{shows}");
        machine.run_until(2 * SEC);
        let fired = timer.fired_at()[0];
        assert!(
            (SEC..=SEC + 1_000).contains(&fired),
            "A4, and on time: {fired}"
        );

        let machine = Machine::<C>::with_devices(1, DeviceClass::Countdown);
        machine.steer(parts_per_billion);
        let timer = TestTimer::once(&machine);
        machine.on(0, || timer.start(at(SEC)));
        let shows = machine.monotonic_at(machine.fires_at(0).expect("armed"));
        assert!((shows - SEC).abs() > 400_000, "{shows}");
        machine.run_until(2 * SEC);
        assert!(timer.fired_at()[0] >= SEC, "A4");
    }
}

/// A4: nothing is early, whatever the steering does while the device is armed.
fn steering_makes_nobody_early<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(1, class);
        let timer = TestTimer::once(&machine);
        let mut when = 0;
        for (step, parts_per_billion) in
            (1..30).zip([500_000, -500_000, 0, 123_457].into_iter().cycle())
        {
            when = machine.monotonic().as_nanos() + step * 37_000;
            machine.on(0, || timer.start(at(when)));
            machine.steer(parts_per_billion);
            machine.run_until(machine.now() + step * 40_000);
            assert!(
                timer.fired_at().last().is_some_and(|fired| *fired >= when),
                "{class:?}"
            );
        }
        assert_eq!(timer.fired_at().len(), 29, "{class:?}, the last for {when}");
    }
}

/// CPL-8, TIM-21: an event beyond the range of the conversion is reached in steps, as long as the base of the time
/// record follows.
fn an_event_beyond_the_coupled_range_is_reached_in_steps<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(10 * HOUR)));
    assert!(machine.fires_at(0).is_some_and(|at| at < 3 * HOUR));
    for hour in 1..=10 {
        machine.run_until(hour * HOUR);
        machine.advance_timekeeper();
    }
    assert_eq!(timer.fired_at(), [10 * HOUR]);
    assert!(machine.stats(0).spurious <= 5, "A6");
}

all_configs!(
    another_counter_uncouples_the_device,
    a_switch_disturbs_nothing_that_is_armed,
    b1_a_counter_that_was_just_installed_has_a_range,
    a_coupled_device_follows_the_steering,
    steering_makes_nobody_early,
    an_event_beyond_the_coupled_range_is_reached_in_steps,
);
