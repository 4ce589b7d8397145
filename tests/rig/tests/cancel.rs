//! Cancelling (spec 2.10).

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage};
use tickless_core::platform::Waiting;
use tickless_core::time::{Instant, Monotonic, Span};
use tickless_core::trace::Event;
use tickless_rig::check::Grammar;
use tickless_rig::suite::{at, kicks, panic_of};
use tickless_rig::{Config, Deferred, Immediate, Machine, Preemptible, TestTimer, all_configs};

/// CAN-1: the three answers; an inactive timer costs no lock.
fn the_answer_says_what_the_timer_was<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    let locks = machine.lock_acquisitions();
    assert_eq!(timer.try_cancel(), TryCancel::NotActive, "never started");
    assert_eq!(machine.lock_acquisitions(), locks);
    machine.on(0, || timer.start(at(1_000)));
    assert_eq!(machine.on(0, || timer.try_cancel()), TryCancel::Removed);
    let locks = machine.lock_acquisitions();
    assert_eq!(machine.on(0, || timer.try_cancel()), TryCancel::NotActive);
    assert!(!machine.on(0, || timer.cancel()));
    assert_eq!(machine.lock_acquisitions(), locks);
    machine.run_until(5_000);
    assert!(timer.fired_at().is_empty(), "INV-10");
}

/// CAN-1: a running timer is left alone, whether it is queued again or not.
fn a_running_timer_is_not_cancelled<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = {
        let machine = machine.clone();
        let mut runs = 0;
        TestTimer::cyclic(&machine.clone(), Setup::new(), move |own, _| {
            runs += 1;
            if runs == 1 {
                assert_eq!(own.try_cancel(), TryCancel::Running);
                machine.on(1, || assert_eq!(own.try_cancel(), TryCancel::Running));
                own.start(at(3_000));
                assert_eq!(own.try_cancel(), TryCancel::Running);
                assert!(own.is_queued(), "what was started meanwhile stays");
            }
            Restart::No
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000, 3_000]);
}

/// TR-1, O6: a cancel is traced when a pending timer was removed, and only then.
fn only_a_removal_is_traced<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    let cancels = |body: &dyn Fn()| {
        machine.take_trace();
        machine.on(0, body);
        let trace = machine.take_trace();
        trace
            .iter()
            .filter(|event| matches!(event, Event::Cancel { .. }))
            .count()
    };
    assert_eq!(cancels(&|| assert!(!timer.cancel())), 0);
    assert_eq!(cancels(&|| timer.start(at(1_000))), 0);
    assert_eq!(cancels(&|| assert!(timer.cancel())), 1);
    assert_eq!(cancels(&|| assert!(!timer.cancel())), 0);
    assert_eq!(machine.stats(0).cancelled, 1);
}

/// CAN-2: a removal by another CPU touches neither the device nor the caches of the CPU, and costs it one interrupt.
fn a_removal_by_another_cpu_leaves_the_device_alone<C: Config>() {
    let machine = Machine::<C>::new(2);
    let (first, second) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        first.start(at(1_000));
        second.start(at(5_000));
    });
    let before = machine.stats(0);
    machine.take_trace();
    machine.on(1, || assert!(first.cancel()));
    let after = machine.stats(0);
    assert_eq!(after.device_writes, before.device_writes);
    assert_eq!(after.evaluations, before.evaluations);
    assert_eq!(kicks(&machine.take_trace()), []);
    assert_eq!(machine.armed(0), Instant::from_nanos(1_000));
    machine.check();
    machine.run_until(9_000);
    assert_eq!(machine.stats(0).spurious, 1);
    assert_eq!(second.fired_at(), [5_000]);
    assert!(first.fired_at().is_empty());
}

/// 14.2: another CPU finds the callback running; when it is over the timer that the callback queued again is removed.
fn a_cancel_after_the_callback_removes_what_it_queued<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = {
        let machine = machine.clone();
        TestTimer::cyclic(&machine.clone(), Setup::new(), move |own, expired| {
            machine.on(1, || assert_eq!(own.try_cancel(), TryCancel::Running));
            expired.forward_now(Span::from_nanos(2_000));
            Restart::Yes
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(1_500);
    assert!(machine.on(1, || timer.cancel()));
    assert!(!timer.is_active());
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000]);
    assert_eq!(machine.stats(0).spurious, 1, "for the deadline it had");
}

/// INV-10: a timer that is cancelled by a callback of the same interrupt does not fire any more, although it was due.
fn a_due_timer_cancelled_by_a_callback_does_not_fire<C: Config>() {
    let machine = Machine::<C>::new(1);
    let victim = Rc::new(TestTimer::once(&machine));
    let killer = {
        let victim = Rc::clone(&victim);
        TestTimer::new(&machine, move |_| {
            assert!(victim.cancel());
            Restart::No
        })
    };
    machine.on(0, || {
        killer.start(at(1_000));
        victim.start(at(1_000));
    });
    machine.run_until(5_000);
    assert_eq!(killer.fired_at(), [1_000]);
    assert!(victim.fired_at().is_empty());
}

