//! Virtual time: clocks of runtimes that are stopped and moved.

mod clock;
mod executor;
