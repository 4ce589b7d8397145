//! What a machine is made of: its shape, its devices, and what things cost on it.

pub mod device_class;

pub use device_class::DeviceClass;
