//! The far wheel: the queue in which exact timers with a distant deadline wait unsorted, so that operations on them are
//! O(1).
//!
//! Nearly all timeouts are cancelled or pushed out long before their deadline. A tree would sort each of these timers
//! in vain, and with many timers the sorting is most of the cost of a timer. So a timer whose deadline is far away is
//! put unsorted into a slot of the *far wheel* that is due *before* the deadline ([`place_before`]). When the slot is
//! due, few timers are left in it. These timers move to a finer slot, and into the tree when the deadline is two units
//! (262 µs) or less away. The tree sorts them, and they fire exactly.
//!
//! The soft expiry of a timer with slack decides its slot. So all timers that may fire are in the tree, which finds the
//! timers that may fire together (spec OBJ-9). The tree sorts the timer by its hard expiry, as if the timer had been
//! started in the tree.
//!
//! # Ground rules
//!
//! - The far wheel belongs to the base, as the trees of the base do, and the lock of the base protects it. A timer in
//!   the far wheel is queued and names the far wheel as its owner. In all other states (firing, idle) the tree is its
//!   owner.
//! - A slot is due at or before every soft expiry in it. So only the times of a timer are written when the timer is
//!   pushed out.
//! - The device is armed for exact deadlines. Each start of a timer compares the timer's deadline with the armed value,
//!   in the far wheel as in the tree. So the device is not armed too late for a timer in the far wheel.
//! - No interrupt is programmed only to cascade. An evaluation of the next event ([`FarWheel::cascade_next`]) empties
//!   each slot that would be due before all timers in the trees. Then the first deadline is known exactly.
//!
//! # Order of equal deadlines
//!
//! Timers with equal deadlines fire first in, first out. The clock never goes back. So, of two timers with one
//! deadline, the timer that was armed earlier is in the coarser slot, and a timer that is started directly in the tree
//! was armed after all timers in the far wheel. The far wheel keeps this order by four rules:
//!
//! - The timers of a slot that is due move to the slots of the next finer level, beginning with the last timer. Each is
//!   put in front of the timers there. No level is skipped, because it may hold timers that were armed later. From the
//!   finest slots the timers move to the tree, beginning with the first timer. In the tree they come after the timers
//!   that arrived from the far wheel before, and before the timers that were started directly in the tree
//!   ([`TieOrder::Old`]). If the whole time range of a slot is over, its timers move to the tree at once. The timers
//!   for the same time in finer slots then come after them.
//! - All timers of a slot that is emptied before it is due move to the tree in the same way. Some of them would fit
//!   into finer slots, but then the slot would have to be walked from both ends.
//! - Of two slots that are due at the same time, the coarser slot is emptied first.
//! - The timers of a due slot that are due themselves leave the slot before the other timers, first in, first out.
//!   After the last slot they are sorted into a line in front of the tree ([`FarWheel::cascade`]), but after the timers
//!   that the tree received from earlier slots.
//!
//! A timer that was pushed out while it waited may be in a slot that does not match its deadline. For the order it
//! counts as armed when it is enqueued again. A timer that was pushed out within its slot keeps its place in that slot.
//! A timer beyond the range of the far wheel is in a slot that does not match its deadline either. Such timers keep
//! their order if they were armed together for one deadline.
//!
//! # Limits
//!
//! A slot with more than [`OPEN_MAX`] timers is not emptied before it is due, because its timers would fill the tree.
//! The device fires once in vain when that slot is due. The far wheel takes 4 KiB for each CPU. Without the feature
//! `far-wheel` each timer is in the tree from its start. That takes less memory and a third less text, but each start
//! takes a search.
//!
use core::mem::MaybeUninit;
use core::pin::Pin;

use tickless_link::buckets::{BucketArray, BucketState, Bucketed, Gathering};
use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::end::{Dropping, End};
use tickless_link::entry::{Entry, EntryRef, Member, Running, Transit};
use tickless_link::id::Key;
use tickless_link::tree::{self, TieOrder, Tree};

use crate::exact::family::{ExpiryRange, Hr, NEAR, Placement, Times};
use crate::exact::queues::{ExactQueues, REFILES_MAX};
use crate::slots::geometry::{
    DueSlot, Slot, Tick as FarTick, granularity, place_before, place_within,
};
use crate::slots::moment::{Moments, Recent};
use crate::slots::pending_map::PendingMap;
use crate::time::{Deadline, Instant};

