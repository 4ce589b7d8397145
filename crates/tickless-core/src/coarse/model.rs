//! Loom cases of the wheel, on the tiny host of the [exact timers' cases](crate::base::model), and with the limits of
//! that host.
//!
//! The tick is an argument, so each case decides which timers are due. At [`NOW`] all timers that are armed for [`DUE`]
//! are due.

use core::pin::Pin;
use std::boxed::Box;
use std::sync::{Arc, OnceLock};

use tickless_link::sync::{AtomicBool, Ordering};

use super::{ArmError, Pass, PassEnd, Restart, StartOutcome, Tick, Timeout, WheelKind, WheelTimer};
use crate::base::model::{Count, Host, Machine, TWO, Touched, be, explore, explored, machine, on};
use crate::base::{Timers, TryCancel};
use crate::cpu::CpuId;

/// Tick at which the timers are armed.
const START: Tick = Tick(0);
/// Tick at which the timers are due, unless a case says otherwise. It lies in level 1, whose slots are 8 ticks.
const DUE: Tick = Tick(100);
/// Tick at which a pass runs.
const NOW: Tick = Tick(104);

type Function = Box<dyn FnMut(&mut Timeout) -> Restart + Send>;
type Timer = Pin<Arc<WheelTimer<Function>>>;

/// Makes a timer whose callback counts its call and returns `again`.
fn firing(count: &Count, again: Option<Tick>) -> Timer {
    let (count, touched) = (count.clone(), Touched::default());
    Arc::pin(WheelTimer::new(
        WheelKind::Global,
        Box::new(move |timeout| {
            touched.touch();
            count.add();
            let Some(again) = again else {
                return Restart::No;
            };
            timeout.set_expiry(again);
            Restart::Yes
        }),
    ))
}

fn pass<const SLEEPS: bool>(timers: &Timers<Host<SLEEPS>>, now: Tick) -> Pass {
    timers.run_wheel(CpuId(0), WheelKind::Global, now, u32::MAX)
}

/// Returns the number of coarse timers of all CPUs below `cpus`, after a check that their bases are in order.
fn pending<const SLEEPS: bool>(machine: &Machine<SLEEPS>, cpus: u32) -> usize {
    for cpu in 0..cpus {
        machine.assert_valid(CpuId(cpu));
    }
    (0..cpus).map(|cpu| machine.wheel_pending(CpuId(cpu))).sum()
}

/// R05, R56. CPU 1 pushes a timer out within its slot, while CPU 0 expires that slot. Either the timer still was
/// active, and fires once, or it fired before, and is armed again.
#[test]
fn a_modification_within_a_slot_against_its_expiry() {
    explore(TWO, [(true, 1, 0), (false, 1, 1)], || {
        let machine = machine::<false>(2);
        let runs = Count::default();
        let timer = firing(&runs, None);
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let modifier = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                // With an old idea of now, for which the slot is the same.
                timer.as_ref().modify(timers, START, Tick(DUE.0 + 2))
            })
        };
        let _pass = pass(&machine, NOW);
        let was_active = modifier.join().unwrap() == StartOutcome::Restarted;
        let left = pending(&machine, 2);
        timer.as_ref().delete_sync(&machine);
        (was_active, runs.get(), left)
    });
}

/// R05. CPU 0 pushes out and cancels a timer of its own, on the fast path, while CPU 1 expires the wheel of CPU 0.
/// Either the timer was cancelled, or it fired once. If it fired before it was pushed out, the second arming is
/// cancelled.
#[test]
fn what_a_cpu_does_with_its_own_timer_against_its_expiry() {
    let outcomes = [(true, true, 0), (true, false, 1), (false, true, 1)];
    explore(TWO, outcomes, || {
        let machine = machine::<false>(2);
        let runs = Count::default();
        let timer = firing(&runs, None);
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let expirer = on(&machine, Some(1), |timers| {
            let _pass = pass(timers, NOW);
        });
        let was_active = timer.as_ref().modify(&machine, START, Tick(DUE.0 + 2));
        let was_queued = timer.as_ref().delete(&machine);
        expirer.join().unwrap();
        assert_eq!(pending(&machine, 2), 0);
        let was_active = was_active == StartOutcome::Restarted;
        (was_active, was_queued, runs.get())
    });
}

