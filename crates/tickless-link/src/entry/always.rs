//! Expiries whose outcome is known without a call.

use core::fmt;
use core::marker::PhantomData;

/// The outcome that every expiry of a member with guarded data of type `G` has, with tokens of type `T`.
///
/// Where it is known a queue need not call [`Member::expire`](super::Member::expire), which costs as much as all else
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
    /// No fixed outcome: [`Member::expire`](super::Member::expire) decides each time.
    pub const ASKED: Self = Self::new(Outcome::Asked);
    /// [`Expiry::Call`](super::Expiry::Call).
    pub const CALLED: Self = Self::new(Outcome::Called);

    const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            types: PhantomData,
        }
    }
}

impl<T> Always<T, T> {
    /// [`Expiry::Done`](super::Expiry::Done) with the guarded data: it is the token, and something without meaning
    /// takes its place. Such an entry is never shut.
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
