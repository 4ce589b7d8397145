//! Machines: CPUs that execute in virtual time, in which each operation takes a modelled time.
//!
//! A machine runs the wheel, the hierarchy and the exact timers of the core. Only the clock, the devices, the
//! interrupts, the idle states and the costs are simulated, from a [`Profile`](crate::Profile) that names the source of
//! each number.
//!
//! How time passes, and what is left out: `laboratory/docs/simulator.md`, "Time and cost" and "Limits".
//!
//! # What is above what
//!
//! | files | contents |
//! |---|---|
//! | `queue`, `fired`, `sections` | pending events, and the timers that fired in a callback: values that lower files leave for the executor |
//! | `host`, `timers`, `tables`, `tick`, `broadcast`, `slice`, `scheduler`, `fair`, `reserved`, `reentrant` | state of one subject each |
//! | `cpu`, `settings`, `machine` | the state of all subjects together |
//! | `rearm`, `deadline`, `extension`, `clocks`, `idle`, `expire`, `hotplug`, `faults`, `checks` | the operations of a subject on a machine |
//! | `task_context` | the operations of a program on a machine |
//! | `executor` | the order in which the operations happen |
//!
//! # Ground rules
//!
//! - The cursor belongs to the [current CPU](crate::model::current_cpu). The executor enters a CPU for each event and
//!   leaves the CPU at the end of the event. In between, the cursor is in thread-local state, and `Cpu::cursor` is
//!   stale. Two other places enter CPUs, one CPU after the other, while the executor is in none: the coming up of a
//!   CPU, and the end of suspend.
//! - The core may call the host from any of its functions. The host does not call the core: the host changes its own
//!   cells, charges the cursor, and requests events. `Host::checker`, `Host::queue` and `Host::faults` are borrowed for
//!   a few lines, never across a call into the core.
//! - Callbacks of timers run inside the core. They may start and cancel timers, and charge. They cannot reach the
//!   machine: they note in `fired` that their timer fired, and the executor reads the list when the core has returned.
//! - A program is removed from its place while it executes. A timer of the program that fires meanwhile finds the place
//!   empty, and does not notify the program.
//! - Checkers execute as no CPU, which costs nothing; they may call the core's queries.

pub(crate) mod broadcast;
pub(crate) mod checks;
mod clocks;
mod cpu;
mod deadline;
pub(crate) mod executor;
mod expire;
mod extension;
pub(crate) mod fair;
mod faults;
pub(crate) mod fired;
pub(crate) mod host;
mod hotplug;
mod idle;
#[expect(
    clippy::module_inception,
    reason = "the machine is what this room is about"
)]
pub(crate) mod machine;
mod placement;
pub(crate) mod queue;
mod rearm;
mod reentrant;
pub(crate) mod reserved;
pub(crate) mod scheduler;
pub(crate) mod sections;
pub(crate) mod settings;
mod slice;
pub(crate) mod tables;
pub(crate) mod task_context;
pub(crate) mod tick;
pub(crate) mod timers;
