//! Cases about lazy timers, which leave the device alone when they move later (spec ).

use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, ClockId, Instant, Realtime, Tai};

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, at_on};
use crate::{Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;

fn lazy<H: Host>(rig: &Rig<H>) -> TestTimer<H> {
    TestTimer::with_setup(rig, Setup::new().lazy(), |_| Restart::No)
}

/// Makes the state in which each case of begins: S is first at 1000 and armed, X is at 5000.
fn armed_at_1000<H: Host>() -> (Rig<H>, TestTimer<H>, TestTimer<H>) {
    let rig = Rig::<H>::new(1);
    let (slice, other) = (lazy(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        slice.start(at(1_000));
        other.start(at(5_000));
    });
    (rig, slice, other)
}

/// case 1, LAZY-1, LAZY-3: a move to a later time writes nothing. The interrupt at the old time finds no due
/// timer and arms the device exactly.
pub fn moving_later_costs_one_interrupt_instead_of_a_write<H: Host>() {
    let (rig, slice, other) = armed_at_1000::<H>();
    let writes = rig.device_writes(0);
    rig.on(0, || slice.start(at(3_000)));
    assert_eq!(rig.device_writes(0), writes);
    assert_eq!(rig.armed(0), Instant::from_nanos(1_000));
    rig.run_until(1_000);
    assert_eq!(rig.stats(0).spurious, 1);
    assert_eq!(rig.fires_at(0), Some(3_000));
    assert_eq!(rig.device_writes(0), writes + 1);
    rig.run_until(9_000);
    assert_eq!(slice.fired_at(), [3_000]);
    assert_eq!(other.fired_at(), [5_000]);
    assert_eq!(rig.stats(0).spurious, 1);
}

/// case 2: a move to a time before the armed event is programmed at once.
pub fn moving_earlier_than_the_armed_event_is_written<H: Host>() {
    let (rig, slice, _other) = armed_at_1000::<H>();
    rig.on(0, || slice.start(at(800)));
    assert_eq!(rig.fires_at(0), Some(800));
    rig.run_until(2_000);
    assert_eq!(slice.fired_at(), [800]);
}

/// case 3, LAZY-2, LAZY-6: a cancel writes nothing, and the event that stays armed serves other timers.
pub fn a_cancel_leaves_the_device_for_others<H: Host>() {
    let (rig, slice, other) = armed_at_1000::<H>();
    let [earlier, later] = [(); 2].map(|()| TestTimer::once(&rig));
    let writes = rig.device_writes(0);
    rig.on(0, || assert!(slice.cancel()));
    assert_eq!(rig.device_writes(0), writes);
    rig.on(0, || earlier.start(at(900)));
    assert_eq!(
        rig.device_writes(0),
        writes + 1,
        "earlier than what is armed"
    );
    rig.on(0, || later.start(at(1_200)));
    assert_eq!(rig.device_writes(0), writes + 1, "later than what is armed");
    rig.run_until(9_000);
    assert_eq!(earlier.fired_at(), [900]);
    assert_eq!(later.fired_at(), [1_200]);
    assert_eq!(other.fired_at(), [5_000]);
    assert!(slice.fired_at().is_empty());
}

/// case 4: the cancel of another timer does not write the device for the lazy timer either; the interrupt of the
/// armed event evaluates.
pub fn a_cancel_behind_a_lazy_timer_writes_nothing<H: Host>() {
    let (rig, slice, other) = armed_at_1000::<H>();
    rig.on(0, || slice.start(at(6_000)));
    let writes = rig.device_writes(0);
    rig.on(0, || assert!(other.cancel()));
    assert_eq!(rig.device_writes(0), writes);
    rig.run_until(1_000);
    assert_eq!(rig.fires_at(0), Some(6_000));
    rig.run_until(9_000);
    assert_eq!(slice.fired_at(), [6_000]);
}

/// LAZY-3d: the hint that a cancel leaves behind lets the next start of the same timer be lazy too.
pub fn a_start_after_a_lazy_cancel_is_lazy<H: Host>() {
    let (rig, slice, _other) = armed_at_1000::<H>();
    let writes = rig.device_writes(0);
    let evaluations = rig.stats(0).evaluations;
    for later in [1_000, 2_000, 7_000] {
        rig.on(0, || {
            assert!(slice.cancel());
            slice.start(at(later));
        });
        rig.check();
    }
    assert_eq!(rig.device_writes(0), writes);
    assert_eq!(rig.stats(0).evaluations, evaluations);
}

/// Change 10, LAZY-5: a thousand restarts cost no write and one interrupt without a due timer, and no timer is late.
pub fn a_thousand_restarts_cost_one_interrupt<H: Host>() {
    let (rig, slice, other) = armed_at_1000::<H>();
    let writes = rig.device_writes(0);
    for step in 1..=1_000 {
        rig.on(0, || slice.start(at(1_000 + step * 10)));
    }
    assert_eq!(rig.device_writes(0), writes);
    rig.run_until(20_000);
    assert_eq!(slice.fired_at(), [11_000]);
    assert_eq!(other.fired_at(), [5_000]);
    assert_eq!(rig.stats(0).spurious, 1);
}

/// ORACLE-12, LAZY-5, A6: there are never more interrupts without a due timer than lazy episodes, and no timer is late.
pub fn lazy_episodes_bound_the_interrupts_for_nothing<H: Host>() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let rig = Rig::<H>::new(1);
        let lazies = [lazy(&rig), lazy(&rig)];
        let exact: Vec<_> = (0..3).map(|_| TestTimer::once(&rig)).collect();
        let mut episodes = 0;
        for _ in 0..60 {
            rig.on(0, || {
                let when = rig.now() + random.between(100, 5_000);
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
            rig.check();
            rig.run_until(rig.now() + random.between(0, 2_000));
            assert!(rig.stats(0).spurious <= episodes, "seed {seed}");
        }
    }
}

fn lazy_on<H: Host, T: ClockId>(rig: &Rig<H>) {
    let timer = TestTimer::<H, T>::with_setup(rig, Setup::new().lazy(), |_| Restart::No);
    let offset = rig.offset(T::CLOCK);
    rig.on(0, || timer.start(at_on(offset + 5_000)));
    rig.on(0, || timer.start(at_on(offset + 2_000)));
    assert_eq!(rig.fires_at(0), Some(2_000), "earlier");
    rig.on(0, || timer.start(at_on(offset + 9_000)));
    assert_eq!(rig.fires_at(0), Some(9_000), "later: exact, not lazy");
    rig.check();
}

/// LAZY-4, B18: on clocks with an offset laziness has no effect, because the armed value is monotonic.
pub fn timers_of_other_clocks_are_exact<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, WALL);
    lazy_on::<H, Realtime>(&rig);
    lazy_on::<H, Boottime>(&rig);
    lazy_on::<H, Tai>(&rig);
}

