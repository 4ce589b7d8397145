//! A runtime of tokio, for crates that spawn by the runtime that they are given.

use tokio::runtime::Handle;

/// Tasks of a tokio runtime, whose delays are exact.
///
/// A task that is spawned after the runtime was shut down is dropped.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(crate) handle: Handle,
}

impl Runtime {
    /// Makes one for the runtime that the caller runs in, or returns `None` outside of all.
    #[must_use]
    pub fn current() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        Some(Self { handle })
    }

    /// Makes one for the runtime of `handle`.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        Self { handle }
    }
}
