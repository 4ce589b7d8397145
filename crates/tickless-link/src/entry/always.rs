//! The constant outcome of a member's expiries, which saves a queue the call.

use core::fmt;
use core::marker::PhantomData;

/// The outcome of every expiry of a member, if it is always the same. The member's guarded data have type `G`, its
/// tokens type `T`.
///
/// If it is constant, a queue need not call [`Member::expire`](super::Member::expire), which costs as much as all else
/// that it does for an entry.
pub struct Always<G, T> {
    pub(super) outcome: Outcome,
    // Invariant in both: that they are one type is what `TAKEN` says.
    types: PhantomData<Same<G, T>>,
}

type Same<G, T> = fn(G, T) -> (G, T);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Asked,
    Taken,
    Called,
}

impl<G, T> Always<G, T> {
    /// The outcome is not constant: [`Member::expire`](super::Member::expire) decides each time.
    pub const ASKED: Self = Self::new(Outcome::Asked);
    /// The outcome is always [`Expiry::Call`](super::Expiry::Call).
    pub const CALLED: Self = Self::new(Outcome::Called);

    const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            types: PhantomData,
        }
    }
}

impl<T> Always<T, T> {
    /// The outcome is always [`Expiry::Done`](super::Expiry::Done) with the guarded data as the token; a value without
    /// meaning takes their place. Such an entry is never shut.
    pub const TAKEN: Self = Self::new(Outcome::Taken);
}

impl<G, T> fmt::Debug for Always<G, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.outcome {
            Outcome::Asked => "Asked",
            Outcome::Taken => "Taken",
            Outcome::Called => "Called",
        })
    }
}
