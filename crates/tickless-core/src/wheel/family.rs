//! The entries of the wheels: their data, the arguments of their callbacks, and the results.

use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::entry::Family;
use tickless_link::sync::{AtomicU64, Ordering};

use crate::cpu::CpuId;
use crate::restart::Restart;
use crate::slots::geometry::Tick;

/// The three wheels of a CPU; a timer is on one of them (spec C-1.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WheelKind {
    /// The timer is pinned: it fires on its CPU, and wakes that CPU.
    Local,
    /// The timer fires on its CPU, or, while its CPU sleeps, on another CPU that expires the wheel.
    Global,
    /// The timer fires on its CPU, but does not wake the CPU: the timer waits until the CPU is awake for another
    /// reason.
    Deferrable,
}

impl WheelKind {
    /// All wheel kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Local, Self::Global, Self::Deferrable];
    /// The number of wheel kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the kind with this number; `None` if no kind has it.
    #[inline]
    pub(crate) const fn numbered(number: usize) -> Option<Self> {
        match number {
            0 => Some(Self::Local),
            1 => Some(Self::Global),
            2 => Some(Self::Deferrable),
            _ => None,
        }
    }
}

/// All timers of wheels.
#[derive(Debug)]
pub(crate) enum Coarse {}

impl Family for Coarse {
    type Key = ();
    /// The kind for which the timer was made. The timer's owner word names its present wheel.
    type Tag = WheelKind;
    type Head = ();
    type Shared = ExpiryTick;
    type Branches = ();
    type Token = Option<Waker>;
    type Context<'a> = Timeout;
    type Answer = Restart;
}

/// The tick that must be over before the timer fires.
#[derive(Debug)]
pub(crate) struct ExpiryTick(AtomicU64);

impl ExpiryTick {
    const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self::of(Tick(0))
        }
    }

    const_unless_loom! {
        #[inline(always)]
        pub(crate) const fn of(expiry: Tick) -> Self {
            Self(AtomicU64::new(expiry.0))
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Tick {
        // Relaxed: under the lock, which orders it, it is exact. Without, it is read after the state of the timer (an
        // Acquire), which orders it after the arming that queued it; a later one may not be seen yet, and then counts
        // as later. Nothing else is reached through it.
        Tick(self.0.load(Ordering::Relaxed))
    }

    /// Sets the expiry. Called only under the lock of the timer's base, or of the base to which the timer is moving.
    #[inline]
    pub(crate) fn set(&self, expiry: Tick) {
        // Relaxed: see `get`.
        self.0.store(expiry.0, Ordering::Relaxed);
    }
}

/// The argument of a coarse timer's callback: a timeout that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// The tick for which the pass was called.
    pub now: Tick,
    /// The tick at which the slot of the timer was due; `now - due` is the lateness of the pass.
    pub due: Tick,
    /// The tick for which the timer was armed, and for which [`Restart::Yes`] arms it again.
    pub expiry: Tick,
    /// The wheel on which the timer was.
    pub kind: WheelKind,
    /// The CPU on which the timer was.
    pub cpu: CpuId,
    /// The CPU that executes the callback; `None` for a thread that is no CPU. It differs from `cpu` for a global timer
    /// of a sleeping CPU.
    pub executed_by: Option<CpuId>,
}

impl Timeout {
    /// Sets the tick that must be over when the timer fires again, if the callback returns [`Restart::Yes`].
    ///
    /// If `expiry` is in the past, the timer fires at the next tick.
    pub fn set_expiry(&mut self, expiry: Tick) {
        self.expiry = expiry;
    }

    /// Sets the expiry to `ticks` ticks after the tick for which the pass was called. If the pass is late, the new
    /// expiry is later by the same delay, but the length of the callback is not added.
    pub fn set_expiry_after(&mut self, ticks: u64) {
        self.expiry = Tick(self.now.0.saturating_add(ticks));
    }
}
