//! A host for tests, and the cases of three schedulers on it: scripts, loom, shuttle.

#[cfg(shuttle)]
mod fuzz;
mod host;
#[cfg(loom)]
mod model;
#[cfg(not(any(loom, shuttle)))]
mod scripted;
