//! Cases about the soft stage, which runs after the interrupt (spec ).

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{HrTimer, Restart, Setup, Stage, Start};
use tickless_core::platform::{CpuId, Waiting};
use tickless_core::time::{Instant, Monotonic, Realtime, Span};

use crate::prelude::*;
use crate::suite::{at, at_on, rearms};
use crate::{Host, Interrupted, Rig, Schedule, TestTimer};

const SOFT: Setup = Setup::new().stage(Stage::Soft);
const WALL: i64 = 1_700_000_000_000_000_000;

fn soft<H: Host>(rig: &Rig<H>) -> TestTimer<H> {
    TestTimer::with_setup(rig, SOFT, |_| Restart::No)
}

/// SOFT-1: the interrupt raises the soft stage and does not run it; hard timers with the same deadline fire first.
pub fn soft_timers_run_behind_hard_ones<H: Host>() {
    let rig = Rig::<H>::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |what: &'static str, setup| {
        let order = Rc::clone(&order);
        TestTimer::with_setup(&rig, setup, move |_| {
            order.borrow_mut().push(what);
            Restart::No
        })
    };
    let (soft, hard) = (note("soft", SOFT), note("hard", Setup::new()));
    rig.on(0, || {
        soft.start(at(1_000));
        hard.start(at(1_000));
    });
    rig.spend(1_000);
    let turn = rig.enter_interrupt(0);
    assert!(turn.soft_raised && rig.is_soft_raised(0));
    assert_eq!(*order.borrow(), ["hard"]);
    rig.leave_interrupt(0);
    assert_eq!(*order.borrow(), ["hard", "soft"]);
}

/// SOFT-3: a soft timer that is the first event programs the device. Any other soft timer only changes the time of the
/// soft stage.
pub fn a_soft_timer_programs_the_device_when_it_is_first<H: Host>() {
    let rig = Rig::<H>::new(1);
    let hard = TestTimer::once(&rig);
    let [first, second] = [(); 2].map(|()| soft(&rig));
    rig.on(0, || first.start(at(5_000)));
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.on(0, || hard.start(at(2_000)));
    let writes = rig.device_writes(0);
    rig.on(0, || second.start(at(3_000)));
    assert_eq!(rig.device_writes(0), writes);
    assert!(rig.dump().contains(".soft_next      : 3000 nsecs"));
    rig.run_until(9_000);
    assert_eq!(second.fired_at(), [3_000]);
    assert_eq!(first.fired_at(), [5_000]);
    assert_eq!(hard.fired_at(), [2_000]);
}

/// SOFT-2: at its end the soft stage evaluates its timers again and arms the device for the first, even if that has the
/// time of the next hard timer.
pub fn the_end_of_the_soft_stage_arms_for_what_is_left<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [due, next, twin] = [(); 3].map(|()| soft(&rig));
    let hard = TestTimer::once(&rig);
    rig.on(0, || {
        due.start(at(1_000));
        next.start(at(2_000));
        twin.start(at(7_000));
        hard.start(at(7_000));
    });
    rig.run_until(1_000);
    assert_eq!(rig.fires_at(0), Some(2_000));
    rig.run_until(2_000);
    assert_eq!(rig.fires_at(0), Some(7_000));
    assert!(rig.dump().contains(".soft_next      : 7000 nsecs"));
    let interrupts = rig.stats(0).interrupts;
    rig.run_until(9_000);
    assert_eq!(next.fired_at(), [2_000]);
    assert_eq!(
        (twin.fired_at(), hard.fired_at()),
        (vec![7_000], vec![7_000])
    );
    assert_eq!(rig.stats(0).interrupts - interrupts, 1);
}

/// SOFT-3: while the soft stage is pending, a start of a soft timer writes no device. The stage fires the timer if it
/// is due, and otherwise arms for it at its end.
pub fn a_start_while_the_stage_is_pending_waits_for_its_end<H: Host>() {
    let rig = Rig::<H>::new(1);
    let due_too = Rc::new(soft(&rig));
    let later = Rc::new(soft(&rig));
    let first = {
        let (rig, due_too, later) = (rig.clone(), Rc::clone(&due_too), Rc::clone(&later));
        TestTimer::with_setup(&rig.clone(), SOFT, move |_| {
            let writes = rig.device_writes(0);
            due_too.start(at(900));
            later.start(at(3_000));
            assert_eq!(rig.device_writes(0), writes);
            Restart::No
        })
    };
    rig.on(0, || first.start(at(1_000)));
    rig.run_until(1_000);
    assert_eq!(due_too.fired_at(), [1_000], "in the same run of the stage");
    assert_eq!(rig.fires_at(0), Some(3_000));
    rig.run_until(9_000);
    assert_eq!(later.fired_at(), [3_000]);
}

