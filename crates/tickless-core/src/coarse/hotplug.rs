//! The wheels of CPUs that go online or offline (spec C-5.2 step 1, C-5.3 step 3).

use tickless_link::sync::Ordering;

use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::platform::Platform;
use crate::slots::geometry::Tick;
use crate::trace::{Event, TimerId};
use crate::wheel::cpu_wheel::CpuWheel;
use crate::wheel::family::WheelKind;

impl<P: Platform> Timers<P> {
    /// Prepares the wheels of `cpu`, which is about to go [online](Self::cpu_online): sets their clocks to `now`, and
    /// makes sure that the wheels hold no timer from an earlier online period (R09).
    ///
    /// A wheel that was not prepared works too: its first timer prepares the wheel.
    ///
    /// # Interrupt context
    ///
    /// On any CPU, before `cpu` takes part.
    pub fn wheel_online(&self, cpu: CpuId, now: Tick) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        for kind in WheelKind::ALL {
            held.state.wheels[kind as usize].restart(now);
            held.publish_next_expiry(kind);
        }
        // Relaxed: under the lock, as all that ask.
        held.base.wheel_idle.store(false, Ordering::Relaxed);
    }

    /// Moves the coarse timers of `cpu`, which went [offline](Self::cpu_offline), to the executing CPU or to another
    /// online CPU (R08), pinned timers included. Kicks the receiving CPU if it sleeps.
    ///
    /// Between the moment at which `cpu` goes offline and this call the timers stay on `cpu` and do not fire. This call
    /// waits until no pass of `cpu` runs any more. The host serialises the calls. Two bases are locked at once only
    /// here and when a CPU goes offline, the base of the offline CPU first.
    ///
    /// # Panics
    ///
    /// When `cpu` is online, or when the host names `cpu` as the CPU that takes over.
    ///
    /// # Interrupt context
    ///
    /// Not callable from a callback of a coarse timer of `cpu`, because the call would wait for the end of that
    /// callback.
    pub fn wheel_offline(&self, cpu: CpuId, now: Tick) {
        let Some(base) = self.platform.base(cpu) else {
            return;
        };
        let me = self.platform.this_cpu();
        assert!(
            !base.is_online(),
            "a CPU that takes part keeps its coarse timers"
        );
        let target = match me {
            Some(me) if me.base.is_online() => me.base,
            _ => self.target(self.platform.pick_target(None, false)),
        };
        assert!(
            target.cpu() != cpu,
            "a CPU that left cannot take over its own timers"
        );
        let mut from = BaseGuard::lock(self, base, me);
        let mut attempt = 0;
        while from.state.wheels.iter().any(CpuWheel::has_pass) {
            drop(from);
            self.platform.relax(attempt);
            attempt += 1;
            from = BaseGuard::lock(self, base, me);
        }
        let mut to = BaseGuard::lock(self, target, me);
        let mut is_first = false;
        for kind in WheelKind::ALL {
            is_first |=
                self.take_over(&mut from, &mut to, kind, now) && kind != WheelKind::Deferrable;
            from.publish_next_expiry(kind);
            to.publish_next_expiry(kind);
        }
        // Relaxed: under the lock, as all that ask.
        base.wheel_idle.store(false, Ordering::Relaxed);
        let sleeps = target.is_wheel_idle();
        drop(to);
        drop(from);
        let is_own = me.is_some_and(|me| core::ptr::eq(me.base, target));
        if is_first && sleeps && !is_own {
            self.kick(target, me);
        }
    }

    /// Moves all timers of a wheel to another base. Returns true if one of the timers is now the first of its new
    /// wheel.
    fn take_over(
        &self,
        from: &mut BaseGuard<'_, P>,
        to: &mut BaseGuard<'_, P>,
        kind: WheelKind,
        now: Tick,
    ) -> bool {
        let (from_cpu, to_cpu) = (from.base.cpu(), to.base.cpu());
        let left = &mut from.state.wheels[kind as usize];
        let state = &mut *to.state;
        let wheel = &mut state.wheels[kind as usize];
        // Or short timeouts would go into coarse slots (R08).
        wheel.pending_map.forward(now);
        let mut is_first = false;
        while left.take_any(|bucketed| {
            let entry = bucketed.entry();
            let (timer, code) = (TimerId(entry.address()), entry.code_address());
            let expiry = entry.shared().get();
            let (transit, _left) = bucketed.depart();
            let place = wheel.pending_map.place(expiry);
            wheel.buckets.admit(transit, place.slot.number(), |()| ());
            is_first |= wheel.note_enqueued(place).is_first;
            state.stats.arrived += 1;
            if self.platform.is_traced() {
                self.platform.trace(Event::Move {
                    timer,
                    from: from_cpu,
                    to: to_cpu,
                });
                self.platform.trace(Event::WheelArm {
                    cpu: to_cpu,
                    kind,
                    timer,
                    code,
                    now,
                    expiry,
                    due: place.due,
                    was_armed: true,
                });
            }
        }) {}
        left.restart(now);
        is_first
    }
}
