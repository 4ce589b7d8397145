//! Loom cases for the doorbell of a reactor.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Bell, Doorbell, GRACE};
use crate::host::sleep_protocol::SleepDeadline;
use tickless_link::sync::{AtomicBool, AtomicI64, Ordering};

const NEVER: i64 = i64::MAX;

/// The time that was set last and for which the reactor has not woken yet.
#[derive(Default)]
struct Rings(Arc<Mutex<Option<i64>>>);

impl Bell for Rings {
    fn set(&self, when: i64) {
        *self.0.lock().unwrap() = Some(when);
    }
}

/// The first deadlines of two threads, and whether a thread takes a turn for the tree.
struct Tree {
    deadlines: [i64; 2],
    is_awake: bool,
}

impl Tree {
    fn first(&self) -> i64 {
        self.deadlines[0].min(self.deadlines[1])
    }
}

/// A runtime: its tree, the lock around its turns, its doorbell, and the settings that the reactor will see.
struct Runtime {
    tree: Mutex<Tree>,
    /// An atomic in place of a lock, because loom does not explore the schedules between the acquisition and the
    /// release of one of its own locks.
    role: AtomicBool,
    doorbell: Doorbell<Rings>,
    rings: Arc<Mutex<Option<i64>>>,
}

impl Runtime {
    fn new(first: i64) -> Arc<Self> {
        let rings = Arc::new(Mutex::new(None));
        let doorbell = Doorbell::new();
        doorbell.attach(Rings(Arc::clone(&rings)));
        doorbell.lower(first);
        let tree = Tree {
            deadlines: [first, NEVER],
            is_awake: false,
        };
        Arc::new(Self {
            tree: Mutex::new(tree),
            role: AtomicBool::new(false),
            doorbell,
            rings,
        })
    }

    /// Starts a timer on the second thread, as `device` does.
    fn publish(&self, deadline: i64) {
        let mut tree = self.tree.lock().unwrap();
        tree.deadlines[1] = deadline;
        let first = tree.first();
        let is_alone = !tree.is_awake;
        drop(tree);
        if is_alone {
            self.doorbell.lower(first);
        }
    }

    /// Takes a turn at `now`, as `reactor_turn` does. Returns the first deadline afterwards, or `None` if another
    /// thread takes a turn.
    fn turn(&self, now: i64) -> Option<i64> {
        // Acquire, and Release below: as a lock.
        if self.role.swap(true, Ordering::Acquire) {
            return None;
        }
        self.doorbell.take();
        self.tree.lock().unwrap().is_awake = true;
        for deadline in &mut self.tree.lock().unwrap().deadlines {
            if *deadline <= now {
                *deadline = NEVER;
            }
        }
        let mut tree = self.tree.lock().unwrap();
        tree.is_awake = false;
        let first = tree.first();
        drop(tree);
        self.role.store(false, Ordering::Release);
        Some(first)
    }

    fn turn_by_reactor(&self, now: i64) {
        // That it rang is taken first: what is set from here on brings it again.
        *self.rings.lock().unwrap() = None;
        match self.turn(now) {
            Some(first) => self.doorbell.lower_by_reactor(first),
            None => self.doorbell.revive(0),
        }
    }

    /// Takes a turn as [`turn_by_reactor`](Self::turn_by_reactor) does, with the setting put off. Returns whether the
    /// task has to be polled again.
    fn turn_put_off(&self, now: i64) -> bool {
        *self.rings.lock().unwrap() = None;
        let first = self.turn(now);
        match first {
            Some(first) => self.doorbell.put_off(first),
            None => self.doorbell.revive(0),
        }
        first.is_some()
    }

    fn turn_by_expiry_thread(&self, now: i64) {
        if self.doorbell.stall_if_overdue(now)
            && let Some(first) = self.turn(now)
        {
            self.doorbell.lower(first);
        }
    }

    /// Checks that the first deadline is that of the doorbell, and that the reactor, unless it counts as stalled, is
    /// set for it.
    fn check(&self) {
        let first = self.tree.lock().unwrap().first();
        if first == NEVER {
            return;
        }
        assert!(self.doorbell.until() <= first, "nothing stands for {first}");
        if !self.doorbell.is_stalled() {
            let rings = self.rings.lock().unwrap();
            assert!(
                rings.is_some_and(|at| at <= first),
                "the reactor is not set for {first}"
            );
        }
    }
}

/// Runs a case with a bound on preemptions, which keeps cases of three threads within seconds.
fn check(case: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(case);
}

/// Executes `reactor` while the expiry thread wakes at `now` and another thread starts a timer for a time soon after.
fn beside_expiry_thread_and_publisher(runtime: &Arc<Runtime>, now: i64, reactor: impl FnOnce()) {
    let expiry_thread = {
        let runtime = Arc::clone(runtime);
        thread::spawn(move || runtime.turn_by_expiry_thread(now))
    };
    let publisher = {
        let runtime = Arc::clone(runtime);
        thread::spawn(move || runtime.publish(now + 5))
    };
    reactor();
    expiry_thread.join().unwrap();
    publisher.join().unwrap();
    runtime.check();
}

