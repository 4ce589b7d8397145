//! Clocks that jump (spec ).

use crate::base::guard::BaseGuard;
use crate::base::state::Change;
use crate::base::timers::Timers;
use crate::clock::ClockSet;
use crate::exact::queues::QUEUES;
use crate::platform::Platform;
use crate::time::Clock;

impl<P: Platform> Timers<P> {
    /// Tells the timers that `clocks` jumped (spec TIM-30).
    ///
    /// Every CPU on which a timer became due earlier than what is armed is kicked, the caller's own included (B66). A
    /// jump that makes timers due later costs one interrupt for nothing at most (spec TIM-32).
    ///
    /// # Interrupt context
    ///
    /// Not while the host changes the time, and not from a timer interrupt.
    pub fn clock_was_set(&self, clocks: ClockSet) {
        let me = self.platform.this_cpu();
        for base in self.bases() {
            let mut held = BaseGuard::lock(self, base, me);
            if base.is_online() && self.jump_needs_kick(&mut held, clocks) {
                drop(held);
                self.kick(base, me);
            }
        }
    }

    fn jump_needs_kick(&self, held: &mut BaseGuard<'_, P>, clocks: ClockSet) -> bool {
        held.refresh_offsets();
        if held.state.seen == held.state.evaluated {
            // The CPU has taken it into account already. That its copies are fresh would not be enough: the soft stage
            // refreshes them too, but evaluates the soft queues alone.
            return false;
        }
        if held.leave_to_rearm(Change::ClockSet) {
            return false;
        }
        let armed = held.base.armed();
        let state = &*held.state;
        (0..QUEUES).any(|index| {
            let soft = index >= 4;
            let queue = &state.queues[index];
            if !clocks.contains(Clock::ALL[index % 4])
                || state.queues.active & (1 << index) == 0
                || (soft && state.soft_pending)
            {
                return false;
            }
            let event = queue
                .offset
                .to_monotonic(queue.first_deadline)
                .not_negative();
            event < armed || (soft && event < state.soft_next)
        })
    }
}
