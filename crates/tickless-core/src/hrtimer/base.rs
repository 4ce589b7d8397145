//! The per-CPU state: eight queues, what the device was told, and who owes it a write.

use core::fmt;
use core::mem::MaybeUninit;

use tickless_link::LastThread;
use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::entry::{EntryRef, Family};
use tickless_link::id::{Key, QueueId, Realm};
use tickless_link::lock::{Guard, Lock, RawLock};
use tickless_link::shelf::RUNNERS;
use tickless_link::sync::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tickless_link::tree::Tree;

use super::Timers;
use super::far::Far;
use super::stats::Stats;
use super::timer::Hr;
use crate::clock::{Offsets, SetSequence};
use crate::event::EventDevice;
use crate::mutant;
use crate::platform::{CpuId, Platform, ThisCpu};
use crate::time::{Clock, Deadline, Instant, Offset, Span};
use crate::trace::Event;
use crate::wheel::{Kind, WheelBase};

/// Queues of a base: four clocks, hard and soft (spec Q-15).
pub(crate) const QUEUES: usize = 8;
/// The place of the first wheel among the identities of a base: behind the queues and the shelf of far timers.
pub(crate) const FIRST_WHEEL: usize = QUEUES + 1;
/// Identities of a base: one for each queue, for the shelf, and for each wheel.
pub(crate) const IDENTITIES: usize = FIRST_WHEEL + Kind::COUNT;
/// The bits of the hard queues in an active mask.
pub(crate) const HARD: u8 = 0x0F;
/// The bits of the soft queues in an active mask.
pub(crate) const SOFT: u8 = 0xF0;

/// One queue of a base, on one clock, for one stage.
#[derive(Debug)]
pub(crate) struct ClockBase {
    pub(crate) tree: Tree<Hr>,
    /// The first key in the tree, `FOREVER` when it is empty (INV-6): finding the next event of a CPU touches no
    /// timer's memory (spec Q-7). It is the first deadline, but while many timers wait to be filed again: then it is
    /// earlier.
    pub(crate) first_deadline: Deadline,
    /// Copy of the offset of the clock, as of the base's last refresh (spec TIM-8).
    pub(crate) offset: Offset,
}

/// Timers that are filed again at a time: bounds the time for which the lock is held.
pub(crate) const REFILES_MAX: u32 = 16;

/// Who owes the device a write (spec 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredRearm {
    /// Nobody: the device is armed.
    Clear,
    /// The interrupt handler runs and will see to it.
    Running,
    /// The handler is done; a flush point will write this.
    OwedFresh(Instant),
    /// As before, but the queues changed: the flush point evaluates again.
    OwedStale,
}

/// What can change while a rearm is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A timer came or moved.
    Start,
    /// The first timer of this CPU went.
    Removal,
    /// An offset changed.
    ClockSet,
    /// The soft stage is done and its timers count again.
    SoftStage,
}

/// What the lock of a base protects.
pub(crate) struct BaseState {
    pub(crate) queues: [ClockBase; QUEUES],
    /// Bit i is set exactly while queue i is not empty (spec Q-9).
    pub(crate) active: u8,
    /// Timers of the first queue that are far away.
    pub(crate) far: Far,
    /// What is armed may be earlier than the first timer, which was taken back or pushed out.
    pub(crate) armed_early: bool,
    /// The jump of the clocks that the offsets are copied from.
    pub(crate) seen: SetSequence,
    /// The jump of the clocks that the last evaluation took into account.
    pub(crate) evaluated: SetSequence,
    pub(crate) deferred: DeferredRearm,
    /// The last interrupt gave up; nobody but the interrupt writes the device until the next one (spec IRQ-4).
    pub(crate) hang: bool,
    /// The soft stage was raised and has not finished.
    pub(crate) soft_pending: bool,
    /// Address of the timer that determined the armed value; only ever compared (spec OBJ-20, INV-11).
    pub(crate) first_hint: usize,
    /// When the soft stage has to be raised; `FOREVER` while it is pending (spec Q-18).
    pub(crate) soft_next: Instant,
    pub(crate) soft_first_hint: usize,
    pub(crate) device: EventDevice,
    pub(crate) stats: Stats,
    /// The wheels, by [`Kind`].
    pub(crate) wheels: [WheelBase; Kind::COUNT],
}

