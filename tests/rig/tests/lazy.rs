//! Timers that leave the device alone when they move later (spec 4.3).

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, ClockId, Instant, Realtime, Tai};
use tickless_rig::suite::{at, at_on};
use tickless_rig::{Config, Machine, TestTimer, all_configs};
use tickless_sim::random::Random;

const WALL: i64 = 1_700_000_000_000_000_000;

fn lazy<C: Config>(machine: &Machine<C>) -> TestTimer<C> {
    TestTimer::with_setup(machine, Setup::new().lazy(), |_| Restart::No)
}

/// 13.7, the state in which each of its cases begins: S is first at 1000 and armed, X is at 5000.
fn armed_at_1000<C: Config>() -> (Machine<C>, TestTimer<C>, TestTimer<C>) {
    let machine = Machine::<C>::new(1);
    let (slice, other) = (lazy(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        slice.start(at(1_000));
        other.start(at(5_000));
    });
    (machine, slice, other)
}

/// 13.7 case 1, LAZY-1, LAZY-3: later writes nothing; the old event finds nothing and arms exactly.
fn moving_later_costs_one_interrupt_instead_of_a_write<C: Config>() {
    let (machine, slice, other) = armed_at_1000::<C>();
    let writes = machine.device_writes(0);
    machine.on(0, || slice.start(at(3_000)));
    assert_eq!(machine.device_writes(0), writes);
    assert_eq!(machine.armed(0), Instant::from_nanos(1_000));
    machine.run_until(1_000);
    assert_eq!(machine.stats(0).spurious, 1);
    assert_eq!(machine.fires_at(0), Some(3_000));
    assert_eq!(machine.device_writes(0), writes + 1);
    machine.run_until(9_000);
    assert_eq!(slice.fired_at(), [3_000]);
    assert_eq!(other.fired_at(), [5_000]);
    assert_eq!(machine.stats(0).spurious, 1);
}

/// 13.7 case 2: earlier than what is armed is programmed at once.
fn moving_earlier_than_the_armed_event_is_written<C: Config>() {
    let (machine, slice, _other) = armed_at_1000::<C>();
    machine.on(0, || slice.start(at(800)));
    assert_eq!(machine.fires_at(0), Some(800));
    machine.run_until(2_000);
    assert_eq!(slice.fired_at(), [800]);
}

/// 13.7 case 3, LAZY-2, LAZY-6: a cancel writes nothing, and the event it leaves behind serves other timers.
fn a_cancel_leaves_the_device_for_others<C: Config>() {
    let (machine, slice, other) = armed_at_1000::<C>();
    let [earlier, later] = [(); 2].map(|()| TestTimer::once(&machine));
    let writes = machine.device_writes(0);
    machine.on(0, || assert!(slice.cancel()));
    assert_eq!(machine.device_writes(0), writes);
    machine.on(0, || earlier.start(at(900)));
    assert_eq!(
        machine.device_writes(0),
        writes + 1,
        "earlier than what is armed"
    );
    machine.on(0, || later.start(at(1_200)));
    assert_eq!(
        machine.device_writes(0),
        writes + 1,
        "later than what is armed"
    );
    machine.run_until(9_000);
    assert_eq!(earlier.fired_at(), [900]);
    assert_eq!(later.fired_at(), [1_200]);
    assert_eq!(other.fired_at(), [5_000]);
    assert!(slice.fired_at().is_empty());
}

/// 13.7 case 4: the cancel of another timer does not write for the lazy one either; the armed event evaluates.
fn a_cancel_behind_a_lazy_timer_writes_nothing<C: Config>() {
    let (machine, slice, other) = armed_at_1000::<C>();
    machine.on(0, || slice.start(at(6_000)));
    let writes = machine.device_writes(0);
    machine.on(0, || assert!(other.cancel()));
    assert_eq!(machine.device_writes(0), writes);
    machine.run_until(1_000);
    assert_eq!(machine.fires_at(0), Some(6_000));
    machine.run_until(9_000);
    assert_eq!(slice.fired_at(), [6_000]);
}

/// LAZY-3d: the hint that a cancel leaves behind lets the next start of the same timer be lazy too.
fn a_start_after_a_lazy_cancel_is_lazy<C: Config>() {
    let (machine, slice, _other) = armed_at_1000::<C>();
    let writes = machine.device_writes(0);
    let evaluations = machine.stats(0).evaluations;
    for later in [1_000, 2_000, 7_000] {
        machine.on(0, || {
            assert!(slice.cancel());
            slice.start(at(later));
        });
        machine.check();
    }
    assert_eq!(machine.device_writes(0), writes);
    assert_eq!(machine.stats(0).evaluations, evaluations);
}

/// Change 10, LAZY-5: a thousand restarts, no write, one interrupt for nothing, nobody late.
fn a_thousand_restarts_cost_one_interrupt<C: Config>() {
    let (machine, slice, other) = armed_at_1000::<C>();
    let writes = machine.device_writes(0);
    for step in 1..=1_000 {
        machine.on(0, || slice.start(at(1_000 + step * 10)));
    }
    assert_eq!(machine.device_writes(0), writes);
    machine.run_until(20_000);
    assert_eq!(slice.fired_at(), [11_000]);
    assert_eq!(other.fired_at(), [5_000]);
    assert_eq!(machine.stats(0).spurious, 1);
}

