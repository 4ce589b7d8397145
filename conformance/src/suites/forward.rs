//! Cases about periodic timers (spec ). The unit tests of the core test the arithmetic with vectors and
//! properties.

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::time::{Instant, Monotonic, Realtime, Span};

use crate::prelude::*;
use crate::suite::{at, at_on};
use crate::{Host, Rig, TestTimer};

type Overruns = Rc<RefCell<Vec<u64>>>;

/// Makes a timer that restarts every 10 µs and notes the number of intervals of each restart.
fn periodic<H: Host>(rig: &Rig<H>) -> (TestTimer<H>, Overruns) {
    let overruns = Overruns::default();
    let timer = {
        let overruns = Rc::clone(&overruns);
        TestTimer::new(rig, move |expired| {
            let intervals = expired.forward_now(Span::from_micros(10));
            overruns.borrow_mut().push(intervals);
            Restart::Yes
        })
    };
    (timer, overruns)
}

/// T3, FWD-1: the next deadline is the previous deadline plus the period, not the present time plus the period.
pub fn a_period_keeps_its_phase<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (timer, overruns) = periodic(&rig);
    rig.on(0, || timer.start(at(3_000)));
    rig.run_until(45_000);
    assert_eq!(timer.fired_at(), [3_000, 13_000, 23_000, 33_000, 43_000]);
    assert_eq!(*overruns.borrow(), [1; 5]);
}

/// FWD-1, FWD-2: periods that passed while the CPU could not react are counted, and the phase of the timer stays.
pub fn periods_that_passed_are_counted<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (timer, overruns) = periodic(&rig);
    rig.on(0, || timer.start(at(10_000)));
    rig.set_masked(0, true);
    rig.spend(40_000);
    rig.set_masked(0, false);
    assert_eq!(
        *overruns.borrow(),
        [4],
        "an exact multiple: 10, 20, 30 and 40 are over"
    );
    assert_eq!(timer.deadline(), Some(50_000));
    rig.run_until(55_000);
    assert_eq!(timer.fired_at(), [40_000, 50_000]);
}

/// FWD-3, B41: a tiny interval and an old deadline cost one addition in all, not one step for each interval.
pub fn a_tiny_interval_and_an_old_deadline_cost_nothing<H: Host>() {
    let rig = Rig::<H>::new(1);
    rig.set_wall(0, 1_700_000_000_000_000_000);
    let overruns = Overruns::default();
    let timer = {
        let overruns = Rc::clone(&overruns);
        TestTimer::<H, Realtime>::with_setup(&rig, Setup::new(), move |expired| {
            overruns.borrow_mut().push(expired.forward_now(Span::ZERO));
            Restart::No
        })
    };
    rig.on(0, || timer.start(at_on(0)));
    rig.run_until(1_000);
    assert_eq!(overruns.borrow().len(), 1);
    assert!(overruns.borrow()[0] >= 1_700_000_000_000_000_000);
}

/// FWD-1: the time that `forward` is given decides, not the time of the pass.
pub fn a_forward_to_an_earlier_time_changes_nothing<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::new(&rig, |expired| {
        let deadline = expired.deadline();
        assert_eq!(expired.forward(Instant::ZERO, Span::from_nanos(10)), 0);
        assert_eq!(expired.deadline(), deadline);
        assert_eq!(expired.forward(deadline, Span::from_nanos(10)), 1);
        assert_eq!(
            expired.deadline(),
            deadline.saturating_add(Span::from_nanos(10))
        );
        Restart::No
    });
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(2_000);
    assert_eq!(timer.fired_at(), [1_000]);
}

/// FWD-4: a period that ends after the end of time ends at the end of time.
pub fn a_period_beyond_the_end_of_time_saturates<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::new(&rig, |expired| {
        expired.forward_now(Span::MAX);
        Restart::Yes
    });
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(2_000);
    assert_eq!(
        timer.deadline(),
        Some(Instant::<Monotonic>::LATEST.as_nanos())
    );
    rig.check();
}

crate::kit::cases!(forward:
    a_period_keeps_its_phase,
    periods_that_passed_are_counted,
    a_tiny_interval_and_an_old_deadline_cost_nothing [CLOCKS],
    a_forward_to_an_earlier_time_changes_nothing,
    a_period_beyond_the_end_of_time_saturates,
);
