//! Tests of the hierarchy on a host for tests, under three schedulers: scripts, loom and shuttle.

#[cfg(shuttle)]
mod fuzz;
mod host;
#[cfg(loom)]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod scripted;
