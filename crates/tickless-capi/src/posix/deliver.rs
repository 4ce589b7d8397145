//! The notifications of a timer: by a timer of the kernel, by new threads, or by a descriptor.
//!
//! The problem: a signal that a thread queues is no timer's signal. If the same ordinary signal is pending for another
//! timer, the kernel drops it. Its sender does not learn when it is delivered, so it cannot count overruns. And it
//! comes when its sender gets a CPU.
//!
//! The mechanism: the kernel's own timers have none of these defects, but each of their calls is a system call. So a
//! timer that sends signals gets a timer of the kernel once it is due within [`LEAD`], and the kernel does the rest: it
//! queues the signal in the interrupt, once until it is delivered, and counts the overruns at the delivery. Timers that
//! are set again or disarmed before that cost the kernel nothing. Threads and descriptors are the service's, which
//! notifies of all expirations that are over, counted by arithmetic.
//!
//! Limits: the kernel refuses timers beyond the limit of queued signals (`RLIMIT_SIGPENDING`). The service then frees
//! those that have nothing to send, as far as it can tell, and tries again every [`RETRY`].

use std::sync::atomic::Ordering;

use tickless::hrtimer::Clock;

use crate::clock::shown_by_kernel;
use crate::errno::Errno;
use crate::posix::arm::{Arm, NEVER, Version};
use crate::posix::notify;
use crate::posix::system::{self, SignalTimer, Target};
use crate::posix::table::{Delivery, How, TimerSlot, tagged};

/// The time, in nanoseconds, before its expiration at which a timer that sends a signal gets a timer of the kernel: as
/// long as the service may wait for a CPU without making a signal late.
pub(super) const LEAD: u64 = 5_000_000;

/// The time, in nanoseconds, after which the service tries again what the system refused.
pub(super) const RETRY: u64 = 5_000_000;

/// The next call of [`serve`] that a slot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The slot needs no call.
    Done,
    /// The slot needs a call at this time.
    At(Clock, u64),
    /// The system refused a timer of the kernel or a thread.
    Refused(Clock),
}

/// Returns true if a timer that sends a signal needs a timer of the kernel now.
pub(super) fn is_near(arm: &Arm) -> bool {
    arm.start != NEVER && arm.start <= shown_by_kernel(arm.clock).saturating_add(LEAD)
}

/// Returns the first call that a slot with this new record needs.
pub(super) fn first(slot: &TimerSlot, arm: &Arm) -> Next {
    let lead = match slot.how() {
        How::Nothing => return Next::Done,
        How::Signal => LEAD,
        How::Thread | How::Descriptor => 0,
    };
    if arm.start == NEVER {
        return Next::Done;
    }
    Next::At(arm.clock, arm.start.saturating_sub(lead))
}

/// Ends the notifications of former records, and hands the current record over to the kernel if it is near. The caller
/// blocks all signals.
pub(super) fn settle(slot: &TimerSlot) -> Next {
    enter(slot, |delivery, version, arm| {
        if slot.how() == How::Signal {
            delivery.hand_over(slot, version, arm)
        } else {
            first(slot, arm)
        }
    })
}

/// Notifies of the expirations that are over, or hands the record over to the kernel. The service calls it.
pub(super) fn serve(slot: &TimerSlot) -> Next {
    enter(slot, |delivery, version, arm| match slot.how() {
        How::Nothing => Next::Done,
        How::Signal => delivery.hand_over(slot, version, arm),
        How::Thread | How::Descriptor => delivery.expire(slot, version, arm),
    })
}

fn enter(slot: &TimerSlot, call: impl FnOnce(&mut Delivery, Version, &Arm) -> Next) -> Next {
    slot.handshake.enter(|delivery| {
        let (version, arm) = slot.arms.load();
        let is_former = delivery.begun.is_some_and(|begun| begun != version);
        if is_former && slot.how() != How::Signal {
            if slot.how() == How::Descriptor {
                system::drain(slot.descriptor());
            }
            delivery.begun = None;
            delivery.counted = 0;
        }
        let next = call(delivery, version, &arm);
        // Threads that were started are none that could be taken back.
        (next, delivery.begun.is_some() && slot.how() != How::Thread)
    })
}

