//! Machines: CPUs that execute in virtual time, in which each operation takes a modelled time.
//!
//! A machine runs the wheel, the hierarchy and the exact timers of the core. Only the clock, the devices, the
//! interrupts, the idle states and the costs are made up, from a [`Profile`](crate::Profile) in which every number says
//! where it comes from.
//!
//! # How time passes
//!
//! Events happen in the order of their times. The work that an event causes on a CPU is executed at once, as a whole,
//! and moves the *cursor* of that CPU on by its cost: locks by which CPU had them last and whether it has them at this
//! moment, lines by how far away they were written, clocks and devices by their price. Events for the CPU that come
//! before its cursor wait for it. Programs that compute are interrupted.
//!
//! # What is above what
//!
//! | files | what they are |
//! |---|---|
//! | `queue`, `fired`, `sections` | events to come, and what fired in a callback: values that lower files leave for the executor |
//! | `host`, `timers`, `tables`, `tick`, `broadcast`, `slice`, `scheduler`, `fair`, `reserved`, `reentrant` | state of one subject each |
//! | `cpu`, `settings`, `machine` | the state of all of it |
//! | `rearm`, `deadline`, `extension`, `clocks`, `idle`, `expire`, `hotplug`, `faults`, `checks` | what a subject does to a machine |
//! | `task_context` | what a program may do to it |
//! | `executor` | which of that happens when |
//!
//! # Ground rules
//!
//! - The cursor belongs to the [current CPU](crate::model::current_cpu). The executor enters a CPU for each event and
//!   leaves it when the event is done; in between the cursor is in thread-local state, and `Cpu::cursor` is stale. Two
//!   others enter CPUs, one after the other, while the executor is in none: the coming up of a CPU, and the end of
//!   suspend.
//! - The core may call the host from any of its functions, and the host may not call the core: it changes its own
//!   cells, charges the cursor, and asks for events. `Host::checker`, `Host::queue` and `Host::faults` are borrowed for
//!   a few lines, never across a call into the core.
//! - Callbacks of timers run inside the core. They may start and cancel timers, and charge. They cannot reach the
//!   machine: what the machine has to do about it they note in `fired`, and the executor looks when the core has
//!   returned.
//! - A program is taken out while it executes. A timer of its that fires meanwhile finds none, and tells it nothing.
//! - Checkers look as no CPU, which costs nothing; they may call the core's queries.
//!
//! # Limits
//!
//! The work of a CPU at once is not interleaved with that of others: of two that come for a lock, the one whose event
//! was earlier has it, and one that comes from before a lock was busy does not wait for it. Callbacks are not
//! interrupted, by ticks neither. Reading the state of a group at a tick costs the same wherever it was changed.

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
