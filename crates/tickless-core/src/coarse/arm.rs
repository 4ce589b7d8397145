//! Arming and modifying (spec C-1.8), and moving from one wheel to another (spec C-1.9).
//!
//! # Choice of the CPU
//!
//! A timer is enqueued on the CPU that executes the operation; there is no search for a better CPU. There are four
//! exceptions. A timer whose callback runs stays on its wheel, because a caller that waits for the callback checks that
//! wheel. A timer on a local wheel stays there when it is modified, because it is pinned. If the caller names a CPU,
//! the timer is enqueued on that CPU. An isolated CPU may have a [housekeeper](Platform::housekeeper), on which its
//! global timers are enqueued.
//!
//! # Without the lock
//!
//! Two checks need only loads: whether the timer is already queued for the requested tick, and (for
//! [`reduce`](crate::coarse::WheelTimer::reduce)) whether it is queued for an earlier tick. The state is read before
//! the expiry. So either the timer was active for that expiry when its state was read, or another thread armed it for
//! that expiry afterwards. In both cases the operation had nothing to do at some moment during its execution, and it
//! counts as executed at this moment. The result "was active" is true at this moment (R56).

use core::fmt;
use core::pin::Pin;

use tickless_link::entry::{EntryRef, State};

use crate::base::cpu_base::CpuBase;
use crate::base::guard::BaseGuard;
use crate::base::owner::kind_of;
use crate::base::timers::Timers;
use crate::coarse::modify::Modify;
use crate::coarse::own::Own;
use crate::coarse::timer::WheelTimer;
use crate::cpu::CpuId;
use crate::platform::{Platform, ThisCpu};
use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::start_outcome::{ShutDown, StartOutcome};
use crate::trace::{Event, TimerId};
use crate::wheel::cpu_wheel::{Filed, Now};
use crate::wheel::family::{Coarse, Timeout, WheelKind};

/// The reasons why a timer was not armed. The timer has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArmError {
    /// The timer is queued: use [`modify`](crate::coarse::WheelTimer::modify) for that.
    Active,
    /// The timer was shut down. This error is final.
    ShutDown,
    /// The requested CPU is offline.
    Offline(CpuId),
}

impl fmt::Display for ArmError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => formatter.write_str("the timer is armed already"),
            Self::ShutDown => ShutDown.fmt(formatter),
            Self::Offline(CpuId(cpu)) => write!(formatter, "CPU {cpu} takes no part in timing"),
        }
    }
}

impl core::error::Error for ArmError {}

/// The wheel that an operation requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The wheel of the kind for which the timer was made.
    AsMade,
    Local,
    Global,
    /// The local wheel of a CPU.
    On(CpuId),
}