/// laziness has no effect in the soft stage, which has an armed value of its own.
pub fn timers_of_the_soft_stage_are_exact<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::with_setup(&rig, Setup::new().stage(Stage::Soft).lazy(), |_| {
        Restart::No
    });
    rig.on(0, || {
        timer.start(at(1_000));
        timer.start(at(4_000));
    });
    assert_eq!(rig.fires_at(0), Some(4_000));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [4_000]);
    assert_eq!(rig.stats(0).spurious, 0);
}

/// REARM-7: a lazy cancel does not mark an owed rearm as stale.
pub fn a_lazy_cancel_leaves_an_owed_rearm_fresh<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (due, slice) = (TestTimer::once(&rig), lazy(&rig));
    rig.on(0, || {
        due.start(at(1_000));
        slice.start(at(5_000));
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.on(0, || assert!(slice.cancel()));
    assert!(!rig.dump().contains("owed, stale"));
    rig.leave_interrupt(0);
    assert_eq!(rig.fires_at(0), Some(5_000), "too early, which is allowed");
    rig.run_until(9_000);
    assert_eq!(rig.stats(0).spurious, 1);
}

/// LAZY-7: a CPU that is about to sleep arms its device exactly, so the old event of a cancelled lazy timer does not
/// wake it.
pub fn a_cpu_that_sleeps_is_not_woken_for_a_lazy_timer_that_went<H: Host>() {
    for is_moved in [false, true] {
        let (rig, slice, other) = armed_at_1000::<H>();
        rig.on(0, || {
            if is_moved {
                slice.start(at(7_000));
            } else {
                assert!(slice.cancel());
            }
            let armed = rig.timers().settle_armed(CpuId(0));
            assert_eq!(armed, Instant::from_nanos(5_000));
        });
        let writes = rig.device_writes(0);
        rig.on(0, || rig.timers().settle_armed(CpuId(0)));
        assert_eq!(rig.device_writes(0), writes, "it is exact");
        rig.run_until(5_000);
        assert_eq!(other.fired_at(), [5_000]);
        assert_eq!(rig.stats(0).spurious, 0);
    }
}

/// LAZY-7: a timer that leaves the device early costs one write in all, however often it is started and cancelled
/// alone, far or near. A CPU that sleeps afterwards is not woken for that timer.
pub fn a_timer_that_leaves_early_is_started_and_cancelled_for_one_write<H: Host>() {
    for ahead in [900_000, 900_000_000] {
        let rig = Rig::<H>::new(1);
        let early = TestTimer::with_setup(&rig, Setup::new().leaving_early(), |_| Restart::No);
        let other = TestTimer::once(&rig);
        let first = 100_000 + ahead;
        for round in 0..100 {
            rig.on(0, || {
                early.start(at(first + round));
                assert!(early.cancel());
            });
        }
        assert_eq!(rig.device_writes(0), 1);
        assert_eq!(rig.fires_at(0), Some(first), "as it was started first");
        rig.on(0, || other.start(at(first + 5_000)));
        assert_eq!(rig.device_writes(0), 1, "it fires before");
        rig.on(0, || {
            let armed = rig.timers().settle_armed(CpuId(0));
            assert_eq!(armed, Instant::from_nanos(first + 5_000));
        });
        rig.run_until(first + 9_000);
        assert_eq!(other.fired_at(), [first + 5_000]);
        assert_eq!(rig.stats(0).spurious, 0);
        rig.check();
    }
}

/// LAZY-7: a timer that leaves the device early fires exactly after it was pushed out; when it is brought forward, the
/// device is written.
pub fn a_timer_that_leaves_early_fires_exactly<H: Host>() {
    for ahead in [900_000, 900_000_000] {
        let rig = Rig::<H>::new(1);
        let early = TestTimer::with_setup(&rig, Setup::new().leaving_early(), |_| Restart::No);
        rig.on(0, || early.start(at(ahead)));
        rig.on(0, || early.start(at(ahead + 70_000)));
        assert_eq!(rig.fires_at(0), Some(ahead), "left early");
        rig.on(0, || early.start(at(ahead - 70_000)));
        assert_eq!(rig.fires_at(0), Some(ahead - 70_000));
        rig.on(0, || early.start(at(ahead + 70_000)));
        rig.run_until(ahead + 90_000);
        assert_eq!(early.fired_at(), [ahead + 70_000]);
        assert_eq!(rig.stats(0).spurious, 1);
        rig.check();
    }
}

/// LAZY-7, REARM-7: while a rearm is owed, a CPU that is about to sleep marks the rearm as stale instead, and the flush
/// is the only write.
pub fn a_lazy_cancel_before_a_sleep_makes_an_owed_rearm_exact<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [due, other] = [(); 2].map(|()| TestTimer::once(&rig));
    let slice = lazy(&rig);
    rig.on(0, || {
        due.start(at(1_000));
        slice.start(at(5_000));
        other.start(at(8_000));
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.on(0, || {
        assert!(slice.cancel());
        rig.timers().settle_armed(CpuId(0));
    });
    rig.leave_interrupt(0);
    assert_eq!(rig.fires_at(0), Some(8_000));
    rig.run_until(8_000);
    assert_eq!(other.fired_at(), [8_000]);
    assert_eq!(rig.stats(0).spurious, 0);
}

crate::kit::cases!(lazy:
    moving_later_costs_one_interrupt_instead_of_a_write,
    moving_earlier_than_the_armed_event_is_written,
    a_cancel_leaves_the_device_for_others,
    a_cancel_behind_a_lazy_timer_writes_nothing,
    a_start_after_a_lazy_cancel_is_lazy,
    a_thousand_restarts_cost_one_interrupt,
    lazy_episodes_bound_the_interrupts_for_nothing,
    timers_of_other_clocks_are_exact [CLOCKS],
    timers_of_the_soft_stage_are_exact [SOFT],
    a_lazy_cancel_leaves_an_owed_rearm_fresh [PATHS],
    a_cpu_that_sleeps_is_not_woken_for_a_lazy_timer_that_went,
    a_timer_that_leaves_early_is_started_and_cancelled_for_one_write,
    a_timer_that_leaves_early_fires_exactly,
    a_lazy_cancel_before_a_sleep_makes_an_owed_rearm_exact [PATHS],
);
