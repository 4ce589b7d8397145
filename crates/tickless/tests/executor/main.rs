//! The executor: tasks, what they wait for, deadlines, and the process around it.

#[path = "../support/mod.rs"]
mod support;

mod deadline;
mod ends;
mod fork;
mod io;
#[cfg(feature = "internals")]
mod process;
mod tasks;
