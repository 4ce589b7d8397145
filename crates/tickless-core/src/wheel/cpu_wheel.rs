//! One wheel of a CPU: its enqueued timers, and its pending timers, which a pass has taken out of their slots and not
//! fired yet.

use core::mem::MaybeUninit;

use tickless_link::buckets::{BucketArray, BucketState, Bucketed, RUNNERS};
use tickless_link::emplace::Emplaced;
use tickless_link::entry::EntryRef;
use tickless_link::id::Key;
use tickless_link::{LastThread, emplace};

use crate::cpu::CpuId;
use crate::slots::geometry::{DueSlot, LEVELS_MAX, Slot, Tick};
use crate::slots::pending_map::{FAR, PendingMap};
use crate::wheel::family::Coarse;

/// Number of levels of the wheels of a CPU, which reach 12 days of milliseconds. Models have two levels, because loom's
/// stacks are small.
pub(crate) const LEVELS: usize = if cfg!(loom) { 2 } else { LEVELS_MAX };

/// The thread that executes a pass, in one of the wheel's places for passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassBy {
    Free,
    /// The thread of a CPU.
    Cpu(CpuId),
    /// A thread that is not, or is no longer, a CPU.
    Stranger,
}

/// The place for a pass by the CPU that owns the wheel. All other threads take a later place.
const OWN: usize = 0;

#[derive(Debug)]
pub(crate) struct CpuWheel {
    pub(crate) buckets: BucketArray<Coarse, LEVELS>,
    pub(crate) pending_map: PendingMap<LEVELS>,
    /// The running passes; the lock is free while they execute callbacks. Several passes may run at once. The next pass
    /// takes over the timers that an earlier pass has not begun, so that a thread that is preempted, or is delayed in a
    /// callback, delays only one timer.
    passes: [PassBy; RUNNERS],
    /// One bit for each level, set if the level has a pending list that may still hold timers.
    pending_levels: u16,
    /// The tick at which the pending lists were due.
    pending_due: Tick,
}

/// The present tick, in the form in which the caller that starts a timer has it: as a value, or as a function.
pub trait Now: Copy + sealed::CatchUp {}

impl Now for Tick {}

/// A function that returns the present tick. The function is called once in a
/// [moment](crate::platform::Platform::moment) of the host, so later starts in the moment use the tick of that call.
#[derive(Clone, Copy, Debug)]
pub struct AskedFor<F>(pub F);

impl<F: Fn() -> Tick + Copy> Now for AskedFor<F> {}

pub(crate) mod sealed {
    use super::{AskedFor, LEVELS};
    use crate::slots::geometry::Tick;
    use crate::slots::moment::Moments;
    use crate::slots::pending_map::PendingMap;

    pub trait CatchUp {
        /// Brings the pending map of a wheel up to date. Returns the tick in progress, or, in the fast case, the clock
        /// of the map.
        fn catch_up<P: Moments>(self, map: &mut PendingMap<LEVELS>, platform: &P) -> Tick;
    }

    impl CatchUp for Tick {
        #[inline(always)]
        fn catch_up<P: Moments>(self, map: &mut PendingMap<LEVELS>, _platform: &P) -> Tick {
            map.forward(self);
            self
        }
    }

    impl<F: Fn() -> Tick> CatchUp for AskedFor<F> {
        #[inline(always)]
        fn catch_up<P: Moments>(self, map: &mut PendingMap<LEVELS>, platform: &P) -> Tick {
            match platform.moment() {
                Some(moment) if map.is_of_moment(moment) => map.clock(),
                Some(_) => ask(map, platform, self.0),
                None => self.0().catch_up(map, platform),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn ask<P: Moments>(map: &mut PendingMap<LEVELS>, platform: &P, now: impl Fn() -> Tick) -> Tick {
        // Before the tick itself: should another moment come in between, it is asked for again.
        map.note_moment(platform.recent().moment);
        now().catch_up(map, platform)
    }
}

/// Facts about a timer that was enqueued on a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filed {
    /// The tick at which the slot of the timer is due.
    pub(crate) due: Tick,
    /// True if the timer is due before all others. In that case a CPU that sleeps until the first timer has to be
    /// kicked.
    pub(crate) is_first: bool,
}

impl CpuWheel {
    /// The expiry that an empty wheel [publishes](Self::next_expiry).
    pub(crate) const NEVER: u64 = u64::MAX;

    pub(crate) fn emplace(slot: &mut MaybeUninit<Self>, key: Key) -> Emplaced<'_, Self> {
        emplace!(slot => Self {
            pending_map: PendingMap::new(Tick(0)),
            passes: [PassBy::Free; RUNNERS],
            pending_levels: 0,
            pending_due: Tick(0);
            buckets <- |slot| BucketArray::emplace(slot, key),
        })
    }

    /// Returns a tick before which no timer is due. It is [`FAR`] ticks ahead when the wheel is empty.
    #[inline]
    pub(crate) fn first_due(&self) -> Tick {
        if self.pending_levels == 0 {
            self.pending_map.first_due()
        } else {
            self.pending_due
        }
    }

