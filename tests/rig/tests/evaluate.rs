//! Which event is next (spec 3.4 to 3.8).

use std::cell::RefCell;
use std::rc::Rc;

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, ClockId, Instant, Monotonic, Realtime, Tai};
use tickless_rig::suite::{at, at_on};
use tickless_rig::{Config, Machine, TestTimer, all_configs};
use tickless_sim::random::Random;

const WALL: i64 = 1_700_000_000_000_000_000;

const SOFT: Setup = Setup::new().stage(Stage::Soft);

/// 13.6: the worked example, with the soft stage idle and then pending.
fn the_next_event_is_the_minimum_over_clocks_and_stages<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    let mono = TestTimer::once(&machine);
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let boot = {
        let (machine, seen) = (machine.clone(), Rc::clone(&seen));
        TestTimer::<C, Boottime>::with_setup(&machine.clone(), SOFT, move |_| {
            // The soft stage is pending: its own timers do not count, and it must not be raised again.
            seen.borrow_mut()
                .push(machine.timers().next_event(CpuId(0)));
            let forever = format!(".soft_next      : {} nsecs", i64::MAX);
            assert!(machine.dump().contains(&forever));
            assert!(machine.dump().contains(".soft_pending   : 1"));
            Restart::No
        })
    };
    machine.on(0, || {
        mono.start(at(5_000));
        real.start(at_on(WALL + 4_000));
        boot.start(at_on(3_500));
    });
    assert_eq!(machine.armed(0), Instant::from_nanos(3_500));
    assert_eq!(
        machine.timers().next_event(CpuId(0)),
        Instant::from_nanos(3_500)
    );
    assert!(machine.dump().contains(".soft_next      : 3500 nsecs"));
    machine.run_until(3_500);
    assert_eq!(*seen.borrow(), [Instant::from_nanos(4_000)]);
    assert_eq!(machine.armed(0), Instant::from_nanos(4_000));
    machine.run_until(9_000);
    assert_eq!(real.fired_at(), [WALL + 4_000]);
    assert_eq!(mono.fired_at(), [5_000]);
}

/// DEV-4, REARM-4: with nothing left the device is stopped, and started again by the next start.
fn an_empty_cpu_stops_its_device<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(1_000)));
    machine.on(0, || assert!(timer.cancel()));
    assert_eq!(machine.fires_at(0), None);
    assert!(machine.armed(0).is_forever());
    machine.on(0, || timer.start(at(2_000)));
    machine.run_until(2_000);
    assert_eq!(timer.fired_at(), [2_000]);
    assert_eq!(machine.fires_at(0), None);
}

/// When a timer is due, and the question what would be next without it.
type Without = (i64, Box<dyn Fn() -> i64>);

fn push<C: Config, T: ClockId>(
    machine: &Machine<C>,
    timers: &mut Vec<Without>,
    random: &mut Random,
) {
    let setup = if random.one_in(2) { SOFT } else { Setup::new() };
    let timer = TestTimer::<C, T>::with_setup(machine, setup, |_| Restart::No);
    let event = random.between(1, 50) * 1_000;
    machine.on(0, || timer.start(at_on(event + machine.offset(T::CLOCK))));
    timers.push((event, Box::new(move || timer.next_event_without(0))));
}

/// 3.7, Q-24, Q-25, change 41: the question "what without this timer?" agrees with a list, and changes nothing.
fn the_next_event_without_a_timer_agrees_with_a_list<C: Config>() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let machine = Machine::<C>::new(1);
        machine.set_wall(0, WALL);
        let mut timers = Vec::new();
        for _ in 0..random.below(8) {
            match random.below(4) {
                0 => push::<C, Monotonic>(&machine, &mut timers, &mut random),
                1 => push::<C, Realtime>(&machine, &mut timers, &mut random),
                2 => push::<C, Boottime>(&machine, &mut timers, &mut random),
                _ => push::<C, Tai>(&machine, &mut timers, &mut random),
            }
        }
        let all = machine.timers().next_event(CpuId(0)).as_nanos();
        let first = timers.iter().map(|(event, _)| *event).min();
        assert_eq!(all, first.unwrap_or(i64::MAX));
        let before = (machine.dump(), machine.device_writes(0));
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
        assert_eq!(before, (machine.dump(), machine.device_writes(0)));
    }
}

