//! What the lock of a base protects.

use core::mem::MaybeUninit;

use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::entry::EntryRef;
use tickless_link::id::Key;
use tickless_link::tree::Tree;

use crate::base::cpu_base::IDENTITIES;
use crate::base::stats::Stats;
use crate::clock::{Offsets, SetSequence};
use crate::event::EventDevice;
use crate::exact::far_wheel::Far;
use crate::exact::queues::{ClockBase, QUEUES, REFILES_MAX, bits};
use crate::mutant;
use crate::time::{Clock, Deadline, Instant, Offset};
use crate::wheel::cpu_wheel::WheelBase;
use crate::wheel::family::Kind;

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

impl BaseState {
    pub(super) fn emplace(
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
