//! Worlds: machines of up to 4,096 CPUs in virtual time, on which everything costs what it costs.
//!
//! The machine of the conformance suite is driven by hand and costs nothing; it is for tests of the core. A world is
//! driven by workloads, and is for questions: what does a policy cost on a machine that nobody here owns? It runs the
//! same wheel, the same hierarchy and the same exact timers as everybody else; only the clock, the devices, the
//! interrupts, the idle states and the costs are made up, from a [`Profile`](crate::Profile) in which every number says
//! where it comes from.
//!
//! A [`Scenario`](crate::Scenario) is a file; [`run`](crate::run()) lets it happen; the [`Outcome`](crate::Outcome) can
//! be written as data. The checkers of the [promises](crate::Promise) run always. What the library does not do, but is
//! compared with, is in [`baseline`](crate::baseline). The claims of the sources are tried in
//! [`headline`](crate::headline). What goes wrong on purpose is in [`fault`](crate::fault).
//!
//! # How time passes
//!
//! Events happen in the order of their times. What an event makes a CPU do is executed at once, as a whole, and moves
//! the *cursor* of that CPU on by what it costs: locks by who had them last and whether he has them at this moment,
//! lines by how far away they were written, clocks and devices by their price. What comes for the CPU before its cursor
//! waits for it. Programs that compute are interrupted.
//!
//! # Limits
//!
//! What a CPU does at once is not interleaved with what others do: of two that come for a lock, the one whose event was
//! earlier has it, and one that comes from before a lock was busy does not wait for it. Callbacks are not
//! interrupted, by ticks neither. Reading the state of a group at a tick costs the same wherever it was changed.

pub(crate) mod broadcast;
pub(crate) mod checks;
mod clocks;
mod cpu;
pub(crate) mod executor;
mod expire;
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
pub(crate) mod queue;
mod rearm;
mod reentrant;
pub(crate) mod scheduler;
pub(crate) mod settings;
mod slice;
pub(crate) mod tables;
pub(crate) mod task_context;
pub(crate) mod tick;
pub(crate) mod timers;