/// A family of entries that the bases of CPUs own.
pub(crate) trait Based: Family {
    /// Gives an entry that never had an owner to its queue in `state`; `false` when somebody else was faster.
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool;

    /// Whether callbacks of the entry run in the soft stage.
    fn is_soft(entry: EntryRef<'_, Self>) -> bool;

    /// What is held around the callback of an entry of the locked base; `None` if it does not run.
    fn expirer<'a, P: Platform>(
        held: &Held<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>>;
}

impl Based for Hr {
    #[inline]
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool {
        state.queues[entry.tag().queue()].tree.bind(entry)
    }

    #[inline]
    fn is_soft(entry: EntryRef<'_, Self>) -> bool {
        entry.tag().is_soft()
    }

    fn expirer<'a, P: Platform>(
        held: &Held<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>> {
        entry.state().is_running().then_some(&held.base.exact)
    }
}

impl BaseState {
    fn emplace(
        slot: &mut MaybeUninit<Self>,
        keys: [Key; IDENTITIES],
        device: EventDevice,
    ) -> Emplaced<'_, Self> {
        let mut keys = keys.into_iter();
        let mut next = || keys.next().expect("there is one for each of them");
        emplace!(slot => Self {
            // The first keys, as numbers of queues are places among the identities.
            queues: core::array::from_fn(|_| ClockBase {
                tree: Tree::new(next()),
                first_deadline: Deadline::FOREVER,
                offset: Offset::NONE,
            }),
            active: 0,
            armed_early: false,
            seen: SetSequence::START,
            evaluated: SetSequence::START,
            deferred: DeferredRearm::Clear,
            hang: false,
            soft_pending: false,
            first_hint: 0,
            soft_next: Instant::FOREVER,
            soft_first_hint: 0,
            device: device,
            stats: Stats::default();
            far <- |slot| Far::emplace(slot, next()),
            wheels <- |slot| emplace::array(slot, |_, slot| WheelBase::emplace(slot, next())),
        })
    }

    /// Finds the first timer of a queue, and files it where it belongs if it is filed too early.
    #[inline]
    pub(crate) fn reload_first(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        for _ in 0..REFILES_MAX {
            let Some(mut slot) = queue.tree.open_first() else {
                break;
            };
            let deadline = slot.head().deadline();
            if slot.key() == deadline {
                queue.first_deadline = deadline;
                return;
            }
            if let Some(place) = self.far.place_of(slot.entry(), *slot.head()) {
                self.far.take_over(slot, place);
            } else if !slot.move_in_place(deadline) {
                slot.reposition(deadline);
            }
        }
        // If there are more of them than belong into one operation, the device fires early, and goes on from there.
        queue.first_deadline = queue.tree.first_key().unwrap_or(Deadline::FOREVER);
        if queue.tree.is_empty() {
            self.active &= !(1 << index);
        }
    }

    /// Updates what is cached about a queue after a timer left it.
    #[inline]
    pub(crate) fn after_removal(&mut self, index: usize, was_first: bool) {
        if was_first {
            self.reload_first(index);
        }
    }

    /// Updates what is cached about a queue after a timer came to it.
    #[inline]
    pub(crate) fn after_insertion(&mut self, index: usize, is_first: bool, deadline: Deadline) {
        self.active |= 1 << index;
        if is_first {
            self.queues[index].first_deadline = deadline;
        }
    }

    /// The next event among the queues of `mask`, and the address of its timer. May be negative (spec 3.6).
    #[inline]
    pub(crate) fn minimum(&self, mask: u8) -> (Instant, usize) {
        let mut best = Instant::FOREVER;
        let mut who = 0;
        for index in bits(self.active & mask) {
            let queue = &self.queues[index];
            let event = queue.offset.to_monotonic(queue.first_deadline);
            if event < best {
                best = event;
                who = queue.tree.first().map_or(0, EntryRef::address);
            }
        }
        (best, who)
    }

