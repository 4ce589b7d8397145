//! Cases about the state as text, in the layout of `/proc/timer_list` (spec ).

use core::pin::Pin;
use core::task::Waker;

use tickless_core::base::TimerQueue;
use tickless_core::coarse::WheelKind;
use tickless_core::hrtimer::Sleeper;
use tickless_core::inspect::{DumpHost, Queued};
use tickless_core::platform::CpuId;

use crate::prelude::*;
use crate::random::Random;
use crate::suite::at;
use crate::{CoarseTimer, DeviceClass, Host, Rig, TestTimer};

/// A dump that shows addresses.
struct WithAddresses;

impl DumpHost for WithAddresses {
    fn addresses(&self) -> bool {
        true
    }
}

/// DMP-2: a queue with more timers than are copied under one hold of the lock is shown whole, and in order.
pub fn long_queues_are_shown_whole<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..100).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        for (timer, place) in timers.iter().zip(1..) {
            timer.start(at(place * 10));
        }
    });
    let dump = rig.dump_with(&WithAddresses);
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
        assert!(dump.contains(&format!(" #{number}: <{:016x}>, ", timer.id().0)));
    }
}

/// DMP-1: a dump shows all CPUs first, then all devices.
pub fn devices_come_behind_all_cpus<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(3, class);
        let dump = rig.dump();
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

/// DMP-4: a dump only reads.
pub fn a_dump_changes_nothing<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(5_000)));
    let before = (rig.stats(0), rig.armed(0), rig.device_writes(0));
    assert_eq!(rig.dump(), rig.dump());
    assert_eq!(before, (rig.stats(0), rig.armed(0), rig.device_writes(0)));
}

/// Each pending timer is shown: a sorted timer, a far timer, and a timer on each of the wheels.
pub fn every_pending_timer_is_shown<H: Host>() {
    const SECOND: i64 = 1_000_000_000;
    let rig = Rig::<H>::with_devices(1, DeviceClass::Software);
    let near = TestTimer::once(&rig);
    let coarse = WheelKind::ALL.map(|kind| CoarseTimer::once(&rig, kind));
    let mut far: Vec<_> = (0..70).map(|_| Box::pin(Sleeper::new())).collect();
    let timers = rig.timers();
    rig.on(0, || {
        near.start(at(1_000));
        for (timer, expiry) in coarse.iter().zip([5, 100, 1_000]) {
            timer.arm(expiry).expect("it is not armed");
        }
        for (sleeper, seconds) in far.iter_mut().zip(1..) {
            let waker = Waker::noop().clone();
            drop(sleeper.as_mut().start(timers, at(seconds * SECOND), waker));
        }
    });
    let dump = rig.dump();
    let report = timers.report(CpuId(0)).expect("it is there");
    assert_eq!((report.sorted, report.far), (1, 70));
    assert_eq!(report.wheels.map(|wheel| wheel.pending), [1, 1, 1]);
    let shown = |section: &str| {
        let lines = dump.lines().skip_while(|line| *line != section).skip(1);
        let lines = lines.take_while(|line| !line.ends_with(':') || line.starts_with("active"));
        let shown = lines.filter(|line| line.starts_with(" #") && line.contains(", S:01"));
        shown.count()
    };
    assert_eq!(shown(" clock 0:"), 1);
    assert_eq!(shown(" far timers:"), 70);
    for wheel in [" wheel 0:", " wheel 1:", " wheel 2:"] {
        assert_eq!(shown(wheel), 1, "{wheel}");
    }
    let (far_line, coarse_line) = ("\n # filed for ", " # expires after tick 5, due");
    assert!(
        dump.contains(far_line) && dump.contains(coarse_line),
        "{dump}"
    );
    rig.on(0, || {
        for sleeper in &far {
            drop(sleeper.as_ref().cancel(timers));
        }
    });
}

/// The dump lists each timer with the deadline for which it was armed. A timer in a slot is listed with the slot, which
/// is due before the deadline.
pub fn records_say_for_when_a_timer_is_queued<H: Host>() {
    const MILLI: i64 = 1_000_000;
    let rig = Rig::<H>::with_devices(1, DeviceClass::Software);
    let timers = rig.timers();
    let mut random = Random::new(7);
    let mut far: Vec<_> = (0..50).map(|_| Box::pin(Sleeper::new())).collect();
    let coarse: Vec<_> = (0..50)
        .map(|_| CoarseTimer::once(&rig, WheelKind::Global))
        .collect();
    let distance = |random: &mut Random| {
        let bits = random.between(1, 22);
        5 + random.between(0, 1 << bits)
    };
    let mut exact_at = Vec::new();
    let mut coarse_at = Vec::new();
    for (sleeper, timer) in far.iter_mut().zip(&coarse) {
        let later = rig.now() + random.between(0, 3) * MILLI;
        rig.run_until(later);
        let deadline = rig.now() + distance(&mut random) * MILLI;
        let expiry =
            distance(&mut random).unsigned_abs() + u64::try_from(rig.now() / MILLI).unwrap();
        rig.on(0, || {
            drop(
                sleeper
                    .as_mut()
                    .start(timers, at(deadline), Waker::noop().clone()),
            );
            timer.arm(expiry).expect("it is not armed");
        });
        exact_at.push(deadline);
        coarse_at.push(expiry);
    }
    let (mut exact_seen, mut coarse_seen) = (Vec::new(), Vec::new());
    let seen = timers.for_each_pending(CpuId(0), |timer| {
        match timer.queued {
            Queued::Sorted { hard, filed, .. } | Queued::Far { hard, filed, .. } => {
                assert!(filed <= hard, "{timer:?}");
                exact_seen.push(hard);
            }
            Queued::Wheel { expiry, due, .. } => {
                assert!(due > expiry, "{timer:?}");
                coarse_seen.push(expiry.0);
            }
            _ => unreachable!("there is nothing else"),
        }
        Ok(())
    });
    seen.expect("nothing fails");
    let now = rig.now();
    let is_left = |deadline: &i64| *deadline > now;
    exact_at.retain(is_left);
    exact_at.sort_unstable();
    exact_seen.sort_unstable();
    assert_eq!(exact_seen, exact_at);
    coarse_seen.sort_unstable();
    coarse_at.sort_unstable();
    // No CPU runs passes here, so all are pending still.
    assert_eq!(coarse_seen, coarse_at);
    rig.on(0, || {
        for sleeper in &far {
            drop(sleeper.as_ref().cancel(timers));
        }
    });
}