/// True in a core with the feature `far-wheel`. Without the feature no timer is in the far wheel, and the code for far
/// timers is not compiled in.
pub(crate) const EXISTS: bool = cfg!(feature = "far-wheel");

/// Number of levels of the far wheel. Eight levels reach 4.8 hours; a timer that is farther away is enqueued again after
/// that time. Models have one level, because their stacks are small.
const LEVELS: usize = if cfg!(loom) || !EXISTS { 1 } else { 8 };

/// The unit of the far wheel as a power of two: 2^17 ns, 131 µs. So a conversion takes no division. A finer unit
/// takes more timeouts out of the tree, and each timer that fires passes more levels.
const UNIT: u32 = 17;

/// The maximum number of timers that a search for the next event removes from slots that are not due.
pub(crate) const OPEN_MAX: u32 = 256;

/// The maximum number of timers that one interrupt cascades. It bounds the time for which the lock is held.
pub(crate) const CASCADE_MAX: u32 = 1024;

#[derive(Debug)]
pub(crate) struct FarWheel {
    buckets: BucketArray<Hr, LEVELS>,
    pending_map: PendingMap<LEVELS>,
    /// The due time of a slot that holds too many timers to be emptied before that time.
    overfull: Option<FarTick>,
}

/// Returns the unit in which `when` lies. A time before the first unit counts as the first unit.
#[inline]
const fn unit_of(when: i64) -> FarTick {
    let when = if when < 0 { 0 } else { when };
    FarTick(when.cast_unsigned() >> UNIT)
}

/// Returns the unit in which a timer with the times in `head` may first fire. This unit decides the timer's slot.
#[inline]
fn filed_by(head: ExpiryRange) -> FarTick {
    let earliest = head.earliest();
    unit_of(earliest.as_nanos())
}

