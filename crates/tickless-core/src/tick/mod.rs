//! The tick: a periodic interrupt of each CPU that counts coarse time, and stops while the CPU is idle.
//!
//! `docs/tick.md` gives the reasons for it.
//!
//! # Parts
//!
//! | | |
//! |---|---|
//! | [`TickCount`] | the count, the CPU that has the duty of counting, and the reaction if that CPU does not count |
//! | [`CpuTick`] | the state of the tick of one CPU |
//! | [`Nohz`] | the entry points: stopping and restarting the tick, and forecasts of the length of a sleep |
//! | [`Dependencies`] | the reasons to keep the tick of a task that could run without one |
//! | [`IdleTime`] | the time for which a CPU has been idle |
//! | [`Broadcast`] | the wake-up of CPUs whose own device stops in deep idle |
//!
//! # How it is driven
//!
//! ```text
//!  timer of the tick:  tick() -> start it for `next`; a pass of the wheels and serve_remote() if they are due
//!  any interrupt:      interrupt() first
//!  idle loop:          enter_idle()
//!                      loop: forecast() -> the governor chooses, with sleep_length()
//!                            stop()     -> sleep, or stay
//!                            interrupts; expiry; out of the loop if there is work
//!                      run_task()
//!  CPU comes, goes:    online(), offline()
//! ```
//!
//! The timer of the tick is a pinned [`HrTimer`](crate::hrtimer::HrTimer) of the host, in the hard stage. So the core
//! programs the device of a CPU for the first of all its timers, the tick included, and this module writes no device.
//!
//! # Ground rules
//!
//! - Only its CPU uses a [`CpuTick`], with timer delivery masked, so a [`CpuTick`] has no lock.
//! - The CPU that counts holds the lock of the count; readers take no lock. The count is published before the instant
//!   of the next tick to count. So a CPU that finds no tick to count has seen the new count.
//! - One word holds the CPU that has the duty, or the CPU that had it last. The duty says only which CPU should count.
//!   Any CPU may count, with the same result.
//! - At most one CPU without the duty tries to count at a time (R41).
//! - Three states belong together: the wheels' note that a CPU sleeps, the CPU's idle state in the hierarchy, and its
//!   stopped tick. They change between one interrupt and the next, and a CPU that decides to stay awake reverts all
//!   three (II2, R60).
//! - The lock order of the hierarchy holds here too. The locks of the count and of the broadcast device are innermost.
//!
//! # Limits
//!
//! A CPU's device has no periodic mode and no mode of low resolution (`docs/decisions/0002`), so the module has no
//! switch between modes. This library does not build for targets without atomic words of 64 bits, so the count needs no
//! other way to be read.
//!
//! Requirement ids (R33 to R44) are those of spec C-8.4.

mod account;
mod broadcast;
mod count;
mod cpu;
mod dependency;
mod dump;
mod idle;
mod mask;
#[cfg(all(test, loom))]
mod model;
mod nohz;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use crate::trace::KeepReason;
pub use account::{IdleTime, IdleWriter};
pub use broadcast::{Broadcast, BroadcastExit, Busy, Carrier, Delivery, Entered};
pub use count::{Duty, STALL_TICKS, TickCount};
pub use cpu::{Context, CpuTick, Role, skew};
pub use dependency::{Dependencies, Dependency, Scope, first_dependency};
pub use mask::CpuMask;
pub use nohz::{Forecast, Nohz, SleepLength, StoppedTick, TickDependencies, TickOutcome};
