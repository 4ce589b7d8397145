//! Coarse timers, and the operations on coarse timers of a locked base.
//!
//! The wheels themselves are in [`wheel`](crate::wheel).
//!
//! # How it is driven
//!
//! Each operation takes the tick in progress as its argument: nothing here reads a clock or touches a device.
//!
//! - **Users** [`arm`](crate::coarse::WheelTimer::arm) a [`WheelTimer`],
//!   [`modify`](crate::coarse::WheelTimer::modify) it as often as they like, and
//!   [`delete`](crate::coarse::WheelTimer::delete) it. A user that ends a timer for good
//!   [shuts it down](crate::coarse::WheelTimer::shutdown_sync).
//! - **A host's tick** checks [`wheel_is_due`](crate::base::Timers::wheel_is_due), which takes no lock. If a wheel is
//!   due, the tick calls [`run_wheel`](crate::base::Timers::run_wheel) for each kind, in the soft stage.
//! - **A host's idle code** reads [`wheel_next`](crate::base::Timers::wheel_next), computes the wake time with
//!   [`wake_times`](crate::wheel::idle::wake_times), and commits to the wake time with
//!   [`wheel_enter_idle`](crate::base::Timers::wheel_enter_idle).
//! - **A host whose CPUs go online and offline** calls [`wheel_online`](crate::base::Timers::wheel_online) before a CPU
//!   takes part, and [`wheel_offline`](crate::base::Timers::wheel_offline) after it left.
//!
//! # Ground rules
//!
//! The ground rules of the [base](crate::base) hold here too. In addition:
//!
//! - The three wheels of a CPU, one for each [`WheelKind`], are protected by the one lock of its base, together with
//!   its exact timers. Where the specification takes the locks of the local and the global wheel one after the other
//!   (idle entry, remote expiry), the core has one critical section; `docs/decisions/0010` says why.
//! - The owner word of a timer names its wheel, and thereby the timer's current kind, which can change. The tag says
//!   only with which kind the timer was made.
//! - Several passes of a wheel may run at once, one for each CPU that executes the wheel. The next pass takes over the
//!   timers that an earlier pass has not begun, each under the lock of the base. So a thread that is preempted, or is
//!   delayed in a callback, delays one timer. If a timer is due again while its callback runs, no other pass fires the
//!   timer. Each pass has an expiry lock of its own, so that a CPU that executes callbacks of a global wheel delays
//!   neither the local timers of its owner nor the exact ones.
//! - A timer's expiry is written under the lock, and any thread may read it without the lock. The lock-free paths of
//!   [`modify`](crate::coarse::WheelTimer::modify) read it.
//!
//! # Cost
//!
//! A timer takes 48 bytes and its closure; a wheel takes 4.7 KB. Arming, moving and deleting take one lock and touch
//! the timer and at most two neighbours. Re-arming into the timer's current slot takes one lock and one store;
//! re-arming for the same tick takes two loads. A timer that is pushed out again and again by some time is enqueued
//! once in each such time.

mod arm;
mod cancel;
mod expire;
mod hotplug;
#[cfg(all(test, loom))]
mod model;
mod modify;
mod own;
mod query;
mod sleeper;
mod timer;

pub use self::arm::ArmError;
pub use self::expire::{Pass, PassEnd};
pub use self::own::Own;
pub use self::sleeper::WheelSleeper;
pub use self::timer::WheelTimer;
pub use crate::restart::Restart;
pub use crate::slots::geometry::Tick;
pub use crate::start_outcome::{ShutDown, StartOutcome};
pub use crate::wheel::cpu_wheel::{AskedFor, Now};
pub use crate::wheel::family::{Timeout, WheelKind};
