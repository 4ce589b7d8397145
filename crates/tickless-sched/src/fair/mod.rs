//! The fair run queue: earliest eligible virtual deadline first.
//!
//! # The mechanism
//!
//! Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline First: A Flexible and Accurate Mechanism for
//! Proportional Share Resource Allocation* (Old Dominion University, TR-95-22, 1995). Each task has a weight, and asks
//! for the CPU in requests of a length that it chooses. Its *lag* is the service that it is owed. A task is *eligible*
//! while its lag is not negative. The queue serves the eligible task with the earliest virtual *deadline*, until its
//! request is served (*protected* slices). `docs/scheduler.md` explains virtual time, the bound of a lag and the
//! protection of slices.
//!
//! # Who joins, who leaves
//!
//! - A task that sleeps while it is owed time keeps this lag, at most one request (section 3 of the report). One that
//!   owes time stays in the queue without being run, until the debt is paid or the task wakes up (*delayed dequeue*).
//! - A task that moves to another queue keeps its lag, and the rest of its request.
//! - A task that finishes is removed at once. The other tasks bear its debt, or share the service that it was owed.
//! - A change of weight keeps the task's lag and the part of its request that is left.
//!
//! # Several queues
//!
//! A queue is fair to its own tasks. Two queues that are compared now and then are fair to the tasks of both: each has
//! a [standing](FairQueue::standing), the average service of its tasks, and [pulls](FairQueue::pull_for) a task from
//! the other queue if the task would otherwise have less than its share.
//!
//! ```
//! use tickless_sched::{Entity, FairQueue, RunTime};
//!
//! let tasks = [0, 1, 2, 3].map(|_| Box::pin(Entity::default()));
//! let (mut here, mut there) = (FairQueue::default(), FairQueue::default());
//! let now = RunTime::ZERO;
//! here.enqueue(tasks[0].as_ref(), 0, now)?;
//! for number in 1..4 {
//!     there.enqueue(tasks[number].as_ref(), number, now)?;
//! }
//! // One lock at a time: what waits there and should be here, then its place here.
//! let mut stands = here.standing(now);
//! let moved: Vec<usize> = std::iter::from_fn(|| there.pull_for(&mut stands, now)).collect();
//! for number in moved {
//!     here.enqueue(tasks[number].as_ref(), number, now)?;
//! }
//! assert_eq!((here.waiting(), there.waiting()), (2, 2));
//! # drop((here, there));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ground rules
//!
//! The queue is plain data: where several threads use it, its holder protects it by a lock. The holder passes the time
//! to each call. The queue reads no clock, allocates nothing, and calls no code of its user. The task that runs belongs
//! to no queue: the queue keeps its account by value, so the task may be freed while it runs.
//!
//! # Cost
//!
//! Enqueue, dequeue and pick each cost one descent of a [red-black tree](tickless_link::tree), with the smallest
//! virtual time of each subtree as [the guide](tickless_link::tree::Tree::first_where); O(log n). Accounting is O(1).
//!
//! ```
//! use std::pin::pin;
//! use tickless_sched::{Entity, FairQueue, Request, RunTime, Weight};
//!
//! let at = |millis: u64| RunTime::from_nanos(millis * 1_000_000);
//! let small = pin!(Entity::new(Weight::UNIT, Request::DEFAULT));
//! let large = pin!(Entity::new(Weight::UNIT.times(3), Request::DEFAULT));
//! // Behind the tasks, so that it is dropped before them: a task that is queued must not be dropped.
//! let mut queue = FairQueue::default();
//! queue.enqueue(small.as_ref(), "small", at(0))?;
//! queue.enqueue(large.as_ref(), "large", at(0))?;
//!
//! // Three times the weight, a third of the virtual time for a request, so the earlier deadline.
//! assert_eq!(queue.pick(at(0)), Some("large"));
//! assert!(!queue.account(at(2)).is_due(), "its slice goes on");
//! assert!(queue.account(at(3)).is_due());
//! queue.enqueue(large.as_ref(), "large", at(3))?;
//! assert_eq!(queue.pick(at(3)), Some("small"));
//!
//! // It finishes, and the other one has the CPU for itself.
//! queue.retire(at(4));
//! assert_eq!(queue.pick(at(4)), Some("large"));
//! queue.retire(at(9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::num::NonZeroU64;
use core::pin::Pin;