/// 3.7: the lonely timer of a CPU leaves nothing to wake up for.
fn without_its_only_timer_a_cpu_has_no_event<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    assert_eq!(timer.next_event_without(0), i64::MAX);
    machine.on(0, || timer.start(at(1_000)));
    assert_eq!(timer.next_event_without(0), i64::MAX);
    assert_eq!(machine.timers().next_event(CpuId(1)), Instant::FOREVER);
    assert_eq!(
        machine.timers().next_event(CpuId(7)),
        Instant::FOREVER,
        "no such CPU"
    );
}

/// a queue that fills during a pass is left to the next pass, and found by it.
fn a_queue_that_fills_during_a_pass_belongs_to_the_next<C: Config>() {
    let machine = Machine::<C>::new(1);
    let real = Rc::new(TestTimer::<C, Realtime>::once_on(&machine));
    let mono = {
        let real = Rc::clone(&real);
        TestTimer::new(&machine, move |_| {
            real.start(at_on(999));
            Restart::No
        })
    };
    machine.on(0, || mono.start(at(1_000)));
    machine.run_until(1_000);
    assert_eq!(real.fired_at(), [1_000]);
    let stats = machine.stats(0);
    assert_eq!((stats.interrupts, stats.passes), (1, 2));
}

/// `now` is read once for a pass, so timers that fire together are told the same time.
fn one_pass_has_one_time<C: Config>() {
    let machine = Machine::<C>::new(1);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let timers: Vec<_> = (0..3)
        .map(|_| {
            let (machine, seen) = (machine.clone(), Rc::clone(&seen));
            TestTimer::new(&machine.clone(), move |expired| {
                machine.spend(400);
                let read = expired.read_clock().as_nanos();
                seen.borrow_mut().push((expired.now().as_nanos(), read));
                Restart::No
            })
        })
        .collect();
    machine.on(0, || {
        timers[0].start(at(1_000));
        timers[1].start(at(1_000));
        // Due when the first two are done, so in the second pass.
        timers[2].start(at(1_500));
    });
    machine.run_until(1_000);
    assert_eq!(
        *seen.borrow(),
        [(1_000, 1_400), (1_000, 1_800), (1_800, 2_200)]
    );
    assert_eq!(machine.stats(0).passes, 2);
}

/// Change 39: an interrupt evaluates once, and the flush behind it uses the result as long as nothing changed.
fn an_interrupt_evaluates_once<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (first, second) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        first.start(at(1_000));
        second.start(at(5_000));
    });
    let before = machine.stats(0).evaluations;
    machine.run_until(1_000);
    assert_eq!(machine.stats(0).evaluations - before, 1);
    assert_eq!(machine.stats(0).stale_flushes, 0);
    assert_eq!(machine.fires_at(0), Some(5_000));
}

/// INV-6, Q-7, Q-9: the caches follow every kind of change. (The walk over all queues is in `assert_valid`.)
fn caches_follow_every_change<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [first, middle, last] = [(); 3].map(|()| TestTimer::once(&machine));
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
        machine.on(0, step);
        machine.check();
        assert_eq!(
            machine.armed(0),
            machine.timers().next_event(CpuId(0)),
            "INV-3"
        );
    }
    assert_eq!(machine.timers().pending(CpuId(0)), 0);
}

all_configs!(
    the_next_event_is_the_minimum_over_clocks_and_stages,
    an_empty_cpu_stops_its_device,
    the_next_event_without_a_timer_agrees_with_a_list,
    without_its_only_timer_a_cpu_has_no_event,
    a_queue_that_fills_during_a_pass_belongs_to_the_next,
    one_pass_has_one_time,
    an_interrupt_evaluates_once,
    caches_follow_every_change,
);
