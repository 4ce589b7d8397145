//! The soft stage behind the interrupt (spec 3.9).

use std::cell::RefCell;
use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{HrTimer, Restart, Setup, Stage, Start};
use tickless_core::platform::{CpuId, Waiting};
use tickless_core::time::{Instant, Monotonic, Realtime, Span};
use tickless_rig::suite::{at, at_on, rearms};
use tickless_rig::{Config, Interrupted, Machine, Schedule, TestTimer, all_configs};

const SOFT: Setup = Setup::new().stage(Stage::Soft);
const WALL: i64 = 1_700_000_000_000_000_000;

fn soft<C: Config>(machine: &Machine<C>) -> TestTimer<C> {
    TestTimer::with_setup(machine, SOFT, |_| Restart::No)
}

/// SOFT-1: the interrupt raises the soft stage and does not run it; hard timers of the same time come first.
fn soft_timers_run_behind_hard_ones<C: Config>() {
    let machine = Machine::<C>::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |what: &'static str, setup| {
        let order = Rc::clone(&order);
        TestTimer::with_setup(&machine, setup, move |_| {
            order.borrow_mut().push(what);
            Restart::No
        })
    };
    let (soft, hard) = (note("soft", SOFT), note("hard", Setup::new()));
    machine.on(0, || {
        soft.start(at(1_000));
        hard.start(at(1_000));
    });
    machine.spend(1_000);
    let turn = machine.enter_interrupt(0);
    assert!(turn.soft_raised && machine.is_soft_raised(0));
    assert_eq!(*order.borrow(), ["hard"]);
    machine.leave_interrupt(0);
    assert_eq!(*order.borrow(), ["hard", "soft"]);
}

/// SOFT-3: a soft timer that is first programs the device; one that is not only moves the time of the soft stage.
fn a_soft_timer_programs_the_device_when_it_is_first<C: Config>() {
    let machine = Machine::<C>::new(1);
    let hard = TestTimer::once(&machine);
    let [first, second] = [(); 2].map(|()| soft(&machine));
    machine.on(0, || first.start(at(5_000)));
    assert_eq!(machine.fires_at(0), Some(5_000));
    machine.on(0, || hard.start(at(2_000)));
    let writes = machine.device_writes(0);
    machine.on(0, || second.start(at(3_000)));
    assert_eq!(machine.device_writes(0), writes);
    assert!(machine.dump().contains(".soft_next      : 3000 nsecs"));
    machine.run_until(9_000);
    assert_eq!(second.fired_at(), [3_000]);
    assert_eq!(first.fired_at(), [5_000]);
    assert_eq!(hard.fired_at(), [2_000]);
}

/// SOFT-2: at its end the soft stage counts its timers again and arms for them, also when their time equals the next
/// hard one.
fn the_end_of_the_soft_stage_arms_for_what_is_left<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [due, next, twin] = [(); 3].map(|()| soft(&machine));
    let hard = TestTimer::once(&machine);
    machine.on(0, || {
        due.start(at(1_000));
        next.start(at(2_000));
        twin.start(at(7_000));
        hard.start(at(7_000));
    });
    machine.run_until(1_000);
    assert_eq!(machine.fires_at(0), Some(2_000));
    machine.run_until(2_000);
    assert_eq!(machine.fires_at(0), Some(7_000));
    assert!(machine.dump().contains(".soft_next      : 7000 nsecs"));
    let interrupts = machine.stats(0).interrupts;
    machine.run_until(9_000);
    assert_eq!(next.fired_at(), [2_000]);
    assert_eq!(
        (twin.fired_at(), hard.fired_at()),
        (vec![7_000], vec![7_000])
    );
    assert_eq!(machine.stats(0).interrupts - interrupts, 1);
}

/// SOFT-3: while the stage is pending, a start of a soft timer leaves everything to its end.
fn a_start_while_the_stage_is_pending_waits_for_its_end<C: Config>() {
    let machine = Machine::<C>::new(1);
    let due_too = Rc::new(soft(&machine));
    let later = Rc::new(soft(&machine));
    let first = {
        let (machine, due_too, later) = (machine.clone(), Rc::clone(&due_too), Rc::clone(&later));
        TestTimer::with_setup(&machine.clone(), SOFT, move |_| {
            let writes = machine.device_writes(0);
            due_too.start(at(900));
            later.start(at(3_000));
            assert_eq!(machine.device_writes(0), writes);
            Restart::No
        })
    };
    machine.on(0, || first.start(at(1_000)));
    machine.run_until(1_000);
    assert_eq!(due_too.fired_at(), [1_000], "in the same run of the stage");
    assert_eq!(machine.fires_at(0), Some(3_000));
    machine.run_until(9_000);
    assert_eq!(later.fired_at(), [3_000]);
}

