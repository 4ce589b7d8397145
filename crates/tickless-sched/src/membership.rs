//! The membership of tasks in queues, in the same form for the queues of all classes.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU64;

use tickless_link::abort;
use tickless_link::entry::{Expiry, Family, Member};
use tickless_link::id::QueueId;

/// The identity of one pick, unique among all picks of all queues. A queue identifies its running task by the pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) queue: QueueId,
    /// Number of the membership, counted from 1, so that an optional pick takes no more space.
    pub(crate) number: NonZeroU64,
}

impl Pick {
    /// Returns the pick of `queue` that follows its first `picks` picks.
    #[inline]
    pub(crate) const fn behind(queue: QueueId, picks: u64) -> Self {
        let number = NonZeroU64::MIN.saturating_add(picks);
        Self { queue, number }
    }

    /// Returns the next pick of the same queue.
    #[inline]
    pub(crate) fn next(self) -> Self {
        let Some(number) = self.number.checked_add(1) else {
            abort("a queue picks less than 2^64 times");
        };
        Self { number, ..self }
    }

    /// Returns true if it is the pick that took a task last, if one did.
    #[inline]
    pub(crate) fn took(self, last: Option<Self>) -> bool {
        // The number first: a task that was never picked has none, which is no number as a word.
        last.map_or(0, |last| last.number.get()) == self.number.get()
            && last.is_some_and(|last| last.queue == self.queue)
    }
}

/// Keeps the item that a queue hands out when it picks the task.
pub(crate) struct Carrier<T>(PhantomData<fn() -> T>);

impl<T> Carrier<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T, F> Member<F> for Carrier<T>
where
    T: Send + 'static,
    F: Family<Token = Option<T>, Answer = ()>,
    for<'a> F: Family<Context<'a> = ()>,
{
    type Guarded = Option<T>;

    fn expire(item: &mut Option<T>) -> Expiry<Option<T>> {
        Expiry::Done(item.take())
    }

    fn call(&mut self, (): &mut ()) {
        unreachable!("a task is handed out, not called")
    }
}

/// The reasons why a task was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The task waits in this queue already.
    Queued,
    /// Another queue has the task, or is just releasing it; or the task is not the one that runs here.
    Elsewhere,
    /// The queue did not [admit](crate::deadline::DeadlineQueue::admit) the task, or has dismissed it.
    NotAdmitted,
}

/// A refused task, with the item that came with it.
pub struct Refused<T> {
    /// The item that came with the task.
    pub item: T,
    /// The reason why the task was refused.
    pub why: Refusal,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Refused")
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Refusal::Queued => "the task is in this run queue already",
            Refusal::Elsewhere => "the task is in another run queue, or not the one that runs",
            Refusal::NotAdmitted => "the task is not admitted to this run queue",
        })
    }
}

impl core::error::Error for Refusal {}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(formatter)
    }
}

impl<T> core::error::Error for Refused<T> {}
