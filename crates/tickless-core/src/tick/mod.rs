//! The tick: a periodic interrupt of each CPU that counts coarse time, and stops while the CPU is idle.
//!
//! Wheels are driven by a *tick*, a periodic event of each CPU that runs work. It would wake a CPU that sleeps a
//! thousand times a second, for nothing. So it is stopped when a CPU goes idle, and the one timer that stands for it is
//! started for the CPU's next wake-up: the first of its own coarse timers, a promise to the
//! [hierarchy](crate::hierarchy), or the clock, before its counter wraps. When the CPU runs work again the tick goes on
//! in the phase that it had.
//!
//! The count of ticks is one for the whole machine. One CPU has the *duty* of counting; it gives it up when it stops
//! its tick, and the next that ticks takes it.
//!
//! # Parts
//!
//! | | |
//! |---|---|
//! | [`TickCount`] | the count, which CPU keeps it, and what happens when it does not |
//! | [`CpuTick`] | what a CPU knows of its tick |
//! | [`Nohz`] | the entry points: may it stop, until when, go on; how long a sleep would be |
//! | [`Dependencies`] | what keeps the tick of a task that could run without one |
//! | [`IdleTime`] | how long a CPU has been idle |
//! | [`Broadcast`] | waking CPUs whose own device stops in deep idle |
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
//! The timer is an [`HrTimer`](crate::hrtimer::HrTimer) of the host's, pinned, in the hard stage: so the device of a
//! CPU is written for the first of all its timers, and this module knows no device.
//!
//! # Ground rules
//!
//! - A [`CpuTick`] is touched by its CPU alone, with timer delivery masked, so it has no lock.
//! - The CPU that counts holds the lock of the count; readers take none. The count is published before the instant from
//!   which on there is something to count: a CPU that finds nothing to do has seen it.
//! - Which CPU has the duty is one word together with which had it last. It says only which should count: any may, and
//!   all get the same.
//! - Of those who do not have the duty one at a time tries to count (R41).
//! - The wheels' note that a CPU sleeps, its place in the hierarchy, and its stopped tick go together: they change
//!   between one interrupt and the next, and a CPU that stays awake after all takes all of it back (II2, R60).
//! - Lock order: that of the hierarchy. The lock of the count and that of the broadcast are innermost.
//!
//! # Limits
//!
//! There is no periodic mode of a CPU's device and no mode of low resolution (`docs/decisions/0002`), so there is no
//! switch between them. Where words of 64 bits are not atomic nothing of this library builds, so that the count needs
//! no other way to be read there.
//!
//! Requirement ids (R33 to R44) are those of spec C-8.4.

mod account;
mod broadcast;
mod count;
mod cpu;
mod dependency;
mod dump;
mod idle;
pub(crate) mod keep;
mod mask;
#[cfg(all(test, loom))]
mod model;
mod nohz;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use account::{IdleTime, IdleWriter};
pub use broadcast::{Broadcast, BroadcastExit, Busy, Carrier, Delivery, Entered};
pub use count::{Duty, STALL_TICKS, TickCount};
pub use cpu::{Context, CpuTick, Role, skew};
pub use dependency::{Dependencies, Dependency, Scope, first_dependency};
pub use keep::KeepReason;
pub use mask::CpuMask;
pub use nohz::{Forecast, Nohz, SleepLength, StoppedTick, TickDependencies, TickOutcome};