/// SOFT-3: the stage is pending from the interrupt on, before it runs.
fn a_start_between_interrupt_and_stage_is_run_by_the_stage<C: Config>() {
    let machine = Machine::<C>::new(1);
    let (due, started) = (soft(&machine), soft(&machine));
    machine.on(0, || due.start(at(1_000)));
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.on(0, || started.start(at(950)));
    machine.leave_interrupt(0);
    assert_eq!(started.fired_at(), [1_000]);
    machine.check();
}

/// SOFT-4, LOC-13: a soft timer of another CPU is known to that CPU's soft stage without a kick.
fn a_soft_timer_pushed_to_another_cpu_is_on_time<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_idleness(1, false, true);
    machine.set_busy(Some(0));
    let (hard, pushed) = (TestTimer::once(&machine), soft(&machine));
    machine.on(0, || hard.start(at(2_000)));
    machine.on(1, || pushed.start(at(5_000)));
    assert_eq!(pushed.cpu(), Some(0));
    assert!(!machine.is_kicked(0));
    assert!(machine.dump().contains(".soft_next      : 5000 nsecs"));
    machine.run_until(9_000);
    assert_eq!(pushed.fired_at(), [5_000]);
}

/// SOFT-5, B20: a soft stage that runs while a rearm is owed marks it stale.
fn a_stage_that_runs_before_the_flush_marks_it_stale<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [due, next] = [(); 2].map(|()| soft(&machine));
    let hard = TestTimer::once(&machine);
    machine.on(0, || {
        due.start(at(1_000));
        next.start(at(3_000));
        hard.start(at(9_000));
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    // A host without S4.
    let turn = machine.on(0, || machine.timers().soft_interrupt(CpuId(0)));
    assert_eq!((turn.fired, turn.next.as_nanos()), (1, 3_000));
    machine.flush(0, Flush::UserExit);
    machine.check();
    assert_eq!(machine.fires_at(0), Some(3_000));
    machine.leave_interrupt(0);
    machine.run_until(20_000);
    assert_eq!(next.fired_at(), [3_000]);
    assert_eq!(hard.fired_at(), [9_000]);
}

/// Q-21, B45: the time of the soft stage is brought up to date although a hard timer is first, so that a soft timer
/// which a clock set made due fires, with the interrupt of the hard one.
fn the_time_of_the_stage_is_refreshed_behind_a_hard_timer<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    let real = TestTimer::<C, Realtime>::with_setup(&machine, SOFT, |_| Restart::No);
    let hard = TestTimer::once(&machine);
    machine.on(0, || {
        hard.start(at(10_000));
        real.start(at_on(WALL + 100_000));
    });
    machine.set_wall(0, WALL + 90_000);
    machine.check();
    assert!(machine.dump().contains(".soft_next      : 10000 nsecs"));
    machine.run_until(10_000);
    assert_eq!(hard.fired_at(), [10_000]);
    assert_eq!(real.fired_at(), [WALL + 100_000]);
    assert_eq!(machine.stats(0).interrupts, 1);
}

/// Q-21, B45: a hard timer in front of the soft one all the time does not hide that its time has come.
fn a_soft_timer_behind_hard_ones_is_raised_in_time<C: Config>() {
    let machine = Machine::<C>::new(1);
    let soft = soft(&machine);
    let hard = TestTimer::new(&machine, |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        Restart::Yes
    });
    machine.on(0, || {
        hard.start(at(1_000));
        soft.start(at(20_000));
        soft.start(at(8_000));
    });
    let interrupts = machine.stats(0).interrupts;
    machine.run_until(8_500);
    assert_eq!(soft.fired_at(), [8_000]);
    assert_eq!(
        machine.stats(0).interrupts - interrupts,
        8,
        "each of them for the hard timer"
    );
}

