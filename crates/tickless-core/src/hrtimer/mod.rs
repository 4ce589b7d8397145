//! High-resolution timers: sorted, exact, with callbacks.
//!
//! Each CPU has a [base](CpuBase) with eight queues, one for each clock and stage. A queue is a red-black tree with
//! neighbour links, so that the three frequent questions (what is first, is this first, does this keep its place) cost
//! a load or two. The event device of a CPU is armed for the first timer of all its queues, and written as seldom as
//! possible.
//!
//! # Life of a timer
//!
//! [`Timers::start`] queues it on the CPU that executes the start. When its time has come the CPU's interrupt takes it
//! out and calls it, without any lock. The callback answers whether it goes on ([`Restart`]). [`Timers::cancel`] takes
//! it back.
//!
//! A timer has a *soft expiry*, from which on it may fire, and a *deadline*, for which the device is armed. What lies
//! between them is its slack: when an interrupt comes for another reason, timers whose soft expiry has passed fire with
//! it (spec 2.4).
//!
//! # Ground rules
//!
//! - One lock for each base protects its queues, all timers that name one of them as their owner, its caches, and its
//!   device (spec LOC-1). A timer's lock is therefore found through its owner word, and looked at again once it is
//!   held.
//! - At most one base is locked at a time. The one exception is a CPU that goes offline, which the host serialises.
//! - Lock order: expiry lock of a base, then its base lock.
//! - A timer changes bases through a state in which it names no owner; whoever looks for it waits (spec LOC-3).
//! - Callbacks run, and wakers are used, without any lock. While a callback runs its timer keeps its base (spec
//!   OBJ-15), and a second start queues it in addition.
//! - `armed`, what the device is to fire for, is `FOREVER` from the beginning of an interrupt until the rearm.
//!
//! # When the device is written (spec 4)
//!
//! - A start writes if the timer became the CPU's first event and nothing earlier is armed. A restart or cancel of the
//!   first timer evaluates all queues and writes if the result differs. One start, one cancel, one interrupt: one write
//!   at most.
//! - A *lazy* timer that moves later, or goes, leaves the device as it is.
//! - An interrupt leaves the write to a *flush point* ([`Timers::flush_deferred`]), because what follows it often
//!   changes the first event again. The state of this is one enum:
//!
//! ```text
//!          interrupt begins            ends                  flush
//!   Clear ------------------> Running ------> OwedFresh ------------> Clear
//!                                                |  start, cancel,      ^
//!                                                v  clock set           |
//!                                            OwedStale -----------------+
//! ```
//!
//! # Cost
//!
//! A timer takes 80 bytes and its closure. Starting and cancelling take one lock and O(log n) in the number of timers
//! of one clock on one CPU; restarting in place, asking for the next event, and firing the first are O(1).

use core::fmt;
use core::mem::MaybeUninit;

use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::id::Realm;

use crate::event::{DeviceConfig, EventDevice};
use crate::platform::Platform;
use crate::time::Span;

pub(crate) mod base;
mod cancel;
pub(crate) mod expire;
pub(crate) mod far;
pub(crate) mod forward;
mod hotplug;
#[cfg(all(test, loom))]
pub(crate) mod model;
mod query;
mod rearm;
mod start;
pub(crate) mod stats;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod timer;

pub use base::{CpuBase, Frozen};
pub use cancel::TryCancel;
pub use expire::Turn;
pub use start::AlreadyExpired;
pub use stats::Stats;
pub use timer::{Expired, HrTimer, Restart, Setup, Sleeper, Stage, Start, StartMode, TimerRef};

/// Passes over the queues before an interrupt gives up (spec IRQ-1).
const PASSES_MAX: u32 = 3;
/// The longest backoff after that (spec IRQ-3).
const HANG_BACKOFF_MAX: Span = Span::from_millis(100);

/// A place where a deferred rearm is carried out (spec 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Flush {
    /// S1: return from an interrupt to user mode, if no reschedule is pending.
    UserExit = 0,
    /// S3: return from an interrupt to kernel mode, after a preemption.
    KernelExit,
    /// S4: before soft work.
    SoftWork,
    /// S5: end of the scheduler, another task was picked.
    Switched,
    /// S5: end of the scheduler, the same task was picked.
    SameTask,
    /// S6: entry of a nested interrupt.
    NestedInterrupt,
    /// S7: a time-slice extension was granted in place of a reschedule.
    SliceExtension,
    /// S8: a handler was run synchronously and returns to a masked context.
    MaskedReturn,
    /// S9: the CPU goes offline; the rearm is forgiven.
    Offline,
    /// S10: end of a turn in user space, before a park, before soft callbacks, after a task was picked.
    TurnEnd,
}

impl Flush {
    /// All places, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::UserExit,
        Self::KernelExit,
        Self::SoftWork,
        Self::Switched,
        Self::SameTask,
        Self::NestedInterrupt,
        Self::SliceExtension,
        Self::MaskedReturn,
        Self::Offline,
        Self::TurnEnd,
    ];

    /// How many places there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name used in dumps and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserExit => "user_exit",
            Self::KernelExit => "kernel_exit",
            Self::SoftWork => "soft_work",
            Self::Switched => "switched",
            Self::SameTask => "same_task",
            Self::NestedInterrupt => "nested_interrupt",
            Self::SliceExtension => "slice_extension",
            Self::MaskedReturn => "masked_return",
            Self::Offline => "offline",
            Self::TurnEnd => "turn_end",
        }
    }
}

/// The timers of a system of CPUs.
///
/// A host makes one and keeps it as long as any timer of it is used. All methods take `&self` and may be called by any
/// CPU.
pub struct Timers<P: Platform> {
    pub(crate) platform: P,
    realm: Realm,
}

impl<P: Platform> Timers<P> {
    /// Makes a system without CPUs.
    #[must_use]
    pub fn new(platform: P) -> Self {
        Self {
            platform,
            realm: Realm::new(),
        }
    }

    /// Makes the base of the next CPU: their numbers count from 0 in the order of these calls. The CPU is offline.
    ///
    /// The host puts it into its table, at a place that never moves, before it calls anything else for that CPU.
    ///
    /// # Panics
    ///
    /// When there would be more than 2^20 CPUs (2^12 on 32-bit targets), or the device makes no sense.
    #[must_use]
    pub fn new_base(&self, device: DeviceConfig, local: P::Local) -> CpuBase<P> {
        emplace::moved(|slot| self.emplace_base(slot, device, local))
    }

    /// As [`new_base`](Self::new_base), made in `slot`: on the stack it takes 18 KiB for each time that it is moved.
    ///
    /// # Panics
    ///
    /// As [`new_base`](Self::new_base).
    pub fn emplace_base<'a>(
        &self,
        slot: &'a mut MaybeUninit<CpuBase<P>>,
        device: DeviceConfig,
        local: P::Local,
    ) -> Emplaced<'a, CpuBase<P>> {
        CpuBase::emplace(slot, &self.realm, EventDevice::new(device), local)
    }

    /// The host.
    #[inline]
    pub const fn platform(&self) -> &P {
        &self.platform
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Timers")
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}