use tickless_core::time::Span;
use tickless_link::entry::EntryRef;
use tickless_link::id::{Key, QueueId, Realm};
use tickless_link::tree::{OwnedEntry, Tree};

use crate::amount::{RunTime, Weight};
use crate::membership::{Pick, Refusal, Refused};

mod balance;
mod entity;
mod hand_over;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
mod virtual_time;

pub use balance::{HORIZON, Standing};
pub use entity::Entity;
use entity::{Fair, Head, Luggage, Share};
use virtual_time::{Average, Virtual, virtual_length};

/// The result of enqueuing a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Enqueued {
    /// True if the task should run in place of the running one, or if no task runs.
    pub preempts: bool,
    /// True if the task was the running one: it was put back, and no task runs.
    pub was_current: bool,
}

/// The result of accounting the running task, which says if its slice is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SliceCheck {
    /// The task continues, or no task runs.
    GoOn,
    /// Another task should run: a decision is due.
    Switch,
}

impl SliceCheck {
    /// Returns true if a decision is due.
    #[must_use]
    pub const fn is_due(self) -> bool {
        matches!(self, Self::Switch)
    }
}

/// The place of a task that stops running: out of the queue, or still in it because it owes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// The task left the queue.
    Left,
    /// The task owes time, and stays in the queue without running.
    Delayed,
}

/// The slice of the running task, for a [slice timer](crate::hrtick).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The weight of the task.
    pub weight: Weight,
    /// The time until its deadline, in virtual nanoseconds; negative if the deadline has passed.
    pub left: i64,
}

impl Slice {
    /// Returns the slice, shortened to `service` if it is longer. It is for a host that decides more often than at the
    /// end of each request.
    ///
    /// ```
    /// use tickless_core::time::Span;
    /// use tickless_sched::{Weight, fair::Slice};
    ///
    /// let slice = Slice { weight: Weight::UNIT.times(2), left: 1_000_000 };
    /// // Twice the weight, so half of the virtual time for the same service.
    /// assert_eq!(slice.at_most(Span::from_micros(200)).left, 100_000);
    /// assert_eq!(slice.at_most(Span::from_millis(5)), slice);
    /// ```
    #[must_use]
    pub fn at_most(self, service: Span) -> Self {
        let work = u128::from(service.as_nanos()) * u128::from(Weight::UNIT.get());
        // Rounded up: never nothing.
        let most = work.div_ceil(u128::from(self.weight.get()));
        let left = self.left.min(i64::try_from(most).unwrap_or(i64::MAX));
        Self { left, ..self }
    }
}

#[derive(Clone, Debug)]
struct Current {
    share: Share,
    /// The virtual time until which the task continues if it is eligible.
    protected_until: Virtual,
}

impl Current {
    /// Creates the account of a task that begins to run.
    #[inline]
    const fn of(share: Share) -> Self {
        Self {
            share,
            protected_until: share.deadline,
        }
    }
}

/// A fair run queue.
///
/// See the [module documentation](self).
pub struct FairQueue<T: Send + 'static> {
    /// Waiting tasks, and sleeping tasks that still owe time.
    tree: Tree<Fair<T>>,
    /// Average over the tree and the running task.
    average: Average,
    current: Option<Current>,
    /// Number of sleeping tasks in the tree.
    delayed: usize,
    /// The time up to which the running task is accounted.
    accounted: RunTime,
    /// The number of the last pick, which took the running task, if a task runs. The first number belongs to no task.
    picks: NonZeroU64,
    /// Distance of a [standing](Self::standing) ahead of the average.
    shift: i64,
}