#[inline]
pub(crate) fn instant_of(due: FarTick) -> Instant {
    let nanos = due.0.saturating_mul(1 << UNIT);
    Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Returns true if a timer that is started at `now` and may fire from `earliest` on goes to the far wheel. The base of
/// its CPU must be advanced to `now`. Hosts that account for the cost of a start use it.
#[must_use]
pub const fn is_far(now: Instant, earliest: Instant) -> bool {
    EXISTS
        && place_before::<LEVELS>(unit_of(now.as_nanos()), unit_of(earliest.as_nanos())).is_some()
}

impl FarWheel {
    pub(crate) fn emplace(slot: &mut MaybeUninit<Self>, key: Key) -> Emplaced<'_, Self> {
        emplace!(slot => Self {
            pending_map: PendingMap::new(FarTick(0)),
            overfull: None;
            buckets <- |slot| BucketArray::emplace(slot, key),
        })
    }

    #[inline]
    pub(crate) const fn buckets(&self) -> &BucketArray<Hr, LEVELS> {
        &self.buckets
    }

    /// Returns the [`buckets`](Self::buckets) with mutable access, to open one of them.
    #[inline]
    pub(crate) fn buckets_mut(&mut self) -> &mut BucketArray<Hr, LEVELS> {
        &mut self.buckets
    }

    /// Opens a timer that is in the far wheel; `None` if another queue owns the timer.
    #[inline]
    pub(crate) fn open<'s, 'e>(
        &'s mut self,
        entry: EntryRef<'e, Hr>,
    ) -> Option<Bucketed<'s, 'e, Hr, LEVELS>> {
        if EXISTS {
            self.buckets.open(entry)
        } else {
            None
        }
    }

    /// Advances the clock of the pending map to `now`, unless it is later already.
    // Always: it has nothing to do but once in a unit.
    #[inline(always)]
    pub(crate) fn forward(&mut self, now: Instant) {
        let now = unit_of(now.as_nanos());
        if now > self.pending_map.clock() {
            self.forward_to(now);
        }
    }

    /// Forwards as [`forward`](Self::forward) does, to the time that a host knows without a reading, once in each of
    /// the host's moments.
    #[inline(always)]
    pub(crate) fn catch_up<P: Moments>(&mut self, platform: &P) {
        if !EXISTS {
            return;
        }
        match platform.moment() {
            Some(moment) if self.pending_map.is_of_moment(moment) => {}
            _ => self.catch_up_to(platform.recent()),
        }
    }

    #[inline(never)]
    fn catch_up_to(&mut self, recent: Recent) {
        self.forward(recent.now);
        self.pending_map.note_moment(recent.moment);
    }

    #[inline(never)]
    fn forward_to(&mut self, now: FarTick) {
        if now >= self.pending_map.first_due() {
            // It may stand for a slot that is empty by now.
            self.pending_map.settle(now);
        }
        self.pending_map.forward(now);
    }

    /// Returns the time at which a slot that holds something is due.
    pub(crate) fn due_of(&self, slot: Slot) -> FarTick {
        self.pending_map.due_of(slot)
    }

    /// Returns the place of a timer with the times in `head`; `None` if the timer belongs into the tree.
    // Inlined: the caller already holds the owner in registers (fast-path chapter).
    #[inline(always)]
    pub(crate) fn place(&self, head: ExpiryRange) -> Option<DueSlot> {
        if !EXISTS {
            return None;
        }
        place_before::<LEVELS>(self.pending_map.clock(), filed_by(head))
    }

    /// Returns the place as [`place`](Self::place) does, if the timer is within the range of the wheel and the pending
    /// map is up to date or can be forwarded by a reading of the clock alone.
    // Inlined: the caller already holds the owner in registers (fast-path chapter).
    #[inline(always)]
    pub(crate) fn try_place_fast<P: Moments>(
        &mut self,
        head: ExpiryRange,
        platform: &P,
    ) -> Option<DueSlot> {
        if !EXISTS {
            return None;
        }
        match platform.moment() {
            Some(moment) if self.pending_map.is_of_moment(moment) => {}
            Some(_) => return None,
            None => self.forward(platform.recent().now),
        }
        place_within::<LEVELS>(self.pending_map.clock(), filed_by(head))
    }

    /// Returns the place as [`place`](Self::place) does, after bringing the wheel's clock up to date. The clock is only
    /// updated if it may change the result.
    // Inlined: the caller already holds the owner in registers (fast-path chapter).
    #[inline(always)]
    pub(crate) fn place_now<P: Moments>(
        &mut self,
        head: ExpiryRange,
        platform: &P,
    ) -> Option<DueSlot> {
        // What is near by an old clock is nearer by the present one.
        if !EXISTS || filed_by(head).0.saturating_sub(self.pending_map.clock().0) < 2 {
            return None;
        }
        self.catch_up(platform);
        self.place(head)
    }

    /// Returns the place of `entry` with the times in `head`; `None` if the entry belongs into its tree. An entry whose
    /// callback executes always belongs into the tree, because the end of the callback needs the tree.
    #[inline]
    pub(crate) fn place_of(&self, entry: EntryRef<'_, Hr>, head: ExpiryRange) -> Option<DueSlot> {
        if may_stand(entry) {
            self.place(head)
        } else {
            None
        }
    }

    #[inline]
    fn note(&mut self, place: DueSlot) {
        self.pending_map.enqueue(place);
    }

    #[inline(always)]
    pub(crate) fn note_left(&mut self, left: BucketState) {
        if let BucketState::Vacated(list) = left {
            self.pending_map.vacate(Slot::numbered(list));
            self.overfull = None;
        }
    }

    /// Enqueues a timer that never had an owner. Returns false, with nothing done, if the timer has or had an owner.
    #[inline]
    pub(crate) fn enqueue_unbound<M>(
        &mut self,
        entry: Pin<&mut Entry<Hr, M>>,
        place: DueSlot,
    ) -> bool
    where
        M: Member<Hr> + Send + 'static,
    {
        let number = place.slot.number();
        let is_filed = self.buckets.insert_unbound(entry, number);
        if is_filed {
            self.note(place);
        }
        is_filed
    }

    /// Enqueues an idle timer of the first of `queues` at `place`. Returns false, with nothing done, if the timer is
    /// not owned by that queue.
    // Always: what it is given would go through memory.
    #[inline(always)]
    pub(crate) fn enqueue_idle(
        &mut self,
        queues: &mut ExactQueues,
        entry: EntryRef<'_, Hr>,
        head: ExpiryRange,
        place: DueSlot,
    ) -> bool {
        let Some(mut slot) = queues[NEAR].tree.open(entry) else {
            return false;
        };
        *slot.head() = head;
        slot.put_idle_in_bucket(&mut self.buckets, place.slot.number());
        self.note(place);
        true
    }

    /// Gives other times to a timer that is in the far wheel, if the timer is pushed out by them and so may stay in its
    /// slot. Returns true if the timer has the new times.
    #[inline]
    pub(crate) fn push_out(&mut self, entry: EntryRef<'_, Hr>, head: ExpiryRange) -> bool {
        let Some(mut bucketed) = self.open(entry) else {
            return false;
        };
        let stays = head.is_pushed_out_from(*bucketed.head());
        if stays {
            *bucketed.head() = head;
        }
        stays
    }

    /// Moves a timer from its tree to the far wheel. Returns true if the timer was the first of the tree.
    #[inline]
    pub(crate) fn take_over(&mut self, slot: tree::OwnedEntry<'_, '_, Hr>, place: DueSlot) -> bool {
        let was_first = slot.put_in_bucket(&mut self.buckets, place.slot.number());
        self.note(place);
        was_first
    }

    /// Queues a timer of one of `queues` that its callback starts again: under the key `filed` in the queue, or in the
    /// far wheel if the deadline is far away. Returns false if a thread started the timer meanwhile.
    #[inline]
    pub(crate) fn restart<P: Moments>(
        &mut self,
        queues: &mut ExactQueues,
        index: usize,
        running: Running<Hr>,
        (filed, head): (Deadline, ExpiryRange),
        platform: &P,
    ) -> bool {
        let place = if running.tag().may_stand_far() {
            self.place_now(head, platform)
        } else {
            None
        };
        let tree = &mut queues[index].tree;
        if let Some(place) = place {
            let list = place.slot.number();
            let buckets = &mut self.buckets;
            let is_queued = running.restart_in_bucket(tree, buckets, list, |old| *old = head);
            if is_queued {
                self.note(place);
            }
            return is_queued;
        }
        let queued = running.restart(tree, filed, |old| *old = head);
        if let Some(is_first) = queued {
            queues.after_insertion(index, is_first, filed);
        }
        queued.is_some()
    }

    /// Receives a timer that comes from another base.
    pub(crate) fn admit(&mut self, transit: Transit<'_, Hr>, place: DueSlot, head: ExpiryRange) {
        let list = place.slot.number();
        self.buckets.admit(transit, list, |old| *old = head);
        self.note(place);
    }

    /// Removes all timers from the wheel and leaves them idle, owned by `tree`.
    pub(crate) fn clear(&mut self, tree: &mut Tree<Hr>) {
        while let Some(bucketed) = self.open_any() {
            let left = bucketed.return_to(tree);
            self.note_left(left);
        }
    }

    /// Opens a timer of the slot that is due first.
    pub(crate) fn open_any(&mut self) -> Option<Bucketed<'_, '_, Hr, LEVELS>> {
        if !EXISTS {
            return None;
        }
        let (slot, _) = self.pending_map.first_slot(self.pending_map.clock())?;
        self.buckets.open_first(slot.number())
    }
}

