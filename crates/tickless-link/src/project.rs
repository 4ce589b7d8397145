//! The macro that projects the pin of a wrapper to the pin of its entry.

/// Gives a type that wraps one [`Entry`](crate::entry::Entry) the way from its pin to the entry's pin.
///
/// ```
/// use tickless_link::entry::{Entry, Expiry, Family, Member};
///
/// # enum Plain {}
/// # impl Family for Plain {
/// #     type Key = u64; type Tag = (); type Head = (); type Shared = (); type Branches = ();
/// #     type Token = (); type Context<'a> = (); type Answer = ();
/// # }
/// # struct Silent<T>(T);
/// # impl<T: Send> Member<Plain> for Silent<T> {
/// #     type Guarded = ();
/// #     fn expire((): &mut ()) -> Expiry<()> { Expiry::Done(()) }
/// #     fn call(&mut self, (): &mut ()) {}
/// # }
/// pub struct Timer<T: Send> {
///     entry: Entry<Plain, Silent<T>>,
/// }
/// tickless_link::project_entry!([T] Timer<T> [T: Send] entry: Entry<Plain, Silent<T>>);
///
/// let timer = std::pin::pin!(Timer { entry: Entry::new(0, (), (), (), (), Silent(5)) });
/// assert!(timer.as_ref().entry().state().is_idle());
/// ```
///
/// The wrapper can have neither a `Drop` nor an `Unpin` of its own: with either of them the projection would be
/// unsound, so the macro makes both a compile error.
///
/// ```compile_fail,E0119
/// # use tickless_link::entry::{Entry, Expiry, Family, Member};
/// # enum Plain {}
/// # impl Family for Plain {
/// #     type Key = u64; type Tag = (); type Head = (); type Shared = (); type Branches = ();
/// #     type Token = (); type Context<'a> = (); type Answer = ();
/// # }
/// # struct Silent<T>(T);
/// # impl<T: Send> Member<Plain> for Silent<T> {
/// #     type Guarded = ();
/// #     fn expire((): &mut ()) -> Expiry<()> { Expiry::Done(()) }
/// #     fn call(&mut self, (): &mut ()) {}
/// # }
/// pub struct Timer<T: Send> {
///     entry: Entry<Plain, Silent<T>>,
/// }
/// tickless_link::project_entry!([T] Timer<T> [T: Send] entry: Entry<Plain, Silent<T>>);
/// impl<T: Send> Drop for Timer<T> {
///     fn drop(&mut self) {}
/// }
/// ```
#[macro_export]
macro_rules! project_entry {
    ([$($generics:tt)*] $wrapper:ty [$($bounds:tt)*] $field:ident: $entry:ty) => {
        impl<$($generics)*> $wrapper
        where
            $($bounds)*
        {
            #[inline]
            fn entry(self: ::core::pin::Pin<&Self>) -> ::core::pin::Pin<&$entry> {
                // SAFETY: the entry is structurally pinned: the wrapper never moves it out, has no `Drop` that could
                // and no `Unpin` that would allow it (the two items below), and is not packed, because then this would
                // not compile.
                unsafe { self.map_unchecked(|wrapper| &wrapper.$field) }
            }

            #[inline]
            #[allow(dead_code, reason = "not every wrapper needs it")]
            fn entry_mut(self: ::core::pin::Pin<&mut Self>) -> ::core::pin::Pin<&mut $entry> {
                // SAFETY: as in `entry`.
                unsafe { self.map_unchecked_mut(|wrapper| &mut wrapper.$field) }
            }

            /// Lets `end` end the entry, and with that the wrapper.
            #[inline(always)]
            #[allow(dead_code, reason = "not every wrapper needs it")]
            fn end_entry<'v, R>(
                living: $crate::end::Dropping<'v, Self>,
                end: impl for<'p> FnOnce($crate::end::Dropping<'p, $entry>) -> $crate::end::End<'p, $entry, R>,
            ) -> $crate::end::End<'v, Self, R> {
                // SAFETY: as in `entry`; the wrapper has no `Drop`, and its other fields are not pinned, so that what
                // theirs would do need not happen.
                unsafe { living.end_part(Self::entry_mut, end) }
            }
        }

        const _: () = {
            trait HasNoDropOfItsOwn {}
            #[expect(drop_bounds, reason = "a type with `Drop` shall conflict with the item below")]
            impl<T: Drop> HasNoDropOfItsOwn for T {}
            impl<$($generics)*> HasNoDropOfItsOwn for $wrapper where $($bounds)* {}
        };
        // Never applies, because no entry is `Unpin`, but conflicts with any other. A lifetime stands in the bound so
        // that it counts as generic whatever the entry is: a bound that is plainly false would not compile.
        impl<'bound, $($generics)*> Unpin for $wrapper
        where
            ($entry, ::core::marker::PhantomData<&'bound ()>): Unpin,
            $($bounds)*
        {
        }
    };
}
