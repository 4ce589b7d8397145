//! The parts of `tickless-sim` that other hosts use, built for a machine without a standard library. The source files
//! are those of `tickless-sim` itself.
#![no_std]

#[macro_use]
extern crate tickless_kernel_std as std;

#[path = "../../../crates/tickless-sim/src/call.rs"]
pub mod call;
#[path = "../../../crates/tickless-sim/src/owned.rs"]
pub mod owned;
#[path = "../../../crates/tickless-sim/src/random.rs"]
pub mod random;
#[path = "../../../crates/tickless-sim/src/tables.rs"]
pub mod tables;
#[path = "../../../crates/tickless-sim/src/wakener.rs"]
pub mod wakener;

#[path = "../../../crates/tickless-sim/src/model/device_class.rs"]
pub mod device_class;

/// The hardware models of the simulator; this crate has only the devices.
pub mod model {
    pub use crate::device_class;
}

pub use device_class::DeviceClass;
