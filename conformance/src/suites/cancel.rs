//! Cases about cancelling (spec ).

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::{Cell, RefCell};
use core::pin::Pin;
use core::task::Waker;

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup};
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_core::trace::Event;
use tickless_link::lock::{Lock, SpinLock};

use crate::grammar::Grammar;
use crate::prelude::*;
use crate::suite::{at, kicks, panic_of};
use crate::{Host, Rig, TestTimer};

/// CAN-1: a cancel has three answers; the cancel of an inactive timer takes no lock.
pub fn the_answer_says_what_the_timer_was<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    let locks = rig.lock_acquisitions();
    assert_eq!(timer.try_cancel(), TryCancel::NotActive, "never started");
    assert_eq!(rig.lock_acquisitions(), locks);
    rig.on(0, || timer.start(at(1_000)));
    assert_eq!(rig.on(0, || timer.try_cancel()), TryCancel::Removed);
    let locks = rig.lock_acquisitions();
    assert_eq!(rig.on(0, || timer.try_cancel()), TryCancel::NotActive);
    assert!(!rig.on(0, || timer.cancel()));
    assert_eq!(rig.lock_acquisitions(), locks);
    rig.run_until(5_000);
    assert!(timer.fired_at().is_empty(), "INV-10");
}

/// CAN-1: a cancel leaves a running timer alone, whether the timer is queued again or not.
pub fn a_running_timer_is_not_cancelled<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = {
        let rig = rig.clone();
        let mut runs = 0;
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            runs += 1;
            if runs == 1 {
                assert_eq!(own.try_cancel(), TryCancel::Running);
                rig.on(1, || assert_eq!(own.try_cancel(), TryCancel::Running));
                own.start(at(3_000));
                assert_eq!(own.try_cancel(), TryCancel::Running);
                assert!(own.is_queued(), "what was started meanwhile stays");
            }
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000, 3_000]);
}

/// TR-1, ORACLE-6: a cancel is traced if it removed a pending timer, and only then.
pub fn only_a_removal_is_traced<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    let cancels = |body: &dyn Fn()| {
        rig.take_trace();
        rig.on(0, body);
        let trace = rig.take_trace();
        trace
            .iter()
            .filter(|event| matches!(event, Event::Cancel { .. }))
            .count()
    };
    assert_eq!(cancels(&|| assert!(!timer.cancel())), 0);
    assert_eq!(cancels(&|| timer.start(at(1_000))), 0);
    assert_eq!(cancels(&|| assert!(timer.cancel())), 1);
    assert_eq!(cancels(&|| assert!(!timer.cancel())), 0);
    assert_eq!(rig.stats(0).cancelled, 1);
}

/// CAN-2: a removal by another CPU touches neither the device nor the caches of the timer's CPU, and costs that CPU one
/// interrupt.
pub fn a_removal_by_another_cpu_leaves_the_device_alone<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (first, second) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        first.start(at(1_000));
        second.start(at(5_000));
    });
    let before = rig.stats(0);
    rig.take_trace();
    rig.on(1, || assert!(first.cancel()));
    let after = rig.stats(0);
    assert_eq!(after.device_writes, before.device_writes);
    assert_eq!(after.evaluations, before.evaluations);
    assert_eq!(kicks(&rig.take_trace()), []);
    assert_eq!(rig.armed(0), Instant::from_nanos(1_000));
    rig.check();
    rig.run_until(9_000);
    assert_eq!(rig.stats(0).spurious, 1);
    assert_eq!(second.fired_at(), [5_000]);
    assert!(first.fired_at().is_empty());
}

/// another CPU finds the callback running. When the callback has ended, the cancel removes the timer that the
/// callback queued again.
pub fn a_cancel_after_the_callback_removes_what_it_queued<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = {
        let rig = rig.clone();
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, expired| {
            rig.on(1, || assert_eq!(own.try_cancel(), TryCancel::Running));
            expired.forward_now(Span::from_nanos(2_000));
            Restart::Yes
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(1_500);
    assert!(rig.on(1, || timer.cancel()));
    assert!(!timer.is_active());
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000]);
    assert_eq!(rig.stats(0).spurious, 1, "for the deadline it had");
}

