//! Tests of the hierarchy on a host for tests, by three schedulers: scripts, loom, shuttle.

#[cfg(shuttle)]
mod fuzz;
mod host;
#[cfg(loom)]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod scripted;