/// A timer that moves from one part of the queues to another while they are shown is shown once.
pub fn what_moves_while_it_is_shown_is_shown_once<H: Host>() {
    let rig = Rig::<H>::with_devices(1, DeviceClass::Software);
    let timers = rig.timers();
    let mut sleepers = [(); 3].map(|()| Box::pin(Sleeper::new()));
    let start = |sleeper: &mut Pin<Box<Sleeper>>, deadline| {
        let start = sleeper
            .as_mut()
            .start(timers, at(deadline), Waker::noop().clone());
        drop(start);
    };
    const HOUR: i64 = 3_600_000_000_000;
    rig.on(0, || {
        start(&mut sleepers[0], 1_000);
        start(&mut sleepers[1], HOUR);
        start(&mut sleepers[2], HOUR);
    });
    let mut shown = Vec::new();
    rig.on(0, || {
        let seen = timers.for_each_pending(CpuId(0), |timer| {
            if shown.is_empty() {
                start(&mut sleepers[1], 900);
            }
            shown.push(timer.queued);
            Ok(())
        });
        seen.expect("nothing fails");
        for sleeper in &sleepers {
            drop(sleeper.as_ref().cancel(timers));
        }
    });
    let [
        Queued::Sorted { .. },
        Queued::Far { .. },
        Queued::Far { .. },
    ] = shown[..]
    else {
        panic!("{shown:?}")
    };
}

/// A dump shows addresses only when its caller asks for them.
pub fn addresses_are_shown_to_who_asks<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(5_000)));
    let hidden = rig.dump();
    assert!(hidden.contains(" #0: <0000000000000000>, "), "{hidden}");
    assert!(!hidden.contains("code at"), "{hidden}");
    let shown = rig.dump_with(&WithAddresses);
    assert!(
        shown.contains(&format!(" #0: <{:016x}>, ", timer.id().0))
            && shown.contains("\n # code at "),
        "{shown}"
    );
}

/// The state of a device is shown as the number that the kernel has for that state.
pub fn a_device_shows_its_mode_as_the_kernel_does<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(5_000)));
    assert!(rig.dump().contains("\n mode:           3\n"));
    rig.run_until(10_000);
    assert!(rig.dump().contains("\n mode:           4\n"), "stopped");
}

/// A dump shows the ticks, the broadcast device and the hierarchy.
pub fn what_idles_and_who_looks_after_it_is_shown<H: Host>() {
    let rig = Rig::<H>::ticking(3);
    let timer = CoarseTimer::once(&rig, WheelKind::Global);
    rig.set_deep(2, true);
    rig.on(2, || timer.arm(20)).expect("it is not armed");
    rig.idle(2).expect("nothing keeps it awake");
    let dump = rig.dump();
    assert_eq!(dump.matches("  .tick_stopped   : 1\n").count(), 1, "{dump}");
    assert_eq!(dump.matches("  .tick_stopped   : 0\n").count(), 2, "{dump}");
    assert!(dump.contains("\njiffies: 0\n"), "{dump}");
    assert!(dump.contains("\nBroadcast device\n"), "{dump}");
    assert!(dump.contains("\ntick_broadcast_mask: 00000004\n"), "{dump}");
    assert!(dump.contains("\nHierarchy: CPUs\n"), "{dump}");
    assert!(
        dump.contains(" group 0: level 0, root, active 0b0011, migrator 0, "),
        "{dump}"
    );
    assert!(dump.contains("  cpu 2 as 2: idle, wakeup "), "{dump}");
}

crate::kit::cases!(dump:
    every_pending_timer_is_shown [DEVICES],
    records_say_for_when_a_timer_is_queued [DEVICES],
    what_moves_while_it_is_shown_is_shown_once [DEVICES],
    addresses_are_shown_to_who_asks,
    a_device_shows_its_mode_as_the_kernel_does,
    what_idles_and_who_looks_after_it_is_shown [CPUS],
    long_queues_are_shown_whole,
    devices_come_behind_all_cpus [CPUS, DEVICES],
    a_dump_changes_nothing [CPUS],
);