impl<F> WheelTimer<F>
where
    F: FnMut(&mut Timeout) -> Restart + Send + 'static,
{
    /// Arms an inactive timer on the executing CPU. It fires after the end of the tick `expiry`.
    ///
    /// The timer fires between one tick and one slot of its level later (spec C-1.3), in the first pass after that.
    /// `now` is the present tick; an older tick does not make the timer fire early.
    ///
    /// A timer that was [armed on a CPU](Self::arm_on), and so was pinned, has its original kind again (R32).
    ///
    /// # Errors
    ///
    /// [`ArmError::Active`] for a queued timer, which stays as it is. [`ArmError::ShutDown`].
    ///
    /// # Panics
    ///
    /// When the timer belongs to another system of timers.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context. If the timer's own callback calls it, the timer stays on its wheel.
    ///
    /// # Cost
    ///
    /// O(1): one lock, and writes to the timer and to the timer that was first in its slot.
    pub fn arm<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError> {
        timers.arm_entry(self.erase(), Target::AsMade, now, expiry)
    }

    /// Arms the timer as [`arm`](Self::arm) does, on the local wheel of the executing CPU for any kind of timer but a
    /// deferrable one.
    ///
    /// # Errors
    ///
    /// As [`arm`](Self::arm).
    pub fn arm_local<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError> {
        timers.arm_entry(self.erase(), Target::Local, now, expiry)
    }

    /// Arms the timer as [`arm`](Self::arm) does, on the global wheel for any kind of timer but a deferrable one.
    ///
    /// # Errors
    ///
    /// As [`arm`](Self::arm).
    pub fn arm_global<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError> {
        timers.arm_entry(self.erase(), Target::Global, now, expiry)
    }

    /// Arms the timer as [`arm`](Self::arm) does, on the local wheel of `cpu`, or on its deferrable wheel if the timer
    /// is deferrable.
    ///
    /// A timer that is not pinned is always on the CPU that armed it, so this function never uses a global wheel (R32).
    /// If `cpu` sleeps and the timer becomes its first timer, `cpu` is kicked, so that it computes its wake-up again. A
    /// deferrable timer kicks no CPU.
    ///
    /// # Errors
    ///
    /// As [`arm`](Self::arm), and [`ArmError::Offline`].
    pub fn arm_on<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        cpu: CpuId,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError> {
        timers.arm_entry(self.erase(), Target::On(cpu), now, expiry)
    }

    /// Starts or restarts the timer to fire after the end of the tick `expiry`. The result says if the timer was
    /// started or restarted.
    ///
    /// A timer on a local wheel stays there. Any other timer moves to the executing CPU, unless it keeps its slot.
    ///
    /// The result is exact at the time of the modification, so a caller that counts references by it counts right
    /// (R56).
    ///
    /// # Interrupt context
    ///
    /// As [`arm`](Self::arm).
    ///
    /// # Cost
    ///
    /// A modification to the present expiry of the timer takes two loads and no lock. A modification within its slot
    /// takes one lock and one store; such a timer keeps the granularity of the slot, which may be coarser than that of
    /// a new slot. Any other modification is O(1), see [`arm`](Self::arm).
    #[inline]
    pub fn modify<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> StartOutcome {
        timers.modify_entry(self.erase(), Modify::Always, now, expiry)
    }

    /// Restarts the timer if it waits on a wheel of the executing CPU and can keep its present slot. Returns true if
    /// the timer was restarted; otherwise nothing changes.
    ///
    /// The timer can keep the slot if the slot is right for `expiry` too, or if `expiry` is later than the present
    /// expiry and the slot is not the first of its wheel. In the second case the pass that empties the slot enqueues
    /// the timer again, with the same granularity as a timer that is armed at that time.
    ///
    /// It is for callers that would otherwise have to read a clock, because it does not need the present tick.
    ///
    /// # Cost
    ///
    /// If `expiry` is the present expiry of the timer: two loads and no lock. Otherwise one store and one lock, if the
    /// lock can be taken without a call.
    #[inline]
    pub fn modify_in_slot<P: Platform>(self: Pin<&Self>, timers: &Timers<P>, expiry: Tick) -> bool {
        timers.modify_in_slot(self.erase(), expiry)
    }

    /// Arms the timer as [`arm`](Self::arm) does, on the fast path. The fast path requires that the timer is idle, that
    /// it belongs on the executing CPU's wheel and was last on this wheel, and that the lock can be taken without a
    /// call. Otherwise returns `None`, and nothing changes.
    ///
    /// The result also says if a CPU that sleeps until the wheel is due must be notified.
    #[inline]
    pub fn arm_own<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: impl Now,
        expiry: Tick,
    ) -> Option<Own> {
        timers.arm_own(self.erase(), (now, expiry))
    }

    /// Modifies the timer as [`modify`](Self::modify) does, on the fast path. The fast path requires that the timer is
    /// or was last on a wheel of the executing CPU and belongs there, that its callback does not run, and that the lock
    /// can be taken without a call. Otherwise returns `None`, and nothing changes.
    ///
    /// The result also says if a CPU that sleeps until the wheel is due must be notified.
    #[inline]
    pub fn modify_own<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: impl Now,
        expiry: Tick,
    ) -> Option<Own> {
        timers.modify_own(self.erase(), Modify::Always, (now, expiry))
    }

    /// Modifies the timer as [`modify`](Self::modify) does, if it is queued; otherwise returns
    /// [`StartOutcome::Unchanged`].
    #[inline]
    pub fn modify_if_active<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> StartOutcome {
        timers.modify_entry(self.erase(), Modify::IfActive, now, expiry)
    }

    /// Modifies the timer as [`modify`](Self::modify) does, unless it is queued for `expiry` or an earlier tick; then
    /// returns [`StartOutcome::Unchanged`].
    #[inline]
    pub fn reduce<P: Platform>(
        self: Pin<&Self>,
        timers: &Timers<P>,
        now: Tick,
        expiry: Tick,
    ) -> StartOutcome {
        timers.modify_entry(self.erase(), Modify::Reduce, now, expiry)
    }
}

impl<P: Platform> Timers<P> {
    fn arm_entry(
        &self,
        entry: EntryRef<'_, Coarse>,
        target: Target,
        now: Tick,
        expiry: Tick,
    ) -> Result<(), ArmError> {
        let me = self.executing_cpu();
        let mut held = self.lock_base_of(entry, me);
        let state = entry.state();
        if state.is_shut() {
            return Err(ArmError::ShutDown);
        }
        if state.is_queued() {
            return Err(ArmError::Active);
        }
        let (kind, base) = match target {
            Target::AsMade => (entry.tag(), self.home(entry.tag(), me)),
            Target::Local => (WheelKind::Local, self.here(me)),
            Target::Global => (WheelKind::Global, self.home(WheelKind::Global, me)),
            Target::On(cpu) => (
                WheelKind::Local,
                self.platform
                    .base(cpu)
                    .filter(|base| base.is_online())
                    .ok_or(ArmError::Offline(cpu))?,
            ),
        };
        // The user made it deferrable so that no CPU wakes for it (spec C-1.11).
        let kind = match entry.tag() {
            WheelKind::Deferrable => WheelKind::Deferrable,
            WheelKind::Local | WheelKind::Global => kind,
        };
        let leaves = kind_of(&held, entry);
        self.enqueue_on(&mut held, entry, leaves, (base, kind), (now, expiry), me);
        Ok(())
    }

