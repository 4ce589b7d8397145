//! The executor's record of a task, which is stored next to the task's future.
//!
//! # Safety
//!
//! The *Cell Invariant*: a task is one allocation of `async-task`, its cell. The header stays in the cell where it was
//! made, and the cell is freed after the last [`Runnable`], waker and handle of the task. The future is in the same
//! cell and is dropped before that, at the end of its last poll or with its last `Runnable`. So the header of a
//! `Runnable` stays in place as long as the `Runnable` is borrowed, and the header of a future as long as the future
//! exists.
#![expect(
    unsafe_code,
    reason = "tasks stand in cells of async-task (decision 28)"
)]

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_task::Runnable;
use tickless_sched::fair::Enqueued;
use tickless_sched::{FairQueue, RunTime};

use super::listing::{Listing, number};

/// A task that is to be polled.
pub(crate) type Job = Runnable<Header>;

/// A task in a queue.
#[derive(Debug)]
pub(crate) struct Waiting(pub(crate) Job);

// SAFETY: what a `Runnable` asks for is a header that is `Send` and `Sync`, which it is; here that is said, because the
// header holds an entity of these, and the compiler would have to know the answer to find it. The future of a job that
// must not leave its thread is checked by `async-task`, and `give` keeps it there.
unsafe impl Send for Waiting {}

/// Entry that run queues link.
pub(crate) type Entity = tickless_sched::Entity<Waiting>;

/// The origin of a task, for reports.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) location: &'static Location<'static>,
}

/// The interface of an executor to its tasks.
pub(crate) trait Keeper: Send + Sync {
    /// Returns the number that distinguishes this executor from others.
    fn id(&self) -> u64;

    /// Queues a task that is new or was woken, from a thread that is no worker of this executor.
    fn queue_woken(&self, job: Job);

    /// Queues a job of the pool, which may block.
    fn push(&self, job: Job);

    /// Notes that the future of the task has ended or was dropped, while its cell still exists.
    fn end(&self, header: &Header);

    /// Notes that a task panicked.
    fn panicked(&self);

    /// Ends a task at its next turn, which follows at once.
    fn abort(&self, header: &Header);
}

/// The part of a task's cell that does not depend on its future.
pub(crate) struct Header {
    /// Entry that run queues link.
    entity: Entity,
    /// The handle of the task's executor, which is the only one that the task has.
    keeper: Arc<dyn Keeper>,
    /// The number of the executor.
    pub(crate) executor: u64,
    /// The worker whose queue the task is in, or was in last.
    worker: AtomicU32,
    /// The state of the task in the list of its executor: whether it is to be ended, and where its waker is.
    pub(crate) listing: Listing,
    /// True if the task runs only on its worker.
    pub(crate) is_local: bool,
    /// The class of the task's requests.
    pub(crate) class: u8,
    pub(crate) origin: Origin,
}

impl Header {
    /// Makes a header. Inlined, so that the header is written once, at its final place.
    #[inline(always)]
    pub(crate) fn new(
        keeper: Arc<dyn Keeper>,
        worker: usize,
        is_local: bool,
        entity: Entity,
        class: u8,
        origin: Origin,
    ) -> Self {
        Self {
            entity,
            executor: keeper.id(),
            keeper,
            worker: AtomicU32::new(number(worker)),
            listing: Listing::new(),
            is_local,
            class,
            origin,
        }
    }

    /// Returns the executor of the task.
    #[inline]
    pub(crate) const fn keeper(&self) -> &Arc<dyn Keeper> {
        &self.keeper
    }

    /// Returns the address of the header, which identifies the task. The address is never followed.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(crate) fn worker(&self) -> usize {
        // Relaxed: a thread that finds an old one queues the task there.
        self.worker.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_worker(&self, worker: usize) {
        // Relaxed: written by the thread that has the task in its hand, between two queues.
        self.worker.store(number(worker), Ordering::Relaxed);
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Header")
            .field("origin", &self.origin)
            .field("worker", &self.worker())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Header>();
};

/// Puts a task into a queue, which keeps the task until it is picked. Returns `None` if the queue refused the task; the
/// task is then dropped, and counts as cancelled.
// Where it is called from once: a call takes more than what is in it.
#[inline]
pub(crate) fn enqueue(queue: &mut FairQueue<Waiting>, job: Job, now: RunTime) -> Option<Enqueued> {
    let entity = NonNull::from(&job.metadata().entity);
    // SAFETY: Cell Invariant: the cell is there as long as `job`, which the queue keeps in the entity itself or
    // returns, so it outlives this reference.
    let entity = unsafe { entity.as_ref() };
    // SAFETY: Cell Invariant: it does not move.
    let entity = unsafe { Pin::new_unchecked(entity) };
    let queued = queue.enqueue(entity, Waiting(job), now);
    debug_assert!(queued.is_ok(), "a task is in one queue: {queued:?}");
    queued.ok()
}

/// Returns the entity of the task of `job`.
#[cfg(all(test, not(loom)))]
pub(crate) fn entity(job: &Job) -> Pin<&Entity> {
    // SAFETY: Cell Invariant: it does not move, and the cell is there as long as `job`.
    unsafe { Pin::new_unchecked(&job.metadata().entity) }
}

/// Puts the running task `from`, if there is one, to sleep, and picks the task of `job`, which woke up at `woken` and
/// is the only waiting task. Returns `false`, and changes nothing, if these conditions do not hold.
#[inline(always)]
pub(crate) fn hand_over(
    queue: &mut FairQueue<Waiting>,
    from: Option<Pin<&Entity>>,
    job: &Job,
    woken: RunTime,
    now: RunTime,
) -> bool {
    // SAFETY: Cell Invariant: it does not move, and the cell is there as long as `job`.
    let entity = unsafe { Pin::new_unchecked(&job.metadata().entity) };
    queue.hand_over(from, entity, woken, now)
}

/// Works as [`hand_over`] for two tasks that both sleep in debt, without a further call, so that no register is saved.
#[inline(always)]
pub(crate) fn hand_over_in_debt(
    queue: &mut FairQueue<Waiting>,
    from: Pin<&Entity>,
    job: &Job,
    woken: RunTime,
    now: RunTime,
) -> bool {
    // SAFETY: Cell Invariant: as in `hand_over`.
    let entity = unsafe { Pin::new_unchecked(&job.metadata().entity) };
    queue.hand_over_in_debt(from, entity, woken, now)
}

/// The header of the cell in which a future is stored. It is a part of that future, and is not moved out of it.
pub(crate) struct OwnHeader(NonNull<Header>);

// SAFETY: it is a shared reference to the header, which is `Sync`.
unsafe impl Send for OwnHeader {}
// SAFETY: as above.
unsafe impl Sync for OwnHeader {}

impl OwnHeader {
    /// Makes the header that the future for the cell of `header` keeps.
    ///
    /// # Safety
    ///
    /// The result must become a part of the future that is made for the cell of `header`.
    pub(crate) unsafe fn new(header: &Header) -> Self {
        Self(NonNull::from(header))
    }

    #[inline]
    pub(crate) fn get(&self) -> &Header {
        // SAFETY: Cell Invariant: this is a part of the future, so the cell is there.
        unsafe { self.0.as_ref() }
    }

    /// Returns the entry that run queues link.
    #[inline]
    pub(crate) fn entity(&self) -> Pin<&Entity> {
        // SAFETY: Cell Invariant: the header does not move.
        unsafe { Pin::new_unchecked(&self.get().entity) }
    }
}