/// A thread starts an earlier timer while the reactor takes a turn.
#[test]
fn an_earlier_deadline_arrives_during_a_turn() {
    check(|| {
        let runtime = Runtime::new(10);
        let publisher = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || runtime.publish(50))
        };
        runtime.turn_by_reactor(20);
        publisher.join().unwrap();
        runtime.check();
    });
}

/// A thread starts an earlier timer while the setting is put off, and while it is made.
#[test]
fn an_earlier_deadline_arrives_while_the_setting_is_put_off() {
    check(|| {
        let runtime = Runtime::new(10);
        let publisher = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || runtime.publish(50))
        };
        let is_put_off = runtime.turn_put_off(20);
        assert!(is_put_off, "the role is free");
        runtime.doorbell.lower_by_reactor(NEVER);
        publisher.join().unwrap();
        runtime.check();
    });
}

/// The expiry thread fires the timers in place of a reactor whose task has put the setting off, and a thread starts a
/// timer.
#[test]
fn the_expiry_thread_comes_while_the_setting_is_put_off() {
    check(|| {
        let now = 20 + GRACE;
        let runtime = Runtime::new(10);
        beside_expiry_thread_and_publisher(&runtime, now, || {
            if runtime.turn_put_off(now) {
                runtime.doorbell.lower_by_reactor(NEVER);
            }
        });
        assert_eq!(runtime.tree.lock().unwrap().first(), now + 5);
    });
}

/// The expiry thread fires the timers in place of the reactor at the moment when the reactor wakes, and a thread starts
/// a timer.
#[test]
fn the_expiry_thread_and_the_reactor_come_at_once() {
    check(|| {
        let now = 20 + GRACE;
        let runtime = Runtime::new(10);
        beside_expiry_thread_and_publisher(&runtime, now, || runtime.turn_by_reactor(now));
        let rings = runtime.rings.lock().unwrap();
        assert!(
            !runtime.doorbell.is_stalled() || rings.is_some_and(|at| at <= now),
            "the reactor came, and is never asked again"
        );
        drop(rings);
        assert_eq!(runtime.tree.lock().unwrap().first(), now + 5);
    });
}

/// A thread that has left its runtime starts an earlier timer, while another thread drives the runtime.
#[test]
fn a_thread_leaves_a_runtime_that_another_drives() {
    check(|| {
        let runtime = Runtime::new(100);
        let leaver = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                runtime.doorbell.stall(20);
                runtime.publish(50);
            })
        };
        runtime.turn_by_reactor(20);
        leaver.join().unwrap();
        runtime.check();
        let rings = runtime.rings.lock().unwrap();
        assert!(
            rings.is_some_and(|at| at <= 50),
            "the reactor is driven, and is never asked again"
        );
    });
}

/// The runtime is dropped, or left by its thread, while the expiry thread goes to sleep until a time after the doorbell.
/// The expiry thread is woken, or does not sleep.
fn while_the_expiry_thread_goes_to_sleep(end: impl Fn(&Runtime) + Copy + Send + Sync + 'static) {
    check(move || {
        let runtime = Runtime::new(10);
        let sleeper = Arc::new(SleepDeadline::new());
        let woken = Arc::new(AtomicI64::new(0));
        sleeper.awake();
        let ended = {
            let (runtime, sleeper) = (Arc::clone(&runtime), Arc::clone(&sleeper));
            let woken = Arc::clone(&woken);
            thread::spawn(move || {
                end(&runtime);
                if sleeper.is_after(runtime.doorbell.expiry_thread_comes_at()) {
                    // Relaxed: read after the join.
                    woken.store(1, Ordering::Relaxed);
                }
            })
        };
        let comes_at = || runtime.doorbell.expiry_thread_comes_at();
        let until = comes_at();
        let sleeps = sleeper.sleep(until, comes_at);
        ended.join().unwrap();
        let is_woken = woken.load(Ordering::Relaxed) == 1;
        assert!(
            !sleeps || until <= 10 || is_woken,
            "it sleeps a grace too long"
        );
    });
}

#[test]
fn a_runtime_is_dropped_while_the_expiry_thread_goes_to_sleep() {
    while_the_expiry_thread_goes_to_sleep(|runtime| {
        let _bell = runtime.doorbell.detach(|_| true);
    });
}

#[test]
fn a_thread_leaves_its_runtime_while_the_expiry_thread_goes_to_sleep() {
    while_the_expiry_thread_goes_to_sleep(|runtime| {
        runtime.doorbell.stall(5);
        runtime.publish(10);
    });
}
