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

use tickless::Executor;

fn executor(workers: usize) -> Executor {
    let builder = Executor::builder().workers(workers);
    builder.build().expect("there are threads enough")
}
