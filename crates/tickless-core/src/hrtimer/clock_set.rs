//! Clocks that jump (spec ).
//!
//! # Timers that fire on a set
//!
//! A timer that is made for it ([`Setup::fire_on_clock_set`](crate::hrtimer::Setup::fire_on_clock_set)) fires when its
//! clock is set, whatever its deadline (spec TIM-34). It is not fired by the thread that tells of the set: it is filed
//! before everything else in its own queue, under [`Deadline::CLOCK_SET`], and its CPU is kicked. So it fires where and
//! how it always does, and its callback never executes twice at a time. Its deadline stays in its head: a callback that
//! starts the timer again goes on with it.
//!
//! None is left out:
//!
//! - One that fires by its own deadline between the jump and the telling is told by that: the base knows that it saw a
//!   jump of which it did not tell yet.
//! - One whose callback executes during the telling is in no queue. If the callback goes on, the timer is filed to be
//!   told: the base counts its tellings, and the number was another one when the callback began.
//! - A thread that starts one at the same time is ordered by the lock of the base: the timer is told, or the thread
//!   finds the new offsets (`a_clock_is_set_against_a_start_that_wants_to_know`).

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::clock::ClockSet;
use crate::exact::queues::{QUEUES, bits};
use crate::platform::Platform;
use crate::time::{Clock, Deadline};
use crate::trace::{Event, Placement, StartMode, TimerId};

impl<P: Platform> Timers<P> {
    /// Tells the timers that `clocks` jumped (spec TIM-30).
    ///
    /// Every CPU on which a timer became due earlier than what is armed is kicked, the caller's own included (B66). A
    /// jump that makes timers due later costs one interrupt for nothing at most (spec TIM-32). Timers that [fire on a
    /// set](crate::hrtimer::Setup::fire_on_clock_set) are due by now, at every call (spec TIM-34).
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
        let told = self.tell_of_set(held, clocks);
        if !told && held.state.seen == held.state.evaluated {
            // The CPU has taken it into account already. That its copies are fresh would not be enough: the soft stage
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

    /// Files the timers that fire when one of `clocks` is set before all others; says whether there were any.
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
                if P::TRACE && fires {
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
