//! `idle_stays_idle`: a CPU that sleeps is not woken by its own device before it asked to be.
//!
//! Looked at in each interrupt of a device.

use super::Promise;
use crate::machine::machine::World;
use crate::model::time::Picos;

impl World {
    /// The device of `cpu` fires at `at`. `is_wrong` if a fault made it fire.
    pub(crate) fn wakes_in_time(&self, cpu: u32, at: Picos, is_wrong: bool) {
        let host = self.timers.platform();
        let site = host.site(cpu);
        let is_left_armed = site.trouble.is_left_armed.replace(false);
        let is_known = is_wrong
            || is_left_armed
            || site.written.may_be_early.get()
            || host.is_armed_for_old_clock(cpu);
        let asked = self.cpus[cpu as usize].wakes_at;
        if at + host.slop(cpu, asked) < asked && !is_known {
            let what = format!("its device wakes it at {at}, not at {asked}");
            let mut watch = host.watch.borrow_mut();
            watch.broken(Promise::IdleStaysIdle, cpu, what);
        }
    }
}
