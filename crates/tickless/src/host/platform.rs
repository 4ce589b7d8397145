//! The host's implementation of the core's [`Platform`].

use std::task::Waker;

use tickless_core::base::CpuBase;
use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::event::{DeviceWrite, InPast};
#[cfg(feature = "tracepoints")]
use tickless_core::hierarchy::Step;
use tickless_core::platform::{CpuId, Platform, Port, Recent, ThisCpu, Waiting};
use tickless_core::time::{Instant, Span};
#[cfg(feature = "flight-recorder")]
use tickless_core::trace::Event;
use tickless_link::bias::BiasedLock;

use super::barrier::System;
use super::clock::CLOCK;
use super::process::{Host, TURN_BUDGET};
#[cfg(feature = "flight-recorder")]
use super::recording;
use super::registry::{self, EXPIRY_THREAD};
use super::remote::housekeeping;
use super::thread::{Local, Thread, ThreadBase, core_now_lower, core_now_upper, with_thread};
#[cfg(feature = "flight-recorder")]
use super::tick::TICK;
use super::{device, lifecycle, os};

impl Port for Host {
    type Lock = BiasedLock<System>;
    type ExpiryLock = BiasedLock<System>;
    type Local = Local;

    #[inline]
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        with_thread(|thread| {
            let base = lifecycle::enter(thread)?;
            Some(ThisCpu {
                base,
                token: thread.token(),
            })
        })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        registry::base(cpu)
    }

    fn now(&self) -> Instant {
        core_now_lower()
    }

    #[inline]
    fn write_device(&self, base: &ThreadBase, write: DeviceWrite) -> Result<(), InPast> {
        if let DeviceWrite::Absolute(when) = write {
            device::write(base, when);
        }
        Ok(())
    }

    fn kick(&self, base: &ThreadBase) {
        device::kick(base);
    }
}

/// Returns the base of the executing thread, if the thread has one, and the time. `None` on the base of a virtual
/// clock, because no trace shows its timers.
#[cfg(feature = "flight-recorder")]
fn executing() -> Option<(Option<&'static ThreadBase>, Instant)> {
    with_thread(|thread| {
        let is_virtual = thread.virtual_base_now().is_some();
        (!is_virtual).then(|| (thread.base(), core_now_lower()))
    })
}

/// Reserves the number of an expiry; false if the expiry is not traced.
#[cfg(feature = "flight-recorder")]
#[cold]
#[inline(never)]
fn reserve() -> bool {
    executing()
        .map(|(_, time)| recording::reserve(time))
        .is_some()
}

/// Records an event of the executing thread, if a file has lines for such events.
#[cfg(feature = "flight-recorder")]
#[cold]
#[inline(never)]
pub(super) fn record(event: Event) {
    if !event.has_line() {
        return;
    }
    if let Some((base, time)) = executing() {
        recording::watch(time, &event, TICK);
        put(base, time, event);
    }
}

/// Puts an event of the thread on `base` into the ring of the base; an event without a base into the ring of the expiry
/// thread.
#[cfg(feature = "flight-recorder")]
fn put(base: Option<&'static ThreadBase>, time: Instant, event: Event) {
    let cpu = base.map(|base| base.cpu().0);
    if let Some(base) = base.or_else(|| registry::base(EXPIRY_THREAD)) {
        base.local().ring.take(cpu, time, event);
    }
}

/// Records that a recording begins while a CPU takes part in a hierarchy, with what the CPU promised. The CPU's node is
/// locked.
#[cfg(feature = "tracepoints")]
pub(crate) fn record_member(tree: u32, cpu: CpuId, wakeup: Instant) {
    let (is_available, time) = (true, wakeup);
    for step in [
        Step::Available { cpu, is_available },
        Step::Wakeup { cpu, time },
    ] {
        // Of the machine itself: the thread that begins the recording does nothing in the hierarchy.
        put(None, core_now_lower(), Event::Hierarchy { tree, step });
    }
}

impl Platform for Host {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = TURN_BUDGET;
    const TRACE: bool = cfg!(feature = "flight-recorder");

    #[inline]
    fn this_cpu_if_known(&self) -> Option<ThisCpu<'_, Self>> {
        with_thread(|thread| {
            Some(ThisCpu {
                base: thread.base()?,
                token: thread.token(),
            })
        })
    }

    #[inline]
    fn now_upper(&self) -> Instant {
        core_now_upper()
    }

    /// Returns the number of the clock's line, which is the same for thousands of timers.
    #[inline]
    fn moment(&self) -> Option<u64> {
        CLOCK.moment()
    }

    #[inline]
    fn recent(&self) -> Recent {
        if let Some(now) = with_thread(Thread::virtual_base_now) {
            return Recent { moment: None, now };
        }
        // Before the line itself: should another one come in between, it is asked for again, under its own number.
        let line = CLOCK.line_number();
        match CLOCK.recently() {
            Some(began) => Recent {
                moment: Some(line),
                now: began,
            },
            None => Recent {
                moment: None,
                // When the clock was compared with the kernel's last: for the timer that is being started, or a little
                // before.
                now: with_thread(|thread| thread.reading.last()),
            },
        }
    }

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        (core_now_lower(), self.wall.changed_since(seen))
    }

    fn raise_soft(&self, base: &ThreadBase) {
        base.local().device.raise_soft();
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        self.guard(callback);
    }

    #[inline]
    fn wake(&self, waker: Waker) {
        self.guard(|| waker.wake());
    }

    /// Decides by the core's table whether a thread keeps the timers that it starts. A thread that executes is awake,
    /// so it keeps them unless it is isolated. An isolated thread keeps them unless its settings say otherwise, which
    /// costs one load. While [migration](crate::worker::set_migration) is off, all threads keep them, as spec,
    /// case 3, requires for a timer that is on this thread. So the core does not read the switch, which would cost
    /// another load for each start.
    #[inline]
    fn keep_local(&self, this: &ThreadBase) -> bool {
        housekeeping::housekeeper(this).is_none()
    }

    #[inline]
    fn try_keep_local_fast(&self, this: &ThreadBase) -> bool {
        housekeeping::has_none(this)
    }

    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        let Some(this) = this else {
            return EXPIRY_THREAD;
        };
        let picked = registry::base(this)
            .filter(|_| !pinned)
            .and_then(housekeeping::housekeeper);
        picked.unwrap_or(this)
    }

    #[inline]
    fn housekeeper(&self, base: &ThreadBase) -> Option<CpuId> {
        housekeeping::housekeeper(base)
    }

    #[inline]
    fn counts_lateness(&self) -> bool {
        Self::counts_lateness(self)
    }

    fn note_lateness(&self, base: &ThreadBase, late: Span) {
        base.local().lateness.note(late.as_nanos());
    }

    fn relax(&self, attempt: u32) {
        os::relax(attempt);
    }

    #[cfg(feature = "flight-recorder")]
    #[inline]
    fn is_traced(&self) -> bool {
        cfg!(feature = "tracepoints") && recording::is_on()
    }

    #[cfg(feature = "flight-recorder")]
    #[inline]
    fn is_expiry_traced(&self) -> bool {
        recording::is_expiry_on()
    }

    #[cfg(feature = "flight-recorder")]
    #[inline]
    fn traces_expiry(&self) -> bool {
        recording::is_expiry_on() && reserve()
    }

    #[cfg(feature = "flight-recorder")]
    #[cold]
    #[inline(never)]
    fn trace(&self, event: Event) {
        record(event);
    }
}
