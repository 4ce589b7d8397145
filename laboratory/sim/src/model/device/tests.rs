use super::{COUNTER, Device, Told, hertz, late_if_coupled};
use crate::DeviceClass;
use crate::model::profile::Profile;
use crate::model::time::Picos;
use crate::model::{cost_model, current_cpu};
use std::rc::Rc;
use tickless_core::clock::CounterId;
use tickless_core::event::DeviceWrite;
use tickless_core::time::Instant;
use tickless_core::time::convert::{Cycles, Ticks};

fn device(kind: DeviceClass, hertz: u32, exit: Picos) -> Device {
    Device {
        kind,
        hertz,
        exit,
        ..Device::default()
    }
}

/// Writes the device on CPU 0 at 10 us. Returns the time at which the device fires, its largest delay, and the time
/// that the write took, in nanoseconds.
fn written(device: &Device, told: &Told, write: DeviceWrite) -> (Option<u64>, u64, u64) {
    let costs = Profile::embedded("skl-112").unwrap().costs;
    cost_model::install(&Rc::default());
    let start = Picos::from_micros(10);
    current_cpu::enter(0, start);
    let fires = told.write(
        device,
        &costs.charges(),
        write,
        (Picos::ZERO, |shown| shown),
    );
    let took = current_cpu::leave() - start;
    let fires = fires.ok().map(|at| (at - start).as_nanos());
    (fires, told.late.get().as_nanos(), took.as_nanos())
}

const TICKS: DeviceWrite = DeviceWrite::Relative(Ticks(3_000));

#[test]
fn each_kind_counts_from_somewhere_else() {
    let of = |kind| {
        written(
            &device(kind, 1_000_000_000, Picos::ZERO),
            &Told::default(),
            TICKS,
        )
    };
    // A write takes 90 ns, and to read the counter 25 ns.
    assert_eq!(of(DeviceClass::Countdown), (Some(3_090), 92, 90));
    assert_eq!(of(DeviceClass::LessOrEqual), (Some(3_025), 27, 115));
    assert_eq!(of(DeviceClass::Equality), (Some(3_025), 27, 140));
    // 15 us of a counter that stood at 10 us.
    let coupled = device(DeviceClass::Coupled, 2_000_000_000, Picos::ZERO);
    let write = DeviceWrite::Coupled(Cycles(30_000));
    assert_eq!(
        written(&coupled, &Told::default(), write),
        (Some(5_000), 1, 90)
    );
    let software = device(DeviceClass::Software, 1_000_000_000, Picos::ZERO);
    let write = DeviceWrite::Absolute(Instant::from_nanos(12_345));
    assert_eq!(
        written(&software, &Told::default(), write),
        (Some(2_345), 0, 90)
    );
}

#[test]
fn what_is_over_fires_at_once_or_is_missed() {
    let late = DeviceWrite::Relative(Ticks(100));
    let of = |kind, exit| written(&device(kind, 1_000_000_000, exit), &Told::default(), late).0;
    assert_eq!(of(DeviceClass::LessOrEqual, Picos::ZERO), Some(125));
    assert_eq!(
        of(DeviceClass::LessOrEqual, Picos::from_nanos(500)),
        Some(615)
    );
    assert_eq!(
        of(DeviceClass::Countdown, Picos::from_nanos(500)),
        Some(690)
    );
    // It stands at 125 ns when it is read again at 140.
    assert_eq!(of(DeviceClass::Equality, Picos::ZERO), None);
    let coupled = device(DeviceClass::Coupled, 1_000_000_000, Picos::ZERO);
    let past = DeviceWrite::Coupled(Cycles(1));
    assert_eq!(written(&coupled, &Told::default(), past).0, Some(90));
}

#[test]
fn a_delay_that_was_accepted_in_place_of_a_shorter_one_is_no_mistake() {
    let slow = device(DeviceClass::Equality, 1_000_000_000, Picos::from_micros(4));
    let told = Told::default();
    let write = |micros: u64| written(&slow, &told, DeviceWrite::Relative(Ticks(1_000 * micros)));
    assert_eq!(write(1).0, None);
    let (fires, late, _) = write(5);
    assert_eq!(fires, Some(5_025));
    assert!(late > 5_000, "{late}");
    assert!(write(5).1 > 5_000, "from now on this is the shortest");
    assert!(write(6).1 < 100, "but what is longer is not late");
}