/// Returns true if a timer may be in the far wheel now.
#[inline]
fn may_stand(entry: EntryRef<'_, Hr>) -> bool {
    entry.tag().may_stand_far() && !entry.state().is_running()
}

/// The message of the panic if the base of a timer is not locked.
const OWNED: &str = "the base that owns the timer is locked";

/// Destination of a timer that leaves its slot.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The timer becomes the last of another bucket of the far wheel.
    Behind(DueSlot),
    /// The timer becomes the first of another bucket of the far wheel.
    Before(DueSlot),
    /// The timer goes into the tree.
    Tree(TieOrder),
}

impl Way {
    /// Returns the destination of a newly armed timer: the end of the bucket at `place`, or the tree without a place.
    #[inline]
    fn armed(place: Option<DueSlot>) -> Self {
        place.map_or(Self::Tree(TieOrder::New), Self::Behind)
    }
}

/// Parameters of emptying a slot.
#[derive(Clone, Copy, Debug)]
struct Opening {
    slot: Slot,
    due: FarTick,
    clock: FarTick,
    /// True if all timers of the slot move to the tree. That is so if the slot is of the finest level, is emptied
    /// before it is due, or if its time range is over. If it is over, the finer slots for these timers would be due at
    /// once too.
    is_last: bool,
}

