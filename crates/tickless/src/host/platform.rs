//! What the host provides to the core.

use std::task::Waker;

use tickless_core::base::CpuBase;
use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::event::{DeviceWrite, InPast};
use tickless_core::platform::{CpuId, Locality, Platform, ThisCpu, Waiting};
use tickless_core::time::Instant;
use tickless_link::bias::BiasedLock;

use super::barrier::Linux;
use super::process::{Host, TURN_BUDGET};
use super::registry::{self, EXPIRY_THREAD};
use super::remote::housekeeping;
use super::thread::{Local, ThreadBase, at_earliest, at_latest, with_thread};
use super::{device, lifecycle, os};

impl Platform for Host {
    type Lock = BiasedLock<Linux>;
    type ExpiryLock = BiasedLock<Linux>;
    type Local = Local;
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = TURN_BUDGET;

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
    fn this_cpu_if_known(&self) -> Option<ThisCpu<'_, Self>> {
        with_thread(|thread| {
            Some(ThisCpu {
                base: thread.base()?,
                token: thread.token(),
            })
        })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        registry::base(cpu)
    }

    fn now(&self) -> Instant {
        at_earliest()
    }

    #[inline]
    fn now_at_latest(&self) -> Instant {
        at_latest()
    }

    /// When the clock was compared with the kernel's: for the timer that is being started, or a little before.
    #[inline]
    fn recent_now(&self) -> Instant {
        with_thread(|thread| thread.reading.last())
    }

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        (at_earliest(), self.wall.changed_since(seen))
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

    fn raise_soft(&self, base: &ThreadBase) {
        base.local().device.raise_soft();
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        self.guard(callback);
    }

    fn wake(&self, waker: Waker) {
        self.guard(|| waker.wake());
    }

    /// A thread's timers are queued where it runs, always: starting one must be cheap, and which thread expires them is
    /// another question.
    #[inline]
    fn keep_local(&self, _question: Locality) -> bool {
        true
    }

    #[inline]
    fn pick_target(&self, this: Option<CpuId>, _pinned: bool) -> CpuId {
        this.unwrap_or(EXPIRY_THREAD)
    }

    #[inline]
    fn housekeeper(&self, base: &ThreadBase) -> Option<CpuId> {
        housekeeping::housekeeper(base)
    }

    #[cfg(feature = "internals")]
    #[inline]
    fn updates_in_place(&self) -> bool {
        Self::updates_in_place(self)
    }

    fn relax(&self, attempt: u32) {
        os::relax(attempt);
    }
}
