//! Timers with callbacks: exact ones and coarse ones, with the same verbs.

pub mod hrtimer;
mod own_clock;
pub mod wheel;