/// Returns the destination of a timer that may first fire in the unit `at`.
#[inline]
fn way_out(opening: Opening, at: FarTick) -> Way {
    let Opening {
        slot, due, clock, ..
    } = opening;
    let is_early = due > clock;
    if at.0.saturating_sub(due.0) >= granularity(slot.level()) {
        // Pushed out, or beyond the range.
        return match place_before::<LEVELS>(clock, at) {
            Some(place) if place.slot == slot => Way::Tree(TieOrder::Old),
            // The last goes first, and what is beyond the range is to keep its order.
            Some(place) if !is_early && slot.level() > 0 && slot.level() + 1 == LEVELS => {
                Way::Before(place)
            }
            place => Way::armed(place),
        };
    }
    if opening.is_last {
        return Way::Tree(TieOrder::Old);
    }
    let place = DueSlot::before(slot.level() - 1, at);
    Way::Before(place)
}

/// Moves a timer out of its slot. Returns the new state of the slot, and whether the timer is now the first of the
/// tree.
#[inline]
fn leave(
    mut bucketed: Bucketed<'_, '_, Hr, LEVELS>,
    way: Way,
    near: &mut Tree<Hr>,
    deadline: Deadline,
) -> (BucketState, bool) {
    match way {
        Way::Behind(place) => (bucketed.move_to(place.slot.number()), false),
        Way::Before(place) => (bucketed.move_to_front(place.slot.number()), false),
        Way::Tree(turn) => bucketed.enqueue_in(near, deadline, turn),
    }
}

enum Emptied {
    /// The slot is empty.
    Whole,
    /// The budget is spent.
    Part,
}

/// The times under which a timer is enqueued, and whether it may keep its place if it is queued already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filing {
    pub(crate) times: Times,
    pub(crate) may_stay: bool,
}

impl FarWheel {
    /// Finds the first timer of one of `queues`. A timer whose key is earlier than its deadline is requeued, perhaps in
    /// this wheel. A timer whose key is later than its deadline, because its callback restarted it into the past, keeps
    /// its place.
    #[inline]
    pub(crate) fn reload_first(&mut self, queues: &mut ExactQueues, index: usize) {
        let queue = &mut queues[index];
        // Nearly always the first one is enqueued where it belongs.
        if let Some(mut slot) = queue.tree.open_first()
            && slot.key() == slot.head().deadline()
        {
            queue.first_deadline = slot.key();
            return;
        }
        self.requeue_first(queues, index);
    }

    /// Requeues as [`reload_first`](Self::reload_first) does, for several timers in turn.
    fn requeue_first(&mut self, queues: &mut ExactQueues, index: usize) {
        let queue = &mut queues[index];
        for _ in 0..REFILES_MAX {
            let Some(mut slot) = queue.tree.open_first() else {
                break;
            };
            let deadline = slot.head().deadline();
            if slot.key() >= deadline || slot.key() == Deadline::CLOCK_SET {
                queue.first_deadline = slot.key();
                return;
            }
            if let Some(place) = self.place_of(slot.entry(), *slot.head()) {
                self.take_over(slot, place);
            } else if !slot.move_in_place(deadline) {
                slot.reposition(deadline);
            }
        }
        // If there are more of them than belong into one operation, the device fires early, and goes on from there.
        queue.first_deadline = queue.tree.first_key().unwrap_or(Deadline::FOREVER);
        if queue.tree.is_empty() {
            queues.active &= !(1 << index);
        }
    }

    /// Updates the cached first deadline of one of `queues` after a timer left that queue.
    #[inline]
    pub(crate) fn after_removal(
        &mut self,
        queues: &mut ExactQueues,
        index: usize,
        was_first: bool,
    ) {
        if was_first {
            self.reload_first(queues, index);
        }
    }

