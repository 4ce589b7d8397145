//! Tests of the choice of the next event (spec ).

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, ClockId, Instant, Monotonic, Realtime, Tai};

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, at_on};
use crate::{Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;

const SOFT: Setup = Setup::new().stage(Stage::Soft);

/// the worked example, first with the soft stage idle and then with it pending.
pub fn the_next_event_is_the_minimum_over_clocks_and_stages<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, WALL);
    let mono = TestTimer::once(&rig);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let boot = {
        let (rig, seen) = (rig.clone(), Rc::clone(&seen));
        TestTimer::<H, Boottime>::with_setup(&rig.clone(), SOFT, move |_| {
            // The soft stage is pending: its own timers do not count, and it must not be raised again.
            seen.borrow_mut().push(rig.timers().next_event(CpuId(0)));
            let forever = format!(".soft_next      : {} nsecs", i64::MAX);
            assert!(rig.dump().contains(&forever));
            assert!(rig.dump().contains(".soft_pending   : 1"));
            Restart::No
        })
    };
    rig.on(0, || {
        mono.start(at(5_000));
        real.start(at_on(WALL + 4_000));
        boot.start(at_on(3_500));
    });
    assert_eq!(rig.armed(0), Instant::from_nanos(3_500));
    assert_eq!(
        rig.timers().next_event(CpuId(0)),
        Instant::from_nanos(3_500)
    );
    assert!(rig.dump().contains(".soft_next      : 3500 nsecs"));
    rig.run_until(3_500);
    assert_eq!(*seen.borrow(), [Instant::from_nanos(4_000)]);
    assert_eq!(rig.armed(0), Instant::from_nanos(4_000));
    rig.run_until(9_000);
    assert_eq!(real.fired_at(), [WALL + 4_000]);
    assert_eq!(mono.fired_at(), [5_000]);
}

/// DEV-4, REARM-4: a CPU without timers stops its device, and the next start starts the device again.
pub fn an_empty_cpu_stops_its_device<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.on(0, || assert!(timer.cancel()));
    assert_eq!(rig.fires_at(0), None);
    assert!(rig.armed(0).is_forever());
    rig.on(0, || timer.start(at(2_000)));
    rig.run_until(2_000);
    assert_eq!(timer.fired_at(), [2_000]);
    assert_eq!(rig.fires_at(0), None);
}

/// A timer's deadline, with a function that finds the next deadline without that timer.
type Without = (i64, Box<dyn Fn() -> i64>);

fn push<H: Host, T: ClockId>(rig: &Rig<H>, timers: &mut Vec<Without>, random: &mut Random) {
    let setup = if random.one_in(2) { SOFT } else { Setup::new() };
    let timer = TestTimer::<H, T>::with_setup(rig, setup, |_| Restart::No);
    let event = random.between(1, 50) * 1_000;
    rig.on(0, || timer.start(at_on(event + rig.offset(T::CLOCK))));
    timers.push((event, Box::new(move || timer.next_event_without(0))));
}

/// change 41: the next event without a given timer agrees with a list, and the question changes
/// nothing.
pub fn the_next_event_without_a_timer_agrees_with_a_list<H: Host>() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let rig = Rig::<H>::new(1);
        rig.set_wall(0, WALL);
        let mut timers = Vec::new();
        for _ in 0..random.below(8) {
            match random.below(4) {
                0 => push::<H, Monotonic>(&rig, &mut timers, &mut random),
                1 => push::<H, Realtime>(&rig, &mut timers, &mut random),
                2 => push::<H, Boottime>(&rig, &mut timers, &mut random),
                _ => push::<H, Tai>(&rig, &mut timers, &mut random),
            }
        }
        let all = rig.timers().next_event(CpuId(0)).as_nanos();
        let first = timers.iter().map(|(event, _)| *event).min();
        assert_eq!(all, first.unwrap_or(i64::MAX));
        let before = (rig.dump(), rig.device_writes(0));
        for (index, (_, without)) in timers.iter().enumerate() {
            let others = timers
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            let expected = others.map(|(_, (event, _))| *event).min();
            assert_eq!(
                without(),
                expected.unwrap_or(i64::MAX),
                "seed {seed}, timer {index}"
            );
        }
        assert_eq!(before, (rig.dump(), rig.device_writes(0)));
    }
}

