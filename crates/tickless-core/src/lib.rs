//! The mechanisms of Tickless, independent of the host.
//!
//! This crate contains all code between a counter and a timer's callback, and no code that depends on an operating
//! system. It has clocks and their offsets ([`clock`]), the devices that make an interrupt happen ([`event`]),
//! high-resolution timers ([`hrtimer`]), coarse timers for timeouts ([`coarse`]), the tree through which awake CPUs run
//! the timers of idle CPUs ([`hierarchy`]), and the tick, which drives the wheels and stops on idle CPUs ([`tick`]). A
//! host (worker threads in user space, a kernel, a simulator) implements [`Port`] and [`Platform`]. The host calls the
//! entry points of [`Timers`](base::Timers) at each event: an interrupt, a set of a clock, a CPU that goes online or
//! offline.
//!
//! ```
//! use std::cell::{Cell, OnceCell};
//! use std::pin::pin;
//! use tickless_core::base::{CpuBase, Timers};
//! use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
//! use tickless_core::hrtimer::{HrTimer, Restart, Start};
//! use tickless_core::link::lock::SpinLock;
//! use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
//! use tickless_core::time::{Instant, Span};
//!
//! /// One CPU, a clock that is set by hand, and a device that remembers when it is to fire.
//! #[derive(Default)]
//! struct Host {
//!     now: Cell<i64>,
//!     fires_at: Cell<i64>,
//!     base: OnceCell<CpuBase<Host>>,
//! }
//!
//! impl Port for Host {
//!     type Lock = SpinLock;
//!     type ExpiryLock = SpinLock;
//!     type Local = ();
//!     fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
//!         self.base.get().map(|base| ThisCpu { base, token: None })
//!     }
//!     fn base(&self, _: CpuId) -> Option<&CpuBase<Self>> {
//!         self.base.get()
//!     }
//!     fn now(&self) -> Instant {
//!         Instant::from_nanos(self.now.get())
//!     }
//!     fn write_device(&self, _: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
//!         if let DeviceWrite::Absolute(when) = write {
//!             self.fires_at.set(when.as_nanos());
//!         }
//!         Ok(())
//!     }
//!     fn kick(&self, _: &CpuBase<Self>) {}
//! }
//!
//! impl Platform for Host {}
//!
//! let timers = Timers::new(Host::default());
//! let host = timers.platform();
//! assert!(host.base.set(timers.new_base(DeviceConfig::software("by hand"), ())).is_ok());
//! timers.cpu_online(CpuId(0));
//!
//! let timer = pin!(HrTimer::new(|_| Restart::No));
//! let _ = timer.as_ref().start(&timers, Start::after(Span::from_millis(2)));
//! assert_eq!(host.fires_at.get(), 2_000_000);
//!
//! host.now.set(2_000_000);
//! assert_eq!(timers.interrupt(CpuId(0)).fired, 1);
//! ```
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
//!   host:    Port: counter, device, kicks
//! ```
//!
//! # What it promises
//!
//! - No timer fires early, no timer is lost, and the device is never armed for a time after the first timer (spec
//!   X-4.7, INV-1).
//! - The crate never allocates memory.
//! - No callback runs under a lock. The library holds none of its locks while it calls code of the host that may call
//!   back.
//! - The crate contains no `unsafe` code for pointers; `tickless-link` contains all of it.
//!
//! Requirement ids (TIM-17, INV-1, R36, B12) and sections (X-4.5, C-2.4) refer to the specifications in `laboratory/docs/spec`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(feature = "kernel", deny(rustdoc::broken_intra_doc_links))]
#![cfg_attr(
    not(feature = "kernel"),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "what the feature adds is named without it too"
    )
)]

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
mod start_outcome;
#[cfg(feature = "kernel")]
pub mod tick;
pub mod time;
pub mod trace;
pub mod wheel;

pub use platform::{Platform, Port};
pub use tickless_link as link;
