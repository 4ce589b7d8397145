//! The state as text, in the layout of `/proc/timer_list` (spec 6.3).

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::time::{Boottime, Realtime, Span};
use tickless_sim::suite::{at, at_on};
use tickless_sim::{Config, Deferred, DeviceClass, Machine, TestTimer, all_configs};

/// Replaces what differs from run to run: addresses.
fn without_addresses(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("0x") {
        result.push_str(before);
        result.push_str("0x_");
        rest = behind.trim_start_matches(|character: char| character.is_ascii_hexdigit());
    }
    result.push_str(rest);
    result
}

/// DMP-1 to DMP-4: everything a dump of one CPU shows, in a golden file. Offsets are signed, laziness and slack are
/// seen.
#[test]
fn the_layout_is_that_of_timer_list() {
    let machine = Machine::<Deferred>::new(1);
    machine.set_wall(0, -5_000_000_000);
    let lazy = TestTimer::with_setup(&machine, Setup::new().lazy(), |_| Restart::No);
    let [exact, due] = [(); 2].map(|()| TestTimer::once(&machine));
    let real = TestTimer::<_, Realtime>::once_on(&machine);
    let soft =
        TestTimer::<_, Boottime>::with_setup(&machine, Setup::new().stage(Stage::Soft), |_| {
            Restart::No
        });
    machine.on(0, || {
        due.start(at(1_000));
        lazy.start(at(7_000));
        exact.start(at(4_000));
        real.start(at_on(-5_000_000_000 + 9_000).slack(Span::from_nanos(500)));
        soft.start(at_on(8_000));
    });
    machine.run_until(2_000);
    let golden = include_str!("golden/timer_list.txt");
    assert_eq!(without_addresses(&machine.dump()), golden);
}

/// DMP-2: queues longer than what is copied while the lock is held are shown whole, in order.
fn long_queues_are_shown_whole<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timers: Vec<_> = (0..100).map(|_| TestTimer::once(&machine)).collect();
    machine.on(0, || {
        for (timer, place) in timers.iter().zip(1..) {
            timer.start(at(place * 10));
        }
    });
    let dump = machine.dump();
    let lines: Vec<_> = dump
        .lines()
        .filter(|line| line.starts_with(" # expires"))
        .collect();
    assert_eq!(lines.len(), 100);
    for (line, place) in lines.iter().zip(1..) {
        let when = place * 10;
        assert_eq!(
            *line,
            format!(" # expires at {when}-{when} nsecs [in {when} to {when} nsecs]")
        );
    }
    for (number, timer) in timers.iter().enumerate() {
        assert!(dump.contains(&format!(" #{number}: <{:#x}>, ", timer.id().0)));
    }
}

/// DMP-1: all CPUs first, then all devices.
fn devices_come_behind_all_cpus<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(3, class);
        let dump = machine.dump();
        let heads: Vec<_> = dump
            .lines()
            .filter(|line| line.starts_with("cpu: ") || line.starts_with("Per CPU device: "))
            .collect();
        assert_eq!(
            heads,
            [
                "cpu: 0",
                "cpu: 1",
                "cpu: 2",
                "Per CPU device: 0",
                "Per CPU device: 1",
                "Per CPU device: 2"
            ]
        );
    }
}

/// DMP-4: a dump only looks.
fn a_dump_changes_nothing<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(5_000)));
    let before = (machine.stats(0), machine.armed(0), machine.device_writes(0));
    assert_eq!(machine.dump(), machine.dump());
    assert_eq!(
        before,
        (machine.stats(0), machine.armed(0), machine.device_writes(0))
    );
}

all_configs!(
    long_queues_are_shown_whole,
    devices_come_behind_all_cpus,
    a_dump_changes_nothing,
);
