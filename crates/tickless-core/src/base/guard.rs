//! The base of a CPU while a thread holds its lock.

use core::fmt;

use tickless_link::lock::{Guard, RawLock};
use tickless_link::sync::Ordering;

use crate::base::cpu_base::CpuBase;
use crate::base::state::{BaseState, DeferredRearm};
use crate::base::timers::Timers;
use crate::clock::CounterId;
use crate::cpu::CpuId;
use crate::event::{DeviceState, DeviceWrite, EventDriver, InPast};
use crate::exact::queues::{HARD, SOFT};
use crate::platform::{Platform, ThisCpu};
use crate::time::convert::Cycles;
use crate::time::{Deadline, Instant, Span};
use crate::trace::Event;
use crate::wheel::family::WheelKind;

/// The longest backoff after a hang, an interrupt that gave up (spec IRQ-3).
pub(crate) const HANG_BACKOFF_MAX: Span = Span::from_millis(100);

/// The base of a CPU while its lock is held.
pub struct BaseGuard<'a, P: Platform> {
    pub(crate) timers: &'a Timers<P>,
    pub(crate) base: &'a CpuBase<P>,
    pub(crate) state: Guard<'a, P::Lock, BaseState>,
}

impl<'a, P: Platform> BaseGuard<'a, P> {
    /// Locks `base`. `me` is the executing CPU, which the lock of its own base may treat in a special way.
    #[inline]
    pub(crate) fn lock(
        timers: &'a Timers<P>,
        base: &'a CpuBase<P>,
        me: Option<ThisCpu<'_, P>>,
    ) -> Self {
        Self::lock_with(timers, base, Self::token(base, me))
    }

    /// Locks the executing CPU's own base as [`lock`](Self::lock) does.
    #[inline]
    pub(crate) fn lock_own(timers: &'a Timers<P>, me: ThisCpu<'a, P>) -> Self {
        Self::lock_with(timers, me.base, me.token)
    }

    /// Locks the base of another CPU as [`lock`](Self::lock) does.
    #[inline]
    pub(crate) fn lock_foreign(timers: &'a Timers<P>, base: &'a CpuBase<P>) -> Self {
        Self::lock_with(timers, base, None)
    }

    #[inline]
    fn lock_with(
        timers: &'a Timers<P>,
        base: &'a CpuBase<P>,
        token: Option<<P::Lock as RawLock>::Token>,
    ) -> Self {
        Self {
            timers,
            base,
            state: base.state.lock(token),
        }
    }

    /// Tries to lock the executing CPU's own base on the fast path, without waiting and without a call. Otherwise
    /// returns `None`.
    #[inline(always)]
    pub(crate) fn try_lock_fast(timers: &'a Timers<P>, me: ThisCpu<'a, P>) -> Option<Self> {
        Some(Self {
            timers,
            base: me.base,
            state: me.base.state.try_lock(me.token)?,
        })
    }

    /// Unlocks this base and then locks `target`: never both at once (spec LOC-3).
    pub(crate) fn move_to(&mut self, target: &'a CpuBase<P>, me: Option<ThisCpu<'_, P>>) {
        let token = Self::token(target, me);
        self.state.move_to(&target.state, token);
        self.base = target;
    }

    /// Returns the token by which the lock of `base` recognises its owner; `None` for a CPU that is not the owner.
    #[inline]
    fn token(base: &CpuBase<P>, me: Option<ThisCpu<'_, P>>) -> Option<<P::Lock as RawLock>::Token> {
        me.filter(|me| core::ptr::eq(me.base, base))
            .and_then(|me| me.token)
    }

