//! Timers that belong to a machine, and are dropped with it.

use tickless_conformance::owned::{self, CoarseCall, Keeper};
use tickless_core::Platform;
use tickless_core::hrtimer::Start;
use tickless_core::time::{ClockId, Monotonic};

use crate::machine::host::Host;
use crate::model::current_cpu;

pub(crate) type Coarse<F = CoarseCall> = owned::Coarse<Host, F>;

pub(crate) type Exact<C = Monotonic> = owned::Exact<Host, C>;

impl Keeper for Host {
    /// Dequeues a timer that is dropped with its machine, which costs nothing.
    fn end_timer(&self, end: impl FnOnce()) {
        current_cpu::looking(end);
    }

    fn forget<T>(&self, timer: &T) {
        if let Some(recorder) = &self.recorder {
            recorder.forget(timer);
        }
    }
}

/// The operations on an exact timer, each of which costs what it costs on the machine.
pub(crate) trait Operations<C: ClockId> {
    /// Starts a timer of a program. The timer may move to another CPU if the policy of the machine allows that.
    fn start_movable(&self, start: Start<C>);

    /// Starts a timer that stays with the CPU that executes.
    fn start(&self, start: Start<C>);

    /// Notes that the device of the CPU on which the timer is queued may fire once without a due timer: a CPU that
    /// takes a timer away from another CPU does not notify that CPU (spec CAN-2).
    fn may_leave_armed(&self);

    fn cancel(&self);
}

impl<C: ClockId> Operations<C> for Exact<C> {
    fn start_movable(&self, start: Start<C>) {
        let timers = self.timers();
        if !timers.platform().migration_enabled() {
            return self.start(start);
        }
        self.may_leave_armed();
        let rearm = timers.platform().rearm;
        current_cpu::start(|| {
            rearm.before_start(timers, self.pinned());
            let _ = self.pinned().start(timers, start);
        });
        let there = current_cpu::looking(|| self.pinned().cpu(timers));
        let is_pushed = there.is_some_and(|there| there.0 != current_cpu::cpu());
        let mut checker = timers.platform().checker.borrow_mut();
        checker.counts.exact_pushed += u64::from(is_pushed);
    }

    fn start(&self, start: Start<C>) {
        let timers = self.timers();
        let rearm = timers.platform().rearm;
        current_cpu::start(|| {
            rearm.before_start(timers, self.pinned());
            let _ = self.pinned().start(timers, start.pinned());
        });
    }

    fn may_leave_armed(&self) {
        let from = current_cpu::looking(|| self.pinned().cpu(self.timers()));
        if let Some(from) = from.filter(|from| from.0 != current_cpu::cpu()) {
            let local = self.timers().platform().local(from.0);
            local.fault.is_left_armed.set(true);
        }
    }

    fn cancel(&self) {
        if self.timers().platform().migration_enabled() {
            self.may_leave_armed();
        }
        let _was = self.pinned().try_cancel(self.timers());
    }
}
