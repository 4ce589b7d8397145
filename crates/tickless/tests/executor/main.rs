//! Tests of the executor: tasks, their waits, deadlines, and the process around it.

#[path = "../support/mod.rs"]
mod support;

mod ends;
#[cfg(not(portable_host))]
mod fork;
#[cfg(not(portable_host))]
mod io;
#[cfg(feature = "internals")]
#[cfg(not(portable_host))]
mod process;
mod tasks;
