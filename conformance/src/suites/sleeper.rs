//! Cases about sleepers, which are timers that wake a task (spec, "sleepers").

use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

use tickless_core::base::TimerQueue;
use tickless_core::hrtimer::{Sleeper, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Monotonic};
use tickless_link::lock::{Lock, SpinLock};

use crate::grammar::Grammar;
use crate::prelude::*;
use crate::suite::{at, at_on};
use crate::{Host, Rig};

/// A task that counts how often it was woken.
#[derive(Default)]
struct Task {
    woken: AtomicU32,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread.
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn new() -> (Arc<Self>, Waker) {
        let task = Arc::new(Self::default());
        (Arc::clone(&task), Waker::from(task))
    }

    fn woken(&self) -> u32 {
        self.woken.load(Ordering::Relaxed)
    }
}

/// A sleeper that is cancelled when it is dropped, as every owner must do.
struct Own<H: Host> {
    rig: Rig<H>,
    sleeper: Pin<Box<Sleeper>>,
}

fn sleeper<H: Host>(rig: &Rig<H>) -> Own<H> {
    Own {
        rig: rig.clone(),
        sleeper: Box::pin(Sleeper::new()),
    }
}

impl<H: Host> Own<H> {
    fn as_ref(&self) -> Pin<&Sleeper> {
        self.sleeper.as_ref()
    }

    fn as_mut(&mut self) -> Pin<&mut Sleeper> {
        self.sleeper.as_mut()
    }

    fn is_queued(&self) -> bool {
        self.sleeper.is_queued()
    }
}

impl<H: Host> Drop for Own<H> {
    fn drop(&mut self) {
        drop(self.sleeper.as_ref().cancel(self.rig.timers()));
    }
}

/// SLP-1: a sleeper wakes its task once, at its time, and is idle afterwards.
pub fn a_sleeper_wakes_its_task_once<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (task, waker) = Task::new();
    let mut sleeper = sleeper(&rig);
    let old = rig.on(0, || sleeper.as_mut().start(rig.timers(), at(1_000), waker));
    assert!(old.is_none() && sleeper.is_queued());
    rig.run_until(999);
    assert_eq!(task.woken(), 0);
    rig.run_until(1_000);
    assert_eq!(task.woken(), 1);
    assert!(!sleeper.is_queued());
    assert_eq!(Arc::strong_count(&task), 1, "the waker is gone");
    rig.run_until(9_000);
    assert_eq!(task.woken(), 1);
    let mut grammar = Grammar::new();
    grammar.follow(&rig.take_trace());
}

/// SLP-1: a start with another waker replaces the previous waker and returns it.
pub fn a_start_replaces_the_waker<H: Host>() {
    let rig = Rig::<H>::new(1);
    let ((first, first_waker), (second, second_waker)) = (Task::new(), Task::new());
    let mut sleeper = sleeper(&rig);
    let timers = rig.timers();
    rig.on(0, || {
        sleeper.as_mut().start(timers, at(1_000), first_waker);
        let old = sleeper.as_mut().start(timers, at(2_000), second_waker);
        assert!(old.is_some());
    });
    assert_eq!(Arc::strong_count(&first), 1);
    rig.run_until(9_000);
    assert_eq!((first.woken(), second.woken()), (0, 1));
}

/// A restart keeps the waker, and returns no if the sleeper has no task to wake any more.
pub fn a_restart_keeps_the_waker<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (task, waker) = Task::new();
    let mut sleeper = sleeper(&rig);
    let timers = rig.timers();
    let restart = |sleeper: &Own<H>, when| rig.on(0, || sleeper.as_ref().restart(timers, at(when)));
    assert!(!restart(&sleeper, 500), "never started");
    rig.on(0, || sleeper.as_mut().start(timers, at(1_000), waker));
    assert!(restart(&sleeper, 3_000));
    rig.run_until(2_000);
    assert_eq!(task.woken(), 0);
    rig.run_until(3_000);
    assert_eq!(task.woken(), 1);
    assert!(!restart(&sleeper, 9_000), "it fired");
    assert!(!sleeper.is_queued());
}

/// Tests the questions that a future asks on every poll.
pub fn a_queued_sleeper_tells_whom_it_wakes<H: Host>() {
    let rig = Rig::<H>::new(1);
    let ((_, mine), (other, others)) = (Task::new(), Task::new());
    let mut sleeper = sleeper(&rig);
    let timers = rig.timers();
    rig.on(0, || {
        let pin = sleeper.as_ref();
        assert_eq!(pin.will_wake(timers, &mine), None);
        assert!(pin.set_waker(timers, mine.clone()).is_err());
        sleeper.as_mut().start(timers, at(1_000), mine.clone());
        let pin = sleeper.as_ref();
        assert_eq!(pin.will_wake(timers, &mine), Some(true));
        assert_eq!(pin.will_wake(timers, &others), Some(false));
        let old = pin.set_waker(timers, others.clone());
        assert!(old.is_ok_and(|old| old.is_some_and(|old| old.will_wake(&mine))));
        assert_eq!(pin.will_wake(timers, &others), Some(true));
    });
    rig.run_until(9_000);
    assert_eq!(other.woken(), 1);
    rig.on(0, || {
        let pin = sleeper.as_ref();
        assert_eq!(pin.will_wake(timers, &others), None);
        assert!(pin.set_waker(timers, others.clone()).is_err());
    });
}