#[test]
fn ticks_are_rounded_so_that_nothing_is_early() {
    let pit = device(DeviceClass::Countdown, 1_193_182, Picos::ZERO);
    let (fires, late, took) = written(&pit, &Told::default(), DeviceWrite::Relative(Ticks(3)));
    // 2514.28 ns.
    assert_eq!(fires, Some(took + 2_514));
    assert!(late > 838, "{late}");
    let odd = device(DeviceClass::Coupled, 1_999_999_999, Picos::ZERO);
    for nanos in [1, 2, 3, 999_999_999, 12_345_678_901] {
        let when = Instant::from_nanos(nanos);
        let cycles = odd.cycles_at(COUNTER, when).unwrap();
        assert!(odd.time_of(cycles.0) >= Picos::of_instant(when));
        assert!(odd.time_of(cycles.0 - 1) <= Picos::of_instant(when));
    }
    assert_eq!(odd.cycles_at(CounterId(7), Instant::ZERO), None);
}

/// Returns the first step at which a clock that advances by `step`, and shows the time of its last step, shows `when`.
fn first_shown(when: Picos, step: u64) -> Picos {
    Picos(when.0.div_ceil(step) * step)
}

#[test]
fn a_coupled_device_is_late_by_a_tick_of_its_own_and_a_step_of_the_clock_at_most() {
    let mut is_later_than_a_tick = false;
    for (hertz, kilohertz) in [
        (100_000_000, 3_579),
        (100_000_000, 24_000),
        (14_318_000, 24_000),
        (1_193_182, 24_000),
        (14_318_000, 3_579),
        (2_100_000_000, 14_318),
    ] {
        let device = device(DeviceClass::Coupled, hertz, Picos::ZERO);
        let step = 1_000_000_000_u64.div_ceil(kilohertz);
        let (tick, bound) = (device.time_of(1), device.time_of(1) + Picos(step));
        assert!(bound <= late_if_coupled(tick, Picos(step)));
        for nanos in 0..20_000 {
            let when = Instant::from_nanos(nanos);
            let cycles = device.cycles_at(COUNTER, when).unwrap();
            let fires = first_shown(device.time_of(cycles.0), step);
            let late = fires - first_shown(Picos::of_instant(when), step);
            assert!(late <= bound, "{hertz} {kilohertz} {nanos}: {late}");
            is_later_than_a_tick |= late > tick + super::CLOCK_STEP;
        }
    }
    assert!(is_later_than_a_tick, "a tick alone is no bound");
}

#[test]
fn what_is_too_far_or_too_near_may_be_early() {
    let mut short = device(DeviceClass::Countdown, 1_000_000, Picos::ZERO);
    short.longest = Picos::from_millis(50);
    let told = Told::default();
    let may_be_early = |ticks: u64| {
        let _fires = written(&short, &told, DeviceWrite::Relative(Ticks(ticks)));
        told.may_be_early.get()
    };
    assert_eq!(
        [40_000, 49_000, 50_000].map(may_be_early),
        [false, false, true]
    );
    short.hertz = 24_000_000;
    let may_be_early = |ticks: u64| {
        let _fires = written(&short, &told, DeviceWrite::Relative(Ticks(ticks)));
        told.may_be_early.get()
    };
    assert_eq!([1, 23, 24].map(may_be_early), [true, true, false]);
}

#[test]
fn a_shortest_delay_that_is_left_under_way_may_be_early_for_what_is_asked_next() {
    let mut slow = device(DeviceClass::Equality, 1_000_000, Picos::ZERO);
    slow.shortest = Picos::from_micros(10);
    let told = Told::default();
    let asked_behind = |ticks: u64| {
        let _fires = written(&slow, &told, DeviceWrite::Relative(Ticks(ticks)));
        assert!(!told.may_be_early.get(), "{ticks}: what it was written for");
        told.is_asked_again();
        told.may_be_early.get()
    };
    assert_eq!([10, 11].map(asked_behind), [true, false]);
}

#[test]
fn frequencies_have_a_range() {
    for (text, expected) in [
        ("1 kHz", Some(1_000)),
        ("4 GHz", Some(4_000_000_000)),
        ("4.1 GHz", None),
        ("100 Hz", None),
    ] {
        assert_eq!(hertz(text), expected, "{text}");
    }
}
