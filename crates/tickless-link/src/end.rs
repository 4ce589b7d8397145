//! Values that end in their place: they are dropped, or a queue takes them apart.
//!
//! When a value is dropped that a queue just released, its destructor checks again two facts that were known before:
//! whether the value is still queued, and whether it has something to drop. Before that, the queue has prepared the
//! value for its next start. If the value is never used again, all of this work is wasted.
//!
//! # Mechanism
//!
//! A [`Dropping`] value is pinned, and the caller that holds the `Dropping` may end the value: [drop
//! it](Dropping::drop_in_place), or have [a queue take it apart](crate::buckets::BucketArray::end). The result is a
//! [`Dropped`], the proof that the place holds nothing that is used or would have to be dropped.
//! [`Made::end`](crate::lazy_init::Made::end) gives out the `Dropping`, and demands the `Dropping` or the `Dropped`
//! back.
//!
//! # Invariant
//!
//! *One End*: for the value at a place, at most one `Dropping` or `Dropped` exists. The code that gave out the
//! `Dropping` does not use the place before it has a `Dropping` or `Dropped` back.

use core::pin::Pin;

/// A pinned value, with the right to end it: to drop it, or to have a queue take it apart.
#[derive(Debug)]
#[must_use = "it goes back to who gave it out, or is ended"]
pub struct Dropping<'v, T>(Pin<&'v mut T>);

/// The proof that the value in a place was ended.
#[derive(Debug)]
#[must_use = "it goes back to who gave out the value"]
pub struct Dropped<'v, T>(&'v mut core::mem::MaybeUninit<T>);

/// The result of an attempt to end a value: data that was taken out of it, or the untouched value.
pub type End<'v, T, R> = Result<(R, Dropped<'v, T>), Dropping<'v, T>>;

impl<'v, T> Dropping<'v, T> {
    /// Returns the value.
    #[inline(always)]
    pub fn as_ref(&self) -> Pin<&T> {
        self.0.as_ref()
    }

    /// Drops the value.
    #[inline]
    pub fn drop_in_place(self) -> Dropped<'v, T> {
        // SAFETY: nothing is moved: the place is given to the destructor alone.
        let value = unsafe { self.0.get_unchecked_mut() };
        // SAFETY: a valid value, and *One End*: it is not used afterwards. Should its destructor unwind, neither a
        // `Dropping` nor an `Dropped` is left.
        unsafe { core::ptr::drop_in_place(value) };
        Dropped::at(value)
    }

    /// Claims that the value was ended.
    ///
    /// # Safety
    ///
    /// No code may use the value any more, and the effects of the value's destructor MUST NOT be needed.
    #[inline(always)]
    pub(crate) unsafe fn ended(self) -> Dropped<'v, T> {
        // SAFETY: nothing is moved, and nothing uses the value any more.
        Dropped::at(unsafe { self.0.get_unchecked_mut() })
    }

    /// Ends the value by letting `end` end one part of it.
    ///
    /// # Safety
    ///
    /// `part` MUST be a projection to a field that is pinned with the whole, and the destructor of the whole MUST NOT
    /// be needed once the destructor of the part is not needed.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn end_part<U, R>(
        self,
        part: impl for<'p> FnOnce(Pin<&'p mut T>) -> Pin<&'p mut U>,
        end: impl for<'p> FnOnce(Dropping<'p, U>) -> End<'p, U, R>,
    ) -> End<'v, T, R> {
        let mut whole = self;
        match within(part(whole.0.as_mut()), end) {
            // SAFETY: the part was ended, and what the caller promises.
            Some(taken) => Ok((taken, unsafe { whole.ended() })),
            None => Err(whole),
        }
    }
}

impl<'v, T> Dropped<'v, T> {
    /// Claims that the value was ended.
    #[inline(always)]
    fn at(value: &'v mut T) -> Self {
        let place: *mut T = value;
        // SAFETY: a place for a value is a place for any bytes, and stays borrowed for as long.
        Self(unsafe { &mut *place.cast() })
    }
}

/// Lets `end` end `value`. If `end` did so, `value` must not be used afterwards; returns `None` if `end` did not.
#[inline(always)]
pub(crate) fn within<T, R>(
    value: Pin<&mut T>,
    end: impl for<'v> FnOnce(Dropping<'v, T>) -> End<'v, T, R>,
) -> Option<R> {
    // Of two values without a size the address does not tell which is meant.
    const { assert!(size_of::<T>() > 0) };
    let wanted: *const T = &raw const *value;
    // A value that was ended by halves cannot be dropped, and one that is queued cannot be left.
    let unwinds = Unwinds;
    let end = end(Dropping(value));
    core::mem::forget(unwinds);
    let (given, taken): (*const T, _) = match end {
        Ok((taken, ended)) => (ended.0.as_ptr(), Some(taken)),
        Err(living) => (&raw const *living.0, None),
    };
    if !core::ptr::eq(wanted, given) {
        crate::abort("what was given back is another value than that which was to end");
    }
    taken
}

struct Unwinds;

impl Drop for Unwinds {
    fn drop(&mut self) {
        crate::abort("a panic while a value was ended");
    }
}
