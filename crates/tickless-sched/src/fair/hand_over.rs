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
use tickless_link::tree::{Slot, Tree};

use super::entity::Fair;
use super::virtual_time::{Average, Virtual, halfway};
use super::{Current, Entity, FairQueue, Luggage, Pick, RunTime, Share, Weight, capped};

impl<T: Send + 'static> FairQueue<T> {
    /// [Enqueues](Self::enqueue) `to`, which woke up at `woken`, has `from`, the task that runs, [sleep](Self::sleep)
    /// at `now`, and [picks](Self::pick): in one step, where `to` is the only task that waits then. It runs from here
    /// on. Nothing is handed out for it: it comes with nothing either.
    ///
    /// Without `from` the task that runs has finished, if there is one.
    ///
    /// Where it is no such case `false` comes back, no task has moved, and the three methods say what there is to be
    /// said: other tasks wait or sleep in debt, `from` is not the task that runs, `to` is, or another queue has one of
    /// them.
    ///
    /// # Cost
    ///
    /// O(1).
    // Always: who calls knows whether there is a `from`, and passes the CPU on with each call.
    #[inline(always)]
    #[must_use]
    pub fn hand_over(
        &mut self,
        from: Option<Pin<&Entity<T>>>,
        to: Pin<&Entity<T>>,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let to = to.linked().erase();
        let sleeps = match self.tree.len() {
            0 => false,
            // Whether that is the one that woke up is asked where it is opened.
            1 if self.delayed == 1 => true,
            _ => return false,
        };
        let from = from.map(|from| from.linked().erase());
        let is_simple = match from {
            // Two calls, each of which is inlined with what it knows.
            Some(from) if sleeps => self.hand_over_evenly(from, to, true, woken, now),
            Some(from) => self.hand_over_evenly(from, to, false, woken, now),
            None => self.current.is_none() && self.begin_alone(to, sleeps, now),
        };
        is_simple || self.hand_over_unevenly(from, to, woken, now)
    }

    /// As [`hand_over`](Self::hand_over), among tasks of any weight. Where it is no such case no task has moved, and
    /// `false` comes back.
    #[inline(never)]
    fn hand_over_unevenly(
        &mut self,
        from: Option<EntryRef<'_, Fair<T>>>,
        to: EntryRef<'_, Fair<T>>,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let sleeps = !self.tree.is_empty();
        if let Some(from) = from
            && (self.current.is_none() || adopt_picked(&mut self.tree, from, self.last).is_none())
        {
            return false;
        }
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
            return false;
        };
        self.charge(now);
        match (from, self.current.take()) {
            (Some(from), Some(current)) => _ = self.lay_down(from, current.share),
            (_, Some(Current { share, .. })) => self.average.remove(share.weight, share.vruntime),
            (_, None) => {}
        }
        self.begin(share, pick);
        true
    }

    /// As [`hand_over`](Self::hand_over), among two of unit weight. Where it is no such case nothing has happened, and
    /// `false` comes back.
    #[inline(always)]
    fn hand_over_evenly(
        &mut self,
        from: EntryRef<'_, Fair<T>>,
        to: EntryRef<'_, Fair<T>>,
        sleeps: bool,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        // What `charge` cuts off, and virtual times that it finds out of reach.
        if current.share.weight != Weight::UNIT
            || !self.average.is_near(current.share.vruntime)
            || woken < self.accounted
            || now < woken
        {
            return false;
        }
        let before = woken.as_nanos() - self.accounted.as_nanos();
        let served = now.as_nanos() - self.accounted.as_nanos();
        if served >> 42 != 0 {
            return false;
        }
        let Some(mut slot) = adopt_picked(&mut self.tree, from, self.last) else {
            return false;
        };
        // What stands in the entity of the one that runs counts only when it sleeps.
        let head = slot.head();
        head.share = current.share;
        head.share.serve_evenly(before, served);
        let (slept_at, deadline) = (head.share.vruntime, head.share.deadline);
        let other = current.share.vruntime.after(before.cast_signed());
        let pick = Pick::behind(self.last.queue, self.last.number.get());
        let is_picked = if sleeps {
            wake_evenly(&mut self.tree, to, other, pick, current)
        } else {
            place_evenly(&mut self.tree, to, other, pick, current)
        };
        let Some(mut slot) = self.tree.open(from) else {
            unreachable!("it is adopted")
        };
        if !is_picked {
            slot.let_go();
            return false;
        }
        self.last = pick;
        self.accounted = now;
        let stands = current.share.vruntime;
        let lag = halfway(slept_at, stands).since(slept_at);
        if lag < 0 && self.rules.delay_dequeue && !mutant!("sched-debt-left-by-sleeping") {
            slot.head().is_delayed = true;
            self.delayed = 1;
            self.average = Average::of_pair(stands, slept_at);
            if sleeps {
                slot.insert_in_place_of(to, deadline);
            } else {
                slot.insert(deadline);
            }
            return true;
        }
        leave_evenly(slot, lag);
        self.delayed = 0;
        self.average = Average::of_one(Weight::UNIT, stands);
        if sleeps {
            self.let_sleeper_go(to);
        }
        true
    }

    /// Takes the one that slept out of the tree: it is picked, and carries nothing.
    #[inline(never)]
    fn let_sleeper_go(&mut self, entry: EntryRef<'_, Fair<T>>) {
        if let Some(slot) = self.tree.open(entry) {
            let _nothing = slot.release_expired();
        }
    }

    /// Wakes or places, and picks, the only task that competes: none runs. Where a queue has it nothing has happened,
    /// and `false` comes back.
    #[inline(never)]
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

    /// Wakes the one that sleeps in debt, the only one in the tree, and picks it.
    fn take_sleeper(&mut self, entry: EntryRef<'_, Fair<T>>, pick: Pick) -> Option<Share> {
        let average = self.average.settle();
        let mut slot = self.tree.open(entry)?;
        let head = slot.head();
        if !head.is_delayed {
            return None;
        }
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
        if self.current.is_some() && self.last.took(head.pick) {
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

/// As [`take_sleeper`](FairQueue::take_sleeper), of unit weight beside one that stands at `other`; the average is the
/// caller's, and so is taking it out of the tree, where it may stay until then, as the only one. It runs from here on,
/// as `current`. None of another weight is taken.
#[inline(always)]
fn wake_evenly<T: Send + 'static>(
    tree: &mut Tree<Fair<T>>,
    entry: EntryRef<'_, Fair<T>>,
    other: Virtual,
    pick: Pick,
    current: &mut Current,
) -> bool {
    let Some(mut slot) = tree.open(entry) else {
        return false;
    };
    let head = slot.head();
    if !head.is_delayed || head.share.weight != Weight::UNIT {
        return false;
    }
    let average = halfway(other, head.share.vruntime);
    if head.is_eligible(average) && !mutant!("sched-paid-sleeper-is-owed") {
        head.share.vruntime = other;
        head.share.open_request();
    }
    *current = Current::of(head.hand_out(pick));
    true
}

/// As [`take_newcomer`](FairQueue::take_newcomer), beside one of unit weight that stands at `other`; the average is the
/// caller's. It runs from here on, as `current`. None of another weight is taken.
#[inline(always)]
fn place_evenly<T: Send + 'static>(
    tree: &mut Tree<Fair<T>>,
    entry: EntryRef<'_, Fair<T>>,
    other: Virtual,
    pick: Pick,
    current: &mut Current,
) -> bool {
    let Some(mut slot) = tree.adopt(entry) else {
        return false;
    };
    let head = slot.head();
    let is_even = head.share.weight == Weight::UNIT;
    if is_even {
        // It pulls the average halfway towards itself, as `Average::place` has it.
        let pulls = i64::from(!mutant!("sched-placed-without-own-weight"));
        head.unpack_at(other.after(-(head.luggage.lag << pulls)));
        *current = Current::of(head.hand_out(pick));
    }
    slot.let_go();
    is_even
}

/// As [`FairQueue::lay_down`] of one that owes nothing, whose account is written; the average is the caller's.
#[inline(always)]
fn leave_evenly<T: Send + 'static>(mut slot: Slot<'_, '_, Fair<T>>, lag: i64) {
    let head = slot.head();
    head.luggage = Luggage {
        lag: capped(lag, head.share),
        rest: None,
    };
    slot.let_go();
}

/// Adopts the entity of the task that `pick` took; `None` if it is not that one.
#[inline(always)]
fn adopt_picked<'t, 'e, T: Send + 'static>(
    tree: &'t mut Tree<Fair<T>>,
    entry: EntryRef<'e, Fair<T>>,
    pick: Pick,
) -> Option<Slot<'t, 'e, Fair<T>>> {
    let mut slot = tree.adopt(entry)?;
    if pick.took(slot.head().pick) {
        return Some(slot);
    }
    slot.let_go();
    None
}