    /// Enqueues a timer under other times, in the far wheel or in the tree, wherever the timer was before. Returns the
    /// effect on the timer's place. The caller updates the armed value.
    pub(crate) fn enqueue<P: Moments>(
        &mut self,
        queues: &mut ExactQueues,
        entry: EntryRef<'_, Hr>,
        filing: Filing,
        platform: &P,
    ) -> Placement {
        let Filing {
            times: (earliest, deadline),
            may_stay,
        } = filing;
        let head = ExpiryRange::new(earliest, deadline);
        let place = if may_stand(entry) {
            self.place_now(head, platform)
        } else {
            None
        };
        if let Some(mut bucketed) = self.open(entry) {
            let stays = may_stay && head.is_pushed_out_from(*bucketed.head());
            *bucketed.head() = head;
            if !stays {
                let way = Way::armed(place);
                let left = leave(bucketed, way, &mut queues[NEAR].tree, deadline);
                self.after_leaving(queues, left, way, deadline);
            }
            return if stays {
                Placement::FarSlot
            } else {
                Placement::Moved
            };
        }
        let mut slot = queues[NEAR].tree.open(entry).expect(OWNED);
        let was_first = slot.is_first();
        // The caller looks for the next event then, and would take it out of its slot at once.
        let stays_first =
            was_first && !entry.tag().leaves_early() && head.is_pushed_out_from(*slot.head());
        *slot.head() = head;
        if may_stay && slot.state().is_queued() {
            if deadline == slot.key() {
                return Placement::InPlace;
            }
            // The first is not left filed early, because the device is armed for its key.
            if !was_first && deadline > slot.key() {
                return Placement::FiledEarly;
            }
            if (place.is_none() || stays_first) && slot.move_in_place(deadline) {
                if was_first {
                    queues[NEAR].first_deadline = deadline;
                }
                return Placement::InPlace;
            }
        }
        match place {
            Some(place) => {
                self.take_over(slot, place);
                self.after_removal(queues, NEAR, was_first);
            }
            None => {
                let is_first = if slot.state().is_queued() {
                    slot.reposition(deadline)
                } else {
                    slot.insert(deadline)
                };
                queues.after_insertion(NEAR, is_first, deadline);
                self.after_removal(queues, NEAR, was_first && !is_first);
            }
        }
        Placement::Moved
    }

    /// Updates the wheel and the cached first deadline of the tree after a timer [left](leave) its slot.
    fn after_leaving(
        &mut self,
        queues: &mut ExactQueues,
        (left, is_first): (BucketState, bool),
        way: Way,
        deadline: Deadline,
    ) {
        self.note_left(left);
        match way {
            Way::Behind(place) | Way::Before(place) => self.note(place),
            Way::Tree(_) => queues.after_insertion(NEAR, is_first, deadline),
        }
    }

    /// Removes a timer from the far wheel and leaves it idle, owned by the tree. Returns false if the timer is not in
    /// the far wheel.
    pub(crate) fn remove(&mut self, queues: &mut ExactQueues, entry: EntryRef<'_, Hr>) -> bool {
        self.remove_here(queues, entry)
    }

    /// Removes as [`remove`](Self::remove) does, inlined for the shortest paths.
    #[inline(always)]
    pub(crate) fn remove_here(
        &mut self,
        queues: &mut ExactQueues,
        entry: EntryRef<'_, Hr>,
    ) -> bool {
        let Some(bucketed) = self.open(entry) else {
            return false;
        };
        let left = bucketed.return_to(&mut queues[NEAR].tree);
        self.note_left(left);
        true
    }

