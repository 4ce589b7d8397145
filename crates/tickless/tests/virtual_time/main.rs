//! Tests of virtual time: clocks of runtimes that are stopped and moved.

mod callbacks;
mod clock;
mod executor;