/// 14.8: flush, soft work, and a write for what the soft stage leaves, if that is earlier.
fn an_interrupt_with_soft_work_writes_before_and_behind_it<C: Config>() {
    let machine = Machine::<C>::new(1);
    let [due, next] = [(); 2].map(|()| soft(&machine));
    let hard = TestTimer::once(&machine);
    machine.on(0, || {
        due.start(at(1_000));
        next.start(at(3_000));
        hard.start(at(9_000));
    });
    machine.spend(1_000);
    machine.take_trace();
    machine.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(rearms(&machine.take_trace()), [(0, 9_000), (0, 3_000)]);
}

/// a soft stage whose budget is spent is raised again, and stays pending.
fn a_stage_with_too_much_to_do_is_raised_again<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timers: Vec<_> = (0..150).map(|_| soft(&machine)).collect();
    machine.on(0, || {
        for timer in &timers {
            timer.start(at(1_000));
        }
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.flush(0, Flush::SoftWork);
    let turn = machine.on(0, || machine.timers().soft_interrupt(CpuId(0)));
    assert_eq!(turn.fired, C::EXPIRY_BUDGET.min(150));
    assert_eq!(turn.more, C::EXPIRY_BUDGET < 150);
    assert_eq!(machine.dump().contains(".soft_pending   : 1"), turn.more);
    machine.leave_interrupt(0);
    assert!(timers.iter().all(|timer| timer.fired_at() == [1_000]));
    assert!(machine.dump().contains(".soft_pending   : 0"));
}

/// SOFT-2: a stage that nobody raised does nothing.
fn a_stage_that_was_not_raised_does_nothing<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = soft(&machine);
    machine.on(0, || timer.start(at(1_000)));
    machine.spend(2_000);
    let before = machine.stats(0);
    assert_eq!(machine.timers().soft_interrupt(CpuId(0)).fired, 0);
    assert_eq!(machine.stats(0), before);
    machine.deliver_all();
    assert_eq!(timer.fired_at(), [2_000]);
}

/// 1.12, change 36: a hard timer interrupts the soft stage, where callbacks can be interrupted.
fn a_hard_timer_interrupts_the_stage<C: Config>() {
    if C::WAITING == Waiting::Sleep {
        return;
    }
    let machine = Machine::<C>::new(1);
    let hard = TestTimer::once(&machine);
    let long = {
        let machine = machine.clone();
        TestTimer::with_setup(&machine.clone(), SOFT, move |_| {
            for _ in 0..10 {
                machine.spend(1_000);
                machine.deliver_due(0);
            }
            Restart::No
        })
    };
    let behind = soft(&machine);
    machine.on(0, || {
        long.start(at(1_000));
        behind.start(at(1_000));
        hard.start(at(4_000));
    });
    machine.run_until(20_000);
    assert_eq!(hard.fired_at(), [4_000]);
    assert_eq!(behind.fired_at(), [11_000]);
}

/// OBJ-4: a timer that did not ask for a stage gets the one that the host prefers.
fn the_host_chooses_the_default_stage<C: Config>() {
    let machine = Machine::<C>::new(1);
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
        machine.on(0, || {
            let start = Start::at(Instant::from_nanos(1_000));
            machine.timers().start(timer.as_ref(), start);
        });
        let dump = machine.dump();
        let (before, _) = dump.split_once(" #0:").expect("one timer");
        assert!(
            before.ends_with(&format!(
                "{}\n  .resolution: 1 nsecs\n  .offset:     0 nsecs\nactive timers:\n",
                if queue == 4 { "soft" } else { "hard" }
            )),
            "{stage:?} {before}"
        );
        machine.on(0, || machine.timers().cancel(timer.as_ref()));
    }
}

all_configs!(
    soft_timers_run_behind_hard_ones,
    a_soft_timer_programs_the_device_when_it_is_first,
    the_end_of_the_soft_stage_arms_for_what_is_left,
    a_start_while_the_stage_is_pending_waits_for_its_end,
    a_start_between_interrupt_and_stage_is_run_by_the_stage,
    a_soft_timer_pushed_to_another_cpu_is_on_time,
    a_stage_that_runs_before_the_flush_marks_it_stale,
    the_time_of_the_stage_is_refreshed_behind_a_hard_timer,
    a_soft_timer_behind_hard_ones_is_raised_in_time,
    an_interrupt_with_soft_work_writes_before_and_behind_it,
    a_stage_with_too_much_to_do_is_raised_again,
    a_stage_that_was_not_raised_does_nothing,
    a_hard_timer_interrupts_the_stage,
    the_host_chooses_the_default_stage,
);