    /// Removes a timer for good. Returns the guarded contents of the timer.
    ///
    /// # Errors
    ///
    /// The timer, with nothing done, if it is not in the far wheel.
    #[inline(always)]
    pub(crate) fn end<'v, M>(
        &mut self,
        entry: Dropping<'v, Entry<Hr, M>>,
    ) -> End<'v, Entry<Hr, M>, M::Guarded>
    where
        M: Member<Hr> + Send + 'static,
    {
        let ((guarded, left), ended) = self.buckets.end(entry)?;
        self.note_left(left);
        Ok((guarded, ended))
    }

    /// Moves the timers out of a slot at `now`; the slot is due at `due`. The module documentation describes their
    /// destinations.
    fn empty(
        &mut self,
        queues: &mut ExactQueues,
        (slot, due): (Slot, FarTick),
        now: FarTick,
        budget: &mut u32,
    ) -> Emptied {
        let list = slot.number();
        let clock = self.pending_map.clock();
        let is_over = due.0.saturating_add(granularity(slot.level())) <= now.0
            // What is beyond the range is enqueued again, and keeps its order if the last goes first.
            && slot.level() + 1 < LEVELS;
        let opening = Opening {
            slot,
            due,
            clock,
            is_last: due > clock || slot.level() == 0 || is_over,
        };
        loop {
            let buckets = &mut self.buckets;
            let bucketed = if opening.is_last {
                buckets.open_first(list)
            } else {
                buckets.open_last(list)
            };
            let Some(mut bucketed) = bucketed else {
                return Emptied::Whole;
            };
            if *budget == 0 {
                return Emptied::Part;
            }
            *budget -= 1;
            let head = *bucketed.head();
            let deadline = head.deadline();
            let way = way_out(opening, filed_by(head));
            let left = leave(bucketed, way, &mut queues[NEAR].tree, deadline);
            self.after_leaving(queues, left, way, deadline);
        }
    }

    /// Empties the slots that are due at `now`. Returns false if more timers are due than one interrupt may cascade.
    ///
    /// The timers that may fire at `now` are in the trees afterwards.
    #[inline]
    pub(crate) fn cascade(&mut self, queues: &mut ExactQueues, now: Instant) -> bool {
        !EXISTS || self.buckets.is_empty() || self.cascade_some(queues, now)
    }

    fn cascade_some(&mut self, queues: &mut ExactQueues, now: Instant) -> bool {
        let unit = unit_of(now.as_nanos());
        let mut budget = CASCADE_MAX;
        let mut is_all = true;
        let mut gathering = Gathering::new(&queues[NEAR].tree);
        while let Some((slot, due)) = self.pending_map.first_slot(unit)
            && due <= unit
        {
            self.pending_map.forward(unit);
            let emptied = match self.gather(slot, Deadline::new(now), &mut gathering, &mut budget) {
                Emptied::Whole if self.pending_map.is_occupied(slot) => {
                    self.empty(queues, (slot, due), unit, &mut budget)
                }
                emptied => emptied,
            };
            if matches!(emptied, Emptied::Part) {
                is_all = false;
                break;
            }
        }
        if is_all {
            self.pending_map.forward(unit);
        }
        if !gathering.is_empty() {
            let near = &mut queues[NEAR].tree;
            near.receive(gathering);
            if let Some(first) = near.first_key() {
                queues.after_insertion(NEAR, true, first);
            }
        }
        is_all
    }

    /// Removes the timers that are due at `now` from a slot. They fire next, one after the other, and need not be
    /// sorted into the tree. Returns [`Emptied::Whole`] if the rest of the slot may be emptied now. That is so if all
    /// timers of the slot were examined, or if no timer waits for [`receive`](Tree::receive). Otherwise a due timer in
    /// the rest could overtake the waiting timers.
    fn gather(
        &mut self,
        slot: Slot,
        now: Deadline,
        gathering: &mut Gathering<Hr>,
        budget: &mut u32,
    ) -> Emptied {
        let key_of = |head: &ExpiryRange| Some(head.deadline()).filter(|deadline| *deadline <= now);
        let gathered = self
            .buckets
            .gather(slot.number(), *budget, gathering, key_of);
        *budget -= gathered.count;
        self.note_left(gathered.left);
        if gathered.is_whole || gathering.is_empty() {
            Emptied::Whole
        } else {
            Emptied::Part
        }
    }

    /// Empties the slots that are due before all timers in the trees except `excluded`, so that the trees hold the
    /// first deadline of all. Returns [`Instant::FOREVER`], or the due time of a slot that holds too many timers to be
    /// emptied. In the second case the first deadline is not before the returned time.
    #[inline]
    pub(crate) fn cascade_next(
        &mut self,
        queues: &mut ExactQueues,
        counted: u8,
        excluded: usize,
    ) -> Instant {
        if !EXISTS || self.buckets.is_empty() {
            return Instant::FOREVER;
        }
        self.cascade_some_next(queues, counted, excluded)
    }

    fn cascade_some_next(
        &mut self,
        queues: &mut ExactQueues,
        counted: u8,
        excluded: usize,
    ) -> Instant {
        let mut budget = OPEN_MAX;
        loop {
            let first = queues.minimum_without(counted, excluded);
            let clock = self.pending_map.clock();
            let Some((slot, due)) = self.pending_map.first_slot(clock) else {
                return Instant::FOREVER;
            };
            if instant_of(due) >= first {
                return Instant::FOREVER;
            }
            if self.overfull == Some(due) {
                return instant_of(due);
            }
            if matches!(
                self.empty(queues, (slot, due), clock, &mut budget),
                Emptied::Part
            ) {
                self.overfull = Some(due);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
