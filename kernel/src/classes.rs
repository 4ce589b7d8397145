//! The two scheduling classes of a CPU: tasks with a reservation run before the tasks of the fair queue.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::Pin;

use tickless_core::link::id::Realm;
use tickless_sched::deadline::{
    Bandwidth, DeadlineQueue, Enqueued, Rejected, Reservation, RuntimeLeft, Server,
};
use tickless_sched::fair::Slice;
use tickless_sched::{Entity, FairQueue, Request, RunTime, Weight};

/// The greatest share of the CPU that reservations may take together: the fair tasks have the rest.
const LIMIT: Bandwidth = Bandwidth::percent(95);

/// A task's claim on the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// A share of the CPU by weight, with the length of a slice.
    Share(Weight, Request),
    /// A runtime in each period.
    Reserved(Reservation),
}

/// The place of a task in the queue of its class.
enum Place {
    Fair(Pin<Box<Entity<usize>>>),
    Reserved(Pin<Box<Server<usize>>>),
}

/// The time that the running task has left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest {
    Slice(Slice),
    Runtime(RuntimeLeft),
}

/// The tasks of a CPU, in the queue of their class.
pub(crate) struct Classes {
    reserved: DeadlineQueue<usize>,
    fair: FairQueue<usize>,
    /// The places of all tasks, by number. The queues are dropped before the places.
    places: Vec<Place>,
    /// True if the running task has a reservation.
    runs_reserved: bool,
}

impl Classes {
    /// Makes the places of tasks, none of which is in a queue.
    ///
    /// # Errors
    ///
    /// When the reservations together exceed 95 % of the CPU.
    pub(crate) fn new(wants: &[Want]) -> Result<Self, Rejected> {
        let [key] = Realm::new().keys();
        let mut classes = Self {
            reserved: DeadlineQueue::new(LIMIT),
            fair: FairQueue::new(key),
            places: Vec::new(),
            runs_reserved: false,
        };
        for want in wants {
            let place = match *want {
                Want::Share(weight, request) => Place::Fair(Box::pin(Entity::new(weight, request))),
                Want::Reserved(reservation) => {
                    Place::Reserved(Box::pin(classes.reserved.admit(reservation)?))
                }
            };
            classes.places.push(place);
        }
        Ok(classes)
    }

    /// Puts a task into its queue when it is new, wakes up, or ran and can continue; returns true if it preempts the
    /// running task.
    ///
    /// # Panics
    ///
    /// When the task is in its queue already.
    pub(crate) fn enqueue(&mut self, task: usize, now: RunTime) -> bool {
        match &self.places[task] {
            Place::Fair(entity) => {
                let queued = self.fair.enqueue(entity.as_ref(), task, now);
                let queued = queued.expect("a task is in its queue once");
                queued.preempts && !queued.was_current && !self.runs_reserved
            }
            Place::Reserved(server) => {
                let queued = self.reserved.enqueue(server.as_ref(), task, now);
                let Enqueued { preempts, .. } = queued.expect("a task is in its queue once");
                preempts
            }
        }
    }

    /// Puts the running task to sleep.
    ///
    /// # Panics
    ///
    /// When another task runs.
    pub(crate) fn sleep(&mut self, task: usize, now: RunTime) {
        let slept = match &self.places[task] {
            Place::Fair(entity) => self.fair.sleep(entity.as_ref(), now).map(drop),
            Place::Reserved(server) => self.reserved.sleep(server.as_ref(), now),
        };
        slept.expect("the task that runs sleeps");
    }

    /// Takes the task that runs next out of its queue. Before the call, the task that ran was put back, was put to
    /// sleep, or has finished.
    pub(crate) fn pick(&mut self, now: RunTime) -> Option<usize> {
        if self.reserved.admitted() == Bandwidth::NONE {
            return self.fair.pick(now);
        }
        let _replenished = self.reserved.replenish(now);
        let reserved = self.reserved.pick(now);
        self.runs_reserved = reserved.is_some();
        if reserved.is_some() {
            self.fair.retire(now);
            return reserved;
        }
        self.fair.pick(now)
    }

    /// Returns the time that the running task has until another task has to run; `None` if no task runs.
    pub(crate) fn rest(&mut self, now: RunTime) -> Option<Rest> {
        if self.runs_reserved {
            return Some(Rest::Runtime(self.reserved.account(now).left()));
        }
        self.fair.slice().map(Rest::Slice)
    }

    /// Returns the number of fair tasks that could run.
    pub(crate) fn fair_runnable(&self) -> usize {
        self.fair.runnable()
    }

    /// Returns true if a task with a reservation runs.
    pub(crate) const fn runs_reserved(&self) -> bool {
        self.runs_reserved
    }

    /// Returns the earliest begin of a period in which a task that has spent its runtime gets new runtime.
    pub(crate) fn next_replenishment(&self) -> Option<RunTime> {
        self.reserved.next_replenishment()
    }

    /// Reserves more of the CPU, without a task for it.
    ///
    /// # Errors
    ///
    /// When the reservations together would be too much.
    pub(crate) fn reserve(&mut self, reservation: Reservation) -> Result<(), Rejected> {
        self.reserved.admit(reservation).map(drop)
    }

    /// Gives up the reservation of a task that is in no queue; returns true if the task had a reservation.
    pub(crate) fn dismiss(&mut self, task: usize) -> bool {
        match &self.places[task] {
            Place::Fair(_) => false,
            Place::Reserved(server) => self.reserved.dismiss(server.as_ref()).is_ok(),
        }
    }
}
