//! Threads that run their own timers.
#![expect(clippy::module_inception, reason = "the file of `Worker` has its name")]

mod builder;
mod driver;
mod isolate;
mod local;
mod worker;

pub use builder::{BuildError, Builder, Handover, Workers};
pub use driver::Driver;
pub use isolate::IsolateError;
pub use local::{IsolatedTimers, IsolationError, StartError, Turn};
pub use worker::{Parking, Unparker, Worker};
