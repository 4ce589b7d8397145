//! Loom cases of sleepers. The waker is taken once, and the owner may free the sleeper at once.

use core::pin::Pin;
use core::task::Waker;
use std::boxed::Box;
use std::sync::Arc;
use std::task::Wake;

use crate::base::model::{
    Count, LATE, Machine, NOW, TWO, at, be, explore, machine_at, on, pending,
};
use crate::base::sleeper::TimerQueue;
use crate::cpu::CpuId;
use crate::hrtimer::Sleeper;
use crate::slots::geometry::Tick;
use crate::time::Instant;

/// A task that counts its wake-ups.
struct Task(Count);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

fn waker(count: &Count) -> Waker {
    Waker::from(Arc::new(Task(count.clone())))
}

/// Deadlines of two due sleepers. The first is in the sorted queue. The second is still in the far wheel, which it
/// names as its owner, and the interrupt moves it from there.
const PLACES: [i64; 2] = [NOW, LATE];

/// Makes a sleeper that CPU 0 will fire, and the counter of its wake-ups.
fn asleep(machine: &Machine<true>) -> (Pin<Box<Sleeper>>, Count) {
    let now = machine.platform().now;
    let woken = Count::default();
    let mut sleeper = Box::pin(Sleeper::new());
    be(Some(0));
    let before = sleeper.as_mut().start(&machine, at(now / 2), waker(&woken));
    assert!(before.is_none());
    assert_eq!(machine.sorted(CpuId(0)), usize::from(now == NOW));
    (sleeper, woken)
}

/// Spec SLP-1, OBJ-12. CPU 0 fires a sleeper while its owner, on CPU 1, cancels it and frees it at once. Either the
/// firing or the cancel takes the waker, and the library does not touch the sleeper after the owner saw it idle.
#[test]
fn a_sleeper_fires_against_its_owner_that_frees_it() {
    for now in PLACES {
        explore(TWO, [(0, true), (1, false)], move || {
            let machine = machine_at::<true>(now, 2);
            let (sleeper, woken) = asleep(&machine);
            let owner = on(&machine, Some(1), move |timers| {
                let back = sleeper.as_ref().cancel(timers);
                drop(sleeper);
                back.is_some()
            });
            let _turn = machine.interrupt(CpuId(0));
            let handed_back = owner.join().unwrap();
            assert_eq!(pending(&machine, 2), 0);
            (woken.get(), handed_back)
        });
    }
}

/// Spec SLP-1. CPU 0 fires a sleeper while its owner, on CPU 1, changes the waker. Either the new waker is woken and
/// the old one was returned, or the old waker is woken and the new one was refused.
#[test]
fn a_sleeper_fires_against_a_change_of_its_waker() {
    for now in PLACES {
        explore(TWO, [(1, 0, false), (0, 1, true)], move || {
            let machine = machine_at::<true>(now, 2);
            let (sleeper, old) = asleep(&machine);
            let new = Count::default();
            let owner = {
                let new = waker(&new);
                on(&machine, Some(1), move |timers| {
                    (sleeper.as_ref().set_waker(timers, new), sleeper)
                })
            };
            let _turn = machine.interrupt(CpuId(0));
            let (answer, sleeper) = owner.join().unwrap();
            if let Ok(before) = &answer {
                assert!(before.is_some(), "the old waker was still there");
            }
            assert_eq!(pending(&machine, 2), 0);
            drop(sleeper);
            (old.get(), new.get(), answer.is_ok())
        });
    }
}

/// CPU 0 fires a sleeper while its owner, on CPU 1, restarts it for later. Either the restart was too late and
/// the task was woken, or the sleeper is queued once, with its waker.
#[test]
fn a_sleeper_fires_against_its_owner_that_puts_it_off() {
    for now in PLACES {
        explore(TWO, [(1, false, false), (0, true, true)], move || {
            let machine = machine_at::<true>(now, 2);
            let (sleeper, woken) = asleep(&machine);
            let owner = on(&machine, Some(1), move |timers| {
                (sleeper.as_ref().restart(timers, at(2 * LATE)), sleeper)
            });
            let _turn = machine.interrupt(CpuId(0));
            let (put_off, sleeper) = owner.join().unwrap();
            assert_eq!(pending(&machine, 2), usize::from(put_off));
            let back = sleeper.as_ref().cancel(&machine);
            (woken.get(), put_off, back.is_some())
        });
    }
}

/// CPU 0 pushes out a sleeper of its far wheel in its bucket, while CPU 1 fires the due timers of CPU 0. Either the push-out found the sleeper fired and changed nothing, or the sleeper is
/// queued once, for its new deadline.
#[test]
fn a_sleeper_is_pushed_out_in_its_bucket_against_its_firing() {
    explore(TWO, [(1, false, false), (0, true, true)], || {
        let machine = machine_at::<true>(LATE, 2);
        let (sleeper, woken) = asleep(&machine);
        let owner = on(&machine, Some(0), move |timers| {
            let later = Instant::from_nanos(2 * LATE);
            let is_out = sleeper
                .as_ref()
                .restart_in_place(timers, (later, later), Tick(0));
            (is_out, sleeper)
        });
        be(Some(1));
        let _turn = machine.interrupt(CpuId(0));
        let (is_out, sleeper) = owner.join().unwrap();
        assert_eq!(pending(&machine, 2), usize::from(is_out));
        let back = sleeper.as_ref().cancel(&machine);
        (woken.get(), is_out, back.is_some())
    });
}
