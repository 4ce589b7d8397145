//! Tests of virtual time: clocks of runtimes that are stopped and moved.

#[path = "../support/mod.rs"]
mod support;

mod callbacks;
mod clock;
mod executor;
