//! The run queue's record of a task.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use tickless_link::entry::{Branches, Entry, Family};

use super::virtual_time::{Average, FARTHEST, Virtual, virtual_length};
use crate::amount::{Request, Weight};
use crate::membership::{Carrier, Pick};

/// The entries of fair queues that hand out `T`: by deadline, each with the smallest virtual time below it.
pub(crate) struct Fair<T>(PhantomData<fn() -> T>);

impl<T: Send + 'static> Family for Fair<T> {
    type Key = Virtual;
    type Tag = ();
    type Head = Head;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = Option<T>;
    type Context<'a> = ();
    type Answer = ();

    const SUMMARISED: bool = true;

    #[inline]
    fn summarise(_: Virtual, own: &Head, left: Option<&Head>, right: Option<&Head>) -> bool {
        let mut smallest = own.share.vruntime;
        for below in [left, right].into_iter().flatten() {
            smallest = smallest.min(below.smallest.get());
        }
        own.smallest.replace(smallest) != smallest
    }
}

/// The account of a task that competes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) weight: Weight,
    pub(crate) request: Request,
    /// The service that the task received, divided by its weight. The task is eligible while this value is not greater
    /// than the average.
    pub(crate) vruntime: Virtual,
    /// Virtual deadline of the open request.
    pub(crate) deadline: Virtual,
    /// Remainder of dividing service by the weight, kept so that accounting loses none.
    pub(crate) carry: u64,
}

impl Share {
    /// Returns the part of the task in the average.
    #[inline]
    pub(crate) const fn at(&self) -> (Weight, Virtual) {
        (self.weight, self.vruntime)
    }

    /// Moves the task so that with the weight `weight` it is owed the same service when the queue is at `average`. The
    /// caller changes the weight itself.
    pub(crate) fn reweigh(&mut self, weight: Weight, average: Virtual) {
        let lag = average.since(self.vruntime);
        let rest = self.deadline.since(self.vruntime);
        self.vruntime = average.after(-rescaled(lag, self.weight, weight));
        self.deadline = self.vruntime.after(rescaled(rest, self.weight, weight));
        // A remainder is less than the weight that it was divided by.
        self.carry = self.carry * weight.get() / self.weight.get();
    }

    /// Returns the virtual time of `nanos` nanoseconds of service, 2^42 at most, and the remainder.
    #[inline]
    pub(crate) fn virtual_service(&self, nanos: u64) -> (i64, u64) {
        if self.weight == Weight::UNIT {
            // Most tasks: the one is the other, and nothing is divided.
            return (nanos.cast_signed(), self.carry);
        }
        let work = nanos * Weight::UNIT.get() + self.carry;
        let carry = work % self.weight.get();
        (i64::try_from(work / self.weight.get()).unwrap_or(0), carry)
    }

    /// Charges a task of unit weight with `all` nanoseconds of service, 2^42 at most, of which `first` come first.
    #[inline]
    pub(crate) fn serve_evenly(&mut self, first: i64, all: i64) {
        let stands = self.vruntime.after(all);
        if stands < self.deadline {
            self.vruntime = stands;
            return;
        }
        self.serve_evenly_to_the_end(first, all);
    }

    /// Serves evenly to the end of the request, as [`serve_evenly`](Self::serve_evenly) does within one: the part in
    /// which it ends says when the next one begins.
    #[cold]
    fn serve_evenly_to_the_end(&mut self, first: i64, all: i64) {
        for part in [first, all - first] {
            self.vruntime = self.vruntime.after(part);
            if self.vruntime >= self.deadline {
                self.open_request();
            }
        }
    }

    /// Opens a request that begins at the task's virtual time.
    #[inline]
    pub(crate) fn open_request(&mut self) {
        self.deadline = self
            .vruntime
            .after(virtual_length(self.request, self.weight));
    }
}

/// State that a task keeps while it is in no queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Luggage {
    /// Distance of the average ahead of the task, in virtual time.
    pub(crate) lag: i64,
    /// Rest of the open request, in virtual time; `None` if the next request is a new one.
    pub(crate) rest: Option<i64>,
}

impl Luggage {
    /// Returns the state for the same service with another weight.
    pub(crate) fn reweighed(self, from: Weight, to: Weight) -> Self {
        Self {
            lag: rescaled(self.lag, from, to),
            rest: self.rest.map(|rest| rescaled(rest, from, to)),
        }
    }
}

/// Returns the virtual distance that is worth the same service with another weight, rounded down.
fn rescaled(distance: i64, from: Weight, to: Weight) -> i64 {
    let scaled = (i128::from(distance) * i128::from(from.get())).div_euclid(i128::from(to.get()));
    i64::try_from(scaled)
        .unwrap_or(if scaled < 0 { -FARTHEST } else { FARTHEST })
        .clamp(-FARTHEST, FARTHEST)
}

