//! The two classes of tasks of a CPU: those with a reservation run before those of the fair queue.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::Pin;

use tickless_core::link::id::Realm;
use tickless_sched::deadline::{
    Bandwidth, DeadlineQueue, Enqueued, Rejected, Reservation, RuntimeLeft, Server,
};
use tickless_sched::fair::{Rules, Slice};
use tickless_sched::{Entity, FairQueue, Request, RunTime, Weight};

/// The part of the CPU that reservations may come to: the fair tasks have the rest.
const LIMIT: Bandwidth = Bandwidth::percent(95);

/// A task's want of the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want {
    /// A share, according to its weight, a slice at a time.
    Share(Weight, Request),
    /// A runtime in each period.
    Reserved(Reservation),
}

/// The place of a task in the queue of its class.
enum Place {
    Fair(Pin<Box<Entity<usize>>>),
    Reserved(Pin<Box<Server<usize>>>),
}

/// The rest of the time of the running task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    Slice(Slice),
    Runtime(RuntimeLeft),
}

/// The tasks of a CPU, in the queue of their class.
pub(super) struct Classes {
    reserved: DeadlineQueue<usize>,
    fair: FairQueue<usize>,
    /// The places of all tasks, by number. The queues are dropped before.
    places: Vec<Place>,
    /// True if the task that runs has a reservation.
    runs_reserved: bool,
}

impl Classes {
    /// Makes the places of tasks, none of which is in a queue.
    ///
    /// # Errors
    ///
    /// When the reservations come to more than 95 % of the CPU.
    pub(super) fn new(wants: &[Want]) -> Result<Self, Rejected> {
        let [key] = Realm::new().keys();
        let mut classes = Self {
            reserved: DeadlineQueue::new(LIMIT),
            fair: FairQueue::new(key, Rules::default()),
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

    /// Puts a task into its queue that is new, wakes up, or ran and can go on; true if it preempts the one that runs.
    ///
    /// # Panics
    ///
    /// When it is in its queue.
    pub(super) fn enqueue(&mut self, task: usize, now: RunTime) -> bool {
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

    /// The task that runs sleeps.
    ///
    /// # Panics
    ///
    /// When another one runs.
    pub(super) fn sleep(&mut self, task: usize, now: RunTime) {
        let slept = match &self.places[task] {
            Place::Fair(entity) => self.fair.sleep(entity.as_ref(), now).map(drop),
            Place::Reserved(server) => self.reserved.sleep(server.as_ref(), now),
        };
        slept.expect("the task that runs sleeps");
    }

    /// Takes out the task that runs next, when the one that ran was put back, or put to sleep, or has finished.
    pub(super) fn pick(&mut self, now: RunTime) -> Option<usize> {
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

    /// Returns what the task that runs may have until another one has to run; `None` if none runs.
    pub(super) fn rest(&mut self, now: RunTime) -> Option<Rest> {
        if self.runs_reserved {
            return Some(Rest::Runtime(self.reserved.account(now).left()));
        }
        self.fair.slice().map(Rest::Slice)
    }

    /// Returns the number of fair tasks that could run.
    pub(super) fn fair_runnable(&self) -> usize {
        self.fair.runnable()
    }

    /// Returns true if a task with a reservation runs.
    pub(super) const fn runs_reserved(&self) -> bool {
        self.runs_reserved
    }

    /// Returns the begin of the first period in which a task has runtime again that has spent its own.
    pub(super) fn next_replenishment(&self) -> Option<RunTime> {
        self.reserved.next_replenishment()
    }

    /// Reserves more of the CPU, for a task that does not exist.
    ///
    /// # Errors
    ///
    /// When it is too much.
    pub(super) fn reserve(&mut self, reservation: Reservation) -> Result<(), Rejected> {
        self.reserved.admit(reservation).map(drop)
    }

    /// Gives the reservation of a task back that is in no queue; true if it had one.
    pub(super) fn dismiss(&mut self, task: usize) -> bool {
        match &self.places[task] {
            Place::Fair(_) => false,
            Place::Reserved(server) => self.reserved.dismiss(server.as_ref()).is_ok(),
        }
    }
}