    /// Copies new offsets into all queues of their clocks, hard and soft alike (spec TIM-8).
    pub(crate) fn adopt(&mut self, sequence: SetSequence, offsets: &Offsets) {
        self.seen = sequence;
        for (index, queue) in self.queues.iter_mut().enumerate() {
            queue.offset = offsets.of(Clock::ALL[index % 4]);
        }
    }

    pub(crate) fn reset(&mut self) {
        if !mutant!("hang-survives-offline") {
            self.hang = false;
        }
        if !mutant!("deferred-survives-offline") {
            self.deferred = DeferredRearm::Clear;
        }
        if !mutant!("soft-pending-survives-offline") {
            self.soft_pending = false;
        }
        self.first_hint = 0;
        self.soft_first_hint = 0;
        self.soft_next = Instant::FOREVER;
        self.device.forget();
    }
}

/// The set bits of a mask, lowest first, as of the call (spec Q-14).
#[inline]
pub(crate) fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (mask != 0).then(|| {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            index
        })
    })
}

/// The timers of one CPU.
///
/// The host keeps one for each CPU in its table, at a place that never moves, and hands it out by [`Platform::base`].
pub struct CpuBase<P: Platform> {
    cpu: CpuId,
    first_queue: QueueId,
    /// The armed value: when the device is to fire, `FOREVER` while the handler runs or a rearm is owed (INV-4).
    ///
    /// Written under the lock, read by anybody who wants to know whether something is due.
    armed: AtomicI64,
    /// Takes part in timing; written by the CPU itself, under the lock.
    online: AtomicBool,
    /// Somebody asked for a retrigger that has not begun (spec LOC-17).
    kicked: AtomicBool,
    /// Address of the timer whose callback *this CPU* executes, on whatever base the timer is; only ever compared.
    pub(crate) executing: AtomicUsize,
    local: P::Local,
    /// Whoever runs the exact timers of this base.
    pub(crate) exact: Expirer<P>,
    /// Whoever runs its wheels, by [`Kind`] and by the place of the pass: somebody else may run the global one, and
    /// must not delay the others.
    pub(crate) coarse: [[Expirer<P>; RUNNERS]; Kind::COUNT],
    /// When the wheels are due at the earliest, in ticks (spec 2.4).
    ///
    /// Written under the lock, read by anybody who wants to know whether a pass is worth while.
    pub(crate) wheel_due: [AtomicU64; Kind::COUNT],
    /// The CPU sleeps until the first timer of its wheels. Set under the lock, together with the time that it sleeps
    /// until (II1); cleared by the CPU without the lock.
    pub(crate) wheel_idle: AtomicBool,
    pub(crate) state: Lock<P::Lock, BaseState>,
}

/// The side of a base on which callbacks run: one runner at a time, and those who wait for it.
pub(crate) struct Expirer<P: Platform> {
    /// Held around the callbacks; the data is the right to run them.
    pub(crate) lock: Lock<P::ExpiryLock, ()>,
    /// Cancellers that wait for a callback (spec CAN-6).
    pub(crate) waiters: AtomicU32,
}

impl<P: Platform> Expirer<P> {
    fn new() -> Self {
        Self {
            lock: Lock::new(P::ExpiryLock::default(), ()),
            waiters: AtomicU32::new(0),
        }
    }

    /// Forgets a runner and those who waited for it, which are gone, and has `free` free the lock.
    fn end(&self, free: &mut impl FnMut(&P::ExpiryLock)) {
        // Relaxed: there is no other thread.
        self.waiters.store(0, Ordering::Relaxed);
        free(self.lock.raw());
    }
}

