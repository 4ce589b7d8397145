//! The claim on an entry whose callback executes.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::{EntryRef, Family, Queue, Raw, State};

/// The claim on an entry whose callback executes.
///
/// There is one for each running entry. Losing it would leave a dangling claim, so dropping it ends the process:
/// finish it with [`stop`](Running::stop), [`restart`](Running::restart) or [`requeue_in`](Running::requeue_in).
#[must_use = "a running entry must be finished"]
pub struct Running<F: Family> {
    pub(super) raw: NonNull<Raw<F>>,
}

impl<F: Family> Running<F> {
    #[inline]
    pub(crate) fn entry(&self) -> EntryRef<'_, F> {
        // The claim keeps the entry alive (Live Link Invariant).
        EntryRef {
            raw: self.raw,
            entry: PhantomData,
        }
    }

    /// Returns the address of the entry, for comparing and printing only.
    #[inline]
    #[must_use]
    pub fn address(&self) -> usize {
        self.entry().address()
    }

    /// Returns the life cycle of the entry. A thread that holds the lock of its queue and finds it neither queued nor
    /// shut can rely on the result that a [`restart`](Running::restart) or [`requeue_in`](Running::requeue_in) will have.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        self.entry().state()
    }

    /// Returns the tag, which is fixed when the entry is made.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> F::Tag {
        self.entry().tag()
    }

    /// Returns the name of the callback in dumps.
    #[must_use]
    pub fn callback_name(&self) -> &'static str {
        self.entry().callback_name()
    }

    /// Returns the data that any thread may reach at any time.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &F::Shared {
        // The claim keeps the entry alive as long as this borrow of it (Live Link Invariant).
        let raw = self.raw;
        // SAFETY: Live Link Invariant: a running entry is alive, and it stays running while its token is borrowed.
        let raw = unsafe { raw.as_ref() };
        &raw.shared
    }

    /// Executes the callback.
    ///
    /// MUST be called without the lock of any queue. If the callback unwinds, the claim survives in the caller's frame,
    /// so the caller catches the panic and then finishes the entry.
    #[inline]
    pub fn call(&mut self, context: &mut F::Context<'_>) -> F::Answer {
        let entry = self.entry();
        // SAFETY: the pointer stems from `Entry::erase`, and the one running token is borrowed mutably.
        unsafe { (entry.actions.call)(self.raw, context) }
    }

    /// Ends the claim without queuing the entry.
    ///
    /// If a thread queued the entry meanwhile it stays queued; otherwise it is idle, and this call no longer uses it.
    #[inline]
    pub fn stop(self, queue: &mut impl Queue<F>) {
        let entry = self.finish(queue);
        entry.mark_not_running();
    }

    /// Ends the claim and has `link` queue the entry in `queue`, unless a thread queued it meanwhile: the other start
    /// wins (spec OBJ-13). The entry is not queued either when it was shut down.
    ///
    /// `update` is called with the head first. Returns the result of `link`, if `link` was called.
    #[inline]
    pub(crate) fn requeue<Q: Queue<F>, T>(
        self,
        queue: &mut Q,
        update: impl FnOnce(&mut F::Head),
        link: impl FnOnce(&mut Q, EntryRef<'_, F>) -> T,
    ) -> Option<T> {
        let entry = self.finish(queue);
        let linked = if entry.own_state() & (State::QUEUED | State::SHUT) == 0 {
            // SAFETY: the queue is held mutably, and `finish` checked that it owns the entry.
            update(unsafe { entry.head_mut() });
            Some(link(queue, entry))
        } else {
            None
        };
        // After queuing, so that the entry is active all the time.
        entry.mark_not_running();
        linked
    }

    /// Checks that `queue` is the one that ran the entry, and turns the claim into a reference that lasts until the
    /// caller's last write to the state.
    fn finish<'q>(self, queue: &mut impl Queue<F>) -> EntryRef<'q, F> {
        let entry = EntryRef {
            raw: self.raw,
            entry: PhantomData,
        };
        if !entry.belongs_to(queue.id()) {
            crate::abort("a running timer was finished on a queue that does not own it");
        }
        queue.note_finished(entry);
        core::mem::forget(self);
        entry
    }
}

impl<F: Family> Drop for Running<F> {
    fn drop(&mut self) {
        crate::abort("a running timer was lost before its callback was finished");
    }
}

impl<F: Family> fmt::Debug for Running<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Running")
            .field(&self.entry())
            .finish()
    }
}
