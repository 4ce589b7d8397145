//! Queries about coarse timers, and the calls of a CPU that goes to sleep and wakes (spec C-3.2, C-3.3).

use core::pin::Pin;

use tickless_link::entry::Owner;
use tickless_link::sync::Ordering;

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::coarse::timer::WheelTimer;
use crate::cpu::CpuId;
use crate::platform::Platform;
use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::wheel::family::{Timeout, WheelKind};
use crate::wheel::idle::NextDue;

impl<F> WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    /// Returns true if the caller is inside the callback of `timer`, where [`delete_sync`](Self::delete_sync) and
    /// [`shutdown_sync`](Self::shutdown_sync) must not be called.
    pub fn is_own_callback<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> bool {
        timers.is_executing(self.erase(), timers.platform.this_cpu())
    }

    /// Returns the CPU and the wheel on which `timer` is or last was; `None` if it never was on a wheel. Another CPU
    /// may have moved the timer since.
    pub fn wheel<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<(CpuId, WheelKind)> {
        let Owner::Queue(id) = self.erase().owner() else {
            return None;
        };
        let base = timers.owning_base(id)?;
        Some((base.cpu(), base.wheel(id)?))
    }
}

impl<P: Platform> Timers<P> {
    /// Returns the exact ticks at which the wheels of `cpu` are first due. The call is meant for a forecast: it never
    /// waits, and wakes no CPU.
    ///
    /// # Cost
    ///
    /// One lock, and a search of up to nine words for each wheel whose first timer was removed since the last search.
    pub fn wheel_next(&self, cpu: CpuId, now: Tick) -> NextDue {
        let Some(mut held) = self.lock(cpu) else {
            return NextDue::NOTHING;
        };
        self.settle(&mut held, now)
    }

    /// Notes that `cpu` sleeps until the first of its wheels is due, if `decide` returns so. A thread on another CPU
    /// that then arms an earlier local timer on `cpu` kicks `cpu`. Returns the result of `decide`.
    ///
    /// `decide` receives the first due ticks of the wheels, and is called with the base locked. So no other thread arms
    /// a timer between the decision and the note that `cpu` sleeps (II1). `decide` MUST NOT call back into the core for
    /// this CPU, and MUST NOT call foreign code. The clocks of both wheels are at `now` afterwards, so that timers
    /// armed later get fine slots (spec C-1.4).
    ///
    /// # Interrupt context
    ///
    /// Called on `cpu`, with timer delivery masked, each time before it sleeps.
    pub fn wheel_enter_idle(
        &self,
        cpu: CpuId,
        now: Tick,
        decide: impl FnOnce(NextDue) -> bool,
    ) -> bool {
        let Some(mut held) = self.lock(cpu) else {
            return false;
        };
        let next = self.settle(&mut held, now);
        let sleeps = decide(next);
        for kind in [WheelKind::Local, WheelKind::Global] {
            held.state.wheels[kind as usize].pending_map.forward(now);
            held.publish_next_expiry(kind);
        }
        if sleeps {
            // Relaxed: read under the lock, which is held.
            held.base.wheel_idle.store(true, Ordering::Relaxed);
        }
        sleeps
    }

    /// Notes that `cpu` is awake. Called on `cpu`.
    ///
    /// # Cost
    ///
    /// One store, no lock.
    #[inline]
    pub fn wheel_leave_idle(&self, cpu: CpuId) {
        if let Some(base) = self.platform.base(cpu) {
            // Relaxed, and without the lock: a thread that reads the old value kicks a CPU that is awake already (spec
            // C-2.4).
            base.wheel_idle.store(false, Ordering::Relaxed);
        }
    }

    /// Returns true if `cpu` is noted as sleeping until the first of its wheels is due.
    pub fn wheel_sleeps(&self, cpu: CpuId) -> bool {
        self.platform
            .base(cpu)
            .is_some_and(|base| base.is_wheel_idle())
    }

    fn settle(&self, held: &mut BaseGuard<'_, P>, now: Tick) -> NextDue {
        let mut next = NextDue {
            local: held.state.wheels[WheelKind::Local as usize].settled(now),
            global: None,
        };
        next.global = held.state.wheels[WheelKind::Global as usize].settled(now);
        for kind in [WheelKind::Local, WheelKind::Global] {
            held.publish_next_expiry(kind);
        }
        next
    }

    /// Returns the tick at which the local or global wheel of `cpu` is first due, or an earlier one; `None` if both are
    /// empty.
    ///
    /// Without the lock the result may be wrong, as the result of [`wheel_is_due`](Self::wheel_is_due) may be. The
    /// result is exact for a thread that holds the base of `cpu`.
    ///
    /// # Cost
    ///
    /// Two loads, no lock.
    #[inline]
    pub fn wheel_first_due(&self, cpu: CpuId) -> Option<Tick> {
        self.platform.base(cpu)?.wheel_first_due()
    }

    /// Returns the number of coarse timers queued on `cpu`.
    pub fn wheel_pending(&self, cpu: CpuId) -> usize {
        self.lock(cpu).map_or(0, |held| {
            let wheels = held.state.wheels.iter();
            wheels.map(|wheel| wheel.buckets.len()).sum()
        })
    }
}
