//! The construction of large values in their final place.
//!
//! A function that returns a value of 18 KiB makes it on its stack, and its caller moves it from there, often more than
//! once. The base of a CPU is that large, because its lists lie inside of it; and a thread that arms its first timer
//! may have a stack of 32 KiB. So large values are made in the memory where they stay, part by part.
//!
//! # Mechanism
//!
//! A function that makes a value takes a place for it, `&mut MaybeUninit<T>`, and returns an [`Emplaced`]: the proof
//! that the place is filled. Four ways lead to such a proof: [`value`] for small values, [`array()`] for arrays,
//! element by element, the macro [`emplace!`](crate::emplace!) for a struct, field by field, and the functions that
//! [`lock`](crate::lock) and [`buckets`](crate::buckets) offer for their own types. The unsafe code of the macro is
//! part of this crate, so a crate that forbids unsafe code may use the macro.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use tickless_link::emplace;
//! use tickless_link::emplace::Emplaced;
//!
//! struct Large {
//!     name: u8,
//!     rows: [[u64; 64]; 9],
//! }
//!
//! impl Large {
//!     fn emplace(slot: &mut MaybeUninit<Self>, name: u8) -> Emplaced<'_, Self> {
//!         emplace!(slot => Self {
//!             name: name;
//!             rows <- |slot| emplace::array(slot, |_, row| emplace::value(row, [0; 64])),
//!         })
//!     }
//! }
//!
//! let mut place = Box::new_uninit();
//! let large = Large::emplace(&mut place, 7).into_mut();
//! assert_eq!((large.name, large.rows[8][63]), (7, 0));
//! ```
//!
//! # Limits
//!
//! A panic before the value is complete leaves the place unfilled. The parts that were made until then are not dropped.

use core::mem::MaybeUninit;

/// The proof that a place holds an initialized value.
#[derive(Debug)]
#[must_use = "the value stands there and will not be dropped"]
pub struct Emplaced<'a, T>(&'a mut T);

impl<'a, T> Emplaced<'a, T> {
    /// Returns the value.
    #[inline]
    pub fn into_mut(self) -> &'a mut T {
        self.0
    }

    /// Claims that `slot` is initialized.
    ///
    /// # Safety
    ///
    /// The claim MUST be true.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn filled(slot: &'a mut MaybeUninit<T>) -> Self {
        // SAFETY: what the caller promises.
        Self(unsafe { slot.assume_init_mut() })
    }
}

/// Moves a small value into its place.
#[inline]
pub fn value<T>(slot: &mut MaybeUninit<T>, value: T) -> Emplaced<'_, T> {
    Emplaced(slot.write(value))
}

/// Makes an array in its place, element by element; `make` receives the index.
#[inline]
pub fn array<T, const N: usize>(
    slot: &mut MaybeUninit<[T; N]>,
    mut make: impl for<'s> FnMut(usize, &'s mut MaybeUninit<T>) -> Emplaced<'s, T>,
) -> Emplaced<'_, [T; N]> {
    let elements = slot.as_mut_ptr().cast::<[MaybeUninit<T>; N]>();
    // SAFETY: an array of places has the layout of a place for an array, and `slot` stays borrowed meanwhile.
    let elements = unsafe { &mut *elements };
    for (index, element) in elements.iter_mut().enumerate() {
        part(element, |element| make(index, element));
    }
    // SAFETY: each element is filled, or `part` had panicked.
    unsafe { Emplaced::filled(slot) }
}

/// Lets `make` initialize a place that is part of a larger one.
///
/// # Panics
///
/// When `make` returns the proof of another place.
#[doc(hidden)]
#[inline]
pub fn part<T>(
    slot: &mut MaybeUninit<T>,
    make: impl for<'s> FnOnce(&'s mut MaybeUninit<T>) -> Emplaced<'s, T>,
) {
    // Of two places without a size the address does not tell which is meant.
    const { assert!(size_of::<T>() > 0) };
    let wanted = slot.as_ptr();
    let placed = make(slot);
    assert!(
        core::ptr::eq(wanted, placed.0),
        "the proof is that of another place"
    );
}

