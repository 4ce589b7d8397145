//! The conformance kit of the Tickless core: the suites that a host has to pass, and the rig on which the suites run.
//!
//! An embedder that ports the core writes a [`Platform`](tickless_core::platform::Platform). The suites here are
//! generic over the platform: implement [`Host`] for a test build of the port, write
//! `tickless_conformance::conformance!(MyHost);` in a test, and each case becomes a test.
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
//! use tickless_conformance::{Deferred, Rig, TestTimer};
//!
//! let rig = Rig::<Deferred>::new(2);
//! let timer = TestTimer::new(&rig, |_| Restart::No);
//! rig.on(0, || timer.start(Start::at(Instant::from_nanos(1_000))));
//! rig.run_until(5_000);
//! assert_eq!(timer.fired_at(), [1_000]);
//! ```
//!
//! Without the feature `std`, which is on by default, the crate is for a program on a bare machine of which one CPU
//! executes the suites.
//!
//! A simulator is a host, too: [`tables`], [`owned`], [`wakener`], [`call`] and [`random`] are parts that hosts share.
#![no_std]
#![deny(rustdoc::broken_intra_doc_links)]

#[macro_use]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod call;
mod capability;
pub mod device_class;
pub mod grammar;
mod host;
pub mod kit;
pub mod nohz;
pub mod owned;
mod parts;
mod paths;
pub mod random;
mod rig;
mod rig_tables;
pub mod suite;
pub mod suites;
mod surroundings;
pub mod tables;
mod ticks;
mod timer;
pub mod virtual_host;
pub mod wakener;

pub use capability::Capabilities;
pub use device_class::DeviceClass;
pub use host::{Host, Placement, Source};
pub use parts::TICK;
pub use paths::{Interrupted, Schedule};
pub use rig::Rig;
pub use timer::{CoarseTimer, TestTimer};
pub use virtual_host::{Anew, Config, Deferred, Immediate, Preemptible, VirtualHost};

/// The names that each program with a standard library imports by default.
mod prelude {
    pub(crate) use alloc::borrow::ToOwned;
    pub(crate) use alloc::boxed::Box;
    pub(crate) use alloc::string::{String, ToString};
    pub(crate) use alloc::vec::Vec;
}
