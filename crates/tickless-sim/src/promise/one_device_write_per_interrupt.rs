//! `one_device_write_per_interrupt`: a timer interrupt writes its device once at most (INV-12).
//!
//! Looked at at each flush point that pays what an interrupt owes.

use super::Promise;
use crate::machine::machine::World;

impl World {
    /// INV-12: an interrupt, with the scheduler behind it, programs the device once at most.
    pub(crate) fn wrote_once(&self, cpu: u32) {
        let host = self.timers.platform();
        let mut writes = host.site(cpu).programmings.get();
        if self.breaks(Promise::OneDeviceWritePerInterrupt) {
            writes += 1;
        }
        if writes > 1 {
            let what = format!("its timer interrupt wrote the device {writes} times");
            let promise = Promise::OneDeviceWritePerInterrupt;
            host.watch.borrow_mut().broken(promise, cpu, what);
        }
    }
}