    /// Returns the next expiry for readers without the lock. It is [`NEVER`](Self::NEVER) for an empty wheel.
    #[inline]
    pub(crate) fn next_expiry(&self) -> u64 {
        if self.pending_map.has_timers() || self.pending_levels != 0 {
            self.first_due().0
        } else {
            Self::NEVER
        }
    }

    /// Returns the exact tick at which the first timer is due, for a CPU that is about to sleep until that tick; `None`
    /// if the wheel has no timer.
    pub(crate) fn settled(&mut self, now: Tick) -> Option<Tick> {
        if self.pending_level().is_some() {
            return Some(self.pending_due);
        }
        self.pending_map.settle(now);
        self.pending_map
            .has_timers()
            .then_some(self.pending_map.first_due())
    }

    /// Returns the coarsest level with a pending list that holds a timer; `None` if no timer is pending.
    #[inline]
    pub(crate) fn pending_level(&mut self) -> Option<usize> {
        while self.pending_levels != 0 {
            let level = self.pending_levels.ilog2() as usize;
            if self.buckets.has_pending(level) {
                return Some(level);
            }
            self.pending_levels &= !(1 << level);
        }
        None
    }

    #[inline]
    pub(crate) const fn pending_due(&self) -> Tick {
        self.pending_due
    }

    /// Makes the lists of all slots that are due first pending, if they are due at `now` or before. Returns `false` if
    /// no slot is due. The caller guarantees that no timer is pending.
    ///
    /// All slots of the tick become pending at once, so a timer that a callback enqueues afterwards is due later.
    pub(crate) fn take_due(&mut self, now: Tick) -> bool {
        let Some(due) = self.pending_map.take_due(now) else {
            return false;
        };
        for slot in due.iter() {
            self.buckets.move_to_pending(slot.number());
            self.pending_levels |= 1 << slot.level();
        }
        self.pending_due = due.tick;
        true
    }

    /// Enqueues the first timer of the pending list of `level` again, because a pass at `now` cannot fire it. For every
    /// observer the timer stays queued.
    ///
    /// The timer was pushed out, or was beyond the range of the wheel, or is due again while its callback runs in
    /// another pass. In the last case passes check the timer once a tick.
    pub(crate) fn requeue_first_pending(&mut self, level: usize, now: Tick) {
        let Some(mut bucketed) = self.buckets.open_first_pending(level) else {
            return;
        };
        let expiry = bucketed.entry().shared().get();
        let runs = bucketed.state().is_running();
        if runs || expiry >= now {
            self.pending_map.forward(now);
        }
        // Else the pass is late, and fires it in its turn.
        let place = self.pending_map.place(if runs { now } else { expiry });
        let left = bucketed.move_to(place.slot.number());
        self.note_left(left);
        self.note_enqueued(place);
    }

    /// Opens an entry of this wheel, whose base is locked.
    #[inline]
    pub(crate) fn opened<'s, 'e>(
        &'s mut self,
        entry: EntryRef<'e, Coarse>,
    ) -> Bucketed<'s, 'e, Coarse, LEVELS> {
        self.buckets
            .open(entry)
            .expect("the wheel that owns the timer is locked")
    }

    #[inline(always)]
    pub(crate) fn note_left(&mut self, left: BucketState) {
        if let BucketState::Vacated(number) = left {
            self.pending_map.vacate(Slot::numbered(number));
        }
    }

    /// Enqueues a timer of this wheel, queued or idle, at `place`, which the pending map chose at its present clock.
    #[inline]
    pub(crate) fn enqueue(&mut self, entry: EntryRef<'_, Coarse>, place: DueSlot) -> Filed {
        let number = place.slot.number();
        let mut bucketed = self.opened(entry);
        if bucketed.state().is_queued() {
            let left = bucketed.move_to(number);
            self.note_left(left);
        } else {
            bucketed.insert(number);
        }
        self.note_enqueued(place)
    }

    #[inline]
    pub(crate) fn note_enqueued(&mut self, place: DueSlot) -> Filed {
        Filed {
            due: place.due,
            is_first: self.pending_map.enqueue(place),
        }
    }

    /// Passes any timer of the wheel to `take`, which must remove it. Returns `false` if the wheel has no timer.
    pub(crate) fn take_any(&mut self, take: impl FnOnce(Bucketed<'_, '_, Coarse, LEVELS>)) -> bool {
        for level in 0..LEVELS {
            if let Some(bucketed) = self.buckets.open_first_pending(level) {
                take(bucketed);
                return true;
            }
            for list in level * tickless_link::buckets::BUCKETS
                ..(level + 1) * tickless_link::buckets::BUCKETS
            {
                if let Some(bucketed) = self.buckets.open_first(list) {
                    take(bucketed);
                    return true;
                }
            }
        }
        false
    }

