//! The model of a machine: its shape, its devices, and the prices of its operations.

pub(crate) mod broadcast;
pub(crate) mod cost_model;
pub(crate) mod costs;
pub(crate) mod cpu_set;
pub(crate) mod current_cpu;
pub(crate) mod device;
pub(crate) mod frequency;
pub(crate) mod governor;
pub(crate) mod input;
pub(crate) mod mark;
pub(crate) mod profile;
pub(crate) mod slow_counter;
pub(crate) mod time;
pub(crate) mod topology;

pub use broadcast::BroadcastDevice;
pub use costs::{Cost, Costs};
pub use device::Device;
pub use input::InputError;
pub use mark::Mark;
pub use profile::{EMBEDDED, IdleState, Profile};
pub use tickless_conformance::DeviceClass;
pub use time::Picos;
pub use topology::{CPUS_MAX, CpuPlace, Distance, Numbering, Topology};
