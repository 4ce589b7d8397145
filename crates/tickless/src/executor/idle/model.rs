//! Loom cases: a worker that parks while a task is queued, and two threads that claim one worker.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::Idle;

fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// The state of a worker and its queue that other threads see.
struct Shared {
    idle: Idle,
    /// The number of waiting tasks. It is counted without the fence of the queue's lock, as workers read it that would
    /// pull.
    waiting: AtomicUsize,
    notified: AtomicBool,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            idle: Idle::new(1),
            waiting: AtomicUsize::new(0),
            notified: AtomicBool::new(false),
        })
    }

    /// Queues a task, and wakes a worker if one is idle.
    fn queue(&self) {
        self.waiting.store(1, Ordering::Relaxed);
        if self.idle.any() && self.idle.claim_near(0).is_some() {
            self.notified.store(true, Ordering::Relaxed);
        }
    }

    /// Announces that the worker is idle, and checks for tasks. Returns true if the worker parks.
    fn parks(&self) -> bool {
        self.idle.enter(0);
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// A remote thread enqueues a task, and another worker could pull it, while the worker goes to sleep: the task is seen,
/// or the worker is woken.
#[test]
fn a_task_that_is_queued_while_a_worker_parks_is_not_lost() {
    check(|| {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let queueing = thread::spawn(move || other.queue());
        let parks = shared.parks();
        queueing.join().expect("the model does not panic");
        // The notification that is there when all have ended is the one that the park finds.
        assert!(!parks || shared.notified.load(Ordering::Relaxed));
    });
}

/// Two tasks are queued for one idle worker: the worker is woken once, and claimed by one thread.
#[test]
fn an_idle_worker_is_claimed_by_one_thread() {
    check(|| {
        let shared = Shared::new();
        shared.idle.enter(0);
        let other = Arc::clone(&shared);
        let claiming = thread::spawn(move || other.idle.claim_near(0).is_some());
        let mine = shared.idle.claim(0);
        let theirs = claiming.join().expect("the model does not panic");
        assert!(mine != theirs);
    });
}

/// The worker wakes up for another reason while a thread claims it: the worker gets one notification too many, and is
/// not idle.
#[test]
fn a_worker_that_leaves_while_it_is_claimed_is_not_idle() {
    check(|| {
        let shared = Shared::new();
        shared.idle.enter(0);
        let other = Arc::clone(&shared);
        let claiming = thread::spawn(move || other.idle.claim(0));
        shared.idle.leave(0);
        claiming.join().expect("the model does not panic");
        assert!(!shared.idle.any());
    });
}
