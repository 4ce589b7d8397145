//! Loom cases for tasks that go from one run queue to another, each of which has a lock of its own.

use core::pin::Pin;
use std::boxed::Box;

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use super::{FairQueue, Rules};
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
    let mut here = FairQueue::new(here, Rules::default());
    let entity = Box::pin(Entity::new(Weight::UNIT, Request::DEFAULT));
    let queued = here.enqueue(entity.as_ref(), TASK, RunTime::ZERO);
    assert!(queued.is_ok());
    Arc::new(Shared {
        here: Mutex::new(here),
        there: Mutex::new(FairQueue::new(there, Rules::default())),
        entity,
    })
}

impl Shared {
    /// A CPU that has nothing to run takes the task over; whether it was there, and not in the hands of another CPU.
    fn pulls(&self) -> bool {
        let pulled = self.here.lock().unwrap().pull(RunTime::ZERO);
        pulled.is_some_and(|task| {
            let mut there = self.there.lock().unwrap();
            there
                .enqueue(self.entity.as_ref(), task, RunTime::ZERO)
                .is_ok()
        })
    }

    /// Another CPU [does so](Self::pulls).
    fn pulling(shared: &Arc<Self>) -> JoinHandle<bool> {
        let shared = Arc::clone(shared);
        thread::spawn(move || shared.pulls())
    }

    fn waiting(&self) -> [usize; 2] {
        [&self.here, &self.there].map(|queue| queue.lock().unwrap().waiting())
    }
}

/// A task is enqueued from afar while another CPU carries it to its own queue: it stands in one of them, once, and who
/// was refused is told where it is.
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

/// Two CPUs that have nothing to run pull from the same one: one of them has the task.
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