impl<P: Platform> CpuBase<P> {
    /// Makes a base where it stays: it is too large to be moved over a small stack.
    pub(crate) fn emplace<'a>(
        slot: &'a mut MaybeUninit<Self>,
        realm: &Realm,
        device: EventDevice,
        local: P::Local,
    ) -> Emplaced<'a, Self> {
        let keys = realm.keys::<IDENTITIES>();
        let first_queue = keys[0].id();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a realm has at most 2^24 queues"
        )]
        let cpu = CpuId((first_queue.index() / IDENTITIES) as u32);
        emplace!(slot => Self {
            cpu: cpu,
            first_queue: first_queue,
            local: local,
            armed: AtomicI64::new(Instant::<crate::time::Monotonic>::FOREVER.as_nanos()),
            online: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
            executing: AtomicUsize::new(0),
            exact: Expirer::new(),
            coarse: core::array::from_fn(|_| core::array::from_fn(|_| Expirer::new())),
            wheel_due: core::array::from_fn(|_| AtomicU64::new(WheelBase::NEVER)),
            wheel_idle: AtomicBool::new(false);
            state <- |slot| Lock::emplace(slot, P::Lock::default(), |slot| {
                BaseState::emplace(slot, keys, device)
            }),
        })
    }

    /// The number of the CPU.
    #[inline]
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// What the host keeps for this CPU.
    #[inline]
    pub const fn local(&self) -> &P::Local {
        &self.local
    }

    /// Whether `id` is one of the queues of this base.
    #[inline]
    pub(crate) const fn owns(&self, id: QueueId) -> bool {
        id.is_within(self.first_queue, IDENTITIES)
    }

    /// Which of this base's wheels `id` is; `None` if it is another queue.
    #[inline]
    pub(crate) fn wheel(&self, id: QueueId) -> Option<Kind> {
        let place = id
            .index()
            .wrapping_sub(self.first_queue.index() + FIRST_WHEEL);
        Kind::ALL.get(place).copied()
    }

    /// The lock of the base, for what the host's primitive can do besides locking.
    #[inline]
    pub const fn lock(&self) -> &P::Lock {
        self.state.raw()
    }

    /// When the device is to fire, [`Instant::FOREVER`] if not at all, while the interrupt handler runs, or while a
    /// rearm is owed.
    ///
    /// Lock-free: one load. A poller that finds this later than now has nothing to do.
    #[inline]
    pub fn armed(&self) -> Instant {
        // Relaxed: for the owner, who is the only one to make it earlier, it is exact; for others a hint. Whoever acts
        // on it takes the lock, which orders everything.
        Instant::from_nanos(self.armed.load(Ordering::Relaxed))
    }

    /// Locks the base until the result is dropped, and lets nobody change anything meanwhile.
    ///
    /// For a host that copies itself, as a fork does: with every base frozen the copy is consistent. Bases are frozen
    /// in the order of their numbers.
    pub fn freeze(&self, token: Option<<P::Lock as RawLock>::Token>) -> Frozen<'_, P> {
        Frozen {
            base: self,
            state: self.state.lock(token),
        }
    }

    /// Whether the CPU takes part in timing.
    #[inline]
    pub fn is_online(&self) -> bool {
        // Acquire: pairs with the Release in `set_online`: who sees it online sees the base reset. Who must be sure
        // asks again under the lock (spec LOC-16).
        self.online.load(Ordering::Acquire)
    }

    pub(crate) fn set_online(&self, online: bool) {
        // Release: see `is_online`.
        self.online.store(online, Ordering::Release);
    }

    /// Notes a kick; `true` if none was under way.
    pub(crate) fn note_kick(&self) -> bool {
        // AcqRel: pairs with `begin_kick`. A sender that finds a kick under way relies on the handler, which clears the
        // note before it looks, to see what the sender did under the lock before.
        !self.kicked.swap(true, Ordering::AcqRel)
    }

    /// Whether somebody asked for a retrigger that has not begun.
    pub(crate) fn is_kicked(&self) -> bool {
        // Relaxed: asked under the lock, for checks only.
        self.kicked.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_kick(&self) {
        // AcqRel: see `note_kick`.
        self.kicked.swap(false, Ordering::AcqRel);
    }
}

