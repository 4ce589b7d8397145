//! Loom cases for tasks that move from one run queue to another, each with its own lock, and for a woken task that the
//! waker's CPU notes and that the next CPU to check the note enqueues.

use core::pin::Pin;
use std::boxed::Box;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::FairQueue;
use crate::amount::{Request, RunTime, Weight};
use crate::fair::Entity;
use crate::membership::Refusal;
use tickless_link::id::Realm;

/// The task that moves.
const TASK: u32 = 7;

struct Shared {
    here: Mutex<FairQueue<u32>>,
    there: Mutex<FairQueue<u32>>,
    entity: Pin<Box<Entity<u32>>>,
}

/// Two queues, in the first of which the task waits.
fn shared() -> Arc<Shared> {
    let [here, there] = Realm::new().keys();
    let mut here = FairQueue::new(here);
    let entity = Box::pin(Entity::new(Weight::UNIT, Request::DEFAULT));
    let queued = here.enqueue(entity.as_ref(), TASK, RunTime::ZERO);
    assert!(queued.is_ok());
    Arc::new(Shared {
        here: Mutex::new(here),
        there: Mutex::new(FairQueue::new(there)),
        entity,
    })
}

impl Shared {
    /// Lets a CPU that has nothing to run pull the task. Returns true if the task was in the queue, and not held by
    /// another CPU.
    fn pulls(&self) -> bool {
        let pulled = self.here.lock().unwrap().pull(RunTime::ZERO);
        pulled.is_some_and(|task| {
            let mut there = self.there.lock().unwrap();
            there
                .enqueue(self.entity.as_ref(), task, RunTime::ZERO)
                .is_ok()
        })
    }

    /// Starts a CPU that [pulls](Self::pulls).
    fn pulling(shared: &Arc<Self>) -> JoinHandle<bool> {
        let shared = Arc::clone(shared);
        thread::spawn(move || shared.pulls())
    }

    fn waiting(&self) -> [usize; 2] {
        [&self.here, &self.there].map(|queue| queue.lock().unwrap().waiting())
    }
}

/// A remote CPU enqueues a task while another CPU moves the task to its own queue. The task is in one of the queues,
/// once, and the CPU that was refused learns in which.
#[test]
fn a_task_that_is_woken_while_it_is_carried_stands_in_one_queue() {
    loom::model(|| {
        let shared = shared();
        let pulling = Shared::pulling(&shared);
        let woken = {
            let mut here = shared.here.lock().unwrap();
            let queued = here.enqueue(shared.entity.as_ref(), TASK, RunTime::ZERO);
            queued.map(|_| ()).map_err(|refused| refused.why)
        };
        let pulled = pulling.join().unwrap();
        let expected = match (woken, pulled) {
            // It was let go of and not adopted yet.
            (Ok(()), false) => [1, 0],
            (Err(Refusal::Queued | Refusal::Elsewhere), true) => [0, 1],
            other => panic!("{other:?}"),
        };
        assert_eq!(shared.waiting(), expected);
    });
}

/// Two CPUs that have nothing to run pull from the same CPU: one of them gets the task.
#[test]
fn a_task_is_pulled_by_one_of_two_cpus() {
    loom::model(|| {
        let shared = shared();
        let pulling = Shared::pulling(&shared);
        let mine = shared.here.lock().unwrap().pull(RunTime::ZERO).is_some();
        let theirs = pulling.join().unwrap();
        assert!(mine != theirs);
        assert_eq!(shared.waiting(), [0, usize::from(theirs)]);
        assert_eq!(shared.entity.is_queued(), theirs);
    });
}

/// A CPU looks at the other one as in [`balance`](super::balance): where its own tasks stand, then what waits there and
/// is better off here, and both are let go of between.
fn balances(own: &Mutex<FairQueue<u32>>, other: &Mutex<FairQueue<u32>>, tasks: &[Task]) {
    let mut stands = own.lock().unwrap().standing(RunTime::ZERO);
    let pulled = other.lock().unwrap().pull_for(&mut stands, RunTime::ZERO);
    if let Some(task) = pulled {
        let entity = tasks[task as usize].as_ref();
        let queued = own.lock().unwrap().enqueue(entity, task, RunTime::ZERO);
        assert!(queued.is_ok(), "it was let go of there");
    }
}

type Task = Pin<Box<Entity<u32>>>;

/// Two CPUs compare their tasks with each other's at once: each task stays in one queue, or is held by one CPU.
#[test]
fn two_cpus_that_even_out_at_once_lose_no_task() {
    loom::model(|| {
        let [here, there] = Realm::new().keys();
        let [mut here, mut there] = [here, there].map(|key| FairQueue::new(key));
        let tasks: Arc<[Task; 4]> = Arc::new(core::array::from_fn(|_| {
            Box::pin(Entity::new(Weight::UNIT, Request::DEFAULT))
        }));
        for task in 0..4 {
            let queue = if task == 0 { &mut here } else { &mut there };
            let queued = queue.enqueue(tasks[task as usize].as_ref(), task, RunTime::ZERO);
            assert!(queued.is_ok());
        }
        let queues = Arc::new([here, there].map(Mutex::new));
        let other = {
            let (queues, tasks) = (Arc::clone(&queues), Arc::clone(&tasks));
            thread::spawn(move || balances(&queues[1], &queues[0], &*tasks))
        };
        balances(&queues[0], &queues[1], &*tasks);
        other.join().unwrap();
        let waiting = [0, 1].map(|queue: usize| queues[queue].lock().unwrap().waiting());
        assert_eq!(waiting.iter().sum::<usize>(), 4, "{waiting:?}");
        assert!(waiting.iter().all(|&waiting| waiting > 0), "{waiting:?}");
        for queue in queues.iter() {
            while queue.lock().unwrap().pull(RunTime::ZERO).is_some() {}
        }
    });
}