/// without its only timer, a CPU has no event to wake up for.
pub fn without_its_only_timer_a_cpu_has_no_event<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    assert_eq!(timer.next_event_without(0), i64::MAX);
    rig.on(0, || timer.start(at(1_000)));
    assert_eq!(timer.next_event_without(0), i64::MAX);
    assert_eq!(rig.timers().next_event(CpuId(1)), Instant::FOREVER);
    assert_eq!(
        rig.timers().next_event(CpuId(7)),
        Instant::FOREVER,
        "no such CPU"
    );
}

/// a timer that a callback puts into a queue that the pass has left is found by the next pass.
pub fn a_queue_that_fills_during_a_pass_belongs_to_the_next<H: Host>() {
    let rig = Rig::<H>::new(1);
    let real = Rc::new(TestTimer::<H, Realtime>::once_on(&rig));
    let mono = {
        let real = Rc::clone(&real);
        TestTimer::new(&rig, move |_| {
            real.start(at_on(999));
            Restart::No
        })
    };
    rig.on(0, || mono.start(at(1_000)));
    rig.run_until(1_000);
    assert_eq!(real.fired_at(), [1_000]);
    let stats = rig.stats(0);
    assert_eq!((stats.interrupts, stats.passes), (1, 2));
}

/// a pass reads `now` once, so timers that fire together get the same time.
pub fn one_pass_has_one_time<H: Host>() {
    let rig = Rig::<H>::new(1);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let timers: Vec<_> = (0..3)
        .map(|_| {
            let (rig, seen) = (rig.clone(), Rc::clone(&seen));
            TestTimer::new(&rig.clone(), move |expired| {
                rig.spend(400);
                let read = expired.read_clock().as_nanos();
                seen.borrow_mut().push((expired.now().as_nanos(), read));
                Restart::No
            })
        })
        .collect();
    rig.on(0, || {
        timers[0].start(at(1_000));
        timers[1].start(at(1_000));
        // Due when the first two are done, so in the second pass.
        timers[2].start(at(1_500));
    });
    rig.run_until(1_000);
    assert_eq!(
        *seen.borrow(),
        [(1_000, 1_400), (1_000, 1_800), (1_800, 2_200)]
    );
    assert_eq!(rig.stats(0).passes, 2);
}

/// INV-6, Q-7, Q-9: the caches follow every kind of change. (The walk over all queues is in `assert_valid`.)
pub fn caches_follow_every_change<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [first, middle, last] = [(); 3].map(|()| TestTimer::once(&rig));
    let steps: [&dyn Fn(); 8] = [
        &|| middle.start(at(2_000)),
        &|| first.start(at(1_000)),
        &|| last.start(at(3_000)),
        &|| first.start(at(2_500)),
        &|| assert!(middle.cancel()),
        &|| first.start(at(9_000)),
        &|| assert!(last.cancel()),
        &|| assert!(first.cancel()),
    ];
    for step in steps {
        rig.on(0, step);
        rig.check();
        assert_eq!(rig.armed(0), rig.timers().next_event(CpuId(0)), "INV-3");
    }
    assert_eq!(rig.timers().pending(CpuId(0)), 0);
}

crate::kit::cases!(evaluate:
    the_next_event_is_the_minimum_over_clocks_and_stages [SOFT, CLOCKS],
    an_empty_cpu_stops_its_device,
    the_next_event_without_a_timer_agrees_with_a_list [SOFT, CLOCKS],
    without_its_only_timer_a_cpu_has_no_event [CPUS],
    a_queue_that_fills_during_a_pass_belongs_to_the_next [CLOCKS],
    one_pass_has_one_time [SOFT],
    caches_follow_every_change,
);
