//! A process of the user-space host in virtual time: its worker threads are the CPUs of a profile, and each worker's
//! device is the deadline of its sleep.
//!
//! [`run`](crate::run()) is a kernel on a machine: it has a tick, interrupts and tasks. A [`Process`] is a program that
//! uses the library on such a machine, so that its results can be compared with a real run on the machine on which a
//! profile was measured. The core is the same; its calls to the host cost the times of the profile.
//!
//! # What the host's turn has, and this one
//!
//! The turn of `tickless` (its `host::turn` and `host::idle`) reads thread-local state, atomics and the operating
//! system's clock, which do not exist in virtual time. So this module repeats the calls into the core, in the same
//! order, for a worker on its own CPU. In `tickless` these calls are in `take_coarse`, `take_exact` and `enter_idle`.
//!
//! | the host of user space | here |
//! |---|---|
//! | wheels, device interrupt, flush at the end of the turn, budget of 4,096 timers | the same calls and number |
//! | sleeping: settles the armed device, hands over to idle, sleeps until the first timer of both kinds | the same |
//! | the choice of the far timers, which are not sorted | the core decides: [`is_far`](tickless_core::hrtimer::is_far) |
//! | readings of the clock, locks, cache lines, device writes, the kernel's part of a sleep | charged where they occur |
//! | the hierarchy: pulling for sleeping workers, publishing the next expiry | left out: a worker wakes for its own timers |
//! | soft callbacks | left out: no timer of a process has any |
//! | kicks, isolation, stuck workers, the expiry thread, event loops, forks | left out: the caller names each thread |
//!
//! # Limits
//!
//! Threads are named by the caller, one thread executes at a time, and each begins at its own time. A process and a
//! [`run`](crate::run()) must not share one thread of the machine that simulates.

mod host;
mod timers;

use std::rc::Rc;

use serde::Serialize;
use tickless_core::base::Timers;
use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_core::wheel::idle::{TickTime, wake_times};

use crate::model::cost_model::{self, CostModel};
use crate::model::current_cpu;
use crate::model::governor::choose;
use crate::model::profile::{IdleState, Profile};
use crate::model::time::Picos;
use host::{ProcessHost, TURN_BUDGET};
pub use timers::{CoarseTimer, ExactTimer, SleepTimer};

/// The tick of coarse timers in user space.
const TICK: Span = Span::from_nanos(1_000_000);

/// The counters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessCounts {
    /// Exact timers that were enqueued, in the sorted queue or the far wheel.
    pub inserts: u64,
    /// Exact timers that were dequeued: cancelled, fired, or moved.
    pub erases: u64,
    /// Exact timers that kept their place at a restart.
    pub in_place: u64,
    /// Deadlines passed to the device.
    pub device_writes: u64,
    /// Sleeps that ended.
    pub wakes: u64,
    /// Turns for an exact timer that found none due.
    pub spurious: u64,
    /// Coarse timers that were enqueued in a slot.
    pub coarse_files: u64,
    /// Coarse timers that were armed again and kept their slot.
    pub coarse_in_slot: u64,
    /// Coarse timers that were dequeued: cancelled or fired.
    pub coarse_takes: u64,
}

/// A worker thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// The time up to which the thread has executed.
    cursor: Picos,
    /// The part of the cursor's time in which the thread slept.
    slept: Picos,
    wakes: u64,
}

/// A process whose threads are workers.
#[derive(Debug)]
pub struct Process {
    timers: Rc<Timers<ProcessHost>>,
    states: Vec<IdleState>,
    threads: Vec<Thread>,
    /// The number of the thread that executes.
    me: u32,
    /// The number of device writes when the workers came online, before any operation.
    writes_before: u64,
}