/// INV-10: a due timer that a callback of the same interrupt cancels does not fire any more.
pub fn a_due_timer_cancelled_by_a_callback_does_not_fire<H: Host>() {
    let rig = Rig::<H>::new(1);
    let victim = Rc::new(TestTimer::once(&rig));
    let killer = {
        let victim = Rc::clone(&victim);
        TestTimer::new(&rig, move |_| {
            assert!(victim.cancel());
            Restart::No
        })
    };
    rig.on(0, || {
        killer.start(at(1_000));
        victim.start(at(1_000));
    });
    rig.run_until(5_000);
    assert_eq!(killer.fired_at(), [1_000]);
    assert!(victim.fired_at().is_empty());
}

/// CAN-4: a callback that cancels its own timer would wait for itself. The cancel returns an error instead.
pub fn a_callback_that_cancels_itself_is_told<H: Host>() {
    let rig = Rig::<H>::new(1);
    let told = Rc::new(RefCell::new(None));
    let timer = {
        let told = Rc::clone(&told);
        TestTimer::cyclic(&rig, Setup::new(), move |own, _| {
            assert!(own.is_own_callback());
            *told.borrow_mut() = panic_of(|| {
                own.cancel();
            });
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(5_000);
    let told = told.borrow().clone().expect("told");
    assert!(told.contains("cancels its own timer"), "{told}");
    assert!(!rig.on(0, || timer.is_own_callback()));
    assert!(!timer.is_active(), "the callback ends as usual");
}

/// The type of a callback, under a name.
type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

type Boxed = Pin<Box<HrTimer<Callback>>>;

/// A waker that frees a timer when it is woken.
struct Frees(Lock<SpinLock, Option<Boxed>>);

impl Wake for Frees {
    fn wake(self: Arc<Self>) {
        let freed = self.0.lock(None).take();
        assert!(freed.is_some(), "woken once");
    }
}

/// OBJ-12, B31: the waker that a callback returns may free the timer. The interrupt goes on, and afterwards only
/// compares addresses.
pub fn a_timer_may_be_freed_behind_its_last_callback<H: Host>() {
    let rig = Rig::<H>::new(1);
    let frees = Arc::new(Frees(Lock::new(SpinLock::new(), None)));
    let callback: Callback = {
        let frees = Arc::clone(&frees);
        Box::new(move |_| Restart::NoThenWake(Waker::from(Arc::clone(&frees))))
    };
    let behind = TestTimer::once(&rig);
    *frees.0.lock(None) = Some(Box::pin(HrTimer::new(callback)));
    rig.on(0, || {
        let timer = frees.0.lock(None);
        let _ = timer
            .as_ref()
            .expect("alive")
            .as_ref()
            .start(rig.timers(), at(1_000));
        behind.start(at(1_000));
    });
    rig.run_until(2_000);
    assert!(frees.0.lock(None).is_none(), "freed");
    assert_eq!(behind.fired_at(), [1_000]);
    let mut grammar = Grammar::new();
    grammar.follow(&rig.take_trace());
    rig.check();
}

/// CAN-3: `cancel` of a timer whose callback never runs takes one lock, on any CPU.
pub fn a_cancel_takes_one_lock<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    for cpu in [0, 1] {
        rig.on(0, || timer.start(at(1_000).pinned()));
        let locks = Cell::new(rig.lock_acquisitions());
        rig.on(cpu, || assert!(timer.cancel()));
        assert_eq!(rig.lock_acquisitions() - locks.get(), 1);
    }
}

crate::kit::cases!(cancel:
    the_answer_says_what_the_timer_was [LOCKS],
    a_running_timer_is_not_cancelled [CPUS],
    only_a_removal_is_traced [TRACE],
    a_removal_by_another_cpu_leaves_the_device_alone [CPUS, TRACE],
    a_cancel_after_the_callback_removes_what_it_queued [CPUS],
    a_due_timer_cancelled_by_a_callback_does_not_fire,
    a_callback_that_cancels_itself_is_told [PANICS],
    a_timer_may_be_freed_behind_its_last_callback [TRACE],
    a_cancel_takes_one_lock [CPUS, LOCKS],
);