/// SOFT-3: the soft stage is pending from the interrupt until it runs.
pub fn a_start_between_interrupt_and_stage_is_run_by_the_stage<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (due, started) = (soft(&rig), soft(&rig));
    rig.on(0, || due.start(at(1_000)));
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.on(0, || started.start(at(950)));
    rig.leave_interrupt(0);
    assert_eq!(started.fired_at(), [1_000]);
    rig.check();
}

/// SOFT-4, LOC-13: the soft stage of another CPU takes a soft timer that is pushed to that CPU into account, without a
/// kick.
pub fn a_soft_timer_pushed_to_another_cpu_is_on_time<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_idleness(1, false, true);
    rig.set_busy(Some(0));
    let (hard, pushed) = (TestTimer::once(&rig), soft(&rig));
    rig.on(0, || hard.start(at(2_000)));
    rig.on(1, || pushed.start(at(5_000)));
    assert_eq!(pushed.cpu(), Some(0));
    assert!(!rig.is_kicked(0));
    assert!(rig.dump().contains(".soft_next      : 5000 nsecs"));
    rig.run_until(9_000);
    assert_eq!(pushed.fired_at(), [5_000]);
}

/// SOFT-5, B20: a soft stage that runs while a rearm is owed marks the rearm as stale.
pub fn a_stage_that_runs_before_the_flush_marks_it_stale<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [due, next] = [(); 2].map(|()| soft(&rig));
    let hard = TestTimer::once(&rig);
    rig.on(0, || {
        due.start(at(1_000));
        next.start(at(3_000));
        hard.start(at(9_000));
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    // A host without FLUSH-4.
    let turn = rig.on(0, || rig.timers().soft_interrupt(CpuId(0)));
    assert_eq!((turn.fired, turn.next.as_nanos()), (1, 3_000));
    rig.flush(0, Flush::UserExit);
    rig.check();
    assert_eq!(rig.fires_at(0), Some(3_000));
    rig.leave_interrupt(0);
    rig.run_until(20_000);
    assert_eq!(next.fired_at(), [3_000]);
    assert_eq!(hard.fired_at(), [9_000]);
}

/// Q-21, B45: the time of the soft stage is updated even if a hard timer is first. A soft timer that a clock set made
/// due therefore fires with the interrupt of the hard timer.
pub fn the_time_of_the_stage_is_refreshed_behind_a_hard_timer<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, WALL);
    let real = TestTimer::<H, Realtime>::with_setup(&rig, SOFT, |_| Restart::No);
    let hard = TestTimer::once(&rig);
    rig.on(0, || {
        hard.start(at(10_000));
        real.start(at_on(WALL + 100_000));
    });
    rig.set_wall(0, WALL + 90_000);
    rig.check();
    assert!(rig.dump().contains(".soft_next      : 10000 nsecs"));
    rig.run_until(10_000);
    assert_eq!(hard.fired_at(), [10_000]);
    assert_eq!(real.fired_at(), [WALL + 100_000]);
    assert_eq!(rig.stats(0).interrupts, 1);
}

/// Q-21, B45: a hard timer is always in front of the soft timer, and the soft timer is found due nevertheless.
pub fn a_soft_timer_behind_hard_ones_is_raised_in_time<H: Host>() {
    let rig = Rig::<H>::new(1);
    let soft = soft(&rig);
    let hard = TestTimer::new(&rig, |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        Restart::Yes
    });
    rig.on(0, || {
        hard.start(at(1_000));
        soft.start(at(20_000));
        soft.start(at(8_000));
    });
    let interrupts = rig.stats(0).interrupts;
    rig.run_until(8_500);
    assert_eq!(soft.fired_at(), [8_000]);
    assert_eq!(
        rig.stats(0).interrupts - interrupts,
        8,
        "each of them for the hard timer"
    );
}

/// an interrupt with soft work flushes before the soft work, and writes the device again after it if the soft
/// stage leaves an earlier event.
pub fn an_interrupt_with_soft_work_writes_before_and_behind_it<H: Host>() {
    let rig = Rig::<H>::new(1);
    let [due, next] = [(); 2].map(|()| soft(&rig));
    let hard = TestTimer::once(&rig);
    rig.on(0, || {
        due.start(at(1_000));
        next.start(at(3_000));
        hard.start(at(9_000));
    });
    rig.spend(1_000);
    rig.take_trace();
    rig.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(rearms(&rig.take_trace()), [(0, 9_000), (0, 3_000)]);
}

