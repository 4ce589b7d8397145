//! A deterministic simulator of the core: machines in virtual time, on which each operation on timers costs a modelled
//! time.
//!
//! A [`Scenario`] describes the machine, of 1 to 4,096 CPUs, its workloads and its faults; [`run()`] runs the scenario;
//! the [`Outcome`] holds the results, and says whether every [`Promise`] was kept. The same scenario and seed give the
//! same outcome, to the byte.
//!
//! ```
//! use tickless_sim::{Scenario, run};
//!
//! let text = r#"
//! name = "two CPUs, one of which sleeps"
//! profile = "skl-112"
//! cpus = 2
//! duration = "50 ms"
//!
//! [[workload]]
//! kind = "cyclictest"
//! cpus = "1"
//! period = "1 ms"
//! "#;
//! let outcome = run(&Scenario::from_toml(text, "two.toml")?, 1);
//! assert!(outcome.holds(), "{:?}", outcome.violations);
//! let latency = outcome.series("latency").expect("it ran");
//! assert!(latency.count() > 40 && latency.max().as_nanos() < 1_000_000);
//! # Ok::<(), tickless_sim::InputError>(())
//! ```
//!
//! Nothing of the timer subsystem is imitated: the machines run the real `tickless-core`, and only provide what a host
//! provides. One thread executes everything.
//!
//! | to | look at |
//! |---|---|
//! | run a scenario, once, twice, or with a record | [`run()`], [`run_twice`], [`run_recorded`], [`record`] |
//! | know the modelled costs, and their sources | [`Profile`], [`model`] |
//! | know the workloads and the faults | [`workload`], [`fault`] |
//! | compare with alternatives to the library's policies | [`baseline`], [`Policy`] |
//! | try the claims of the sources | [`headline`] |
//! | search for scenarios that break a promise | [`draw`] |
//!
//! Requirement ids (TIM-17, INV-1, R36, B12) and sections (X-4.5, C-2.4) refer to the specifications in `laboratory/docs/spec`.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod baseline;
mod clock;
pub mod fault;
pub mod headline;
mod machine;
pub mod model;
pub mod promise;
pub mod record;
pub mod run;
pub mod workload;

pub use baseline::Policy;
pub use clock::{CounterModel, STAND_IN};
pub use fault::{Fault, FaultKind, When};
pub use model::{
    BroadcastDevice, CPUS_MAX, Cost, Costs, CpuPlace, Device, DeviceClass, Distance, EMBEDDED,
    IdleState, InputError, Mark, Numbering, Picos, Profile, Topology,
};
pub use promise::{Canary, Promise, Violation};
pub use record::{Counts, Distribution, Tally};
pub use run::{
    CpuOutcome, Group, Outcome, Residency, Scenario, Share, draw, run, run_recorded, run_twice,
    run_twice_recorded,
};
pub use tickless_conformance::random;
pub use workload::{Placed, Range, Reserves, Sections, WallClock, Workload};
