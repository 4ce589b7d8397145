//! A pinned value that is made in place when it is first needed.
//!
//! A future is moved from the place where it is made to the place where it waits. The move copies data that was stored
//! shortly before in pieces of other sizes, and such a copy has to wait until all earlier stores have arrived in the
//! cache. After an operation that missed the cache, the wait takes a hundred nanoseconds. A [`LazyInit`] has little to
//! copy until it is pinned, and its value is made in the pinned place.
//!
//! # Invariant
//!
//! *Made*: the value is initialised exactly if the stage says that it is made. The stage is written by
//! [`LazyInit::make`](LazyInit::make) and [`Vacant::fill`], after the value, by [`Made::end`], when the value was
//! ended, and by [`LazyInit::set_stage`], which refuses a stage that contradicts whether the value is made.

use core::fmt;
use core::marker::PhantomPinned;
use core::mem::MaybeUninit;
use core::pin::Pin;

use crate::emplace;
use crate::emplace::Emplaced;
use crate::end::{self, Dropping, End};

/// The stages of a [`LazyInit`], which [`stages!`](crate::stages) defines.
///
/// # Safety
///
/// [`is_made`](Self::is_made) MUST say the same of the same value each time.
pub unsafe trait Stage: Copy {
    /// Returns true if the value was made.
    fn is_made(self) -> bool;
}

/// A stage, a note that is always there, and a value that is made when it is first needed.
///
/// `repr(C)`: the note and the stage lie before the value, so that what is used together can be placed together.
#[repr(C)]
pub struct LazyInit<N, S: Stage, T> {
    note: N,
    stage: S,
    value: MaybeUninit<T>,
    _pinned: PhantomPinned,
}

impl<N, S: Stage, T> LazyInit<N, S, T> {
    /// Creates a cell without a value.
    ///
    /// # Panics
    ///
    /// When `stage` is one of those that have a value.
    // Always, as all of this type: what is known of the stage saves most of it.
    #[inline(always)]
    #[must_use]
    pub fn new(note: N, stage: S) -> Self {
        assert!(!stage.is_made(), "there is no value yet");
        Self {
            note,
            stage,
            value: MaybeUninit::uninit(),
            _pinned: PhantomPinned,
        }
    }

    /// Returns the note.
    #[inline(always)]
    pub const fn note(&self) -> &N {
        &self.note
    }

    /// Returns the note for changes, before the cell is pinned.
    #[inline(always)]
    pub const fn note_mut(&mut self) -> &mut N {
        &mut self.note
    }

    /// Returns the stage.
    #[inline(always)]
    pub const fn stage(&self) -> S {
        self.stage
    }

    /// Changes the stage; the value stays as it is.
    ///
    /// # Panics
    ///
    /// When one of both stages has a value and the other has none.
    #[inline(always)]
    pub fn set_stage(self: Pin<&mut Self>, stage: S) {
        assert!(
            stage.is_made() == self.stage.is_made(),
            "a value is made by `make`, and stays"
        );
        // SAFETY: nothing is moved.
        unsafe { self.get_unchecked_mut() }.stage = stage;
    }

    /// Returns the value, if it was made.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        if !self.stage.is_made() {
            return None;
        }
        // SAFETY: *Made*.
        Some(unsafe { self.value.assume_init_ref() })
    }

    /// Returns the value pinned, if it was made.
    #[inline(always)]
    pub fn value(self: Pin<&Self>) -> Option<Pin<&T>> {
        let value = self.get_ref().get()?;
        // SAFETY: the value is pinned with the whole: nothing here moves it, and it is dropped in place.
        Some(unsafe { Pin::new_unchecked(value) })
    }

    /// Returns the note, and the value if it was made.
    #[inline(always)]
    pub fn parts(self: Pin<&mut Self>) -> (&mut N, Option<Pin<&mut T>>) {
        // SAFETY: nothing is moved: the value is given out pinned, and the note is no part of what is pinned.
        let late = unsafe { self.get_unchecked_mut() };
        let value = if late.stage.is_made() {
            // SAFETY: *Made*.
            let value = unsafe { late.value.assume_init_mut() };
            // SAFETY: as in `value`.
            Some(unsafe { Pin::new_unchecked(value) })
        } else {
            None
        };
        (&mut late.note, value)
    }

    /// Returns the place for the value, if it was not made.
    #[inline(always)]
    pub fn vacant(self: Pin<&mut Self>) -> Option<Vacant<'_, N, S, T>> {
        if self.stage.is_made() {
            return None;
        }
        Some(Vacant { late: self })
    }

    /// Returns the value with the right to [end](Made::end) it, if it was made.
    #[inline(always)]
    pub fn made(self: Pin<&mut Self>) -> Option<Made<'_, N, S, T>> {
        if !self.stage.is_made() {
            return None;
        }
        Some(Made { late: self })
    }

    /// Changes the stage to `stage`, and makes the value if it was not made. Returns the note and the value.
    ///
    /// # Panics
    ///
    /// When `stage` is none that has a value.
    #[inline(always)]
    pub fn make(self: Pin<&mut Self>, stage: S, make: impl FnOnce() -> T) -> (&mut N, Pin<&mut T>) {
        assert!(stage.is_made(), "what is made has a value");
        // SAFETY: nothing is moved: the value is given out pinned, as in `parts`.
        let late = unsafe { self.get_unchecked_mut() };
        if !late.stage.is_made() {
            late.value.write(make());
            late.stage = stage;
        }
        // SAFETY: *Made*: it was, or just now.
        let value = unsafe { late.value.assume_init_mut() };
        // SAFETY: as in `value`.
        (&mut late.note, unsafe { Pin::new_unchecked(value) })
    }
}

