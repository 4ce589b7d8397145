//! The rules for writing the device (spec X-4).

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::event::flush::Flush;
use crate::event::{self, Force};
use crate::platform::Platform;
use crate::time::Instant;
use crate::trace::Event;

/// A timer that became the first of its queue, for [`BaseGuard::program_if_earlier`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    /// Expiry of the timer on the monotonic clock, not negative.
    pub(crate) event: Instant,
    /// The address of the timer.
    pub(crate) timer: usize,
    /// Slack of the timer in nanoseconds, as far as the caller knows it.
    pub(crate) slack: u32,
    pub(crate) soft: bool,
}

impl<P: Platform> BaseGuard<'_, P> {
    /// Arms the device for a timer that became the first of its queue, if no earlier event is armed (spec ).
    ///
    /// `may_write` is true if the caller executes for this CPU, because a remote device cannot be written.
    #[inline]
    pub(crate) fn program_if_earlier(&mut self, first: First, may_write: bool) {
        debug_assert!(first.event >= Instant::ZERO);
        if first.soft {
            if self.state.soft_pending || first.event >= self.state.soft_next {
                return;
            }
            self.state.soft_first_hint = first.timer;
            self.state.soft_next = first.event;
        }
        // Equal is not earlier: no write (spec REARM-2).
        if !may_write || first.event >= self.base.armed() {
            return;
        }
        // For a start that was asked already; here it is the soft stage that asks (spec SOFT-5).
        if self.leave_to_rearm() {
            return;
        }
        self.state.first_hint = first.timer;
        self.state.first_slack = first.slack;
        self.write_device(first.event, false);
    }

    /// Finds the next event and arms the device for it, earlier or later (spec ).
    #[inline]
    pub(crate) fn reevaluate(&mut self, skip_equal: bool) {
        let next = self.evaluate();
        if skip_equal && next == self.base.armed() {
            return;
        }
        self.write_device(next, false);
    }

    /// Arms the device. During a hang the device must not be written, so only the armed value is updated (spec IRQ-4).
    ///
    /// Nothing counts as armed on a CPU that is offline (INV-4).
    #[inline]
    fn write_device(&mut self, next: Instant, deferred: bool) {
        if !self.base.is_online() {
            return;
        }
        self.set_armed(next);
        if self.state.hang {
            return;
        }
        self.program(next, deferred);
    }

    #[inline]
    fn program(&mut self, next: Instant, deferred: bool) {
        let cpu = self.base.cpu();
        if self.platform().is_traced() {
            self.platform().trace(Event::Rearm {
                cpu,
                next,
                deferred,
            });
        }
        let driver = self.device();
        let state = &mut *self.state;
        state.stats.device_writes += 1;
        let late_before = state.device.late();
        let programmed = event::program(&mut state.device, &driver, next, Force::Yes);
        let is_late = state.device.late() != late_before;
        if is_late {
            self.note_written_late(next);
        }
        if programmed.is_err() {
            // Forced, so the only failure is a device that refuses everything (B27), and the caller could not do
            // anything about it. Nothing counts as armed then, so that the next timer that becomes first of a queue, or
            // goes, tries again.
            self.set_armed(Instant::FOREVER);
        }
    }

    #[cold]
    fn note_written_late(&mut self, event: Instant) {
        self.state.stats.written_late += 1;
        if self.platform().is_traced() {
            self.platform().trace(Event::WrittenLate {
                cpu: self.base.cpu(),
                event,
            });
        }
    }

    /// Ends an interrupt: writes the device, or leaves that to a flush point (spec ).
    pub(crate) fn defer_or_rearm(&mut self, next: Instant) {
        if P::DEFERRED_REARM {
            // The evaluation that gave `next` saw every change so far.
            self.state.deferred = DeferredRearm::OwedFresh(next);
        } else {
            self.rearm(next, false);
        }
    }

    /// Carries out an owed rearm for the evaluated event `next`: updates the state and the armed value, then writes the
    /// device (spec, REARM-15).
    fn rearm(&mut self, next: Instant, deferred: bool) {
        self.state.deferred = DeferredRearm::Clear;
        if !self.base.is_online() {
            return;
        }
        self.set_armed(next);
        let device = if self.state.hang {
            // Breathing space: the queues are overdue, but the CPU has to do something else too.
            self.platform().now().saturating_add(self.backoff())
        } else {
            next
        };
        self.program(device, deferred);
    }

    /// Carries out an owed rearm. Returns `false` if no rearm is owed.
    fn flush(&mut self, reason: Flush) -> bool {
        let (next, stale) = match self.state.deferred {
            DeferredRearm::Clear | DeferredRearm::Running => return false,
            DeferredRearm::OwedFresh(next) => (next, false),
            DeferredRearm::OwedStale => {
                self.refresh_offsets();
                (self.evaluate(), true)
            }
        };
        self.state.stats.flushes[reason as usize] += 1;
        self.state.stats.stale_flushes += u64::from(stale);
        if self.platform().is_traced() {
            let cpu = self.base.cpu();
            self.platform().trace(Event::Flush { cpu, reason, stale });
        }
        self.rearm(next, true);
        true
    }
}

impl<P: Platform> Timers<P> {
    /// Carries out the deferred rearm of the last interrupt of `cpu`, if a rearm is owed (spec ).
    ///
    /// # Interrupt context
    ///
    /// MUST be called with timer delivery to `cpu` masked (B6), by `cpu` or by a thread that executes for it.
    ///
    /// # Cost
    ///
    /// One lock. A host that wants to save the lock when no rearm is deferred keeps a flag of its own.
    pub fn flush_deferred(&self, cpu: CpuId, reason: Flush) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        held.flush(reason);
    }

    /// Checks the queues of `cpu` and programs its device in any case (spec TIM-31).
    ///
    /// A [kick](crate::platform::Port::kick) requests this call. A CPU that resumes calls it too, because its device
    /// lost its programming.
    pub fn retrigger(&self, cpu: CpuId) {
        let Some(base) = self.platform.base(cpu) else {
            return;
        };
        base.begin_kick();
        let mut held = BaseGuard::lock(self, base, self.platform.this_cpu());
        if !base.is_online() {
            return;
        }
        held.state.stats.kicks += 1;
        held.refresh_offsets();
        if held.leave_to_rearm() {
            return;
        }
        held.reevaluate(false);
    }

    /// Programs the device of `cpu` for its first timer, if the device may be programmed for an earlier time. A CPU
    /// calls the function before it sleeps until its first timer. Returns the time for which the device is programmed.
    ///
    /// The push-out or cancel of a [`Sleeper`](crate::hrtimer::Sleeper) does not write the device, because nearly all
    /// sleepers are pushed out or cancelled. The same holds for a [lazy](crate::hrtimer::Setup::lazy) timer. Without
    /// this call the device fires once in vain (spec LAZY-7).
    ///
    /// While a rearm is deferred the device is not programmed, and the flush point finds the exact value instead.
    ///
    /// # Interrupt context
    ///
    /// As [`flush_deferred`](Timers::flush_deferred): with timer delivery to `cpu` masked.
    pub fn settle_armed(&self, cpu: CpuId) -> Instant {
        let Some(mut held) = self.lock(cpu) else {
            return Instant::FOREVER;
        };
        let early = held.state.armed_early;
        match held.state.deferred {
            DeferredRearm::Clear if early => {
                held.refresh_offsets();
                held.reevaluate(true);
            }
            // What went since the interrupt did not say so, because the flush may be early.
            DeferredRearm::OwedFresh(_) if early => held.state.deferred = DeferredRearm::OwedStale,
            _ => {}
        }
        held.base.armed()
    }
}