/// R13. The callback restarts its timer by its answer, while CPU 1 deletes the timer and waits. When the deletion
/// returns, no timer is queued and no callback runs.
fn deletion_against_a_callback<const SLEEPS: bool>() {
    explore(TWO, [0, 1], || {
        let machine = machine::<SLEEPS>(2);
        let inside = Arc::new(AtomicBool::new(false));
        let runs = Count::default();
        let timer: Timer = Arc::pin(WheelTimer::new(WheelKind::Global, {
            let (inside, runs, touched) = (Arc::clone(&inside), runs.clone(), Touched::default());
            Box::new(move |timeout| {
                // Relaxed: the core has to order the thread that deletes.
                inside.store(true, Ordering::Relaxed);
                touched.touch();
                runs.add();
                inside.store(false, Ordering::Relaxed);
                timeout.set_expiry(Tick(5_000));
                Restart::Yes
            })
        }));
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let deleter = {
            let (timer, inside) = (timer.clone(), Arc::clone(&inside));
            on(&machine, Some(1), move |timers| {
                assert!(
                    timer.as_ref().delete_sync(timers),
                    "it was queued all the time"
                );
                assert!(timer.state().is_idle());
                // Relaxed: as above.
                assert!(!inside.load(Ordering::Relaxed));
            })
        };
        let _pass = pass(&machine, NOW);
        deleter.join().unwrap();
        assert!(timer.state().is_idle());
        assert_eq!(pending(&machine, 2), 0);
        runs.get()
    });
}

#[test]
fn a_deletion_against_a_callback_that_arms_itself() {
    deletion_against_a_callback::<false>();
}

#[test]
fn a_sleeping_deletion_against_a_callback_that_arms_itself() {
    deletion_against_a_callback::<true>();
}

/// R14. The callback arms its own timer by an operation, and continues, while CPU 1 shuts the timer down and waits.
/// Afterwards no timer is queued, and no arming succeeds.
#[test]
fn a_shutdown_against_a_callback_that_arms_itself() {
    explore(TWO, [0, 1], || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let own: Arc<OnceLock<Timer>> = Arc::default();
        let timer: Timer = Arc::pin(WheelTimer::new(WheelKind::Global, {
            let (machine, own) = (Arc::clone(&machine), Arc::clone(&own));
            let (runs, touched) = (runs.clone(), Touched::default());
            Box::new(move |timeout| {
                touched.touch();
                runs.add();
                let timer = own.get().expect("it was put there");
                // It is not shut while it runs, so it can always be armed.
                assert_eq!(
                    timer.as_ref().modify(&machine, NOW, Tick(5_000)),
                    StartOutcome::Started
                );
                timeout.set_expiry(Tick(6_000));
                Restart::Yes
            })
        }));
        assert!(own.set(timer.clone()).is_ok());
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let shutter = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                assert!(
                    timer.as_ref().shutdown_sync(timers),
                    "it was queued all the time"
                );
                let state = timer.state();
                assert!(state.is_idle() && state.is_shut());
            })
        };
        let _pass = pass(&machine, NOW);
        shutter.join().unwrap();
        assert_eq!(pending(&machine, 2), 0);
        let refused = timer.as_ref().arm(&machine, NOW, DUE);
        assert_eq!(refused, Err(ArmError::ShutDown));
        runs.get()
    });
}

/// C-1.10. CPU 0 arms an inactive timer while CPU 1 shuts it down. Either the arming comes first and the shutdown
/// removes the timer, or the arming is refused. No arming succeeds between the check and the shutdown.
#[test]
fn an_arming_against_a_shutdown() {
    explore(TWO, [(true, true), (false, false)], || {
        let machine = machine::<false>(2);
        let timer = firing(&Count::default(), None);
        let shutter = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                timer.as_ref().shutdown(timers)
            })
        };
        be(Some(0));
        let armed = timer.as_ref().arm(&machine, START, DUE);
        assert!(matches!(armed, Ok(()) | Err(ArmError::ShutDown)));
        let was_queued = shutter.join().unwrap();
        assert_eq!(pending(&machine, 2), 0, "WI6");
        assert!(timer.state().is_shut());
        (armed.is_ok(), was_queued)
    });
}

/// CPU 1 runs the wheel of CPU 0, as a migrator does, while CPU 0 runs it too. Each pass takes over the timers that the
/// other pass has not begun. All timers fire, each once, and nothing is due when the last pass returns.
#[test]
fn a_pass_that_takes_over_what_another_has_not_begun() {
    explore(TWO, [(2, 0), (1, 1), (0, 2)], || {
        let machine = machine::<true>(2);
        let runs = [Count::default(), Count::default()];
        let timers = [firing(&runs[0], None), firing(&runs[1], None)];
        be(Some(0));
        for timer in &timers {
            assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        }
        let puller = on(&machine, Some(1), |timers| pass(timers, NOW));
        let own = pass(&machine, NOW);
        // Whatever the other one has in hand: this one need not look again.
        assert!(!machine.wheel_is_due(CpuId(0), NOW));
        assert_eq!(own.end, PassEnd::Done);
        let pulled = puller.join().unwrap();
        assert_eq!(runs.map(|runs| runs.get()), [1, 1]);
        assert_eq!(pending(&machine, 2), 0);
        (own.fired, pulled.fired)
    });
}