/// Data that a queue keeps for an entity.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) share: Share,
    pub(crate) luggage: Luggage,
    /// The pick that took the task last, by which a queue identifies its running task.
    pub(crate) pick: Option<Pick>,
    /// True if the task sleeps and stays queued until it has made up for its surplus.
    pub(crate) is_delayed: bool,
    /// True if no CPU may pull the task.
    pub(crate) is_pinned: bool,
    /// The smallest virtual time in the subtree.
    smallest: Cell<Virtual>,
}

impl Head {
    /// Returns true if an entry of the subtree is eligible when the average is at `average`.
    #[inline]
    pub(crate) fn holds_eligible(&self, average: Virtual) -> bool {
        self.smallest.get() <= average
    }

    /// Places the task, with the lag that it kept, in a queue whose other tasks are at `average`.
    #[inline]
    pub(super) fn unpack(&mut self, average: &Average) {
        self.unpack_at(average.place(self.share.weight, self.luggage.lag));
    }

    /// Places the task at `vruntime`, with what was left of its request.
    #[inline]
    pub(super) fn unpack_at(&mut self, vruntime: Virtual) {
        self.share.vruntime = vruntime;
        match self.luggage.rest {
            Some(rest) => self.share.deadline = vruntime.after(rest),
            None => self.share.open_request(),
        }
    }

    /// Gives the task to `pick`, by which the queue identifies it from then on. The task keeps no lag. Returns its
    /// account.
    #[inline]
    pub(super) fn hand_out(&mut self, pick: Pick) -> Share {
        self.is_delayed = false;
        self.luggage = Luggage::default();
        self.pick = Some(pick);
        self.share
    }

    /// Places a task that sleeps in debt, and has kept no lag since [`hand_out`](Self::hand_out) was called for it
    /// last. Its next request begins at `placed_at`, if that is given.
    #[inline]
    pub(super) fn hand_out_again(&mut self, placed_at: Option<Virtual>, pick: Pick) -> Share {
        debug_assert!(self.luggage.lag == 0 && self.luggage.rest.is_none());
        if let Some(vruntime) = placed_at {
            self.share.vruntime = vruntime;
            self.share.open_request();
        }
        self.is_delayed = false;
        self.pick = Some(pick);
        self.share
    }

    #[inline]
    pub(crate) fn can_move(&self) -> bool {
        !self.is_delayed && !self.is_pinned
    }

    #[inline]
    pub(crate) fn is_eligible(&self, average: Virtual) -> bool {
        self.share.vruntime <= average
    }
}

/// A task, which a [`FairQueue`](crate::FairQueue) links without an allocation.
///
/// `T` is the item that the queue returns when the task is picked: a number, a pointer to the task, the task. Dropping
/// the entity while a queue has it ends the process. A picked entity belongs to no queue, so a task that finishes can
/// free its own.
///
/// Cost: 160 bytes on 64-bit targets, and the `Option<T>`.
pub struct Entity<T: Send + 'static> {
    entry: Entry<Fair<T>, Carrier<T>>,
}

tickless_link::project_entry!([T] Entity<T> [T: Send + 'static] entry: Entry<Fair<T>, Carrier<T>>);

impl<T: Send + 'static> Entity<T> {
    tickless_link::const_unless_loom! {
        /// Makes a task that competes with `weight`, and runs for `request` at a time.
        #[must_use]
        pub const fn new(weight: Weight, request: Request) -> Self {
            Self::pinned_if(false, weight, request)
        }
    }

    tickless_link::const_unless_loom! {
        /// Makes an entity. If `is_pinned`, the task stays on its CPU: no other queue pulls it.
        #[must_use]
        #[inline(always)]
        pub const fn pinned_if(is_pinned: bool, weight: Weight, request: Request) -> Self {
            let share = Share {
                weight,
                request,
                vruntime: Virtual::ZERO,
                deadline: Virtual::ZERO,
                carry: 0,
            };
            let head = Head {
                share,
                luggage: Luggage { lag: 0, rest: None },
                pick: None,
                is_delayed: false,
                is_pinned,
                smallest: Cell::new(Virtual::ZERO),
            };
            Self {
                entry: Entry::new(Virtual::ZERO, (), head, (), None, Carrier::new()),
            }
        }
    }

    /// Returns true if a run queue has the task, which waits for its turn, or sleeps and still owes time.
    ///
    /// Lock-free; unless the caller holds the queue, another thread may have changed it since.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    pub(crate) fn linked(
        self: core::pin::Pin<&Self>,
    ) -> core::pin::Pin<&Entry<Fair<T>, Carrier<T>>> {
        self.entry()
    }
}

impl<T: Send + 'static> Default for Entity<T> {
    fn default() -> Self {
        Self::new(Weight::UNIT, Request::DEFAULT)
    }
}

impl<T: Send + 'static> fmt::Debug for Entity<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Entity")
            .field("state", &self.entry.state())
            .field("owner", &self.entry.owner())
            .finish()
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Entity<u64>>() == 160 + size_of::<Option<u64>>());
