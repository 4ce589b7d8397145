//! The words of a worker's [isolation](super): the flag that it is isolated, and the request of another thread.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A request to a worker by a thread that changes the set of isolated workers, or the worker's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Request {
    Nothing = 0,
    Join = 1,
    Leave = 2,
    Done = 3,
    Refused = 4,
}

impl Request {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Join,
        Self::Leave,
        Self::Done,
        Self::Refused,
    ];

    /// Returns the word that stands for the request to the thread that occupies the base as the `occupant`-th.
    fn word(self, occupant: u32) -> u64 {
        (self as u64) << u32::BITS | u64::from(occupant)
    }
}

/// The cases in which the expiry thread fires the exact timers of a thread that fires its own timers but takes no
/// turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Help {
    UnlessIsolated = 0,
    Always = 1,
    Never = 2,
}

/// The isolation of a worker, and the request to it.
#[derive(Debug)]
pub(crate) struct IsolationState {
    /// True if the worker is isolated; changed with the registry locked.
    is_isolated: AtomicBool,
    /// A [`Help`], set by the thread, read by threads that check whether it is stuck.
    help: AtomicU8,
    /// A [`Request`], and in the lower bits the number of the occupant for which it is meant.
    request: AtomicU64,
}

impl IsolationState {
    pub(crate) fn new() -> Self {
        Self {
            is_isolated: AtomicBool::new(false),
            help: AtomicU8::new(Help::UnlessIsolated as u8),
            request: AtomicU64::new(0),
        }
    }

    /// Records whether the worker is isolated from now on. Returns whether it was isolated before.
    pub(super) fn replace(&self, is_isolated: bool) -> bool {
        // Relaxed: written with the registry locked, or where there is no other thread.
        self.is_isolated.swap(is_isolated, Ordering::Relaxed)
    }

    /// Returns whether the expiry thread leaves the exact timers of the thread alone, however late they are.
    pub(in crate::host) fn is_left_alone(&self) -> bool {
        // Relaxed, both: wishes of the thread, and either answer is right while they change.
        let help = self.help.load(Ordering::Relaxed);
        help == Help::Never as u8
            || help == Help::UnlessIsolated as u8 && self.is_isolated.load(Ordering::Relaxed)
    }

    /// Sets when the expiry thread fires the exact timers of the thread if the thread itself does not.
    pub(crate) fn set_help(&self, help: Help) {
        // Relaxed: see `is_left_alone`.
        self.help.store(help as u8, Ordering::Relaxed);
    }

    /// Returns the request to the `occupant`-th thread of the base, or its reply.
    pub(super) fn request(&self, occupant: u32) -> Request {
        // Acquire: pairs with the Release in `put`, so that an answer comes with all that was done for it.
        let word = self.request.load(Ordering::Acquire);
        let found = Request::ALL
            .into_iter()
            .find(|request| request.word(occupant) == word);
        found.unwrap_or(Request::Nothing)
    }

    pub(super) fn put(&self, request: Request, occupant: u32) {
        // Release: pairs with the Acquire in `request`.
        self.request
            .store(request.word(occupant), Ordering::Release);
    }
}