    /// Resets the wheel to the state of a new wheel at `now`, if the wheel is empty (R09).
    pub(crate) fn restart(&mut self, now: Tick) {
        if self.buckets.is_empty() {
            self.pending_map = PendingMap::new(now);
            self.pending_levels = 0;
        } else {
            // The CPU turned round on its way down: its timers are here still (B55).
            self.pending_map.forward(now);
        }
    }

    /// Begins a pass by the CPU `by` over this wheel of `owner`, and returns the place of the pass. Returns `None` if a
    /// pass by `by` runs already, further down the caller's stack, or if all places are taken. The place of the owner
    /// is never taken by another CPU.
    pub(crate) fn begin_pass(&mut self, owner: CpuId, by: Option<CpuId>) -> Option<usize> {
        let pass = by.map_or(PassBy::Stranger, PassBy::Cpu);
        if self.passes.contains(&pass) {
            return None;
        }
        let place = if by == Some(owner) {
            OWN
        } else {
            let others = &self.passes[OWN + 1..];
            OWN + 1 + others.iter().position(|pass| *pass == PassBy::Free)?
        };
        self.passes[place] = pass;
        Some(place)
    }

    pub(crate) fn end_pass(&mut self, place: usize) {
        self.passes[place] = PassBy::Free;
    }

    pub(crate) fn has_pass(&self) -> bool {
        self.passes != [PassBy::Free; RUNNERS]
    }

    /// Ends the passes of threads that no longer exist, which are all passes except the pass of `own`, and calls
    /// `ended` with their places. The next pass fires the pending timers of these passes.
    pub(crate) fn abandon(
        &mut self,
        others_are_gone: &LastThread,
        own: Option<CpuId>,
        mut ended: impl FnMut(usize),
    ) {
        for place in 0..RUNNERS {
            if own.is_none_or(|own| self.passes[place] != PassBy::Cpu(own)) {
                self.buckets.abandon_running(place, others_are_gone);
                self.passes[place] = PassBy::Free;
                ended(place);
            }
        }
    }

    pub(crate) fn discard(&mut self) {
        while self.take_any(|mut bucketed| {
            let _left = bucketed.remove();
        }) {}
        let clock = self.pending_map.clock();
        self.restart(clock);
    }

    /// Checks every rule that must hold while the lock is free, by a walk through the whole wheel.
    pub(crate) fn assert_valid(&self) {
        self.buckets.assert_valid();
        let mut occupied = [0_u64; LEVELS];
        let mut levels_pending = 0_u16;
        // Those that are pending come first; a list that is pending has the number of one that may be in use again, so
        // they are told apart by their count.
        let mut remaining_pending = self.count_pending();
        self.buckets.for_each(|_, number, ()| {
            let slot = Slot::numbered(number);
            if remaining_pending > 0 {
                remaining_pending -= 1;
                levels_pending |= 1 << slot.level();
            } else {
                occupied[slot.level()] |= 1 << slot.index();
            }
            true
        });
        assert!(
            levels_pending & !self.pending_levels == 0,
            "what is pending is known to the next pass"
        );
        for (level, bits) in occupied.into_iter().enumerate() {
            for index in 0..64 {
                let slot = Slot::numbered(level * 64 + index);
                assert!(
                    self.pending_map.is_occupied(slot) == (bits & (1 << index) != 0),
                    "WI1: a bit is set exactly while its slot holds something ({slot:?})"
                );
            }
        }
        assert!(
            self.pending_map.has_timers() || occupied == [0; LEVELS],
            "a wheel that holds something knows it"
        );
        assert!(
            !self.pending_map.has_timers()
                || self.pending_map.clock() <= self.pending_map.first_due(),
            "WI3: the clock is not past what is due"
        );
    }

    fn count_pending(&self) -> usize {
        self.buckets.pending_len()
    }
}

const _: () = assert!(FAR > 0, "an empty wheel is due later than now");

#[cfg(all(test, not(loom)))]
mod tests {
    use core::cell::Cell;

    use super::sealed::CatchUp;
    use super::*;
    use crate::slots::moment::ByHand;

    #[test]
    fn a_tick_is_asked_for_once_in_a_moment_and_always_without() {
        for (is_numbered, expected) in [(true, [10, 10, 20, 20]), (false, [10, 15, 20, 25])] {
            let (mut map, host) = (PendingMap::new(Tick(0)), ByHand::default());
            host.is_numbered.set(is_numbered);
            let now = Cell::new(Tick(0));
            for ((moment, tick), expected) in [(1, 10), (1, 15), (2, 20), (2, 25)]
                .into_iter()
                .zip(expected)
            {
                host.moment.set(Some(moment));
                now.set(Tick(tick));
                let known = AskedFor(|| now.get()).catch_up(&mut map, &host);
                assert_eq!((known, map.clock()), (Tick(expected), Tick(expected)));
            }
            // Who knows the tick is asked nothing.
            assert_eq!(Tick(30).catch_up(&mut map, &host), map.clock());
            host.moment.set(None);
            now.set(Tick(40));
            AskedFor(|| now.get()).catch_up(&mut map, &host);
            assert_eq!(map.clock(), Tick(40));
        }
    }
}
