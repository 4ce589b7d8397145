//! The reaction of timers to clocks that jump (spec ).
//!
//! # Timers that fire on a set
//!
//! A timer with [`Setup::fire_on_clock_set`](crate::hrtimer::Setup::fire_on_clock_set) fires when its clock is set,
//! whatever its deadline (spec TIM-34). The thread that reports the set does not fire the timer. It moves the timer to
//! the front of the timer's queue, under the key [`Deadline::CLOCK_SET`], and kicks the timer's CPU. So the timer fires
//! on its usual CPU and in its usual stage, and its callback never executes twice at a time. The timer's own deadline
//! stays in its head: a callback that restarts the timer continues from that deadline.
//!
//! Every such timer is notified of each set:
//!
//! - A timer may fire by its own deadline between the jump and the report. That firing also reports the set, because
//!   the base remembers that it saw a jump that is not reported yet (`jump_untold`).
//! - A timer whose callback executes during the report is in no queue. If the callback restarts it, the timer is queued
//!   under `CLOCK_SET`: the base counts its reports (`tellings`), and the count changed since the callback began.
//! - A thread may start such a timer during the report. The lock of the base orders the two: either the report finds
//!   the timer, or the thread finds the new offsets (`a_clock_is_set_against_a_start_that_wants_to_know`).

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::clock::ClockSet;
use crate::exact::queues::{QUEUES, bits};
use crate::platform::Platform;
use crate::time::{Clock, Deadline};
use crate::trace::{Event, Placement, StartMode, TimerId};

impl<P: Platform> Timers<P> {
    /// Notifies the timers that `clocks` jumped (spec TIM-30).
    ///
    /// Kicks every CPU on which a timer is now due before the time for which the device is armed (B66). The kicked CPUs
    /// may include the executing CPU. A jump that makes timers due later costs at most one useless interrupt (spec
    /// TIM-32). Timers that [fire on a set](crate::hrtimer::Setup::fire_on_clock_set) are due at every call (spec
    /// TIM-34).
    ///
    /// # Interrupt context
    ///
    /// Must not be called while the host changes the time, and not from a timer interrupt.
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
        let told = self.tell_of_set(held, clocks);
        if !told && held.state.seen == held.state.evaluated {
            // The CPU has evaluated its queues since the jump. Fresh offsets alone would not show that: the soft stage
            // refreshes them too, but evaluates the soft queues alone.
            return false;
        }
        if held.leave_to_rearm() {
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

    /// Moves the timers that fire when one of `clocks` is set to the front of their queues. Returns true if it moved a
    /// timer.
    fn tell_of_set(&self, held: &mut BaseGuard<'_, P>, clocks: ClockSet) -> bool {
        held.state.jump_untold = false;
        held.state.tellings = held.state.tellings.wrapping_add(1);
        let mut told = 0;
        for index in bits(held.state.queues.active) {
            if index % 4 == Clock::Monotonic as usize || !clocks.contains(Clock::ALL[index % 4]) {
                continue;
            }
            let cpu = held.base.cpu();
            let queue = &mut held.state.queues[index];
            let brought = queue.tree.bring_to_front(Deadline::CLOCK_SET, |entry| {
                let fires = entry.tag().fires_on_set();
                if fires && self.platform.is_traced() {
                    self.platform.trace(Event::Start {
                        cpu,
                        timer: TimerId(entry.address()),
                        code: entry.code_address(),
                        clock: entry.tag().clock(),
                        hard: Deadline::CLOCK_SET.as_nanos(),
                        soft: Deadline::CLOCK_SET.as_nanos(),
                        mode: StartMode::default(),
                        was_armed: true,
                        stood: Placement::Moved,
                    });
                }
                fires
            });
            if brought > 0 {
                queue.first_deadline = Deadline::CLOCK_SET;
            }
            told += brought;
        }
        held.state.stats.told_of_sets += told as u64;
        told > 0
    }
}