/// CAN-4: a callback that cancels its own timer would wait for itself. It is told so.
fn a_callback_that_cancels_itself_is_told<C: Config>() {
    let machine = Machine::<C>::new(1);
    let told = Rc::new(RefCell::new(None));
    let timer = {
        let told = Rc::clone(&told);
        TestTimer::cyclic(&machine, Setup::new(), move |own, _| {
            assert!(own.is_own_callback());
            *told.borrow_mut() = panic_of(|| {
                own.cancel();
            });
            Restart::No
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(5_000);
    let told = told.borrow().clone().expect("told");
    assert!(told.contains("cancels its own timer"), "{told}");
    assert!(!machine.on(0, || timer.is_own_callback()));
    assert!(!timer.is_active(), "the callback ends as usual");
}

/// How a callback on CPU 0 is waited for by CPU 1, which in a machine of one thread is for ever, and says so.
fn how_to_wait<C: Config>(stage: Stage) -> String {
    let machine = Machine::<C>::new(2);
    let said = Rc::new(RefCell::new(None));
    let timer = {
        let (machine, said) = (machine.clone(), Rc::clone(&said));
        let setup = Setup::new().stage(stage);
        TestTimer::cyclic(&machine.clone(), setup, move |own, _| {
            *said.borrow_mut() = machine.on(1, || {
                panic_of(|| {
                    own.cancel();
                })
            });
            Restart::No
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(5_000);
    said.take().expect("it waits for ever")
}

/// As a real-time kernel.
enum RealTime {}

impl Config for RealTime {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::SleepForSoft;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "real-time";
}

/// CAN-5, CAN-6, B35: who polls and who sleeps.
#[test]
fn cancellers_poll_or_sleep_as_the_host_says() {
    let (polls, sleeps) = ("livelock", "waits for a lock that it holds");
    for (waits, hard, soft) in [
        (how_to_wait::<Deferred> as fn(Stage) -> String, polls, polls),
        (how_to_wait::<Immediate>, polls, polls),
        (how_to_wait::<Preemptible>, sleeps, sleeps),
        (how_to_wait::<RealTime>, polls, sleeps),
    ] {
        assert!(waits(Stage::Hard).contains(hard));
        assert!(waits(Stage::Soft).contains(soft));
    }
}

/// CAN-6: under a real-time kernel a hard timer may interrupt a soft callback, whose expiry lock is held.
#[test]
fn a_hard_timer_interrupts_a_soft_callback_that_holds_the_expiry_lock() {
    let machine = Machine::<RealTime>::new(1);
    let hard = TestTimer::once(&machine);
    let soft = {
        let machine = machine.clone();
        let setup = Setup::new().stage(Stage::Soft);
        TestTimer::with_setup(&machine.clone(), setup, move |_| {
            machine.spend(3_000);
            machine.deliver_due(0);
            Restart::No
        })
    };
    machine.on(0, || {
        soft.start(at(1_000));
        hard.start(at(3_000));
    });
    machine.run_until(9_000);
    assert_eq!(hard.fired_at(), [4_000]);
}

/// A callback whose type has a name.
type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

type Boxed = Pin<Box<HrTimer<Callback>>>;

/// Frees a timer when it is used.
struct Frees(Mutex<Option<Boxed>>);

impl Wake for Frees {
    fn wake(self: Arc<Self>) {
        let freed = self.0.lock().expect("nobody panicked").take();
        assert!(freed.is_some(), "woken once");
    }
}

/// OBJ-12, B31: what the callback's waker wakes may free the timer; the interrupt goes on, and only compares addresses.
fn a_timer_may_be_freed_behind_its_last_callback<C: Config>() {
    let machine = Machine::<C>::new(1);
    let frees = Arc::new(Frees(Mutex::new(None)));
    let callback: Callback = {
        let frees = Arc::clone(&frees);
        Box::new(move |_| Restart::NoThenWake(Waker::from(Arc::clone(&frees))))
    };
    let behind = TestTimer::once(&machine);
    *frees.0.lock().expect("nobody panicked") = Some(Box::pin(HrTimer::new(callback)));
    machine.on(0, || {
        let timer = frees.0.lock().expect("nobody panicked");
        machine
            .timers()
            .start(timer.as_ref().expect("alive").as_ref(), at(1_000));
        behind.start(at(1_000));
    });
    machine.run_until(2_000);
    assert!(frees.0.lock().expect("nobody panicked").is_none(), "freed");
    assert_eq!(behind.fired_at(), [1_000]);
    let mut grammar = Grammar::new();
    grammar.follow(&machine.take_trace());
    machine.check();
}

/// CAN-3: `cancel` of a timer whose callback never runs needs one lock, on any CPU.
fn a_cancel_takes_one_lock<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    for cpu in [0, 1] {
        machine.on(0, || timer.start(at(1_000).pinned()));
        let locks = Cell::new(machine.lock_acquisitions());
        machine.on(cpu, || assert!(timer.cancel()));
        assert_eq!(machine.lock_acquisitions() - locks.get(), 1);
    }
}

all_configs!(
    the_answer_says_what_the_timer_was,
    a_running_timer_is_not_cancelled,
    only_a_removal_is_traced,
    a_removal_by_another_cpu_leaves_the_device_alone,
    a_cancel_after_the_callback_removes_what_it_queued,
    a_due_timer_cancelled_by_a_callback_does_not_fire,
    a_callback_that_cancels_itself_is_told,
    a_timer_may_be_freed_behind_its_last_callback,
    a_cancel_takes_one_lock,
);