    /// Returns the base of the executing CPU, or the base of another online CPU.
    #[inline]
    fn here<'a>(&'a self, me: Option<ThisCpu<'a, P>>) -> &'a CpuBase<P> {
        match me {
            Some(me) if me.base.is_online() => me.base,
            _ => self.target(self.platform.pick_target(None, false)),
        }
    }

    /// Returns the base on which a timer of `kind` belongs if the executing CPU arms it.
    #[inline]
    fn home<'a>(&'a self, kind: WheelKind, me: Option<ThisCpu<'a, P>>) -> &'a CpuBase<P> {
        let here = self.here(me);
        if kind != WheelKind::Global {
            return here;
        }
        let housekeeper = self.platform.housekeeper(here);
        housekeeper
            .and_then(|cpu| self.platform.base(cpu))
            .filter(|base| base.is_online())
            .unwrap_or(here)
    }

    #[inline]
    pub(crate) fn modify_entry(
        &self,
        entry: EntryRef<'_, Coarse>,
        modify: Modify,
        now: Tick,
        expiry: Tick,
    ) -> StartOutcome {
        let before = entry.state();
        if before.is_queued() {
            if modify.leaves(entry.shared().get(), expiry) {
                return modify.left_queued();
            }
        } else if modify == Modify::IfActive {
            return left_idle(before);
        }
        if let Some(own) = self.modify_own(entry, modify, (now, expiry)) {
            return own.outcome;
        }
        self.modify_slow(entry, modify, (now, expiry))
    }

    /// Does the work of [`modify_entry`](Self::modify_entry) on the slow path, for a timer on any base.
    #[cold]
    fn modify_slow(
        &self,
        entry: EntryRef<'_, Coarse>,
        modify: Modify,
        (now, expiry): (Tick, Tick),
    ) -> StartOutcome {
        let me = self.executing_cpu();
        let mut held = self.lock_base_of(entry, me);
        // It may have fired, or been taken out, or shut down, before the lock was ours (R05).
        let state = entry.state();
        if state.is_shut() {
            return StartOutcome::ShutDown;
        }
        let was_active = state.is_queued();
        let kind = kind_of(&held, entry);
        if was_active {
            if modify.leaves(entry.shared().get(), expiry) {
                return modify.left_queued();
            }
            if self.keep_slot(&mut held, entry, kind, (now, expiry)) {
                return StartOutcome::Restarted;
            }
        } else if modify == Modify::IfActive {
            return StartOutcome::Unchanged;
        }
        self.modify_locked(&mut held, entry, kind, (now, expiry), me);
        StartOutcome::of(was_active)
    }

    /// Writes the expiry of a queued timer of the locked base, if the timer can keep its slot.
    ///
    /// The due tick of the slot does not change, so no other data has to be updated.
    #[inline]
    fn keep_slot(
        &self,
        held: &mut BaseGuard<'_, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
        (now, expiry): (Tick, Tick),
    ) -> bool {
        let wheel = &mut held.state.wheels[kind as usize];
        wheel.pending_map.forward(now);
        let place = wheel.pending_map.place(expiry);
        if !wheel.opened(entry).is_on(place.slot.number()) {
            return false;
        }
        entry.shared().set(expiry);
        held.state.stats.coarse_in_slot += 1;
        self.trace_arm(held, entry, kind, (now, expiry, place.due), true);
        true
    }