/// The place for the value of a [`LazyInit`] that was not made.
#[derive(Debug)]
pub struct Vacant<'l, N, S: Stage, T> {
    /// The value of this one is not made, and nothing else can make it meanwhile.
    late: Pin<&'l mut LazyInit<N, S, T>>,
}

impl<'l, N, S: Stage, T> Vacant<'l, N, S, T> {
    /// Makes the value in its place by `make`, and changes the stage to `stage`. Returns the note, and the value, whose
    /// contents the compiler knows.
    ///
    /// # Panics
    ///
    /// When `stage` is none that has a value.
    #[inline(always)]
    pub fn fill(
        self,
        stage: S,
        make: impl for<'s> FnOnce(&'s mut MaybeUninit<T>) -> Emplaced<'s, T>,
    ) -> (&'l mut N, Pin<&'l mut T>) {
        assert!(stage.is_made(), "what is made has a value");
        // SAFETY: nothing is moved: the value is given out pinned, as in `parts`.
        let late = unsafe { self.late.get_unchecked_mut() };
        emplace::part(&mut late.value, make);
        late.stage = stage;
        // SAFETY: *Made*: just now.
        let value = unsafe { late.value.assume_init_mut() };
        // SAFETY: as in `value`.
        (&mut late.note, unsafe { Pin::new_unchecked(value) })
    }
}

/// A [`LazyInit`] whose value was made.
#[derive(Debug)]
pub struct Made<'l, N, S: Stage, T> {
    /// The value of this one is made, and nothing else can end it meanwhile.
    late: Pin<&'l mut LazyInit<N, S, T>>,
}

impl<N, S: Stage, T> Made<'_, N, S, T> {
    /// Returns the stage.
    #[inline(always)]
    #[must_use]
    pub fn stage(&self) -> S {
        self.late.stage
    }

    /// Ends the value by `end`, and changes the stage to `stage`. Returns the data that was taken out of the value.
    ///
    /// # Errors
    ///
    /// The same, if it was not ended; nothing was done.
    ///
    /// # Panics
    ///
    /// When `stage` is one of those that have a value. A panic of `end` ends the process.
    #[inline(always)]
    pub fn end<R>(
        self,
        stage: S,
        end: impl for<'v> FnOnce(Dropping<'v, T>) -> End<'v, T, R>,
    ) -> Result<R, Self> {
        assert!(!stage.is_made(), "there is no value afterwards");
        let mut late = self.late;
        // SAFETY: nothing is moved: the value is given out pinned, as in `parts`.
        let parts = unsafe { late.as_mut().get_unchecked_mut() };
        // SAFETY: *Made*.
        let value = unsafe { parts.value.assume_init_mut() };
        // SAFETY: as in `LazyInit::value`.
        let value = unsafe { Pin::new_unchecked(value) };
        match end::within(value, end) {
            Some(taken) => {
                parts.stage = stage;
                Ok(taken)
            }
            None => Err(Self { late }),
        }
    }
}

impl<N, S: Stage, T> Drop for LazyInit<N, S, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.stage.is_made() {
            // SAFETY: *Made*, and this is the last access.
            unsafe { self.value.assume_init_drop() };
        }
    }
}

