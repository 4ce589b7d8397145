//! Timers with callbacks, exact and coarse, and the futures of `tickless::coarse`.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod callback;
mod coarse;
mod hrtimer;