/// Frees what the notifications of a deleted timer need. The caller blocks all signals.
pub(super) fn end(slot: &TimerSlot) {
    slot.handshake.enter(|delivery| {
        delivery.forget(slot);
        *delivery = Delivery::default();
        // Relaxed: those that use it have the handshake.
        let attributes = slot.attributes.swap(0, Ordering::Relaxed);
        // SAFETY: taken out, so for the first and last time.
        unsafe { notify::free(attributes) };
        if slot.descriptor() >= 0 {
            system::close(slot.descriptor());
        }
        ((), false)
    });
}

/// Frees the timer of the kernel if it has nothing to send. The service calls it if the system refuses another.
pub(super) fn reclaim(slot: &TimerSlot) {
    // Relaxed: a guess.
    if slot.kernel.load(Ordering::Relaxed) < 0 {
        return;
    }
    slot.handshake.enter(|delivery| {
        if delivery.begun.is_none() || delivery.is_spent(slot) {
            delivery.forget(slot);
        }
        ((), delivery.begun.is_some())
    });
}

impl Delivery {
    /// Arms the timer of the kernel if the record is near, and disarms it if not. Makes it if there is none.
    fn hand_over(&mut self, slot: &TimerSlot, version: Version, arm: &Arm) -> Next {
        if self.begun == Some(version) {
            return Next::Done;
        }
        if !is_near(arm) {
            if self.begun.take().is_some()
                && let Some(timer) = &self.timer
            {
                timer.set(0, 0);
            }
            return first(slot, arm);
        }
        if self
            .timer
            .as_ref()
            .is_none_or(|timer| timer.clock() != arm.clock)
        {
            self.forget(slot);
            match SignalTimer::new(arm.clock, &slot.signal()) {
                Ok(timer) => {
                    // Relaxed: a handler that asks for the overrun comes after the signal.
                    slot.kernel.store(timer.id(), Ordering::Relaxed);
                    self.timer = Some(timer);
                }
                // The thread that gets the signal has ended.
                Err(Errno::INVAL) => return Next::Done,
                Err(_) => return Next::Refused(arm.clock),
            }
        }
        if let Some(timer) = &self.timer {
            timer.set(arm.start, arm.interval);
            self.begun = Some(version);
        }
        Next::Done
    }

    /// Deletes the timer of the kernel.
    fn forget(&mut self, slot: &TimerSlot) {
        // Relaxed: a caller that reads it before gets an answer of the timer that is being deleted.
        slot.kernel.store(-1, Ordering::Relaxed);
        self.begun = None;
        self.timer = None;
    }

    /// Returns true if the timer of the kernel has expired for the last time and its signal is not pending.
    fn is_spent(&self, slot: &TimerSlot) -> bool {
        let signal = slot.signal();
        // What is pending for another thread cannot be asked for; this thread blocks all signals.
        signal.target == Target::Process
            && self.timer.as_ref().is_some_and(|timer| !timer.is_armed())
            && !system::is_pending_here(signal.number)
    }

    /// Sends one notification for all expirations since the last.
    fn expire(&mut self, slot: &TimerSlot, version: Version, arm: &Arm) -> Next {
        let now = shown_by_kernel(arm.clock);
        let owed = arm.expirations(now).saturating_sub(self.counted);
        if owed > 0 {
            // Relaxed: the function of a thread reads it, which starts after this.
            slot.overrun
                .store(tagged(owed - 1, version), Ordering::Relaxed);
            if slot.how() == How::Descriptor {
                system::add(slot.descriptor(), owed);
            // SAFETY: both are of the settings of one timer, which `end` frees in the handshake.
            } else if !unsafe { notify::start(slot.function(), slot.value(), slot.attributes()) } {
                return Next::Refused(arm.clock);
            }
            self.begun = Some(version);
            self.counted = self.counted.saturating_add(owed);
        }
        arm.next(now)
            .map_or(Next::Done, |next| Next::At(arm.clock, next))
    }
}
