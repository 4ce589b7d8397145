//! The parts of `tickless-sim` that other hosts use, built for a machine without a standard library. They are compiled
//! from the files of `tickless-sim` themselves.
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

/// The models of hardware, of which this crate has the devices alone.
pub mod model {
    pub use crate::device_class;
}

pub use device_class::DeviceClass;
