//! The hand-over of the CPU from a task that sleeps to the one that it woke: enqueue, sleep and pick in one step.
//!
//! Two tasks that work alternately pass the CPU to each other: the running task wakes the other and sleeps, and no
//! third task waits. Each of the three steps (enqueue, sleep, pick) would link one of the two tasks in the tree or
//! remove it, and the pick would search for a task that is known already. With a hand-over the woken task is never
//! linked. The sleeping task is linked only if it owes time, and is then the only task in the tree.
//!
//! The result equals the result of the three steps, to the last nanosecond (`tests/hand_over.rs` compares):
//!
//! - The woken task is the only one that waits, so it is picked. Of two tasks at least one is eligible, and the task
//!   that sleeps in debt is not.
//! - A sleeper that has paid its debt by now is first removed and then placed again. An enqueue does this first, too,
//!   where no task waits.
//!
//! If both tasks have the unit weight, as most tasks do, the average lies halfway between them and is found without the
//! sum from which it is usually computed. The sum is stored once, with its value after the third step.

use core::pin::Pin;

use tickless_link::entry::EntryRef;
use tickless_link::tree::{OwnedEntry, Tree};

use super::entity::Fair;
use super::virtual_time::{Average, Virtual, halfway};
use super::{Current, Entity, FairQueue, Luggage, Pick, RunTime, Share, Weight, capped};

