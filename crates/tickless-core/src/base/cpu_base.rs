//! The state of one CPU: its queues and wheels, the value last written to its device, and a flag that a rearm is due.

use core::fmt;
use core::mem::MaybeUninit;

use tickless_link::buckets::RUNNERS;
use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::entry::EntryRef;
use tickless_link::id::{QueueId, Realm};
use tickless_link::lock::Lock;
use tickless_link::sync::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use crate::base::expirer::{BaseTypes, Expirer};
use crate::base::state::{BaseState, FIRST_WHEEL, IDENTITIES};
use crate::cpu::CpuId;
use crate::event::EventDevice;
use crate::exact::family::NEAR;
use crate::exact::queues::QUEUES;
use crate::slots::geometry::Tick;
use crate::time::Instant;
use crate::wheel::cpu_wheel::CpuWheel;
use crate::wheel::family::{Coarse, WheelKind};
use crate::wheel::idle::NextDue;

/// The timers of one CPU.
///
/// The host keeps a base for each CPU in its table, at an address that never changes, and returns it from
/// [`base`](crate::platform::Port::base).
///
/// A base has cache lines of its own. Wherever the host puts the bases, operations of a CPU on its own timers write no
/// line that another CPU uses.
#[repr(align(128))]
pub struct CpuBase<P: BaseTypes> {
    cpu: CpuId,
    first_queue: QueueId,
    /// The identity of the far wheel.
    far_queue: QueueId,
    /// The armed value: the time at which the device will fire; `FOREVER` while the handler runs or a rearm is owed
    /// (INV-4).
    ///
    /// Written under the lock; read without the lock by threads that check whether a timer is due.
    pub(super) armed: AtomicI64,
    /// The earliest time at which the timer may fire for which the device is armed. Written and read like `armed`.
    pub(super) may_fire_from: AtomicI64,
    /// True if the CPU takes part in timing; written by the CPU itself, under the lock.
    online: AtomicBool,
    /// True if another CPU requested a retrigger that this CPU has not begun (spec LOC-17).
    pub(super) kicked: AtomicBool,
    /// The address of the timer whose callback *this CPU* executes, on any base. It is compared but never dereferenced.
    pub(crate) executing: AtomicUsize,
    local: P::Local,
    /// The expirer of the exact timers. A thread that runs these timers holds its lock.
    pub(crate) exact: Expirer<P>,
    /// The expirers of the wheels, like `exact` for the queues, by [`WheelKind`] and by the place of the pass. They are
    /// separate because another CPU may run the global wheel, and must not delay the other wheels.
    pub(crate) coarse: [[Expirer<P>; RUNNERS]; WheelKind::COUNT],
    /// A lower bound of the time at which each wheel is due, in ticks (spec C-2.4).
    ///
    /// Written under the lock; read without the lock by threads that check whether a pass is necessary.
    pub(crate) wheel_due: [AtomicU64; WheelKind::COUNT],
    /// True if the CPU sleeps until the first timer of its wheels. Set under the lock, together with the end of the
    /// sleep (II1); cleared by the CPU without the lock.
    pub(crate) wheel_idle: AtomicBool,
    pub(crate) state: Lock<P::Lock, BaseState>,
}

