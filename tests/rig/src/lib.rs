//! A deterministic machine, driven by hand: a host of the core in which time is a number.
//!
//! Nothing of the timer subsystem is imitated here: the machine runs the real `tickless-core` and only provides what a
//! host provides. One thread executes everything, and the same calls give the same result, to the byte.
//!
//! [`Machine`] is driven like a debugger drives a computer: say what a CPU does, let time pass, look at what happened.
//! Nothing costs anything. [`Ticking`] is one whose CPUs tick and idle. The conformance suite runs on these.
//!
//! ```
//! use tickless_core::hrtimer::{Restart, Start};
//! use tickless_core::time::Instant;
//! use tickless_rig::{Deferred, Machine, TestTimer};
//!
//! let machine = Machine::<Deferred>::new(2);
//! let timer = TestTimer::new(&machine, |_| Restart::No);
//! machine.on(0, || timer.start(Start::at(Instant::from_nanos(1_000))));
//! machine.run_until(5_000);
//! assert_eq!(timer.fired_at(), [1_000]);
//! ```
#![deny(rustdoc::broken_intra_doc_links)]

pub mod check;
mod coarse;
pub mod machine;
pub mod nohz;
pub mod suite;
mod timer;

pub use coarse::CoarseTimer;
pub use machine::{
    Config, Deferred, Immediate, Interrupted, Machine, Preemptible, Schedule, Source,
};
pub use nohz::Ticking;
pub use tickless_sim::DeviceClass;
pub use timer::TestTimer;
