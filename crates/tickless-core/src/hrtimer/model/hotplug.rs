//! Loom cases of CPUs that go offline and clocks that jump, while other CPUs use timers.

use std::pin::Pin;
use std::sync::Arc;

use tickless_link::sync::Ordering;

use crate::base::Timers;
use crate::base::model::{
    Count, Host, JUMP, THREE, TWO, armed_after_kick, at, be, explore, explore_all, going_on,
    machine, on, once, pending,
};
use crate::clock::ClockSet;
use crate::cpu::CpuId;
use crate::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use crate::time::{Instant, Realtime};

/// Spec, HP-5. CPU 1 goes offline while another thread runs the callback of one of its timers, which restarts
/// the timer. No timer stays on CPU 1, and CPU 0 is kicked.
#[test]
fn a_cpu_leaves_against_a_callback_that_goes_on() {
    explore(TWO, [(0, 500), (1, 9_000)], || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let timer = going_on(&runs, 9_000);
        be(Some(1));
        let _ = timer.as_ref().start(&machine, at(500));
        // As a driver does that expires for other threads.
        let driver = on(&machine, Some(0), |timers| {
            let _turn = timers.interrupt(CpuId(1));
        });
        machine.cpu_offline(CpuId(1));
        driver.join().unwrap();
        assert_eq!(machine.pending(CpuId(1)), 0);
        assert_eq!(timer.as_ref().cpu(&machine), Some(CpuId(0)));
        assert_eq!(pending(&machine, 2), 1);
        let armed = armed_after_kick(&machine);
        assert!(timer.as_ref().cancel(&machine));
        (runs.get(), armed)
    });
}

/// Spec, HP-5. CPU 1 goes offline while another thread runs the callbacks of two of its timers. A canceller
/// sleeps until the first callback has finished, so that the leaving CPU can acquire the lock between the two
/// callbacks.
#[test]
fn a_cpu_leaves_between_two_callbacks_that_a_canceller_waits_for() {
    explore_all(THREE, [(0, 1), (1, 1), (1, 0), (2, 0)], || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let (first, second) = (once(&runs), going_on(&runs, 9_000));
        be(Some(1));
        let _ = first.as_ref().start(&machine, at(500));
        let _ = second.as_ref().start(&machine, at(600));
        let driver = on(&machine, Some(0), |timers| {
            let _turn = timers.interrupt(CpuId(1));
        });
        let canceller = {
            let first = first.clone();
            on(&machine, None, move |timers| {
                first.as_ref().cancel(timers);
                assert!(!first.is_active());
            })
        };
        machine.cpu_offline(CpuId(1));
        driver.join().unwrap();
        canceller.join().unwrap();
        assert_eq!(machine.pending(CpuId(1)), 0);
        assert_eq!(second.as_ref().cpu(&machine), Some(CpuId(0)));
        assert_eq!(pending(&machine, 2), 1);
        let armed = armed_after_kick(&machine);
        assert!(second.as_ref().cancel(&machine));
        let overdue = u32::from(armed == 600);
        (runs.get(), overdue)
    });
}

/// Spec, LOC-9. CPU 1 goes offline with a pending timer while CPU 0 cancels the timer. The timer is pending all
/// the time, so the cancel removes it from the base on which it is.
#[test]
fn a_cpu_leaves_against_a_cancel() {
    explore(TWO, [CpuId(0), CpuId(1)], || {
        let machine = machine::<true>(2);
        let timer = once(&Count::default());
        be(Some(1));
        let _ = timer.as_ref().start(&machine, at(5_000));
        let canceller = {
            let timer = timer.clone();
            on(&machine, Some(0), move |timers| {
                assert!(timer.as_ref().cancel(timers), "it was pending all the time");
                assert!(!timer.is_active());
            })
        };
        machine.cpu_offline(CpuId(1));
        canceller.join().unwrap();
        assert_eq!(pending(&machine, 2), 0);
        timer.as_ref().cpu(&machine).expect("it was started")
    });
}