impl<P: BaseTypes> CpuBase<P> {
    /// Makes a base in its final place, because a base is too large to be moved on a small stack.
    pub(crate) fn emplace<'a>(
        slot: &'a mut MaybeUninit<Self>,
        realm: &Realm,
        device: EventDevice,
        local: P::Local,
    ) -> Emplaced<'a, Self> {
        let keys = realm.keys::<IDENTITIES>();
        let (first_queue, far_queue) = (keys[0].id(), keys[QUEUES].id());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a realm has at most 2^24 queues"
        )]
        let cpu = CpuId((first_queue.index() / IDENTITIES) as u32);
        emplace!(slot => Self {
            cpu: cpu,
            first_queue: first_queue,
            far_queue: far_queue,
            local: local,
            armed: AtomicI64::new(Instant::<crate::time::Monotonic>::FOREVER.as_nanos()),
            may_fire_from: AtomicI64::new(Instant::<crate::time::Monotonic>::FOREVER.as_nanos()),
            online: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
            executing: AtomicUsize::new(0),
            exact: Expirer::new(),
            coarse: core::array::from_fn(|_| core::array::from_fn(|_| Expirer::new())),
            wheel_due: core::array::from_fn(|_| AtomicU64::new(CpuWheel::NEVER)),
            wheel_idle: AtomicBool::new(false);
            state <- |slot| Lock::emplace(slot, P::Lock::default(), |slot| {
                BaseState::emplace(slot, keys, device)
            }),
        })
    }

    /// Returns the number of the CPU.
    #[inline]
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns the host's own data of this CPU.
    #[inline]
    pub const fn local(&self) -> &P::Local {
        &self.local
    }

    #[inline]
    pub(crate) const fn owns(&self, id: QueueId) -> bool {
        id.is_within(self.first_queue, IDENTITIES)
    }

    /// Returns the identity of the exact queue into which far timers are moved. Idle timers name this queue as their
    /// owner, too.
    #[inline]
    pub(crate) const fn near_queue(&self) -> QueueId {
        const { assert!(NEAR == 0) };
        self.first_queue
    }

    /// Returns the identity that far timers of this base name as their owner.
    #[inline]
    pub(crate) const fn far_queue(&self) -> QueueId {
        self.far_queue
    }

    /// Returns the kind of this base's wheel with this `id`; `None` if `id` names another queue.
    #[inline]
    pub(crate) fn wheel(&self, id: QueueId) -> Option<WheelKind> {
        let place = id
            .index()
            .wrapping_sub(self.first_queue.index() + FIRST_WHEEL);
        WheelKind::ALL.get(place).copied()
    }

    /// Returns the kind of this base's wheel that holds an entry; `None` if no wheel of this base holds it. Unless the
    /// base is locked, the result may be out of date at once.
    #[inline]
    pub(crate) fn wheel_of(&self, entry: EntryRef<'_, Coarse>) -> Option<WheelKind> {
        let place = entry
            .owner_behind(self.first_queue)
            .wrapping_sub(FIRST_WHEEL);
        WheelKind::numbered(place)
    }

    /// Returns the lock of the base, for operations of the host's lock type besides locking.
    #[inline]
    pub const fn lock(&self) -> &P::Lock {
        self.state.raw()
    }

    /// Returns the time for which the device is programmed. It is [`Instant::FOREVER`] if the device is not programmed,
    /// while the interrupt handler runs, and while a rearm is deferred.
    ///
    /// Lock-free: one load. If the time is later than now, a poller has nothing to do.
    #[inline]
    pub fn armed(&self) -> Instant {
        // Relaxed: for the owner, who is the only one to make it earlier, it is exact; for other threads a hint. A
        // thread that acts on it takes the lock, which orders everything.
        Instant::from_nanos(self.armed.load(Ordering::Relaxed))
    }

    /// Returns the earliest time at which the first timer may fire: the [armed](Self::armed) value, or an earlier time
    /// if the timer has slack (spec OBJ-9). A thread that is awake at that time and expires timers for this CPU may
    /// interrupt this CPU, which saves the interrupt at the armed time (spec OBJ-23). The value may be out of date if
    /// the timer was pushed out or cancelled; then the interrupt finds nothing.
    #[inline]
    pub fn may_fire_from(&self) -> Instant {
        // Relaxed: as for `armed`.
        Instant::from_nanos(self.may_fire_from.load(Ordering::Relaxed))
    }

    /// Returns true if the CPU takes part in timing.
    #[inline]
    pub fn is_online(&self) -> bool {
        // Acquire: pairs with the Release in `set_online`: a thread that sees it online sees the base reset. One that
        // must be sure asks again under the lock (spec LOC-16).
        self.online.load(Ordering::Acquire)
    }

    pub(crate) fn set_online(&self, online: bool) {
        // Release: see `is_online`.
        self.online.store(online, Ordering::Release);
    }

    /// Notes a kick, and returns true if no kick was pending.
    pub(crate) fn note_kick(&self) -> bool {
        // AcqRel: pairs with `begin_kick`. A sender that finds a kick under way relies on the handler, which clears the
        // note before it looks, to see what the sender did under the lock before.
        !self.kicked.swap(true, Ordering::AcqRel)
    }

    /// Returns true if another CPU requested a retrigger that this CPU has not begun.
    pub(crate) fn is_kicked(&self) -> bool {
        // Relaxed: asked under the lock, for checks only.
        self.kicked.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_kick(&self) {
        // AcqRel: see `note_kick`.
        self.kicked.swap(false, Ordering::AcqRel);
    }

    /// Returns the tick at which a wheel of this CPU is first due, or an earlier tick; see
    /// [`Timers::wheel_first_due`](crate::base::Timers::wheel_first_due).
    #[inline]
    pub fn wheel_first_due(&self) -> Option<Tick> {
        let first = self
            .published_next_expiry(WheelKind::Local)
            .min(self.published_next_expiry(WheelKind::Global));
        (first != u64::MAX).then_some(Tick(first))
    }

    /// Returns the tick at which the wheel of this `kind` is first due, or an earlier tick.
    #[inline]
    pub fn wheel_due(&self, kind: WheelKind) -> Option<Tick> {
        let due = self.published_next_expiry(kind);
        (due != u64::MAX).then_some(Tick(due))
    }

    /// Returns the ticks at which the two wheels that wake a CPU are first due, or earlier ticks.
    #[inline]
    pub fn wheel_next_due(&self) -> NextDue {
        NextDue {
            local: self.wheel_due(WheelKind::Local),
            global: self.wheel_due(WheelKind::Global),
        }
    }

    #[inline]
    fn published_next_expiry(&self, kind: WheelKind) -> u64 {
        // Relaxed: pairs with the store of `publish_next_expiry`, see there.
        self.wheel_due[kind as usize].load(Ordering::Relaxed)
    }

    /// Returns true if the wheel may have a due timer.
    #[inline]
    pub(crate) fn is_due(&self, kind: WheelKind, now: Tick) -> bool {
        now.0 >= self.published_next_expiry(kind)
    }

    /// Returns true if the CPU sleeps until the first timer of its wheels. If the caller holds the lock of the base,
    /// the result `false` is exact.
    #[inline]
    pub(crate) fn is_wheel_idle(&self) -> bool {
        // Relaxed: set under the lock, which the caller holds. That it may have been cleared without it costs a kick
        // for nothing (spec C-2.4).
        self.wheel_idle.load(Ordering::Relaxed)
    }
}

impl<P: BaseTypes> fmt::Debug for CpuBase<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CpuBase")
            .field("cpu", &self.cpu)
            .field("online", &self.is_online())
            .field("armed", &self.armed())
            .finish_non_exhaustive()
    }
}
