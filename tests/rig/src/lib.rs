//! The conformance kit of the Tickless core: the suites that a host has to pass, and the rig on which the suites run.
//!
//! An embedder that ports the core writes a [`Platform`](tickless_core::platform::Platform). The suites here are
//! generic over the platform: implement [`Host`] for a test build of the port, write
//! `tickless_rig::conformance!(MyHost);` in a test, and each case becomes a test.
//!
//! [`Rig`] drives a host as a debugger drives a computer: it chooses the work of a CPU, lets time pass, and checks the
//! result. No operation takes time by itself. No part of the timer subsystem is imitated: the rig runs the real
//! `tickless-core`. One thread executes everything, and the same calls give the same result, to the byte.
//!
//! [`Deferred`], [`Immediate`] and [`Preemptible`] are hosts of the rig's own, with virtual CPUs, devices and counters.
//!
//! ```
//! use tickless_core::hrtimer::{Restart, Start};
//! use tickless_core::time::Instant;
//! use tickless_rig::{Deferred, Rig, TestTimer};
//!
//! let rig = Rig::<Deferred>::new(2);
//! let timer = TestTimer::new(&rig, |_| Restart::No);
//! rig.on(0, || timer.start(Start::at(Instant::from_nanos(1_000))));
//! rig.run_until(5_000);
//! assert_eq!(timer.fired_at(), [1_000]);
//! ```
#![cfg_attr(target_os = "none", no_std)]
#![deny(rustdoc::broken_intra_doc_links)]

// A machine without a standard library has the names that the suites need from a crate of its own.
#[cfg(target_os = "none")]
#[macro_use]
extern crate tickless_kernel_std as std;

mod capability;
pub mod grammar;
mod host;
pub mod kit;
pub mod nohz;
mod parts;
mod paths;
mod rig;
pub mod suite;
pub mod suites;
mod tables;
mod ticks;
mod timer;
pub mod virtual_host;

pub use capability::Capabilities;
pub use host::{Host, Placement, Source};
pub use parts::TICK;
pub use paths::{Interrupted, Schedule};
pub use rig::Rig;
pub use tickless_sim::DeviceClass;
pub use timer::{CoarseTimer, TestTimer};
pub use virtual_host::{Anew, Config, Deferred, Immediate, Preemptible, VirtualHost};