/// a soft stage whose budget is spent is raised again, and stays pending.
pub fn a_stage_with_too_much_to_do_is_raised_again<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..150).map(|_| soft(&rig)).collect();
    rig.on(0, || {
        for timer in &timers {
            timer.start(at(1_000));
        }
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.flush(0, Flush::SoftWork);
    let turn = rig.on(0, || rig.timers().soft_interrupt(CpuId(0)));
    assert_eq!(turn.fired, Rig::<H>::SOFT_BUDGET.min(150));
    assert_eq!(turn.more, Rig::<H>::SOFT_BUDGET < 150);
    assert_eq!(rig.dump().contains(".soft_pending   : 1"), turn.more);
    rig.leave_interrupt(0);
    assert!(timers.iter().all(|timer| timer.fired_at() == [1_000]));
    assert!(rig.dump().contains(".soft_pending   : 0"));
}

/// SOFT-2: a stage that was not raised does nothing.
pub fn a_stage_that_was_not_raised_does_nothing<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = soft(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.spend(2_000);
    let before = rig.stats(0);
    assert_eq!(rig.timers().soft_interrupt(CpuId(0)).fired, 0);
    assert_eq!(rig.stats(0), before);
    rig.deliver_all();
    assert_eq!(timer.fired_at(), [2_000]);
}

/// change 36: a hard timer interrupts the soft stage, where callbacks can be interrupted.
pub fn a_hard_timer_interrupts_the_stage<H: Host>() {
    if Rig::<H>::WAITING == Waiting::Sleep {
        return;
    }
    let rig = Rig::<H>::new(1);
    let hard = TestTimer::once(&rig);
    let long = {
        let rig = rig.clone();
        TestTimer::with_setup(&rig.clone(), SOFT, move |_| {
            for _ in 0..10 {
                rig.spend(1_000);
                rig.deliver_due(0);
            }
            Restart::No
        })
    };
    let behind = soft(&rig);
    rig.on(0, || {
        long.start(at(1_000));
        behind.start(at(1_000));
        hard.start(at(4_000));
    });
    rig.run_until(20_000);
    assert_eq!(hard.fired_at(), [4_000]);
    assert_eq!(behind.fired_at(), [11_000]);
}

/// OBJ-4: a timer whose setup names no stage gets the stage that the host prefers.
pub fn the_host_chooses_the_default_stage<H: Host>() {
    let rig = Rig::<H>::new(1);
    for (stage, soft_by_default, queue) in [
        (Stage::Default, false, 0),
        (Stage::Default, true, 4),
        (Stage::Hard, true, 0),
        (Stage::Soft, false, 4),
    ] {
        let timer = Box::pin(HrTimer::<_, Monotonic>::with_setup(
            Setup::new().stage(stage),
            soft_by_default,
            |_| Restart::No,
        ));
        rig.on(0, || {
            let start = Start::at(Instant::from_nanos(1_000));
            let _ = timer.as_ref().start(rig.timers(), start);
        });
        let dump = rig.dump();
        let (before, _) = dump.split_once(" #0:").expect("one timer");
        assert!(
            before.ends_with(&format!(
                "  .offset:     0 nsecs\n  .clock:      CLOCK_MONOTONIC\n  .stage:      {}\nactive timers:\n",
                if queue == 4 { "soft" } else { "hard" }
            )),
            "{stage:?} {before}"
        );
        rig.on(0, || timer.as_ref().cancel(rig.timers()));
    }
}

crate::kit::cases!(soft:
    soft_timers_run_behind_hard_ones [SOFT, PATHS],
    a_soft_timer_programs_the_device_when_it_is_first [SOFT],
    the_end_of_the_soft_stage_arms_for_what_is_left [SOFT],
    a_start_while_the_stage_is_pending_waits_for_its_end [SOFT],
    a_start_between_interrupt_and_stage_is_run_by_the_stage [SOFT, PATHS],
    a_soft_timer_pushed_to_another_cpu_is_on_time [CPUS, SOFT, PLACEMENT],
    a_stage_that_runs_before_the_flush_marks_it_stale [SOFT, PATHS],
    the_time_of_the_stage_is_refreshed_behind_a_hard_timer [SOFT, CLOCKS],
    a_soft_timer_behind_hard_ones_is_raised_in_time [SOFT],
    an_interrupt_with_soft_work_writes_before_and_behind_it [SOFT, PATHS, TRACE],
    a_stage_with_too_much_to_do_is_raised_again [SOFT, PATHS],
    a_stage_that_was_not_raised_does_nothing [SOFT],
    a_hard_timer_interrupts_the_stage [SOFT, PATHS],
    the_host_chooses_the_default_stage [SOFT],
);
