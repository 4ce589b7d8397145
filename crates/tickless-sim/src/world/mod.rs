//! Worlds: machines of up to 4,096 CPUs in virtual time, on which everything costs what it costs.
//!
//! [`Machine`](crate::Machine) is driven by hand and costs nothing; it is for tests of the core. A world is driven by
//! workloads, and is for questions: what does a policy cost on a machine that nobody here owns? It runs the same wheel,
//! the same hierarchy and the same exact timers as everybody else; only the clock, the devices, the interrupts, the
//! idle states and the costs are made up, from a [`Profile`] in which every number says where it comes from.
//!
//! A [`Scenario`] is a file; [`run`] lets it happen; the [`Outcome`] can be written as data. The checkers of the
//! [promises](Promise) run always. What the library does not do, but is compared with, is in [`baseline`]. The claims
//! of the sources are tried in [`headline`]. What goes wrong on purpose is in [`fault`].
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

pub mod baseline;
mod canary;
mod clock;
mod costs;
mod cpu;
mod cpu_set;
mod deep;
mod device;
pub mod draw;
pub mod fault;
mod frequency;
mod groups;
pub mod headline;
mod host;
mod idle;
mod input;
mod kept;
mod ledger;
mod meter;
mod needs;
mod outcome;
mod process;
mod profile;
mod promise;
mod queue;
mod rearm;
pub mod record;
mod scenario;
mod shell;
mod slice;
mod stats;
mod tick;
mod time;
mod topology;
mod tree;
mod turn;
mod watch;
mod workload;
#[expect(
    clippy::module_inception,
    reason = "the world is what this room is about"
)]
mod world;

pub use baseline::Policy;
pub use canary::Canary;
pub use clock::{CounterModel, STAND_IN};
pub use costs::{Cost, Costs};
pub use deep::StandIn;
pub use device::Device;
pub use fault::{Fault, FaultKind, When};
pub use groups::{Group, Tally};
pub use input::InputError;
pub use needs::{Limits, Needs, TooMuch};
pub use outcome::{CpuOutcome, Outcome, Residency};
pub use process::{CoarseTimer, ExactTimer, Process, ProcessCounts, SleepTimer};
pub use profile::{EMBEDDED, IdleState, Mark, Profile};
pub use promise::{Promise, Violation};
pub use scenario::{Scenario, run, run_recorded, run_twice, run_twice_recorded};
pub use stats::Distribution;
pub use time::Picos;
pub use topology::{Distance, Numbering, Place, Topology};
pub use watch::Counts;
pub use workload::{Placed, Range, WallClock, Workload};

/// The most CPUs of a world.
pub const CPUS_MAX: u32 = 4_096;
