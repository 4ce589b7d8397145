//! A deterministic virtual machine: the third host of the core, next to user space and bare metal.
//!
//! Nothing of the timer subsystem is imitated here: the machine runs the real `tickless-core` and only provides what a
//! host provides, namely CPUs, a counter, clock event devices, interrupts with their return paths, and kicks. Time is a
//! number that the machine moves; one thread executes everything; the same calls give the same result, to the byte.
//!
//! [`Machine`] is driven like a debugger drives a computer: say what a CPU does, let time pass, look at what happened.
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