/// A cancel returns the waker and never waits; afterwards the sleeper may be freed.
pub fn a_cancelled_sleeper_may_be_freed<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (task, waker) = Task::new();
    let timers = rig.timers();
    let mut sleeper = sleeper(&rig);
    assert!(sleeper.as_ref().cancel(timers).is_none());
    rig.on(0, || sleeper.as_mut().start(timers, at(1_000), waker));
    let back = rig.on(1, || sleeper.as_ref().cancel(timers));
    assert!(back.is_some());
    drop(sleeper);
    rig.check();
    rig.run_until(9_000);
    assert_eq!(task.woken(), 0);
    assert_eq!(rig.stats(0).spurious, 1);
    drop(back);
    assert_eq!(Arc::strong_count(&task), 1);
}

/// Cancelling the first event of this CPU leaves the device alone if the event is a sleeper, until the CPU is about to
/// sleep.
pub fn cancelling_the_first_sleeper_arms_for_the_next_before_idle<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (task, waker) = Task::new();
    let (mut first, mut second) = (sleeper(&rig), sleeper(&rig));
    let timers = rig.timers();
    rig.on(0, || {
        first.as_mut().start(timers, at(1_000), waker.clone());
        second.as_mut().start(timers, at(5_000), waker.clone());
        drop(first.as_ref().cancel(timers));
    });
    assert_eq!(rig.fires_at(0), Some(1_000));
    let armed = rig.on(0, || timers.settle_armed(CpuId(0)));
    assert_eq!(armed.as_nanos(), 5_000);
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.run_until(9_000);
    assert_eq!(task.woken(), 1);
}

/// A waker that frees a sleeper when it is woken.
struct Frees(Lock<SpinLock, Option<Pin<Box<Sleeper>>>>);

impl Wake for Frees {
    fn wake(self: Arc<Self>) {
        assert!(self.0.lock(None).take().is_some());
    }
}

/// OBJ-12: the woken task may free the sleeper at once, because the sleeper is idle before the task is woken.
pub fn the_woken_task_may_free_the_sleeper<H: Host>() {
    let rig = Rig::<H>::new(1);
    let frees = Arc::new(Frees(Lock::new(
        SpinLock::new(),
        Some(Box::pin(Sleeper::new())),
    )));
    let (task, waker) = Task::new();
    let mut behind = sleeper(&rig);
    rig.on(0, || {
        let timers = rig.timers();
        let mut sleeper = frees.0.lock(None);
        let pin = sleeper.as_mut().expect("alive").as_mut();
        pin.start(timers, at(1_000), Waker::from(Arc::clone(&frees)));
        behind.as_mut().start(timers, at(1_000), waker);
    });
    rig.run_until(1_000);
    assert!(frees.0.lock(None).is_none());
    assert_eq!(task.woken(), 1);
    rig.check();
}

/// Locality and hotplug treat sleepers like timers.
pub fn a_sleeper_moves_with_its_cpu<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (task, waker) = Task::new();
    let mut sleeper = sleeper(&rig);
    rig.on(1, || {
        sleeper.as_mut().start(rig.timers(), at(5_000), waker);
    });
    rig.offline(1);
    rig.deliver_all();
    rig.run_until(9_000);
    assert_eq!(task.woken(), 1);
}

/// TIM-2: a sleep for ever lasts until the end of time.
pub fn a_sleep_for_ever_never_wakes<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (task, waker) = Task::new();
    let mut sleeper = sleeper(&rig);
    let forever: Start = at_on::<Monotonic>(Instant::<Monotonic>::FOREVER.as_nanos());
    rig.on(0, || sleeper.as_mut().start(rig.timers(), forever, waker));
    rig.run_until(1_000_000_000);
    assert_eq!(task.woken(), 0);
    drop(rig.on(0, || sleeper.as_ref().cancel(rig.timers())));
}

crate::kit::cases!(sleeper:
    a_sleeper_wakes_its_task_once [TRACE],
    a_start_replaces_the_waker,
    a_restart_keeps_the_waker,
    a_queued_sleeper_tells_whom_it_wakes,
    a_cancelled_sleeper_may_be_freed [CPUS],
    cancelling_the_first_sleeper_arms_for_the_next_before_idle,
    the_woken_task_may_free_the_sleeper,
    a_sleeper_moves_with_its_cpu [CPUS],
    a_sleep_for_ever_never_wakes,
);
