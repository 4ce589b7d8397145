//! The timer wheel: constant cost for timeouts that are nearly always cancelled or pushed out.
//!
//! A timeout is filed in a *slot*, by how far ahead it is: near ones in fine slots, far ones in coarse ones. It stays
//! there until the slot is due, and then fires. Nothing cascades: a classical wheel files far timers again and again as
//! they come closer, which costs for all timeouts what only those few would need that fire at all (spec 1.1).
//!
//! So a timeout is late by up to a slot of its level, which is an eighth of the time it was armed for (63 slots of one
//! level reach to the next: 8/63, or 12.7 %), plus the tick in progress. It is never early: beyond the range of the
//! wheel it is filed in the farthest slot, and again when that is due (decision 4 of the design).
//!
//! # Words
//!
//! A *tick* is the unit of the wheel, chosen by the host, usually a millisecond. The *clock* of a wheel is the first
//! tick that it has not processed yet. A slot is *due* at the tick at which all that is in it fires.
//!
//! # How it is driven
//!
//! [`Timers`](crate::hrtimer::Timers) has the operations. Each takes the tick in progress as its argument: nothing here
//! reads a clock or touches a device.
//!
//! - **Users** [`arm`](crate::hrtimer::Timers::arm) a [`WheelTimer`],
//!   [`modify`](crate::hrtimer::Timers::modify) it as often as they like, and
//!   [`delete`](crate::hrtimer::Timers::delete) it. Who ends a timer for good
//!   [shuts it down](crate::hrtimer::Timers::shutdown_sync).
//! - **A host's tick** asks [`wheel_is_due`](crate::hrtimer::Timers::wheel_is_due), which takes no lock, and if so
//!   calls [`run_wheel`](crate::hrtimer::Timers::run_wheel) for each kind, in the soft stage.
//! - **A host's idle code** asks [`wheel_next`](crate::hrtimer::Timers::wheel_next), computes with
//!   [`idle::wake_times`] when to wake, and commits to it with
//!   [`wheel_enter_idle`](crate::hrtimer::Timers::wheel_enter_idle).
//! - **A host whose CPUs come and go** calls [`wheel_online`](crate::hrtimer::Timers::wheel_online) before a CPU takes
//!   part, and [`wheel_offline`](crate::hrtimer::Timers::wheel_offline) after it left.
//!
//! The arithmetic stands alone: [`geometry`] says which slot, [`calendar`] which slots hold something and when the
//! first of them is due.
//!
//! # Ground rules
//!
//! - A CPU has three wheels, one for each [`Kind`]. They are part of its base and are protected by its one lock,
//!   together with its exact timers. Where the specification takes the locks of the local and the global wheel one
//!   after the other (idle entry, remote expiry), this is one critical section; `docs/decisions/0010` says why.
//! - A timer names the wheel that protects it in its owner word, which is looked at again under the lock (R10). The
//!   word says the kind, too: a timer can change it, and the tag says only how it was made.
//! - At most one base is locked at a time; a timer changes CPUs in a state in which it names no owner. The one
//!   exception is a CPU that left, which the host serialises.
//! - Callbacks run, and wakers are used, without any lock of a base. While a callback runs its timer keeps its wheel
//!   (spec 1.9), and may be armed in addition.
//! - Several passes of a wheel may be under way, one for each CPU that executes it. What one has not begun the next one
//!   takes over, each timer under the lock of the base; so a thread that is preempted, or held up in a callback, delays
//!   one timer. A timer whose callback runs is fired by no other pass, should it be due again. Each pass has an expiry
//!   lock of its own, so that who executes callbacks of a global wheel delays neither the local timers of its CPU nor
//!   the exact ones. Lock order: expiry lock, then base lock.
//! - The expiry of a timer is written under the lock, but read by anybody: that is what the paths without a lock of
//!   [`modify`](crate::hrtimer::Timers::modify) look at.
//!
//! # Cost
//!
//! A timer takes 48 bytes and its closure; a wheel 4.7 KB. Arming, moving and deleting take one lock and touch the
//! timer and at most two neighbours. Re-arming into the slot where the timer is takes one lock and one store;
//! re-arming for the same tick takes two loads.

mod arm;
pub(crate) mod base;
pub mod calendar;
mod cancel;
mod expire;
pub mod geometry;
mod hotplug;
pub mod idle;
#[cfg(all(test, loom))]
mod model;
mod query;
pub mod rounding;
mod sleeper;
pub(crate) mod timer;

pub use arm::{ArmError, ShutDown};
pub use base::Kind;
pub(crate) use base::WheelBase;
pub use calendar::{Calendar, DueSlots};
pub use expire::{Pass, PassEnd};
pub use geometry::{Place, Slot, Tick};
pub(crate) use query::assert_valid;
pub use timer::{Rearm, Timeout, WheelSleeper, WheelTimer};

/// Levels of the wheels of a CPU: 12 days of milliseconds. Models have two, for the sake of loom's small stacks.
pub(crate) const LEVELS: usize = if cfg!(loom) { 2 } else { geometry::LEVELS_MAX };
