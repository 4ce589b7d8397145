//! Raw timers with callbacks.

pub mod hrtimer;
pub mod wheel;