impl<P: Platform> fmt::Debug for CpuBase<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CpuBase")
            .field("cpu", &self.cpu)
            .field("online", &self.is_online())
            .field("armed", &self.armed())
            .finish_non_exhaustive()
    }
}

/// A base that nobody can change.
pub struct Frozen<'a, P: Platform> {
    base: &'a CpuBase<P>,
    state: Guard<'a, P::Lock, BaseState>,
}

impl<P: Platform> Frozen<'_, P> {
    /// Which one.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.base.cpu()
    }

    /// Gives up what a thread that is gone was in the middle of here: a callback counts as finished with
    /// [`Restart::No`](super::Restart::No), an interrupt as ended. The device is not armed: [`Timers::retrigger`] does
    /// that. Has `free` free the locks around those callbacks.
    pub fn abandon(&mut self, others_are_gone: &LastThread, mut free: impl FnMut(&P::ExpiryLock)) {
        for queue in &mut self.state.queues {
            queue.tree.abandon_running(others_are_gone);
        }
        self.base.exact.end(&mut free);
        self.abandon_passes(others_are_gone, None, free);
        self.state.deferred = DeferredRearm::Clear;
        self.state.soft_pending = false;
        self.base.executing.store(0, Ordering::Relaxed);
        self.base.kicked.store(false, Ordering::Relaxed);
    }

    /// As [`abandon`](Self::abandon), for a base on which the thread that is left executes a callback itself, as CPU
    /// `own`: that goes on, and of the others' only what they did on the wheels is given up. Nobody shares an
    /// interrupt.
    pub fn abandon_passes(
        &mut self,
        others_are_gone: &LastThread,
        own: Option<CpuId>,
        mut free: impl FnMut(&P::ExpiryLock),
    ) {
        let base = self.base;
        for (wheel, expirers) in self.state.wheels.iter_mut().zip(&base.coarse) {
            wheel.abandon(others_are_gone, own, |place| {
                expirers[place].end(&mut free);
            });
        }
    }

    /// Takes every timer out of the queues, as if it had been cancelled; what it would wake stays in it. For timers
    /// whose memory, stacks of threads that are gone, will serve other purposes.
    pub fn discard(&mut self, _others_are_gone: &LastThread) {
        let state = &mut *self.state;
        for queue in &mut state.queues {
            while let Some(mut slot) = queue.tree.open_first() {
                slot.remove();
            }
            queue.first_deadline = Deadline::FOREVER;
        }
        state.far.clear(&mut state.queues[super::far::NEAR].tree);
        state.active = 0;
        for wheel in &mut state.wheels {
            wheel.discard();
        }
    }
}

impl<P: Platform> fmt::Debug for Frozen<'_, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Frozen").field(&self.base).finish()
    }
}

/// A base in the hands of whoever holds its lock.
pub(crate) struct Held<'a, P: Platform> {
    pub(crate) timers: &'a Timers<P>,
    pub(crate) base: &'a CpuBase<P>,
    pub(crate) state: Guard<'a, P::Lock, BaseState>,
}

impl<'a, P: Platform> Held<'a, P> {
    /// Locks `base`; `me` is the executing CPU, which a lock may treat in a special way.
    #[inline]
    pub(crate) fn lock(
        timers: &'a Timers<P>,
        base: &'a CpuBase<P>,
        me: Option<ThisCpu<'_, P>>,
    ) -> Self {
        Self {
            timers,
            base,
            state: base.state.lock(Self::token(base, me)),
        }
    }

    /// As [`lock`](Self::lock) of the executing CPU's own base, if that needs neither waiting nor a call.
    #[inline]
    pub(crate) fn try_lock(timers: &'a Timers<P>, me: ThisCpu<'a, P>) -> Option<Self> {
        Some(Self {
            timers,
            base: me.base,
            state: me.base.state.try_lock(me.token)?,
        })
    }

