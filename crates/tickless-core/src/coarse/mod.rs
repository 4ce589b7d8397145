//! Coarse timers: what is done with them on a locked base.
//!
//! The wheels themselves are in [`wheel`](crate::wheel).
//!
//! # How it is driven
//!
//! [`Timers`](crate::base::Timers) has the operations. Each takes the tick in progress as its argument: nothing here
//! reads a clock or touches a device.
//!
//! - **Users** [`arm`](crate::coarse::WheelTimer::arm) a [`WheelTimer`],
//!   [`modify`](crate::coarse::WheelTimer::modify) it as often as they like, and
//!   [`delete`](crate::coarse::WheelTimer::delete) it. Who ends a timer for good
//!   [shuts it down](crate::coarse::WheelTimer::shutdown_sync).
//! - **A host's tick** asks [`wheel_is_due`](crate::base::Timers::wheel_is_due), which takes no lock, and if so
//!   calls [`run_wheel`](crate::base::Timers::run_wheel) for each kind, in the soft stage.
//! - **A host's idle code** asks [`wheel_next`](crate::base::Timers::wheel_next), computes with
//!   [`idle::wake_times`] when to wake, and commits to it with
//!   [`wheel_enter_idle`](crate::base::Timers::wheel_enter_idle).
//! - **A host whose CPUs come and go** calls [`wheel_online`](crate::base::Timers::wheel_online) before a CPU takes
//!   part, and [`wheel_offline`](crate::base::Timers::wheel_offline) after it left.
//!
//! The arithmetic stands alone: [`geometry`] says which slot, [`pending_map`] which slots hold something and when the
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
//!   (spec C-1.9), and may be armed in addition.
//! - Several passes of a wheel may be under way, one for each CPU that executes it. What one has not begun the next one
//!   takes over, each timer under the lock of the base; so a thread that is preempted, or held up in a callback, delays
//!   one timer. A timer whose callback runs is fired by no other pass, should it be due again. Each pass has an expiry
//!   lock of its own, so that who executes callbacks of a global wheel delays neither the local timers of its CPU nor
//!   the exact ones. Lock order: expiry lock, then base lock.
//! - The expiry of a timer is written under the lock, but read by anybody: that is what the paths without a lock of
//!   [`modify`](crate::coarse::WheelTimer::modify) look at.
//!
//! # Cost
//!
//! A timer takes 48 bytes and its closure; a wheel 4.7 KB. Arming, moving and deleting take one lock and touch the
//! timer and at most two neighbours. Re-arming into the slot where the timer is takes one lock and one store;
//! re-arming for the same tick takes two loads.

mod arm;
mod cancel;
mod expire;
mod hotplug;
#[cfg(all(test, loom))]
mod model;
mod query;
mod sleeper;
mod timer;

pub use self::arm::{ArmError, ShutDown};
pub use self::expire::{Pass, PassEnd};
pub use self::sleeper::WheelSleeper;
pub use self::timer::WheelTimer;
pub use crate::restart::Restart;
pub use crate::slots::geometry::Tick;
pub use crate::wheel::family::{Kind, Timeout};
