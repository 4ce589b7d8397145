//! The fast path of coarse timers: the timer is on a wheel of the executing CPU, and its callback does not run.
//!
//! Each operation here is done as a whole in one section of the CPU's own lock, or not at all. The rare cases are left
//! to the general path, which makes all checks again: a timer that is on another CPU, runs, was never queued or was
//! shut down; a lock that is contended; a CPU that is isolated or offline. No operation kicks a CPU, because the only
//! CPU concerned is the executing CPU, which is awake.

use core::pin::Pin;
use core::task::Waker;

use tickless_link::buckets::BucketState;
use tickless_link::buckets::Quiet;
use tickless_link::end::{Dropping, End};
use tickless_link::entry::{Entry, EntryRef, Member};

use crate::base::cpu_base::CpuBase;
use crate::base::guard::BaseGuard;
use crate::base::timers::Timers;
use crate::coarse::modify::Modify;
use crate::platform::{Platform, ThisCpu};
use crate::slots::geometry::{DueSlot, Slot, Tick};
use crate::start_outcome::StartOutcome;
use crate::trace::TimerId;
use crate::wheel::cpu_wheel::Now;
use crate::wheel::family::{Coarse, WheelKind};

/// The result of an operation on a timer of the executing CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is due before everything else has to be told"]
pub struct Own {
    /// The outcome of the start.
    pub outcome: StartOutcome,
    /// True if the timer is due before all others on its wheel. If false, the thread that expires the wheel wakes early
    /// enough.
    pub is_first: bool,
}

impl<P: Platform> Timers<P> {
    /// Returns the executing CPU and the kind of its wheel on which a timer seems to be; `None` if the timer seems to
    /// be on no wheel of this CPU.
    #[inline]
    fn own_wheel(&self, entry: EntryRef<'_, Coarse>) -> Option<(ThisCpu<'_, P>, WheelKind)> {
        let me = self.platform.this_cpu_if_known()?;
        let kind = me.base.wheel_of(entry)?;
        Some((me, kind))
    }

    /// Returns true if a timer that the CPU of `base` enqueues on its wheel of `kind` stays on that wheel.
    #[inline]
    fn keeps(&self, base: &CpuBase<P>, kind: WheelKind) -> bool {
        base.is_online() && (kind != WheelKind::Global || self.platform.try_keep_local_fast(base))
    }

    /// Modifies as [`modify_entry`](Self::modify_entry) does, on the fast path. Returns `None`, with nothing changed,
    /// in the rare cases.
    // Always: as a call, what it answers would go through memory, and what a caller knows would be asked again.
    #[inline(always)]
    pub(crate) fn modify_own(
        &self,
        entry: EntryRef<'_, Coarse>,
        modify: Modify,
        (now, expiry): (impl Now, Tick),
    ) -> Option<Own> {
        let (me, kind) = self.own_wheel(entry)?;
        if !self.keeps(me.base, kind) {
            return None;
        }
        let mut held = BaseGuard::try_lock_fast(self, me)?;
        let wheel = &mut held.state.wheels[kind as usize];
        // It may have left before the lock was ours (R05).
        let quiet = wheel.buckets.open(entry)?.quiet()?;
        let is_first = false;
        let was_queued = match &quiet {
            Quiet::Idle(_) if modify == Modify::IfActive => {
                let outcome = StartOutcome::Unchanged;
                return Some(Own { outcome, is_first });
            }
            Quiet::Idle(_) => false,
            Quiet::Queued(_) => {
                if modify.leaves(entry.shared().get(), expiry) {
                    let outcome = modify.left_queued();
                    return Some(Own { outcome, is_first });
                }
                true
            }
        };
        let outcome = StartOutcome::of(was_queued);
        let now = now.catch_up(&mut wheel.pending_map, &self.platform);
        let place = wheel.pending_map.place(expiry);
        let number = place.slot.number();
        entry.shared().set(expiry);
        match quiet {
            Quiet::Idle(idle) => idle.insert(number),
            Quiet::Queued(queued) if queued.is_on(number) => {
                // The same slot is the same due tick: nothing else has to be told.
                held.state.stats.coarse_in_slot += 1;
                self.trace_arm(&held, entry, kind, (now, expiry, place.due), true);
                return Some(Own { outcome, is_first });
            }
            Quiet::Queued(queued) => {
                let left = queued.move_to(number);
                wheel.note_left(left);
            }
        }
        let is_first = self.note_own(&mut held, entry, kind, (now, expiry, place), was_queued);
        Some(Own { outcome, is_first })
    }

