//! Deterministic virtual machines: a host of the core in which time is a number, next to user space.
//!
//! Nothing of the timer subsystem is imitated here: the machines run the real `tickless-core` and only provide what a
//! host provides. One thread executes everything, and the same calls give the same result, to the byte. There are three
//! instruments:
//!
//! - [`Machine`] is driven like a debugger drives a computer: say what a CPU does, let time pass, look at what
//!   happened. Nothing costs anything. [`Ticking`] is one whose CPUs tick and idle. The conformance suite runs on
//!   these.
//! - [`world`] has machines of up to 4,096 CPUs in which everything costs, with workloads, faults, and promises that
//!   are checked while they run.
//! - [`world::Process`] is the user-space host in virtual time, to compare with a real one.
//!
//! ```
//! use tickless_core::hrtimer::{Restart, Start};
//! use tickless_core::time::Instant;
//! use tickless_sim::{Deferred, Machine, TestTimer};
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
mod device;
pub mod hierarchy;
pub mod machine;
pub mod nohz;
pub mod random;
pub mod suite;
mod timer;
pub mod world;

pub use coarse::CoarseTimer;
pub use device::DeviceClass;
pub use machine::{
    Config, Deferred, Immediate, Interrupted, Machine, Preemptible, Schedule, Source,
};
pub use nohz::Ticking;
pub use timer::TestTimer;