impl<T: Send + 'static> FairQueue<T> {
    /// [Enqueues](Self::enqueue) `to`, which woke up at `woken`, lets `from`, the running task, [sleep](Self::sleep) at
    /// `now`, and [picks](Self::pick) `to`, all in one step. It does so only if `to` is the only task that waits then.
    /// `to` runs from then on. It has no item, so none is returned.
    ///
    /// Without `from` the running task, if one runs, has finished.
    ///
    /// In any other case it returns `false`, and nothing changes: other tasks wait or sleep in debt, `from` is not the
    /// running task, `to` is the running task, or another queue has one of both. The caller then uses the three
    /// methods, which return the exact reason.
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
        let sleeps = match self.tree.len() {
            0 => false,
            // Whether that is the one that woke up is asked where it is opened.
            1 if self.delayed == 1 => true,
            _ => return false,
        };
        let is_simple = match from {
            Some(from) if sleeps => self.hand_over_in_debt(from, to, woken, now),
            Some(from) => self.hand_over_to_newcomer(from, to, woken, now),
            None => self.current.is_none() && self.begin_alone(to.linked().erase(), sleeps, now),
        };
        is_simple || {
            let from = from.map(|from| from.linked().erase());
            self.hand_over_unevenly(from, to.linked().erase(), woken, now)
        }
    }

    /// Works as [`hand_over`](Self::hand_over) does, for two tasks of unit weight that take turns without a third
    /// one: `to` sleeps in debt, and `from` sleeps in debt from here on, in the middle of its request. Returns `false`,
    /// with nothing changed, in any other case.
    ///
    /// This function calls no other one, so that no registers are saved for a call.
    // Always: as `hand_over`.
    #[inline(always)]
    #[must_use]
    pub fn hand_over_in_debt(
        &mut self,
        from: Pin<&Entity<T>>,
        to: Pin<&Entity<T>>,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        // The only one of the tree sleeps, in debt, which is kept by the rules, then.
        if self.delayed != 1 {
            return false;
        }
        let last = self.last_pick();
        let Some(current) = &mut self.current else {
            return false;
        };
        if current.share.weight != Weight::UNIT || woken < self.accounted || now < woken {
            return false;
        }
        let before = woken.as_nanos() - self.accounted.as_nanos();
        let served = now.as_nanos() - self.accounted.as_nanos();
        // A request is short enough for `charge` to add up at once what is served of it, and for what follows.
        let (began_at, deadline) = (current.share.vruntime, current.share.deadline);
        if served >= deadline.since(began_at).cast_unsigned() {
            return false;
        }
        let stood_at = began_at.after(before.cast_signed());
        let slept_at = began_at.after(served.cast_signed());
        let pick = last.next();
        let mut stands = stood_at;
        let (to, from) = (to.linked().erase(), from.linked().erase());
        let is_done = self.tree.exchange_only(
            to,
            from,
            deadline,
            #[inline(always)]
            |woken, slept| {
                debug_assert!(woken.is_delayed, "it is the only one, and there is one");
                if !last.took(slept.pick) || woken.share.weight != Weight::UNIT {
                    return false;
                }
                // One that has paid is placed anew, where the other one stands.
                let is_placed = woken.is_eligible(halfway(stood_at, woken.share.vruntime));
                if !is_placed {
                    stands = woken.share.vruntime;
                }
                if stands >= slept_at {
                    // The one that sleeps owes nothing.
                    return false;
                }
                slept.share = Share {
                    vruntime: slept_at,
                    ..current.share
                };
                slept.is_delayed = true;
                *current = Current::of(woken.hand_out_again(is_placed.then_some(stands), pick));
                true
            },
        );
        if is_done {
            self.picks = pick.number;
            self.accounted = now;
            self.average = Average::of_near_pair(stands, slept_at);
        }
        is_done
    }

    /// Works as [`hand_over`](Self::hand_over) does, among tasks of any weight. Returns `false`, with no task
    /// moved, in any other case.
    #[inline(never)]
    fn hand_over_unevenly(
        &mut self,
        from: Option<EntryRef<'_, Fair<T>>>,
        to: EntryRef<'_, Fair<T>>,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let (sleeps, last) = (!self.tree.is_empty(), self.last_pick());
        if let Some(from) = from
            && (self.current.is_none() || adopt_picked(&mut self.tree, from, last).is_none())
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

    /// Works as [`hand_over`](Self::hand_over) does, between two tasks of unit weight of which `to` is in no
    /// queue. Returns `false`, with nothing changed, in any other case.
    #[inline(always)]
    fn hand_over_to_newcomer(
        &mut self,
        from: Pin<&Entity<T>>,
        to: Pin<&Entity<T>>,
        woken: RunTime,
        now: RunTime,
    ) -> bool {
        let (from, to) = (from.linked().erase(), to.linked().erase());
        let last = self.last_pick();
        let Some(current) = &mut self.current else {
            return false;
        };
        let Some((before, served)) =
            evenly(&current.share, &self.average, self.accounted, woken, now)
        else {
            return false;
        };
        let Some(mut slot) = adopt_picked(&mut self.tree, from, last) else {
            return false;
        };
        // What stands in the entity of the one that runs counts only when it sleeps.
        let head = slot.head();
        head.share = current.share;
        head.share.serve_evenly(before, served);
        let (slept_at, deadline) = (head.share.vruntime, head.share.deadline);
        let other = current.share.vruntime.after(before);
        let pick = last.next();
        let is_picked = place_evenly(&mut self.tree, to, other, pick, current);
        let Some(mut slot) = self.tree.open(from) else {
            unreachable!("it is adopted")
        };
        if !is_picked {
            slot.let_go();
            return false;
        }
        self.picks = pick.number;
        self.accounted = now;
        let stands = current.share.vruntime;
        let lag = halfway(slept_at, stands).since(slept_at);
        if lag < 0 {
            slot.head().is_delayed = true;
            self.delayed = 1;
            self.average = Average::of_pair(stands, slept_at);
            slot.insert(deadline);
            return true;
        }
        leave_evenly(slot, lag);
        self.delayed = 0;
        self.average = Average::of_one(Weight::UNIT, stands);
        true
    }

    /// Wakes or places, and picks, the only task that competes, while no task runs. Returns `false`, with nothing
    /// changed, if a queue has the task.
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
        } else {
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

    /// Wakes and picks the task that sleeps in debt and is the only task in the tree.
    fn take_sleeper(&mut self, entry: EntryRef<'_, Fair<T>>, pick: Pick) -> Option<Share> {
        let average = self.average.settle();
        let mut slot = self.tree.open(entry)?;
        let head = slot.head();
        if !head.is_delayed {
            return None;
        }
        if head.is_eligible(average) {
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
        let last = self.last_pick();
        let mut slot = self.tree.adopt(entry)?;
        let head = slot.head();
        if self.current.is_some() && last.took(head.pick) {
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

/// Returns the charges, in virtual time, of the task of this account until `woken` and until `now`; it was accounted
/// last at `accounted`. `None` if its weight is not the unit, or if `charge` would not just add them up.
#[inline(always)]
fn evenly(
    share: &Share,
    average: &Average,
    accounted: RunTime,
    woken: RunTime,
    now: RunTime,
) -> Option<(i64, i64)> {
    // Virtual times that are out of reach, and times before the last one.
    if share.weight != Weight::UNIT
        || !average.is_near(share.vruntime)
        || woken < accounted
        || now < woken
    {
        return None;
    }
    let before = woken.as_nanos() - accounted.as_nanos();
    let served = now.as_nanos() - accounted.as_nanos();
    (served >> 42 == 0).then(|| (before.cast_signed(), served.cast_signed()))
}

/// Places a newcomer as [`take_newcomer`](FairQueue::take_newcomer) does, beside a task of unit weight at `other`; the
/// caller updates the average. The newcomer runs from here on, as `current`. Takes no task of another weight.
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
        head.unpack_at(other.after(-(head.luggage.lag << 1)));
        *current = Current::of(head.hand_out(pick));
    }
    slot.let_go();
    is_even
}

/// Lays a task down as [`FairQueue::lay_down`] does, for a task that owes nothing and whose account is written; the
/// caller updates the average.
#[inline(always)]
fn leave_evenly<T: Send + 'static>(mut slot: OwnedEntry<'_, '_, Fair<T>>, lag: i64) {
    let head = slot.head();
    head.luggage = Luggage {
        lag: capped(lag, head.share),
        rest: None,
    };
    slot.let_go();
}

/// Adopts the entity of the task that `pick` took; returns `None` if `pick` took another task.
#[inline(always)]
fn adopt_picked<'t, 'e, T: Send + 'static>(
    tree: &'t mut Tree<Fair<T>>,
    entry: EntryRef<'e, Fair<T>>,
    pick: Pick,
) -> Option<OwnedEntry<'t, 'e, Fair<T>>> {
    let mut slot = tree.adopt(entry)?;
    if pick.took(slot.head().pick) {
        return Some(slot);
    }
    slot.let_go();
    None
}