/// Spec HP-6, LOC-16. CPU 1 goes offline while CPU 0 starts a timer of CPU 1 for another time. A late start on CPU 1
/// follows. Both timers end on CPU 0, the only online CPU.
#[test]
fn a_cpu_leaves_against_a_start_of_its_timer() {
    explore(TWO, [4_000], || {
        let machine = machine::<true>(2);
        let (timer, late) = (once(&Count::default()), once(&Count::default()));
        be(Some(1));
        let _ = timer.as_ref().start(&machine, at(5_000));
        let starter = {
            let timer = timer.clone();
            on(&machine, Some(0), move |timers| {
                let _ = timer.as_ref().start(timers, at(6_000));
            })
        };
        machine.cpu_offline(CpuId(1));
        let _ = late.as_ref().start(&machine, at(4_000));
        starter.join().unwrap();
        assert_eq!(
            timer.as_ref().deadline(&machine),
            Some(Instant::from_nanos(6_000))
        );
        assert_eq!(machine.pending(CpuId(1)), 0);
        assert_eq!(pending(&machine, 2), 2);
        let armed = armed_after_kick(&machine);
        assert!(timer.as_ref().cancel(&machine));
        assert!(late.as_ref().cancel(&machine));
        armed
    });
}

type WallCallback = fn(&mut Expired<'_, '_, Realtime>) -> Restart;

/// Makes a timer on the time of day.
fn on_the_wall() -> Pin<Arc<HrTimer<WallCallback, Realtime>>> {
    let callback: WallCallback = |_| Restart::No;
    Arc::pin(HrTimer::with_setup(Setup::new(), false, callback))
}

/// Sets the time of day as the writer of a sequence lock does: writes the offsets, then notifies the timers.
fn set_the_clock(timers: &Timers<Host<true>>) {
    // Release: pairs with the Acquire of a thread that asks for the offsets.
    timers.platform().jumped.store(true, Ordering::Release);
    timers.clock_was_set(ClockSet::WALL);
}

/// Spec. The time of day is set while CPU 0 starts a timer on it. In the end CPU 0 is armed according to the new
/// time, whether the start saw the old offset or the new one.
#[test]
fn a_clock_jumps_against_a_start_on_it() {
    explore(TWO, [false, true], || {
        let machine = machine::<true>(2);
        let timer = on_the_wall();
        let setter = on(&machine, Some(1), set_the_clock);
        be(Some(0));
        let _ = timer
            .as_ref()
            .start(&machine, Start::at(Instant::from_nanos(8_000)));
        setter.join().unwrap();
        // Relaxed: the setter was joined.
        let kicked = machine.platform().kicked.load(Ordering::Relaxed);
        assert_eq!(armed_after_kick(&machine), 8_000 - JUMP);
        assert!(timer.as_ref().cancel(&machine));
        kicked
    });
}

/// Spec, TIM-32. The time of day is set while an interrupt of CPU 0 runs, whose evaluation saw the old offset or
/// the new one.
#[test]
fn a_clock_jumps_against_an_interrupt() {
    explore(TWO, [false, true], || {
        let machine = machine::<true>(2);
        let timer = on_the_wall();
        be(Some(0));
        let _ = timer
            .as_ref()
            .start(&machine, Start::at(Instant::from_nanos(8_000)));
        let setter = on(&machine, Some(1), set_the_clock);
        let _turn = machine.interrupt(CpuId(0));
        setter.join().unwrap();
        // Relaxed: the setter was joined.
        let kicked = machine.platform().kicked.load(Ordering::Relaxed);
        assert_eq!(armed_after_kick(&machine), 8_000 - JUMP);
        assert!(timer.as_ref().cancel(&machine));
        kicked
    });
}

/// Spec TIM-34. The time of day is set while CPU 0 starts a timer that fires on a set. Either the timer is notified, or
/// CPU 0 finds that the clock was set when it checks after the start. No set is lost between the two.
#[test]
fn a_clock_is_set_against_a_start_that_wants_to_know() {
    explore(TWO, [(false, true), (true, false), (true, true)], || {
        let machine = machine::<true>(2);
        let callback: WallCallback = |_| Restart::No;
        let setup = Setup::new().fire_on_clock_set();
        let timer = Arc::pin(HrTimer::with_setup(setup, false, callback));
        let setter = on(&machine, Some(1), set_the_clock);
        be(Some(0));
        let _ = timer
            .as_ref()
            .start(&machine, Start::at(Instant::from_nanos(8_000)));
        // Relaxed: after the lock of the base, which the setter takes after it wrote.
        let saw = machine.platform().jumped.load(Ordering::Relaxed);
        setter.join().unwrap();
        let told = armed_after_kick(&machine) == 0;
        assert!(told || saw, "the set was lost");
        assert!(timer.as_ref().cancel(&machine));
        (saw, told)
    });
}
