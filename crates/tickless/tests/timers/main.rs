//! Tests of timers with callbacks, exact and coarse, and of the futures of `tickless::coarse`.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod callback;
mod coarse;
mod hrtimer;