impl<T: Send + 'static> FairQueue<T> {
    /// Makes an empty queue with the identity of `key`.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            tree: Tree::new(key),
            average: Average::new(),
            current: None,
            delayed: 0,
            accounted: RunTime::ZERO,
            picks: NonZeroU64::MIN,
            shift: 0,
        }
    }

    /// Returns the identity of the queue.
    #[must_use]
    pub const fn id(&self) -> QueueId {
        self.tree.id()
    }

    /// Returns the number of tasks that could run: the waiting ones, and the running one.
    #[must_use]
    pub fn runnable(&self) -> usize {
        self.waiting() + usize::from(self.current.is_some())
    }

    /// Returns the number of waiting tasks.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.tree.len() - self.delayed
    }

    /// Returns the number of tasks that sleep and still owe time.
    #[must_use]
    pub const fn delayed(&self) -> usize {
        self.delayed
    }

    /// Returns true if a task runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.current.is_some()
    }

    /// Charges the running task for the time until `now`. Returns whether another task should run.
    ///
    /// A host calls it at each tick, at each slice timer, and whenever a task checks if it should give way. A `now`
    /// before the last one counts as the last one.
    ///
    /// # Cost
    ///
    /// O(1) within a protected slice, else O(log n).
    pub fn account(&mut self, now: RunTime) -> SliceCheck {
        self.charge(now);
        let Some(current) = &self.current else {
            return SliceCheck::GoOn;
        };
        let share = current.share;
        if share.vruntime < current.protected_until {
            return SliceCheck::GoOn;
        }
        let eligible = share.vruntime <= self.average.settle();
        match self.best() {
            Some((_, deadline)) if !eligible || deadline < share.deadline => SliceCheck::Switch,
            _ => {
                // It was the best once more: that is a pick.
                self.protect();
                SliceCheck::GoOn
            }
        }
    }

    /// Removes the task that runs next, and returns its item. The task belongs to no queue while it runs.
    ///
    /// A task that ran before, and was neither enqueued again nor put to sleep, [has finished](Self::retire).
    ///
    /// # Cost
    ///
    /// O(log n), and the same for each sleeping task that has paid its debt since the previous pick.
    pub fn pick(&mut self, now: RunTime) -> Option<T> {
        self.retire(now);
        loop {
            let average = self.average.settle();
            let pick = self.next_pick();
            let mut slot = self.tree.open_first_where(
                |head| head.holds_eligible(average),
                |head| head.is_eligible(average),
            )?;
            if slot.head().is_delayed {
                self.delayed -= 1;
                let_go(slot, &mut self.average);
                continue;
            }
            let share = slot.head().hand_out(pick);
            let Some(item) = slot.release_expired() else {
                // Cannot be: what waits carries something.
                self.average.remove(share.weight, share.vruntime);
                continue;
            };
            self.begin(share, pick);
            return Some(item);
        }
    }

    /// Returns the pick of the task that is handed out next.
    #[inline]
    fn next_pick(&self) -> Pick {
        self.last_pick().next()
    }

    /// Returns the pick of the running task, if one runs.
    #[inline]
    fn last_pick(&self) -> Pick {
        Pick {
            queue: self.tree.id(),
            number: self.picks,
        }
    }

    /// Makes the task of this account, which is in the average, the running task: the [next pick](Self::next_pick) took
    /// it.
    #[inline]
    fn begin(&mut self, share: Share, pick: Pick) {
        self.picks = pick.number;
        self.current = Some(Current::of(share));
    }

    /// Enqueues a task that is new, wakes up, comes from another queue, or ran and could go on.
    ///
    /// The task keeps its lag. [`pick`](Self::pick) returns `item` with it.
    ///
    /// # Errors
    ///
    /// When a queue has the task already. The error returns the item.
    ///
    /// # Cost
    ///
    /// O(log n). If no other task waits, the same cost is added for each sleeping task that has paid its debt.
    #[inline]
    pub fn enqueue(
        &mut self,
        entity: Pin<&Entity<T>>,
        item: T,
        now: RunTime,
    ) -> Result<Enqueued, Refused<T>> {
        self.charge(now);
        if self.waiting() == 0 && self.delayed > 0 {
            // A task ran alone, and no decision was made: those that slept and have paid since are let go first. One of
            // them would be owed what that task had, and the others would have the new one placed too far ahead.
            let _none = self.best();
        }
        let entry = entity.linked();
        if let Some(mut slot) = self.tree.open(entry.erase()) {
            let head = slot.head();
            if !head.is_delayed {
                let why = Refusal::Queued;
                return Err(Refused { item, why });
            }
            head.is_delayed = false;
            let share = head.share;
            self.delayed -= 1;
            self.carry(entity, item);
            return Ok(self.enqueued(share, false));
        }
        let (average, last) = (&self.average, self.last_pick());
        let Some(mut slot) = self.tree.adopt(entry.erase()) else {
            let why = Refusal::Elsewhere;
            return Err(Refused { item, why });
        };
        let head = slot.head();
        let running = self.current.take_if(|_| last.took(head.pick));
        let was_current = running.is_some();
        if let Some(running) = running {
            // It is in the average already.
            head.share = running.share;
        } else {
            head.unpack(average);
            self.average.add(head.share.weight, head.share.vruntime);
        }
        let share = head.share;
        slot.insert(share.deadline);
        self.carry(entity, item);
        Ok(self.enqueued(share, was_current))
    }

    /// Notes that the running task sleeps.
    ///
    /// # Errors
    ///
    /// If the entity is not that of the running task, nothing changes: another queue got the task while it ran, or it
    /// was enqueued here again before.
    ///
    /// # Cost
    ///
    /// O(log n) when the task is delayed, else O(1).
    pub fn sleep(&mut self, entity: Pin<&Entity<T>>, now: RunTime) -> Result<Sleep, Refusal> {
        self.charge(now);
        let (entry, last) = (entity.linked(), self.last_pick());
        let Some(mut slot) = self.tree.adopt(entry.erase()) else {
            return Err(Refusal::Elsewhere);
        };
        let head = slot.head();
        let Some(current) = self.current.take_if(|_| last.took(head.pick)) else {
            slot.let_go();
            return Err(Refusal::Elsewhere);
        };
        Ok(self.lay_down(entry.erase(), current.share))
    }

    /// Notes that the running task has finished, or leaves for another reason; has no effect if no task runs.
    pub fn retire(&mut self, now: RunTime) {
        self.charge(now);
        if let Some(Current { share, .. }) = self.current.take() {
            self.average.remove(share.weight, share.vruntime);
        }
    }

    /// Removes a task that waits, or that sleeps and still owes time: to move it to another queue, to change it, or to
    /// end it.
    ///
    /// The task keeps its lag, and the rest of its request. Returns `None` if the task is not queued here; a task that
    /// slept has no item.
    ///
    /// # Cost
    ///
    /// O(log n).
    pub fn dequeue(&mut self, entity: Pin<&Entity<T>>, now: RunTime) -> Option<Option<T>> {
        self.charge(now);
        let average = self.average.settle();
        let mut slot = self.tree.open(entity.linked().erase())?;
        let head = slot.head();
        let share = head.share;
        let lag = average.since(share.vruntime);
        head.luggage = Luggage {
            lag: if head.is_delayed {
                lag.min(0)
            } else {
                capped(lag, share)
            },
            rest: (!head.is_delayed).then(|| share.deadline.since(share.vruntime)),
        };
        self.delayed -= usize::from(core::mem::take(&mut head.is_delayed));
        let item = slot.release_expired();
        self.average.remove(share.weight, share.vruntime);
        Some(item)
    }

    /// Removes the task that this queue would pick next, for another queue that has no tasks.
    ///
    /// The task keeps its lag. The running task stays, and so do sleeping tasks and those that are
    /// [pinned](Entity::pinned_if).
    ///
    /// # Cost
    ///
    /// As [`pick`](Self::pick).
    pub fn pull(&mut self, now: RunTime) -> Option<T> {
        self.pull_as(now, |share, lag| Some(capped(lag, share)))
    }

    /// Removes the task that this queue would pick next, for another queue that has tasks, if the move is better for
    /// both. `to` is the standing of the other queue's tasks; afterwards it includes the moved one.
    ///
    /// The task keeps its lag, and the difference between the service of this queue's tasks and the service of the
    /// other queue's tasks. The tasks that stay are those of [`pull`](Self::pull).
    ///
    /// # Cost
    ///
    /// As [`pick`](Self::pick), and the same for each pinned task that comes before.
    pub fn pull_for(&mut self, to: &mut Standing, now: RunTime) -> Option<T> {
        let own = self.standing(now);
        let ahead = to.ahead_of(own);
        self.pull_as(now, |share, lag| {
            if !to.takes(own, share.weight, share.request) {
                return None;
            }
            Some(to.join(share.weight, capped(lag, share).saturating_add(ahead)))
        })
    }

    /// Removes the task that this queue would pick next, unless `takes_along`, which gets the task's lag, decides that
    /// the task stays. The result of `takes_along` is the task's lag in the other queue.
    fn pull_as(
        &mut self,
        now: RunTime,
        mut takes_along: impl FnMut(Share, i64) -> Option<i64>,
    ) -> Option<T> {
        self.charge(now);
        loop {
            // Lets those go that slept and have paid.
            let _best = self.best();
            let average = self.average.settle();
            let eligible = |head: &Head| head.is_eligible(average) && head.can_move();
            let tree = &mut self.tree;
            let is_owed = tree
                .open_first_among(|head| head.holds_eligible(average), eligible)
                .is_some();
            // Where all that are eligible stay, or the one that runs is the only one, the earliest deadline.
            let mut slot = tree.open_first_among(
                |head| !is_owed || head.holds_eligible(average),
                |head| head.can_move() && (!is_owed || head.is_eligible(average)),
            )?;
            let head = slot.head();
            let share = head.share;
            head.luggage = Luggage {
                lag: takes_along(share, average.since(share.vruntime))?,
                rest: Some(share.deadline.since(share.vruntime)),
            };
            let item = slot.release_expired();
            self.average.remove(share.weight, share.vruntime);
            if item.is_some() {
                return item;
            }
        }
    }

    /// Removes any waiting task, a [pinned](Entity::pinned_if) one included, for a queue that ends.
    ///
    /// Tasks come in the order of their deadlines. No task keeps its lag, and tasks that sleep here are released
    /// meanwhile.
    ///
    /// # Cost
    ///
    /// O(log n), and the same for each task that sleeps here.
    pub fn take_any(&mut self) -> Option<T> {
        loop {
            let mut slot = self.tree.open_first()?;
            let head = slot.head();
            let share = head.share;
            head.luggage = Luggage::default();
            self.delayed -= usize::from(core::mem::take(&mut head.is_delayed));
            let item = slot.release_expired();
            self.average.remove(share.weight, share.vruntime);
            if item.is_some() {
                return item;
            }
        }
    }

    /// Returns the service of the tasks of this queue, for a comparison with another queue.
    pub fn standing(&mut self, now: RunTime) -> Standing {
        self.charge(now);
        let at = self.average.settle().since(Virtual::ZERO);
        Standing::new(self.average.weight(), at.wrapping_add(self.shift))
    }

    /// Moves the standing of this queue's tasks from `from` to `to`.
    pub const fn shift(&mut self, from: Standing, to: Standing) {
        self.shift = self.shift.wrapping_add(to.ahead_of(from));
    }

    /// Changes the weight of a task that waits here, runs here, or is in no queue.
    ///
    /// The task is owed, or owes, the same service as before, and the same part of its request is left.
    ///
    /// # Errors
    ///
    /// When another queue has the task.
    ///
    /// # Cost
    ///
    /// O(log n) if the task waits, else O(1).
    pub fn reweight(
        &mut self,
        entity: Pin<&Entity<T>>,
        weight: Weight,
        now: RunTime,
    ) -> Result<(), Refusal> {
        self.change(entity, now, |share, luggage, average| {
            share.reweigh(weight, average);
            *luggage = luggage.reweighed(share.weight, weight);
            share.weight = weight;
        })
    }

    /// Returns the slice of the running task, as it was accounted last.
    #[must_use]
    pub fn slice(&self) -> Option<Slice> {
        self.current.as_ref().map(|Current { share, .. }| Slice {
            weight: share.weight,
            left: share.deadline.since(share.vruntime),
        })
    }

    /// Returns the lag of the running task, in nanoseconds of service; negative if it received more than its share.
    #[must_use]
    pub fn current_lag(&self) -> Option<i64> {
        self.current
            .as_ref()
            .map(|current| self.lag_of(&current.share))
    }

    /// Returns the lag of a queued task, in nanoseconds of service. A task that sleeps and still owes time is queued
    /// too.
    #[must_use]
    pub fn lag(&mut self, entity: Pin<&Entity<T>>) -> Option<i64> {
        let mut slot = self.tree.open(entity.linked().erase())?;
        let share = slot.head().share;
        Some(self.lag_of(&share))
    }

    fn charge(&mut self, now: RunTime) {
        let served = now.saturating_since(self.accounted).as_nanos();
        self.accounted = self.accounted.max(now);
        let Some(current) = &mut self.current else {
            return;
        };
        let share = &mut current.share;
        // 73 minutes at once: more is a host that lost its clock, and would not fit.
        let (distance, carry) = share.virtual_service(served.min(1 << 42));
        if self.average.is_out_of_reach(share.vruntime.after(distance)) {
            return;
        }
        share.carry = carry;
        share.vruntime = share.vruntime.after(distance);
        self.average.advance(share.weight, distance);
        if share.vruntime >= share.deadline {
            share.open_request();
        }
    }

    /// Lets the task that ran sleep. Its entity is adopted, and its account is still in the average.
    fn lay_down(&mut self, entry: EntryRef<'_, Fair<T>>, share: Share) -> Sleep {
        let lag = self.average.settle().since(share.vruntime);
        let others = self.average.weight() > share.weight.get();
        let Some(mut slot) = self.tree.open(entry) else {
            unreachable!("the caller adopted it")
        };
        let head = slot.head();
        head.share = share;
        if lag < 0 && others {
            head.is_delayed = true;
            slot.insert(share.deadline);
            self.delayed += 1;
            return Sleep::Delayed;
        }
        head.luggage = Luggage {
            lag: if others { capped(lag, share) } else { 0 },
            rest: None,
        };
        slot.let_go();
        self.average.remove(share.weight, share.vruntime);
        Sleep::Left
    }

    /// Changes the account of a task, wherever it is; `change` gets the account, the lag that the task keeps while no
    /// queue has it, and the average, and leaves the lag as it is.
    fn change(
        &mut self,
        entity: Pin<&Entity<T>>,
        now: RunTime,
        change: impl FnOnce(&mut Share, &mut Luggage, Virtual),
    ) -> Result<(), Refusal> {
        self.charge(now);
        let average = self.average.settle();
        let entry = entity.linked().erase();
        if let Some(mut slot) = self.tree.open(entry) {
            let head = slot.head();
            let before = head.share;
            change(&mut head.share, &mut head.luggage, average);
            let after = head.share;
            slot.reposition(after.deadline);
            self.average.exchange(before.at(), after.at());
            return Ok(());
        }
        let last = self.last_pick();
        let Some(mut slot) = self.tree.adopt(entry) else {
            return Err(Refusal::Elsewhere);
        };
        let head = slot.head();
        let running = self.current.as_mut().filter(|_| last.took(head.pick));
        if let Some(running) = running {
            let before = running.share;
            change(&mut running.share, &mut head.luggage, average);
            running.protected_until = running.share.deadline;
            self.average.exchange(before.at(), running.share.at());
        } else {
            change(&mut head.share, &mut head.luggage, average);
        }
        slot.let_go();
        Ok(())
    }

    /// Returns the earliest deadline of the eligible waiting tasks, and the average by which they are eligible.
    /// Releases sleeping tasks that have paid their debt.
    fn best(&mut self) -> Option<(Virtual, Virtual)> {
        loop {
            let average = self.average.settle();
            let mut slot = self.tree.open_first_where(
                |head| head.holds_eligible(average),
                |head| head.is_eligible(average),
            )?;
            if !slot.head().is_delayed {
                return Some((average, slot.key()));
            }
            self.delayed -= 1;
            let_go(slot, &mut self.average);
        }
    }

    /// Protects the task that runs until its request is served.
    fn protect(&mut self) {
        if let Some(current) = &mut self.current {
            current.protected_until = current.share.deadline;
        }
    }

    fn enqueued(&self, share: Share, was_current: bool) -> Enqueued {
        Enqueued {
            preempts: self.preempts(&share),
            was_current,
        }
    }

    /// Returns true if a task that waits should run in place of the one that does.
    fn preempts(&self, share: &Share) -> bool {
        let Some(current) = &self.current else {
            return true;
        };
        let average = self.average.value();
        if share.vruntime > average {
            return false;
        }
        if current.share.vruntime > average {
            return true;
        }
        let protected = current.share.vruntime < current.protected_until;
        share.deadline < current.share.deadline
            && (!protected || share.request < current.share.request)
    }

    /// Stores the item that is to be handed out with a task that is queued here.
    fn carry(&mut self, entity: Pin<&Entity<T>>, item: T) {
        if let Some(place) = entity.linked().guarded(&mut self.tree) {
            *place = Some(item);
        }
    }

    fn lag_of(&self, share: &Share) -> i64 {
        let lag =
            i128::from(self.average.value().since(share.vruntime)) * i128::from(share.weight.get());
        let lag = lag.div_euclid(i128::from(Weight::UNIT.get()));
        i64::try_from(lag).unwrap_or(if lag < 0 { i64::MIN } else { i64::MAX })
    }
}