impl<N: fmt::Debug, S: Stage + fmt::Debug, T> fmt::Debug for LazyInit<N, S, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LazyInit")
            .field("note", &self.note)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

/// Defines the [`Stage`]s of a [`LazyInit`]: those before its value is made, and
/// those behind.
///
/// ```
/// tickless_link::stages! {
///     /// How far a door is.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Door {
///         unmade {
///             /// A plan.
///             Planned,
///         }
///         made {
///             /// Closed.
///             Closed,
///             /// Open.
///             Open,
///         }
///     }
/// }
/// # fn main() {
/// use tickless_link::lazy_init::Stage;
/// assert!(!Door::Planned.is_made() && Door::Open.is_made());
/// # }
/// ```
#[macro_export]
macro_rules! stages {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Stages:ident {
            unmade { $($(#[$of_unmade:meta])* $Unmade:ident,)+ }
            made { $($(#[$of_made:meta])* $Made:ident,)+ }
        }
    ) => {
        $(#[$attribute])*
        #[repr(u32)]
        $visibility enum $Stages {
            $($(#[$of_unmade])* $Unmade,)+
            $($(#[$of_made])* $Made,)+
        }

        // SAFETY: what it says depends on the value alone.
        unsafe impl $crate::lazy_init::Stage for $Stages {
            #[inline(always)]
            fn is_made(self) -> bool {
                ::core::matches!(self, $(Self::$Made)|+)
            }
        }
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::rc::Rc;

    use super::*;

    crate::stages! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Step {
            unmade {
                New,
                Waiting,
            }
            made {
                Ready,
                Done,
            }
        }
    }

    #[test]
    fn the_value_is_made_once_and_dropped_once() {
        let counted = Rc::new(());
        {
            let mut late = pin!(LazyInit::new(7_u32, Step::New));
            assert!(late.as_ref().value().is_none());
            late.as_mut().set_stage(Step::Waiting);
            late.as_mut().make(Step::Ready, || Rc::clone(&counted));
            late.as_mut()
                .make(Step::Done, || unreachable!("it is made"));
            assert_eq!(late.stage(), Step::Ready);
            late.as_mut().set_stage(Step::Done);
            let (note, value) = late.as_mut().parts();
            *note += 1;
            assert!(Rc::ptr_eq(&value.unwrap(), &counted));
            assert_eq!((*late.note(), Rc::strong_count(&counted)), (8, 2));
        }
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn what_was_never_made_is_not_dropped() {
        let mut late = LazyInit::<_, _, Box<u32>>::new(0_u8, Step::New);
        *late.note_mut() = 1;
        // Moved, as a future is before it is polled.
        let moved = Box::new(late);
        assert_eq!((*moved.note(), moved.stage()), (1, Step::New));
    }

    #[test]
    fn stages_cannot_say_what_is_not_so() {
        fn panics(body: impl FnOnce()) -> bool {
            catch_unwind(AssertUnwindSafe(body)).is_err()
        }
        assert!(panics(|| drop(LazyInit::<_, _, Box<u32>>::new(
            (),
            Step::Done
        ))));
        let mut late = pin!(LazyInit::<_, _, Box<u32>>::new((), Step::New));
        assert!(panics(|| late.as_mut().set_stage(Step::Ready)));
        assert!(panics(|| {
            late.as_mut().make(Step::Waiting, || Box::new(1));
        }));
        assert!(panics(|| {
            let vacant = late.as_mut().vacant().expect("it is not made");
            vacant.fill(Step::Waiting, |slot| emplace::value(slot, Box::new(1)));
        }));
        let vacant = late.as_mut().vacant().expect("it was not made");
        let (_, made) = vacant.fill(Step::Ready, |slot| emplace::value(slot, Box::new(1)));
        assert_eq!(**made, 1);
        assert!(panics(|| late.as_mut().set_stage(Step::New)));
        assert!(late.as_mut().vacant().is_none());
        assert_eq!(**late.as_ref().value().unwrap(), 1);
    }

    #[test]
    fn a_panic_while_it_is_made_leaves_it_unmade() {
        let mut late = pin!(LazyInit::<_, _, Box<u32>>::new((), Step::New));
        let made = catch_unwind(AssertUnwindSafe(|| {
            late.as_mut().make(Step::Ready, || panic!("no"));
        }));
        assert!(made.is_err() && late.stage() == Step::New);
    }
}
