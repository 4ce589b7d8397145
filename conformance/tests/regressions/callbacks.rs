//! Races of callbacks with starts and cancels (spec ), and expiries that change in a queue (spec ).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_conformance::suite::{at, at_on, moves};
use tickless_conformance::{Host, Rig, TestTimer, all_configs};
use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::time::{Realtime, Span};

/// B30: another CPU starts the timer twice while its callback takes long. Neither start makes the core forget that the
/// callback runs: the timer stays on its CPU, and two CPUs never run its callback at once.
fn b30_two_starts_during_a_callback_do_not_hide_it<H: Host>() {
    let rig = Rig::<H>::new(3);
    let depth = Rc::new(Cell::new(0));
    let timer = {
        let (rig, depth) = (rig.clone(), Rc::clone(&depth));
        let mut runs = 0;
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            assert_eq!(depth.replace(1), 0, "one callback at a time");
            runs += 1;
            if runs == 1 {
                for (cpu, deadline) in [(1, 1_100), (2, 1_050), (1, 1_200)] {
                    rig.on(cpu, || own.start(at(deadline)));
                    assert_eq!(own.cpu(), Some(0));
                    assert!(own.state().is_running() && own.state().is_queued());
                    // Were it elsewhere, this would run it a second time.
                    rig.spend(500);
                    for other in [1, 2] {
                        let _turn = rig.on(other, || rig.enter_interrupt(other));
                        rig.leave_interrupt(other);
                    }
                }
            }
            depth.set(0);
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.take_trace();
    rig.run_until(10_000);
    assert_eq!(timer.fired_at().len(), 2);
    assert_eq!(moves(&rig.take_trace()), []);
}

/// B34: a caller ignores the answer "it runs" of a cancel, and starts the timer for another purpose. The start works
/// like any other.
fn b34_a_timer_that_could_not_be_cancelled_can_be_started<H: Host>() {
    let rig = Rig::<H>::new(2);
    let answer = Rc::new(Cell::new(None));
    let timer = {
        let (rig, answer) = (rig.clone(), Rc::clone(&answer));
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            if answer.get().is_none() {
                answer.set(Some(rig.on(1, || own.try_cancel())));
                rig.on(1, || own.start(at(7_000)));
            }
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(10_000);
    assert_eq!(answer.get(), Some(TryCancel::Running));
    assert_eq!(timer.fired_at(), [1_000, 7_000]);
    assert!(!timer.is_active());
    rig.check();
}

/// B42: when billions of periods were missed, the count contains all of them and is not negative.
fn b42_billions_of_missed_periods_are_counted<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_700_000_000_000_000_000);
    let counts = Rc::new(RefCell::new(Vec::new()));
    let timer = {
        let counts = Rc::clone(&counts);
        TestTimer::<H, Realtime>::with_setup(&rig, Setup::new(), move |expired| {
            counts
                .borrow_mut()
                .push(expired.forward_now(Span::from_nanos(100)));
            Restart::No
        })
    };
    rig.on(0, || timer.start(at_on(50)));
    rig.run_until(1_000);
    let count = counts.borrow()[0];
    assert!(count >= 17_000_000_000_000_000, "{count}");
    assert!(i32::try_from(count).is_err());
}

/// B61, B65: only a start changes the expiry of a queued timer, and the start moves the timer. The timers around it
/// stay in order and fire, whatever is done and however often.
fn b61_a_new_expiry_of_a_queued_timer_loses_no_other<H: Host>() {
    let rig = Rig::<H>::new(2);
    let others: Vec<_> = (1..=9)
        .map(|n| (n * 1_000, TestTimer::once(&rig)))
        .collect();
    for (deadline, other) in &others {
        rig.on(0, || other.start(at(*deadline)));
    }
    let moving = TestTimer::once(&rig);
    for (cpu, deadline) in [
        (0, 9_500),
        (0, 500),
        (0, 4_500),
        (1, 4_400),
        (0, 8_500),
        (0, 5_500),
    ] {
        rig.on(cpu, || moving.start(at(deadline)));
        rig.check();
    }
    rig.run_until(20_000);
    for (deadline, other) in &others {
        assert_eq!(other.fired_at(), [*deadline]);
    }
    assert_eq!(moving.fired_at(), [5_500]);
}

all_configs!(
    b30_two_starts_during_a_callback_do_not_hide_it,
    b34_a_timer_that_could_not_be_cancelled_can_be_started,
    b42_billions_of_missed_periods_are_counted,
    b61_a_new_expiry_of_a_queued_timer_loses_no_other,
);
