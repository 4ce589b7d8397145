//! The decisions of an idle CPU: whether it may stop its tick, and when it has to wake up (spec C-3.2, C-3.3, C-7.3,
//! C-7.4).

use core::pin::Pin;

use tickless_link::lock::RawLock;

use super::count::Duty;
use super::cpu::{Context, CpuTick, Role};
use super::nohz::{Forecast, Nohz, SleepLength, StoppedTick, TickDependencies};
use crate::cpu::CpuId;
use crate::hierarchy::HierarchyHost;
use crate::hrtimer::timer::{Expired, HrTimer};
use crate::platform::Platform;
use crate::restart::Restart;
use crate::time::{Instant, Monotonic, Offset};
use crate::trace::Event;
use crate::trace::KeepReason;
use crate::wheel::idle::{NextDue, TickTime, wake_times};

impl<P: Platform, S: HierarchyHost<WIDTH>, L: RawLock, const WIDTH: usize>
    Nohz<'_, P, S, L, WIDTH>
{
    /// Returns the time until which the CPU could sleep. Changes no state, so that the governor, which chooses the
    /// depth of the sleep, may still keep the tick.
    ///
    /// # Cost
    ///
    /// One lock; no lock if the tick cannot be stopped.
    pub fn forecast(&self, tick: &CpuTick, conditions: TickDependencies) -> Forecast {
        let at = self.count.now();
        let soon = at.began.saturating_add(at.period);
        let mut forecast = Forecast {
            own: soon,
            including_movable: soon,
            keeps: self.refusal(tick, conditions),
            leaves_wheels: conditions.pass_pending,
        };
        if forecast.keeps.is_some() {
            return forecast;
        }
        if !conditions.wants_tick && !forecast.leaves_wheels {
            let next = self.timers.wheel_next(tick.cpu(), at.tick);
            (forecast.own, forecast.including_movable) = self.foresee(tick.cpu(), next, at);
        }
        if forecast.own <= soon && !tick.is_stopped() {
            forecast.keeps = Some(KeepReason::Soon);
            return forecast;
        }
        if self.count.duty().concerns(tick.cpu()) {
            // A CPU has to look at the clock before its counter wraps.
            let limit = at.began.saturating_add(self.max_deferment);
            forecast.own = forecast.own.min(limit);
            forecast.including_movable = forecast.including_movable.min(limit);
        }
        forecast
    }

    /// Returns the time for which the CPU could sleep from `entered` on. The result also considers its exact timers.
    ///
    /// # Cost
    ///
    /// One lock, as [`next_event_without`](crate::base::Timers::next_event_without).
    #[must_use]
    pub fn sleep_length<F>(
        &self,
        tick: &CpuTick,
        timer: Pin<&HrTimer<F>>,
        forecast: Forecast,
        entered: Instant,
    ) -> SleepLength
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        let until = |instant: Instant| {
            Offset::from_nanos(instant.as_nanos().saturating_sub(entered.as_nanos()))
        };
        if forecast.keeps.is_some() {
            let device = until(self.timers.next_event(tick.cpu()));
            return SleepLength {
                own: device,
                including_movable: device,
            };
        }
        let exact = self.timers.next_event_without(tick.cpu(), timer);
        SleepLength {
            own: until(forecast.own.min(exact)),
            including_movable: until(forecast.including_movable.min(exact)),
        }
    }

    /// Stops the tick. If it is stopped already, makes sure that the CPU wakes up in time (spec C-3.4).
    ///
    /// Called with a fresh `forecast`, each time before the CPU sleeps, also after interrupts that did not end idle.
    /// The CPU never wakes up later than the forecast, because the depth of the sleep may depend on the forecast.
    ///
    /// # Errors
    ///
    /// The reason why the tick keeps running, with nothing changed. If the tick is stopped, the reason why the CPU
    /// should not sleep now; the timer of the tick has not changed then.
    ///
    /// # Cost
    ///
    /// The lock of the base, and the locks of the hierarchy for a CPU that goes idle. Starting the timer takes the lock
    /// of the base twice more.
    pub fn stop<F>(
        &self,
        tick: &mut CpuTick,
        timer: Pin<&HrTimer<F>>,
        forecast: Forecast,
    ) -> Result<StoppedTick, KeepReason>
    where
        F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static,
    {
        let cpu = tick.cpu();
        let committed = match forecast.keeps {
            Some(keep) => Err(keep),
            None if forecast.leaves_wheels => Ok(forecast.own),
            None => self.commit(cpu, forecast.own).ok_or(KeepReason::HandedOver),
        };
        let wake = match committed {
            Ok(wake) => wake,
            Err(keep) => {
                self.trace(|| Event::TickKept { cpu, keep });
                return Err(keep);
            }
        };
        let wake = wake.min(forecast.own);
        self.count.give_up(tick.cpu());
        let was_ticking = !tick.is_stopped();
        let stands = || timer.deadline(self.timers).unwrap_or(Instant::FOREVER);
        // What is over is due in the tick in progress, which is another one at each look. Where the timer stands
        // already, its interrupt is on its way.
        let is_over = !was_ticking && wake <= self.count.now().began;
        let wake = if is_over { wake.min(stands()) } else { wake };
        let changed = tick.stop(wake);
        if was_ticking {
            self.trace(|| Event::TickStop { cpu, wake });
        }
        self.trace(|| Event::TickLeft { cpu, wake });
        // Also if nothing changed: the timer itself says what it stands at.
        let was_programmed = changed.is_some() || stands() != wake;
        if was_programmed {
            if wake.is_forever() {
                timer.cancel(self.timers);
            } else {
                self.start(timer, wake);
            }
        }
        Ok(StoppedTick {
            wake,
            was_ticking,
            was_programmed,
        })
    }

    /// Returns the reason why the tick must not be stopped, independently of the next event (spec C-7.3).
    fn refusal(&self, tick: &CpuTick, conditions: TickDependencies) -> Option<KeepReason> {
        match (tick.context, tick.role()) {
            (Context::Idle, _) => {}
            (Context::Offline, _) => return Some(KeepReason::Offline),
            (Context::Task, Role::TicklessTasks) => {
                if conditions.dependency {
                    return Some(KeepReason::Dependency);
                }
            }
            (Context::Task, Role::Housekeeping) => {
                return Some(KeepReason::NotIdle);
            }
        }
        if conditions.reschedule {
            return Some(KeepReason::Reschedule);
        }
        if conditions.soft_work {
            return Some(KeepReason::SoftWork);
        }
        if self.count.has_tickless_tasks() {
            match self.count.duty() {
                Duty::Taken { by } if by == tick.cpu() => return Some(KeepReason::Timekeeper),
                Duty::Taken { .. } => {}
                Duty::Free { .. } => return Some(KeepReason::NoTimekeeper),
            }
        }
        None
    }

    /// Computes the result of a [`commit`](Self::commit) without changing any state (first half of spec C-3.3).
    fn foresee(&self, cpu: CpuId, next: NextDue, at: TickTime) -> (Instant, Instant) {
        let times = wake_times(next, at);
        if !times.may_idle {
            let first = next.local.into_iter().chain(next.global).min();
            if let Some(missed) = first.and_then(|first| at.tick.0.checked_sub(first.0)) {
                let late = at.period.as_nanos().saturating_mul(missed);
                let due = at.began.as_nanos().saturating_sub_unsigned(late);
                let _due_now = self.not_over(cpu, Instant::from_nanos(due), at);
            }
            return (times.local, times.local);
        }
        let cover = match self.tree.host().node(cpu) {
            // It has told already what it has; a timer that it armed since is found by the commitment.
            Some(node) if node.is_available() && node.is_idle() => node.wakeup(),
            _ => self.tree.peek(cpu, times.global),
        };
        let own = self.not_over(cpu, times.local.min(cover), at);
        (own, own.min(times.global))
    }

    /// Returns `due`, or the beginning of the tick in progress if `due` is before it: a pass is late, and the CPU does
    /// not sleep. That is counted and reported.
    fn not_over(&self, cpu: CpuId, due: Instant, at: TickTime) -> Instant {
        if due >= at.began {
            return due;
        }
        self.count.note_overdue();
        self.trace(|| Event::TickOverdue { cpu, due });
        at.began
    }

    /// Enters idle in the hierarchy, and notes that the CPU sleeps, in one lock section (second half of spec C-3.3).
    /// Returns the wake-up time; `None` if that time is too near for a CPU that is still awake.
    ///
    /// `foreseen` is the time of the forecast, which reported what was over then.
    fn commit(&self, cpu: CpuId, foreseen: Instant) -> Option<Instant> {
        let at = self.count.now();
        let was_idle = self.timers.wheel_sleeps(cpu);
        let mut wake = Instant::FOREVER;
        let idles = self.timers.wheel_enter_idle(cpu, at.tick, |next| {
            let times = wake_times(next, at);
            wake = times.local;
            let mut idles = was_idle;
            if times.may_idle {
                let cover = if was_idle {
                    self.tree.rearm_from_idle(cpu, times.global)
                } else {
                    self.tree.enter_idle(cpu, times.global)
                };
                let due = wake.min(cover);
                wake = if foreseen <= at.began {
                    due.max(at.began)
                } else {
                    self.not_over(cpu, due, at)
                };
                // More than a tick is left. Rounds down: a part of a tick is none.
                let ahead = wake.saturating_since(at.began).as_nanos() / at.period.as_nanos();
                idles |= ahead > 1;
                if !idles {
                    // A CPU that is awake is active in the tree, or no CPU there looks after the others (R60).
                    self.tree.leave_idle(cpu);
                }
            }
            idles
        });
        idles.then_some(wake)
    }
}