    /// Enqueues a timer, which is on the wheel of `kind` of the locked base, on the wheel to which a modification moves
    /// it.
    #[inline]
    pub(crate) fn modify_locked<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
        (now, expiry): (Tick, Tick),
        me: Option<ThisCpu<'a, P>>,
    ) {
        let base = if kind == WheelKind::Local && held.base.is_online() {
            held.base
        } else {
            self.home(kind, me)
        };
        self.enqueue_on(held, entry, kind, (base, kind), (now, expiry), me);
    }

    /// Enqueues a timer, which is on the wheel `leaves` of the locked base, on the wheel `kind` of `base`. If its
    /// callback runs, the timer stays on its wheel. Afterwards `held` is the base of the timer.
    #[inline]
    fn enqueue_on<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        entry: EntryRef<'_, Coarse>,
        leaves: WheelKind,
        (base, kind): (&'a CpuBase<P>, WheelKind),
        (now, expiry): (Tick, Tick),
        me: Option<ThisCpu<'a, P>>,
    ) {
        let was_armed = entry.state().is_queued();
        let runs = entry.state().is_running();
        let is_there = core::ptr::eq(base, held.base) && leaves == kind;
        let (kind, filed) = if runs || (is_there && held.base.is_online()) {
            let wheel = &mut held.state.wheels[leaves as usize];
            wheel.pending_map.forward(now);
            let place = wheel.pending_map.place(expiry);
            entry.shared().set(expiry);
            (leaves, wheel.enqueue(entry, place))
        } else {
            (
                kind,
                self.travel(held, entry, leaves, (base, kind), (now, expiry), me),
            )
        };
        held.publish_next_expiry(kind);
        held.state.stats.coarse_arms += 1;
        self.trace_arm(held, entry, kind, (now, expiry, filed.due), was_armed);
        // Under the same lock as the computation of when to wake (spec C-2.4): either the sleeper sees the timer, or we
        // see the sleeper. What is armed by a callback of this wheel is seen by the CPU that executes that.
        let sleeps_through = filed.is_first && is_for_sleeper(kind, runs);
        if sleeps_through
            && !me.is_some_and(|me| core::ptr::eq(me.base, held.base))
            && held.base.is_wheel_idle()
        {
            self.kick(held.base, me);
        }
    }

    /// Moves a timer to another wheel (C-1.9). At most one base is locked at any time. During the move the timer names
    /// no owner, and a thread that searches for the owner waits.
    #[cold]
    fn travel<'a>(
        &'a self,
        held: &mut BaseGuard<'a, P>,
        entry: EntryRef<'_, Coarse>,
        leaves: WheelKind,
        (mut base, kind): (&'a CpuBase<P>, WheelKind),
        (now, expiry): (Tick, Tick),
        me: Option<ThisCpu<'a, P>>,
    ) -> Filed {
        let from = held.base.cpu();
        let wheel = &mut held.state.wheels[leaves as usize];
        let (transit, left) = wheel.opened(entry).depart();
        if let Some(left) = left {
            wheel.note_left(left);
        }
        while !core::ptr::eq(held.base, base) || !base.is_online() {
            held.move_to(base, me);
            if base.is_online() {
                break;
            }
            // It left since it was looked at.
            base = self.target(self.platform.pick_target(None, false));
        }
        let to = held.base.cpu();
        if from != to {
            held.state.stats.arrived += 1;
            if self.platform.is_traced() {
                let timer = TimerId(entry.address());
                self.platform.trace(Event::Move { timer, from, to });
            }
        }
        let wheel = &mut held.state.wheels[kind as usize];
        wheel.pending_map.forward(now);
        let place = wheel.pending_map.place(expiry);
        entry.shared().set(expiry);
        wheel.buckets.admit(transit, place.slot.number(), |()| ());
        wheel.note_enqueued(place)
    }

    #[inline]
    pub(super) fn trace_arm(
        &self,
        held: &BaseGuard<'_, P>,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
        (now, expiry, due): (Tick, Tick, Tick),
        was_armed: bool,
    ) {
        if self.platform.is_traced() {
            self.trace_arm_slow(held.base.cpu(), entry, kind, (now, expiry, due), was_armed);
        }
    }

    /// Reports an arm; out of line, so that the caller has no place for the event on its stack.
    #[cold]
    #[inline(never)]
    fn trace_arm_slow(
        &self,
        cpu: CpuId,
        entry: EntryRef<'_, Coarse>,
        kind: WheelKind,
        (now, expiry, due): (Tick, Tick, Tick),
        was_armed: bool,
    ) {
        self.platform.trace(Event::WheelArm {
            cpu,
            kind,
            timer: TimerId(entry.address()),
            code: entry.code_address(),
            now,
            expiry,
            due,
            was_armed,
        });
    }
}

/// Returns the outcome of a start that does not change a timer that is not queued, from the state of the timer.
#[inline]
const fn left_idle(state: State) -> StartOutcome {
    if state.is_shut() {
        StartOutcome::ShutDown
    } else {
        StartOutcome::Unchanged
    }
}

/// Returns true if a sleeping CPU must be notified of a new first timer of this kind.
const fn is_for_sleeper(kind: WheelKind, callback_runs: bool) -> bool {
    match kind {
        WheelKind::Local => true,
        // A movable timer comes to another CPU only if its callback runs, and is seen by who executes that, or if a
        // thread without a CPU armed it, or one that keeps none.
        WheelKind::Global => !callback_runs,
        WheelKind::Deferrable => false,
    }
}
