//! What a machine is made of: its shape, its devices, and what things cost on it.

pub(crate) mod costs;
pub(crate) mod cpu_set;
pub(crate) mod device;
pub mod device_class;
pub(crate) mod frequency;
pub(crate) mod input;
pub(crate) mod meter;
pub(crate) mod profile;
pub(crate) mod time;
pub(crate) mod topology;

pub use costs::{Cost, Costs};
pub use device::Device;
pub use device_class::DeviceClass;
pub use input::InputError;
pub use profile::{EMBEDDED, IdleState, Mark, Profile};
pub use time::Picos;
pub use topology::{Distance, Numbering, Place, Topology};

/// The most CPUs of a machine.
pub const CPUS_MAX: u32 = 4_096;