    #[inline]
    pub(crate) fn platform(&self) -> &'a P {
        &self.timers.platform
    }

    #[inline]
    pub(crate) fn set_armed(&self, armed: Instant) {
        // Relaxed: see `CpuBase::armed`.
        self.base.armed.store(armed.as_nanos(), Ordering::Relaxed);
        // Of "never" it makes centuries from now, which never come either.
        let earliest = armed.as_nanos() - i64::from(self.state.first_slack);
        self.base.may_fire_from.store(earliest, Ordering::Relaxed);
    }

    /// Reads the clock, and copies the offsets if a clock was set since the last call.
    pub(crate) fn refresh_offsets(&mut self) -> Instant {
        let (now, changed) = self.platform().now_and_offsets(self.state.seen);
        if let Some((sequence, offsets)) = changed {
            self.state.adopt(sequence, &offsets);
        }
        now
    }

    /// Finds the next event of the device, and updates the hints and the time of the soft stage (spec ).
    ///
    /// Does not touch the armed value.
    #[inline]
    pub(crate) fn evaluate(&mut self) -> Instant {
        let state = &mut *self.state;
        state.stats.evaluations += 1;
        state.evaluated = state.seen;
        state.armed_early = false;
        let counted = state.counted();
        let overfull = state.far.cascade_next(&mut state.queues, counted, 0);
        let mut soft = Instant::FOREVER;
        let (hard, hard_hint) = state.queues.minimum(HARD);
        let hard = self.clamped(hard);
        if !self.state.soft_pending {
            let (first, hint) = self.state.queues.minimum(SOFT);
            soft = self.clamped(first);
            // Also when a hard timer is first: left stale, the soft stage would be late or raised for ever (spec Q-21,
            // B45).
            self.state.soft_next = soft;
            self.state.soft_first_hint = hint;
        }
        let state = &mut *self.state;
        let (first, hint) = if soft < hard {
            (soft, state.soft_first_hint)
        } else {
            (hard, hard_hint)
        };
        if overfull < first {
            state.first_hint = 0;
            state.first_slack = 0;
            return overfull;
        }
        state.first_hint = hint;
        let is_hard = hint == hard_hint;
        state.first_slack = if is_hard {
            state.queues.slack_of_first(HARD, hint)
        } else {
            0
        };
        first
    }

    /// Returns `event` as a time for which the device can be armed. An event before the beginning of the monotonic
    /// clock becomes this beginning (spec Q-22). Such an event is counted, because a program hardly intends it.
    #[inline]
    pub(crate) fn clamped(&mut self, event: Instant) -> Instant {
        if event < Instant::ZERO {
            self.note_clamped(event);
        }
        event.not_negative()
    }

    #[cold]
    fn note_clamped(&mut self, event: Instant) {
        self.state.stats.clamped += 1;
        if self.platform().is_traced() {
            self.platform().trace(Event::Clamped {
                cpu: self.base.cpu(),
                event,
            });
        }
    }

    /// Returns true if `deadline` is before the armed value. The deadline is on the monotonic clock, like the deadlines
    /// of all far timers.
    #[inline]
    pub(crate) fn is_before_armed(&self, deadline: Deadline) -> bool {
        deadline.as_nanos() < self.base.armed().as_nanos()
    }

    /// Notes a change of the queues while a rearm is owed (spec REARM-7). Returns true if a rearm is owed or the
    /// handler runs; then the caller must not touch the device.
    #[inline]
    pub(crate) fn leave_to_rearm(&mut self) -> bool {
        self.state.deferred != DeferredRearm::Clear && self.note_change()
    }

    #[cold]
    fn note_change(&mut self) -> bool {
        match self.state.deferred {
            DeferredRearm::Clear => false,
            // The handler evaluates at its end anyway (spec REARM-8).
            DeferredRearm::Running | DeferredRearm::OwedStale => true,
            DeferredRearm::OwedFresh(_) => {
                self.state.deferred = DeferredRearm::OwedStale;
                true
            }
        }
    }

    /// Returns the backoff after a hang: the longest hang so far, but at most the limit (spec IRQ-3).
    pub(crate) fn backoff(&self) -> Span {
        self.state.stats.max_hang.min(HANG_BACKOFF_MAX)
    }

    /// Publishes the time at which a wheel is first due, for readers without the lock.
    #[inline]
    pub(crate) fn publish_next_expiry(&self, kind: WheelKind) {
        let due = self.state.wheels[kind as usize].next_expiry();
        let published = &self.base.wheel_due[kind as usize];
        // Relaxed, both: the value stands alone. A thread that reads an old one that is too early looks for nothing;
        // one that reads one that is too late is awake and reads again a tick later, or was idle and is kicked (spec
        // C-2.4). The load is the writer's own last store, for all writers hold the lock: it saves writing a shared
        // line.
        if published.load(Ordering::Relaxed) != due {
            published.store(due, Ordering::Relaxed);
        }
    }
}

impl<'a, P: Platform> BaseGuard<'a, P> {
    /// Returns the device, with the interface that the event module requires.
    #[inline]
    pub(crate) fn device(&self) -> CpuDevice<'a, P> {
        CpuDevice {
            platform: self.platform(),
            base: self.base,
        }
    }

    pub(crate) fn set_device_state(&mut self, state: DeviceState) {
        let driver = self.device();
        self.state.device.set_state(&driver, state);
    }
}

/// The device of one CPU, with the interface that the event module requires.
pub(crate) struct CpuDevice<'a, P: Platform> {
    platform: &'a P,
    base: &'a CpuBase<P>,
}

impl<P: Platform> EventDriver for CpuDevice<'_, P> {
    #[inline]
    fn now(&self) -> Instant {
        self.platform.now()
    }
    #[inline]
    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.platform.cycles_at(counter, when)
    }
    #[inline]
    fn write(&self, write: DeviceWrite) -> Result<(), InPast> {
        self.platform.write_device(self.base, write)
    }
    #[inline]
    fn set_state(&self, state: DeviceState) {
        self.platform.set_device_state(self.base, state);
    }
}

impl<P: Platform> Timers<P> {
    /// Locks the base of `cpu`; returns `None` if this CPU never existed.
    #[inline]
    pub(crate) fn lock(&self, cpu: CpuId) -> Option<BaseGuard<'_, P>> {
        let base = self.platform.base(cpu)?;
        Some(BaseGuard::lock(self, base, self.platform.this_cpu()))
    }
}

impl<P: Platform> fmt::Debug for BaseGuard<'_, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("BaseGuard")
            .field(&self.base)
            .finish()
    }
}
