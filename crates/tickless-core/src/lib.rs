//! The mechanisms of Tickless, for every host.
//!
//! Everything between a counter and a timer's callback is here, and nothing that knows an operating system: clocks and
//! their offsets ([`clock`]), the devices that make an interrupt happen ([`event`]), high-resolution timers
//! ([`hrtimer`]), coarse ones for timeouts ([`coarse`]), the tree through which awake CPUs run the timers of idle ones
//! ([`hierarchy`]), and the tick that drives the wheels and stops where nothing happens ([`tick`]). A host (worker
//! threads in user space, a kernel, a simulator) implements one trait, [`Platform`], and calls the entry points of
//! [`Timers`](base::Timers) when something happened: an interrupt, a clock that was set, a CPU that goes away.
//!
//! ```text
//!   host:   interrupt   soft stage   return paths   clock set   CPU on/offline
//!               |           |             |              |             |
//!   Timers: interrupt  soft_interrupt  flush_deferred  clock_was_set  cpu_online/cpu_offline
//!               |
//!   hrtimer, coarse: start, cancel, expire, hotplug, on a locked base
//!               |
//!   base:    the queues of a CPU, its device, its lock      exact, wheel, slots: the queues, by themselves
//!               |
//!   event:   what to write to this kind of device          time::convert: the only conversions
//!               |
//!   host:    Platform::device(): counter, device, kicks
//! ```
//!
//! # What it promises
//!
//! - No timer fires early; none is lost; the device is never armed later than the first timer (spec X-4.7, INV-1).
//! - No allocation, anywhere.
//! - No callback runs under a lock, and none of the library's locks is held while a host's code runs that may call
//!   back.
//! - No pointer `unsafe`: that is in `tickless-link`.
//!
//! Requirement ids (TIM-17, INV-1, R36, B12) and sections (X-4.5, C-2.4) refer to the specifications in `docs/spec`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links)]

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod base;
pub mod clock;
pub mod coarse;
pub(crate) mod cpu;
pub mod event;
pub(crate) mod exact;
pub mod hierarchy;
pub mod hrtimer;
pub mod inspect;
pub mod platform;
pub(crate) mod restart;
pub mod slots;
pub mod tick;
pub mod time;
pub mod trace;
pub mod wheel;

pub use platform::Platform;
pub use tickless_link as link;
pub(crate) use tickless_link::mutant;