/// Makes a value in place and returns it by value, where the use of the stack does not matter.
#[inline]
pub fn moved<T>(make: impl for<'s> FnOnce(&'s mut MaybeUninit<T>) -> Emplaced<'s, T>) -> T {
    let mut slot = MaybeUninit::uninit();
    part(&mut slot, make);
    // SAFETY: it is filled, or `part` had panicked.
    unsafe { slot.assume_init() }
}

/// Returns the place of a field, to be initialized.
///
/// # Safety
///
/// `field` MUST point into a place that stays borrowed mutably for `'a`, and nothing else may use that field meanwhile.
#[doc(hidden)]
#[inline]
pub const unsafe fn of_field<'a, T>(field: *mut T) -> &'a mut MaybeUninit<T> {
    // SAFETY: what the caller promises; any bytes will do for a place.
    unsafe { &mut *field.cast() }
}

/// Makes a struct in its place, field by field: small fields by value, and after the semicolon large fields by a
/// function that fills their place. The result is the [`Emplaced`] struct.
///
/// All fields have to be named, once.
#[macro_export]
macro_rules! emplace {
    ($slot:expr => $Struct:path {
        $($small:ident: $value:expr),* ; $($large:ident <- $make:expr),* $(,)?
    }) => {{
        let slot: &mut ::core::mem::MaybeUninit<$Struct> = $slot;
        // The fields are those of the struct itself, all of them, each once; and none lies unaligned.
        let _complete = |whole: &$Struct| {
            let $Struct { $($small,)* $($large,)* } = whole;
            $(let _field = $small;)*
            $(let _field = $large;)*
        };
        let whole: *mut $Struct = slot.as_mut_ptr();
        $(
            let value = $value;
            // SAFETY: `whole` is a place for the struct, borrowed mutably by `slot`, and has this field, aligned.
            unsafe { (&raw mut (*whole).$small).write(value) };
        )*
        $(
            // SAFETY: as above, and each field is named once.
            let field = unsafe { $crate::emplace::of_field(&raw mut (*whole).$large) };
            $crate::emplace::part(field, $make);
        )*
        // SAFETY: all fields are filled.
        unsafe { $crate::emplace::Emplaced::filled(slot) }
    }};
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::string::String;

    #[derive(Debug, PartialEq)]
    struct Whole<T> {
        text: String,
        small: u8,
        rows: [[u32; 3]; 5],
        inner: T,
    }

    fn rows(slot: &mut MaybeUninit<[[u32; 3]; 5]>) -> Emplaced<'_, [[u32; 3]; 5]> {
        array(slot, |row, slot| {
            let row = u32::try_from(row).expect("it is small");
            array(slot, |_, slot| value(slot, row))
        })
    }

    fn whole(slot: &mut MaybeUninit<Whole<Box<u8>>>) -> Emplaced<'_, Whole<Box<u8>>> {
        emplace!(slot => Whole::<Box<u8>> {
            small: 3,
            text: String::from("a text");
            rows <- rows,
            inner <- |slot| value(slot, Box::new(9)),
        })
    }

    #[test]
    fn all_parts_are_where_they_belong() {
        let expected = Whole {
            text: String::from("a text"),
            small: 3,
            rows: [[0; 3], [1; 3], [2; 3], [3; 3], [4; 3]],
            inner: Box::new(9),
        };
        assert_eq!(moved(whole), expected);
        let mut place = Box::new_uninit();
        let placed = whole(&mut place).into_mut();
        assert_eq!(*placed, expected);
        *placed.inner = 5;
        // SAFETY: it was filled above.
        assert_eq!(*unsafe { place.assume_init() }.inner, 5);
    }

    #[test]
    #[should_panic(expected = "another place")]
    fn the_proof_of_another_place_is_refused() {
        let mut other = MaybeUninit::uninit();
        let other: *mut MaybeUninit<u32> = &raw mut other;
        // SAFETY: it outlives the call.
        let other = unsafe { &mut *other };
        let mut other = Some(value(other, 5));
        let _number: u32 = moved(|_| other.take().expect("it is asked for once"));
    }
}
