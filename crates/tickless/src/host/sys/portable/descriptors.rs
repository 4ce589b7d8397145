//! Descriptors on systems without them: each function that would make one returns
//! [`Unsupported`](io::ErrorKind::Unsupported), so the functions that take one are never executed.
//!
//! The types are those of the standard library, if it has them. Otherwise the types have no values, so that the
//! library's functions with a descriptor as an argument exist and cannot be called.

use std::io;

#[cfg(any(unix, target_os = "wasi"))]
pub(crate) use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

#[cfg(not(any(unix, target_os = "wasi")))]
pub(crate) use absent::OwnedFd;
#[cfg(not(any(unix, target_os = "wasi")))]
#[cfg_attr(
    not(feature = "worker"),
    expect(unreachable_pub, reason = "the worker shows these types")
)]
pub use absent::{AsFd, AsRawFd, BorrowedFd, RawFd};
#[cfg(all(feature = "tokio", not(unix)))]
pub(crate) use absent_reactor::AsyncFd;

use super::clocks::Timespec;
use crate::host::sys::{AlarmClock, Until};

/// The error that this module returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// The system does not have the requested object.
    Unsupported,
    /// A signal interrupted the call. Never returned.
    Interrupted,
}

impl Errno {
    pub(crate) const INTR: Self = Self::Interrupted;
}

impl From<Errno> for io::Error {
    fn from(error: Errno) -> Self {
        match error {
            Errno::Unsupported => io::ErrorKind::Unsupported.into(),
            Errno::Interrupted => io::ErrorKind::Interrupted.into(),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// A descriptor that is never made.
#[derive(Debug)]
pub(crate) struct Descriptor;

impl Descriptor {
    pub(crate) const fn new() -> Self {
        Self
    }

    /// Returns `None`: there is no descriptor.
    #[expect(clippy::unused_self, reason = "the one of Linux has a descriptor")]
    pub(crate) const fn existing(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the result of `make`.
    #[expect(clippy::unused_self, reason = "the one of Linux has a descriptor")]
    pub(crate) fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<BorrowedFd<'_>> {
        make().and(Err(Errno::Unsupported))
    }

    /// Does nothing, because there is no descriptor.
    #[expect(clippy::unused_self, reason = "the one of Linux has a descriptor")]
    pub(crate) fn separate(&self, _make: fn() -> Result<OwnedFd>) {}
}

/// Returns `Unsupported`: the standard library wakes no machine.
pub(crate) fn make_alarm(_clock: AlarmClock) -> Result<OwnedFd> {
    Err(Errno::Unsupported)
}

/// Returns `Unsupported`: there are no timer descriptors.
pub(crate) fn make_timer() -> Result<OwnedFd> {
    Err(Errno::Unsupported)
}

/// Does nothing: see [`make_timer`].
pub(crate) fn set_timer(_fd: BorrowedFd<'_>, _until: Until) {}

/// Returns `Unsupported`: there are no event descriptors.
pub(crate) fn make_count() -> Result<OwnedFd> {
    Err(Errno::Unsupported)
}

/// Does nothing: see [`make_count`].
pub(crate) fn count_one(_fd: BorrowedFd<'_>) {}

/// Returns that nothing was counted.
pub(crate) fn take_count(_fd: BorrowedFd<'_>) -> u64 {
    0
}

/// Returns `Unsupported`: descriptors cannot be watched.
pub(crate) fn set_non_blocking(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns true if the system may later grant the object that it refused now.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory
    )
}

/// Returns false: no error says that a device no longer exists.
pub(crate) fn is_no_device(_error: &io::Error) -> bool {
    false
}

/// A descriptor to poll.
#[derive(Debug)]
pub(crate) struct PollFd<'fd> {
    _fd: BorrowedFd<'fd>,
}

/// The events for which a descriptor is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollFlags;

impl PollFlags {
    pub(crate) const IN: Self = Self;

    pub(crate) const fn is_empty(self) -> bool {
        true
    }
}

impl<'fd> PollFd<'fd> {
    pub(crate) fn new(fd: &'fd impl AsFd, flags: PollFlags) -> Self {
        Self::from_borrowed_fd(fd.as_fd(), flags)
    }

    pub(crate) const fn from_borrowed_fd(fd: BorrowedFd<'fd>, _flags: PollFlags) -> Self {
        Self { _fd: fd }
    }

    pub(crate) const fn revents(&self) -> PollFlags {
        PollFlags
    }
}

/// Returns `Unsupported`: descriptors cannot be polled.
pub(crate) fn poll(_fds: &mut [PollFd<'_>], _timeout: Option<&Timespec>) -> Result<usize> {
    Err(Errno::Unsupported)
}

pub(crate) mod epoll {
    //! No epoll instances.

    use super::{AsFd, Errno, OwnedFd, Result, Timespec};

    /// The events for which a descriptor is ready, by the names of Linux.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct EventFlags(u32);

    impl EventFlags {
        pub(crate) const IN: Self = Self(1);
        pub(crate) const OUT: Self = Self(1 << 2);
        pub(crate) const ERR: Self = Self(1 << 3);
        pub(crate) const HUP: Self = Self(1 << 4);
        pub(crate) const RDHUP: Self = Self(1 << 13);
        pub(crate) const ONESHOT: Self = Self(1 << 30);

        pub(crate) const fn empty() -> Self {
            Self(0)
        }

        pub(crate) const fn bits(self) -> u32 {
            self.0
        }

        pub(crate) const fn from_bits_retain(bits: u32) -> Self {
            Self(bits)
        }

        pub(crate) const fn union(self, other: Self) -> Self {
            Self(self.0 | other.0)
        }

        pub(crate) const fn intersects(self, other: Self) -> bool {
            self.0 & other.0 != 0
        }
    }

    impl std::ops::BitOr for EventFlags {
        type Output = Self;

        fn bitor(self, other: Self) -> Self {
            self.union(other)
        }
    }

    impl std::ops::BitOrAssign for EventFlags {
        fn bitor_assign(&mut self, other: Self) {
            *self = self.union(other);
        }
    }

    /// The flags of a new epoll instance.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct CreateFlags;

    impl CreateFlags {
        pub(crate) const CLOEXEC: Self = Self;
    }

    /// The data with which a descriptor is registered.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct EventData(u64);

    impl EventData {
        pub(crate) const fn new_u64(data: u64) -> Self {
            Self(data)
        }

        pub(crate) const fn u64(self) -> u64 {
            self.0
        }
    }

    /// An event of an epoll instance.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Event {
        pub(crate) flags: EventFlags,
        pub(crate) data: EventData,
    }

    /// Returns `Unsupported`: there are no epoll instances.
    pub(crate) fn create(_flags: CreateFlags) -> Result<OwnedFd> {
        Err(Errno::Unsupported)
    }

    /// Returns `Unsupported`: there are no epoll instances.
    pub(crate) fn add(
        _epoll: impl AsFd,
        _fd: impl AsFd,
        _data: EventData,
        _flags: EventFlags,
    ) -> Result<()> {
        Err(Errno::Unsupported)
    }

    /// Returns `Unsupported`: there are no epoll instances.
    pub(crate) fn modify(
        _epoll: impl AsFd,
        _fd: impl AsFd,
        _data: EventData,
        _flags: EventFlags,
    ) -> Result<()> {
        Err(Errno::Unsupported)
    }

    /// Returns `Unsupported`: there are no epoll instances.
    pub(crate) fn delete(_epoll: impl AsFd, _fd: impl AsFd) -> Result<()> {
        Err(Errno::Unsupported)
    }

    /// Returns `Unsupported`: there are no epoll instances.
    pub(crate) fn wait(
        _epoll: impl AsFd,
        _events: &mut [Event],
        _timeout: Option<&Timespec>,
    ) -> Result<usize> {
        Err(Errno::Unsupported)
    }
}

#[cfg(not(any(unix, target_os = "wasi")))]
#[cfg_attr(
    not(feature = "worker"),
    expect(unreachable_pub, reason = "the worker shows these types")
)]
mod absent {
    //! The types of descriptors for systems on which the standard library has none. These types have no values.