    /// Gives up this base and locks `target` instead: never both at once (spec LOC-3).
    pub(crate) fn move_to(&mut self, target: &'a CpuBase<P>, me: Option<ThisCpu<'_, P>>) {
        let token = Self::token(target, me);
        self.state.move_to(&target.state, token);
        self.base = target;
    }

    /// What lets the lock of `base` know its owner.
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
    }

    /// Reads the clock, and copies the offsets if a clock was set since the last time.
    pub(crate) fn refresh_offsets(&mut self) -> Instant {
        let (now, changed) = self.platform().now_and_offsets(self.state.seen);
        if let Some((sequence, offsets)) = changed {
            self.state.adopt(sequence, &offsets);
        }
        now
    }

    /// Finds the next event of the device, and brings the hints and the time of the soft stage up to date (spec 3.6).
    ///
    /// Does not touch the armed value.
    #[inline]
    pub(crate) fn evaluate(&mut self) -> Instant {
        let state = &mut *self.state;
        state.stats.evaluations += 1;
        state.evaluated = state.seen;
        state.armed_early = false;
        let crowded = state.bring_near(0);
        let mut soft = Instant::FOREVER;
        let (hard, hard_hint) = state.minimum(HARD);
        let hard = self.clamped(hard);
        if !self.state.soft_pending {
            let (first, hint) = self.state.minimum(SOFT);
            soft = self.clamped(first);
            // Also when a hard timer is first: left stale, the soft stage would be late or raised for ever (spec Q-21,
            // B45).
            if !mutant!("soft-next-not-refreshed") || soft < hard {
                self.state.soft_next = soft;
            }
            self.state.soft_first_hint = hint;
        }
        let state = &mut *self.state;
        let (first, hint) = if soft < hard {
            (soft, state.soft_first_hint)
        } else {
            (hard, hard_hint)
        };
        if crowded < first {
            state.first_hint = 0;
            return crowded;
        }
        state.first_hint = hint;
        first
    }

    /// A next event as it can be armed: one that was over before the monotonic clock began counts as its beginning
    /// (spec Q-22), which is noted, for nobody may want timers of then.
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
        if P::TRACE {
            self.platform().trace(Event::Clamped {
                cpu: self.base.cpu(),
                event,
            });
        }
    }

    /// Whether `deadline`, on the clock of queue `index`, is before what is armed.
    #[inline]
    pub(crate) fn is_before_armed(&self, index: usize, deadline: Deadline) -> bool {
        let event = self.state.queues[index].offset.to_monotonic(deadline);
        event < self.base.armed() && !mutant!("far-start-not-armed")
    }

    /// Notes a change of the queues while a rearm is owed (spec REARM-7); `true` if one is owed or the handler runs, so
    /// that the device must not be touched.
    #[inline]
    pub(crate) fn leave_to_rearm(&mut self, change: Change) -> bool {
        self.state.deferred != DeferredRearm::Clear && self.note_change(change)
    }

    #[cold]
    fn note_change(&mut self, change: Change) -> bool {
        match self.state.deferred {
            DeferredRearm::Clear => false,
            // The handler evaluates at its end anyway (spec REARM-8).
            DeferredRearm::Running | DeferredRearm::OwedStale => true,
            DeferredRearm::OwedFresh(_) => {
                let unnoticed = match change {
                    Change::Start => mutant!("stale-not-set-by-start"),
                    Change::Removal => mutant!("stale-not-set-by-cancel"),
                    Change::ClockSet => mutant!("stale-not-set-by-clock-set"),
                    Change::SoftStage => mutant!("stale-not-set-by-soft-stage"),
                };
                if !unnoticed {
                    self.state.deferred = DeferredRearm::OwedStale;
                }
                true
            }
        }
    }

    /// The longest hang so far, or the limit of the backoff (spec IRQ-3).
    pub(crate) fn backoff(&self) -> Span {
        self.state.stats.max_hang.min(super::HANG_BACKOFF_MAX)
    }
}
