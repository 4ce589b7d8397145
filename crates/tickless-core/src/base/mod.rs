//! The base of a CPU: the one place where its queues, its device and its lock meet.

pub(crate) mod callback;
mod check;
pub(crate) mod cpu_base;
pub(crate) mod expirer;
pub(crate) mod frozen;
pub(crate) mod guard;
mod kick;
#[cfg(all(test, loom))]
pub(crate) mod model;
pub(crate) mod owner;
pub(crate) mod runner;
pub(crate) mod sleeper;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod timers;

pub use self::callback::TryCancel;
pub use self::cpu_base::CpuBase;
pub use self::expirer::BaseTypes;
pub use self::frozen::Frozen;
pub use self::sleeper::TaskTimer;
pub use self::stats::Stats;
pub use self::timers::Timers;
