//! A runtime of tokio for crates that spawn tasks on a runtime that the user passes.

use tokio::runtime::Handle;

/// A tokio runtime for tasks whose delays are exact.
///
/// A task that is spawned after the runtime was shut down is dropped.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(crate) handle: Handle,
}

impl Runtime {
    /// Makes a value for the runtime in which the caller runs, or returns `None` if the caller runs in none.
    #[must_use]
    pub fn current() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        Some(Self { handle })
    }

    /// Makes a value for the runtime of `handle`.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        Self { handle }
    }
}
