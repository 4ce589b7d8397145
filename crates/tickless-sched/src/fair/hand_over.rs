//! A task that sleeps behind one that it woke: three steps at once.
//!
//! Two tasks that work by turns pass each other the CPU: the one that runs wakes the other and sleeps, and no third one
//! waits. Each of the three steps, to enqueue, to sleep and to pick, would link one of the two in the tree or take it
//! out, and the pick would search for what is known. Here the one that is woken is never linked, and the one that
//! sleeps is so only if it owes time, as the only one then.
//!
//! What comes of it is what the three steps would have come to, to the last nanosecond (`tests/hand_over.rs` compares):
//!
//! - The one that is woken is the only one that waits, so it is picked. Of two tasks at least one is eligible, and the
//!   one that sleeps in debt is not.
//! - A sleeper that has paid by now is let go first, and placed anew. That is the first thing that an enqueue does
//!   where no task waits.
//!
//! Where both have the unit weight, as most tasks do, the average lies halfway between them, so the sum that it is kept
//! by is not needed to find it: it is written down once, as it is behind the third step.

use core::pin::Pin;

use tickless_link::entry::EntryRef;
use tickless_link::mutant;

use super::entity::Fair;
use super::virtual_time::{Average, Virtual, halfway};
use super::{Current, Entity, FairQueue, Luggage, Pick, RunTime, Share, Weight, capped};