    /// Arms any entry as [`WheelTimer::arm_own`](crate::coarse::WheelTimer::arm_own) does.
    // Always: as `modify_own`.
    #[inline(always)]
    pub(crate) fn arm_own(
        &self,
        entry: EntryRef<'_, Coarse>,
        (now, expiry): (impl Now, Tick),
    ) -> Option<Own> {
        let (me, kind) = self.own_wheel(entry)?;
        if !self.keeps(me.base, kind) {
            return None;
        }
        let mut held = BaseGuard::try_lock_fast(self, me)?;
        let wheel = &mut held.state.wheels[kind as usize];
        // It may have left before the lock was ours (R05).
        let Quiet::Idle(idle) = wheel.buckets.open(entry)?.quiet()? else {
            return None;
        };
        let now = now.catch_up(&mut wheel.pending_map, &self.platform);
        let place = wheel.pending_map.place(expiry);
        entry.shared().set(expiry);
        idle.insert(place.slot.number());
        let is_first = self.note_own(&mut held, entry, kind, (now, expiry, place), false);
        let outcome = StartOutcome::Started;
        Some(Own { outcome, is_first })
    }

    /// Modifies any entry as [`WheelTimer::modify_in_slot`](crate::coarse::WheelTimer::modify_in_slot) does.
    #[inline]
    pub(crate) fn modify_in_slot(&self, entry: EntryRef<'_, Coarse>, expiry: Tick) -> bool {
        self.try_in_slot(entry, expiry).is_some()
    }

    #[inline(always)]
    fn try_in_slot(&self, entry: EntryRef<'_, Coarse>, expiry: Tick) -> Option<()> {
        if entry.shared().get() == expiry {
            // The state before the expiry, as for every question that is answered without the lock (R56).
            let is_there = entry.state().is_only_queued() && entry.shared().get() == expiry;
            return is_there.then_some(());
        }
        let (me, kind) = self.own_wheel(entry)?;
        let mut held = BaseGuard::try_lock_fast(self, me)?;
        let wheel = &mut held.state.wheels[kind as usize];
        // It may have left before the lock was ours (R05).
        let Quiet::Queued(queued) = wheel.buckets.open(entry)?.quiet()? else {
            return None;
        };
        let slot = Slot::numbered(queued.list());
        let old = entry.shared().get();
        if !slot.serves_alike(old, expiry) && !wheel.pending_map.serves_later(slot, old, expiry) {
            return None;
        }
        if !queued.is_on(slot.number()) {
            return None;
        }
        entry.shared().set(expiry);
        held.state.stats.coarse_in_slot += 1;
        if self.platform.is_traced() {
            let pending_map = &held.state.wheels[kind as usize].pending_map;
            let times = (pending_map.clock(), expiry, pending_map.due_of(slot));
            self.trace_arm(&held, entry, kind, times, true);
        }
        Some(())
    }

    /// Stores a timer with its waker by `put`, and enqueues the timer on the executing CPU, if the lock can be taken
    /// without a call. The new timer is not read back for checks. Returns true if the timer is due before all others on
    /// its wheel.
    ///
    /// # Errors
    ///
    /// The waker, if this is one of the rare cases; `put` was not called.
    // Always: the shortest path there is.
    #[inline(always)]
    pub(crate) fn start_new<'a, 't, M>(
        &'a self,
        put: impl FnOnce(Waker) -> Pin<&'t mut Entry<Coarse, M>>,
        kind: WheelKind,
        me: ThisCpu<'a, P>,
        times: (impl Now, Tick),
        waker: Waker,
    ) -> Result<bool, Waker>
    where
        M: Member<Coarse, Guarded = Option<Waker>> + Send + 'static,
    {
        let Some((mut held, now, place)) = self.lock_wheel(kind, me, times) else {
            return Err(waker);
        };
        let mut entry = put(waker);
        debug_assert!(entry.tag() == kind && entry.shared().get() == times.1);
        let (list, buckets) = (
            place.slot.number(),
            &mut held.state.wheels[kind as usize].buckets,
        );
        if !buckets.insert_unbound(entry.as_mut(), list) {
            // Cannot be: it was just made, and the wheel has the place.
            let kept = entry.guarded_mut().and_then(Option::take);
            return kept.map_or(Ok(false), Err);
        }
        let entry = entry.as_ref().erase();
        Ok(self.note_own(&mut held, entry, kind, (now, times.1, place), false))
    }