/// A task that waits beside the one that moves.
const OTHER: u32 = 8;

/// A CPU whose running task woke another task, which the CPU notes and does not enqueue yet, and the CPU that pulls.
struct Noting {
    /// The queue of the CPU, and the noted task.
    here: Mutex<(FairQueue<u32>, Option<u32>)>,
    /// Number of waiting tasks, as it was written last: a CPU that pulls reads it first, without the lock.
    counted: AtomicUsize,
    there: Mutex<FairQueue<u32>>,
    runs: Pin<Box<Entity<u32>>>,
    waits: Pin<Box<Entity<u32>>>,
    wakes_up: Pin<Box<Entity<u32>>>,
}

impl Noting {
    /// Makes a CPU on which a task runs, and another task waits if `others` is true.
    fn new(others: bool) -> Self {
        let [here, there] = Realm::new().keys();
        let mut here = FairQueue::new(here);
        let [runs, waits, wakes_up] =
            [(); 3].map(|()| Box::pin(Entity::new(Weight::UNIT, Request::DEFAULT)));
        assert!(here.enqueue(runs.as_ref(), 1, RunTime::ZERO).is_ok());
        assert_eq!(here.pick(RunTime::ZERO), Some(1));
        if others {
            assert!(here.enqueue(waits.as_ref(), OTHER, RunTime::ZERO).is_ok());
        }
        Self {
            counted: AtomicUsize::new(here.waiting()),
            here: Mutex::new((here, None)),
            there: Mutex::new(FairQueue::new(there)),
            runs,
            waits,
            wakes_up,
        }
    }

    fn entity(&self, task: u32) -> Pin<&Entity<u32>> {
        let entity = if task == TASK {
            &self.wakes_up
        } else {
            &self.waits
        };
        entity.as_ref()
    }

    /// Applies `change` to the queue of the CPU that notes, and publishes the number of waiting tasks.
    fn with<R>(&self, change: impl FnOnce(&mut FairQueue<u32>, &mut Option<u32>) -> R) -> R {
        let mut here = self.here.lock().unwrap();
        let (queue, noted) = &mut *here;
        let result = change(queue, noted);
        let waiting = queue.waiting() + usize::from(noted.is_some());
        // Relaxed: a hint; the lock orders the rest.
        self.counted.store(waiting, Ordering::Relaxed);
        result
    }

    fn enqueue(&self, queue: &mut FairQueue<u32>, noted: &mut Option<u32>) {
        if let Some(task) = noted.take() {
            let filed = queue.enqueue(self.entity(task), task, RunTime::ZERO);
            assert!(filed.is_ok());
        }
    }

    /// The CPU that has nothing to run looks, files what is noted, and takes a task over; which it runs then.
    fn pulls(&self) -> Option<u32> {
        if self.counted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let task = self.with(|queue, noted| {
            self.enqueue(queue, noted);
            queue.pull(RunTime::ZERO)
        })?;
        let mut there = self.there.lock().unwrap();
        let queued = there.enqueue(self.entity(task), task, RunTime::ZERO);
        assert!(queued.is_ok(), "no other queue has it");
        there.pick(RunTime::ZERO)
    }

    /// Lets the running task sleep, and returns the next task. The CPU is handed over to the noted task if no other
    /// task waits.
    fn sleeps(&self) -> Option<u32> {
        let now = RunTime::from_nanos(1_000);
        self.with(|queue, noted| {
            if let Some(task) = noted.take() {
                let to = self.entity(task);
                let from = Some(self.runs.as_ref());
                if queue.hand_over(from, to, RunTime::ZERO, now) {
                    return Some(task);
                }
                *noted = Some(task);
            }
            self.enqueue(queue, noted);
            assert!(queue.sleep(self.runs.as_ref(), now).is_ok());
            queue.pick(now)
        })
    }
}

/// A woken task is noted by the CPU whose running task woke it, and another CPU pulls. Each task runs on one CPU or
/// waits, and the count that is published afterwards is the number of waiting tasks.
#[test]
fn what_a_task_woke_is_filed_once_by_its_cpu_or_by_one_that_pulls() {
    for others in [false, true] {
        loom::model(move || {
            let cpus = Arc::new(Noting::new(others));
            let pulling = {
                let cpus = Arc::clone(&cpus);
                thread::spawn(move || cpus.pulls())
            };
            cpus.with(|_, noted| *noted = Some(TASK));
            let next = cpus.sleeps();
            let pulled = pulling.join().unwrap();
            let tasks = 1 + usize::from(others);
            let run = usize::from(next.is_some()) + usize::from(pulled.is_some());
            assert!(next.is_none() || next != pulled, "{next:?} on two CPUs");
            let waiting = cpus.here.lock().unwrap().0.waiting();
            assert_eq!(run + waiting, tasks, "none is lost");
            assert_eq!(cpus.counted.load(Ordering::Relaxed), waiting);
        });
    }
}
