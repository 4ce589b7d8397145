//! Questions about timers and CPUs. None changes when anything fires; those about the next event may file timers
//! again that were filed too early, and sort far ones.

use core::pin::Pin;

use tickless_link::entry::EntryRef;
use tickless_link::id::QueueId;

use super::base::{self, BaseState, Held};
use super::start::opened;
use super::timer::{Expired, Hr, HrTimer, Restart};
use super::{CpuBase, Stats, Timers};
use crate::clock::SetSequence;
use crate::platform::{CpuId, Platform};
use crate::time::{ClockId, Instant, Offset};

impl<P: Platform> Timers<P> {
    /// The next event of `cpu`, over the queues of both stages; `FOREVER` if nothing is queued.
    ///
    /// Far timers may be sorted for the answer, or all be looked at if too many come first together; nothing else
    /// changes. While the soft stage is pending its timers do not count (spec Q-20).
    pub fn next_event(&self, cpu: CpuId) -> Instant {
        self.next_event_except(cpu, 0)
    }

    /// The next event of `cpu` as it would be without `timer` (spec 3.7).
    ///
    /// What idle code asks before it stops the tick: how long could this CPU sleep?
    pub fn next_event_without<F, C>(&self, cpu: CpuId, timer: Pin<&HrTimer<F, C>>) -> Instant
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        self.next_event_except(cpu, timer.erase().address())
    }

    fn next_event_except(&self, cpu: CpuId, excluded: usize) -> Instant {
        let Some(base) = self.platform.base(cpu) else {
            return Instant::FOREVER;
        };
        let mut held = Held::lock(self, base, self.platform.this_cpu());
        let crowded = held.state.bring_near(excluded);
        let mask = if held.state.soft_pending {
            base::HARD
        } else {
            base::HARD | base::SOFT
        };
        let mut first = minimum_without(&held.state, mask, excluded);
        if crowded < first {
            let offset = held.state.queues[super::far::NEAR].offset;
            held.state.far.shelf().for_each(|_, _, head| {
                first = first.min(offset.to_monotonic(head.deadline()));
                true
            });
        }
        first.not_negative()
    }

    /// The deadline of `timer`, if it is queued.
    pub fn deadline<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> Option<Instant<C>>
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        let entry = timer.erase();
        if !entry.state().is_queued() {
            return None;
        }
        let mut held = self.lock_base_of(entry, self.platform.this_cpu());
        let mut slot = opened(&mut held, entry);
        slot.state()
            .is_queued()
            .then(|| slot.head().deadline().instant())
    }

    /// The CPU that `timer` is on, if it ever was on one; for tests and dumps, out of date when it arrives.
    pub fn cpu_of<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> Option<CpuId>
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        match timer.erase().owner() {
            tickless_link::entry::Owner::Queue(id) => self.owning_base(id).map(CpuBase::cpu),
            _ => None,
        }
    }

    /// The identity of `timer` in traces and dumps: its address, never followed.
    pub fn id_of<F, C>(&self, timer: Pin<&HrTimer<F, C>>) -> usize
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        timer.erase().address()
    }

    /// What the clock `C` shows now.
    pub fn now<C: ClockId>(&self) -> Instant<C> {
        let (now, offsets) = self.platform.now_and_offsets(SetSequence::UNSEEN);
        let offset = offsets.map_or(Offset::NONE, |(_, offsets)| offsets.of(C::CLOCK));
        offset.shown_at(now).instant()
    }

    /// Whether the last interrupt of `cpu` gave up, so that its device fires later than its first timer (spec IRQ-3).
    pub fn is_backing_off(&self, cpu: CpuId) -> bool {
        let Some(base) = self.platform.base(cpu) else {
            return false;
        };
        Held::lock(self, base, self.platform.this_cpu()).state.hang
    }

    /// What `cpu` has counted so far.
    pub fn stats(&self, cpu: CpuId) -> Stats {
        let Some(base) = self.platform.base(cpu) else {
            return Stats::default();
        };
        Held::lock(self, base, self.platform.this_cpu()).state.stats
    }

    /// How many of the [pending](Timers::pending) timers of `cpu` are sorted; the others are far away.
    pub fn sorted(&self, cpu: CpuId) -> usize {
        let Some(base) = self.platform.base(cpu) else {
            return 0;
        };
        let held = Held::lock(self, base, self.platform.this_cpu());
        held.state.queues.iter().map(|queue| queue.tree.len()).sum()
    }

    /// The number of timers queued on `cpu`.
    pub fn pending(&self, cpu: CpuId) -> usize {
        let Some(base) = self.platform.base(cpu) else {
            return 0;
        };
        let held = Held::lock(self, base, self.platform.this_cpu());
        let near: usize = held.state.queues.iter().map(|queue| queue.tree.len()).sum();
        near + held.state.far.shelf().len()
    }

    /// The base that a queue's identity names, if it is one of this system.
    pub(crate) fn owning_base(&self, id: QueueId) -> Option<&CpuBase<P>> {
        if id.realm() != self.realm.id() {
            return None;
        }
        u32::try_from(id.index() / base::IDENTITIES)
            .ok()
            .and_then(|cpu| self.platform.base(CpuId(cpu)))
    }

    /// Checks every rule that must hold for `cpu` while its lock is free (spec 4.7), walking all its queues.
    ///
    /// # Panics
    ///
    /// When a rule is broken, which is a bug in this crate.
    pub fn assert_valid(&self, cpu: CpuId) {
        let Some(base) = self.platform.base(cpu) else {
            return;
        };
        let held = Held::lock(self, base, self.platform.this_cpu());
        for (index, queue) in held.state.queues.iter().enumerate() {
            queue.tree.assert_valid();
            let first = queue.tree.first_key();
            assert!(
                Some(queue.first_deadline) == first
                    || (first.is_none() && queue.first_deadline == crate::time::Deadline::FOREVER),
                "INV-6: the cached first deadline of queue {index} is the first key"
            );
            assert!(
                (held.state.active & (1 << index) != 0) == first.is_some(),
                "INV-6: bit {index} of the active mask says whether the queue is empty"
            );
        }
        held.state.far.shelf().assert_valid();
        // Relaxed: written under the lock, which is held.
        crate::wheel::assert_valid(&held.state, |kind| {
            base.wheel_due[kind as usize].load(tickless_link::sync::Ordering::Relaxed)
        });
        match held.state.deferred {
            base::DeferredRearm::Clear => {}
            _ => assert!(
                base.armed().is_forever(),
                "INV-4: nothing counts as armed while a rearm is owed"
            ),
        }
        // After a jump of the clocks the CPU evaluates when it carries out the kick.
        let armed_counts = held.state.deferred == base::DeferredRearm::Clear
            && base.is_online()
            && !held.state.hang
            && !base.is_kicked();
        if armed_counts {
            let mask = if held.state.soft_pending {
                base::HARD
            } else {
                base::HARD | base::SOFT
            };
            let (first, _) = held.state.minimum(mask);
            held.state.far.shelf().for_each(|_, _, head| {
                assert!(
                    base.armed().as_nanos() <= head.deadline().as_nanos(),
                    "INV-1: never armed later than a far timer"
                );
                true
            });
            assert!(
                base.armed() <= first.not_negative(),
                "INV-1: never armed later than the first timer"
            );
            if !held.state.soft_pending {
                let (soft, _) = held.state.minimum(base::SOFT);
                assert!(
                    held.state.soft_next <= soft.not_negative(),
                    "the soft stage of {cpu:?} is raised at {:?}, too late for {soft:?}",
                    held.state.soft_next
                );
            }
        }
    }
}

/// As [`BaseState::minimum`], with one timer left out.
pub(super) fn minimum_without(state: &BaseState, mask: u8, excluded: usize) -> Instant {
    let mut best = Instant::FOREVER;
    for index in base::bits(state.active & mask) {
        let queue = &state.queues[index];
        // The cached first is not later than what is behind it, so it rejects the whole queue (spec Q-24).
        let event = queue.offset.to_monotonic(queue.first_deadline);
        if event >= best {
            continue;
        }
        if queue.tree.first().map(EntryRef::<'_, Hr>::address) != Some(excluded) {
            best = event;
        } else {
            // Those behind it may be filed earlier than they are due, so all count that are filed before the best.
            queue.tree.for_each(1, |_, filed, head| {
                if queue.offset.to_monotonic(filed) >= best {
                    return false;
                }
                best = best.min(queue.offset.to_monotonic(head.deadline()));
                true
            });
        }
    }
    best
}