/// Releases a sleeping task that has paid its debt. The service that it is owed by now, because no decision was made
/// earlier, stays with the other tasks.
fn let_go<T: Send + 'static>(mut slot: OwnedEntry<'_, '_, Fair<T>>, average: &mut Average) {
    let head = slot.head();
    head.is_delayed = false;
    head.luggage = Luggage::default();
    let share = head.share;
    slot.release_expired();
    average.remove(share.weight, share.vruntime);
}

/// Limits a positive lag to the length of one request; a negative lag is unchanged. Without the limit, a task that
/// waited behind a task that cannot be preempted would later make the other tasks wait as long.
#[inline]
fn capped(lag: i64, share: Share) -> i64 {
    lag.min(virtual_length(share.request, share.weight))
}

impl<T: Send + 'static> Drop for FairQueue<T> {
    fn drop(&mut self) {
        // What is handed out may be all that keeps the task alive, or the task may keep it alive: neither may survive.
        while let Some(slot) = self.tree.open_first() {
            drop(slot.release_expired());
        }
    }
}

impl<T: Send + 'static> Default for FairQueue<T> {
    fn default() -> Self {
        let [key] = Realm::new().keys();
        Self::new(key)
    }
}

impl<T: Send + 'static> fmt::Debug for FairQueue<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FairQueue")
            .field("waiting", &self.waiting())
            .field("delayed", &self.delayed)
            .field("current", &self.current)
            .field("average", &self.average)
            .finish_non_exhaustive()
    }
}