impl Process {
    /// Makes a process with a worker on each CPU of `profile`. The first worker executes.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let topology = &profile.topology;
        let model = Rc::new(CostModel::new(&profile.costs, topology));
        cost_model::install(&model);
        let timers = Rc::new(Timers::new(ProcessHost::new(&model, topology.cpus())));
        timers.platform().make_bases(&timers);
        let mut process = Self {
            timers,
            states: profile.idle.clone(),
            threads: vec![Thread::default(); topology.cpus() as usize],
            me: 0,
            writes_before: 0,
        };
        for cpu in 0..topology.cpus() {
            process.timers.wheel_online(CpuId(cpu), Tick(0));
            process.timers.cpu_online(CpuId(cpu));
        }
        process.writes_before = process.counts().device_writes;
        process
    }

    /// Makes the worker `thread` the executing one, at its own time, but not before the present time.
    ///
    /// # Panics
    ///
    /// When the machine has fewer CPUs.
    pub fn switch_to(&mut self, thread: u32) {
        let now = self.threads[self.me as usize].cursor;
        let next = &mut self.threads[thread as usize];
        next.slept += now - next.cursor;
        next.cursor = next.cursor.max(now);
        self.me = thread;
    }

    /// Makes an exact timer.
    #[must_use]
    pub fn exact(&self) -> ExactTimer {
        ExactTimer::new(&self.timers)
    }

    /// Makes an exact timer like that of a future, which is not sorted while its deadline is far away.
    #[must_use]
    pub fn sleep(&self) -> SleepTimer {
        SleepTimer::new(&self.timers)
    }

    /// Makes a coarse timer.
    #[must_use]
    pub fn coarse(&self) -> CoarseTimer {
        CoarseTimer::new(&self.timers)
    }

    /// Executes `body` on the current worker.
    fn execute<R>(&mut self, body: impl FnOnce(&Timers<ProcessHost>) -> R) -> R {
        let thread = &mut self.threads[self.me as usize];
        current_cpu::enter(self.me, thread.cursor);
        let result = body(&self.timers);
        thread.cursor = current_cpu::leave();
        result
    }

    /// Starts `timer` for `at`, counted from the beginning of the process.
    pub fn start(&mut self, timer: &ExactTimer, at: Instant) {
        self.execute(|_| timer.start(at));
    }

    /// Cancels `timer`. Returns true if it was queued.
    pub fn cancel(&mut self, timer: &ExactTimer) -> bool {
        self.execute(|_| timer.cancel())
    }

    /// Begins a sleep of `after`, which costs a clock reading.
    pub fn begin(&mut self, timer: &mut SleepTimer, after: Span) {
        self.execute(|timers| {
            let now = timers.platform().glance();
            timer.start(now.saturating_add(after));
        });
    }

    /// Moves the deadline of a sleep.
    pub fn reset(&mut self, timer: &mut SleepTimer, at: Instant) {
        self.execute(|_| timer.restart(at));
    }

    /// Cancels a sleep.
    pub fn drop_sleep(&mut self, timer: &mut SleepTimer) {
        self.execute(|_| timer.cancel());
    }

    /// Arms `timer`, which is idle, to fire after the end of the tick `expiry`. The call costs a clock reading.
    ///
    /// # Panics
    ///
    /// When the timer is armed.
    pub fn arm(&mut self, timer: &CoarseTimer, expiry: Tick) {
        self.execute(|timers| {
            let now = tick_time(timers.platform().glance());
            timer.arm(now.tick, expiry);
        });
    }

    /// Arms `timer`, idle or not, for the tick `expiry`. The call costs a clock reading.
    pub fn modify(&mut self, timer: &CoarseTimer, expiry: Tick) {
        self.execute(|timers| {
            let now = tick_time(timers.platform().glance());
            timer.modify(now.tick, expiry);
        });
    }

    /// Cancels `timer`. Returns true if it was armed.
    pub fn delete(&mut self, timer: &CoarseTimer) -> bool {
        self.execute(|_| timer.delete())
    }

    /// Lets the worker poll until `at`.
    pub fn spin_until(&mut self, at: Instant) {
        let thread = &mut self.threads[self.me as usize];
        let at = Picos::of_instant(at);
        thread.slept += at - thread.cursor;
        thread.cursor = thread.cursor.max(at);
    }

    /// Takes a turn, which fires the due timers, and returns their number.
    pub fn turn(&mut self) -> u32 {
        let me = self.me;
        self.execute(|timers| turn(timers, CpuId(me)))
    }

    /// Sleeps until a timer is due, and takes a turn. Returns the number of timers that fired.
    pub fn park(&mut self) -> u32 {
        let cpu = CpuId(self.me);
        let until = self.execute(|timers| {
            let host = timers.platform();
            if is_due(timers, cpu, host.glance()) {
                return None;
            }
            let until = enter_idle(timers, cpu);
            current_cpu::charge(half_a_sleep(timers));
            Some(until)
        });
        if let Some(until) = until.filter(|until| !until.is_forever()) {
            self.sleep_until(Picos::of_instant(until));
            self.execute(|timers| {
                current_cpu::charge(half_a_sleep(timers));
                timers.wheel_leave_idle(cpu);
            });
        }
        self.turn()
    }

    fn sleep_until(&mut self, until: Picos) {
        let charges = *self.timers.platform().charges();
        let thread = &mut self.threads[self.me as usize];
        let state = choose(&self.states, until - thread.cursor);
        let wakes = until.max(thread.cursor) + charges.device_fire + self.states[state].exit;
        thread.slept += wakes - thread.cursor;
        thread.cursor = wakes;
        thread.wakes += 1;
    }

    /// Returns the time of the executing worker, at no cost.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.threads[self.me as usize].cursor.instant()
    }

    /// Returns the time for which the executing worker was awake so far.
    #[must_use]
    pub fn spent(&self) -> Picos {
        let thread = &self.threads[self.me as usize];
        thread.cursor - thread.slept
    }

    /// Returns the counts so far, summed over all threads.
    #[must_use]
    pub fn counts(&self) -> ProcessCounts {
        let mut counts = ProcessCounts::default();
        for (cpu, thread) in (0..).zip(&self.threads) {
            let one = self.timers.stats(CpuId(cpu));
            counts.inserts += one.starts - one.kept();
            counts.in_place += one.kept();
            counts.erases += one.starts - one.kept();
            counts.erases -= self.timers.pending(CpuId(cpu)) as u64;
            counts.device_writes += one.device_writes;
            counts.spurious += one.spurious;
            counts.coarse_files += one.coarse_arms - one.coarse_in_slot;
            counts.coarse_in_slot += one.coarse_in_slot;
            counts.coarse_takes += one.coarse_cancelled + one.coarse_expired;
            counts.wakes += thread.wakes;
        }
        counts.device_writes -= self.writes_before;
        counts
    }
}