    use std::convert::Infallible;
    use std::marker::PhantomData;

    /// The number of a descriptor.
    pub type RawFd = i32;

    /// A type that has a descriptor; there is none on this system.
    pub trait AsFd {
        /// Returns the descriptor.
        fn as_fd(&self) -> BorrowedFd<'_>;
    }

    /// A type that has the number of a descriptor; there is none on this system.
    pub trait AsRawFd {
        /// Returns the number of the descriptor.
        fn as_raw_fd(&self) -> RawFd;
    }

    /// A descriptor that is borrowed.
    #[derive(Clone, Copy, Debug)]
    pub struct BorrowedFd<'fd> {
        never: Infallible,
        _fd: PhantomData<&'fd ()>,
    }

    /// A descriptor that is owned.
    #[derive(Debug)]
    pub(crate) struct OwnedFd {
        never: Infallible,
    }

    impl AsFd for OwnedFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.never {}
        }
    }

    impl AsRawFd for OwnedFd {
        fn as_raw_fd(&self) -> RawFd {
            match self.never {}
        }
    }

    impl AsFd for BorrowedFd<'_> {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.never {}
        }
    }

    impl AsRawFd for BorrowedFd<'_> {
        fn as_raw_fd(&self) -> RawFd {
            match self.never {}
        }
    }

    impl<T: AsFd> AsFd for &T {
        fn as_fd(&self) -> BorrowedFd<'_> {
            T::as_fd(self)
        }
    }
}

#[cfg(all(feature = "tokio", not(unix)))]
mod absent_reactor {
    //! The types of tokio's descriptors for systems on which tokio has none.

    use std::convert::Infallible;
    use std::io;
    use std::marker::PhantomData;
    use std::task::{Context, Poll};

    /// A descriptor that a reactor watches; the type has no values.
    #[derive(Debug)]
    pub(crate) struct AsyncFd<T> {
        never: Infallible,
        _fd: PhantomData<T>,
    }

    /// A descriptor that is ready; the type has no values.
    #[derive(Debug)]
    pub(crate) struct Guard(Infallible);

    impl<T> AsyncFd<T> {
        pub(crate) fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<Guard>> {
            match self.never {}
        }
    }

    impl<T> Drop for AsyncFd<T> {
        fn drop(&mut self) {}
    }

    impl Guard {
        pub(crate) fn clear_ready(&mut self) {
            match self.0 {}
        }
    }
}