/// LAZY-5, A6: never more interrupts for nothing than lazy episodes, never a timer late.
fn lazy_episodes_bound_the_interrupts_for_nothing<C: Config>() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let machine = Machine::<C>::new(1);
        let lazies = [lazy(&machine), lazy(&machine)];
        let exact: Vec<_> = (0..3).map(|_| TestTimer::once(&machine)).collect();
        let mut episodes = 0;
        for _ in 0..60 {
            machine.on(0, || {
                let when = machine.now() + random.between(100, 5_000);
                match random.below(4) {
                    0 => {
                        let timer = &lazies[random.index(2)];
                        episodes += 1;
                        timer.cancel();
                    }
                    1 | 2 => {
                        episodes += 1;
                        lazies[random.index(2)].start(at(when));
                    }
                    _ => exact[random.index(3)].start(at(when)),
                }
            });
            machine.check();
            machine.run_until(machine.now() + random.between(0, 2_000));
            assert!(machine.stats(0).spurious <= episodes, "seed {seed}");
        }
    }
}

fn lazy_on<C: Config, T: ClockId>(machine: &Machine<C>) {
    let timer = TestTimer::<C, T>::with_setup(machine, Setup::new().lazy(), |_| Restart::No);
    let offset = machine.offset(T::CLOCK);
    machine.on(0, || timer.start(at_on(offset + 5_000)));
    machine.on(0, || timer.start(at_on(offset + 2_000)));
    assert_eq!(machine.fires_at(0), Some(2_000), "earlier");
    machine.on(0, || timer.start(at_on(offset + 9_000)));
    assert_eq!(machine.fires_at(0), Some(9_000), "later: exact, not lazy");
    machine.check();
}

/// LAZY-4, B18: on clocks with an offset laziness has no effect, because the armed value is monotonic.
fn timers_of_other_clocks_are_exact<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    lazy_on::<C, Realtime>(&machine);
    lazy_on::<C, Boottime>(&machine);
    lazy_on::<C, Tai>(&machine);
}

/// 4.3: nor in the soft stage, which has an armed value of its own.
fn timers_of_the_soft_stage_are_exact<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::with_setup(&machine, Setup::new().stage(Stage::Soft).lazy(), |_| {
        Restart::No
    });
    machine.on(0, || {
        timer.start(at(1_000));
        timer.start(at(4_000));
    });
    assert_eq!(machine.fires_at(0), Some(4_000));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [4_000]);
    assert_eq!(machine.stats(0).spurious, 0);
}

/// REARM-7: a lazy cancel does not mark an owed rearm stale.
fn a_lazy_cancel_leaves_an_owed_rearm_fresh<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (due, slice) = (TestTimer::once(&machine), lazy(&machine));
    machine.on(0, || {
        due.start(at(1_000));
        slice.start(at(5_000));
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.on(0, || assert!(slice.cancel()));
    assert!(!machine.dump().contains("owed, stale"));
    machine.leave_interrupt(0);
    assert_eq!(
        machine.fires_at(0),
        Some(5_000),
        "too early, which is allowed"
    );
    machine.run_until(9_000);
    assert_eq!(machine.stats(0).spurious, 1);
}

/// LAZY-7: who is about to sleep arms exactly, and the event of a lazy timer that went does not wake it.
fn whoever_sleeps_is_not_woken_for_a_lazy_timer_that_went<C: Config>() {
    for is_moved in [false, true] {
        let (machine, slice, other) = armed_at_1000::<C>();
        machine.on(0, || {
            if is_moved {
                slice.start(at(7_000));
            } else {
                assert!(slice.cancel());
            }
            let armed = machine.timers().settle_armed(CpuId(0));
            assert_eq!(armed, Instant::from_nanos(5_000));
        });
        let writes = machine.device_writes(0);
        machine.on(0, || machine.timers().settle_armed(CpuId(0)));
        assert_eq!(machine.device_writes(0), writes, "it is exact");
        machine.run_until(5_000);
        assert_eq!(other.fired_at(), [5_000]);
        assert_eq!(machine.stats(0).spurious, 0);
    }
}

/// LAZY-7, REARM-7: while a rearm is owed it becomes stale instead, and its flush is the only write.
fn a_lazy_cancel_before_a_sleep_makes_an_owed_rearm_exact<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [due, other] = [(); 2].map(|()| TestTimer::once(&machine));
    let slice = lazy(&machine);
    machine.on(0, || {
        due.start(at(1_000));
        slice.start(at(5_000));
        other.start(at(8_000));
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.on(0, || {
        assert!(slice.cancel());
        machine.timers().settle_armed(CpuId(0));
    });
    machine.leave_interrupt(0);
    assert_eq!(machine.fires_at(0), Some(8_000));
    machine.run_until(8_000);
    assert_eq!(other.fired_at(), [8_000]);
    assert_eq!(machine.stats(0).spurious, 0);
}

all_configs!(
    moving_later_costs_one_interrupt_instead_of_a_write,
    moving_earlier_than_the_armed_event_is_written,
    a_cancel_leaves_the_device_for_others,
    a_cancel_behind_a_lazy_timer_writes_nothing,
    a_start_after_a_lazy_cancel_is_lazy,
    a_thousand_restarts_cost_one_interrupt,
    lazy_episodes_bound_the_interrupts_for_nothing,
    timers_of_other_clocks_are_exact,
    timers_of_the_soft_stage_are_exact,
    a_lazy_cancel_leaves_an_owed_rearm_fresh,
    whoever_sleeps_is_not_woken_for_a_lazy_timer_that_went,
    a_lazy_cancel_before_a_sleep_makes_an_owed_rearm_exact,
);