    /// Locks the base of `me`, if a timer that is started there on the wheel of `kind` stays there and the lock takes
    /// no call. Returns the guard, the tick in progress and the place of the timer.
    // Always: as `start_new`.
    #[inline(always)]
    fn lock_wheel<'a>(
        &'a self,
        kind: WheelKind,
        me: ThisCpu<'a, P>,
        (now, expiry): (impl Now, Tick),
    ) -> Option<(BaseGuard<'a, P>, Tick, DueSlot)> {
        if !self.keeps(me.base, kind) {
            return None;
        }
        let mut held = BaseGuard::try_lock_fast(self, me)?;
        let wheel = &mut held.state.wheels[kind as usize];
        let now = now.catch_up(&mut wheel.pending_map, &self.platform);
        let place = wheel.pending_map.place(expiry);
        Some((held, now, place))
    }

    /// Notes that a timer was enqueued at `place` on the wheel of `kind` of the executing CPU's base. Returns true if
    /// the timer is due before all others on the wheel.
    // Always: the end of each of the shortest paths.
    #[inline(always)]
    fn note_own(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
        (now, expiry, place): (Tick, Tick, DueSlot),
        was_queued: bool,
    ) -> bool {
        let filed = held.state.wheels[kind as usize].note_enqueued(place);
        if filed.is_first {
            held.publish_next_expiry(kind);
        }
        held.state.stats.coarse_arms += 1;
        self.trace_arm(held, entry, kind, (now, expiry, place.due), was_queued);
        filed.is_first
    }

    /// Deletes as [`delete_entry`](Self::delete_entry) does, on the fast path. Returns whether the timer was queued, or
    /// `None` in the rare cases.
    #[inline]
    pub(crate) fn delete_own(&self, entry: EntryRef<'_, Coarse>) -> Option<bool> {
        let (me, kind) = self.own_wheel(entry)?;
        let mut held = BaseGuard::try_lock_fast(self, me)?;
        self.delete_locked(&mut held, entry, kind)
    }

    #[inline(always)]
    fn delete_locked(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
    ) -> Option<bool> {
        let timer = TimerId(entry.address());
        let wheel = &mut held.state.wheels[kind as usize];
        let Quiet::Queued(queued) = wheel.buckets.open(entry)?.quiet()? else {
            return Some(false);
        };
        let left = queued.remove();
        self.note_cancelled_coarse(held, kind, timer, left);
        Some(true)
    }

    /// Notes that a timer was removed from a wheel of the locked base. `left` is the new state of the timer's former
    /// bucket.
    #[inline(always)]
    fn note_cancelled_coarse(
        &self,
        held: &mut BaseGuard<'_, P>,
        kind: WheelKind,
        timer: TimerId,
        left: BucketState,
    ) {
        held.state.wheels[kind as usize].note_left(left);
        held.state.stats.coarse_cancelled += 1;
        if self.platform.is_traced() {
            self.trace_cancelled_coarse_slow(held.base.cpu(), kind, timer);
        }
    }

    /// Removes a sleeper of the executing CPU from its wheel and ends the sleeper. Returns the sleeper's waker.
    ///
    /// # Errors
    ///
    /// The sleeper, with nothing done, if it is not on a wheel of the executing CPU, or if the lock takes a call.
    #[inline(always)]
    pub(crate) fn end_own<'v, M>(
        &self,
        sleeper: Dropping<'v, Entry<Coarse, M>>,
    ) -> End<'v, Entry<Coarse, M>, Option<Waker>>
    where
        M: Member<Coarse, Guarded = Option<Waker>> + Send + 'static,
    {
        let Some((me, kind)) = self.own_wheel(sleeper.as_ref().erase()) else {
            return Err(sleeper);
        };
        let Some(mut held) = BaseGuard::try_lock_fast(self, me) else {
            return Err(sleeper);
        };
        self.end_locked(&mut held, sleeper, kind)
    }

    /// Removes a sleeper from a wheel of the locked base, which may be of any CPU, and ends the sleeper. Returns the
    /// sleeper's waker.
    ///
    /// # Errors
    ///
    /// The sleeper, with nothing done, if it is not queued there.
    #[inline(always)]
    pub(crate) fn end_locked<'v, M>(
        &self,
        held: &mut BaseGuard<'_, P>,
        sleeper: Dropping<'v, Entry<Coarse, M>>,
        kind: WheelKind,
    ) -> End<'v, Entry<Coarse, M>, Option<Waker>>
    where
        M: Member<Coarse, Guarded = Option<Waker>> + Send + 'static,
    {
        let timer = TimerId(sleeper.as_ref().erase().address());
        let buckets = &mut held.state.wheels[kind as usize].buckets;
        let ((waker, left), ended) = buckets.end(sleeper)?;
        self.note_cancelled_coarse(held, kind, timer, left);
        Ok((waker, ended))
    }
}
