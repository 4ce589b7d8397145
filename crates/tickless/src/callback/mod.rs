//! Timers that call a closure, exact ones and coarse ones, with the same methods.

pub mod hrtimer;
mod own_clock;
pub mod wheel;
