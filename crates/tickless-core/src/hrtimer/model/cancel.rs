//! Loom cases of a thread that cancels a timer while a CPU fires it.

use std::boxed::Box;
use std::sync::Arc;

use tickless_link::sync::{AtomicBool, Ordering};

use crate::base::TryCancel;
use crate::base::model::{Count, TWO, Touched, at, be, explore, machine, on, once, pending};
use crate::cpu::CpuId;
use crate::hrtimer::{Expired, HrTimer, Restart};
use crate::time::{Instant, Monotonic};

/// CPU 0 runs the callback, which restarts the timer by its answer, while CPU 1 cancels the timer. In either
/// order the cancel finds the timer active. When the cancel returns, the timer is not queued and its callback does not
/// run.
fn cancel_against_a_callback_that_goes_on<const SLEEPS: bool>() {
    explore(TWO, [0, 1], || {
        let machine = machine::<SLEEPS>(2);
        let inside = Arc::new(AtomicBool::new(false));
        let runs = Count::default();
        let timer = Arc::pin(HrTimer::new({
            let (inside, runs) = (Arc::clone(&inside), runs.clone());
            let touched = Touched::default();
            move |expired: &mut Expired<'_, '_, Monotonic>| {
                // Relaxed: the core has to order the thread that cancels.
                inside.store(true, Ordering::Relaxed);
                touched.touch();
                runs.add();
                inside.store(false, Ordering::Relaxed);
                expired.set_deadline(Instant::from_nanos(9_000));
                Restart::Yes
            }
        }));
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(500));
        let canceller = {
            let (timer, inside) = (timer.clone(), Arc::clone(&inside));
            on(&machine, Some(1), move |timers| {
                assert!(timer.as_ref().cancel(timers), "it was pending all the time");
                assert!(!timer.is_active());
                assert!(!inside.load(Ordering::Relaxed), "INV-10");
            })
        };
        let _turn = machine.interrupt(CpuId(0));
        canceller.join().unwrap();
        assert!(!timer.is_active());
        assert_eq!(pending(&machine, 2), 0);
        runs.get()
    });
}

#[test]
fn cancel_by_polling_against_a_callback_that_goes_on() {
    cancel_against_a_callback_that_goes_on::<false>();
}

#[test]
fn cancel_by_sleeping_against_a_callback_that_goes_on() {
    cancel_against_a_callback_that_goes_on::<true>();
}

/// Spec CAN-6. CPU 0 has two callbacks to run. A canceller that sleeps until the first callback has finished acquires
/// the lock before or after the second callback, and never sleeps for ever.
#[test]
fn a_sleeping_canceller_against_a_runner_with_more_to_do() {
    // Before the first, between the two, after both: only the first case takes the timer.
    let outcomes = [(true, 1), (false, 1), (false, 2)];
    explore(TWO, outcomes, || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let (first, second) = (once(&runs), once(&runs));
        be(Some(0));
        let _ = first.as_ref().start(&machine, at(500));
        let _ = second.as_ref().start(&machine, at(600));
        let canceller = {
            let (first, runs) = (first.clone(), runs.clone());
            on(&machine, Some(1), move |timers| {
                let was_queued = first.as_ref().cancel(timers);
                let runs = runs.get();
                assert!(!first.is_active());
                (was_queued, runs)
            })
        };
        let _turn = machine.interrupt(CpuId(0));
        let (was_queued, seen) = canceller.join().unwrap();
        assert!(!second.is_active());
        assert_eq!(runs.get(), if was_queued { 1 } else { 2 });
        (was_queued, seen.max(1))
    });
}

/// Spec CAN-1, OBJ-15. A thread that tries to cancel gets the true state: the timer was removed before the callback
/// began, its callback is running, or its callback has finished.
#[test]
fn a_try_to_cancel_against_a_callback() {
    let outcomes = [
        (TryCancel::Removed as u8, 0),
        (TryCancel::Running as u8, 1),
        (TryCancel::NotActive as u8, 1),
    ];
    explore(TWO, outcomes, || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let timer = once(&runs);
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(500));
        let canceller = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                timer.as_ref().try_cancel(timers)
            })
        };
        let _turn = machine.interrupt(CpuId(0));
        let answer = canceller.join().unwrap();
        assert_eq!(pending(&machine, 2), 0);
        (answer as u8, runs.get())
    });
}

/// CAN-1. The callback of a timer finishes without a restart while the owner of the timer cancels it and frees it at
/// once. The library does not touch the timer after the owner saw it idle.
#[test]
fn a_callback_ends_against_its_owner_that_frees_it() {
    explore(TWO, [0, 1], || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let counted = runs.clone();
        let timer = Box::pin(HrTimer::new(move |_: &mut Expired<'_, '_, Monotonic>| {
            counted.add();
            Restart::No
        }));
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(500));
        let owner = on(&machine, Some(1), move |timers| {
            timer.as_ref().cancel(timers);
            drop(timer);
        });
        let _turn = machine.interrupt(CpuId(0));
        owner.join().unwrap();
        assert_eq!(pending(&machine, 2), 0);
        runs.get()
    });
}

/// Spec LOC-8, CAN-1. CPU 1 restarts a pending timer of CPU 0 and so moves it, while CPU 0 cancels it. The timer is
/// pending all the time, so the cancel removes it from the base on which it is. The start may happen afterwards and
/// queue the timer again.
#[test]
fn a_journey_against_a_cancel() {
    explore(TWO, [0, 1], || {
        let machine = machine::<false>(2);
        let timer = once(&Count::default());
        be(Some(0));
        let _ = timer.as_ref().start(&machine, at(4_000));
        let taker = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                let _ = timer.as_ref().start(timers, at(5_000));
            })
        };
        assert!(
            timer.as_ref().cancel(&machine),
            "it was pending all the time"
        );
        taker.join().unwrap();
        let left = pending(&machine, 2);
        assert_eq!(machine.pending(CpuId(0)), 0);
        assert_eq!(timer.as_ref().cancel(&machine), left == 1);
        left
    });
}
