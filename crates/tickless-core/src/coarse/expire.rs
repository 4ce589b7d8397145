//! The pass that fires the due timers of a wheel (spec C-1.7).

use core::task::Waker;

use tickless_link::entry::{Fired, Running};

use crate::base::guard::BaseGuard;
use crate::base::runner::{Batch, Ran, Runner};
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::platform::Platform;
use crate::restart::Restart;
use crate::slots::geometry::Tick;
use crate::trace::{Event, TimerId};
use crate::wheel::family::{Coarse, ExpiryTick, Timeout, WheelKind};

/// The result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the host has to know whether more is due"]
pub struct Pass {
    /// The number of timers that fired.
    pub fired: u32,
    /// The reason why the pass ended.
    pub end: PassEnd,
}

impl Pass {
    const NOTHING: Self = Self {
        fired: 0,
        end: PassEnd::Done,
    };
}

/// The reason why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassEnd {
    /// All due timers were fired.
    Done,
    /// The budget is spent, and more timers are due: the next pass continues.
    Budget,
    /// Another pass of this wheel fires the timers. The other pass is further down the caller's stack or on two other
    /// CPUs.
    Elsewhere,
}

/// The maximum number of timers that one section of the base lock enqueues again. The section needs a bound, because a
/// slot may hold any number of timers that were pushed out.
const REFILES_MAX: u32 = 16;

impl<'a, P: Platform> Runner<'a, P> {
    /// Fires the timers of a wheel that are due at `now`.
    ///
    /// A timer that a callback enqueues meanwhile is due later, so the loop ends.
    fn run_wheel(
        &mut self,
        mut held: BaseGuard<'a, P>,
        (kind, place): (WheelKind, usize),
        now: Tick,
        budget: u32,
    ) -> (BaseGuard<'a, P>, Ran) {
        let mut handled = 0;
        let mut woken = Batch::new();
        loop {
            let wheel = &mut held.state.wheels[kind as usize];
            let Some(level) = wheel.pending_level() else {
                let is_due = wheel.take_due(now);
                held.publish_next_expiry(kind);
                if !is_due {
                    return (held, Ran::All);
                }
                continue;
            };
            if handled >= budget {
                held.state.stats.budget_exhausted += 1;
                return (held, Ran::SomeOfThem);
            }
            let fired = self.fired;
            if wheel.buckets.first_pending_is_taken(level)
                && !self.timers.platform.is_expiry_traced()
            {
                self.take_tasks(&mut held, (kind, level), budget - handled, &mut woken);
            }
            if !woken.is_empty() {
                handled += self.fired - fired;
                drop(held);
                woken.wake_all(&self.timers.platform);
                held = self.after_wake_up(None);
                continue;
            }
            handled += 1;
            held = self.handle(held, (kind, place), level, now);
            if self.fired == fired && handled % REFILES_MAX == 0 {
                drop(held);
                held = self.lock();
            }
        }
    }

    /// Fires the task timers at the front of a pending list: at most `budget` timers, and at most as many as `woken`
    /// has free places. Called only while no trace is recorded, because a trace records the begin and the end of each
    /// expiry without the lock (spec ).
    ///
    /// The first timer with a callback stays in the list, and so do all timers after it. A task may wait for the end of
    /// a callback, and the callback must not count as begun before that task is woken.
    // Never: as the exact side's `fire_run`.
    #[inline(never)]
    fn take_tasks(
        &mut self,
        held: &mut BaseGuard<'a, P>,
        (kind, level): (WheelKind, usize),
        budget: u32,
        woken: &mut Batch,
    ) {
        let wheel = &mut held.state.wheels[kind as usize];
        let due = wheel.pending_due();
        let is_due = |expiry: &ExpiryTick| expiry.get() < due;
        let mut count = 0;
        woken.fill(|places| {
            let free = places.len().min(budget as usize);
            let places = &mut places[..free];
            count = wheel.buckets.take_pending(level, is_due, places);
            count
        });
        held.state.stats.coarse_expired += count as u64;
        #[expect(clippy::cast_possible_truncation, reason = "a batch is small")]
        {
            self.fired += count as u32;
        }
    }

