//! Requests that another CPU checks its queues.

use crate::base::cpu_base::CpuBase;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::platform::{Platform, ThisCpu};
use crate::trace::Event;

impl<P: Platform> Timers<P> {
    /// Makes `cpu` check its queues, by a [kick](crate::platform::Port::kick) unless a kick is already pending.
    pub fn request_retrigger(&self, cpu: CpuId) {
        if let Some(base) = self.platform.base(cpu)
            && base.note_kick()
        {
            self.platform.kick(base);
        }
    }

    /// Requests that the CPU of `base` checks its queues, unless an earlier request is still pending.
    pub(crate) fn kick(&self, base: &CpuBase<P>, me: Option<ThisCpu<'_, P>>) {
        if !base.note_kick() {
            return;
        }
        if self.platform.is_traced() {
            self.platform.trace(Event::Kick { cpu: base.cpu() });
        }
        if me.is_some_and(|me| core::ptr::eq(me.base, base)) {
            // Spec TIM-30 step 4, B66: the caller's own device too.
            self.retrigger(base.cpu());
        } else {
            self.platform.kick(base);
        }
    }
}
