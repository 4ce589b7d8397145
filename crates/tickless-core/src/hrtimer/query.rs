//! Queries about timers and CPUs. No query changes the time at which a timer fires. A query for the next event may
//! requeue timers with a stale key, and sort far timers.

use core::pin::Pin;

use crate::base::cpu_base::CpuBase;
use crate::base::owner::head_of;
use crate::base::stats::Stats;
use crate::base::timers::Timers;
use crate::clock::SetSequence;
use crate::cpu::CpuId;
use crate::exact::family::NEAR;
use crate::hrtimer::timer::{Expired, HrTimer};
use crate::platform::Platform;
use crate::restart::Restart;
use crate::time::{ClockId, Instant, Offset};

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    /// Returns the deadline of `timer`, if it is queued.
    pub fn deadline<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<Instant<C>> {
        let entry = self.erase();
        if !entry.state().is_queued() {
            return None;
        }
        let mut held = timers.lock_base_of(entry, timers.platform.this_cpu());
        let deadline = head_of(&mut held, entry).deadline();
        entry.state().is_queued().then(|| deadline.instant())
    }

    /// Returns the CPU of `timer`; `None` if the timer never was on a CPU. It is meant for tests and dumps, because
    /// another CPU may have moved the timer since.
    pub fn cpu<P: Platform>(self: Pin<&Self>, timers: &Timers<P>) -> Option<CpuId> {
        match self.erase().owner() {
            tickless_link::entry::Owner::Queue(id) => timers.owning_base(id).map(CpuBase::cpu),
            _ => None,
        }
    }

    /// Returns the identity of `timer` in traces and dumps: its address, which is never dereferenced.
    pub fn id(self: Pin<&Self>) -> usize {
        self.erase().address()
    }
}

impl<P: Platform> Timers<P> {
    /// Returns the next event of `cpu`, over the queues of both stages; `FOREVER` if no timer is queued.
    ///
    /// To find the result, the call may sort far timers, or check each of them if too many are in the first slot. It
    /// changes nothing else. While the soft stage is pending, the soft timers do not count (spec Q-20).
    pub fn next_event(&self, cpu: CpuId) -> Instant {
        self.next_event_except(cpu, 0)
    }

    /// Returns the next event that `cpu` would have without `timer` (spec ).
    ///
    /// Idle code calls it with the timer of the tick before it stops the tick, to find out how long `cpu` could sleep.
    pub fn next_event_without<F, C>(&self, cpu: CpuId, timer: Pin<&HrTimer<F, C>>) -> Instant
    where
        F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
        C: ClockId,
    {
        self.next_event_except(cpu, timer.erase().address())
    }

    fn next_event_except(&self, cpu: CpuId, excluded: usize) -> Instant {
        let Some(mut held) = self.lock(cpu) else {
            return Instant::FOREVER;
        };
        let state = &mut *held.state;
        let counted = state.counted();
        let overfull = state.far.cascade_next(&mut state.queues, counted, excluded);
        let mut first = state.queues.minimum_without(counted, excluded);
        if overfull < first {
            let offset = state.queues[NEAR].offset;
            state.far.buckets().for_each(|entry, _, head| {
                if entry.address() != excluded {
                    first = first.min(offset.to_monotonic(head.deadline()));
                }
                true
            });
        }
        first.not_negative()
    }

    /// Reads clock `C`.
    pub fn now<C: ClockId>(&self) -> Instant<C> {
        let (now, offsets) = self.platform.now_and_offsets(SetSequence::UNSEEN);
        let offset = offsets.map_or(Offset::NONE, |(_, offsets)| offsets.of(C::CLOCK));
        offset.shown_at(now).instant()
    }

    /// Returns true if the last interrupt of `cpu` gave up, so that its device fires later than its first timer (spec
    /// IRQ-3).
    pub fn is_backing_off(&self, cpu: CpuId) -> bool {
        self.lock(cpu).is_some_and(|held| held.state.hang)
    }

    /// Returns the counters of `cpu`.
    pub fn stats(&self, cpu: CpuId) -> Stats {
        self.lock(cpu)
            .map_or_else(Stats::default, |held| held.state.stats.told())
    }

    /// Returns the number of [pending](Timers::pending) timers of `cpu` in sorted queues; the others are in the far
    /// wheel.
    pub fn sorted(&self, cpu: CpuId) -> usize {
        self.lock(cpu).map_or(0, |held| held.state.queues.pending())
    }

    /// Returns the number of timers queued on `cpu`.
    pub fn pending(&self, cpu: CpuId) -> usize {
        self.lock(cpu).map_or(0, |held| {
            held.state.queues.pending() + held.state.far.buckets().len()
        })
    }
}