/// WI4.
///
/// The callback arms its own timer, which is due again while the callback runs, and another CPU runs the wheel. The two
/// CPUs do not execute the callback at once, and the timer fires again.
#[test]
fn a_timer_that_is_due_again_while_its_callback_runs() {
    explore(TWO, [1, 2], || {
        let machine = machine::<true>(2);
        let runs = Count::default();
        let own: Arc<OnceLock<Timer>> = Arc::default();
        let timer: Timer = Arc::pin(WheelTimer::new(WheelKind::Global, {
            let (machine, own) = (Arc::clone(&machine), Arc::clone(&own));
            let (runs, touched) = (runs.clone(), Touched::default());
            Box::new(move |_| {
                touched.touch();
                runs.add();
                if runs.get() == 1 {
                    let timer = own.get().expect("it was put there");
                    assert_eq!(
                        timer.as_ref().modify(&machine, NOW, NOW),
                        StartOutcome::Started
                    );
                }
                touched.touch();
                Restart::No
            })
        }));
        assert!(own.set(timer.clone()).is_ok());
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let puller = on(&machine, Some(1), |timers| pass(timers, NOW));
        let later = Tick(NOW.0 + 8);
        let _own = pass(&machine, later);
        let _pulled = puller.join().unwrap();
        let before = runs.get();
        let _rest = pass(&machine, Tick(later.0 + 1));
        assert_eq!(runs.get(), 2, "it fires again, once");
        assert_eq!(pending(&machine, 2), 0);
        before
    });
}

/// WI5.
///
/// R10. CPU 1 modifies a timer of CPU 0 and so moves it, while CPU 2 deletes it. CPU 2 takes the lock of the wheel on
/// which the timer is, and the timer is deleted or armed again.
#[test]
fn a_timer_that_moves_between_cpus_against_its_deletion() {
    // Deleted on its way or at its end; or before it moved, and then armed anew.
    explore(TWO, [(true, 0), (false, 1)], || {
        let machine = machine::<false>(3);
        let timer = firing(&Count::default(), None);
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let modifier = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                let outcome = timer.as_ref().modify(timers, START, Tick(5_000));
                outcome == StartOutcome::Restarted
            })
        };
        be(Some(2));
        assert!(
            timer.as_ref().delete(&machine),
            "it was queued all the time"
        );
        let was_active = modifier.join().unwrap();
        let left = pending(&machine, 3);
        timer.as_ref().delete(&machine);
        (was_active, left)
    });
}

/// R10, the other way round. Two CPUs modify a queued timer at once: each finds the timer queued, even while the other
/// CPU moves it. This case takes longer than all others, so the short check explores one preemption less than in the
/// other cases.
#[test]
fn two_modifications_from_two_cpus() {
    explore(explored(TWO), [(1, 200), (2, 400)], || {
        let machine = machine::<false>(3);
        let timer = firing(&Count::default(), None);
        be(Some(0));
        assert_eq!(timer.as_ref().arm(&machine, START, DUE), Ok(()));
        let other = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                timer.as_ref().modify(timers, START, Tick(200))
            })
        };
        be(Some(2));
        assert_eq!(
            timer.as_ref().modify(&machine, START, Tick(400)),
            StartOutcome::Restarted
        );
        assert_eq!(other.join().unwrap(), StartOutcome::Restarted);
        assert_eq!(pending(&machine, 3), 1);
        let (cpu, _) = timer.as_ref().wheel(&machine).expect("it is queued");
        let expiry = timer.expiry().0;
        assert_eq!(timer.as_ref().try_delete_sync(&machine), TryCancel::Removed);
        (cpu.0, expiry)
    });
}

/// C-2.4, II1. CPU 0 goes to sleep while CPU 1 arms a timer on the local wheel of CPU 0. Either CPU 0 sees the timer,
/// or CPU 0 is kicked.
#[test]
fn an_idle_entry_against_a_timer_from_elsewhere() {
    explore(TWO, [(true, false), (false, true)], || {
        let machine = machine::<false>(2);
        let timer = firing(&Count::default(), None);
        let armer = {
            let timer = timer.clone();
            on(&machine, Some(1), move |timers| {
                timer.as_ref().arm_on(timers, CpuId(0), START, DUE)
            })
        };
        be(Some(0));
        let mut knows = false;
        machine.wheel_enter_idle(CpuId(0), START, |next| {
            knows = next.local.is_some();
            true
        });
        assert_eq!(armer.join().unwrap(), Ok(()));
        let kicked = machine.platform().was_kicked();
        timer.as_ref().delete(&machine);
        (knows, kicked)
    });
}