/// Returns the time that it takes to fall asleep, which is also the time to wake up.
fn half_a_sleep(timers: &Timers<ProcessHost>) -> Picos {
    timers.platform().charges().park.scaled(1, 2)
}

/// Returns the tick in progress at `now`.
fn tick_time(now: Instant) -> TickTime {
    // Rounds down: the tick that `now` is in.
    let tick = now.as_nanos().unsigned_abs() / TICK.as_nanos();
    TickTime {
        tick: Tick(tick),
        began: Instant::ZERO.saturating_add(Span::from_nanos(tick * TICK.as_nanos())),
        period: TICK,
    }
}

/// Returns true if a timer is due on `cpu` at `now`.
fn is_due(timers: &Timers<ProcessHost>, cpu: CpuId, now: Instant) -> bool {
    timers.platform().local(cpu).fires.get() <= now || timers.wheel_is_due(cpu, tick_time(now).tick)
}

/// Lets the worker on `cpu` go to sleep. Returns the time until which it may sleep.
fn enter_idle(timers: &Timers<ProcessHost>, cpu: CpuId) -> Instant {
    timers.settle_armed(cpu);
    let exact = timers.platform().local(cpu).fires.get();
    let at = tick_time(timers.platform().glance());
    let mut coarse = Instant::FOREVER;
    timers.wheel_enter_idle(cpu, at.tick, |next| {
        let times = wake_times(next, at);
        coarse = times.local.min(times.global);
        times.may_idle
    });
    exact.min(coarse)
}

fn turn(timers: &Timers<ProcessHost>, cpu: CpuId) -> u32 {
    let host = timers.platform();
    let now = host.glance();
    let tick = tick_time(now).tick;
    let mut fired = 0;
    if timers.wheel_is_due(cpu, tick) {
        for kind in WheelKind::ALL {
            fired += timers.run_wheel(cpu, kind, tick, TURN_BUDGET).fired;
        }
    }
    let fires = &host.local(cpu).fires;
    if fires.get() <= now {
        fires.set(Instant::FOREVER);
        let turn = timers.interrupt(cpu);
        fired += turn.fired;
        timers.flush_deferred(cpu, tickless_core::event::Flush::TurnEnd);
        if turn.more {
            fires.set(now);
        }
    }
    timers.settle_armed(cpu);
    fired
}

#[cfg(test)]
mod tests;