    /// Fires the first timer of a pending list, or enqueues the timer again if it is not due yet.
    fn handle(
        &mut self,
        mut held: BaseGuard<'a, P>,
        (kind, place): (WheelKind, usize),
        level: usize,
        now: Tick,
    ) -> BaseGuard<'a, P> {
        let wheel = &mut held.state.wheels[kind as usize];
        let due = wheel.pending_due();
        let Some(bucketed) = wheel.buckets.open_first_pending(level) else {
            return held;
        };
        let entry = bucketed.entry();
        let expiry = entry.shared().get();
        if bucketed.state().is_running() || expiry >= due {
            wheel.requeue_first_pending(level, now);
            held.state.stats.coarse_requeued += 1;
            return held;
        }
        let timer = TimerId(entry.address());
        let code = entry.code_address();
        let is_traced = self.timers.platform.traces_expiry();
        let (fired, left) = bucketed.expire(place);
        wheel.note_left(left);
        held.state.stats.coarse_expired += 1;
        self.fired += 1;
        drop(held);
        let timeout = Timeout {
            now,
            due,
            expiry,
            kind,
            cpu: self.base.cpu(),
            executed_by: self.me.map(|me| me.base.cpu()),
        };
        if P::TRACE && is_traced {
            let timers = self.timers;
            timers.platform.trace(Event::WheelExpire {
                timer,
                code,
                timeout,
            });
        }
        match fired {
            Fired::Done(waker) => {
                if self.timers.platform.is_expiry_traced() {
                    self.timers.platform.trace(Event::ExpireExit { timer });
                }
                self.after_wake_up(waker)
            }
            Fired::Call(running) => {
                let (held, wakes) = self.call_coarse(running, timeout);
                if wakes.is_none() && !self.has_waiters() {
                    return held;
                }
                self.after_callback(held, wakes)
            }
        }
    }

    /// Executes a callback, and enqueues the timer again if the callback returns so.
    fn call_coarse(
        &self,
        mut running: Running<Coarse>,
        mut timeout: Timeout,
    ) -> (BaseGuard<'a, P>, Option<Waker>) {
        let (kind, now) = (timeout.kind, timeout.now);
        let timer = TimerId(running.address());
        let mut verdict = Restart::No;
        self.execute(timer, &mut || verdict = running.call(&mut timeout));
        let mut held = self.lock();
        let wheel = &mut held.state.wheels[kind as usize];
        let (expiry, wakes) = match verdict {
            Restart::No => (None, None),
            Restart::NoThenWake(waker) => (None, Some(waker)),
            Restart::Yes => (Some(timeout.expiry), None),
        };
        let state = running.state();
        // A thread that armed it, or shut it down, meanwhile has the last word.
        match expiry.filter(|_| !state.is_queued() && !state.is_shut()) {
            None => running.stop(&mut wheel.buckets),
            Some(expiry) => {
                wheel.pending_map.forward(now);
                let place = wheel.pending_map.place(expiry);
                running.shared().set(expiry);
                running.requeue_in(&mut wheel.buckets, place.slot.number(), |()| ());
                wheel.note_enqueued(place);
                held.publish_next_expiry(kind);
                held.state.stats.coarse_arms += 1;
                if self.timers.platform.is_traced() {
                    self.timers.platform.trace(Event::WheelArm {
                        cpu: self.base.cpu(),
                        kind,
                        timer,
                        code: 0,
                        now,
                        expiry,
                        due: place.due,
                        was_armed: false,
                    });
                }
            }
        }
        (held, wakes)
    }
}

impl<P: Platform> Timers<P> {
    /// Returns true if a pass over the wheels of `cpu` at `now` may find due timers.
    ///
    /// The result may be wrong in both directions: see spec C-2.4. A timer that one check misses is found a tick later.
    ///
    /// # Interrupt context
    ///
    /// Callable in any context. The intended callers are the tick and loops that poll.
    ///
    /// # Cost
    ///
    /// Three loads, no lock.
    #[inline]
    pub fn wheel_is_due(&self, cpu: CpuId, now: Tick) -> bool {
        self.platform.base(cpu).is_some_and(|base| {
            WheelKind::ALL
                .into_iter()
                .any(|kind| base.is_due(kind, now))
        })
    }

    /// Fires the timers of one wheel of `cpu` that are due at `now`, `budget` of them at most.
    ///
    /// If the budget was not spent, no timer of this wheel is due at `now` afterwards. If the budget was spent, the
    /// next pass continues, and until then [`wheel_is_due`](Self::wheel_is_due) returns true.
    ///
    /// Ticks fire in order. At one tick the coarser slots fire first, and each slot fires in the order in which its
    /// timers were enqueued. So timers with the same expiry that are due at the same tick fire in the order in which
    /// they were armed, because the timer that was armed earlier is in the coarser slot. A timer that is modified and
    /// can stay in its slot keeps its place in this order. A timer that was pushed out and [waits in a
    /// slot](crate::coarse::WheelTimer::modify_in_slot) before its expiry gets a new place in this order when it is
    /// enqueued again.
    ///
    /// Other CPUs may run the global wheel of a CPU while that CPU sleeps. Only the CPU itself runs its other two
    /// wheels. The wheels of an offline CPU are not run.
    ///
    /// This pass does not wait for another pass of the wheel, because the thread of the other pass may be preempted or
    /// in a long callback. This pass takes over the timers that the other pass has not begun.
    ///
    /// # Interrupt context
    ///
    /// Called in the soft stage, or in any other place where callbacks may run, without any lock. A callback that runs
    /// its own wheel gets [`Elsewhere`](PassEnd::Elsewhere).
    ///
    /// # Cost
    ///
    /// One load if nothing is due. Otherwise two locks, and one more for each callback and each batch of tasks.
    pub fn run_wheel(&self, cpu: CpuId, kind: WheelKind, now: Tick, budget: u32) -> Pass {
        let Some(base) = self.platform.base(cpu) else {
            return Pass::NOTHING;
        };
        if !base.is_due(kind, now) {
            return Pass::NOTHING;
        }
        let me = self.platform.this_cpu();
        let mut held = BaseGuard::lock(self, base, me);
        if !base.is_online() {
            return Pass::NOTHING;
        }
        let by = me.map(|me| me.base.cpu());
        let Some(place) = held.state.wheels[kind as usize].begin_pass(cpu, by) else {
            return Pass {
                fired: 0,
                end: PassEnd::Elsewhere,
            };
        };
        // The expiry lock comes before the base lock, and is not waited for before it is clear that no CPU runs there.
        drop(held);
        let mut runner = Runner::new(self, base, &base.coarse[kind as usize][place], true);
        if self.platform.is_traced() {
            self.platform.trace(Event::WheelPass { cpu, kind, now });
        }
        let held = runner.lock();
        let (mut held, ran) = runner.run_wheel(held, (kind, place), now, budget);
        held.state.wheels[kind as usize].end_pass(place);
        drop(held);
        Pass {
            fired: runner.fired,
            end: match ran {
                Ran::All => PassEnd::Done,
                Ran::SomeOfThem => PassEnd::Budget,
            },
        }
    }
}
