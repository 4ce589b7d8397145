//! `armed_not_later_than_first`: the device of a CPU fires when its first timer is due, or before (INV-1).
//!
//! Looked at when a CPU has done what an event made it do.

use tickless_core::platform::CpuId;

use super::Promise;
use crate::machine::machine::World;
use crate::model::current_cpu;
use crate::model::time::Picos;

impl World {
    /// INV-1: the device of `cpu` fires when its first timer is due, or before.
    pub(crate) fn armed_in_time(&self, cpu: u32) {
        let host = self.timers.platform();
        let first = current_cpu::looking(|| self.timers.next_event(CpuId(cpu)));
        if first.is_forever() {
            return;
        }
        let due = host.moment(first);
        // Nothing fires before its write is done, and a clock may be steered from then on.
        let written = self.written(cpu);
        let latest = due.max(current_cpu::cursor()).max(written) + host.clocks.slop(due - written);
        let site = host.site(cpu);
        let fires = self.fires(cpu);
        if fires <= latest + site.written.late.get() {
            return;
        }
        // An interrupt that was lost was armed for all the same, who is being kicked is about to arm, and who does
        // nothing but run timers is left alone for a moment (spec IRQ-3). Who came back late from where its device
        // stops is being called.
        let is_known = site.trouble.rescue.get() != Picos::FOREVER
            || site.trouble.is_kicked.get()
            || site.awaits_call.get()
            || current_cpu::looking(|| self.timers.is_backing_off(CpuId(cpu)));
        if !is_known {
            let what = format!("the first timer is due at {latest}, the device fires at {fires}");
            let mut watch = host.watch.borrow_mut();
            watch.broken(Promise::ArmedNotLaterThanFirst, cpu, what);
        }
    }
}