impl<T: Send + 'static> FairQueue<T> {
    /// [Enqueues](Self::enqueue) `to`, which woke up at `woken`, has `from`, the task that runs, [sleep](Self::sleep)
    /// at `now`, and [picks](Self::pick): in one step, where `to` is the only task that waits then. It runs from here
    /// on, and its item comes back.
    ///
    /// Without `from` the task that runs has finished, if there is one.
    ///
    /// # Errors
    ///
    /// Where it is no such case: other tasks wait or sleep in debt, `from` is not the task that runs, `to` is, or
    /// another queue has one of them. The item comes back, no task has moved, and the three methods say what there is
    /// to be said.
    ///
    /// # Cost
    ///
    /// O(1).
    pub fn hand_over(
        &mut self,
        from: Option<Pin<&Entity<T>>>,
        to: Pin<&Entity<T>>,
        item: T,
        woken: RunTime,
        now: RunTime,
    ) -> Result<T, T> {
        let to = to.linked().erase();
        let sleeps = match self.tree.len() {
            0 => false,
            1 if self.delayed == 1 && self.tree.open(to).is_some() => true,
            _ => return Err(item),
        };
        let from = from.map(|from| from.linked().erase());
        let is_simple = match from {
            Some(from) => self.hand_over_evenly(from, to, sleeps, woken, now),
            None => self.current.is_none() && self.begin_alone(to, sleeps, now),
        };
        if is_simple {
            return Ok(item);
        }
        let from = match from {
            Some(from) if !self.adopt_current(from) => return Err(item),
            from => from,
        };
        self.charge(woken);
        let pick = self.next_pick();
        let taken = if sleeps {
            self.take_sleeper(to, pick)
        } else {
            self.take_newcomer(to, pick)
        };
        let Some(share) = taken else {
            if let Some(slot) = from.and_then(|from| self.tree.open(from)) {
                slot.let_go();
            }
            return Err(item);
        };
        self.charge(now);
        match (from, self.current.take()) {
            (Some(from), Some(current)) => _ = self.lay_down(from, current.share),
            (_, Some(Current { share, .. })) => self.average.remove(share.weight, share.vruntime),
            (_, None) => {}
        }
        self.begin(share, pick);
        Ok(item)
    }

    /// As [`hand_over`](Self::hand_over), among two of unit weight. Where it is no such case nothing has happened, and
    /// `false` comes back.
    #[inline]
    fn hand_over_evenly(
        &mut self,
        from: EntryRef<'_, Fair<T>>,
        to: EntryRef<'_, Fair<T>>,
        sleeps: bool,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let Some(Current { mut share, .. }) = self.current else {
            return false;
        };
        let compete = 1 + u64::from(sleeps);
        if share.weight != Weight::UNIT || self.average.weight() != compete * Weight::UNIT.get() {
            return false;
        }
        let before = woken.saturating_since(self.accounted).as_nanos();
        let woken = self.accounted.max(woken);
        let behind = now.saturating_since(woken).as_nanos();
        // What `charge` cuts off, and virtual times that it finds out of reach.
        if (before | behind) >> 42 != 0
            || !self.average.is_near(share.vruntime)
            || !self.adopt_current(from)
        {
            return false;
        }
        share.serve_evenly(before);
        let pick = self.next_pick();
        let taken = if sleeps {
            self.wake_evenly(to, share.vruntime, pick)
        } else {
            self.place_evenly(to, share.vruntime, pick)
        };
        let Some(mut slot) = self.tree.open(from) else {
            unreachable!("it is adopted")
        };
        let Some(next) = taken else {
            slot.let_go();
            return false;
        };
        share.serve_evenly(behind);
        let lag = halfway(share.vruntime, next.vruntime).since(share.vruntime);
        let head = slot.head();
        head.share = share;
        let owes = lag < 0 && self.rules.delay_dequeue && !mutant!("sched-debt-left-by-sleeping");
        if owes {
            head.is_delayed = true;
            slot.insert(share.deadline);
        } else {
            head.luggage = Luggage {
                lag: capped(lag, share),
                rest: None,
            };
            slot.let_go();
        }
        self.delayed = usize::from(owes);
        self.average = Average::of_even(next.vruntime, owes.then_some(share.vruntime));
        self.accounted = woken.max(now);
        self.begin(next, pick);
        true
    }

    /// Wakes or places, and picks, the only task that competes: none runs. Where a queue has it nothing has happened,
    /// and `false` comes back.
    #[inline]
    fn begin_alone(&mut self, entry: EntryRef<'_, Fair<T>>, sleeps: bool, now: RunTime) -> bool {
        let pick = self.next_pick();
        let slot = if sleeps {
            self.tree.open(entry)
        } else {
            self.tree.adopt(entry)
        };
        let Some(mut slot) = slot else {
            return false;
        };
        let head = slot.head();
        if !sleeps {
            head.unpack(&self.average);
        } else if !mutant!("sched-paid-sleeper-is-owed") {
            // It is the average, so it has paid, and stays where it is.
            head.share.open_request();
        }
        let share = head.hand_out(pick);
        if sleeps {
            self.delayed = 0;
            let _nothing = slot.release_expired();
        } else {
            slot.let_go();
        }
        self.average = Average::of_one(share.weight, share.vruntime);
        self.accounted = self.accounted.max(now);
        self.begin(share, pick);
        true
    }

    /// As [`take_sleeper`](Self::take_sleeper), beside one that stands at `other`; the average is the caller's.
    #[inline]
    fn wake_evenly(
        &mut self,
        entry: EntryRef<'_, Fair<T>>,
        other: Virtual,
        pick: Pick,
    ) -> Option<Share> {
        let mut slot = self.tree.open(entry)?;
        let head = slot.head();
        let average = halfway(other, head.share.vruntime);
        if head.is_eligible(average) && !mutant!("sched-paid-sleeper-is-owed") {
            head.share.vruntime = other;
            head.share.open_request();
        }
        let share = head.hand_out(pick);
        let _nothing = slot.release_expired();
        Some(share)
    }

    /// As [`take_newcomer`](Self::take_newcomer), beside one that stands at `other`; the average is the caller's. None
    /// of another weight is taken.
    #[inline]
    fn place_evenly(
        &mut self,
        entry: EntryRef<'_, Fair<T>>,
        other: Virtual,
        pick: Pick,
    ) -> Option<Share> {
        let mut slot = self.tree.adopt(entry)?;
        let head = slot.head();
        if head.share.weight != Weight::UNIT {
            slot.let_go();
            return None;
        }
        // It pulls the average halfway towards itself, as `Average::place` has it.
        let pulls = i64::from(!mutant!("sched-placed-without-own-weight"));
        head.unpack_at(other.after(-(head.luggage.lag << pulls)));
        let share = head.hand_out(pick);
        slot.let_go();
        Some(share)
    }

    /// Adopts the entity of the task that runs; `false` if it is not that one.
    fn adopt_current(&mut self, entry: EntryRef<'_, Fair<T>>) -> bool {
        let Some(mut slot) = self.tree.adopt(entry) else {
            return false;
        };
        let pick = slot.head().pick;
        if pick.is_some() && pick == self.current.as_ref().map(|current| current.pick) {
            return true;
        }
        slot.let_go();
        false
    }

    /// Wakes the one that sleeps in debt, the only one in the tree, and picks it.
    fn take_sleeper(&mut self, entry: EntryRef<'_, Fair<T>>, pick: Pick) -> Option<Share> {
        let average = self.average.settle();
        let mut slot = self.tree.open(entry)?;
        let head = slot.head();
        if head.is_eligible(average) && !mutant!("sched-paid-sleeper-is-owed") {
            let (weight, before) = head.share.at();
            self.average.remove(weight, before);
            head.share.vruntime = self.average.place(weight, 0);
            head.share.open_request();
            self.average.add(weight, head.share.vruntime);
        }
        let share = head.hand_out(pick);
        self.delayed -= 1;
        let _nothing = slot.release_expired();
        Some(share)
    }

    /// Places a task that no queue has, and picks it; `None` if a queue has it, or it runs here.
    fn take_newcomer(&mut self, entry: EntryRef<'_, Fair<T>>, pick: Pick) -> Option<Share> {
        let mut slot = self.tree.adopt(entry)?;
        let head = slot.head();
        let current = self.current.as_ref().map(|current| current.pick);
        if head.pick.is_some() && head.pick == current {
            slot.let_go();
            return None;
        }
        head.unpack(&self.average);
        self.average.add(head.share.weight, head.share.vruntime);
        let share = head.hand_out(pick);
        slot.let_go();
        Some(share)
    }
}
