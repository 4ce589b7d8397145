//! Exact and coarse timers that call a closure, with the same methods.

pub mod hrtimer;
mod own_clock;
pub mod wheel;
